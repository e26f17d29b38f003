"""NodePool limits: which instance types a NodePool may still launch.

Within a round every draft counts as its largest instance type, so that no launch can exceed a
limit; when the round is over it counts as the type that would be launched.
"""

from bisect import bisect_right

from wainwright.model.bitset import AmountTable, BitSet, largest_amount
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.resources import Resources
from wainwright.model.snapshot import NODES_LIMIT, Pool


class PoolLimits:
    """What remains of one pool's limits. `allowed` has the types that still fit within them."""

    __slots__ = (
        "_capacity_tables",
        "_everything",
        "_exact_remaining",
        "_remaining",
        "allowed",
        "allowed_at_start",
    )

    def __init__(self, pool: Pool, index: InstanceTypeIndex) -> None:
        names = sorted(pool.limits)
        self._everything = index.all_types
        self._capacity_tables: dict[str, AmountTable] = {
            n: index.capacity_index.amounts(n) for n in names if n != NODES_LIMIT
        }
        self._exact_remaining = {n: pool.limits[n] - pool.in_use.get(n, 0) for n in names}
        self._remaining = dict(self._exact_remaining)
        self.allowed: BitSet = self._types_within()
        self.allowed_at_start: BitSet = self.allowed
        """The types that fitted when the round began and all counts were exact."""

    def copy(self) -> "PoolLimits":
        clone = PoolLimits.__new__(PoolLimits)
        clone._everything, clone._capacity_tables = self._everything, self._capacity_tables
        clone._exact_remaining, clone._remaining = (
            dict(self._exact_remaining),
            dict(self._remaining),
        )
        clone.allowed, clone.allowed_at_start = self.allowed, self.allowed_at_start
        return clone

    @property
    def remaining(self) -> Resources:
        return self._remaining

    def charge(self, types: BitSet) -> bool:
        """Counts a new draft as its largest type; returns whether there is any limit."""
        if self._remaining:
            for name in self._remaining:
                self._remaining[name] -= (
                    1
                    if name == NODES_LIMIT
                    else max(0, largest_amount(self._capacity_tables[name], types))
                )
            self.allowed = self._types_within()
        return bool(self._remaining)

    def count_launch(self, capacity: Resources) -> None:
        """Counts a draft of a finished round as the type that would be launched."""
        for name in self._exact_remaining:
            self._exact_remaining[name] -= 1 if name == NODES_LIMIT else capacity.get(name, 0)

    def begin_round(self) -> None:
        if self._remaining:
            self._remaining = dict(self._exact_remaining)
            self.allowed = self.allowed_at_start = self._types_within()

    def raise_limit(self, name: str, by: int) -> None:
        self._exact_remaining[name] += by
        self.begin_round()

    def _types_within(self) -> BitSet:
        if self._remaining.get(NODES_LIMIT, 1) < 1:
            return 0
        types = self._everything
        for name, (amounts, types_with_at_least) in self._capacity_tables.items():
            types ^= types & types_with_at_least[bisect_right(amounts, self._remaining[name])]
        return types
