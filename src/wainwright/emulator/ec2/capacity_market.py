"""The capacity market: the price of each offering and how many instances it has left.

On-demand prices are those of the catalogue; spot prices too, unless they are configured to move. A
price of the Cloud takes precedence over both and is constant. Without a rule capacity is unlimited.

Moving spot prices follow slow trends, as measured, that depend on seed and offering alone. A target
moves randomly around the model's price (standard deviation .26 of the logarithm, correlation time
three weeks); the price follows it within days, a step every four hours. That gives changes of 1 %
in seven hours, 2.4 % a day, 13 % a week and 29 % a month, like snapshots of real prices. Nothing of
it is stored: the price of an offering at any time can be computed again.
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
"""The limit of an unavailable offering: it stays empty even if instances are released."""


class CapacityRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number of instances left in each matching offering; an absent field matches all."""

    instanceType: str | None = None
    """`*` matches any text."""
    zone: str | None = None
    capacityType: str | None = None
    free: CapacityCount | None = None
    """None: unlimited, whatever an earlier rule says."""


class AccountCapacity(msgspec.Struct, kw_only=True):
    unavailable: list[UnavailableOffering] = []
    """Offerings without capacity that also regain none, as the Cloud lists them."""
    rules: list[CapacityRule] = []
    """Of several that match an offering the last applies."""
    taken: dict[str, int] = {}
    """By offering, instances taken less instances released since the rules were set."""


class CapacityCounter:
    """Counts taken and released capacity.

    Limits are cached per offering, as matching rules against patterns is slow; setting rules clears
    the cache.
    """

    def __init__(self, state: AccountCapacity) -> None:
        self.state = state
        self._limits: dict[OfferingKey, float] = {}

    def free(self, offering: OfferingKey) -> int | None:
        """How many instances are left; None where capacity is unlimited."""
        limit = self._limits.get(offering)
        if limit is None:
            limit = self._limits[offering] = self._find_limit(offering)
        if limit == inf:
            return None
        return max(int(limit) - self.state.taken.get("/".join(offering), 0), 0) if limit >= 0 else 0

    def take(self, offering: OfferingKey, count: int = 1) -> None:
        key = "/".join(offering)
        self.state.taken[key] = self.state.taken.get(key, 0) + count

    def release(self, offering: OfferingKey, count: int = 1) -> None:
        self.take(offering, -count)

    def set_rules(self, rules: Iterable[CapacityRule]) -> None:
        """Replaces the rules; instances that run already do not count against them."""
        self.state.rules = list(rules)
        self.state.taken = {}
        self._limits.clear()

    def set_unavailable(self, entries: Iterable[UnavailableOffering]) -> None:
        self.state.unavailable = list(entries)
        self._limits.clear()

    def _find_limit(self, offering: OfferingKey) -> float:
        if any(_rule_matches(entry, offering) for entry in self.state.unavailable):
            return UNAVAILABLE_CAPACITY
        matching_limits = [rule.free for rule in self.state.rules if _rule_matches(rule, offering)]
        return inf if not matching_limits or matching_limits[-1] is None else matching_limits[-1]


def _rule_matches(entry: UnavailableOffering | CapacityRule, offering: OfferingKey) -> bool:
    instance_type, zone, capacity_type = offering
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
"""The stationary share of the target's deviation that the price has followed."""
UNIFORM_DRAWS: Final = Struct(">32H")
ROOT_OF_THREE: Final = sqrt(3.0)  # the sum of four uniform draws has a variance of a third


class PriceWalk:
    """The price of one offering over time, which is only ever advanced.

    Keeps its position: computing each price from the start would be linear in the elapsed time.
    """

    def __init__(self, drifts: Iterator[float]) -> None:
        self.step = 0
        self._drifts = drifts
        self._drift = next(drifts)

    def advance_to(self, step: int) -> float:
        for drift in islice(self._drifts, step - self.step):
            self._drift = drift
        self.step = step
        return self._drift


class SpotPriceModel:
    """Factors on the list prices since the start."""

    def __init__(self, seed: int, start: float) -> None:
        self._seed = seed
        self._start = start
        self._walks: dict[OfferingKey, PriceWalk] = {}

    def factor(self, offering: OfferingKey, now: float) -> float:
        """The factor on the offering's price; 1 at the start."""
        step, walk = self._step(offering, now), self._walks.get(offering)
        if walk is None or walk.step > step:
            walk = self._walks[offering] = PriceWalk(self._log_drifts(offering))
        return exp(walk.advance_to(step))

    def history(
        self, offering: OfferingKey, start: float, end: float
    ) -> Iterator[tuple[float, float]]:
        """Changes as (time, factor), the latest first, back to the one in effect at `start`."""
        log_drifts = list(islice(self._log_drifts(offering), self._step(offering, end) + 1))
        for step in range(len(log_drifts) - 1, -1, -1):
            since = self._since(offering, step)
            yield since, exp(log_drifts[step])
            if since <= start:
                return

    def since(self, offering: OfferingKey, now: float) -> float:
        """Since when the price at `now` has been in effect."""
        return self._since(offering, self._step(offering, now))

    def _step(self, offering: OfferingKey, now: float) -> int:
        return max(int((now - self._start + self._phase(offering)) // PRICE_STEP), 0)

    def _since(self, offering: OfferingKey, step: int) -> float:
        return max(self._start + step * PRICE_STEP - self._phase(offering), self._start)

    def _phase(self, offering: OfferingKey) -> float:
        """Offset of the price steps, so that offerings do not all change at the same time."""
        digest = blake2b("/".join(offering).encode(), digest_size=4).digest()
        return int.from_bytes(digest) / 2**32 * PRICE_STEP

    def _log_drifts(self, offering: OfferingKey) -> Iterator[float]:
        """Logarithms of the price relative to the start, step by step.

        Target and price begin in their stationary distribution, else the first days would differ
        from later ones.
        """
        normals = self._normal_draws(offering)
        target = PRICE_SPREAD * next(normals)
        lag = sqrt(STATIONARY_LAG * (1 - STATIONARY_LAG)) * PRICE_SPREAD * next(normals)
        price = first = STATIONARY_LAG * target + lag
        noise = PRICE_SPREAD * sqrt(1 - TARGET_MEMORY**2)
        while True:
            yield price - first
            target = target * TARGET_MEMORY + noise * next(normals)
            price += (target - price) * TRACKING_RATE

    def _normal_draws(self, offering: OfferingKey) -> Iterator[float]:
        name, block = "/".join(offering), 0
        while True:
            text = f"{self._seed} {name} {block}".encode()
            uniforms = UNIFORM_DRAWS.unpack(blake2b(text, digest_size=64).digest())
            for start in range(8):
                yield (sum(uniforms[start::8]) / 0x10000 - 2.0) * ROOT_OF_THREE
            block += 1


SpotPriceRow: TypeAlias = tuple[OfferingKey, float, float]
"""An offering, its price, and since when."""

LINUX_PRODUCT: Final = "Linux/UNIX"
KNOWN_PRODUCTS: Final = (LINUX_PRODUCT, f"{LINUX_PRODUCT} (Amazon VPC)")
MIN_SPOT_FRACTION: Final = (
    0.1  # of the on-demand price: the lower bound of spot prices, whose upper bound is 1
)


class MarketState(msgspec.Struct, kw_only=True):
    started: float = msgspec.field(name="opened")
    prices: list[CloudPrice] = []
    prices_set_at: float = msgspec.field(default=0.0, name="priced")
    """When the prices of the Cloud were set."""
    moving_prices: bool = msgspec.field(default=False, name="moving")
    seed: int = 0
    """Of the price movement."""
    capacity: AccountCapacity = msgspec.field(default_factory=AccountCapacity, name="stock")


class CapacityMarket:
    """Prices and capacity of all offerings."""

    name = "ec2"

    def __init__(
        self,
        context: AccountContext,
        region_offerings: RegionOfferings,
        *,
        moving_prices: bool = False,
    ) -> None:
        self._context = context
        self._region_offerings = region_offerings
        self._restore(
            MarketState(
                started=context.now(),
                moving_prices=moving_prices,
                seed=context.random.getrandbits(32),
            )
        )

    @property
    def state(self) -> MarketState:
        return self._state

    @state.setter
    def state(self, state: MarketState) -> None:
        self._restore(state)

    def _restore(self, state: MarketState) -> None:
        self._state = state
        self._capacity = CapacityCounter(state.capacity)
        self._spot_price_model = (
            SpotPriceModel(state.seed, state.started) if state.moving_prices else None
        )
        self._fixed_prices = self._fixed_prices_by_offering(state.prices)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"DescribeSpotPriceHistory": self.describe_history}

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """USD per hour now; None where it is not offered or the price is unknown."""
        offering = (instance_type, zone, capacity_type)
        fixed = self._fixed_prices.get(offering)
        if fixed is not None:
            return fixed
        list_price = self._region_offerings.prices.get(offering)
        if list_price is None or self._spot_price_model is None or capacity_type != SPOT:
            return list_price
        return self._clamp_spot_price(
            offering, list_price * self._spot_price_model.factor(offering, self._context.now())
        )

    def on_demand(self) -> dict[str, float]:
        """The on-demand price of each instance type, of its first zone where zones differ."""
        prices_by_type = {}
        for name, zones in self._region_offerings.zones_by_type.items():
            prices = (self.price(name, zone, ON_DEMAND) for zone in zones)
            price = next((each for each in prices if each is not None), None)
            if price is not None:
                prices_by_type[name] = price
        return prices_by_type

    def is_offered(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether the offering exists, with or without capacity."""
        return (instance_type, zone, capacity_type) in self._region_offerings.offering_keys

    def free(self, instance_type: str, zone: str, capacity_type: str) -> int | None:
        """How many instances the offering has left; None where capacity is unlimited."""
        return self._capacity.free((instance_type, zone, capacity_type))

    def take(self, instance_type: str, zone: str, capacity_type: str, count: int = 1) -> None:
        self._capacity.take((instance_type, zone, capacity_type), count)

    def release(self, instance_type: str, zone: str, capacity_type: str, count: int = 1) -> None:
        self._capacity.release((instance_type, zone, capacity_type), count)

    def set_prices(self, prices: Iterable[CloudPrice]) -> None:
        """Replaces the prices of the Cloud."""
        self._state.prices = list(prices)
        self._state.prices_set_at = self._context.now()
        self._fixed_prices = self._fixed_prices_by_offering(self._state.prices)

    def set_unavailable(self, entries: Iterable[UnavailableOffering]) -> None:
        self._capacity.set_unavailable(entries)

    def set_capacity_rules(self, rules: Iterable[CapacityRule]) -> None:
        self._capacity.set_rules(rules)

    def _fixed_prices_by_offering(self, prices: Iterable[CloudPrice]) -> dict[OfferingKey, float]:
        """A price for a zone overrides one for all zones; of equal scope the last applies."""
        ordered = sorted(prices, key=lambda price: price.zone is not None)
        return {
            offering: price.price
            for price in ordered
            for offering in self._region_offerings.matching_offerings(price)
        }

    def _clamp_spot_price(self, offering: OfferingKey, price: float) -> float:
        """The price within the bounds of spot prices."""
        ceiling = self.price(offering[0], offering[1], ON_DEMAND)
        if ceiling is not None:
            price = min(max(price, MIN_SPOT_FRACTION * ceiling), ceiling)
        return round(price, 6)

    def describe_history(self, params: Params) -> Response:
        if not _includes_linux(params):
            return {"SpotPriceHistory": []}
        rows = apply_filters(self._rows(params), params.get("Filters"), self._fields())
        page, token = paginate(rows, params, maximum=2000, minimum=1, all_by_default=False)
        return {"SpotPriceHistory": [self._row(*row) for row in page], **token}

    def _rows(self, params: Params) -> Iterator[SpotPriceRow]:
        """Prices in effect between start and end, type by type, the latest first."""
        now = self._context.now()
        end = min(to_epoch_seconds(params.get("EndTime") or now, "endTime"), now)
        start = min(to_epoch_seconds(params.get("StartTime") or now, "startTime"), end)
        for offering in self._requested_offerings(params):
            yield from self._prices(offering, start, end)

    def _requested_offerings(self, params: Params) -> Iterator[OfferingKey]:
        region_offerings, types = self._region_offerings, params.get("InstanceTypes")
        zone = params.get("AvailabilityZone")
        zone = zone or region_offerings.zone_names.get(params.get("AvailabilityZoneId") or "")
        for name in (
            sorted(set(types) & region_offerings.zones_by_type.keys())
            if types
            else region_offerings.zones_by_type
        ):
            for offered_zone in region_offerings.zones_by_type[name]:
                if (
                    zone in (None, offered_zone)
                    and (name, offered_zone, SPOT) in region_offerings.offering_keys
                ):
                    yield name, offered_zone, SPOT

    def _prices(self, offering: OfferingKey, start: float, end: float) -> Iterator[SpotPriceRow]:
        fixed, list_price = (
            self._fixed_prices.get(offering),
            self._region_offerings.prices.get(offering),
        )
        if fixed is not None:
            if self._state.prices_set_at <= end:
                yield offering, fixed, self._state.prices_set_at
        elif list_price is None:
            return
        elif self._spot_price_model is None:
            yield offering, list_price, self._state.started
        elif start >= self._spot_price_model.since(offering, end):
            factor = self._spot_price_model.factor(offering, end)
            yield (
                offering,
                self._clamp_spot_price(offering, list_price * factor),
                self._spot_price_model.since(offering, end),
            )
        else:
            for since, factor in self._spot_price_model.history(offering, start, end):
                yield offering, self._clamp_spot_price(offering, list_price * factor), since

    def _fields(self) -> FilterFields[SpotPriceRow]:
        return {
            "availability-zone": lambda row: (row[0][1],),
            "availability-zone-id": lambda row: (self._region_offerings.zones[row[0][1]],),
            "instance-type": lambda row: (row[0][0],),
            "product-description": lambda _: (LINUX_PRODUCT,),
            "spot-price": lambda row: (f"{row[1]:.6f}",),
            "timestamp": lambda row: (to_datetime(row[2]).isoformat(),),
        }

    def _row(self, offering: OfferingKey, price: float, since: float) -> Response:
        return {
            "AvailabilityZone": offering[1],
            "AvailabilityZoneId": self._region_offerings.zones[offering[1]],
            "InstanceType": offering[0],
            "ProductDescription": LINUX_PRODUCT,
            "SpotPrice": f"{price:.6f}",
            "Timestamp": to_datetime(since),
        }


def _includes_linux(params: Params) -> bool:
    """Whether Linux is requested: prices of Windows and commercial Linux are unknown here."""
    products = params.get("ProductDescriptions")
    return not products or any(each in KNOWN_PRODUCTS for each in products)
