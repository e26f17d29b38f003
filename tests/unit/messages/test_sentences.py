"""Reasons, suggestions and what keeps pods off a reservation, as sentences."""

import pytest

from wainwright.messages import unschedulable
from wainwright.messages.suggestions import describe_suggestion
from wainwright.messages.unused_reservations import describe_obstacle
from wainwright.model.pod import TopologySpread, pod_selector
from wainwright.model.reasons import (
    BlockedByOtherPods,
    DomainCount,
    ExistingNodeUsed,
    HigherWeightPoolUsed,
    LaunchesTakenByOtherPods,
    NoCompatiblePool,
    NoInstanceTypes,
    OtherPoolUsed,
    PoolExcludesReservation,
    PoolReason,
    PoolUnusable,
    PreferredElsewhere,
    PreferredNodeAffinity,
    PreferredTopologySpread,
    ReservationHostPortsTaken,
    ReservationObstacle,
    ReservationTooSmall,
    ReservationUnavailable,
    TopologyElsewhere,
    TopologySpreadUnsatisfied,
)
from wainwright.model.requirements import one_of
from wainwright.model.suggestions import (
    AddToleration,
    AnyFix,
    DropPodRequirement,
    RaiseLimit,
    VerifiedSuggestion,
)
from wainwright.model.taints import Toleration

BY_DEFAULT = {False: "", True: " (a default of the scheduler)"}


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_that_was_given_up(by_default: bool) -> None:
    preference = TopologySpread(
        key="zone", selector=pod_selector({"app": "web"}), max_skew=2, by_default=by_default
    )
    text = unschedulable.describe_preference(PreferredTopologySpread(spread=preference))
    assert text == f"to be spread over zone with maxSkew 2{BY_DEFAULT[by_default]}"


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_that_leaves_few_places(by_default: bool) -> None:
    counts = (DomainCount(domain="a", pods=5), DomainCount(domain="b", pods=3))
    left = TopologySpreadUnsatisfied(
        key="zone", max_skew=1, counts=counts, allowed_domains=("b",), by_default=by_default
    )
    whose = BY_DEFAULT[by_default]
    assert (
        unschedulable.describe_constraint(left)
        == f"zone: a has 5, b has 3, maxSkew 1{whose}: only b"
    )


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_over_what_nobody_has(by_default: bool) -> None:
    nowhere = TopologySpreadUnsatisfied(
        key="rack", max_skew=1, counts=(), allowed_domains=(), by_default=by_default
    )
    assert unschedulable.describe_constraint(nowhere) == (
        f"it is to be spread over rack{BY_DEFAULT[by_default]}, which no pool, type or node has"
    )


IDLE: list[tuple[PoolReason, str]] = [
    (PoolUnusable(why="it is being deleted"), "it is being deleted"),
    (NoInstanceTypes(), "there is nothing that it could buy"),
    (LaunchesTakenByOtherPods(), "what it could buy is promised to other pods"),
]


@pytest.mark.parametrize(("reason", "why"), IDLE, ids=[type(each).__name__ for each, _ in IDLE])
def test_a_pool_that_launches_nothing(reason: PoolReason, why: str) -> None:
    assert unschedulable.describe_pool_reason(reason) == f"it launches nothing: {why}"


SMALL = ReservationTooSmall(
    resource="cpu", needed=1500, room=1430, instance_type="m5.large", daemonsets=500
)
BARE = ReservationTooSmall(resource="memory", needed=2**33, room=2**32, instance_type="m5.large")
OBSTACLES: list[tuple[ReservationObstacle, int, str]] = [
    (SMALL, 1, "needs 1500m cpu, and m5.large has room for 1430m after 500m for DaemonSets"),
    (BARE, 3, "need at least 8Gi memory, and m5.large has room for 4Gi"),
    (
        PoolExcludesReservation(key="arch", wanted=one_of(["arm64"]), offered=one_of(["amd64"])),
        1,
        "the NodePool requires arch In [arm64], and there it is In [amd64]",
    ),
    (
        PoolExcludesReservation(key="disk", wanted=one_of(["ssd"]), offered=None),
        1,
        "the NodePool requires disk In [ssd], and instances there lack it",
    ),
    (ReservationHostPortsTaken(ports=(80, 443)), 1, "a daemonset takes port 80, 443 there"),
    (ReservationUnavailable(instance_type="m5.large"), 1, "m5.large has no capacity there now"),
    (ExistingNodeUsed(), 1, "existing nodes had room, and come before new ones"),
    (
        HigherWeightPoolUsed(pool="heavy", weight=10, own=0),
        1,
        "heavy was asked first, by its weight of 10 over 0",
    ),
    (
        PreferredElsewhere(preference=PreferredNodeAffinity(requirements="zone In [b]", weight=7)),
        1,
        "it would be elsewhere by preference: to be on nodes with zone In [b] (weight 7)",
    ),
    (
        PreferredElsewhere(preference=PreferredNodeAffinity(requirements="zone In [b]", weight=7)),
        2,
        "they would be elsewhere by preference: to be on nodes with zone In [b] (weight 7)",
    ),
    (TopologyElsewhere(keys=("zone",)), 1, "spread or affinity by zone puts it elsewhere"),
    (
        TopologyElsewhere(keys=("zone", "rack")),
        2,
        "spread or affinity by zone, rack puts them elsewhere",
    ),
    (
        TopologyElsewhere(keys=("zone",), theirs=True),
        1,
        "pods with anti-affinity to it are there, by zone",
    ),
    (
        TopologyElsewhere(keys=("zone",), theirs=True),
        2,
        "pods with anti-affinity to them are there, by zone",
    ),
    (BlockedByOtherPods(), 1, "other pods or spreads keep it off"),
    (BlockedByOtherPods(), 2, "other pods or spreads keep them off"),
    (OtherPoolUsed(pool="rest"), 1, "it went to a new node of rest"),
    (OtherPoolUsed(pool="rest"), 2, "they went to new nodes of rest"),
    (PoolUnusable(why="it is being deleted"), 1, "it launches nothing: it is being deleted"),
    (NoCompatiblePool(), 1, "no pool can launch a node for it"),
]


@pytest.mark.parametrize(
    ("reason", "pods", "expected"), OBSTACLES, ids=lambda each: type(each).__name__
)
def test_an_obstacle_is_the_rest_of_a_sentence(
    reason: ReservationObstacle, pods: int, expected: str
) -> None:
    assert describe_obstacle(reason, pods) == expected


DROP = DropPodRequirement(key="zone", pool="web")
DISK = DropPodRequirement(key="disk", pool="web")
CPU = RaiseLimit(resource="cpu", now=2000, to=4000, pool="web")
NODES = RaiseLimit(resource="nodes", now=1, to=2, pool="web")
GPU = AddToleration(toleration=Toleration(key="gpu"), pool="web")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((DROP,), "do not select zone"),
        ((DROP, DISK), "do not select zone and disk"),
        (
            (CPU, NODES),
            "raise the limit of pool web to 4 instead of 2 cpu and 2 instead of 1 nodes",
        ),
        (
            (GPU, DROP, CPU),
            "let the pod tolerate gpu, and do not select zone, "
            "and raise the limit of pool web to 4 instead of 2 cpu",
        ),
    ],
)
def test_changes_of_one_kind_are_joined(changes: tuple[AnyFix, ...], expected: str) -> None:
    assert describe_suggestion(VerifiedSuggestion(changes=changes, serves=1, of=1)) == expected


@pytest.mark.parametrize(
    ("serves", "of", "alone", "known"),
    [
        (3, 3, False, ""),
        (2, 3, False, " (serves 2 of the 3 pods that fail alike)"),
        (1, 1, True, " (tried for this pod alone)"),
        (1, 4000, True, " (tried for one of the 4,000 pods that fail alike, alone)"),
    ],
)
def test_a_suggestion_states_for_which_pods_it_was_verified(
    serves: int, of: int, alone: bool, known: str
) -> None:
    advice = VerifiedSuggestion(changes=(DROP,), serves=serves, of=of, alone=alone)
    assert describe_suggestion(advice) == f"do not select zone{known}"
