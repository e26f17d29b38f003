"""The live catalogue: instance types, zones and prices of the account, kept up to date.

Each part is asked for every twelve hours. Where that fails, what is known goes on being used, and
the part is asked for again soon; until it was there once, the built-in catalogue stands in.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from wainwright.aws.account import Account
from wainwright.aws.market import Listing, Market, built_in, listing
from wainwright.aws.operations import denied
from wainwright.aws.prices import Pools, PriceBook, Prices
from wainwright.aws.wire import Row
from wainwright.clock import Clock
from wainwright.errors import AwsError, BadInput, Unavailable

REFRESH: Final = 12 * 3600.0  # seconds
RETRY: Final = 60.0

TYPES, ON_DEMAND, SPOT = "instance types", "on-demand prices", "spot prices"


class LiveCatalogue:
    def __init__(
        self, account: Account, clock: Clock, region: str, *, price_list: bool = True
    ) -> None:
        """Without a way to the price list on-demand prices are the built-in ones."""
        self._ec2 = account.ec2
        self._clock = clock
        self._region = region
        self._book = PriceBook(account.ec2, account.prices, clock, region)
        self._due: dict[str, float] = dict.fromkeys((TYPES, ON_DEMAND, SPOT), 0.0)
        if not price_list:
            del self._due[ON_DEMAND]
        self._listing: Listing | None = None
        self._on_demand: Mapping[str, float] | None = None
        self._spot: Pools | None = None
        self._market: Market | None = None
        self.failures: dict[str, str] = {}
        """By part, why it is not up to date."""

    def market(self) -> Market:
        """What is known at this moment; the same object until something changes.

        Unavailable in a region that neither EC2 has described yet nor anybody before.
        """
        if self._market is None:
            prices = Prices(on_demand=self._on_demand, spot=self._spot)
            self._market = Market(self._region, self._listing or self._fallback(), prices)
        return self._market

    async def refresh(self) -> None:
        """Asks for what is due; nothing is raised, `failures` tells."""
        now = self._clock.now()
        asks: Mapping[str, Callable[[], Awaitable[bool]]] = {
            TYPES: self._ask_types,
            ON_DEMAND: self._ask_on_demand,
            SPOT: self._ask_spot,
        }
        due = [part for part, moment in self._due.items() if moment <= now]
        await asyncio.gather(*(self._refresh(part, asks[part]) for part in due))

    async def _refresh(self, part: str, ask: Callable[[], Awaitable[bool]]) -> None:
        try:
            fresh = await ask()
            why = "" if fresh else "the answer was empty"
        except AwsError as error:
            why = error.message
        self._due[part] = self._clock.now() + (RETRY if why else REFRESH)
        if why:
            self.failures[part] = why
        else:
            self.failures.pop(part, None)
            self._market = None

    async def _ask_types(self) -> bool:
        types, offered, zones = await asyncio.gather(
            self._ec2.describe_instance_types(),
            self._ec2.describe_instance_type_offerings(),
            self._zones(),
        )
        found = listing(types, offered, zones)
        if found.offered:
            self._listing = found
        return bool(found.offered)

    async def _zones(self) -> list[Row]:
        """Only for their ids, which the subnets of a class state as well."""
        try:
            return await self._ec2.describe_availability_zones()
        except AwsError as error:
            if denied(error):
                return []
            raise

    async def _ask_on_demand(self) -> bool:
        found = await self._book.on_demand()
        self._on_demand = found or self._on_demand
        return bool(found)

    async def _ask_spot(self) -> bool:
        found = await self._book.spot()
        self._spot = found or self._spot
        return bool(found)

    def _fallback(self) -> Listing:
        try:
            return built_in(self._region)
        except BadInput as error:
            why = self.failures.get(TYPES, "nobody has asked EC2 for them yet")
            message = f"the instance types of {self._region} are not known: {why}"
            raise Unavailable(message, error.hint, reason="NoInstanceTypes") from error
