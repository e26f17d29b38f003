"""Stock: how many machines each pool still has. Without a rule there is no end of them."""

from collections.abc import Iterable
from math import inf
from typing import Annotated, Final

import msgspec

from wainwright.api.cloud import Unavailable
from wainwright.catalogue.pattern import matches
from wainwright.emulator.ec2.goods import Pool

Count = Annotated[int, msgspec.Meta(ge=0)]
SHUT: Final = -1.0
"""Of a pool that has nothing, whatever comes back to it."""


class StockRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many machines are left in each of the pools that it means; a field left out means all."""

    instanceType: str | None = None
    """`*` stands for any text."""
    zone: str | None = None
    capacityType: str | None = None
    free: Count | None = None
    """None: no end of them, whatever an earlier rule says."""


class StockState(msgspec.Struct, kw_only=True):
    unavailable: list[Unavailable] = []
    """Pools that have nothing and get nothing back, as the Cloud has them."""
    rules: list[StockRule] = []
    """Of several that mean a pool the last counts."""
    taken: dict[str, int] = {}
    """By pool, what was taken less what came back since the rules were set."""


class Stock:
    """Counts what is taken and given back."""

    def __init__(self, state: StockState) -> None:
        self.state = state
        self._limits: dict[Pool, float] = {}

    def free(self, pool: Pool) -> int | None:
        """How many there are; None where there is no end."""
        limit = self._limits.get(pool)
        if limit is None:
            limit = self._limits[pool] = self._limit(pool)
        if limit == inf:
            return None
        return max(int(limit) - self.state.taken.get("/".join(pool), 0), 0) if limit >= 0 else 0

    def take(self, pool: Pool, count: int = 1) -> None:
        key = "/".join(pool)
        self.state.taken[key] = self.state.taken.get(key, 0) + count

    def give_back(self, pool: Pool, count: int = 1) -> None:
        self.take(pool, -count)

    def set_rules(self, rules: Iterable[StockRule]) -> None:
        """From now on; what is running already is not counted again."""
        self.state.rules = list(rules)
        self.state.taken = {}
        self._limits.clear()

    def set_unavailable(self, entries: Iterable[Unavailable]) -> None:
        self.state.unavailable = list(entries)
        self._limits.clear()

    def _limit(self, pool: Pool) -> float:
        if any(_means(entry, pool) for entry in self.state.unavailable):
            return SHUT
        meant = [rule.free for rule in self.state.rules if _means(rule, pool)]
        return inf if not meant or meant[-1] is None else meant[-1]


def _means(entry: Unavailable | StockRule, pool: Pool) -> bool:
    instance_type, zone, capacity_type = pool
    return (
        entry.zone in (None, zone)
        and entry.capacityType in (None, capacity_type)
        and (entry.instanceType is None or matches(entry.instanceType, instance_type))
    )
