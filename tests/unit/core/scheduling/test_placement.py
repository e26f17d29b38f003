"""Placement: volumes, attachments, taints, and reservations of pods with topology constraints."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_builders import (
    GIB,
    ZONES,
    affinity_term,
    existing_node,
    explain_pods,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    plan_pods,
    pods_by_zone,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.core.scheduling.new_node import MANY_POOLS
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    RESERVATION_ID,
    RESERVED,
    ZONE,
)
from wainwright.model.plan import ClusterLimits, PackingPolicy, Plan, PlanOptions
from wainwright.model.pod import Pod, PodConstraints, PreferredNodeTerm, VolumeAttachment
from wainwright.model.snapshot import Node, Pool
from wainwright.model.taints import (
    NO_EXECUTE,
    PREFER_NO_SCHEDULE,
    Taint,
    Toleration,
    TolerationOperator,
)

EPHEMERAL = [
    (Taint(key="node.kubernetes.io/not-ready"), True),
    (Taint(key="node.kubernetes.io/not-ready", effect=NO_EXECUTE), True),
    (Taint(key="node.kubernetes.io/unreachable"), True),
    (Taint(key="node.kubernetes.io/unreachable", effect=NO_EXECUTE), False),
    (Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true"), True),
    (Taint(key="karpenter.sh/unregistered", effect=NO_EXECUTE), True),
    (Taint(key="readiness.k8s.io/network", effect=NO_EXECUTE), True),
    (Taint(key="example.com/readiness.k8s.io/network"), False),
    (Taint(key="example.com/starting"), True),
    (Taint(key="example.com/other"), False),
]
"""Taints of an uninitialized node, and whether they are ignored there; TNT-3 and TNT-4."""


@pytest.mark.parametrize(("taint", "is_ephemeral"), EPHEMERAL)
def test_ephemeral_taints_count_once_the_node_is_initialized(
    taint: Taint, is_ephemeral: bool
) -> None:
    uninitialized = Node(
        name="n",
        allocatable={"cpu": 1000, "pods": 5},
        taints=(taint,),
        startup_taints=(Taint(key="example.com/starting"),),
        initialized=False,
    )
    initialized = msgspec.structs.replace(uninitialized, initialized=True)
    unmanaged = msgspec.structs.replace(uninitialized, managed=False)
    assert (
        bool(plan_pods(labelled_pods(1), pools=(), nodes=[uninitialized]).scheduled) is is_ephemeral
    )
    assert plan_pods(labelled_pods(1), pools=(), nodes=[initialized]).scheduled == 0
    assert plan_pods(labelled_pods(1), pools=(), nodes=[unmanaged]).scheduled == 0


def test_a_pod_that_tolerates_a_prefer_no_schedule_taint_is_not_relaxed() -> None:
    soft = Pool(name="soft", taints=(Taint(key="soft", effect=PREFER_NO_SCHEDULE),))
    tolerant = Toleration(key="soft", operator=TolerationOperator.EXISTS)
    tolerating = [msgspec.structs.replace(pod, tolerations=(tolerant,)) for pod in labelled_pods(1)]
    assert plan_pods(tolerating, pools=(soft,)).relaxed == ()
    assert len(plan_pods(labelled_pods(1), pools=(soft,)).relaxed) == 1


def pods_with_volumes(count: int, *volumes: str, driver: str = "ebs") -> tuple[Pod, ...]:
    constraints = PodConstraints(
        attachments=tuple(VolumeAttachment(driver=driver, volume=v) for v in volumes)
    )
    return labelled_pods(count, constraints=constraints)


def node_with_attach_limit(most: int, *running: Pod) -> Node:
    node = existing_node("n", "zone-a", *running)
    return msgspec.structs.replace(node, attach_limits={"ebs": most})


def test_a_node_takes_no_more_volumes_than_its_attach_limit() -> None:
    each = [pod for n in range(4) for pod in pods_with_volumes(1, f"vol-{n}")]
    each = [msgspec.structs.replace(pod, name=f"web-{n}") for n, pod in enumerate(each)]
    result = plan_pods(each, pools=(), nodes=[node_with_attach_limit(3)])
    assert (result.scheduled, result.unscheduled) == (3, 1)


def test_attached_volumes_and_those_of_other_drivers_do_not_count() -> None:
    attached = pods_with_volumes(1, "one")
    assert (
        plan_pods(
            pods_with_volumes(5, "one"), pools=(), nodes=[node_with_attach_limit(1, *attached)]
        ).scheduled
        == 5
    )
    assert (
        plan_pods(
            pods_with_volumes(1, "two"), pools=(), nodes=[node_with_attach_limit(1, *attached)]
        ).scheduled
        == 0
    )
    other = pods_with_volumes(1, "two", driver="nfs")
    assert plan_pods(other, pools=(), nodes=[node_with_attach_limit(1, *attached)]).scheduled == 1


def test_a_new_node_has_no_attach_limit() -> None:
    result = plan_pods(
        pods_with_volumes(1, *[f"vol-{n}" for n in range(30)]), nodes=[node_with_attach_limit(1)]
    )
    assert len(result.claims) == 1


def named(pods: Iterable[Pod]) -> list[Pod]:
    return [msgspec.structs.replace(pod, name=f"web-{n}") for n, pod in enumerate(pods)]


def volumes_of(plan: Plan, pods: Iterable[Pod]) -> list[set[str]]:
    by_key = {pod.key: pod for pod in pods}
    return [
        {each.volume for key in claim.pods for each in by_key[key].constraints.attachments}
        for claim in plan.claims
    ]


LIMITED = PlanOptions(attach_limits=(("ebs", 3),))


@pytest.mark.parametrize("packing", PackingPolicy)
def test_new_nodes_are_planned_for_as_many_volumes_as_they_are_taken_to_attach(
    packing: PackingPolicy,
) -> None:
    pods = named(pod for n in range(8) for pod in pods_with_volumes(1, f"vol-{n}"))
    options = msgspec.structs.replace(LIMITED, packing=packing)
    result = plan_pods(pods, options=options)
    assert sorted(map(len, volumes_of(result, pods))) == [2, 3, 3]
    assert result.unscheduled == 0


def test_a_volume_that_pods_share_is_attached_once() -> None:
    pods = named([*pods_with_volumes(20, "shared"), *pods_with_volumes(1, "one", "two")])
    assert len(plan_pods(pods, options=LIMITED).claims) == 1


def test_volumes_of_other_drivers_are_not_limited() -> None:
    pods = named(pod for n in range(8) for pod in pods_with_volumes(1, f"v-{n}", driver="nfs"))
    assert len(plan_pods(pods, options=LIMITED).claims) == 1


def test_a_node_that_has_not_reported_its_limit_is_taken_to_have_one() -> None:
    pods = named(pod for n in range(4) for pod in pods_with_volumes(1, f"vol-{n}"))
    starting = msgspec.structs.replace(existing_node("n", "zone-a"), initialized=False)
    started = existing_node("n", "zone-a")
    assert plan_pods(pods, pools=(), nodes=[starting], options=LIMITED).scheduled == 3
    assert plan_pods(pods, pools=(), nodes=[started], options=LIMITED).scheduled == 4


VOLUMES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True)


@given(st.lists(VOLUMES, min_size=1, max_size=12))
def test_no_new_node_exceeds_the_limit_and_no_pod_is_kept_waiting_for_it(
    wanted: list[list[str]],
) -> None:
    pods = named(pod for volumes in wanted for pod in pods_with_volumes(1, *volumes))
    result = plan_pods(pods, options=LIMITED)
    assert result.unscheduled == 0
    assert all(len(volumes) <= 3 for volumes in volumes_of(result, pods))


def test_volume_topology_is_never_relaxed() -> None:
    constraints = PodConstraints(
        volume_topology=(label_requirement(ZONE, "In", "zone-b"),),
        preferred_nodes=(
            PreferredNodeTerm(weight=1, requirements=label_requirement(ZONE, "In", "zone-c")),
        ),
    )
    result = plan_pods(labelled_pods(1, constraints=constraints))
    assert result.claims[0].choices.zones == ("zone-b",)
    assert [str(each.__struct_config__.tag) for each in result.relaxed[0].preferences] == [
        "OnNodes"
    ]


def test_volume_topology_that_contradicts_node_affinity_is_the_reason() -> None:
    constraints = PodConstraints(volume_topology=(label_requirement(ZONE, "In", "zone-b"),))
    groups = explain_pods(
        labelled_pods(
            1, constraints=constraints, alternatives=(label_requirement(ZONE, "In", "zone-a"),)
        )
    )
    assert [str(group.reason.__struct_config__.tag) for group in groups] == ["VolumesElsewhere"]


def test_pods_that_wait_for_a_held_reservation_are_not_relaxed() -> None:
    """One reserved instance in each of two rounds: the second pod waits and keeps its zone."""
    reserved = instance_type(
        name="r",
        capacity={"cpu": 1000, "pods": 5},
        offerings=(
            offering(
                zone="zone-a",
                capacity_type=RESERVED,
                price=1e-7,
                available=2,
                reservation_id="cr-1",
            ),
            offering(zone="zone-a", price=5.0),
            offering(zone="zone-b", price=1.0),
        ),
    )
    preferred = PreferredNodeTerm(weight=1, requirements=label_requirement(ZONE, "In", "zone-a"))
    result = plan_pods(
        labelled_pods(2, cpu=900, constraints=PodConstraints(preferred_nodes=(preferred,))),
        reserved,
    )
    assert [claim.launch.reservation_id for claim in result.claims] == ["cr-1", "cr-1"]
    assert result.relaxed == ()


def test_ten_thousand_pods_with_anti_affinity_use_one_reserved_instance() -> None:
    one_reserved = instance_type(
        capacity={"cpu": 2000, "pods": 20},
        offerings=(
            offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1"),
            offering(price=1.0),
        ),
    )
    anti_affinity = PodConstraints(anti_affinity=(affinity_term(HOSTNAME),))
    result = plan_pods(labelled_pods(10_000, cpu=1, constraints=anti_affinity), one_reserved)
    reserved = [claim for claim in result.claims if claim.launch.reservation_id]
    assert (len(result.claims), len(reserved)) == (10_000, 1)


def test_pods_with_anti_affinity_use_the_pool_with_the_highest_weight() -> None:
    expensive = Pool(
        name="expensive", weight=100, requirements=label_requirement("size", "In", "huge")
    )
    cheap = Pool(name="cheap")
    anti_affinity = PodConstraints(anti_affinity=(affinity_term(HOSTNAME),))
    result = plan_pods(
        labelled_pods(20, constraints=anti_affinity),
        zonal_instance_type(price=24.48),
        pools=(expensive, cheap),
    )
    assert {claim.pool for claim in result.claims} == {"expensive"}
    assert len(result.claims) == 20


def test_a_spread_over_capacity_types_includes_reserved_while_available() -> None:
    both_types = instance_type(
        capacity={"cpu": 16000, "pods": 50},
        offerings=(
            offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1"),
            offering(price=1.0),
        ),
    )
    result = plan_pods(labelled_pods(4, constraints=spread_constraint(CAPACITY_TYPE)), both_types)
    assert sorted((claim.launch.capacity_type, len(claim.pods)) for claim in result.claims) == [
        ("on-demand", 2),
        ("reserved", 2),
    ]


def test_a_schedule_anyway_spread_is_relaxed_and_a_required_one_is_not() -> None:
    full = existing_node("full", "zone-b", cpu=0)
    here = zonal_instance_type(zones=("zone-a",))
    soft = plan_pods(
        labelled_pods(3, constraints=spread_constraint(required=False)), here, nodes=[full]
    )
    assert (pods_by_zone(soft), len(soft.relaxed[0].pods)) == ({"zone-a": 3}, 2)
    assert pods_by_zone(
        plan_pods(labelled_pods(3, constraints=spread_constraint()), here, nodes=[full])
    ) == {"zone-a": 1}


def team_pools(count: int) -> list[Pool]:
    """Of one weight, each for pods of its own team."""
    return [
        Pool(name=f"team-{number:02}", requirements=label_requirement("team", "In", f"{number}"))
        for number in range(count)
    ]


def test_the_only_node_pool_that_fits_is_found_among_very_many() -> None:
    (pod,) = labelled_pods(1, alternatives=(label_requirement("team", "In", "37"),))
    (claim,) = plan_pods([pod], pools=team_pools(MANY_POOLS + 8)).claims
    assert claim.pool == "team-37"


@pytest.mark.parametrize("pools", [2, MANY_POOLS + 8])
def test_limits_of_the_cluster_leave_fewer_types_to_all_of_very_many_node_pools(
    pools: int,
) -> None:
    """After a node of four cpus the cluster has room for one of two, which only one pool has."""
    types = [
        instance_type(
            name=name,
            labels={INSTANCE_TYPE: name},
            capacity={"cpu": cpu, "memory": 8 * GIB, "pods": 29},
            offerings=(offering(price=price),),
        )
        for name, cpu, price in (("large", 4000, 1.0), ("small", 2000, 2.0))
    ]
    large, small = (label_requirement(INSTANCE_TYPE, "In", each.name) for each in types)
    result = plan_pods(
        labelled_pods(3, cpu=1900, constraints=spread_constraint(HOSTNAME)),
        *types,
        pools=[
            *(Pool(name=f"large-{number:02}", requirements=large) for number in range(pools)),
            Pool(name="small", requirements=small),
        ],
        options=PlanOptions(cluster_limits=ClusterLimits(cpu=7000)),
    )
    found = [(claim.launch.instance_type, claim.round) for claim in result.claims]
    assert found == [("large", 1), ("small", 1)]
    assert len(result.unplaced) == 1


def test_a_node_does_not_get_a_label_that_its_pods_only_accept_the_absence_of() -> None:
    without_gpu = (label_requirement("example.com/gpu", "NotIn", "a100"),)
    (claim,) = plan_pods(labelled_pods(1, alternatives=without_gpu)).claims
    assert "example.com/gpu" not in claim.requirements


@pytest.mark.parametrize(("others", "scheduled"), [(1, 1), (2, 0)])
def test_a_pod_that_its_own_spread_does_not_count_may_join_as_many_as_the_skew(
    others: int, scheduled: int
) -> None:
    node = existing_node("n", "zone-a", *labelled_pods(others, app="other"))
    away = labelled_pods(1, constraints=spread_constraint(HOSTNAME, app="other"))
    assert plan_pods(away, pools=(), nodes=[node]).scheduled == scheduled


def test_a_node_without_a_label_of_any_of_the_spreads_does_not_count_for_the_others() -> None:
    """Five replicas run in zone-a on a node without a rack, and only zone-a has room."""
    racks = spread_constraint("example.com/rack").spreads
    both = msgspec.structs.replace(spread_constraint(), spreads=spread_constraint().spreads + racks)
    bare = existing_node("bare", "zone-a", *labelled_pods(5, app="web"))
    full, free = existing_node("full", "zone-b", cpu=0), existing_node("free", "zone-a")
    racked = [
        msgspec.structs.replace(node, labels={**node.labels, "example.com/rack": node.name})
        for node in (full, free)
    ]
    new = [msgspec.structs.replace(pod, name="new") for pod in labelled_pods(1, constraints=both)]
    assert plan_pods(new, pools=(), nodes=[bare, *racked]).scheduled == 1


def test_a_node_gives_up_the_reservations_of_zones_that_its_pods_do_not_allow() -> None:
    """One of zone-a before the small pod joins; the large pod gets it in the same round."""
    reservations = [
        offering(
            zone=zone,
            capacity_type=RESERVED,
            price=1e-7,
            available=1,
            reservation_id=f"cr-{zone}",
            labels={RESERVATION_ID: f"cr-{zone}"},
        )
        for zone in ZONES[:2]
    ]
    in_zone = label_requirement(ZONE, "In", "zone-b")
    result = plan_pods(
        [
            *labelled_pods(1, "first", cpu=1500),
            *labelled_pods(1, "large", cpu=1450),
            *labelled_pods(1, "small", cpu=400, alternatives=(in_zone,)),
            *labelled_pods(1, "last", cpu=390),
        ],
        instance_type(offerings=(offering(), *reservations)),
    )
    assert [(claim.pods, claim.launch.reservation_id, claim.round) for claim in result.claims] == [
        (("shop/first-0", "shop/small-0"), "cr-zone-b", 1),
        (("shop/large-0", "shop/last-0"), "cr-zone-a", 1),
    ]
