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
    """What is left of one pool's limits. `allowed` are the types that still fit under them."""

    __slots__ = ("_everything", "_left", "_settled", "_sizes", "allowed", "allowed_at_start")

    def __init__(self, pool: Pool, index: InstanceTypeIndex) -> None:
        names = sorted(pool.limits)
        self._everything = index.all_types
        self._sizes: dict[str, AmountTable] = {
            n: index.capacity_index.amounts(n) for n in names if n != NODES_LIMIT
        }
        self._settled = {n: pool.limits[n] - pool.in_use.get(n, 0) for n in names}
        self._left = dict(self._settled)
        self.allowed: BitSet = self._within()
        self.allowed_at_start: BitSet = self.allowed
        """Those that fitted when the round began and all counts were exact."""

    def copy(self) -> "PoolLimits":
        twin = PoolLimits.__new__(PoolLimits)
        twin._everything, twin._sizes = self._everything, self._sizes
        twin._settled, twin._left = dict(self._settled), dict(self._left)
        twin.allowed, twin.allowed_at_start = self.allowed, self.allowed_at_start
        return twin

    @property
    def left(self) -> Resources:
        return self._left

    def charge(self, rows: BitSet) -> None:
        """Counts a new draft at its worst."""
        if self._left:
            for name in self._left:
                self._left[name] -= (
                    1 if name == NODES_LIMIT else max(0, largest_amount(self._sizes[name], rows))
                )
            self.allowed = self._within()

    def settle(self, capacity: Resources) -> None:
        """Counts a draft of the round that is over as what would be launched."""
        for name in self._settled:
            self._settled[name] -= 1 if name == NODES_LIMIT else capacity.get(name, 0)

    def begin_round(self) -> None:
        if self._left:
            self._left = dict(self._settled)
            self.allowed = self.allowed_at_start = self._within()

    def raised(self, name: str, by: int) -> None:
        self._settled[name] += by
        self.begin_round()

    def _within(self) -> BitSet:
        if self._left.get(NODES_LIMIT, 1) < 1:
            return 0
        found = self._everything
        for name, (amounts, having) in self._sizes.items():
            found ^= found & having[bisect_right(amounts, self._left[name])]
        return found
