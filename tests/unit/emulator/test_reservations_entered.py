"""Capacity reservations: entered and left by machines that run, changed under their feet."""

from typing import Any

import pytest
from tests.support.launches import (
    OPEN_ONES,
    A,
    Yard,
    codes,
    launched,
    reservation,
    stock,
)

from wainwright.clock import EPOCH
from wainwright.emulator.settings import Settings
from wainwright.emulator.times import iso

ONE = "cr-00000001"


def created(yard: Yard, **more: Any) -> str:
    asked = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": A,
        "InstanceCount": 2,
        **more,
    }
    made = yard.ask("CreateCapacityReservation", **asked)["CapacityReservation"]
    return str(made["CapacityReservationId"])


def aimed(yard: Yard, target: str, count: int = 1) -> list[str]:
    """Machines in the reservation."""
    name = f"to-{target}-{len(yard.cloud.parts.templates.state.templates)}"
    yard.aiming(name, target)
    return launched(yard.fleet(yard.config(("m5.large", A), template=name), count=count))


def attach(yard: Yard, instance: str, **specification: Any) -> None:
    yard.ask(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=instance,
        CapacityReservationSpecification=specification,
    )


def target(identity: str) -> dict[str, Any]:
    return {"CapacityReservationTarget": {"CapacityReservationId": identity}}


def test_an_open_reservation_takes_in_what_runs_already() -> None:
    yard = Yard()
    first, second, third = yard.launch(count=3)
    (other,) = yard.launch("c5.large")
    made = created(yard)
    assert [yard.inside(each) for each in (first, second, third, other)] == [made, made, None, None]
    assert yard.free(made) == 0


@pytest.mark.parametrize(
    ("more", "inside"),
    [({}, None), ({"InstanceMatchCriteria": "targeted"}, None)],
)
def test_it_takes_in_nobody_who_does_not_want(more: dict[str, Any], inside: str | None) -> None:
    yard = Yard()
    name = yard.aiming("loner", None, "none")
    (loner,) = launched(yard.fleet(yard.config(("m5.large", A), template=name)))
    created(yard, **more)
    assert yard.inside(loner) == inside


def test_a_running_machine_can_enter_and_leave() -> None:
    yard = Yard(reservation(1, total=1), reservation(2, total=1))
    first, second = yard.launch(count=2)
    yard.wait(10)
    attach(yard, first, **target(ONE))
    assert (yard.inside(first), yard.free(ONE)) == (ONE, 0)
    attach(yard, first, **target(ONE))
    assert yard.free(ONE) == 0
    refused = yard.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification=target(ONE),
    )
    assert refused == ("ReservationCapacityExceeded", 400)
    said = yard.machine(second)["CapacityReservationSpecification"]
    assert said == {"CapacityReservationPreference": "open"}
    attach(yard, first, **target("cr-00000002"))
    assert (yard.inside(first), yard.free(ONE)) == ("cr-00000002", 1)
    attach(yard, first, CapacityReservationPreference="none")
    assert (yard.inside(first), yard.free("cr-00000002")) == (None, 1)
    said = yard.machine(first)["CapacityReservationSpecification"]
    assert said == {"CapacityReservationPreference": "none"}


def test_a_running_machine_can_look_for_an_open_one() -> None:
    yard = Yard(reservation(1, total=1, **OPEN_ONES))
    name = yard.aiming("loner", None, "none")
    config = yard.config(("m5.large", A), template=name)
    first, second = launched(yard.fleet(config, count=2))
    yard.wait(10)
    attach(yard, first, CapacityReservationPreference="open")
    assert yard.inside(first) == ONE
    attach(yard, second, CapacityReservationPreference="open")
    assert yard.inside(second) is None
    refused = yard.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only"
        },
    )
    assert refused == ("ReservationCapacityExceeded", 400)


def test_who_leaves_needs_capacity_elsewhere() -> None:
    yard = Yard(reservation(1), settings=Settings(stock=(stock(1, "m5.large", A),)))
    first, second = aimed(yard, ONE, 2)
    yard.wait(10)
    attach(yard, first, CapacityReservationPreference="none")
    refused = yard.refused(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=second,
        CapacityReservationSpecification={"CapacityReservationPreference": "none"},
    )
    assert refused == ("InsufficientInstanceCapacity", 400)
    assert (yard.inside(second), yard.free(ONE)) == (ONE, 1)


def test_who_cannot_enter_at_all() -> None:
    yard = Yard(reservation(1))
    (spot,) = yard.launch(market="spot")
    (plain,) = yard.launch()

    def refused(instance: str, **specification: Any) -> str:
        code, _ = yard.refused(
            "ModifyInstanceCapacityReservationAttributes",
            InstanceId=instance,
            CapacityReservationSpecification=specification,
        )
        return code

    assert refused(plain, **target(ONE)) == "IncorrectInstanceState"  # not running yet
    yard.wait(10)
    assert refused(spot, **target(ONE)) == "IncorrectInstanceState"
    both = {"CapacityReservationPreference": "none", **target(ONE)}
    assert refused(plain, **both) == "InvalidParameterCombination"
    gone = target("cr-0123456789abcdef0")
    assert refused(plain, **gone) == "InvalidCapacityReservationId.NotFound"
    assert refused("i-0123456789abcdef0", **target(ONE)) == "InvalidInstanceID.NotFound"


def test_reserving_takes_from_the_stock_and_ending_gives_back() -> None:
    yard = Yard(settings=Settings(stock=(stock(3, "m5.large", A),)))
    made = created(yard, InstanceCount=2, InstanceMatchCriteria="targeted")
    with pytest.raises(Exception, match="InsufficientInstanceCapacity"):
        created(yard, InstanceCount=2)
    yard.launch()
    assert codes(yard.fleet(yard.config(("m5.large", A)))) == {"InsufficientInstanceCapacity"}
    (inside,) = aimed(yard, made)
    yard.ask("CancelCapacityReservation", CapacityReservationId=made)
    (last,) = yard.launch()
    assert codes(yard.fleet(yard.config(("m5.large", A)))) == {"InsufficientInstanceCapacity"}
    yard.ask("TerminateInstances", InstanceIds=[inside, last])
    yard.launch(count=2)


def change(yard: Yard, **more: Any) -> None:
    entry = {"id": ONE, "instanceType": "m5.large", "availabilityZone": A, "total": 2, **more}
    yard.cloud.change({"capacityReservations": [entry]})


def test_the_cloud_may_change_while_it_runs() -> None:
    yard = Yard(reservation(1, total=4))
    first, second, third = aimed(yard, ONE, 3)
    change(yard, total=6, available=1)
    assert (yard.free(ONE), yard.reserved(ONE)["TotalInstanceCount"]) == (1, 6)
    change(yard, total=2)
    assert [yard.inside(each) for each in (first, second, third)] == [ONE, ONE, None]
    assert yard.free(ONE) == 0
    change(yard, state="cancelled")
    assert {yard.inside(each) for each in (first, second, third)} == {None}
    change(yard, instanceMatchCriteria="open")
    assert yard.reserved(ONE)["State"] == "active"
    change(yard, endTime=iso(EPOCH + 60))
    yard.wait(61)
    assert yard.reserved(ONE)["State"] == "expired"


def test_new_reservations_may_appear_while_it_runs() -> None:
    yard = Yard()
    (machine,) = yard.launch()
    change(yard, **OPEN_ONES)
    assert yard.inside(machine) == ONE


def test_the_end_of_interruptible_capacity_ends_its_machines() -> None:
    yard = Yard(reservation(1, interruptible=True, endTime=iso(EPOCH + 600)))
    name = yard.template(
        "on-call",
        CapacityReservationSpecification=target(ONE),
        InstanceMarketOptions={"MarketType": "interruptible-capacity-reservation"},
    )
    answer = yard.fleet(
        yard.config(("m5.large", A), template=name),
        market="reserved-capacity",
        ReservedCapacityOptions={"ReservationTypes": ["interruptible-capacity-reservation"]},
    )
    (machine,) = launched(answer)
    yard.wait(600)
    assert yard.state(machine) == "shutting-down"
