"""What is wrong with annotations of ours, in words."""

import pytest

from wainwright.translate.annotations import (
    EXPECTED_ANNOTATIONS,
    annotation_problems,
    describe_problems,
)

READ = {
    "wainwright.dev/minimum-saving": ["5%", "0.05"],
    "wainwright.dev/spot-to-spot-types": ["15"],
    "wainwright.dev/pause": ["all", " Disruption", "provisioning", "false", ""],
    "wainwright.dev/kube-reserved-memory-strategy": ["EKS", "GKE"],
    "wainwright.dev/storage-per-pod": ["2Gi", "0"],
    "wainwright.dev/runs-for": ["20m", "1h30m"],
}
EXPECTED = [(kind, key) for kind, known in EXPECTED_ANNOTATIONS.items() for key in known]


def described(kind: str, key: str, text: str) -> str:
    return describe_problems(annotation_problems(kind, {key: text}))


@pytest.mark.parametrize(("kind", "key"), EXPECTED)
def test_what_can_be_read_is_no_problem(kind: str, key: str) -> None:
    assert [described(kind, key, text) for text in READ[key]] == [""] * len(READ[key])


@pytest.mark.parametrize(("kind", "key"), EXPECTED)
def test_each_says_what_it_expects(kind: str, key: str) -> None:
    said = described(kind, key, "whatever")
    expected = EXPECTED_ANNOTATIONS[kind][key]
    assert said.startswith(f'{key}: "whatever" is not {expected.expected}: {expected.effect}')


@pytest.mark.parametrize(
    ("kind", "key", "text", "said"),
    [
        (
            "NodePool",
            "wainwright.dev/pause",
            "yes",
            'wainwright.dev/pause: "yes" is not one of all, disruption, provisioning: everything '
            "is paused; did you mean all?",
        ),
        (
            "NodePool",
            "wainwright.dev/pause",
            "distruption",
            'wainwright.dev/pause: "distruption" is not one of all, disruption, provisioning: '
            "everything is paused; did you mean disruption?",
        ),
        (
            "NodePool",
            "wainwright.dev/puase",
            "all",
            "wainwright.dev/puase is not an annotation that a NodePool is known to have: it is "
            "ignored; did you mean wainwright.dev/pause?",
        ),
        (
            "EC2NodeClass",
            "wainwright.dev/pause",
            "all",
            "wainwright.dev/pause is not an annotation that an EC2NodeClass is known to have: it "
            "is ignored; it belongs on a NodePool",
        ),
    ],
)
def test_the_word_the_name_or_the_kind_that_was_meant_is_named(
    kind: str, key: str, text: str, said: str
) -> None:
    assert described(kind, key, text) == said


def test_annotations_of_others_and_those_that_controllers_write_are_no_problem() -> None:
    annotations = {
        "example.com/pause": "yes",
        "karpenter.sh/nodepool-hash": "1",
        "pause": "yes",
        "wainwright.dev/voluntary-removals": "3 of 10 at 2026-01-01T00:10:00Z",
    }
    assert [*annotation_problems("NodePool", annotations)] == []


def test_a_value_of_any_length_is_cut_and_compared_with_nothing() -> None:
    said = described("NodePool", "wainwright.dev/pause", "x" * 250_000)
    assert len(said) < 250
    assert said.endswith("everything is paused; did you mean all?")


def test_several_problems_are_one_sentence_after_the_other() -> None:
    annotations = {"wainwright.dev/minimum-saving": "ten", "wainwright.dev/pause": "1"}
    assert describe_problems(annotation_problems("NodePool", annotations)) == (
        'wainwright.dev/minimum-saving: "ten" is not 5% or USD per hour such as 0.05: it is '
        'ignored; wainwright.dev/pause: "1" is not one of all, disruption, provisioning: '
        "everything is paused; did you mean all?"
    )
