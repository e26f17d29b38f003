"""The shop: what each pool costs and how much it has left; DescribeSpotPriceHistory.

On-demand prices are those of the catalogue; spot prices too, unless they were asked to move. A
price of the Cloud goes before both and does not move.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from wainwright.api.cloud import CloudPrice, Unavailable
from wainwright.emulator.ec2.goods import ON_DEMAND, SPOT, Goods, Pool
from wainwright.emulator.ec2.movement import Movement
from wainwright.emulator.ec2.stock import Stock, StockRule, StockState
from wainwright.emulator.filters import Fields, matching
from wainwright.emulator.paging import page
from wainwright.emulator.times import moment, seconds
from wainwright.emulator.world import Answer, Handler, Params, World

Row: TypeAlias = tuple[Pool, float, float]
"""A pool, what it costs, and since when."""

LINUX: Final = "Linux/UNIX"
PRODUCTS: Final = (LINUX, f"{LINUX} (Amazon VPC)")
CHEAPEST: Final = 0.1  # of the on-demand price, which spot prices keep between this and itself


class ShopState(msgspec.Struct, kw_only=True):
    opened: float
    prices: list[CloudPrice] = []
    priced: float = 0.0
    """When these prices were set."""
    moving: bool = False
    seed: int = 0
    """Of the movement."""
    stock: StockState = msgspec.field(default_factory=StockState)


class Shop:
    """Prices and stock of all pools."""

    name = "ec2"

    def __init__(self, world: World, goods: Goods, *, moving: bool = False) -> None:
        self._world = world
        self._goods = goods
        self.restore(
            ShopState(opened=world.now(), moving=moving, seed=world.random.getrandbits(32))
        )

    @property
    def state(self) -> ShopState:
        return self._state

    @state.setter
    def state(self, state: ShopState) -> None:
        self.restore(state)

    def restore(self, state: ShopState) -> None:
        self._state = state
        self._stock = Stock(state.stock)
        self._movement = Movement(state.seed, state.opened) if state.moving else None
        self._stated = self._meant(state.prices)

    def operations(self) -> Mapping[str, Handler]:
        return {"DescribeSpotPriceHistory": self.describe_history}

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """USD per hour now; None where it is not sold or nobody knows the price."""
        pool = (instance_type, zone, capacity_type)
        stated = self._stated.get(pool)
        if stated is not None:
            return stated
        listed = self._goods.prices.get(pool)
        if listed is None or self._movement is None or capacity_type != SPOT:
            return listed
        return self._kept(pool, listed * self._movement.factor(pool, self._world.now()))

    def on_demand(self) -> dict[str, float]:
        """What each type costs on demand; in its first zone, should zones differ."""
        found = {}
        for name, zones in self._goods.offered.items():
            prices = (self.price(name, zone, ON_DEMAND) for zone in zones)
            price = next((each for each in prices if each is not None), None)
            if price is not None:
                found[name] = price
        return found

    def sells(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether there is such a pool, empty or not."""
        return (instance_type, zone, capacity_type) in self._goods.pools

    def free(self, instance_type: str, zone: str, capacity_type: str) -> int | None:
        """How many machines the pool has left; None where there is no end of them."""
        return self._stock.free((instance_type, zone, capacity_type))

    def take(self, instance_type: str, zone: str, capacity_type: str, count: int = 1) -> None:
        self._stock.take((instance_type, zone, capacity_type), count)

    def give_back(self, instance_type: str, zone: str, capacity_type: str, count: int = 1) -> None:
        self._stock.give_back((instance_type, zone, capacity_type), count)

    def set_prices(self, prices: Iterable[CloudPrice]) -> None:
        """In place of those set before."""
        self._state.prices = list(prices)
        self._state.priced = self._world.now()
        self._stated = self._meant(self._state.prices)

    def set_unavailable(self, entries: Iterable[Unavailable]) -> None:
        self._stock.set_unavailable(entries)

    def set_stock(self, rules: Iterable[StockRule]) -> None:
        self._stock.set_rules(rules)

    def _meant(self, prices: Iterable[CloudPrice]) -> dict[Pool, float]:
        """The price of the zone goes before the price for all zones, and a later one before both
        of its kind."""
        ordered = sorted(prices, key=lambda price: price.zone is not None)
        return {pool: price.price for price in ordered for pool in self._goods.meant(price)}

    def _kept(self, pool: Pool, price: float) -> float:
        """Within what spot ever costs."""
        ceiling = self.price(pool[0], pool[1], ON_DEMAND)
        if ceiling is not None:
            price = min(max(price, CHEAPEST * ceiling), ceiling)
        return round(price, 6)

    def describe_history(self, params: Params) -> Answer:
        if not _linux(params):
            return {"SpotPriceHistory": []}
        rows = matching(self._rows(params), params.get("Filters"), self._fields())
        found, token = page(rows, params, most=2000, least=1, whole=False)
        return {"SpotPriceHistory": [self._row(*row) for row in found], **token}

    def _rows(self, params: Params) -> Iterator[Row]:
        """What held at some time between start and end, type by type, the latest first."""
        now = self._world.now()
        end = min(seconds(params.get("EndTime") or now, "endTime"), now)
        start = min(seconds(params.get("StartTime") or now, "startTime"), end)
        for pool in self._asked(params):
            yield from self._prices(pool, start, end)

    def _asked(self, params: Params) -> Iterator[Pool]:
        goods, types = self._goods, params.get("InstanceTypes")
        zone = params.get("AvailabilityZone")
        zone = zone or goods.zone_names.get(params.get("AvailabilityZoneId") or "")
        for name in sorted(set(types) & goods.offered.keys()) if types else goods.offered:
            for place in goods.offered[name]:
                if zone in (None, place) and (name, place, SPOT) in goods.pools:
                    yield name, place, SPOT

    def _prices(self, pool: Pool, start: float, end: float) -> Iterator[Row]:
        stated, listed = self._stated.get(pool), self._goods.prices.get(pool)
        if stated is not None:
            if self._state.priced <= end:
                yield pool, stated, self._state.priced
        elif listed is None:
            return
        elif self._movement is None:
            yield pool, listed, self._state.opened
        elif start >= self._movement.since(pool, end):
            factor = self._movement.factor(pool, end)
            yield pool, self._kept(pool, listed * factor), self._movement.since(pool, end)
        else:
            for since, factor in self._movement.history(pool, start, end):
                yield pool, self._kept(pool, listed * factor), since

    def _fields(self) -> Fields[Row]:
        return {
            "availability-zone": lambda row: (row[0][1],),
            "availability-zone-id": lambda row: (self._goods.zones[row[0][1]],),
            "instance-type": lambda row: (row[0][0],),
            "product-description": lambda _: (LINUX,),
            "spot-price": lambda row: (f"{row[1]:.6f}",),
            "timestamp": lambda row: (moment(row[2]).isoformat(),),
        }

    def _row(self, pool: Pool, price: float, since: float) -> Answer:
        return {
            "AvailabilityZone": pool[1],
            "AvailabilityZoneId": self._goods.zones[pool[1]],
            "InstanceType": pool[0],
            "ProductDescription": LINUX,
            "SpotPrice": f"{price:.6f}",
            "Timestamp": moment(since),
        }


def _linux(params: Params) -> bool:
    """Prices of Windows and of the paid Linuxes are not known here."""
    asked = params.get("ProductDescriptions")
    return not asked or any(each in PRODUCTS for each in asked)
