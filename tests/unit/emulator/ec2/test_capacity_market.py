"""The capacity market: prices of every offering, their movement, and remaining capacity."""

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
    AccountCapacity,
    CapacityCounter,
    CapacityRule,
    SpotPriceModel,
)
from wainwright.emulator.settings import EmulatorSettings

SMALL = CloudSpec(region="us-west-2", zones=["us-west-2a", "us-west-2b"], instanceTypes=["m5.*"])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POOL = ("m5.large", "us-west-2a", "spot")


def history(account: CheckedAccount, **params: Any) -> list[dict[str, Any]]:
    pages = account.pages("DescribeSpotPriceHistory", "SpotPriceHistory", **params)
    return [row for page in pages for row in page]


def test_every_spot_offering_has_a_current_price() -> None:
    account = CheckedAccount()
    found = history(
        account,
        StartTime=NOW,
        MaxResults=2000,
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
    )
    listed = {
        (name, offering.zone): offering.price
        for name, offerings in built_in_offerings.load_built_in_offerings(
            "us-east-1"
        ).offerings.items()
        for offering in offerings
        if offering.capacity_type == "spot" and offering.price is not None
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
def test_price_history_filters_by_type_zone_and_product(
    params: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    found = history(CheckedAccount(SMALL), **params)
    assert {(row["InstanceType"], row["AvailabilityZone"][-1]) for row in found} == expected


def test_prices_of_the_cloud_override_list_prices() -> None:
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


def test_prices_and_unavailability_that_match_no_offering_are_warned_about() -> None:
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


def test_an_unknown_offering_has_no_price() -> None:
    capacity_market = CheckedAccount(SMALL).cloud.services.capacity_market
    assert capacity_market.price("c5.large", "us-west-2a", "on-demand") is None
    assert capacity_market.price("m5.large", "us-west-2c", "on-demand") is None
    assert capacity_market.is_offered("m5.large", "us-west-2a", "spot")
    assert not capacity_market.is_offered("m5.large", "us-west-2c", "spot")


def moving_prices_account() -> CheckedAccount:
    return CheckedAccount(SMALL, settings=EmulatorSettings(moving_prices=True))


def test_prices_are_constant_by_default() -> None:
    account = CheckedAccount(SMALL)
    before = history(account)
    account.clock.time += 30 * DAY
    assert history(account) == before


def test_moving_spot_prices_stay_within_their_bounds() -> None:
    account = moving_prices_account()
    capacity_market = account.cloud.services.capacity_market
    before = history(account, StartTime=NOW)
    account.clock.time += 30 * DAY
    after = history(account, StartTime=NOW + timedelta(days=30))
    changed = [
        first
        for first, two in zip(before, after, strict=True)
        if first["SpotPrice"] != two["SpotPrice"]
    ]
    assert len(changed) > len(before) * 0.9
    for row in after:
        ceiling = capacity_market.price(row["InstanceType"], row["AvailabilityZone"], "on-demand")
        assert ceiling is not None
        assert 0.1 * ceiling <= float(row["SpotPrice"]) + 1e-6 <= ceiling + 2e-6
        assert NOW + timedelta(days=30, hours=-4) <= row["Timestamp"] <= NOW + timedelta(days=30)


def test_price_history_equals_the_prices_seen_at_the_time() -> None:
    account = moving_prices_account()
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


def test_a_price_of_the_cloud_does_not_move() -> None:
    account = moving_prices_account()
    account.cloud.change(
        {"prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.05}]}
    )
    account.clock.time += 30 * DAY
    assert account.cloud.services.capacity_market.price(*POOL) == 0.05


@pytest.mark.parametrize(
    ("days", "measured"), [(1, 0.026), (2, 0.047), (7, 0.13), (15, 0.21), (30, 0.29)]
)
def test_spot_price_movement_has_the_measured_statistics(days: int, measured: float) -> None:
    movement = SpotPriceModel(7, 0.0)
    capacity_pools = [(f"m{number}.large", "us-west-2a", "spot") for number in range(600)]
    start = {
        capacity_pool: movement.factor(capacity_pool, 20 * DAY) for capacity_pool in capacity_pools
    }
    changes = [
        log(movement.factor(capacity_pool, (20 + days) * DAY) / start[capacity_pool])
        for capacity_pool in capacity_pools
    ]
    assert pstdev(changes) == pytest.approx(measured, rel=0.15)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.integers(0, 3))
def test_a_spot_price_depends_on_seed_and_time_only(hours: list[int], seed: int) -> None:
    request, fresh = SpotPriceModel(seed, 0.0), SpotPriceModel(seed, 0.0)
    found = [request.factor(POOL, hour * HOUR) for hour in hours]
    assert found[-1] == fresh.factor(POOL, hours[-1] * HOUR)
    assert fresh.factor(POOL, 0.0) == 1.0


RULES = [
    CapacityRule(instanceType="m5.*", capacityType="spot", free=2),
    CapacityRule(zone="us-west-2b", free=0),
    CapacityRule(instanceType="m5.xlarge"),
]


@pytest.mark.parametrize(
    ("capacity_pool", "free"),
    [
        (("m5.large", "us-west-2a", "spot"), 2),
        (("m5.large", "us-west-2a", "on-demand"), None),
        (("m5.large", "us-west-2b", "on-demand"), 0),
        (("m5.xlarge", "us-west-2b", "spot"), None),
    ],
)
def test_the_last_matching_capacity_rule_applies(
    capacity_pool: tuple[str, str, str], free: int | None
) -> None:
    assert CapacityCounter(AccountCapacity(rules=RULES)).free(capacity_pool) == free


def test_free_capacity_follows_takes_and_releases() -> None:
    capacity = CapacityCounter(AccountCapacity())
    capacity.set_rules(RULES)
    seen = [capacity.free(POOL)]
    for act in (capacity.take, capacity.take, capacity.release, capacity.release, capacity.release):
        act(POOL)
        seen.append(capacity.free(POOL))
    assert seen == [2, 1, 0, 1, 2, 3]
    assert capacity.free(("m5.2xlarge", "us-west-2a", "spot")) == 2


def test_an_empty_offering_regains_released_capacity() -> None:
    capacity = CapacityCounter(AccountCapacity(rules=[CapacityRule(free=0)]))
    capacity.release(POOL)
    assert capacity.free(POOL) == 1


def test_an_unavailable_offering_stays_unavailable_after_releases() -> None:
    capacity = CapacityCounter(AccountCapacity(rules=[CapacityRule(free=5)]))
    capacity.set_unavailable([UnavailableOffering(instanceType="m5.*", zone="us-west-2a")])
    capacity.release(POOL)
    assert capacity.free(POOL) == 0
    capacity.set_unavailable([])
    assert capacity.free(POOL) == 6


def test_new_capacity_rules_reset_the_counts() -> None:
    capacity = CapacityCounter(AccountCapacity())
    capacity.take(POOL)
    capacity.set_rules([CapacityRule(free=1)])
    assert capacity.free(POOL) == 1


capacity_pools = st.tuples(
    st.sampled_from(["m5.large", "c5.large"]), st.sampled_from(["a", "b"]), st.just("spot")
)
acts = st.lists(st.tuples(st.booleans(), capacity_pools), max_size=30)


@given(st.integers(0, 4), acts)
def test_each_offering_is_counted_separately(
    free: int, done: list[tuple[bool, tuple[str, str, str]]]
) -> None:
    capacity = CapacityCounter(AccountCapacity(rules=[CapacityRule(free=free)]))
    for taken, capacity_pool in done:
        (capacity.take if taken else capacity.release)(capacity_pool)
    for capacity_pool in {capacity_pool for _, capacity_pool in done}:
        balance = sum(1 if taken else -1 for taken, at in done if at == capacity_pool)
        assert capacity.free(capacity_pool) == max(free - balance, 0)
