"""Prices: on-demand from the price list, spot from the price history of each type and zone.

What comes back empty or not at all changes nothing: the prices known so far go on being used, and
before there are any, those of the built-in table.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wainwright.aws.api.seam import Row
from wainwright.aws.api.services import Ec2, PriceList
from wainwright.clock import Clock

SpotPrices = Mapping[tuple[str, str], float]
"""Prices by type and zone."""

PRICE_LIST_FILTERS: Final = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
SHARED_TENANCY: Final = {"tenancy": "Shared"}
BARE_METAL: Final = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}
"""Not all bare metal is listed among what is shared."""


class RegionPrices(msgspec.Struct, frozen=True, kw_only=True):
    """USD per hour, or CNY in China. None where nobody has asked yet, or nobody answered."""

    on_demand: Mapping[str, float] | None = None
    spot: SpotPrices | None = None


NO_PRICES: Final = RegionPrices()


class PricingProvider:
    """Asks for the prices of one region."""

    def __init__(self, ec2: Ec2, listed: PriceList, clock: Clock, region: str) -> None:
        self._ec2 = ec2
        self._list = listed
        self._clock = clock
        self._region = region

    async def on_demand(self) -> Mapping[str, float] | None:
        """None where the list is empty, as for a region that it does not know."""
        terms = {**PRICE_LIST_FILTERS, "regionCode": self._region}
        currency = "CNY" if self._region.startswith("cn-") else "USD"
        shared = parse_on_demand_prices(
            await self._list.products({**terms, **SHARED_TENANCY}), currency
        )
        if not shared:
            return None
        metal = parse_on_demand_prices(await self._list.products({**terms, **BARE_METAL}), currency)
        return {**metal, **shared}

    async def spot(self) -> SpotPrices | None:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        found = parse_spot_prices(await self._ec2.describe_spot_price_history(now))
        return found or None


def parse_on_demand_prices(products: Iterable[Row], currency: str = "USD") -> dict[str, float]:
    """By type; what is listed without a price, or for nothing, is left out."""
    found: dict[str, float] = {}
    for product in products:
        name = product.get("product", {}).get("attributes", {}).get("instanceType")
        price = _hourly_price(product, currency)
        if name and price:
            found[name] = price
    return found


def parse_spot_prices(rows: Iterable[Row]) -> dict[tuple[str, str], float]:
    """The latest of each pool; rows without a time say nothing about when they held."""
    latest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for row in rows:
        price, moment = _parse_amount(row.get("SpotPrice")), row.get("Timestamp")
        if not price or moment is None:
            continue
        pool = row["InstanceType"], row["AvailabilityZone"]
        if pool not in latest or latest[pool][0] < moment:
            latest[pool] = moment, price
    return {pool: price for pool, (_, price) in latest.items()}


def _hourly_price(product: Row, currency: str) -> float:
    """Products have one term and one rate; of several the first that asks for something."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for rate in term.get("priceDimensions", {}).values():
            price = _parse_amount(rate.get("pricePerUnit", {}).get(currency))
            if price:
                return price
    return 0.0


def _parse_amount(text: Any) -> float:
    """Zero where it is no number."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0
