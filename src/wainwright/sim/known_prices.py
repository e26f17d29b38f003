"""Prices that the controllers may know at a moment, whatever they make of them.

They fetch prices now and then, and see objects in a watch that may be late. So what counts is all
that was in effect from the fetch that a command was decided by to the last one, with all objects of
the last minutes: a command that saves at any of these prices is right.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import product
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from wainwright.cluster import WatchEvent
from wainwright.emulator.context import Params, Response
from wainwright.model.labels import SPOT
from wainwright.sim.aws_calls import AwsCalls
from wainwright.sim.money import PRICED_KINDS, OfferingOfPool, OfferingPrices
from wainwright.sim.world import World

SPOT_PRICES: Final = "DescribeSpotPriceHistory"
PRICE_LIST: Final = "GetProducts"
DECISION_SECONDS: Final = 120.0
"""From a look at prices until the first node is marked, at most."""
MOST_VERSIONS: Final = 32
"""Of what is in effect one after the other; what nobody can tell any more is not judged."""
MOST_BUILT: Final = 8


class PriceVersion(NamedTuple):
    """The numbers of a Cloud and of objects, which together make the prices of all offerings."""

    cloud: int
    objects: int


class _Fetch(NamedTuple):
    begun: float
    done: float


class _History(msgspec.Struct):
    """What was in effect since when, each with a number that is never used again."""

    entries: deque[tuple[float, Any]] = msgspec.field(
        default_factory=lambda: deque(maxlen=MOST_VERSIONS)
    )
    count: int = 0

    def add(self, since: float, value: Any) -> None:
        self.entries.append((since, value))
        self.count += 1

    @property
    def last(self) -> Any:
        return self.entries[-1][1]

    def get(self, number: int) -> Any:
        """None where it is no longer known."""
        position = number - self.count + len(self.entries)
        return self.entries[position][1] if position >= 0 else None

    def between(self, begin: float, end: float) -> list[int]:
        """The numbers of what was in effect; empty where that is no longer known.

        What begins at the first moment may have done so after what it is asked for.
        """
        first = self.count - len(self.entries)
        moments = [since for since, _ in self.entries]
        if first and moments[0] >= begin:
            return []
        before = max(bisect_left(moments, begin) - 1, 0)
        return [*range(first + before, first + bisect_right(moments, end))]


class KnownPrices:
    def __init__(self, world: World, *, lag: float) -> None:
        """`lag`: seconds for which a change of an object may not be known."""
        self._world, self._lag = world, lag
        self._clouds, self._objects = _History(), _History()
        self._is_stale = False
        self._fetches: dict[str, deque[_Fetch]] = {}
        """Of the process that runs, by operation and filters."""
        self._built: dict[PriceVersion, OfferingPrices] = {}
        self._clouds.add(0.0, world.prices.cloud)
        self._objects.add(0.0, world.prices.objects())
        world.api.subscribe(self._on_change)

    def _on_change(self, change: WatchEvent[Any]) -> None:
        self._is_stale |= isinstance(change.object, PRICED_KINDS)

    def observe(self) -> None:
        """Takes note of what is in effect now."""
        prices, now = self._world.prices, self._world.now()
        if prices.cloud is not self._clouds.last:
            self._clouds.add(now, prices.cloud)
        if self._is_stale:
            self._is_stale, objects = False, prices.objects()
            if not objects.is_same(self._objects.last):
                self._objects.add(now, objects)

    # What was fetched

    def heard_by_process(self, aws: AwsCalls) -> AwsCalls:
        """The calls of a process that starts now, which knows no prices yet."""
        self._fetches = defaultdict(lambda: deque(maxlen=MOST_VERSIONS))
        return _ListeningCalls(aws, self._world, self._fetches)

    def _fetched(self) -> tuple[float, float] | None:
        """What was in effect between these moments may be decided on; None where nobody knows."""
        operations = {query.partition(" ")[0] for query in self._fetches}
        if not {SPOT_PRICES, PRICE_LIST} <= operations:
            return None
        begun = [self._begin_of_known(each) for each in self._fetches.values()]
        known = [each for each in begun if each is not None]
        if len(known) < len(begun):
            return None
        return min(known), max(each[-1].done for each in self._fetches.values())

    def _begin_of_known(self, fetches: Iterable[_Fetch]) -> float | None:
        """When the one began that was the last when a command was decided on that begins now."""
        before = [
            each.begun for each in fetches if each.done <= self._world.now() - DECISION_SECONDS
        ]
        return before[-1] if before else None

    # Prices

    def versions(self) -> list[PriceVersion]:
        """Those that may be known now, the latest first; empty where that cannot be told."""
        self.observe()
        if self._clouds.count == self._objects.count == 1:
            return [PriceVersion(0, 0)]
        now, fetched = self._world.now(), self._fetched()
        clouds = [] if fetched is None else self._clouds.between(*fetched)
        objects = self._objects.between(now - self._lag, now)
        found = [PriceVersion(*each) for each in product(clouds, objects)]
        is_published = all(
            self._world.prices.is_published(self._clouds.get(each)) for each in clouds
        )
        return found[::-1] if is_published else []

    def least_excess(
        self,
        before: Sequence[OfferingOfPool],
        after: Sequence[OfferingOfPool],
        versions: Iterable[PriceVersion],
    ) -> float | None:
        """By how much the latter cost more an hour, at the prices that say the least; None where
        they are not known. Those of spot and all others are fetched each by themselves.
        """
        spot, others = inf, inf
        for version in versions:
            prices = self._prices_of(version)
            if prices is None:
                return None
            found = _excess(prices, before, after)
            if found is None:
                return None
            spot, others = min(spot, found[0]), min(others, found[1])
            if spot + others <= 0:
                break  # usually by the first: each further one is built for this
        return spot + others if spot < inf else None

    def _prices_of(self, version: PriceVersion) -> OfferingPrices | None:
        if version not in self._built:
            cloud, objects = self._clouds.get(version.cloud), self._objects.get(version.objects)
            if cloud is None or objects is None:
                return None
            self._built[version] = self._world.prices.prices_in(cloud, objects)
            if len(self._built) > MOST_BUILT:
                del self._built[next(iter(self._built))]
        return self._built[version]


def _excess(
    prices: OfferingPrices, before: Iterable[OfferingOfPool], after: Iterable[OfferingOfPool]
) -> tuple[float, float] | None:
    """Of spot, and of all others."""
    spot = others = 0.0
    for sign, offerings in ((-1, before), (1, after)):
        for each in offerings:
            price = prices.get(each).usd
            if price is None:
                return None
            if each.capacity_type == SPOT:
                spot += sign * price
            else:
                others += sign * price
    return spot, others


class _ListeningCalls:
    """The calls of one process: hears which prices it was told."""

    def __init__(self, calls: AwsCalls, world: World, fetches: dict[str, deque[_Fetch]]) -> None:
        self._calls, self._world, self._fetches = calls, world, fetches
        self._begun: dict[str, float] = {}
        """When the first page of each query that is under way was asked for."""

    async def call(self, service: str, operation: str, params: Params) -> Response:
        if operation not in (SPOT_PRICES, PRICE_LIST):
            return await self._calls.call(service, operation, params)
        query = f"{operation} {params.get('Filters')}"
        fetches = self._fetches[query]
        if "NextToken" not in params:
            self._begun[query] = self._world.now()
        response = await self._calls.call(service, operation, params)
        if "NextToken" not in response:
            fetches.append(_Fetch(begun=self._begun[query], done=self._world.now()))
        return response
