"""Prices from AWS; empty or invalid responses do not replace known prices."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import ResolverBench, ScriptedApi, run_in_virtual_time

from wainwright.api.catalog_documents import CloudPrice
from wainwright.aws.api.services import Ec2, PriceList
from wainwright.aws.instancetypes.pricing import (
    PricingProvider,
    parse_on_demand_prices,
    parse_spot_prices,
)
from wainwright.clock import VirtualClock


def product(kind: str, price: str, currency: str = "USD") -> dict[str, Any]:
    rate = {"pricePerUnit": {currency: price}}
    return {
        "product": {"attributes": {"instanceType": kind}},
        "terms": {"OnDemand": {"t": {"priceDimensions": {"r": rate}}}},
    }


def row(kind: str, zone: str, price: str, hour: int | None = 0) -> dict[str, Any]:
    found: dict[str, Any] = {"InstanceType": kind, "AvailabilityZone": zone, "SpotPrice": price}
    moment = None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC)
    return found | ({} if moment is None else {"Timestamp": moment})


def test_prices_of_the_list_by_type() -> None:
    listed = [product("m5.large", "0.096"), product("c5.large", "0.0850000000")]
    assert parse_on_demand_prices(listed) == {"m5.large": 0.096, "c5.large": 0.085}


@pytest.mark.parametrize(
    "odd",
    [
        product("m5.large", "0.0000000000"),
        product("m5.large", "free"),
        product("m5.large", "0.7", "CNY"),
        {"product": {}, "terms": {}},
        {},
    ],
)
def test_products_without_a_price_are_left_out(odd: dict[str, Any]) -> None:
    assert parse_on_demand_prices([odd]) == {}


def test_prices_in_china_are_in_its_currency() -> None:
    assert parse_on_demand_prices([product("m5.large", "0.7", "CNY")], "CNY") == {"m5.large": 0.7}


def test_of_several_spot_prices_the_latest_is_used() -> None:
    rows = [row("m5.large", "a", "0.03", 1), row("m5.large", "a", "0.05", 2)]
    for ordered in (rows, rows[::-1]):
        assert parse_spot_prices([*ordered, row("m5.large", "b", "0.04")]) == {
            ("m5.large", "a"): 0.05,
            ("m5.large", "b"): 0.04,
        }


def test_spot_prices_without_time_or_amount_are_left_out() -> None:
    assert (
        parse_spot_prices([row("m5.large", "a", "0.03", None), row("m5.large", "b", "n/a")]) == {}
    )


def book(seam: Any, clock: VirtualClock, region: str = "us-east-1") -> PricingProvider:
    return PricingProvider(Ec2(seam), PriceList(seam), clock, region)


def test_both_prices_are_fetched() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = ResolverBench(clock)
        bench.cloud.change(
            {
                "prices": [
                    msgspec.to_builtins(each)
                    for each in (
                        CloudPrice(instanceType="m5.large", capacityType="on-demand", price=0.5),
                        CloudPrice(
                            instanceType="m5.large",
                            capacityType="spot",
                            price=0.25,
                            zone="us-east-1a",
                        ),
                    )
                ]
            }
        )
        prices = book(bench.seam, clock)
        on_demand, spot = await prices.on_demand(), await prices.spot()
        assert on_demand is not None
        assert on_demand["m5.large"] == 0.5
        assert spot is not None
        assert spot["m5.large", "us-east-1a"] == 0.25
        assert bench.count("GetProducts") == 2

    run_in_virtual_time(main)


def test_bare_metal_is_fetched_twice_and_the_shared_price_wins() -> None:
    def answer(params: Any) -> dict[str, Any]:
        tenancy = next(each["Value"] for each in params["Filters"] if each["Field"] == "tenancy")
        shared = tenancy == "Shared"
        kinds = (
            {"m5.metal": "4.608", "m5.large": "0.096"} if shared else {"m5.metal": "5", "z": "9"}
        )
        return {
            "PriceList": [msgspec.json.encode(product(*each)).decode() for each in kinds.items()]
        }

    async def main(clock: VirtualClock) -> None:
        found = await book(ScriptedApi({"GetProducts": answer}), clock).on_demand()
        assert found == {"m5.metal": 4.608, "m5.large": 0.096, "z": 9.0}

    run_in_virtual_time(main)


def test_an_empty_response_is_none() -> None:
    async def main(clock: VirtualClock) -> None:
        seam = ScriptedApi(
            {"GetProducts": {"PriceList": []}, "DescribeSpotPriceHistory": {"SpotPriceHistory": []}}
        )
        prices = book(seam, clock)
        assert (await prices.on_demand(), await prices.spot()) == (None, None)

    run_in_virtual_time(main)
