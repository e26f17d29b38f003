"""Use cases of reservations, weights, minValues and limits, each as a plan."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from tests.support.model_builders import (
    GIB,
    affinity_term,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    plan_pods,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.core.plan import plan, planned_claims, solve_snapshot
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_FAMILY,
    INSTANCE_TYPE,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    MinValuesPolicy,
    Plan,
    PlannedNodeClaim,
    PlanOptions,
)
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    Pod,
    PodConstraints,
    PreferredNodeTerm,
    WeightedAffinityTerm,
)
from wainwright.model.reasons import PreferredNodeAffinity, PreferredPodAntiAffinity
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.taints import Taint, Toleration

WHOLE = 2000  # cpu of a large type: a pod that requests it needs a node of its own
BEST_EFFORT = PlanOptions(min_values_policy=MinValuesPolicy.BEST_EFFORT)


def pods(
    count: int,
    name: str = "web",
    *,
    cpu: int = WHOLE,
    requires: Requirements = NO_REQUIREMENTS,
    tolerations: tuple[Toleration, ...] = (),
) -> tuple[Pod, ...]:
    requests, alternatives = {"cpu": cpu}, ANY_NODE_TERMS if not requires else (requires,)
    return tuple(
        Pod(
            namespace="default",
            name=f"{name}-{number}",
            requests=requests,
            alternatives=alternatives,
            tolerations=tolerations,
        )
        for number in range(count)
    )


def type_named(
    name: str, *offerings: Offering, cpu: int = WHOLE, arch: str = "amd64"
) -> InstanceType:
    labels = {INSTANCE_TYPE: name, INSTANCE_FAMILY: name.partition(".")[0], ARCH: arch}
    return instance_type(
        name=name,
        labels=labels,
        capacity={"cpu": cpu, "memory": 8 * GIB, "pods": 20},
        offerings=offerings or (offering(price=cpu / 10000),),
    )


def reserved_offering(name: str, count: int, zone: str = "zone-a") -> Offering:
    return offering(
        zone=zone, capacity_type=RESERVED, price=1e-7, available=count, reservation_id=name
    )


def planned(
    pending: Sequence[Pod],
    pools: Sequence[Pool],
    types: Sequence[InstanceType] | Mapping[str, Sequence[InstanceType]],
    options: PlanOptions | None = None,
) -> Plan:
    """All pools have the same types, unless `types` is by pool."""
    by_pool = types if isinstance(types, Mapping) else {pool.name: types for pool in pools}
    catalogs = {name: InstanceTypeIndex(kinds) for name, kinds in by_pool.items()}
    snapshot = Snapshot(pods=tuple(pending), pools=tuple(pools))
    return plan(snapshot, catalogs, options or PlanOptions())


def launches(result: Plan) -> list[str]:
    """Round and reservation of each claim, in the order of creation."""
    return [f"{claim.round} {claim.launch.reservation_id or '-'}" for claim in result.claims]


def claim_of(result: Plan, pod: str) -> PlannedNodeClaim:
    return next(claim for claim in result.claims if f"default/{pod}" in claim.pods)


def test_one_reserved_instance_and_ten_thousand_pods_give_one_reserved_node() -> None:
    types = [type_named("c5.large", reserved_offering("cr-1", 1), offering())]
    result = planned(pods(10_000), [Pool(name="only")], types)
    reserved = Counter(claim.launch.capacity_type for claim in result.claims)
    assert reserved == {RESERVED: 1, ON_DEMAND: 9_999}


def test_no_pod_falls_back_while_a_reservation_is_merely_held() -> None:
    """RSV-2: the first draft holds both reservations, and the second pod waits for the other."""
    types = [
        type_named(
            "c5.large", reserved_offering("cr-1", 1), reserved_offering("cr-2", 1), offering()
        )
    ]
    result = planned(pods(2), [Pool(name="only")], types)
    assert launches(result) == ["1 cr-1", "2 cr-2"]


def test_a_reserved_instance_shared_by_two_pools_is_used_once() -> None:
    """RSV-3."""
    types = [type_named("c5.large", reserved_offering("cr-1", 1), offering())]
    result = planned(pods(2), [Pool(name="one"), Pool(name="two")], types)
    assert launches(result) == ["1 cr-1", "2 -"]


def test_pools_with_reservations_of_their_own_use_both_at_once() -> None:
    """RSV-4."""
    types = {
        "one": [type_named("c5.large", reserved_offering("cr-1", 1), offering())],
        "two": [type_named("c5.large", reserved_offering("cr-2", 1), offering())],
    }
    result = planned(pods(2), [Pool(name="one"), Pool(name="two")], types)
    assert sorted(launches(result)) == ["1 cr-1", "1 cr-2"]


def test_a_draft_holds_every_reservation_that_it_might_use() -> None:
    """RSV-5: one and two reserved instances, four pods."""
    types = [
        type_named(
            "c5.large", reserved_offering("cr-1", 1), reserved_offering("cr-2", 2), offering()
        )
    ]
    result = planned(pods(4), [Pool(name="only")], types)
    assert [claim.round for claim in result.claims] == [1, 1, 2, 3]
    assert [claim.launch.capacity_type for claim in result.claims] == [RESERVED] * 3 + [ON_DEMAND]


def test_a_held_reservation_sends_no_pod_to_a_pool_of_lower_weight() -> None:
    """RSV-6."""
    types = [
        type_named(
            "c5.large", reserved_offering("cr-1", 1), reserved_offering("cr-2", 1), offering()
        )
    ]
    pools = [
        Pool(
            name="heavy", weight=10, requirements=label_requirement(CAPACITY_TYPE, "In", RESERVED)
        ),
        Pool(name="light"),
    ]
    result = planned(pods(3), pools, types)
    assert [claim.pool for claim in result.claims] == ["heavy", "heavy", "light"]


def test_a_reserved_claim_carries_only_the_min_values_that_its_reservation_meets() -> None:
    """D21: they are for finding capacity, and a reservation is capacity found."""
    requirements = label_requirement(INSTANCE_TYPE, min_values=2).narrow(
        label_requirement(ZONE, "Exists", min_values=1)
    )
    pool = Pool(name="diverse", requirements=requirements)
    types = [type_named("c5.large", reserved_offering("cr-1", 1), offering())]
    first, *others = planned(pods(2), [pool], types).claims
    assert (first.launch.reservation_id, others) == ("cr-1", [])
    assert first.relaxed_min_values == (INSTANCE_TYPE,)
    assert first.requirements[INSTANCE_TYPE].min_values is None
    assert first.requirements[ZONE].min_values == 1


def test_claims_are_pinned_to_reservations_exactly_as_counted() -> None:
    """D24: with two and three free instances of one type and zone, two and three claims."""
    types = [type_named("c5.large", reserved_offering("cr-1", 2), reserved_offering("cr-2", 3))]
    claims = planned(pods(5), [Pool(name="only")], types).claims
    assert Counter(claim.choices.reservation_ids for claim in claims) == {
        ("cr-1",): 2,
        ("cr-2",): 3,
    }
    assert all(claim.choices.reservation_ids == (claim.launch.reservation_id,) for claim in claims)


def test_several_pods_share_a_reserved_node() -> None:
    """RSV-7: it is pinned to one of its reservations."""
    types = [
        type_named(
            "c5.large", reserved_offering("cr-1", 1), reserved_offering("cr-2", 1), offering()
        )
    ]
    [claim] = planned(pods(3, cpu=WHOLE // 4), [Pool(name="only")], types).claims
    assert len(claim.pods) == 3
    assert claim.choices.reservation_ids == ("cr-1",) == (claim.launch.reservation_id,)
    assert claim.choices.capacity_types == (RESERVED,)


@pytest.mark.parametrize(("zone", "nodes"), [("zone-a", 2), ("zone-b", 3)])
def test_a_pod_joins_an_in_flight_node_only_as_it_would_be_launched(zone: str, nodes: int) -> None:
    on_demand = [offering(price=0.1), offering(zone="zone-b", price=0.2)]
    types = [
        type_named(
            "c5.large",
            reserved_offering("cr-1", 1, "zone-a"),
            reserved_offering("cr-1", 1, "zone-b"),
            *on_demand,
        )
    ]
    pending = [*pods(1, "taker")]
    pending += pods(
        1, "opener", cpu=1000, requires=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND)
    )
    pending += pods(1, "waiter", cpu=500, requires=label_requirement(ZONE, "In", zone))
    result = planned(pending, [Pool(name="only")], types)
    assert len(result.claims) == nodes
    opener = claim_of(result, "opener-0")
    assert opener.choices.zones == (("zone-a",) if nodes == 2 else ("zone-a", "zone-b"))


def test_a_draft_never_loses_its_last_reserved_offering_by_size() -> None:
    types = [
        type_named("c5.large", reserved_offering("cr-1", 1), offering(price=0.2)),
        type_named("c5.2xlarge", offering(price=0.8), cpu=8000),
    ]
    result = planned(pods(2, cpu=1500), [Pool(name="only")], types)
    assert [claim.launch.reservation_id for claim in result.claims] == ["cr-1", None]


def test_a_draft_never_loses_its_last_reserved_offering_by_label() -> None:
    types = [
        type_named("c5.large", reserved_offering("cr-1", 1, "zone-a"), offering(zone="zone-b"))
    ]
    pending = [
        *pods(1, cpu=500),
        *pods(1, "b", cpu=400, requires=label_requirement(ZONE, "In", "zone-b")),
    ]
    result = planned(pending, [Pool(name="only")], types)
    assert [claim.launch.reservation_id for claim in result.claims] == ["cr-1", None]


def test_reserved_capacity_of_a_higher_weight_comes_before_room_on_a_lower_one() -> None:
    heavy = Pool(
        name="heavy", weight=10, requirements=label_requirement(CAPACITY_TYPE, "In", RESERVED)
    )
    types = [
        type_named("c5.large", reserved_offering("cr-1", 1)),
        type_named("c5.2xlarge", offering(price=0.8), cpu=8000),
    ]
    pending = [*pods(1, "big", cpu=6000), *pods(1, "small", cpu=500)]
    result = planned(pending, [heavy, Pool(name="light")], types)
    assert claim_of(result, "big-0").pool == "light"
    assert claim_of(result, "small-0").launch.reservation_id == "cr-1"


def test_the_default_architecture_is_used_unless_another_is_required() -> None:
    """Use case 1 of the weights."""
    pools = [
        Pool(name="default", weight=100, requirements=label_requirement(ARCH, "In", "amd64")),
        Pool(name="arm64", weight=50, requirements=label_requirement(ARCH)),
    ]
    types = [type_named("c5.large"), type_named("c6g.large", offering(price=0.01), arch="arm64")]
    pending = [*pods(1), *pods(1, "arm", requires=label_requirement(ARCH, "In", "arm64"))]
    result = planned(pending, pools, types)
    assert claim_of(result, "web-0").pool == "default"
    assert claim_of(result, "arm-0").pool == "arm64"


def test_on_demand_is_used_unless_spot_is_required() -> None:
    """Use case 2."""
    pools = [
        Pool(
            name="on-demand",
            weight=50,
            requirements=label_requirement(CAPACITY_TYPE, "In", ON_DEMAND),
        ),
        Pool(name="spot", requirements=label_requirement(CAPACITY_TYPE)),
    ]
    types = [type_named("c5.large", offering(), offering(capacity_type=SPOT, price=0.01))]
    pending = [*pods(1), *pods(1, "batch", requires=label_requirement(CAPACITY_TYPE, "In", SPOT))]
    result = planned(pending, pools, types)
    assert claim_of(result, "web-0").launch.capacity_type == ON_DEMAND
    assert claim_of(result, "batch-0").pool == "spot"


def test_the_preferred_pool_is_used_up_to_its_limit() -> None:
    """Use case 3: twenty cpus of c5.large, met exactly, then the fallback."""
    pools = [
        Pool(
            name="reserved",
            weight=50,
            requirements=label_requirement(INSTANCE_TYPE, "In", "c5.large"),
            limits={"cpu": 20_000},
        ),
        Pool(
            name="fallback",
            requirements=label_requirement(INSTANCE_TYPE, "In", "m5.large", "m5.2xlarge"),
        ),
    ]
    types = [type_named("c5.large"), type_named("m5.large"), type_named("m5.2xlarge", cpu=8000)]
    result = planned(pods(13), pools, types)
    assert Counter(claim.pool for claim in result.claims)["reserved"] == 10
    assert result.scheduled == 13


def test_preferred_families_with_a_fallback() -> None:
    """Use case 4: a label of the user's own, defined by both pools."""
    gpu = label_requirement("gpu-intensive")
    first = label_requirement(INSTANCE_FAMILY, "In", "p3").narrow(gpu)
    pools = [
        Pool(name="preferred", weight=50, requirements=first, limits={"nodes": 1}),
        Pool(
            name="fallback",
            requirements=label_requirement(INSTANCE_FAMILY, "In", "g5", "g3").narrow(gpu),
        ),
    ]
    types = [type_named("p3.large"), type_named("g5.large")]
    pending = pods(2, requires=label_requirement("gpu-intensive", "In", "yes"))
    result = planned(pending, pools, types)
    assert [claim.launch.instance_type for claim in result.claims] == ["p3.large", "g5.large"]


def test_pods_that_tolerate_a_tainted_pool_of_higher_weight_use_it() -> None:
    """Use case 5."""
    taint = Taint(key="custom-workloads", value="true")
    pools = [
        Pool(name="custom", weight=100, taints=(taint,)),
        Pool(name="fallback", weight=50),
    ]
    tolerating = (Toleration(key=taint.key, value=taint.value),)
    pending = [*pods(1), *pods(1, "custom", tolerations=tolerating)]
    result = planned(pending, pools, [type_named("c5.large")])
    assert claim_of(result, "web-0").pool == "fallback"
    assert claim_of(result, "custom-0").pool == "custom"


def test_weight_comes_before_price() -> None:
    pools = [
        Pool(
            name="expensive",
            weight=100,
            requirements=label_requirement(INSTANCE_TYPE, "In", "p3.16xlarge"),
        ),
        Pool(name="inexpensive", requirements=label_requirement(INSTANCE_TYPE, "In", "t3.small")),
    ]
    types = [
        type_named("p3.16xlarge", offering(price=24.0)),
        type_named("t3.small", offering(price=0.02)),
    ]
    result = planned(pods(20), pools, types)
    assert [claim.pool for claim in result.claims] == ["expensive"] * 20


@pytest.mark.parametrize(("strict", "pool"), [(False, "light"), (True, "heavy")])
def test_a_later_pod_joins_a_node_of_a_pool_of_lower_weight_unless_weights_are_strict(
    strict: bool, pool: str
) -> None:
    pools = [
        Pool(
            name="heavy", weight=10, requirements=label_requirement(INSTANCE_TYPE, "In", "c5.large")
        ),
        Pool(name="light"),
    ]
    types = [type_named("c5.large"), type_named("c5.2xlarge", cpu=8000)]
    pending = [*pods(1, "big", cpu=6000), *pods(1, "small", cpu=500)]
    result = planned(pending, pools, types, PlanOptions(strict_weights=strict))
    assert claim_of(result, "small-0").pool == pool


FLEET = [type_named(f"{family}.large") for family in ("c5", "m5", "r5")]
FLEET += [type_named("c5.xlarge", cpu=4000), type_named("m5.xlarge", cpu=4000)]


def flexible(key: str, count: int, weight: int = 0) -> Pool:
    return Pool(
        name="flexible", weight=weight, requirements=label_requirement(key, min_values=count)
    )


@pytest.mark.parametrize(("count", "nodes"), [(2, 1), (3, 2), (5, 2)])
def test_no_pod_joins_a_node_if_min_values_would_be_violated(count: int, nodes: int) -> None:
    """Two pods would leave only the two large types."""
    result = planned(pods(2, cpu=1500), [flexible(INSTANCE_TYPE, count)], FLEET)
    assert len(result.claims) == nodes
    assert all(len(claim.choices.instance_types) >= count for claim in result.claims)


def test_min_values_count_values_not_types() -> None:
    result = planned(pods(2, cpu=1500), [flexible(INSTANCE_FAMILY, 2)], FLEET)
    assert [claim.choices.instance_types for claim in result.claims] == [("c5.xlarge", "m5.xlarge")]


def test_a_pod_that_cannot_meet_min_values_goes_to_the_next_pool() -> None:
    pools = [flexible(INSTANCE_TYPE, 3, weight=10), Pool(name="any")]
    result = planned([*pods(1, "big", cpu=4000), *pods(1)], pools, FLEET)
    assert claim_of(result, "big-0").pool == "any"
    assert claim_of(result, "web-0").pool == "flexible"


def test_a_pod_that_cannot_meet_min_values_of_any_pool_is_unschedulable() -> None:
    result = planned(pods(1, cpu=4000), [flexible(INSTANCE_TYPE, 3)], FLEET)
    assert result.claims == ()


def test_best_effort_lowers_min_values_and_reports_it() -> None:
    pools = [flexible(INSTANCE_TYPE, 3, weight=10), Pool(name="any")]
    [claim] = planned(pods(1, cpu=4000), pools, FLEET, BEST_EFFORT).claims
    assert claim.pool == "flexible"
    assert claim.relaxed_min_values == (INSTANCE_TYPE,)
    assert claim.requirements[INSTANCE_TYPE].min_values == 2


def test_best_effort_lowers_only_for_a_new_node() -> None:
    result = planned(pods(2, cpu=1500), [flexible(INSTANCE_TYPE, 3)], FLEET, BEST_EFFORT)
    assert [claim.relaxed_min_values for claim in result.claims] == [(), ()]


@pytest.mark.parametrize(
    ("limits", "nodes"),
    [({"cpu": 6000}, 3), ({"cpu": 5999}, 2), ({"nodes": 2}, 2), ({"cpu": 1999}, 0)],
)
def test_a_limit_may_be_met_exactly_and_no_more(limits: dict[str, int], nodes: int) -> None:
    result = planned(pods(5), [Pool(name="only", limits=limits)], [type_named("c5.large")])
    assert len(result.claims) == result.scheduled == nodes


def test_limits_held_back_for_the_largest_type_are_released_in_the_next_round() -> None:
    """Either might become a 2xlarge, so that only one may be opened at a time."""
    zones = ("zone-a", "zone-b")
    types = [
        type_named("c5.large", *(offering(zone=zone, price=0.1) for zone in zones)),
        type_named("c5.2xlarge", *(offering(zone=zone, price=0.4) for zone in zones), cpu=8000),
    ]
    pending = [
        pod for zone in zones for pod in pods(1, zone, requires=label_requirement(ZONE, "In", zone))
    ]
    result = planned(pending, [Pool(name="only", limits={"cpu": 8000})], types)
    assert [claim.round for claim in result.claims] == [1, 2]


def test_existing_nodes_count_against_the_limit() -> None:
    pool = Pool(name="only", limits={"cpu": 6000, "nodes": 3}, in_use={"cpu": 2000, "nodes": 2})
    assert planned(pods(5), [pool], [type_named("c5.large")]).scheduled == 1


def test_other_strategies_replace_first_fit_only_where_they_place_more_pods() -> None:
    """A pod that no strategy places changes nothing for the others."""
    first, second = labelled_pods(2, cpu=200, constraints=spread_constraint())
    waiting = [msgspec.structs.replace(first, constraints=PodConstraints()), second]
    without_company = PodConstraints(affinity=(affinity_term(app="nobody"),))
    lonely = labelled_pods(1, "lonely", constraints=without_company)
    alone, beside = plan_pods(waiting), plan_pods([*waiting, *lonely])
    assert beside.unplaced == ("shop/lonely-0",)
    assert beside.claims == alone.claims
    assert [claim.round for claim in alone.claims] == [1, 1]


SMALL = {"cpu": 1000, "memory": 2**32, "pods": 1}
"""Capacity of a node for one pod."""


def pods_with_cpu(count: int) -> tuple[Pod, ...]:
    return tuple(Pod(namespace="d", name=str(n), requests={"cpu": 500}) for n in range(count))


def claims_with(*taken: str) -> tuple[PlannedNodeClaim, ...]:
    index = InstanceTypeIndex([instance_type(capacity=SMALL)])
    snapshot = Snapshot(pods=pods_with_cpu(3), pools=(Pool(name="web"), Pool(name="web-1")))
    solution = solve_snapshot(snapshot, {"web": index}, DEFAULT_PLAN_OPTIONS)
    return planned_claims(solution.drafts, solution.classes.resources, frozenset(taken))


def test_claims_are_numbered_in_the_order_of_creation() -> None:
    assert [claim.name for claim in claims_with()] == ["web-1", "web-2", "web-3"]


def test_names_of_existing_nodes_are_skipped() -> None:
    assert [claim.name for claim in claims_with("web-1", "web-3", "other")] == [
        "web-2",
        "web-4",
        "web-5",
    ]


def test_taken_names_are_those_of_nodes_and_of_their_claims() -> None:
    nodes = (Node(name="web-2"), Node(name="ip-10-0-0-1"))
    assert Snapshot(nodes=nodes, claims=frozenset({"web-1"})).taken_names == {
        "web-1",
        "web-2",
        "ip-10-0-0-1",
    }


def test_a_claim_costs_the_fees_of_the_type_that_would_be_launched() -> None:
    expensive_disk = instance_type(
        name="a", capacity=SMALL, offerings=(offering(price=1.0),), fee=0.5
    )
    cheap_disk = instance_type(name="b", capacity=SMALL, offerings=(offering(price=1.2),), fee=0.1)
    snapshot = Snapshot(pods=pods_with_cpu(2), pools=(Pool(name="p"),))
    result = plan(snapshot, {"p": InstanceTypeIndex([expensive_disk, cheap_disk])})
    assert [(each.launch.instance_type, each.fees) for each in result.claims] == [("b", 0.1)] * 2
    assert (result.price, result.fees) == (2.4, 0.2)


def prefers_zone(zone: str) -> PodConstraints:
    preferred = PreferredNodeTerm(weight=7, requirements=label_requirement(ZONE, "In", zone))
    return PodConstraints(preferred_nodes=(preferred,))


def test_pods_with_the_same_relaxed_preferences_are_grouped() -> None:
    result = plan_pods(
        [
            *labelled_pods(3, constraints=prefers_zone("zone-x")),
            *labelled_pods(1, "db", constraints=prefers_zone("zone-y")),
        ]
    )
    assert [group.pods for group in result.relaxed] == [
        ("shop/db-0",),
        ("shop/web-0", "shop/web-1", "shop/web-2"),
    ]
    assert result.relaxed[1].preferences == (
        PreferredNodeAffinity(requirements=f"{ZONE} In [zone-x]", weight=7),
    )


def test_an_unsatisfiable_preference_has_no_price() -> None:
    assert (
        plan_pods(labelled_pods(1, constraints=prefers_zone("zone-x"))).relaxed[0].price_if_kept
        is None
    )


def test_a_relaxed_preference_is_priced_by_the_cheapest_node_that_keeps_it() -> None:
    """A pool of one node: the second pod shares it despite its preferred anti-affinity."""
    alone = WeightedAffinityTerm(weight=1, term=affinity_term(HOSTNAME))
    small = Pool(name="small", limits={"nodes": 1})
    result = plan_pods(
        labelled_pods(2, constraints=PodConstraints(preferred_anti_affinity=(alone,))),
        zonal_instance_type(price=3.0),
        pools=(small,),
    )
    assert len(result.claims) == 1
    assert [group.preferences for group in result.relaxed] == [
        (PreferredPodAntiAffinity(term=affinity_term(HOSTNAME), weight=1),)
    ]
    assert result.relaxed[0].price_if_kept == 3.0


def test_pods_that_keep_their_preferences_are_not_listed() -> None:
    assert plan_pods(labelled_pods(2, constraints=prefers_zone("zone-b"))).relaxed == ()
