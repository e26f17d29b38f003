"""The capacity market: what each offering costs and how many instances it has left.

On-demand prices are those of the catalogue; spot prices too, unless they were asked to move. A
price of the Cloud goes before both and does not move. Without a rule capacity has no end.

Moving spot prices follow slow trends, as they were measured, that depend on seed and offering
alone. A target wanders around the model's price (standard deviation .26 of the logarithm, three
weeks to forget where it was); the price follows it within days, a step every four hours. That gives
changes of 1 % in seven hours, 2.4 % a day, 13 % a week and 29 % a month, as snapshots of the real
ones do. Nothing of it is kept: what an offering cost at any moment can be worked out again.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from math import exp, inf, sqrt
from struct import Struct
from typing import Annotated, Final, TypeAlias

import msgspec

from wainwright.api.catalog_documents import CloudPrice, UnavailableOffering
from wainwright.catalogue.offerings.cloud_adjustments import matches_pattern
from wainwright.emulator.api_conventions import to_datetime, to_epoch_seconds
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters, paginate
from wainwright.emulator.ec2.region_offerings import ON_DEMAND, SPOT, OfferingKey, RegionOfferings

CapacityCount = Annotated[int, msgspec.Meta(ge=0)]
UNAVAILABLE_CAPACITY: Final = -1.0
"""Of a pool that has nothing, whatever comes back to it."""


class CapacityRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many machines are left in each of the pools that it means; a field left out means all."""

    instanceType: str | None = None
    """`*` stands for any text."""
    zone: str | None = None
    capacityType: str | None = None
    free: CapacityCount | None = None
    """None: no end of them, whatever an earlier rule says."""


class CapacityState(msgspec.Struct, kw_only=True):
    unavailable: list[UnavailableOffering] = []
    """Pools that have nothing and get nothing back, as the Cloud has them."""
    rules: list[CapacityRule] = []
    """Of several that mean a pool the last counts."""
    taken: dict[str, int] = {}
    """By pool, what was taken less what came back since the rules were set."""


class CapacityCounter:
    """Counts what is taken and given back."""

    def __init__(self, state: CapacityState) -> None:
        self.state = state
        self._limits: dict[OfferingKey, float] = {}

    def free(self, pool: OfferingKey) -> int | None:
        """How many there are; None where there is no end."""
        limit = self._limits.get(pool)
        if limit is None:
            limit = self._limits[pool] = self._limit(pool)
        if limit == inf:
            return None
        return max(int(limit) - self.state.taken.get("/".join(pool), 0), 0) if limit >= 0 else 0

    def take(self, pool: OfferingKey, count: int = 1) -> None:
        key = "/".join(pool)
        self.state.taken[key] = self.state.taken.get(key, 0) + count

    def release(self, pool: OfferingKey, count: int = 1) -> None:
        self.take(pool, -count)

    def set_rules(self, rules: Iterable[CapacityRule]) -> None:
        """From now on; what is running already is not counted again."""
        self.state.rules = list(rules)
        self.state.taken = {}
        self._limits.clear()

    def set_unavailable(self, entries: Iterable[UnavailableOffering]) -> None:
        self.state.unavailable = list(entries)
        self._limits.clear()

    def _limit(self, pool: OfferingKey) -> float:
        if any(_rule_matches(entry, pool) for entry in self.state.unavailable):
            return UNAVAILABLE_CAPACITY
        meant = [rule.free for rule in self.state.rules if _rule_matches(rule, pool)]
        return inf if not meant or meant[-1] is None else meant[-1]


def _rule_matches(entry: UnavailableOffering | CapacityRule, pool: OfferingKey) -> bool:
    instance_type, zone, capacity_type = pool
    return (
        entry.zone in (None, zone)
        and entry.capacityType in (None, capacity_type)
        and (entry.instanceType is None or matches_pattern(entry.instanceType, instance_type))
    )


HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
PRICE_STEP: Final = 4 * HOUR
PRICE_SPREAD: Final = 0.26
TARGET_MEMORY: Final = exp(-PRICE_STEP / (21 * DAY))
TRACKING_RATE: Final = 1 - exp(-PRICE_STEP / (4 * DAY))
STATIONARY_LAG: Final = TRACKING_RATE * TARGET_MEMORY / (1 - (1 - TRACKING_RATE) * TARGET_MEMORY)
"""How much of a target the price has taken over, on average, when both have run for long."""
UNIFORM_DRAWS: Final = Struct(">32H")
ROOT_OF_THREE: Final = sqrt(3.0)  # the sum of four even draws has a variance of a third


class PriceWalk:
    """One pool's way so far; it only goes on, as time does."""

    def __init__(self, drifts: Iterator[float]) -> None:
        self.step = 0
        self._drifts = drifts
        self._drift = next(drifts)

    def to(self, step: int) -> float:
        for drift in islice(self._drifts, step - self.step):
            self._drift = drift
        self.step = step
        return self._drift


class SpotPriceModel:
    """Factors on the model's prices since it began."""

    def __init__(self, seed: int, start: float) -> None:
        self._seed = seed
        self._start = start
        self._walks: dict[OfferingKey, PriceWalk] = {}

    def factor(self, pool: OfferingKey, now: float) -> float:
        """What the pool's price has changed by; 1 when it all began."""
        step, walk = self._step(pool, now), self._walks.get(pool)
        if walk is None or walk.step > step:
            walk = self._walks[pool] = PriceWalk(self._drifts(pool))
        return exp(walk.to(step))

    def history(self, pool: OfferingKey, start: float, end: float) -> Iterator[tuple[float, float]]:
        """When the price changed and to which factor, the latest first: those that held then."""
        drifts = list(islice(self._drifts(pool), self._step(pool, end) + 1))
        for step in range(len(drifts) - 1, -1, -1):
            since = self._since(pool, step)
            yield since, exp(drifts[step])
            if since <= start:
                return

    def since(self, pool: OfferingKey, now: float) -> float:
        """From when on the price of now holds."""
        return self._since(pool, self._step(pool, now))

    def _step(self, pool: OfferingKey, now: float) -> int:
        return max(int((now - self._start + self._phase(pool)) // PRICE_STEP), 0)

    def _since(self, pool: OfferingKey, step: int) -> float:
        return max(self._start + step * PRICE_STEP - self._phase(pool), self._start)

    def _phase(self, pool: OfferingKey) -> float:
        """Pools change at times of their own."""
        digest = blake2b("/".join(pool).encode(), digest_size=4).digest()
        return int.from_bytes(digest) / 2**32 * PRICE_STEP

    def _drifts(self, pool: OfferingKey) -> Iterator[float]:
        """Step by step how far the price is from where it began, as logarithms.

        Target and price begin as they would be after a long time, else the first days would be
        unlike the others.
        """
        normals = self._normals(pool)
        target = PRICE_SPREAD * next(normals)
        behind = sqrt(STATIONARY_LAG * (1 - STATIONARY_LAG)) * PRICE_SPREAD * next(normals)
        price = first = STATIONARY_LAG * target + behind
        noise = PRICE_SPREAD * sqrt(1 - TARGET_MEMORY**2)
        while True:
            yield price - first
            target = target * TARGET_MEMORY + noise * next(normals)
            price += (target - price) * TRACKING_RATE

    def _normals(self, pool: OfferingKey) -> Iterator[float]:
        name, number = "/".join(pool), 0
        while True:
            text = f"{self._seed} {name} {number}".encode()
            parts = UNIFORM_DRAWS.unpack(blake2b(text, digest_size=64).digest())
            for at in range(8):
                yield (sum(parts[at::8]) / 0x10000 - 2.0) * ROOT_OF_THREE
            number += 1


SpotPriceRow: TypeAlias = tuple[OfferingKey, float, float]
"""A pool, what it costs, and since when."""

LINUX_PRODUCT: Final = "Linux/UNIX"
KNOWN_PRODUCTS: Final = (LINUX_PRODUCT, f"{LINUX_PRODUCT} (Amazon VPC)")
MIN_SPOT_FRACTION: Final = (
    0.1  # of the on-demand price, which spot prices keep between this and itself
)


class MarketState(msgspec.Struct, kw_only=True):
    opened: float
    prices: list[CloudPrice] = []
    priced: float = 0.0
    """When these prices were set."""
    moving: bool = False
    seed: int = 0
    """Of the movement."""
    stock: CapacityState = msgspec.field(default_factory=CapacityState)


class CapacityMarket:
    """Prices and stock of all pools."""

    name = "ec2"

    def __init__(
        self, context: AccountContext, region_offerings: RegionOfferings, *, moving: bool = False
    ) -> None:
        self._context = context
        self._region_offerings = region_offerings
        self.restore(
            MarketState(opened=context.now(), moving=moving, seed=context.random.getrandbits(32))
        )

    @property
    def state(self) -> MarketState:
        return self._state

    @state.setter
    def state(self, state: MarketState) -> None:
        self.restore(state)

    def restore(self, state: MarketState) -> None:
        self._state = state
        self._stock = CapacityCounter(state.stock)
        self._movement = SpotPriceModel(state.seed, state.opened) if state.moving else None
        self._stated = self._meant(state.prices)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"DescribeSpotPriceHistory": self.describe_history}

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """USD per hour now; None where it is not sold or nobody knows the price."""
        pool = (instance_type, zone, capacity_type)
        stated = self._stated.get(pool)
        if stated is not None:
            return stated
        listed = self._region_offerings.prices.get(pool)
        if listed is None or self._movement is None or capacity_type != SPOT:
            return listed
        return self._kept(pool, listed * self._movement.factor(pool, self._context.now()))

    def on_demand(self) -> dict[str, float]:
        """What each type costs on demand; in its first zone, should zones differ."""
        found = {}
        for name, zones in self._region_offerings.offered.items():
            prices = (self.price(name, zone, ON_DEMAND) for zone in zones)
            price = next((each for each in prices if each is not None), None)
            if price is not None:
                found[name] = price
        return found

    def is_offered(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether there is such a pool, empty or not."""
        return (instance_type, zone, capacity_type) in self._region_offerings.pools

    def free(self, instance_type: str, zone: str, capacity_type: str) -> int | None:
        """How many machines the pool has left; None where there is no end of them."""
        return self._stock.free((instance_type, zone, capacity_type))

    def take(self, instance_type: str, zone: str, capacity_type: str, count: int = 1) -> None:
        self._stock.take((instance_type, zone, capacity_type), count)

    def release(self, instance_type: str, zone: str, capacity_type: str, count: int = 1) -> None:
        self._stock.release((instance_type, zone, capacity_type), count)

    def set_prices(self, prices: Iterable[CloudPrice]) -> None:
        """In place of those set before."""
        self._state.prices = list(prices)
        self._state.priced = self._context.now()
        self._stated = self._meant(self._state.prices)

    def set_unavailable(self, entries: Iterable[UnavailableOffering]) -> None:
        self._stock.set_unavailable(entries)

    def set_stock(self, rules: Iterable[CapacityRule]) -> None:
        self._stock.set_rules(rules)

    def _meant(self, prices: Iterable[CloudPrice]) -> dict[OfferingKey, float]:
        """The price of the zone goes before the price for all zones, and a later one before both
        of its kind."""
        ordered = sorted(prices, key=lambda price: price.zone is not None)
        return {
            pool: price.price for price in ordered for pool in self._region_offerings.meant(price)
        }

    def _kept(self, pool: OfferingKey, price: float) -> float:
        """Within what spot ever costs."""
        ceiling = self.price(pool[0], pool[1], ON_DEMAND)
        if ceiling is not None:
            price = min(max(price, MIN_SPOT_FRACTION * ceiling), ceiling)
        return round(price, 6)

    def describe_history(self, params: Params) -> Response:
        if not _includes_linux(params):
            return {"SpotPriceHistory": []}
        rows = apply_filters(self._rows(params), params.get("Filters"), self._fields())
        found, token = paginate(rows, params, maximum=2000, minimum=1, whole=False)
        return {"SpotPriceHistory": [self._row(*row) for row in found], **token}

    def _rows(self, params: Params) -> Iterator[SpotPriceRow]:
        """What held at some time between start and end, type by type, the latest first."""
        now = self._context.now()
        end = min(to_epoch_seconds(params.get("EndTime") or now, "endTime"), now)
        start = min(to_epoch_seconds(params.get("StartTime") or now, "startTime"), end)
        for pool in self._asked(params):
            yield from self._prices(pool, start, end)

    def _asked(self, params: Params) -> Iterator[OfferingKey]:
        region_offerings, types = self._region_offerings, params.get("InstanceTypes")
        zone = params.get("AvailabilityZone")
        zone = zone or region_offerings.zone_names.get(params.get("AvailabilityZoneId") or "")
        for name in (
            sorted(set(types) & region_offerings.offered.keys())
            if types
            else region_offerings.offered
        ):
            for place in region_offerings.offered[name]:
                if zone in (None, place) and (name, place, SPOT) in region_offerings.pools:
                    yield name, place, SPOT

    def _prices(self, pool: OfferingKey, start: float, end: float) -> Iterator[SpotPriceRow]:
        stated, listed = self._stated.get(pool), self._region_offerings.prices.get(pool)
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

    def _fields(self) -> FilterFields[SpotPriceRow]:
        return {
            "availability-zone": lambda row: (row[0][1],),
            "availability-zone-id": lambda row: (self._region_offerings.zones[row[0][1]],),
            "instance-type": lambda row: (row[0][0],),
            "product-description": lambda _: (LINUX_PRODUCT,),
            "spot-price": lambda row: (f"{row[1]:.6f}",),
            "timestamp": lambda row: (to_datetime(row[2]).isoformat(),),
        }

    def _row(self, pool: OfferingKey, price: float, since: float) -> Response:
        return {
            "AvailabilityZone": pool[1],
            "AvailabilityZoneId": self._region_offerings.zones[pool[1]],
            "InstanceType": pool[0],
            "ProductDescription": LINUX_PRODUCT,
            "SpotPrice": f"{price:.6f}",
            "Timestamp": to_datetime(since),
        }


def _includes_linux(params: Params) -> bool:
    """Prices of Windows and of the paid Linuxes are not known here."""
    asked = params.get("ProductDescriptions")
    return not asked or any(each in KNOWN_PRODUCTS for each in asked)
