"""The memory that nodes turn out to have."""

from tests.support.emulated import HandClock

from wainwright.aws.discovered import Discovered
from wainwright.aws.nodeclass.resolved import Image
from wainwright.model.requirements import Requirements

LARGE, XLARGE = "m5.large", "m5.xlarge"
KINDS = {
    name: Requirements.from_labels({"kubernetes.io/arch": "amd64", "type": name})
    for name in (LARGE, XLARGE)
}


def image(name: str, arch: str = "amd64") -> Image:
    labels = Requirements.from_labels({"kubernetes.io/arch": arch})
    return Image(id=name, name=name, requirements=labels)


def test_it_counts_for_the_type_with_the_image_that_the_class_boots() -> None:
    found = Discovered(HandClock())
    found.learn(LARGE, "ami-1", 7_000)
    assert found.of(KINDS, [image("ami-1")]) == {LARGE: 7_000}
    assert found.of(KINDS, [image("ami-2"), image("ami-1")]) == {}
    assert found.of(KINDS, [image("ami-9", "arm64"), image("ami-1")]) == {LARGE: 7_000}


def test_of_nodes_that_differ_the_smallest_counts() -> None:
    found = Discovered(HandClock())
    for memory in (7_000, 6_900, 7_100):
        found.learn(LARGE, "ami-1", memory)
    assert found.of(KINDS, [image("ami-1")]) == {LARGE: 6_900}


def test_a_node_that_does_not_know_yet_says_nothing() -> None:
    found = Discovered(HandClock())
    found.learn(LARGE, "ami-1", 0)
    assert found.of(KINDS, [image("ami-1")]) == {}
    assert found.version == 0


def test_who_keeps_catalogues_hears_only_of_news() -> None:
    found = Discovered(HandClock())
    found.learn(LARGE, "ami-1", 7_000)
    first = found.version
    found.learn(LARGE, "ami-1", 7_000)
    found.learn(LARGE, "ami-1", 8_000)
    assert found.version == first
    found.learn(LARGE, "ami-1", 6_000)
    assert found.version != first


def test_it_is_forgotten_after_two_months() -> None:
    clock = HandClock()
    found = Discovered(clock)
    found.learn(LARGE, "ami-1", 7_000)
    clock.time += 60 * 86_400
    assert found.of(KINDS, [image("ami-1")]) == {}
    found.learn(LARGE, "ami-1", 7_500)
    assert found.of(KINDS, [image("ami-1")]) == {LARGE: 7_500}
