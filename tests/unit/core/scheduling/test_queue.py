"""Which pod comes first, and which pods are of one class."""

from wainwright.core.scheduling.pod_classes import PodClasses
from wainwright.core.scheduling.queue import build_queue
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements


def pod(name: str, **more: object) -> Pod:
    return Pod(namespace="d", name=name, **more)  # type: ignore[arg-type]


def order(*pods: Pod) -> list[str]:
    return [each.name for run in build_queue(PodClasses(pods).all) for each in run.pods]


def test_more_cpu_comes_first_and_then_more_memory() -> None:
    small = pod("small", requests={"cpu": 100, "memory": 9})
    wide = pod("wide", requests={"cpu": 200, "memory": 5})
    narrow = pod("narrow", requests={"cpu": 200, "memory": 1})
    nothing = pod("nothing")
    assert order(nothing, small, narrow, wide) == ["wide", "narrow", "small", "nothing"]


def test_among_equals_the_older_comes_first_and_the_undated_last() -> None:
    pods = [pod("undated"), pod("young", created=9.0), pod("old", created=1.0)]
    assert order(*pods) == ["old", "young", "undated"]


def test_of_one_age_the_uid_decides_and_then_namespace_and_name() -> None:
    assert order(pod("a", uid="2"), pod("b", uid="1")) == ["b", "a"]
    assert order(pod("b"), pod("a"), Pod(namespace="c", name="z")) == ["z", "a", "b"]


def test_pods_that_ask_the_same_are_one_class_however_it_is_written() -> None:
    one = pod("a", requests={"cpu": 1, "memory": 2, "gpu": 0})
    other = pod("b", requests={"memory": 2, "cpu": 1})
    assert len(PodClasses([one, other]).all) == 1


def test_labels_and_tolerations_make_classes() -> None:
    plain, choosy = pod("a"), pod("b", alternatives=(Requirements.from_labels({"disk": "ssd"}),))
    assert len(PodClasses([plain, choosy]).all) == 2


def test_every_pod_takes_one_slot_whatever_it_says() -> None:
    classes = PodClasses([pod("a", requests={"pods": 7})])
    assert classes.resources == ["pods"]
    assert [wish.amounts for wish in classes.pod_requirements] == [((0, 1),)]
