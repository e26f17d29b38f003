"""Capacity reservations in CreateFleet: the rows of the table that the design gives, and blocks.

Each row says what the templates aim at, what the fleet and the templates prefer, and where machines
end up when there is little room in the reservations.
"""

from typing import Any

import msgspec
import pytest
from tests.support.launches import (
    FIRST,
    OPEN_ONES,
    A,
    B,
    Yard,
    codes,
    errors,
    launched,
    pools,
    reservation,
    stock,
)

from wainwright.clock import EPOCH
from wainwright.emulator.settings import Settings
from wainwright.emulator.times import iso

CHEAP, DEAR = ("c5.large", A), ("m5.large", A)

EXCEEDED = "ReservationCapacityExceeded"

ONLY = "capacity-reservations-only"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Two reservations of one place each, for the cheap and the dear pool, and four machines."""

    criteria: str
    target: bool
    use_first: bool = False
    preference: str | None = None
    reserved: int
    """Of the four machines, how many run in a reservation."""
    outside: int
    """And how many beside them."""
    code: str | None = None


ROWS = {
    "1: targets are ignored where reservations are used first": Row(
        criteria="targeted",
        target=True,
        use_first=True,
        reserved=0,
        outside=0,
        code="UnfulfillableCapacity",
    ),
    "1, with open reservations": Row(
        criteria="open",
        target=True,
        use_first=True,
        reserved=0,
        outside=0,
        code="UnfulfillableCapacity",
    ),
    "2: open ones are used up first, then on-demand": Row(
        criteria="open", target=False, use_first=True, reserved=2, outside=2
    ),
    "2: targeted ones stay free even so": Row(
        criteria="targeted", target=False, use_first=True, reserved=0, outside=4
    ),
    "3: from one reservation to the next, and no further": Row(
        criteria="targeted", target=True, reserved=2, outside=0, code=EXCEEDED
    ),
    "3, with open reservations": Row(
        criteria="open", target=True, reserved=2, outside=0, code=EXCEEDED
    ),
    "4: by luck into an open one": Row(criteria="open", target=False, reserved=1, outside=3),
    "4: never into a targeted one": Row(criteria="targeted", target=False, reserved=0, outside=4),
    "5: never where none is wanted": Row(
        criteria="open", target=False, preference="none", reserved=0, outside=4
    ),
    "6: none with a target is an error": Row(
        criteria="targeted",
        target=True,
        preference="none",
        reserved=0,
        outside=0,
        code="InvalidParameterCombination",
    ),
    "6, with open reservations": Row(
        criteria="open",
        target=True,
        preference="none",
        reserved=0,
        outside=0,
        code="InvalidParameterCombination",
    ),
    "7: only reservations, with a target, is a target": Row(
        criteria="targeted", target=True, preference=ONLY, reserved=2, outside=0, code=EXCEEDED
    ),
    "7, with open reservations": Row(
        criteria="open", target=True, preference=ONLY, reserved=2, outside=0, code=EXCEEDED
    ),
    "7, used first: ignored like any target": Row(
        criteria="open",
        target=True,
        use_first=True,
        preference=ONLY,
        reserved=0,
        outside=0,
        code="UnfulfillableCapacity",
    ),
    "only reservations, without a target: open ones": Row(
        criteria="open", target=False, preference=ONLY, reserved=2, outside=0, code=EXCEEDED
    ),
    "none, used first: never": Row(
        criteria="open", target=False, use_first=True, preference="none", reserved=0, outside=4
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_the_table(row: Row) -> None:
    more: dict[str, Any] = {"total": 1, "instanceMatchCriteria": row.criteria}
    held = [reservation(1, *CHEAP, **more), reservation(2, *DEAR, **more)]
    yard = Yard(*held)
    configs = []
    for pool, each in zip((CHEAP, DEAR), held, strict=True):
        name = yard.aiming(f"to-{each.id}", each.id if row.target else None, row.preference)
        configs.append(yard.config(pool, template=name))
    options = FIRST if row.use_first else {}
    answer = yard.fleet(*configs, count=4, OnDemandOptions=options)
    machines = yard.describe(*launched(answer)) if launched(answer) else []
    inside = [each for each in machines if "CapacityReservationId" in each]
    assert (len(inside), len(machines) - len(inside)) == (row.reserved, row.outside)
    assert codes(answer) == (set() if row.code is None else {row.code})
    assert sum(yard.free(each.id) for each in held) == 2 - row.reserved
    for machine in machines:
        said = machine["CapacityReservationSpecification"]
        assert said["CapacityReservationPreference"] == (row.preference or "open")


def test_open_reservations_go_first_although_their_pool_is_dearer() -> None:
    yard = Yard(reservation(1, *DEAR, total=2, **OPEN_ONES))
    answer = yard.fleet(yard.config(CHEAP, DEAR), count=3, OnDemandOptions=FIRST)
    assert pools(answer) == [(*DEAR, 2), (*CHEAP, 1)]
    assert answer["Errors"] == []


def test_templates_without_a_target_are_used_beside_ignored_ones() -> None:
    yard = Yard(reservation(1, *CHEAP))
    name = yard.aiming("aimed", "cr-00000001")
    configs = (yard.config(CHEAP, template=name), yard.config(DEAR))
    answer = yard.fleet(*configs, OnDemandOptions=FIRST)
    assert pools(answer) == [(*DEAR, 1)]
    assert answer["Errors"] == []


def test_a_full_reservation_is_reported_beside_what_the_next_one_gave() -> None:
    yard = Yard(reservation(1, *CHEAP, total=1), reservation(2, *DEAR, total=5))
    configs = [
        yard.config(pool, template=yard.aiming(f"to-{number}", f"cr-{number:08}", ONLY))
        for number, pool in ((1, CHEAP), (2, DEAR))
    ]
    answer = yard.fleet(*configs, count=2)
    assert pools(answer) == [(*CHEAP, 1), (*DEAR, 1)]
    assert errors(answer) == [(*CHEAP, EXCEEDED)]
    (entry,) = answer["Errors"]
    assert (entry["Lifecycle"], "sufficient compatible" in entry["ErrorMessage"]) == (
        "on-demand",
        True,
    )


def test_a_reserved_machine_says_so_in_both_places() -> None:
    yard = Yard(reservation(1, *DEAR))
    name = yard.aiming("aimed", "cr-00000001", ONLY)
    (found,) = launched(yard.fleet(yard.config(DEAR, template=name)))
    machine = yard.machine(found)
    assert machine["CapacityReservationId"] == "cr-00000001"
    assert machine["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": ONLY,
        "CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"},
    }
    assert "InstanceLifecycle" not in machine


def test_reserved_capacity_is_there_when_the_stock_is_empty() -> None:
    rules = (stock(0, "m5.large", A, "on-demand"),)
    yard = Yard(reservation(1, *DEAR, **OPEN_ONES), settings=Settings(stock=rules))
    answer = yard.fleet(yard.config(DEAR), count=3)
    assert pools(answer) == [(*DEAR, 2)]
    assert codes(answer) == {"InsufficientInstanceCapacity"}


@pytest.mark.parametrize(
    "more",
    [
        {"availabilityZone": B},
        {"instanceType": "m5.xlarge"},
        {"platform": "Windows"},
        {"tenancy": "dedicated"},
        {"state": "expired"},
        {"available": 0},
        {"startTime": iso(EPOCH + 3600)},
        {"endTime": iso(EPOCH)},
    ],
)
@pytest.mark.parametrize("aimed", [False, True])
def test_a_reservation_takes_only_what_matches(more: dict[str, Any], aimed: bool) -> None:
    told: dict[str, Any] = {"instanceType": "m5.large", "availabilityZone": A, **OPEN_ONES, **more}
    where = (told.pop("instanceType"), told.pop("availabilityZone"))
    yard = Yard(reservation(1, *where, **told))
    name = yard.aiming("aimed", "cr-00000001" if aimed else None)
    answer = yard.fleet(yard.config(DEAR, template=name))
    if aimed:
        assert (launched(answer), codes(answer)) == ([], {EXCEEDED})
    else:
        assert yard.inside(launched(answer)[0]) is None


def test_an_unknown_target_is_not_found() -> None:
    yard = Yard()
    name = yard.aiming("aimed", "cr-0123456789abcdef0")
    answer = yard.fleet(yard.config(DEAR, template=name))
    assert codes(answer) == {"InvalidCapacityReservationId.NotFound"}


def test_spot_machines_do_not_join() -> None:
    yard = Yard(reservation(1, *DEAR, **OPEN_ONES))
    assert yard.inside(yard.launch(*DEAR, market="spot")[0]) is None
    name = yard.aiming("aimed", "cr-00000001")
    answer = yard.fleet(yard.config(DEAR, template=name), market="spot")
    assert codes(answer) == {"InvalidParameterCombination"}


def test_machines_with_windows_join_reservations_for_it() -> None:
    yard = Yard(reservation(1, *DEAR, platform="Windows", **OPEN_ONES))
    config = yard.config(yard.override(*DEAR, ImageId=yard.windows_image))
    (found,) = launched(yard.fleet(config))
    assert yard.inside(found) == "cr-00000001"
    assert yard.machine(found)["Platform"] == "Windows"


def test_a_group_of_reservations_is_not_emulated() -> None:
    yard = Yard()
    target = {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:x"}
    name = yard.template(
        "group", CapacityReservationSpecification={"CapacityReservationTarget": target}
    )
    request = yard.request(yard.config(DEAR, template=name))
    assert yard.refused("CreateFleet", **request) == ("UnsupportedOperation", 400)
