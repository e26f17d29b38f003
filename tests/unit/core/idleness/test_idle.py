"""Idle slots: what is asked once, and what has to be asked of each reservation."""

from tests.support.model import GIB, asking, instance_type, offering

from wainwright.core.idleness.idle import Idle, idle
from wainwright.core.plan import plan
from wainwright.model.index import TypeIndex
from wainwright.model.labels import RESERVATION_ID, RESERVED
from wainwright.model.obstacle import TooSmall
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import LabelConflict
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Reservation, Snapshot

ZONES = {"cr-1": "zone-a", "cr-2": "zone-a", "cr-3": "zone-b"}
SLOTS = tuple(
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
    instance_type(offerings=(offering(), *SLOTS)),
    instance_type(name="m5.xlarge", capacity={"cpu": 4000, "memory": 16 * GIB, "pods": 58}),
)


def taken_stock(wanted: Requirements = NO_REQUIREMENTS) -> dict[str, Idle]:
    """With one pod that is too big for the slots."""
    pod = Pod(namespace="shop", name="a", requests={"cpu": 3000}, alternatives=(wanted,))
    listed = tuple(Reservation(id=name, total=1, available=1) for name in ZONES)
    snapshot = Snapshot(pods=(pod,), pools=(Pool(name="web"),), reservations=listed)
    catalogs = {"web": TypeIndex(TYPES)}
    return {one.id: one for one in idle(snapshot, catalogs, plan(snapshot, catalogs))}


def test_reservations_that_differ_in_their_names_only_are_asked_about_once() -> None:
    found = taken_stock()
    assert found["cr-1"].kept is found["cr-2"].kept
    assert found["cr-1"].kept is not found["cr-3"].kept
    assert {type(kept.reason) for one in found.values() for kept in one.kept} == {TooSmall}


def test_where_a_name_is_asked_for_every_one_is_another() -> None:
    found = taken_stock(asking(RESERVATION_ID, "In", "cr-2"))
    reasons = {name: type(one.kept[0].reason) for name, one in found.items()}
    assert reasons == {"cr-1": LabelConflict, "cr-2": TooSmall, "cr-3": LabelConflict}
