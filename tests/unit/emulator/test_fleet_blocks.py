"""Capacity blocks and interruptible capacity in CreateFleet."""

from typing import Any

import pytest
from tests.support.launches import (
    OPEN_ONES,
    A,
    Yard,
    codes,
    errors,
    launched,
    pools,
    reservation,
)

from wainwright.clock import EPOCH
from wainwright.emulator.times import iso

CHEAP, DEAR = ("c5.large", A), ("m5.large", A)

EXCEEDED = "ReservationCapacityExceeded"

BLOCK = ("p5.48xlarge", A)

HOUR = 3600.0


def block(**more: Any) -> Yard:
    """A block of two machines, from one hour from now until five."""
    window: dict[str, Any] = {"startTime": iso(EPOCH + HOUR), "endTime": iso(EPOCH + 5 * HOUR)}
    return Yard(reservation(1, *BLOCK, **{"reservationType": "capacity-block", **window, **more}))


def block_template(yard: Yard, market: str | None = "capacity-block") -> str:
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
    assert bool(launched(answer)) == works
    assert codes(answer) == (set() if works else {EXCEEDED})
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
    assert codes(yard.fleet(config, market=asked)) == {"InvalidParameterCombination"}


def test_an_ordinary_launch_cannot_take_a_block() -> None:
    yard = block(**OPEN_ONES)
    yard.wait(2 * HOUR)
    assert yard.inside(yard.launch(*BLOCK)[0]) is None
    config = yard.config(BLOCK, template=block_template(yard, None))
    assert codes(yard.fleet(config)) == {EXCEEDED}


def test_the_machines_of_a_block_end_half_an_hour_before_it() -> None:
    yard = block()
    yard.wait(2 * HOUR)
    config = yard.config(BLOCK, template=block_template(yard))
    (found,) = launched(yard.fleet(config, market="capacity-block"))
    yard.wait(2.4 * HOUR)
    assert (yard.state(found), yard.free("cr-00000001")) == ("running", 1)
    yard.wait(0.11 * HOUR)
    assert (yard.state(found), yard.free("cr-00000001")) == ("terminated", 2)
    yard.wait(0.5 * HOUR)
    assert yard.reserved("cr-00000001")["State"] == "expired"


RESERVED = "reserved-capacity"

INTERRUPTIBLE = "interruptible-capacity-reservation"


def test_interruptible_capacity_is_asked_for_as_reserved_capacity() -> None:
    yard = Yard(reservation(1, *DEAR, interruptible=True))
    name = yard.template(
        "on-call",
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}
        },
        InstanceMarketOptions={"MarketType": INTERRUPTIBLE},
    )
    config, options = yard.config(DEAR, template=name), {"ReservationTypes": [INTERRUPTIBLE]}
    answer = yard.fleet(config, market=RESERVED, count=3, ReservedCapacityOptions=options)
    assert pools(answer) == [(*DEAR, 2)]
    assert codes(answer) == {EXCEEDED}
    machine = yard.machine(launched(answer)[0])
    assert machine["InstanceLifecycle"] == INTERRUPTIBLE
    assert codes(yard.fleet(config)) == {"InvalidParameterCombination"}


def test_a_fleet_may_name_reservations_and_kinds_itself() -> None:
    yard = Yard(
        reservation(1, *DEAR, total=1, interruptible=True),
        reservation(2, *DEAR, total=1),
        reservation(3, *CHEAP, total=1),
    )
    target = {"CapacityReservationIds": ["cr-00000001", "cr-00000002", "cr-00000003"]}
    kinds = [INTERRUPTIBLE, "on-demand-capacity-reservation"]
    answer = yard.fleet(
        yard.config(DEAR, CHEAP),
        market=RESERVED,
        count=4,
        ReservedCapacityOptions={"ReservationTypes": kinds, "CapacityReservationTarget": target},
    )
    inside = {yard.inside(each) for each in launched(answer)}
    assert inside == set(target["CapacityReservationIds"])
    assert codes(answer) == {EXCEEDED}


def test_reserved_capacity_without_a_target_is_open_capacity_and_no_more() -> None:
    yard = Yard(reservation(1, *DEAR, total=1, **OPEN_ONES), reservation(2, *CHEAP))
    options = {"ReservationTypes": ["on-demand-capacity-reservation"]}
    config = yard.config(DEAR, CHEAP)
    answer = yard.fleet(config, market=RESERVED, count=2, ReservedCapacityOptions=options)
    assert pools(answer) == [(*DEAR, 1)]
    assert sorted(errors(answer)) == [(*CHEAP, EXCEEDED), (*DEAR, EXCEEDED)]
    options = {"ReservationTypes": [INTERRUPTIBLE]}
    answer = yard.fleet(config, market=RESERVED, ReservedCapacityOptions=options)
    assert (launched(answer), codes(answer)) == ([], {EXCEEDED})


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
    yard = Yard()
    request = yard.request(yard.config(DEAR), market=RESERVED, ReservedCapacityOptions=options)
    assert yard.refused("CreateFleet", **request) == (code, 400)
