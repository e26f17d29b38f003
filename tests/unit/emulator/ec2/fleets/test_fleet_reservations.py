"""Capacity reservations and capacity blocks in CreateFleet."""

from typing import Any

import msgspec
import pytest
from tests.support.emulator_launches import (
    OPEN_RESERVATION,
    USE_RESERVATIONS_FIRST,
    A,
    B,
    LaunchAccount,
    capacity_stock,
    cloud_reservation,
    launch_error_codes,
    launch_errors,
    launched_ids,
    launched_pools,
)

from wainwright.clock import EPOCH
from wainwright.emulator.api_conventions import iso_timestamp
from wainwright.emulator.settings import EmulatorSettings

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
    held = [cloud_reservation(1, *CHEAP, **more), cloud_reservation(2, *DEAR, **more)]
    yard = LaunchAccount(*held)
    configs = []
    for pool, each in zip((CHEAP, DEAR), held, strict=True):
        name = yard.aiming(f"to-{each.id}", each.id if row.target else None, row.preference)
        configs.append(yard.config(pool, template=name))
    options = USE_RESERVATIONS_FIRST if row.use_first else {}
    answer = yard.fleet(*configs, count=4, OnDemandOptions=options)
    machines = yard.describe(*launched_ids(answer)) if launched_ids(answer) else []
    inside = [each for each in machines if "CapacityReservationId" in each]
    assert (len(inside), len(machines) - len(inside)) == (row.reserved, row.outside)
    assert launch_error_codes(answer) == (set() if row.code is None else {row.code})
    assert sum(yard.free(each.id) for each in held) == 2 - row.reserved
    for machine in machines:
        said = machine["CapacityReservationSpecification"]
        assert said["CapacityReservationPreference"] == (row.preference or "open")


def test_open_reservations_go_first_although_their_pool_is_dearer() -> None:
    yard = LaunchAccount(cloud_reservation(1, *DEAR, total=2, **OPEN_RESERVATION))
    answer = yard.fleet(yard.config(CHEAP, DEAR), count=3, OnDemandOptions=USE_RESERVATIONS_FIRST)
    assert launched_pools(answer) == [(*DEAR, 2), (*CHEAP, 1)]
    assert answer["Errors"] == []


def test_templates_without_a_target_are_used_beside_ignored_ones() -> None:
    yard = LaunchAccount(cloud_reservation(1, *CHEAP))
    name = yard.aiming("aimed", "cr-00000001")
    configs = (yard.config(CHEAP, template=name), yard.config(DEAR))
    answer = yard.fleet(*configs, OnDemandOptions=USE_RESERVATIONS_FIRST)
    assert launched_pools(answer) == [(*DEAR, 1)]
    assert answer["Errors"] == []


def test_a_full_reservation_is_reported_beside_what_the_next_one_gave() -> None:
    yard = LaunchAccount(
        cloud_reservation(1, *CHEAP, total=1), cloud_reservation(2, *DEAR, total=5)
    )
    configs = [
        yard.config(pool, template=yard.aiming(f"to-{number}", f"cr-{number:08}", ONLY))
        for number, pool in ((1, CHEAP), (2, DEAR))
    ]
    answer = yard.fleet(*configs, count=2)
    assert launched_pools(answer) == [(*CHEAP, 1), (*DEAR, 1)]
    assert launch_errors(answer) == [(*CHEAP, EXCEEDED)]
    (entry,) = answer["Errors"]
    assert (entry["Lifecycle"], "sufficient compatible" in entry["ErrorMessage"]) == (
        "on-demand",
        True,
    )


def test_a_reserved_machine_says_so_in_both_places() -> None:
    yard = LaunchAccount(cloud_reservation(1, *DEAR))
    name = yard.aiming("aimed", "cr-00000001", ONLY)
    (found,) = launched_ids(yard.fleet(yard.config(DEAR, template=name)))
    machine = yard.machine(found)
    assert machine["CapacityReservationId"] == "cr-00000001"
    assert machine["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": ONLY,
        "CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"},
    }
    assert "InstanceLifecycle" not in machine


def test_reserved_capacity_is_there_when_the_stock_is_empty() -> None:
    rules = (capacity_stock(0, "m5.large", A, "on-demand"),)
    yard = LaunchAccount(
        cloud_reservation(1, *DEAR, **OPEN_RESERVATION), settings=EmulatorSettings(capacity_rules=rules)
    )
    answer = yard.fleet(yard.config(DEAR), count=3)
    assert launched_pools(answer) == [(*DEAR, 2)]
    assert launch_error_codes(answer) == {"InsufficientInstanceCapacity"}


@pytest.mark.parametrize(
    "more",
    [
        {"availabilityZone": B},
        {"instanceType": "m5.xlarge"},
        {"platform": "Windows"},
        {"tenancy": "dedicated"},
        {"state": "expired"},
        {"available": 0},
        {"startTime": iso_timestamp(EPOCH + 3600)},
        {"endTime": iso_timestamp(EPOCH)},
    ],
)
@pytest.mark.parametrize("aimed", [False, True])
def test_a_reservation_takes_only_what_matches(more: dict[str, Any], aimed: bool) -> None:
    told: dict[str, Any] = {
        "instanceType": "m5.large",
        "availabilityZone": A,
        **OPEN_RESERVATION,
        **more,
    }
    where = (told.pop("instanceType"), told.pop("availabilityZone"))
    yard = LaunchAccount(cloud_reservation(1, *where, **told))
    name = yard.aiming("aimed", "cr-00000001" if aimed else None)
    answer = yard.fleet(yard.config(DEAR, template=name))
    if aimed:
        assert (launched_ids(answer), launch_error_codes(answer)) == ([], {EXCEEDED})
    else:
        assert yard.inside(launched_ids(answer)[0]) is None


def test_an_unknown_target_is_not_found() -> None:
    yard = LaunchAccount()
    name = yard.aiming("aimed", "cr-0123456789abcdef0")
    answer = yard.fleet(yard.config(DEAR, template=name))
    assert launch_error_codes(answer) == {"InvalidCapacityReservationId.NotFound"}


def test_spot_machines_do_not_join() -> None:
    yard = LaunchAccount(cloud_reservation(1, *DEAR, **OPEN_RESERVATION))
    assert yard.inside(yard.launch(*DEAR, market="spot")[0]) is None
    name = yard.aiming("aimed", "cr-00000001")
    answer = yard.fleet(yard.config(DEAR, template=name), market="spot")
    assert launch_error_codes(answer) == {"InvalidParameterCombination"}


def test_machines_with_windows_join_reservations_for_it() -> None:
    yard = LaunchAccount(cloud_reservation(1, *DEAR, platform="Windows", **OPEN_RESERVATION))
    config = yard.config(yard.override(*DEAR, ImageId=yard.windows_image))
    (found,) = launched_ids(yard.fleet(config))
    assert yard.inside(found) == "cr-00000001"
    assert yard.machine(found)["Platform"] == "Windows"


def test_a_group_of_reservations_is_not_emulated() -> None:
    yard = LaunchAccount()
    target = {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:x"}
    name = yard.template(
        "group", CapacityReservationSpecification={"CapacityReservationTarget": target}
    )
    request = yard.request(yard.config(DEAR, template=name))
    assert yard.refused("CreateFleet", **request) == ("UnsupportedOperation", 400)


BLOCK = ("p5.48xlarge", A)

HOUR = 3600.0


def block(**more: Any) -> LaunchAccount:
    """A block of two machines, from one hour from now until five."""
    window: dict[str, Any] = {
        "startTime": iso_timestamp(EPOCH + HOUR),
        "endTime": iso_timestamp(EPOCH + 5 * HOUR),
    }
    return LaunchAccount(
        cloud_reservation(1, *BLOCK, **{"reservationType": "capacity-block", **window, **more})
    )


def block_template(yard: LaunchAccount, market: str | None = "capacity-block") -> str:
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}}
    data: dict[str, Any] = {"CapacityReservationSpecification": target}
    if market is not None:
        data["InstanceMarketOptions"] = {"MarketType": market}
    return yard.template("block", **data)


@pytest.mark.parametrize(
    ("hours", "works"), [(0.9, False), (1.1, True), (4.4, True), (4.6, False), (5.1, False)]
)
def test_a_capacity_block_is_used_inside_its_window_only(hours: float, works: bool) -> None:
    yard = block()
    name = block_template(yard)
    yard.wait(hours * HOUR)
    answer = yard.fleet(yard.config(BLOCK, template=name), market="capacity-block")
    assert bool(launched_ids(answer)) == works
    assert launch_error_codes(answer) == (set() if works else {EXCEEDED})
    if works:
        (entry,) = answer["Instances"]
        machine = yard.machine(entry["InstanceIds"][0])
        assert machine["InstanceLifecycle"] == entry["Lifecycle"] == "capacity-block"
        assert machine["CapacityReservationId"] == "cr-00000001"


@pytest.mark.parametrize(
    ("market", "asked"),
    [(None, "capacity-block"), ("capacity-block", "on-demand"), ("spot", "on-demand")],
)
def test_template_and_fleet_must_ask_for_a_block_together(market: str | None, asked: str) -> None:
    yard = block()
    yard.wait(2 * HOUR)
    config = yard.config(BLOCK, template=block_template(yard, market))
    assert launch_error_codes(yard.fleet(config, market=asked)) == {"InvalidParameterCombination"}


def test_an_ordinary_launch_cannot_take_a_block() -> None:
    yard = block(**OPEN_RESERVATION)
    yard.wait(2 * HOUR)
    assert yard.inside(yard.launch(*BLOCK)[0]) is None
    config = yard.config(BLOCK, template=block_template(yard, None))
    assert launch_error_codes(yard.fleet(config)) == {EXCEEDED}


def test_the_machines_of_a_block_end_half_an_hour_before_it() -> None:
    yard = block()
    yard.wait(2 * HOUR)
    config = yard.config(BLOCK, template=block_template(yard))
    (found,) = launched_ids(yard.fleet(config, market="capacity-block"))
    yard.wait(2.4 * HOUR)
    assert (yard.state(found), yard.free("cr-00000001")) == ("running", 1)
    yard.wait(0.11 * HOUR)
    assert (yard.state(found), yard.free("cr-00000001")) == ("terminated", 2)
    yard.wait(0.5 * HOUR)
    assert yard.reserved("cr-00000001")["State"] == "expired"


RESERVED = "reserved-capacity"

INTERRUPTIBLE = "interruptible-capacity-reservation"


def test_interruptible_capacity_is_asked_for_as_reserved_capacity() -> None:
    yard = LaunchAccount(cloud_reservation(1, *DEAR, interruptible=True))
    name = yard.template(
        "on-call",
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}
        },
        InstanceMarketOptions={"MarketType": INTERRUPTIBLE},
    )
    config, options = yard.config(DEAR, template=name), {"ReservationTypes": [INTERRUPTIBLE]}
    answer = yard.fleet(config, market=RESERVED, count=3, ReservedCapacityOptions=options)
    assert launched_pools(answer) == [(*DEAR, 2)]
    assert launch_error_codes(answer) == {EXCEEDED}
    machine = yard.machine(launched_ids(answer)[0])
    assert machine["InstanceLifecycle"] == INTERRUPTIBLE
    assert launch_error_codes(yard.fleet(config)) == {"InvalidParameterCombination"}


def test_a_fleet_may_name_reservations_and_kinds_itself() -> None:
    yard = LaunchAccount(
        cloud_reservation(1, *DEAR, total=1, interruptible=True),
        cloud_reservation(2, *DEAR, total=1),
        cloud_reservation(3, *CHEAP, total=1),
    )
    target = {"CapacityReservationIds": ["cr-00000001", "cr-00000002", "cr-00000003"]}
    kinds = [INTERRUPTIBLE, "on-demand-capacity-reservation"]
    answer = yard.fleet(
        yard.config(DEAR, CHEAP),
        market=RESERVED,
        count=4,
        ReservedCapacityOptions={"ReservationTypes": kinds, "CapacityReservationTarget": target},
    )
    inside = {yard.inside(each) for each in launched_ids(answer)}
    assert inside == set(target["CapacityReservationIds"])
    assert launch_error_codes(answer) == {EXCEEDED}


def test_reserved_capacity_without_a_target_is_open_capacity_and_no_more() -> None:
    yard = LaunchAccount(
        cloud_reservation(1, *DEAR, total=1, **OPEN_RESERVATION),
        cloud_reservation(2, *CHEAP),
    )
    options = {"ReservationTypes": ["on-demand-capacity-reservation"]}
    config = yard.config(DEAR, CHEAP)
    answer = yard.fleet(config, market=RESERVED, count=2, ReservedCapacityOptions=options)
    assert launched_pools(answer) == [(*DEAR, 1)]
    assert sorted(launch_errors(answer)) == [
        (*CHEAP, EXCEEDED),
        (*DEAR, EXCEEDED),
    ]
    options = {"ReservationTypes": [INTERRUPTIBLE]}
    answer = yard.fleet(config, market=RESERVED, ReservedCapacityOptions=options)
    assert (launched_ids(answer), launch_error_codes(answer)) == ([], {EXCEEDED})


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "InvalidParameterValue"),
        ({"ReservationTypes": ["another"]}, "InvalidParameterValue"),
        (
            {
                "ReservationTypes": [INTERRUPTIBLE],
                "ReservedCapacityFallbackOptions": {"MarketTypes": ["spot"]},
            },
            "UnsupportedOperation",
        ),
    ],
)
def test_reserved_capacity_must_say_which(options: dict[str, Any], code: str) -> None:
    yard = LaunchAccount()
    request = yard.request(yard.config(DEAR), market=RESERVED, ReservedCapacityOptions=options)
    assert yard.refused("CreateFleet", **request) == (code, 400)
