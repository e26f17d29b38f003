"""CreateFleet: which pools are used, what is said about the others, what the machines get."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.launches import (
    A,
    B,
    C,
    Yard,
    codes,
    errors,
    launched,
    pools,
    spot_price,
    stock,
)

from wainwright.emulator.settings import Settings

PRIORITIES = {"AllocationStrategy": "prioritized"}

SPOT: dict[str, Any] = {"market": "spot"}


@pytest.fixture
def yard() -> Yard:
    return Yard()


def with_stock(*rules: Any) -> Yard:
    return Yard(settings=Settings(stock=rules))


def test_the_cheapest_pool_is_used_and_shown_in_full(yard: Yard) -> None:
    answer = yard.fleet(yard.config(("m5.large", A), ("c5.large", B)))
    assert answer["Errors"] == []
    (entry,) = answer["Instances"]
    assert entry["InstanceType"] == "c5.large"
    assert entry["Lifecycle"] == "on-demand"
    shown = entry["LaunchTemplateAndOverrides"]
    assert shown["Overrides"] == yard.override("c5.large", B)
    assert shown["LaunchTemplateSpecification"]["Version"] == "1"
    (machine,) = yard.describe(*entry["InstanceIds"])
    assert machine["Placement"]["AvailabilityZone"] == B


def test_several_machines_of_a_pool_are_one_entry(yard: Yard) -> None:
    answer = yard.fleet(yard.config(("m5.large", A)), count=4)
    assert pools(answer) == [("m5.large", A, 4)]
    shown = yard.describe(*launched(answer))
    assert [each["AmiLaunchIndex"] for each in shown] == [0, 1, 2, 3]


def test_an_empty_pool_is_reported_and_the_next_one_used() -> None:
    yard = with_stock(stock(0, "c5.large", A), stock(1, "c5.large", B))
    answer = yard.fleet(yard.config(("c5.large", A), ("c5.large", B), ("m5.large", A)), count=3)
    assert pools(answer) == [("c5.large", B, 1), ("m5.large", A, 2)]
    assert errors(answer) == [
        ("c5.large", A, "InsufficientInstanceCapacity"),
        ("c5.large", B, "InsufficientInstanceCapacity"),
    ]
    entry = answer["Errors"][0]
    assert entry["Lifecycle"] == "on-demand"
    assert entry["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] == yard.subnets[A]
    assert (
        f"c5.large capacity in the Availability Zone you requested ({A})" in (entry["ErrorMessage"])
    )


def test_nothing_to_be_had_is_all_errors() -> None:
    yard = with_stock(stock(0))
    answer = yard.fleet(yard.config(("c5.large", A), ("m5.large", B)))
    assert answer["Instances"] == []
    assert codes(answer) == {"InsufficientInstanceCapacity"}
    assert len(answer["Errors"]) == 2


def test_terminated_machines_go_back_into_stock() -> None:
    yard = with_stock(stock(1, "m5.large", A))
    (first,) = yard.launch()
    assert codes(yard.fleet(yard.config(("m5.large", A)))) == {"InsufficientInstanceCapacity"}
    yard.ask("TerminateInstances", InstanceIds=[first])
    yard.launch()


def test_priorities_decide_where_the_strategy_says_so(yard: Yard) -> None:
    first = yard.override("m5.xlarge", A, Priority=1.0)
    config = yard.config(yard.override("c5.large", A, Priority=2.5), first, ("m5.large", A))
    answer = yard.fleet(config, OnDemandOptions=PRIORITIES)
    assert pools(answer) == [("m5.xlarge", A, 1)]
    (entry,) = answer["Instances"]
    assert entry["LaunchTemplateAndOverrides"]["Overrides"]["Priority"] == 1.0


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("lowest-price", ("m5.large", A)),
        ("price-capacity-optimized", ("m5.large", C)),
        ("capacity-optimized", ("m5.large", B)),
        ("capacity-optimized-prioritized", ("m5.large", B)),
    ],
)
def test_spot_strategies(strategy: str, expected: tuple[str, str]) -> None:
    prices = [spot_price(price, "m5.large", zone) for price, zone in ((1, A), (3, B), (2, C))]
    depths = (stock(1, zone=A), stock(20, zone=B), stock(10, zone=C))
    yard = Yard(prices=prices, settings=Settings(stock=depths))
    overrides = [
        yard.override("m5.large", zone, Priority=rank) for rank, zone in ((1.0, A), (2.0, B))
    ]
    config = yard.config(*overrides, ("m5.large", C))
    answer = yard.fleet(config, **SPOT, SpotOptions={"AllocationStrategy": strategy})
    assert pools(answer) == [(*expected, 1)]


def test_diversified_spot_is_spread_over_all_pools(yard: Yard) -> None:
    config = yard.config(("m5.large", A), ("m5.large", B), ("c5.large", A))
    options = {"AllocationStrategy": "diversified"}
    answer = yard.fleet(config, count=7, **SPOT, SpotOptions=options)
    assert sorted(count for *_, count in pools(answer)) == [2, 2, 3]


def test_what_a_dry_pool_lacks_of_its_share_comes_from_the_others() -> None:
    yard = with_stock(stock(1, zone=A))
    config = yard.config(("m5.large", A), ("m5.large", B), ("m5.large", C))
    options = {"AllocationStrategy": "lowest-price", "InstancePoolsToUseCount": 3}
    answer = yard.fleet(config, count=9, **SPOT, SpotOptions=options)
    assert {zone: count for _, zone, count in pools(answer)}[A] == 1
    assert len(launched(answer)) == 9
    assert errors(answer) == [("m5.large", A, "InsufficientInstanceCapacity")]


def test_a_fleet_can_be_mixed(yard: Yard) -> None:
    target = {
        "TotalTargetCapacity": 6,
        "OnDemandTargetCapacity": 1,
        "SpotTargetCapacity": 2,
        "DefaultTargetCapacityType": "spot",
    }
    request = yard.request(yard.config(("m5.large", A)))
    answer = yard.ask("CreateFleet", **{**request, "TargetCapacitySpecification": target})
    got = {each["Lifecycle"]: len(each["InstanceIds"]) for each in answer["Instances"]}
    assert got == {"on-demand": 1, "spot": 5}


def test_weights_count_towards_the_target(yard: Yard) -> None:
    heavy = yard.override("m5.large", A, WeightedCapacity=3.0)
    answer = yard.fleet(yard.config(heavy), count=7)
    assert pools(answer) == [("m5.large", A, 3)]


POOLS = st.lists(
    st.tuples(st.sampled_from(["m5.large", "c5.large", "p5.48xlarge"]), st.sampled_from([A, B, C])),
    min_size=1,
    max_size=6,
    unique=True,
)


@settings(max_examples=25, deadline=None)
@given(POOLS, st.integers(1, 6), st.sampled_from(["spot", "on-demand"]), st.integers(0, 3))
def test_a_fleet_never_answers_nothing(
    asked: list[tuple[str, str]], count: int, market: str, free: int
) -> None:
    yard = with_stock(stock(free, zone=A), stock(0, "c5.large"))
    answer = yard.fleet(yard.config(*asked), count=count, market=market)
    got = launched(answer)
    assert len(got) == count or answer["Errors"]
    assert len(set(got)) == len(got) <= count
    assert {each["InstanceId"] for each in yard.describe()} == set(got)
    tried = [each[:2] for each in errors(answer)]
    assert len(set(tried)) == len(tried)
