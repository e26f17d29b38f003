"""Limits of NodePools, and of the whole cluster: which instance types a NodePool may still launch.

Within a round every draft counts as its largest instance type, so that no launch can exceed a
limit; when the round is over it counts as the type that would be launched. Against a price limit of
the cluster a draft counts as the most that its NodePool could pay for one of its types, and then as
the offering that would be launched.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from wainwright.model.bitset import (
    NO_AMOUNTS,
    AmountTable,
    BitSet,
    ResourceIndex,
    iter_bits,
    largest_amount,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import PRICE_LIMIT, PRICE_UNITS
from wainwright.model.reasons import LimitExceeded, LimitUsage
from wainwright.model.resources import Resources
from wainwright.model.snapshot import NODES_LIMIT, Pool


class ClusterLimits:
    """What remains of the limits of the cluster, which all NodePools share."""

    __slots__ = ("_exact_remaining", "limits", "remaining")

    def __init__(self, limits: Resources, in_use: Resources) -> None:
        self.limits = limits
        self._exact_remaining = {name: limits[name] - in_use.get(name, 0) for name in limits}
        self.remaining: dict[str, int] = dict(self._exact_remaining)

    def copy(self) -> "ClusterLimits":
        clone = ClusterLimits(self.limits, {})
        clone._exact_remaining = dict(self._exact_remaining)
        clone.remaining = dict(self.remaining)
        return clone

    def charge(self, most: Resources) -> None:
        """Counts a new draft as the most that it could use."""
        for name in self.remaining:
            self.remaining[name] -= most[name]

    def count_launch(self, capacity: Resources, cost: float) -> None:
        """Counts a draft of a finished round as what would be launched; `cost` includes fees."""
        usage = {**capacity, NODES_LIMIT: 1, PRICE_LIMIT: price_units(cost)}
        for name in self._exact_remaining:
            self._exact_remaining[name] -= usage.get(name, 0)

    def begin_round(self) -> None:
        self.remaining = dict(self._exact_remaining)


def price_units(price: float) -> int:
    """A price as an amount that limits can count."""
    return round(price * PRICE_UNITS)


class HighestCosts(NamedTuple):
    """By type the most that a NodePool could pay for it, with and without a reservation."""

    unreserved: AmountTable = NO_AMOUNTS
    reserved: AmountTable = NO_AMOUNTS


def highest_costs(
    index: InstanceTypeIndex, unreserved: OfferingGroupSet, reserved: OfferingGroupSet
) -> HighestCosts:
    """Of the types in these offering groups."""
    return HighestCosts(_highest_costs(index, unreserved), _highest_costs(index, reserved))


def _highest_costs(index: InstanceTypeIndex, groups: OfferingGroupSet) -> AmountTable:
    costs: list[Resources] = [{} for _ in index.types]
    for number, _, offering in index.available_offerings(index.all_types, groups):
        cost = price_units(offering.price + index.types[number].fee)
        costs[number] = {PRICE_LIMIT: max(cost, costs[number].get(PRICE_LIMIT, 0))}
    return ResourceIndex(costs).amounts(PRICE_LIMIT)


class ExceededLimit(NamedTuple):
    name: str
    of_cluster: bool


class PoolLimits:
    """What remains of one pool's limits. `admitted` has the types that still fit within them, and
    within those of the cluster: kept up to date by what is charged, so that a pod asks for nothing.
    """

    __slots__ = (
        "_capacity_tables",
        "_costs",
        "_exact_remaining",
        "_index",
        "_remaining",
        "admitted",
        "admitted_at_start",
        "admitted_reserved",
        "admitted_reserved_at_start",
        "cluster",
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
        self.cluster: ClusterLimits | None = None
        """The limits of the cluster, if it has any."""
        self._costs = HighestCosts()
        self.admitted: BitSet = self._types_within()
        self.admitted_at_start: BitSet = self.admitted
        """The types that fitted when the round began and all counts were exact."""
        self.admitted_reserved: BitSet = self.admitted
        """The types that fit as nodes of a reservation, which hardly count against a price."""
        self.admitted_reserved_at_start: BitSet = self.admitted
        self.version = 0
        """Another number whenever a draft was counted; the same in copies until one is."""

    def share_cluster_limits(self, cluster: ClusterLimits, costs: HighestCosts) -> None:
        """From now on nodes of the pool count against the limits of the cluster too."""
        self.cluster, self._costs = cluster, costs
        for name in cluster.limits:
            if name not in (NODES_LIMIT, PRICE_LIMIT):
                self._capacity_tables[name] = self._index.capacity_index.amounts(name)
        self._update_at_start()

    def copy(self, cluster: ClusterLimits | None = None) -> "PoolLimits":
        """The same state; `cluster` is the copy of the cluster's limits, if it has any."""
        clone = PoolLimits.__new__(PoolLimits)
        clone._index, clone._capacity_tables = self._index, self._capacity_tables
        clone.cluster, clone._costs = self.cluster if cluster is None else cluster, self._costs
        clone._exact_remaining, clone._remaining = (
            dict(self._exact_remaining),
            dict(self._remaining),
        )
        clone.admitted, clone.admitted_at_start = self.admitted, self.admitted_at_start
        clone.admitted_reserved = self.admitted_reserved
        clone.admitted_reserved_at_start = self.admitted_reserved_at_start
        clone.version = self.version
        return clone

    @property
    def is_limited(self) -> bool:
        return bool(self._remaining) or self.cluster is not None

    @property
    def remaining(self) -> Resources:
        return self._remaining

    def charge(self, types: BitSet, *, reserved: bool = False) -> bool:
        """Counts a new draft as its largest type; returns whether there is any limit."""
        if not self.is_limited:
            return False
        for name in self._remaining:
            self._remaining[name] -= self._largest(name, types)
        if self.cluster is not None:
            costs = self._costs.reserved if reserved else self._costs.unreserved
            most = {name: self._largest(name, types) for name in self._cluster_capacities}
            most |= {NODES_LIMIT: 1, PRICE_LIMIT: max(0, largest_amount(costs, types))}
            self.cluster.charge(most)
        self.update_admitted()
        return True

    def _largest(self, name: str, types: BitSet) -> int:
        if name == NODES_LIMIT:
            return 1
        return max(0, largest_amount(self._capacity_tables[name], types))

    @property
    def _cluster_capacities(self) -> Iterable[str]:
        names = () if self.cluster is None else self.cluster.limits
        return (name for name in names if name not in (NODES_LIMIT, PRICE_LIMIT))

    def count_launch(self, capacity: Resources) -> None:
        """Counts a draft of a finished round as the type that would be launched."""
        for name in self._exact_remaining:
            self._exact_remaining[name] -= 1 if name == NODES_LIMIT else capacity.get(name, 0)

    def begin_round(self) -> None:
        """Call this once the cluster's limits have begun theirs."""
        if self.is_limited:
            self._remaining = dict(self._exact_remaining)
            self._update_at_start()

    def release(self, capacity: Resources) -> None:
        """A node of the pool does not count any longer."""
        for name in self._exact_remaining:
            self._exact_remaining[name] += 1 if name == NODES_LIMIT else capacity.get(name, 0)
        self.begin_round()

    def raise_limit(self, name: str, by: int) -> None:
        self._exact_remaining[name] += by
        self.begin_round()

    def update_admitted(self) -> None:
        """After a draft was counted: of this pool, or of another against the cluster's limits."""
        self.admitted = self.admitted_reserved = self._types_within()
        if self.cluster is not None and PRICE_LIMIT in self.cluster.limits:
            self.admitted_reserved = self._types_within(reserved=True)

    def _update_at_start(self) -> None:
        self.update_admitted()
        self.admitted_at_start = self.admitted
        self.admitted_reserved_at_start = self.admitted_reserved

    def _types_within(self, *, reserved: bool = False) -> BitSet:
        types = self._types_below(self._index.all_types, self._remaining)
        if self.cluster is None or not types:
            return types
        types = self._types_below(types, self.cluster.remaining)
        if PRICE_LIMIT in self.cluster.remaining:
            costs = self._costs.reserved if reserved else self._costs.unreserved
            types = _not_above(types, costs, self.cluster.remaining[PRICE_LIMIT])
        return types

    def _types_below(self, types: BitSet, remaining: Mapping[str, int]) -> BitSet:
        if remaining.get(NODES_LIMIT, 1) < 1:
            return 0
        for name, left in remaining.items():
            if name in self._capacity_tables:
                types = _not_above(types, self._capacity_tables[name], left)
        return types

    def closest(self, pool: Pool, types: BitSet) -> tuple[int, ExceededLimit]:
        """Of types that are not allowed the one that exceeds a limit by the least, and that limit.

        `pool` is this pool, with the usage and the limits that are to be reported.
        """
        type_number = min(
            iter_bits(types), key=lambda type_number: (self._excess(pool, type_number), type_number)
        )
        return type_number, self.exceeded(type_number)[0]

    def why(
        self, pool: Pool, type_number: int, exceeded: ExceededLimit, *, reserved: bool = False
    ) -> LimitExceeded:
        """That one more node of the type would exceed the limit, and which others."""
        every = dict.fromkeys([exceeded, *self.exceeded(type_number, reserved=reserved)])
        first, *others = (
            self._limit_usage(pool, type_number, each, reserved=reserved) for each in every
        )
        return LimitExceeded(
            **msgspec.structs.asdict(first),
            instance_type=self._index.types[type_number].name,
            others=tuple(others),
        )

    def _limit_usage(
        self, pool: Pool, type_number: int, exceeded: ExceededLimit, *, reserved: bool
    ) -> LimitUsage:
        name, limit = exceeded.name, self._limit(pool, exceeded)
        in_use = limit - self._left(exceeded) if exceeded.of_cluster else pool.in_use.get(name, 0)
        return LimitUsage(
            resource=name,
            limit=limit,
            in_use=in_use,
            needed=self._usage_of_one_node(type_number, name, reserved=reserved),
            of_cluster=exceeded.of_cluster,
        )

    def exceeded(self, type_number: int, *, reserved: bool = False) -> list[ExceededLimit]:
        """The limits that one more node of the type would exceed, those of the pool first."""
        shared: Mapping[str, int] = {} if self.cluster is None else self.cluster.remaining
        return [
            ExceededLimit(name, of_cluster)
            for remaining, of_cluster in ((self._remaining, False), (shared, True))
            for name, left in remaining.items()
            if self._usage_of_one_node(type_number, name, reserved=reserved) > left
        ]

    def _limit(self, pool: Pool, exceeded: ExceededLimit) -> int:
        limits = self.cluster.limits if exceeded.of_cluster and self.cluster else pool.limits
        return limits[exceeded.name]

    def _usage_of_one_node(self, type_number: int, name: str, *, reserved: bool = False) -> int:
        """The amount that one more node of the type adds to the usage of a limit.

        The price is that of a node without reservation, unless the type is to be had only so.
        """
        if name == PRICE_LIMIT:
            cost = -1 if reserved else largest_amount(self._costs.unreserved, 1 << type_number)
            reserved_cost = largest_amount(self._costs.reserved, 1 << type_number)
            return max(0, reserved_cost if cost < 0 else cost)
        return 1 if name == NODES_LIMIT else self._index.types[type_number].capacity.get(name, 0)

    def _excess(self, pool: Pool, type_number: int) -> float:
        """By how much the type exceeds the limit that it exceeds most, in parts of that limit."""
        return max(
            (self._usage_of_one_node(type_number, each.name) - self._left(each))
            / max(self._limit(pool, each), 1)
            for each in self.exceeded(type_number)
        )

    def _left(self, exceeded: ExceededLimit) -> int:
        if exceeded.of_cluster and self.cluster is not None:
            return self.cluster.remaining[exceeded.name]
        return self._remaining[exceeded.name]


def _not_above(types: BitSet, table: AmountTable, most: int) -> BitSet:
    """Those of the types that have no more than that."""
    amounts, types_with_at_least = table
    return types ^ (types & types_with_at_least[bisect_right(amounts, most)])
