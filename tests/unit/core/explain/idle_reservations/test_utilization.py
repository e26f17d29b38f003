"""Idle reservations: obstacles are worked out once for reservations that differ only in name."""

from tests.support.model_builders import (
    GIB,
    explained_plan,
    instance_type,
    label_requirement,
    offering,
)

from wainwright.core.explain.idle_reservations.utilization import (
    ReservationUtilization,
    reservation_utilization,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import RESERVATION_ID, RESERVED
from wainwright.model.pod import Pod
from wainwright.model.reasons import LabelConflict, ReservationTooSmall
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Pool, ReservationState, Snapshot

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
