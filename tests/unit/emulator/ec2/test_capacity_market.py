"""The shop: prices of every pool now, how they move, and what is left in stock."""

from datetime import UTC, datetime, timedelta
from math import log
from statistics import pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import CheckedAccount

from wainwright.api.catalog_documents import CloudPrice, CloudSpec, UnavailableOffering
from wainwright.catalogue.offerings import built_in_offerings
from wainwright.emulator.ec2.capacity_market import (
    DAY,
    HOUR,
    CapacityCounter,
    CapacityRule,
    CapacityState,
    SpotPriceModel,
)
from wainwright.emulator.settings import EmulatorSettings

SMALL = CloudSpec(region="us-west-2", zones=["us-west-2a", "us-west-2b"], instanceTypes=["m5.*"])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POOL = ("m5.large", "us-west-2a", "spot")


def history(account: CheckedAccount, **params: Any) -> list[dict[str, Any]]:
    pages = account.pages("DescribeSpotPriceHistory", "SpotPriceHistory", **params)
    return [row for page in pages for row in page]


def test_now_every_spot_pool_has_its_price() -> None:
    account = CheckedAccount()
    found = history(
        account,
        StartTime=NOW,
        MaxResults=2000,
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
    )
    listed = {
        (name, lot.zone): lot.price
        for name, lots in built_in_offerings.load_built_in_offerings("us-east-1").offerings.items()
        for lot in lots
        if lot.capacity_type == "spot" and lot.price is not None
    }
    assert len(found) == len(listed) > 6000
    for row in found:
        price = listed[row["InstanceType"], row["AvailabilityZone"]]
        assert float(row["SpotPrice"]) == pytest.approx(price, abs=1e-6)
        assert row["Timestamp"] <= NOW


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"InstanceTypes": ["m5.large", "m5.nope"]}, {("m5.large", "a"), ("m5.large", "b")}),
        (
            {"InstanceTypes": ["m5.large"], "AvailabilityZone": "us-west-2b"},
            {("m5.large", "b")},
        ),
        (
            {"InstanceTypes": ["m5.large"], "AvailabilityZoneId": "usw2-az1"},
            {("m5.large", "a")},
        ),
        (
            {"Filters": [{"Name": "instance-type", "Values": ["m5.x*"]}]},
            {("m5.xlarge", "a"), ("m5.xlarge", "b")},
        ),
        ({"ProductDescriptions": ["Windows"]}, set()),
    ],
)
def test_history_of_some_pools(params: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    found = history(CheckedAccount(SMALL), **params)
    assert {(row["InstanceType"], row["AvailabilityZone"][-1]) for row in found} == expected


def test_prices_of_the_cloud_go_before_the_list() -> None:
    account = CheckedAccount(
        CloudSpec(
            region="us-west-2",
            zones=SMALL.zones,
            instanceTypes=["m5.*"],
            prices=[
                CloudPrice(
                    instanceType="m5.large", capacityType="spot", zone="us-west-2a", price=1
                ),
                CloudPrice(instanceType="m5.large", capacityType="spot", price=2),
                CloudPrice(instanceType="m5.large", capacityType="on-demand", price=3),
            ],
        )
    )
    capacity_market = account.cloud.services.capacity_market
    assert capacity_market.price("m5.large", "us-west-2a", "spot") == 1
    assert capacity_market.price("m5.large", "us-west-2b", "spot") == 2
    assert capacity_market.price("m5.large", "us-west-2b", "on-demand") == 3
    listed = built_in_offerings.on_demand_list_price("m5.xlarge", "us-west-2")
    assert listed is not None
    assert capacity_market.price("m5.xlarge", "us-west-2b", "on-demand") == listed.usd
    assert capacity_market.on_demand()["m5.large"] == 3
    spot = {
        row["AvailabilityZone"]: row["SpotPrice"]
        for row in history(account, InstanceTypes=["m5.large"])
    }
    assert spot == {"us-west-2a": "1.000000", "us-west-2b": "2.000000"}


def test_a_price_or_shortage_of_nothing_is_remarked_upon() -> None:
    spec = CloudSpec(
        region="us-west-2",
        instanceTypes=["m5.*", "m6.*"],
        prices=[CloudPrice(instanceType="c5.large", capacityType="spot", price=1)],
        unavailable=[UnavailableOffering(instanceType="p5.*")],
    )
    remarks = [str(each) for each in CheckedAccount(spec).cloud.remarks]
    assert len(remarks) == 3
    for remark, place in zip(remarks, ("instanceTypes", "prices", "unavailable"), strict=True):
        assert place in remark
    assert CheckedAccount(SMALL).cloud.remarks == ()


def test_what_is_not_sold_has_no_price() -> None:
    capacity_market = CheckedAccount(SMALL).cloud.services.capacity_market
    assert capacity_market.price("c5.large", "us-west-2a", "on-demand") is None
    assert capacity_market.price("m5.large", "us-west-2c", "on-demand") is None
    assert capacity_market.is_offered("m5.large", "us-west-2a", "spot")
    assert not capacity_market.is_offered("m5.large", "us-west-2c", "spot")


def moving() -> CheckedAccount:
    return CheckedAccount(SMALL, settings=EmulatorSettings(moving_prices=True))


def test_prices_stand_still_unless_asked_to_move() -> None:
    account = CheckedAccount(SMALL)
    before = history(account)
    account.clock.time += 30 * DAY
    assert history(account) == before


def test_spot_prices_move_within_what_spot_ever_costs() -> None:
    account = moving()
    capacity_market = account.cloud.services.capacity_market
    before = history(account, StartTime=NOW)
    account.clock.time += 30 * DAY
    after = history(account, StartTime=NOW + timedelta(days=30))
    changed = [
        one for one, two in zip(before, after, strict=True) if one["SpotPrice"] != two["SpotPrice"]
    ]
    assert len(changed) > len(before) * 0.9
    for row in after:
        ceiling = capacity_market.price(row["InstanceType"], row["AvailabilityZone"], "on-demand")
        assert ceiling is not None
        assert 0.1 * ceiling <= float(row["SpotPrice"]) + 1e-6 <= ceiling + 2e-6
        assert NOW + timedelta(days=30, hours=-4) <= row["Timestamp"] <= NOW + timedelta(days=30)


def test_the_history_is_what_could_be_seen_at_the_time() -> None:
    account = moving()
    seen: list[float | None] = []
    for _ in range(30):
        price = account.cloud.services.capacity_market.price(*POOL)
        if not seen or seen[-1] != price:
            seen.append(price)
        account.clock.time += HOUR
    rows = history(
        account, InstanceTypes=["m5.large"], AvailabilityZone="us-west-2a", StartTime=NOW
    )
    assert [float(row["SpotPrice"]) for row in reversed(rows)] == pytest.approx(seen)
    assert [row["Timestamp"] for row in rows] == sorted(
        (row["Timestamp"] for row in rows), reverse=True
    )


def test_a_price_that_is_stated_does_not_move() -> None:
    account = moving()
    account.cloud.change(
        {"prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.05}]}
    )
    account.clock.time += 30 * DAY
    assert account.cloud.services.capacity_market.price(*POOL) == 0.05


@pytest.mark.parametrize(
    ("days", "measured"), [(1, 0.026), (2, 0.047), (7, 0.13), (15, 0.21), (30, 0.29)]
)
def test_movement_is_as_it_was_measured(days: int, measured: float) -> None:
    movement = SpotPriceModel(7, 0.0)
    pools = [(f"m{number}.large", "us-west-2a", "spot") for number in range(600)]
    start = {pool: movement.factor(pool, 20 * DAY) for pool in pools}
    changes = [log(movement.factor(pool, (20 + days) * DAY) / start[pool]) for pool in pools]
    assert pstdev(changes) == pytest.approx(measured, rel=0.15)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.integers(0, 3))
def test_a_price_hangs_on_seed_and_moment_not_on_who_asked_when(
    hours: list[int], seed: int
) -> None:
    asked, fresh = SpotPriceModel(seed, 0.0), SpotPriceModel(seed, 0.0)
    found = [asked.factor(POOL, hour * HOUR) for hour in hours]
    assert found[-1] == fresh.factor(POOL, hours[-1] * HOUR)
    assert fresh.factor(POOL, 0.0) == 1.0


RULES = [
    CapacityRule(instanceType="m5.*", capacityType="spot", free=2),
    CapacityRule(zone="us-west-2b", free=0),
    CapacityRule(instanceType="m5.xlarge"),
]


@pytest.mark.parametrize(
    ("pool", "free"),
    [
        (("m5.large", "us-west-2a", "spot"), 2),
        (("m5.large", "us-west-2a", "on-demand"), None),
        (("m5.large", "us-west-2b", "on-demand"), 0),
        (("m5.xlarge", "us-west-2b", "spot"), None),
    ],
)
def test_the_last_rule_that_means_a_pool_counts(
    pool: tuple[str, str, str], free: int | None
) -> None:
    assert CapacityCounter(CapacityState(rules=RULES)).free(pool) == free


def test_stock_falls_and_rises() -> None:
    stock = CapacityCounter(CapacityState())
    stock.set_rules(RULES)
    seen = [stock.free(POOL)]
    for act in (stock.take, stock.take, stock.release, stock.release, stock.release):
        act(POOL)
        seen.append(stock.free(POOL))
    assert seen == [2, 1, 0, 1, 2, 3]
    assert stock.free(("m5.2xlarge", "us-west-2a", "spot")) == 2


def test_a_pool_without_stock_gets_back_what_comes_back() -> None:
    stock = CapacityCounter(CapacityState(rules=[CapacityRule(free=0)]))
    stock.release(POOL)
    assert stock.free(POOL) == 1


def test_what_is_unavailable_stays_so() -> None:
    stock = CapacityCounter(CapacityState(rules=[CapacityRule(free=5)]))
    stock.set_unavailable([UnavailableOffering(instanceType="m5.*", zone="us-west-2a")])
    stock.release(POOL)
    assert stock.free(POOL) == 0
    stock.set_unavailable([])
    assert stock.free(POOL) == 6


def test_new_rules_count_from_anew() -> None:
    stock = CapacityCounter(CapacityState())
    stock.take(POOL)
    stock.set_rules([CapacityRule(free=1)])
    assert stock.free(POOL) == 1


pools = st.tuples(
    st.sampled_from(["m5.large", "c5.large"]), st.sampled_from(["a", "b"]), st.just("spot")
)
acts = st.lists(st.tuples(st.booleans(), pools), max_size=30)


@given(st.integers(0, 4), acts)
def test_each_pool_counts_for_itself(
    free: int, done: list[tuple[bool, tuple[str, str, str]]]
) -> None:
    stock = CapacityCounter(CapacityState(rules=[CapacityRule(free=free)]))
    for taken, pool in done:
        (stock.take if taken else stock.release)(pool)
    for pool in {pool for _, pool in done}:
        balance = sum(1 if taken else -1 for taken, at in done if at == pool)
        assert stock.free(pool) == max(free - balance, 0)
