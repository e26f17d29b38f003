"""Offerings without capacity are not requested again for three minutes."""

from tests.support.emulator_accounts import ManualClock

from wainwright.aws.instancetypes.unavailable_offerings import UnavailableOfferings


def test_an_offering_is_available_again_after_three_minutes() -> None:
    clock = ManualClock()
    unavailable = UnavailableOfferings(clock)
    unavailable.mark("m5.large", "us-east-1a", "spot")
    clock.time += 179
    assert unavailable.keys() == (("m5.large", "us-east-1a", "spot"),)
    clock.time += 1
    assert unavailable.keys() == ()


def test_without_its_role_no_spot_offering_is_available() -> None:
    unavailable = UnavailableOfferings(ManualClock())
    unavailable.mark_capacity_type("spot")
    assert unavailable.keys() == ((None, None, "spot"),)


def test_marking_again_extends_the_time() -> None:
    clock = ManualClock()
    unavailable = UnavailableOfferings(clock)
    unavailable.mark_subnet("subnet-1")
    clock.time += 100
    unavailable.mark_subnet("subnet-1")
    clock.time += 100
    assert unavailable.is_subnet_full("subnet-1")
    assert not unavailable.is_subnet_full("subnet-2")
    clock.time += 80
    assert not unavailable.is_subnet_full("subnet-1")


def test_the_order_of_marks_does_not_matter() -> None:
    one, other = UnavailableOfferings(ManualClock()), UnavailableOfferings(ManualClock())
    for name in ("a", "b"):
        one.mark(name, "z", "spot")
    for name in ("b", "a"):
        other.mark(name, "z", "spot")
    assert one.keys() == other.keys()
