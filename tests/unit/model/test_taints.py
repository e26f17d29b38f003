"""Which tolerations tolerate which taints."""

import pytest

from wainwright.model.taints import (
    DISRUPTED_TAINT,
    TOLERATE_PREFER_NO_SCHEDULE,
    UNREGISTERED_TAINT,
    Taint,
    Toleration,
    TolerationOperator,
    find_untolerated_taint,
    is_ephemeral_taint,
)

EQUAL = TolerationOperator.EQUAL
EXISTS = TolerationOperator.EXISTS
GREATER = TolerationOperator.GREATER
LESS = TolerationOperator.LESS

GPU = Taint(key="gpu", value="yes", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="gpu", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="cpu", value="yes"), False),
        (Toleration(key="gpu", value="yes", effect="NoExecute"), False),
        (Toleration(key="gpu", operator=EXISTS), True),
        (Toleration(key="cpu", operator=EXISTS), False),
        (Toleration(operator=EXISTS), True),
        (Toleration(operator=EXISTS, effect="NoSchedule"), True),
        (Toleration(operator=EXISTS, effect="NoExecute"), False),
        (Toleration(operator=EQUAL, value="yes"), False),
    ],
)
def test_key_value_and_effect_must_match_where_they_are_set(
    toleration: Toleration, tolerated: bool
) -> None:
    assert toleration.tolerates(GPU) is tolerated


@pytest.mark.parametrize(
    ("operator", "bound", "value", "tolerated"),
    [
        (GREATER, "750", "950", True),
        (GREATER, "950", "950", False),
        (GREATER, "950", "800", False),
        (LESS, "950", "800", True),
        (LESS, "800", "950", False),
        (LESS, "-50", "-100", True),
        (GREATER, "0", "9223372036854775807", True),
        (GREATER, "0", "9223372036854775808", False),
        (GREATER, "950", "high", False),
        (GREATER, "high", "950", False),
        (GREATER, "100", "0200", False),
        (LESS, "100", "+20", False),
        (GREATER, "100", "", False),
    ],
)
def test_numeric_tolerations_compare_the_value_of_the_taint_with_their_own(
    operator: TolerationOperator, bound: str, value: str, tolerated: bool
) -> None:
    taint = Taint(key="service-level", value=value)
    toleration = Toleration(key="service-level", operator=operator, value=bound)
    assert toleration.tolerates(taint) is tolerated


def test_the_first_taint_that_is_not_tolerated_is_returned() -> None:
    other = Taint(key="team", value="web", effect="NoExecute")
    tolerations = [Toleration(key="gpu", operator=EXISTS)]
    assert find_untolerated_taint([GPU, other], tolerations) == other
    assert find_untolerated_taint([GPU], tolerations) is None
    assert find_untolerated_taint([], []) is None


def test_prefer_no_schedule_counts_until_it_is_relaxed() -> None:
    preference = Taint(key="spare", effect="PreferNoSchedule")
    assert find_untolerated_taint([preference], []) == preference
    assert find_untolerated_taint([preference], [TOLERATE_PREFER_NO_SCHEDULE]) is None
    assert find_untolerated_taint([GPU], [TOLERATE_PREFER_NO_SCHEDULE]) == GPU


@pytest.mark.parametrize(
    ("taint", "ephemeral"),
    [
        (Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"), True),
        (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"), True),
        (Taint(key="node.kubernetes.io/not-ready", effect="PreferNoSchedule"), False),
        (Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule"), True),
        (Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"), False),
        (Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true"), True),
        (UNREGISTERED_TAINT, True),
        (Taint(key="readiness.k8s.io/network", effect="NoExecute"), True),
        (Taint(key="readiness.k8s.io/", effect="PreferNoSchedule"), True),
        (Taint(key="example.com/readiness.k8s.io/network"), False),
        (DISRUPTED_TAINT, False),
        (GPU, False),
    ],
)
def test_ephemeral_taints_are_recognised_by_key_and_effect(taint: Taint, ephemeral: bool) -> None:
    assert is_ephemeral_taint(taint) is ephemeral


def test_taints_are_formatted_as_in_kubectl() -> None:
    assert str(GPU) == "gpu=yes:NoSchedule"
    assert str(DISRUPTED_TAINT) == "karpenter.sh/disrupted:NoSchedule"
