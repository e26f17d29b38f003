"""Idle slots: what is asked once, and what has to be asked of each reservation."""

from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.core.explain.idle_reservations.utilization import (
    ReservationUtilization,
    reservation_utilization,
)
from wainwright.core.plan import plan
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


def utilization_by_id(wanted: Requirements = NO_REQUIREMENTS) -> dict[str, ReservationUtilization]:
    """With one pod that is too big for the slots."""
    pod = Pod(namespace="shop", name="a", requests={"cpu": 3000}, alternatives=(wanted,))
    listed = tuple(ReservationState(id=name, total=1, available=1) for name in ZONES)
    snapshot = Snapshot(pods=(pod,), pools=(Pool(name="web"),), reservations=listed)
    catalogs = {"web": InstanceTypeIndex(TYPES)}
    return {
        one.id: one for one in reservation_utilization(snapshot, catalogs, plan(snapshot, catalogs))
    }


def test_reservations_that_differ_in_their_names_only_are_asked_about_once() -> None:
    found = utilization_by_id()
    assert found["cr-1"].kept is found["cr-2"].kept
    assert found["cr-1"].kept is not found["cr-3"].kept
    assert {type(kept.reason) for one in found.values() for kept in one.kept} == {
        ReservationTooSmall
    }


def test_where_a_name_is_asked_for_every_one_is_another() -> None:
    found = utilization_by_id(label_requirement(RESERVATION_ID, "In", "cr-2"))
    reasons = {name: type(one.kept[0].reason) for name, one in found.items()}
    assert reasons == {"cr-1": LabelConflict, "cr-2": ReservationTooSmall, "cr-3": LabelConflict}
