"""What EC2 has run out of is not asked for again for three minutes."""

from tests.support.emulated import HandClock

from wainwright.api.cloud import Unavailable
from wainwright.aws.stock import Stock


def test_a_pool_comes_back_after_three_minutes() -> None:
    clock = HandClock()
    stock = Stock(clock)
    stock.mark("m5.large", "us-east-1a", "spot")
    clock.time += 179
    (pool,) = stock.entries()
    assert pool == Unavailable(instanceType="m5.large", zone="us-east-1a", capacityType="spot")
    clock.time += 1
    assert stock.entries() == []
    assert stock.pools() == ()


def test_without_its_role_nothing_is_to_be_had_as_spot() -> None:
    stock = Stock(HandClock())
    stock.mark_capacity_type("spot")
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
