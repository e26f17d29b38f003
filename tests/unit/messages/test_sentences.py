"""Reasons, suggestions and what keeps pods off a reservation, as sentences."""

from typing import Any

import pytest

from wainwright.messages import unschedulable
from wainwright.messages.suggestions import describe_suggestion
from wainwright.messages.unused_reservations import describe_obstacle
from wainwright.model.labels import ZONE
from wainwright.model.pod import PodVolume, TopologySpread, pod_selector
from wainwright.model.reasons import (
    BlockedByOtherPods,
    DomainCount,
    ExcludedByPool,
    ExistingNodeUsed,
    HigherWeightPoolUsed,
    InstanceTypesTooSmall,
    LabelConflict,
    LaunchesTakenByOtherPods,
    NoCompatiblePool,
    NoInstanceTypes,
    NoMatchingInstanceType,
    OfferingsUnavailable,
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
    TopologyUnsatisfied,
)
from wainwright.model.requirements import Requirements, ValueSet, between, none_of, one_of
from wainwright.model.suggestions import (
    AddToleration,
    AllowPoolValue,
    AnyFix,
    ConstraintKind,
    DropPodRequirement,
    EnlargeReservation,
    HonorTaints,
    PreferConstraint,
    RaiseLimit,
    SuggestedLaunch,
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
    assert text == f"topology spread over zone with maxSkew 2{BY_DEFAULT[by_default]}"


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_that_leaves_few_domains(by_default: bool) -> None:
    counts = (DomainCount(domain="a", pods=5), DomainCount(domain="b", pods=3))
    left = TopologySpreadUnsatisfied(
        key="zone", max_skew=1, counts=counts, allowed_domains=("b",), by_default=by_default
    )
    assert unschedulable.describe_constraint(left) == (
        f"the pod's topology spread over zone{BY_DEFAULT[by_default]} (maxSkew 1): a has 5, "
        "b has 3; only b is allowed"
    )


def nowhere(key: str) -> TopologySpreadUnsatisfied:
    return TopologySpreadUnsatisfied(key=key, max_skew=1, counts=(), allowed_domains=())


@pytest.mark.parametrize(
    ("count", "end"),
    [(5, None), (6, "and 1 more constraint"), (3000, "and 2,995 more constraints")],
)
def test_of_many_constraints_the_first_are_named(count: int, end: str | None) -> None:
    by = tuple(nowhere(f"example.com/key-{number}") for number in range(count))
    parts = unschedulable.describe_pod_reason(TopologyUnsatisfied(by=by)).split("; ")
    assert parts[:5] == [unschedulable.describe_constraint(each) for each in by[:5]]
    assert parts[5:] == ([end] if end else [])


@pytest.mark.parametrize(("count", "end"), [(10, None), (3010, "3,000 more preferences")])
def test_of_many_preferences_the_first_are_named(count: int, end: str | None) -> None:
    given_up = [
        PreferredNodeAffinity(requirements=f"key-{number} Exists", weight=1)
        for number in range(count)
    ]
    described = unschedulable.describe_preferences(given_up)
    assert described[0] == "node affinity to key-0 Exists (weight 1)"
    assert described[9] == "node affinity to key-9 Exists (weight 1)"
    assert described[10:] == ([end] if end else [])


def test_of_many_domains_the_first_are_named() -> None:
    names = [f"d{number:03}" for number in range(300)]
    counts = tuple(DomainCount(domain=each, pods=1) for each in names)
    wide = TopologySpreadUnsatisfied(
        key="rack", max_skew=1, counts=counts, allowed_domains=tuple(names[:200])
    )
    text = unschedulable.describe_constraint(wide)
    assert "d019 has 1 and 280 more; only d000, d001" in text
    assert text.endswith("d018, d019 and 180 more is allowed")


def test_fewer_domains_than_min_domains_let_no_domain_have_another_pod() -> None:
    counts = (DomainCount(domain="a", pods=1), DomainCount(domain="b", pods=1))
    full = TopologySpreadUnsatisfied(
        key="zone", max_skew=1, min_domains=3, counts=counts, allowed_domains=()
    )
    assert unschedulable.describe_constraint(full) == (
        "the pod's topology spread over zone (maxSkew 1, minDomains 3): a has 1, b has 1; only 2 "
        "of minDomains 3 exist, so the lowest count is taken as 0 and no domain may have another "
        "pod"
    )


@pytest.mark.parametrize("by_default", BY_DEFAULT)
def test_a_spread_over_a_label_that_nothing_has(by_default: bool) -> None:
    nowhere = TopologySpreadUnsatisfied(
        key="rack", max_skew=1, counts=(), allowed_domains=(), by_default=by_default
    )
    assert unschedulable.describe_constraint(nowhere) == (
        f"the pod's topology spread over rack{BY_DEFAULT[by_default]} has no domain: no NodePool, "
        "instance type or node has that label"
    )


IDLE: list[tuple[PoolReason, str]] = [
    (PoolUnusable(why="it is being deleted"), "it launches no nodes: it is being deleted"),
    (NoInstanceTypes(), "it has no instance type to launch"),
    (LaunchesTakenByOtherPods(), "everything it could launch is planned for other pods"),
]


@pytest.mark.parametrize(("reason", "why"), IDLE, ids=[type(each).__name__ for each, _ in IDLE])
def test_a_pool_that_launches_nothing(reason: PoolReason, why: str) -> None:
    assert unschedulable.describe_pool_reason(reason) == why


VOLUME = PodVolume(
    claim="data", volume="pv-1", topology=(Requirements.from_labels({ZONE: "zone-c"}),)
)
UNBOUND = PodVolume(
    claim="data", storage_class="gp3", topology=(Requirements.from_labels({ZONE: "zone-c"}),)
)
LABELS: list[tuple[PoolReason, str]] = [
    (
        LabelConflict(key=ZONE, wanted=one_of(["zone-c"]), offered=one_of(["zone-a", "zone-b"])),
        f"the pod needs {ZONE} zone-c; the NodePool allows zone-a, zone-b",
    ),
    (
        LabelConflict(
            key=ZONE, wanted=one_of(["zone-c"]), offered=one_of(["zone-a"]), volume=VOLUME
        ),
        f"the pod's volume pv-1 (claim data) is in zone-c ({ZONE}); the NodePool allows zone-a",
    ),
    (
        LabelConflict(
            key=ZONE, wanted=one_of(["zone-c"]), offered=one_of(["zone-a"]), volume=UNBOUND
        ),
        f"its claim data can be provisioned by StorageClass gp3 in zone-c only ({ZONE}); "
        "the NodePool allows zone-a",
    ),
    (
        LabelConflict(
            key=ZONE, wanted=one_of(["zone-c"]), offered=one_of(["zone-a"]), by_topology=True
        ),
        f"constraints between pods leave only zone-c of {ZONE}; the NodePool allows zone-a",
    ),
    (
        LabelConflict(key=ZONE, wanted=one_of([]), offered=one_of(["zone-a"]), by_topology=True),
        f"constraints between pods leave no value of {ZONE}; the NodePool allows zone-a",
    ),
    (
        NoMatchingInstanceType(
            key="gpu-name",
            wanted=one_of(["h100"]),
            excluded=ExcludedByPool(key="family", allowed=one_of(["g5", "g6"]), values=("p5",)),
        ),
        "the pod needs gpu-name h100, which has family p5; the NodePool allows family g5, g6",
    ),
    (
        InstanceTypesTooSmall(
            resource="cpu", needed=64000, best=47810, instance_type="m5.12xlarge", daemonsets=100
        ),
        "the pod needs 64 cpu; the largest instance type that the NodePool allows, "
        "m5.12xlarge, has 47.81 cpu "
        "left after 100m for DaemonSets",
    ),
    (
        OfferingsUnavailable(instance_type="c5.large", reservations=("cr-1",), users=("web-1",)),
        "capacity reservation cr-1 has no free instance (used by web-1 of this plan)",
    ),
]


@pytest.mark.parametrize(("reason", "why"), LABELS)
def test_what_a_pool_lacks(reason: PoolReason, why: str) -> None:
    assert unschedulable.describe_pool_reason(reason) == why


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
    (
        ReservationHostPortsTaken(ports=(80, 443)),
        1,
        "host port 80, 443 is in use by a DaemonSet there",
    ),
    (ReservationUnavailable(instance_type="m5.large"), 1, "m5.large has no capacity there now"),
    (ExistingNodeUsed(), 1, "existing nodes had room, and come before new ones"),
    (
        HigherWeightPoolUsed(pool="heavy", weight=10, own=0),
        1,
        "NodePool heavy comes first by weight (10 over 0)",
    ),
    (
        PreferredElsewhere(preference=PreferredNodeAffinity(requirements="zone In [b]", weight=7)),
        1,
        "it would be elsewhere by preference: node affinity to zone In [b] (weight 7)",
    ),
    (
        PreferredElsewhere(preference=PreferredNodeAffinity(requirements="zone In [b]", weight=7)),
        2,
        "they would be elsewhere by preference: node affinity to zone In [b] (weight 7)",
    ),
    (TopologyElsewhere(keys=("zone",)), 1, "spread or affinity by zone places it elsewhere"),
    (
        TopologyElsewhere(keys=("zone", "rack")),
        2,
        "spread or affinity by zone, rack places them elsewhere",
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
    (BlockedByOtherPods(), 1, "constraints with other pods exclude it"),
    (BlockedByOtherPods(), 2, "constraints with other pods exclude them"),
    (OtherPoolUsed(pool="rest"), 1, "it went to a new node of rest"),
    (OtherPoolUsed(pool="rest"), 2, "they went to new nodes of rest"),
    (PoolUnusable(why="it is being deleted"), 1, "it launches no nodes: it is being deleted"),
    (NoCompatiblePool(), 1, "no NodePool can launch a node for it"),
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
        ((DROP,), "remove the pod's requirement on zone"),
        ((DROP, DISK), "remove the pod's requirement on zone and disk"),
        (
            (CPU, NODES),
            "raise limits.cpu from 2 to 4 and limits.nodes from 1 to 2 in NodePool web",
        ),
        (
            (GPU, DROP, CPU),
            (
                "add a toleration to the pod for gpu, and remove the pod's requirement on zone, "
                "and raise limits.cpu from 2 to 4 in NodePool web"
            ),
        ),
    ],
)
def test_changes_of_one_kind_are_joined(changes: tuple[AnyFix, ...], expected: str) -> None:
    assert describe_suggestion(VerifiedSuggestion(changes=changes, serves=1, of=1)) == expected


@pytest.mark.parametrize(
    ("serves", "of", "alone", "known"),
    [
        (3, 3, False, ""),
        (2, 3, False, "; schedules 2 of the 3 pods"),
        (1, 1, True, " (checked for this pod alone; its price was not computed)"),
        (1, 4000, True, " (checked for one of the 4,000 pods alone; its price was not computed)"),
    ],
)
def test_a_suggestion_states_for_which_pods_it_was_verified(
    serves: int, of: int, alone: bool, known: str
) -> None:
    advice = VerifiedSuggestion(changes=(DROP,), serves=serves, of=of, alone=alone)
    assert describe_suggestion(advice) == f"remove the pod's requirement on zone{known}"


SPOT_NODE = SuggestedLaunch(count=2, instance_type="m5.large", capacity_type="spot")
GPU_NODE = SuggestedLaunch(
    count=1, instance_type="g5.xlarge", capacity_type="on-demand", unrequested_devices=True
)
EFFECTS: list[tuple[dict[str, Any], str]] = [
    ({"price_change": 0.07, "launches": (SPOT_NODE,)}, ": +$0.070/h for 2 m5.large (spot)"),
    ({"price_change": 0.0}, ": +$0/h on existing nodes"),
    ({"price_change": -0.1, "at_most": True}, ": at most −$0.100/h on existing nodes"),
    (
        {"price_change": 1.0, "modelled_price": True, "launches": (GPU_NODE,)},
        ": +~$1.000/h for 1 g5.xlarge (on-demand, with GPUs or accelerators that no pod requests)",
    ),
]


@pytest.mark.parametrize(("facts", "effect"), EFFECTS)
def test_a_suggestion_says_its_price_and_what_is_launched(
    facts: dict[str, Any], effect: str
) -> None:
    advice = VerifiedSuggestion(changes=(DROP,), serves=1, of=1, **facts)
    assert describe_suggestion(advice) == f"remove the pod's requirement on zone{effect}"


CHANGES: list[tuple[AnyFix, str]] = [
    (AllowPoolValue(key="zone", value="c", pool="web"), "allow zone=c in NodePool web"),
    (
        AllowPoolValue(
            key="zone", value="c", pool="web", now=none_of(["a", "c"]), to=none_of(["a"])
        ),
        "remove c from NotIn of zone in NodePool web",
    ),
    (
        AllowPoolValue(key="cpu", value="8", pool="web", now=between(2, 3), to=between(2, 8)),
        "change cpu from Lt 4 (Lte 3) to Lt 9 (Lte 8) in NodePool web",
    ),
    (
        AllowPoolValue(key="cpu", value="1", pool="web", now=between(2, None), to=between(1, None)),
        "change cpu from Gt 1 (Gte 2) to Gt 0 (Gte 1) in NodePool web",
    ),
    (
        DropPodRequirement(key="gpu-name", pool="web", now="h100", gets="a10g"),
        "remove the pod's requirement on gpu-name (a10g instead of h100)",
    ),
    (
        DropPodRequirement(key="gpu-name", pool="web", now="h100"),
        "remove the pod's requirement on gpu-name (another device instead of h100)",
    ),
    (
        HonorTaints(key="zone"),
        "set nodeTaintsPolicy: Honor in the pod's topology spread over zone",
    ),
    (
        PreferConstraint(constraint=ConstraintKind.TOPOLOGY_SPREAD, key="zone"),
        "set whenUnsatisfiable: ScheduleAnyway in the pod's topology spread over zone",
    ),
    (
        PreferConstraint(constraint=ConstraintKind.POD_AFFINITY, key="zone", pods="app=db"),
        "make the pod affinity to app=db by zone preferred instead of required",
    ),
    (
        PreferConstraint(constraint=ConstraintKind.POD_ANTI_AFFINITY, key="zone", pods="app=db"),
        "make the pod anti-affinity to app=db by zone preferred instead of required",
    ),
    (
        EnlargeReservation(reservation="cr-1", by=2, pool="web", billed=0.085),
        "enlarge capacity reservation cr-1 by 2 instances",
    ),
    (
        EnlargeReservation(reservation="cr-1", by=2, now=3, pool="web"),
        "enlarge capacity reservation cr-1 from 3 to 5 instances",
    ),
]


@pytest.mark.parametrize(("change", "text"), CHANGES)
def test_a_change_as_a_sentence(change: AnyFix, text: str) -> None:
    assert describe_suggestion(VerifiedSuggestion(changes=(change,), serves=1, of=1)) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (one_of(["b", "a"]), "a, b"),
        (none_of(["a"]), "any but a"),
        (between(6, None), "6 or higher"),
        (between(None, 3), "3 or lower"),
        (between(2, 8), "2 to 8"),
        (between(2, 8) & none_of(["4"]), "2 to 8, but not 4"),
    ],
)
def test_values_that_a_requirement_allows_are_said_in_words(values: ValueSet, text: str) -> None:
    assert unschedulable.format_values(values) == text
