"""Resources: whether the requests of a pod fit on an existing node, a draft or instance types,
beside the other pods and the daemonsets there.

Nodes and drafts that are too full are found by the capacity index (`capacity_index.py`), many at
once; what is left of them is compared one by one here.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import ceil, inf
from typing import Final

import msgspec

from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.core.scheduling.daemonset_overhead import DaemonSetOverhead, daemon_requests
from wainwright.core.scheduling.forks import ForkedRows, Rows
from wainwright.core.scheduling.pod_classes import Amounts
from wainwright.model.bitset import (
    AmountTable,
    BitSet,
    ResourceIndex,
    iter_bits,
    largest_amount,
    union,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.reasons import (
    DaemonSetRequest,
    DaemonSetsExceedCapacity,
    InstanceTypesTooSmall,
    InsufficientResource,
    ResourceShortage,
)
from wainwright.model.resources import PODS, Resources, add_resources, subtract_resources
from wainwright.model.snapshot import Node


def admits_types(
    types: BitSet, tables: Sequence[AmountTable], amounts: Amounts, totals: Sequence[int]
) -> BitSet:
    """The types on which the amounts fit beside `totals`, the pods that are there already."""
    for column, amount in amounts:
        allocatable, types_with_at_least = tables[column]
        types &= types_with_at_least[bisect_left(allocatable, totals[column] + amount)]
    return types


class NodeResourceTable:
    """What is free on each existing node; pods are placed here, and never removed."""

    __slots__ = ("_capacity_index", "_changed", "_free", "_levels", "_names", "_nodes")

    def __init__(
        self,
        nodes: Sequence[Node],
        daemonset_requests: Sequence[Resources],
        names: Sequence[str],
        capacity_index: CapacityIndex,
    ) -> None:
        """`names` are the resources in the order of their numbers."""
        self._nodes, self._names = nodes, names
        self._capacity_index = capacity_index
        free = map(free_resources, nodes, daemonset_requests)
        self._free: Rows[list[int]] = [[each.get(name, 0) for name in names] for each in free]
        self._changed: ForkedRows[list[int]] | None = None
        """Of a fork: what it has instead of the rows that it shares."""
        self._levels = [capacity_index.initial_levels() for _ in nodes]
        for number in range(len(nodes)):
            self._update_index(number, range(len(names)))

    def replace(self, number: int, node: Node, daemonset_requests: Resources) -> None:
        """The node has other pods now; not for forks."""
        assert isinstance(self._free, list)
        free = free_resources(node, daemonset_requests)
        self._free[number] = [free.get(name, 0) for name in self._names]
        self._capacity_index.remove(1 << number)
        self._levels[number] = self._capacity_index.initial_levels()
        self._update_index(number, range(len(self._names)))

    def fork(self) -> "NodeResourceTable":
        clone = NodeResourceTable.__new__(NodeResourceTable)
        clone._nodes, clone._names = self._nodes, self._names
        clone._capacity_index, clone._levels = self._capacity_index, self._levels
        clone._free = clone._changed = ForkedRows(self._free)
        return clone

    def admits(self, number: int, amounts: Amounts) -> bool:
        # A plain loop: runs for every node tried, and all() over a generator takes twice as long.
        free = self._free[number]
        for column, amount in amounts:  # noqa: SIM110
            if amount > free[column]:
                return False
        return True

    def why(self, amounts: Amounts, among: BitSet) -> Iterator[NodeRejection]:
        """The nodes that lack a resource, resource by resource, and the node that lacks least."""
        for column, amount in amounts:
            short = {
                number: amount - self._free[number][column]
                for number in iter_bits(among)
                if self._free[number][column] < amount
            }
            if short:
                nearest = min(short, key=lambda number: (short[number], number))
                lacking = union(1 << number for number in short)
                among ^= lacking
                yield (
                    lacking,
                    InsufficientResource(
                        resource=self._names[column],
                        short=short[nearest],
                        node=self._nodes[nearest].name,
                    ),
                )

    def free(self, number: int) -> list[int]:
        """Free amounts of every resource on one node; must not be modified."""
        return self._free[number]

    def is_changed_by_fork(self, number: int) -> bool:
        """Whether pods were placed on the node in this fork."""
        return self._changed is not None and number in self._changed

    def take(self, number: int, amounts: Amounts) -> None:
        """A pod is placed on the node.

        The capacity index is not updated by forks: it says which nodes were too full before, and
        they have not become emptier.
        """
        changed = self._changed
        if changed is not None and number not in changed:
            changed[number] = list(changed[number])
        free = self._free[number]
        for column, amount in amounts:
            free[column] -= amount
        if changed is None:
            self._update_index(number, [column for column, _ in amounts])

    def _update_index(self, number: int, columns: Iterable[int]) -> None:
        levels, free = self._levels[number], self._free[number]
        for column in columns:
            levels[column] = self._capacity_index.update(
                1 << number, column, free[column], levels[column]
            )


def free_resources(node: Node, daemonset_requests: Resources) -> Mapping[str, int]:
    """What new pods can use: allocatable without running pods and daemonset pods still to come."""
    free = dict(node.allocatable)
    running: dict[str, int] = {}
    for pod in node.pods:
        amounts = {**pod.requests, PODS: 1}
        free = subtract_resources(free, amounts)
        if pod.daemonset:
            running = add_resources(running, amounts)
    outstanding = {
        name: max(0, amount - running.get(name, 0)) for name, amount in daemonset_requests.items()
    }
    return subtract_resources(free, outstanding)


BISECTION_STEPS: Final = 12  # halvings, after which the types left are about equally close
MAX_COMPARED_TYPES: Final = 32  # of those, one by one


class TypeResources(msgspec.Struct, frozen=True):
    """What pods may use on the instance types of one NodePool."""

    index: InstanceTypeIndex
    overhead: DaemonSetOverhead
    allocatable: ResourceIndex
    """After daemonset overhead."""

    def why(
        self, requests: Resources, types: BitSet
    ) -> DaemonSetsExceedCapacity | InstanceTypesTooSmall:
        """Why the requests fit on none of the types: the type that comes closest."""
        return self.daemonset_overcommit(types) or self._closest_too_small(
            requests, types & self.allocatable.non_negative
        )

    def daemonset_overcommit(self, types: BitSet) -> DaemonSetsExceedCapacity | None:
        """The daemonset overhead of the closest of the types; None where any of them has enough."""
        if types & self.allocatable.non_negative:
            return None
        closest = 0
        for group, overhead in self.overhead.groups:
            closest |= _closest_types(group & types, overhead, self.index.allocatable_index)
        compared = islice(iter_bits(closest), MAX_COMPARED_TYPES)
        _, name, type_number = min(map(self._daemonset_excess, compared))
        return DaemonSetsExceedCapacity(
            resource=name,
            needed=self.overhead.of(type_number).get(name, 0),
            best=max(0, self.index.types[type_number].allocatable.get(name, 0)),
            instance_type=self.index.types[type_number].name,
            daemonsets=tuple(self._daemonset_requests(type_number, name)),
        )

    def _daemonset_requests(self, type_number: int, resource: str) -> list[DaemonSetRequest]:
        """Of those that run on the type, the largest first."""
        requests = [
            DaemonSetRequest(name=f"{each.namespace}/{each.name}", amount=amount)
            for each in self.overhead.running_on(type_number)
            if (amount := daemon_requests(each).get(resource, 0))
        ]
        return sorted(requests, key=lambda each: (-each.amount, each.name))

    def _daemonset_excess(self, type_number: int) -> tuple[float, str, int]:
        """Overhead as a multiple of allocatable, for the resource where that is highest."""
        has, overhead = self.index.types[type_number].allocatable, self.overhead.of(type_number)
        short = [name for name in {**has, **overhead} if has.get(name, 0) < overhead.get(name, 0)]
        ratio, name = max(
            (overhead.get(name, 0) / max(has.get(name, 0), 0.001), name) for name in short
        )
        return ratio, name, type_number

    def _closest_too_small(self, requests: Resources, types: BitSet) -> InstanceTypesTooSmall:
        """The resource of which every type has too little, with the type that has most of it.

        Where each resource alone is there on some type, it is the type that lacks least, with all
        that it lacks.
        """
        short = [name for name in requests if requests[name] > self._most(name, types)]
        if short:
            name = max(short, key=lambda each: _multiple(requests[each], self._most(each, types)))
            type_number = self._largest_type(name, requests, types)
            others = [each for each in short if each != name]
            other_shortages = [
                ResourceShortage(resource=each, needed=requests[each], best=self._most(each, types))
                for each in others
            ]
        else:
            name, type_number = self._least_lacking(requests, types)
            other_shortages = [*self._other_shortages(requests, type_number, name)]
        return InstanceTypesTooSmall(
            resource=name,
            needed=requests[name],
            best=max(0, self._room(type_number).get(name, 0)),
            instance_type=self.index.types[type_number].name,
            daemonsets=self.overhead.of(type_number).get(name, 0),
            other_shortages=tuple(other_shortages),
            together=not short,
        )

    def _most(self, resource: str, types: BitSet) -> int:
        return max(0, largest_amount(self.allocatable.amounts(resource), types))

    def _largest_type(self, resource: str, requests: Resources, types: BitSet) -> int:
        """Of the types that have most of the resource the one that lacks least of the others."""
        most = self._most(resource, types)
        having = types & self.allocatable.fitting({resource: most}) if most else types
        return self._least_lacking(requests, having)[1]

    def _least_lacking(self, requests: Resources, types: BitSet) -> tuple[str, int]:
        offered = {name: requests[name] for name in requests if self._most(name, types)}
        closest = types & self.allocatable.fitting(offered) or _closest_types(
            types, offered, self.allocatable
        )
        _, [name, *_], _, type_number = min(
            self._shortages(requests, type_number) for type_number in iter_bits(closest)
        )
        return name, type_number

    def _other_shortages(
        self, requests: Resources, type_number: int, most: str
    ) -> Iterator[ResourceShortage]:
        room = self._room(type_number)
        for name, amount in requests.items():
            best = max(0, room.get(name, 0))
            if name != most and amount > best:
                yield ResourceShortage(resource=name, needed=amount, best=best)

    def _shortages(
        self, requests: Resources, type_number: int
    ) -> tuple[tuple[float, ...], tuple[str, ...], int, int]:
        """What the type has too little of: multiples of what it has, the highest first; resources.

        Multiples are compared one after the other: of types that lack something altogether, the one
        that has more of the rest comes closest. Of equal ones the one with most memory is largest.
        """
        room = self._room(type_number)
        ratios = (
            (_multiple(amount, room.get(name, 0)), name)
            for name, amount in requests.items()
            if amount > room.get(name, 0)
        )
        multiples, names = zip(*sorted(ratios, reverse=True), strict=True)
        return multiples, names, -room.get("memory", 0), type_number

    def _room(self, type_number: int) -> Resources:
        return subtract_resources(
            self.index.types[type_number].allocatable, self.overhead.of(type_number)
        )


def _multiple(amount: int, room: int) -> float:
    return amount / room if room > 0 else inf


def _closest_types(types: BitSet, requests: Resources, room: ResourceIndex) -> BitSet:
    """A few of the types with the closest among them: those that hold the largest share.

    The share is found by bisection with the resource index: a dozen look-ups, where comparing
    all types one by one would take a thousand for each pod and pool.
    """
    low, high = 0.0, 1.0
    closest = types
    for _ in range(BISECTION_STEPS):
        share = (low + high) / 2
        # Rounded up: a part of one device is one, or types without any would come closest.
        part = {name: ceil(amount * share) for name, amount in requests.items()}
        holding = types & room.fitting(part)
        low, high = (share, high) if holding else (low, share)
        closest = holding or closest
    return closest
