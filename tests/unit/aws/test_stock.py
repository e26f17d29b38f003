"""What EC2 has run out of is not asked for again for three minutes."""

from tests.support.emulated import HandClock

from wainwright.api.cloud import Unavailable
from wainwright.aws.stock import Stock


def test_a_pool_comes_back_after_three_minutes() -> None:
    clock = HandClock()
    stock = Stock(clock)
    stock.mark("m5.large", "us-east-1a", "spot")
    clock.time += 179
    assert stock.out("m5.large", "us-east-1a", "spot")
    assert stock.pools()
    clock.time += 1
    assert not stock.out("m5.large", "us-east-1a", "spot")
    assert stock.pools() == ()


def test_other_types_zones_and_ways_to_pay_are_not_meant() -> None:
    stock = Stock(HandClock())
    stock.mark("m5.large", "us-east-1a", "spot")
    assert not stock.out("m5.xlarge", "us-east-1a", "spot")
    assert not stock.out("m5.large", "us-east-1b", "spot")
    assert not stock.out("m5.large", "us-east-1a", "on-demand")


def test_without_its_role_nothing_is_to_be_had_as_spot() -> None:
    stock = Stock(HandClock())
    stock.mark_capacity_type("spot")
    assert stock.out("m5.large", "us-east-1a", "spot")
    assert not stock.out("m5.large", "us-east-1a", "on-demand")
    assert stock.entries() == [Unavailable(capacityType="spot")]


def test_what_is_marked_again_stays_longer() -> None:
    clock = HandClock()
    stock = Stock(clock)
    stock.mark_subnet("subnet-1")
    clock.time += 100
    stock.mark_subnet("subnet-1")
    clock.time += 100
    assert stock.full("subnet-1")
    assert not stock.full("subnet-2")
    clock.time += 80
    assert not stock.full("subnet-1")


def test_the_order_of_marks_does_not_matter() -> None:
    one, other = Stock(HandClock()), Stock(HandClock())
    for name in ("a", "b"):
        one.mark(name, "z", "spot")
    for name in ("b", "a"):
        other.mark(name, "z", "spot")
    assert one.pools() == other.pools()
