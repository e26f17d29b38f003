"""NodePool limits: which instance types a NodePool may still launch.

Within a round every draft counts as its largest instance type, so that no launch can exceed a
limit; when the round is over it counts as the type that would be launched.
"""

from bisect import bisect_right

from wainwright.model.bitset import AmountTable, BitSet, iter_bits, largest_amount
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.reasons import LimitExceeded
from wainwright.model.resources import Resources
from wainwright.model.snapshot import NODES_LIMIT, Pool


class PoolLimits:
    """What remains of one pool's limits. `allowed` has the types that still fit within them."""

    __slots__ = (
        "_capacity_tables",
        "_exact_remaining",
        "_index",
        "_remaining",
        "allowed",
        "allowed_at_start",
        "version",
    )

    def __init__(self, pool: Pool, index: InstanceTypeIndex) -> None:
        names = sorted(pool.limits)
        self._index = index
        self._capacity_tables: dict[str, AmountTable] = {
            n: index.capacity_index.amounts(n) for n in names if n != NODES_LIMIT
        }
        self._exact_remaining = {n: pool.limits[n] - pool.in_use.get(n, 0) for n in names}
        self._remaining = dict(self._exact_remaining)
        self.allowed: BitSet = self._types_within()
        self.allowed_at_start: BitSet = self.allowed
        """The types that fitted when the round began and all counts were exact."""
        self.version = 0
        """Another number whenever a draft was counted; the same in copies until one is."""

    def copy(self) -> "PoolLimits":
        clone = PoolLimits.__new__(PoolLimits)
        clone._index, clone._capacity_tables = self._index, self._capacity_tables
        clone._exact_remaining, clone._remaining = (
            dict(self._exact_remaining),
            dict(self._remaining),
        )
        clone.allowed, clone.allowed_at_start = self.allowed, self.allowed_at_start
        clone.version = self.version
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
        types = self._index.all_types
        for name, (amounts, types_with_at_least) in self._capacity_tables.items():
            types ^= types & types_with_at_least[bisect_right(amounts, self._remaining[name])]
        return types

    def closest(self, pool: Pool, types: BitSet) -> tuple[int, str]:
        """Of types that are not allowed the one that exceeds a limit by the least, and that limit.

        `pool` is this pool, with the usage and the limits that are to be reported.
        """
        type_number = min(
            iter_bits(types), key=lambda type_number: (self._excess(pool, type_number), type_number)
        )
        return type_number, self.exceeded(type_number)[0]

    def why(self, pool: Pool, type_number: int, name: str) -> LimitExceeded:
        """That one more node of the type would exceed the limit."""
        return LimitExceeded(
            resource=name,
            limit=pool.limits[name],
            in_use=pool.in_use.get(name, 0),
            needed=self._usage_of_one_node(type_number, name),
            instance_type=self._index.types[type_number].name,
        )

    def exceeded(self, type_number: int) -> list[str]:
        """The limits that one more node of the type would exceed."""
        return [
            name
            for name, left in self._remaining.items()
            if self._usage_of_one_node(type_number, name) > left
        ]

    def _usage_of_one_node(self, type_number: int, name: str) -> int:
        """The amount that one more node of the type adds to the usage of a limit."""
        return 1 if name == NODES_LIMIT else self._index.types[type_number].capacity.get(name, 0)

    def _excess(self, pool: Pool, type_number: int) -> float:
        """By how much the type exceeds the limit that it exceeds most, in parts of that limit."""
        return max(
            (self._usage_of_one_node(type_number, name) - self._remaining[name])
            / max(pool.limits[name], 1)
            for name in self.exceeded(type_number)
        )
