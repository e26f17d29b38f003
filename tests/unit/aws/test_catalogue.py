"""The live catalogue is kept up to date; the built-in one stands in until it is there."""

from typing import Any

import pytest
from tests.support.awsclasses import Bench
from tests.support.seams import on_time

from wainwright.aws.catalogue import LiveCatalogue
from wainwright.clock import VirtualClock
from wainwright.emulator.faults import Fault
from wainwright.emulator.settings import Settings
from wainwright.errors import Unavailable

HOUR = 3600.0


def broken(operation: str, times: int | None = None, **more: Any) -> Settings:
    fault = Fault(operation=operation, times=times, **{"code": "InternalError", **more})
    return Settings(faults=(fault,))


def run(test: Any, settings: Settings | None = None, **more: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        bench = Bench(clock, settings=settings)
        await test(bench, LiveCatalogue(bench.aws, clock, "us-east-1", **more))

    on_time(main)


def test_it_is_what_the_account_sells() -> None:
    async def test(_: Bench, live: LiveCatalogue) -> None:
        await live.refresh()
        market = live.market()
        assert set(market.listing.machines) == {"m5.large", "m6g.large", "g4dn.xlarge"}
        assert market.listing.zones["us-east-1a"].startswith("use1-az")
        assert market.prices.on_demand
        assert market.prices.spot
        assert not live.failures

    run(test)


def test_it_is_asked_for_every_twelve_hours() -> None:
    async def test(bench: Bench, live: LiveCatalogue) -> None:
        await live.refresh()
        first = live.market()
        await bench.clock.sleep(12 * HOUR - 1)
        await live.refresh()
        assert live.market() is first
        assert bench.count("DescribeSpotPriceHistory") == 1
        await bench.clock.sleep(1)
        await live.refresh()
        assert live.market() is not first
        assert bench.count("DescribeInstanceTypeOfferings") == 2
        assert bench.count("DescribeSpotPriceHistory") == 2

    run(test)


def test_until_it_is_there_the_built_in_one_stands_in() -> None:
    async def test(_: Bench, live: LiveCatalogue) -> None:
        assert len(live.market().listing.machines) > 1000
        await live.refresh()
        assert set(live.failures) == {"instance types"}
        market = live.market()
        assert len(market.listing.machines) > 1000
        assert market.prices.on_demand  # these did come

    run(test, broken("DescribeInstanceTypes"))


def test_what_failed_is_asked_again_soon_and_alone() -> None:
    async def test(bench: Bench, live: LiveCatalogue) -> None:
        await live.refresh()
        assert "InternalError" in live.failures["spot prices"]
        assert live.market().prices.spot is None
        await bench.clock.sleep(60)
        await live.refresh()
        assert live.market().prices.spot
        assert not live.failures
        assert bench.count("DescribeInstanceTypes") == 1

    run(test, broken("DescribeSpotPriceHistory", times=1))


def test_old_prices_stay_where_new_ones_cannot_be_had() -> None:
    async def test(bench: Bench, live: LiveCatalogue) -> None:
        await live.refresh()
        before = live.market().prices
        await bench.clock.sleep(12 * HOUR)
        bench.cloud.change({"faults": [{"operation": "GetProducts", "code": "InternalError"}]})
        await live.refresh()
        assert live.failures
        assert live.market().prices.on_demand == before.on_demand

    run(test)


def test_without_a_way_to_the_price_list_nobody_asks_it() -> None:
    async def test(bench: Bench, live: LiveCatalogue) -> None:
        await live.refresh()
        assert bench.count("GetProducts") == 0
        assert live.market().on_demand("m5.large") == 0.096
        assert live.market().prices.spot

    run(test, price_list=False)


def test_zone_ids_are_worth_no_failure() -> None:
    async def test(_: Bench, live: LiveCatalogue) -> None:
        await live.refresh()
        assert not live.failures
        assert set(live.market().listing.zones.values()) == {""}

    run(test, broken("DescribeAvailabilityZones", code="UnauthorizedOperation", status=403))


def test_a_region_that_nobody_knows_has_to_be_described_first() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = Bench(clock)
        live = LiveCatalogue(bench.aws, clock, "mars-north-1")
        with pytest.raises(Unavailable, match="mars-north-1"):
            live.market()
        await live.refresh()
        assert live.market().listing.offered

    on_time(main)
