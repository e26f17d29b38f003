"""The subnet with most free addresses, what is under way included."""

from tests.support.emulated import HandClock

from wainwright.aws.nodeclass.resolved import Subnet
from wainwright.aws.stock import Stock
from wainwright.aws.subnets import Addresses


def subnet(name: str, free: int, zone: str = "a") -> Subnet:
    return Subnet(id=name, zone=zone, zone_id=f"az-{zone}", free=free)


class Bench:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.stock = Stock(self.clock)
        self.addresses = Addresses(self.clock, self.stock)

    def chosen(self, *subnets: Subnet) -> dict[str, str]:
        return {zone: each.id for zone, each in self.addresses.choose(subnets).items()}


def test_each_zone_gets_its_emptiest_subnet() -> None:
    found = Bench().chosen(subnet("s1", 10), subnet("s2", 20), subnet("s3", 5, "b"))
    assert found == {"a": "s2", "b": "s3"}


def test_equal_ones_are_told_apart_by_name() -> None:
    assert Bench().chosen(subnet("s2", 10), subnet("s1", 10)) == {"a": "s1"}


def test_what_is_under_way_counts() -> None:
    bench, subnets = Bench(), (subnet("s1", 100), subnet("s2", 90))
    hold = bench.addresses.hold([subnets[0]], machines=2, each=29)
    assert bench.chosen(*subnets) == {"a": "s2"}
    bench.addresses.settle(hold, {})
    assert bench.chosen(*subnets) == {"a": "s1"}


def test_what_was_launched_counts_until_ec2_has_counted() -> None:
    bench = Bench()
    hold = bench.addresses.hold([subnet("s1", 100)], machines=1, each=29)
    bench.addresses.settle(hold, {"s1": 1})
    assert bench.chosen(subnet("s1", 100), subnet("s2", 90)) == {"a": "s2"}
    assert bench.chosen(subnet("s1", 99), subnet("s2", 90)) == {"a": "s1"}


def test_it_is_forgotten_after_five_minutes() -> None:
    bench = Bench()
    hold = bench.addresses.hold([subnet("s1", 100)], machines=1, each=29)
    bench.addresses.settle(hold, {"s1": 1})
    bench.clock.time += 299
    assert bench.addresses.free(subnet("s1", 100)) == 71
    bench.clock.time += 1
    assert bench.addresses.free(subnet("s1", 100)) == 100


def test_only_the_zone_that_was_used_keeps_its_share() -> None:
    bench, subnets = Bench(), [subnet("s1", 100), subnet("s2", 100, "b")]
    hold = bench.addresses.hold(subnets, machines=3, each=10)
    assert [bench.addresses.free(each) for each in subnets] == [70, 70]
    bench.addresses.settle(hold, {"s2": 2})
    assert [bench.addresses.free(each) for each in subnets] == [100, 80]


def test_two_holds_of_the_same_size_are_two() -> None:
    bench, one = Bench(), subnet("s1", 100)
    first = bench.addresses.hold([one], machines=1, each=10)
    bench.addresses.hold([one], machines=1, each=10)
    bench.addresses.settle(first, {})
    assert bench.addresses.free(one) == 90


def test_a_zone_is_gone_only_with_its_last_subnet() -> None:
    bench, subnets = Bench(), (subnet("s1", 10), subnet("s2", 20))
    bench.stock.mark_subnet("s2")
    assert bench.chosen(*subnets) == {"a": "s1"}
    bench.stock.mark_subnet("s1")
    assert bench.chosen(*subnets) == {}


def test_a_subnet_without_any_address_is_not_used() -> None:
    assert Bench().chosen(subnet("s1", 0)) == {}
