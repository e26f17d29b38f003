"""Prices: on-demand from the price list, spot from the price history of each type and zone.

An empty or failed response changes nothing: the last known prices stay in use, and before there
are any, those of the built-in table.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wainwright.aws.api.services import Ec2, PriceList, Row
from wainwright.clock import Clock

SpotPrices = Mapping[tuple[str, str], float]
"""Prices by instance type and zone."""

PRICE_LIST_FILTERS: Final = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
SHARED_TENANCY: Final = {"tenancy": "Shared"}
BARE_METAL: Final = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}
"""Some bare metal types are not listed with shared tenancy."""


class RegionPrices(msgspec.Struct, frozen=True, kw_only=True):
    """USD per hour, or CNY in China. None if they were not fetched yet, or the fetch failed."""

    on_demand: Mapping[str, float] | None = None
    spot: SpotPrices | None = None


NO_PRICES: Final = RegionPrices()


class PricingProvider:
    """Fetches the prices of one region."""

    def __init__(self, ec2: Ec2, price_list: PriceList, clock: Clock, region: str) -> None:
        self._ec2 = ec2
        self._price_list = price_list
        self._clock = clock
        self._region = region

    async def on_demand(self) -> Mapping[str, float] | None:
        """None if the price list is empty, for example for an unknown region."""
        terms = {**PRICE_LIST_FILTERS, "regionCode": self._region}
        currency = "CNY" if self._region.startswith("cn-") else "USD"
        shared = parse_on_demand_prices(
            await self._price_list.get_products({**terms, **SHARED_TENANCY}), currency
        )
        if not shared:
            return None
        metal = parse_on_demand_prices(
            await self._price_list.get_products({**terms, **BARE_METAL}), currency
        )
        return {**metal, **shared}

    async def spot(self) -> SpotPrices | None:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        prices = parse_spot_prices(await self._ec2.describe_spot_price_history(now))
        return prices or None


def parse_on_demand_prices(products: Iterable[Row], currency: str = "USD") -> dict[str, float]:
    """By instance type; products without a price, or with price zero, are left out."""
    prices: dict[str, float] = {}
    for product in products:
        name = product.get("product", {}).get("attributes", {}).get("instanceType")
        price = _hourly_price(product, currency)
        if name and price:
            prices[name] = price
    return prices


def parse_spot_prices(rows: Iterable[Row]) -> dict[tuple[str, str], float]:
    """The latest of each type and zone; rows without a timestamp are ignored."""
    latest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for row in rows:
        price, timestamp = _parse_amount(row.get("SpotPrice")), row.get("Timestamp")
        if not price or timestamp is None:
            continue
        key = row["InstanceType"], row["AvailabilityZone"]
        if key not in latest or latest[key][0] < timestamp:
            latest[key] = timestamp, price
    return {key: price for key, (_, price) in latest.items()}


def _hourly_price(product: Row, currency: str) -> float:
    """Products have one term and one rate; of several, the first with a price above zero."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for rate in term.get("priceDimensions", {}).values():
            price = _parse_amount(rate.get("pricePerUnit", {}).get(currency))
            if price:
                return price
    return 0.0


def _parse_amount(text: Any) -> float:
    """Zero if it is not a number."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0
