"""Placing: volumes, attachments, taints and reservations of pods that are tied."""

import msgspec
import pytest
from tests.support.model_builders import (
    affinity_term,
    existing_node,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    plan_pods,
    pods_by_zone,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, RESERVED, ZONE
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
"""Taints of a young node, and whether they are no obstacle there; TNT-3 and TNT-4."""


@pytest.mark.parametrize(("taint", "fades"), EPHEMERAL)
def test_taints_that_fade_count_once_the_node_is_initialized(taint: Taint, fades: bool) -> None:
    young = Node(
        name="n",
        allocatable={"cpu": 1000, "pods": 5},
        taints=(taint,),
        startup_taints=(Taint(key="example.com/starting"),),
        initialized=False,
    )
    grown = msgspec.structs.replace(young, initialized=True)
    foreign = msgspec.structs.replace(young, managed=False)
    assert bool(plan_pods(labelled_pods(1), pools=(), nodes=[young]).scheduled) is fades
    assert plan_pods(labelled_pods(1), pools=(), nodes=[grown]).scheduled == 0
    assert plan_pods(labelled_pods(1), pools=(), nodes=[foreign]).scheduled == 0


def test_a_pod_that_tolerates_a_soft_taint_does_not_give_anything_up() -> None:
    soft = Pool(name="soft", taints=(Taint(key="soft", effect=PREFER_NO_SCHEDULE),))
    tolerant = Toleration(key="soft", operator=TolerationOperator.EXISTS)
    easy = [msgspec.structs.replace(pod, tolerations=(tolerant,)) for pod in labelled_pods(1)]
    assert plan_pods(easy, pools=(soft,)).relaxed == ()
    assert len(plan_pods(labelled_pods(1), pools=(soft,)).relaxed) == 1


def mounting(count: int, *volumes: str, driver: str = "ebs") -> tuple[Pod, ...]:
    constraints = PodConstraints(
        attachments=tuple(VolumeAttachment(driver=driver, volume=v) for v in volumes)
    )
    return labelled_pods(count, constraints=constraints)


def limited(most: int, *running: Pod) -> Node:
    node = existing_node("n", "zone-a", *running)
    return msgspec.structs.replace(node, attach_limits={"ebs": most})


def test_a_node_takes_no_more_volumes_than_it_can() -> None:
    each = [pod for n in range(4) for pod in mounting(1, f"vol-{n}")]
    each = [msgspec.structs.replace(pod, name=f"web-{n}") for n, pod in enumerate(each)]
    made = plan_pods(each, pools=(), nodes=[limited(3)])
    assert (made.scheduled, made.unscheduled) == (3, 1)


def test_volumes_that_are_there_already_and_those_of_others_cost_nothing() -> None:
    there = mounting(1, "one")
    assert plan_pods(mounting(5, "one"), pools=(), nodes=[limited(1, *there)]).scheduled == 5
    assert plan_pods(mounting(1, "two"), pools=(), nodes=[limited(1, *there)]).scheduled == 0
    other = mounting(1, "two", driver="nfs")
    assert plan_pods(other, pools=(), nodes=[limited(1, *there)]).scheduled == 1


def test_of_a_node_yet_to_come_no_limit_is_known() -> None:
    made = plan_pods(mounting(1, *[f"vol-{n}" for n in range(30)]), nodes=[limited(1)])
    assert len(made.claims) == 1


def test_the_place_of_a_volume_is_no_preference() -> None:
    constraints = PodConstraints(
        volume_topology=(label_requirement(ZONE, "In", "zone-b"),),
        preferred_nodes=(
            PreferredNodeTerm(weight=1, requirements=label_requirement(ZONE, "In", "zone-c")),
        ),
    )
    made = plan_pods(labelled_pods(1, constraints=constraints))
    assert made.claims[0].choices.zones == ("zone-b",)
    assert [str(each.__struct_config__.tag) for each in made.relaxed[0].preferences] == ["OnNodes"]


def test_volumes_and_nodes_that_never_meet_leave_no_place_and_say_so() -> None:
    constraints = PodConstraints(volume_topology=(label_requirement(ZONE, "In", "zone-b"),))
    made = plan_pods(
        labelled_pods(
            1, constraints=constraints, alternatives=(label_requirement(ZONE, "In", "zone-a"),)
        )
    )
    assert [str(group.reason.__struct_config__.tag) for group in made.unschedulable] == [
        "VolumesElsewhere"
    ]


def test_a_held_slot_makes_nobody_give_up_what_it_would_like() -> None:
    """One slot in each of two rounds: the second pod waits rather than leave its zone."""
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
    liked = PreferredNodeTerm(weight=1, requirements=label_requirement(ZONE, "In", "zone-a"))
    made = plan_pods(
        labelled_pods(2, cpu=900, constraints=PodConstraints(preferred_nodes=(liked,))), reserved
    )
    assert [claim.launch.reservation_id for claim in made.claims] == ["cr-1", "cr-1"]
    assert made.relaxed == ()


def test_ten_thousand_that_keep_apart_take_one_slot() -> None:
    one_slot = instance_type(
        capacity={"cpu": 2000, "pods": 20},
        offerings=(
            offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1"),
            offering(price=1.0),
        ),
    )
    apart = PodConstraints(anti_affinity=(affinity_term(HOSTNAME),))
    made = plan_pods(labelled_pods(10_000, cpu=1, constraints=apart), one_slot)
    reserved = [claim for claim in made.claims if claim.launch.reservation_id]
    assert (len(made.claims), len(reserved)) == (10_000, 1)


def test_twenty_that_keep_apart_obey_the_heavy_pool() -> None:
    dear = Pool(name="dear", weight=100, requirements=label_requirement("size", "In", "huge"))
    cheap = Pool(name="cheap")
    apart = PodConstraints(anti_affinity=(affinity_term(HOSTNAME),))
    made = plan_pods(
        labelled_pods(20, constraints=apart), zonal_instance_type(price=24.48), pools=(dear, cheap)
    )
    assert {claim.pool for claim in made.claims} == {"dear"}
    assert len(made.claims) == 20


def test_an_even_spread_over_what_is_bought_includes_slots_while_there_are_any() -> None:
    kinds = instance_type(
        capacity={"cpu": 16000, "pods": 50},
        offerings=(
            offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1"),
            offering(price=1.0),
        ),
    )
    made = plan_pods(labelled_pods(4, constraints=spread_constraint(CAPACITY_TYPE)), kinds)
    assert sorted((claim.launch.capacity_type, len(claim.pods)) for claim in made.claims) == [
        ("on-demand", 2),
        ("reserved", 2),
    ]


def test_a_preferred_spread_gives_way_and_a_required_one_does_not() -> None:
    full = existing_node("full", "zone-b", cpu=0)
    here = zonal_instance_type(zones=("zone-a",))
    soft = plan_pods(
        labelled_pods(3, constraints=spread_constraint(required=False)), here, nodes=[full]
    )
    assert (pods_by_zone(soft), len(soft.relaxed[0].pods)) == ({"zone-a": 3}, 2)
    assert pods_by_zone(
        plan_pods(labelled_pods(3, constraints=spread_constraint()), here, nodes=[full])
    ) == {"zone-a": 1}
