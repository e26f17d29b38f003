"""Prices: what EC2 asks for its machines today; the built-in table where that cannot be found out.

On-demand prices come from the price list, spot prices from the history of each pool as of now. What
comes back empty or not at all changes nothing: the prices known so far go on being used.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wainwright.aws.beside import PriceList
from wainwright.aws.ec2 import Ec2
from wainwright.aws.wire import Row
from wainwright.clock import Clock

Pools = Mapping[tuple[str, str], float]
"""Prices by type and zone."""

LISTED: Final = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
SHARED: Final = {"tenancy": "Shared"}
METAL: Final = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}
"""Not all bare metal is listed among what is shared."""


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """USD per hour, or CNY in China. None where nobody has asked yet, or nobody answered."""

    on_demand: Mapping[str, float] | None = None
    spot: Pools | None = None


NO_PRICES: Final = Prices()


class PriceBook:
    """Asks for the prices of one region."""

    def __init__(self, ec2: Ec2, listed: PriceList, clock: Clock, region: str) -> None:
        self._ec2 = ec2
        self._list = listed
        self._clock = clock
        self._region = region

    async def on_demand(self) -> Mapping[str, float] | None:
        """None where the list is empty, as for a region that it does not know."""
        terms = {**LISTED, "regionCode": self._region}
        currency = "CNY" if self._region.startswith("cn-") else "USD"
        shared = on_demand_prices(await self._list.products({**terms, **SHARED}), currency)
        if not shared:
            return None
        metal = on_demand_prices(await self._list.products({**terms, **METAL}), currency)
        return {**metal, **shared}

    async def spot(self) -> Pools | None:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        found = spot_prices(await self._ec2.describe_spot_price_history(now))
        return found or None


def on_demand_prices(products: Iterable[Row], currency: str = "USD") -> dict[str, float]:
    """By type; what is listed without a price, or for nothing, is left out."""
    found: dict[str, float] = {}
    for product in products:
        name = product.get("product", {}).get("attributes", {}).get("instanceType")
        price = _hourly(product, currency)
        if name and price:
            found[name] = price
    return found


def spot_prices(rows: Iterable[Row]) -> dict[tuple[str, str], float]:
    """The latest of each pool; rows without a time say nothing about when they held."""
    latest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for row in rows:
        price, moment = _amount(row.get("SpotPrice")), row.get("Timestamp")
        if not price or moment is None:
            continue
        pool = row["InstanceType"], row["AvailabilityZone"]
        if pool not in latest or latest[pool][0] < moment:
            latest[pool] = moment, price
    return {pool: price for pool, (_, price) in latest.items()}


def _hourly(product: Row, currency: str) -> float:
    """Products have one term and one rate; of several the first that asks for something."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for rate in term.get("priceDimensions", {}).values():
            price = _amount(rate.get("pricePerUnit", {}).get(currency))
            if price:
                return price
    return 0.0


def _amount(text: Any) -> float:
    """Zero where it is no number."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0
