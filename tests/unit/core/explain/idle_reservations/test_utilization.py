"""Idle reservations: obstacles are worked out once for reservations that differ only in name."""

from collections.abc import Sequence

from tests.support.model_builders import (
    GIB,
    affinity_term,
    existing_node,
    explained_plan,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
)

from wainwright.core.explain.idle_reservations.utilization import (
    ReservationUtilization,
    reservation_utilization,
)
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVATION_ID, RESERVED, ZONE
from wainwright.model.pod import Pod, PodConstraints
from wainwright.model.reasons import (
    LabelConflict,
    ReservationObstacle,
    ReservationTooSmall,
    TopologyElsewhere,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Node, Pool, ReservationState, Snapshot

ZONES = {"cr-1": "zone-a", "cr-2": "zone-a", "cr-3": "zone-b"}
RESERVATIONS = tuple(
    offering(
        zone=zone,
        capacity_type=RESERVED,
        price=1e-7,
        available=1,
        reservation_id=name,
        labels={RESERVATION_ID: name},
    )
    for name, zone in ZONES.items()
)
TYPES = (
    instance_type(offerings=(offering(), *RESERVATIONS)),
    instance_type(name="m5.xlarge", capacity={"cpu": 4000, "memory": 16 * GIB, "pods": 58}),
)


def utilization_by_id(
    requirements: Requirements = NO_REQUIREMENTS,
) -> dict[str, ReservationUtilization]:
    """With one pod that is too large for the reservations."""
    pod = Pod(namespace="shop", name="a", requests={"cpu": 3000}, alternatives=(requirements,))
    listed = tuple(ReservationState(id=name, total=1, available=1) for name in ZONES)
    snapshot = Snapshot(pods=(pod,), pools=(Pool(name="web"),), reservations=listed)
    catalogs = {"web": InstanceTypeIndex(TYPES)}
    return {
        one.id: one
        for one in reservation_utilization(snapshot, catalogs, explained_plan(snapshot, catalogs))
    }


def test_reservations_that_differ_only_in_their_names_share_their_obstacles() -> None:
    found = utilization_by_id()
    assert found["cr-1"].obstacles is found["cr-2"].obstacles
    assert found["cr-1"].obstacles is not found["cr-3"].obstacles
    assert {type(each.reason) for one in found.values() for each in one.obstacles} == {
        ReservationTooSmall
    }


def test_reservations_have_obstacles_of_their_own_where_a_pod_requires_one_by_id() -> None:
    found = utilization_by_id(label_requirement(RESERVATION_ID, "In", "cr-2"))
    reasons = {name: type(one.obstacles[0].reason) for name, one in found.items()}
    assert reasons == {"cr-1": LabelConflict, "cr-2": ReservationTooSmall, "cr-3": LabelConflict}


def reserved(zone: str = "zone-a", **labels: str) -> Offering:
    return offering(
        zone=zone,
        capacity_type=RESERVED,
        price=1e-7,
        available=1,
        reservation_id="cr-1",
        labels={RESERVATION_ID: "cr-1", **labels},
    )


def obstacles_by_pod(
    waiting: Sequence[Pod], *types: InstanceType, nodes: Sequence[Node] = ()
) -> dict[str, ReservationObstacle]:
    """Of the only reservation, which nobody uses."""
    snapshot = Snapshot(
        pods=tuple(waiting),
        pools=(Pool(name="web"),),
        nodes=tuple(nodes),
        reservations=(ReservationState(id="cr-1", total=1, available=1),),
    )
    catalogs = {"web": InstanceTypeIndex(types)}
    made = explained_plan(snapshot, catalogs)
    (found,) = reservation_utilization(snapshot, catalogs, made)
    assert found.idle == 1
    return {pod: each.reason for each in found.obstacles for pod in each.pods}


def test_a_running_pod_that_avoids_others_keeps_them_out_of_the_zone_of_a_reservation() -> None:
    lone = labelled_pods(1, "lone", constraints=PodConstraints(anti_affinity=(affinity_term(),)))
    found = obstacles_by_pod(
        labelled_pods(1),
        instance_type(offerings=(reserved(), offering(zone="zone-b"))),
        nodes=[existing_node("n", "zone-a", *lone, cpu=100)],
    )
    assert found == {"shop/web-0": TopologyElsewhere(keys=(ZONE,), theirs=True)}


def test_pods_are_counted_by_labels_of_the_offering_that_is_launched() -> None:
    rack = "example.com/rack"
    on_demand = label_requirement(CAPACITY_TYPE, "In", ON_DEMAND)
    avoiding = PodConstraints(anti_affinity=(affinity_term(rack),))
    found = obstacles_by_pod(
        [
            *labelled_pods(1, cpu=1500, alternatives=(on_demand,)),
            *labelled_pods(1, "shy", cpu=1000, constraints=avoiding),
        ],
        instance_type(
            offerings=(
                offering(price=2.0, labels={rack: "two"}),
                offering(price=1.0, labels={rack: "one"}),
                reserved(**{rack: "one"}),
            )
        ),
    )
    assert found["shop/shy-0"] == TopologyElsewhere(keys=(rack,))
