"""Exact optima of tiny problems by exhaustive search: the cheapest plan, and the best vertex of a
linear program.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import inf
from typing import TypeAlias

import msgspec
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.first_fit import pool_catalogs
from tests.support.reference_planner.offerings import (
    PoolCatalog,
    available_offerings,
    fits_on_node,
    hourly_cost,
    is_node_compatible,
    is_ordinary_type,
    schedulable_nodes,
    tolerating_soft_taints,
    total_requests,
)
from tests.support.reference_planner.plan_checks import is_within_limits, node_capacity

from wainwright.core.packing.linear_program import Supply
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.plan import MinValuesPolicy
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, subtract_resources
from wainwright.model.snapshot import Node


class NodePurchase(msgspec.Struct, frozen=True):
    """One offering to launch a node for some pods."""

    cost: float
    catalog: PoolCatalog
    kind: InstanceType
    reservation: str | None

    @property
    def uses(self) -> tuple[str, str | None, tuple[int, ...]]:
        """What it uses up: of limits, and of reservations."""
        pool, amounts = self.catalog.pool, node_capacity(self.kind)
        return pool.name, self.reservation, tuple(amounts.get(name, 0) for name in pool.limits)


class RemainingCapacity(msgspec.Struct, frozen=True):
    """Remaining limits by pool, free instances by reservation, and pods by node."""

    limits: Mapping[str, Resources]
    free_instances: Mapping[str, int]
    received: Mapping[str, tuple[Pod, ...]]

    def allows(self, purchase: NodePurchase) -> bool:
        reservation, left = purchase.reservation, self.limits[purchase.catalog.pool.name]
        is_free = reservation is None or self.free_instances[reservation] > 0
        return is_free and is_within_limits(purchase.catalog, left, purchase.kind)

    def after(self, purchase: NodePurchase) -> "RemainingCapacity":
        name = purchase.catalog.pool.name
        limits = {
            **self.limits,
            name: subtract_resources(self.limits[name], node_capacity(purchase.kind)),
        }
        free_instances = dict(self.free_instances)
        if purchase.reservation is not None:
            free_instances[purchase.reservation] -= 1
        return msgspec.structs.replace(self, limits=limits, free_instances=free_instances)

    def with_pod(self, node: Node, pod: Pod) -> "RemainingCapacity":
        received = {**self.received, node.name: (*self.received.get(node.name, ()), pod)}
        return msgspec.structs.replace(self, received=received)


class CheapestPlan:
    """Searches all plans that schedule these pods of an input."""

    def __init__(self, planner_input: PlannerInput, pods: Sequence[Pod]) -> None:
        self._planner_input = planner_input
        self._pods = [tolerating_soft_taints(pod) for pod in pods]
        self._pool_catalogs = pool_catalogs(planner_input)
        self._nodes = schedulable_nodes(planner_input.snapshot.nodes)
        self._gate = planner_input.options.capacity_reservations
        self._strict = planner_input.options.min_values_policy is MinValuesPolicy.STRICT
        self._known: dict[tuple[str, ...], list[NodePurchase]] = {}

    @cached_property
    def cost(self) -> float:
        """USD per hour with fees; infinite where not all pods can be scheduled."""
        limits = {
            s.pool.name: subtract_resources(s.pool.limits, s.pool.in_use)
            for s in self._pool_catalogs
        }
        return self._cost(self._pods, RemainingCapacity(limits, self._free_instances, {}))

    def _cost(self, left: Sequence[Pod], remaining: RemainingCapacity) -> float:
        """The best over all placements of the first pod, followed by the best for the others."""
        if not left:
            return 0.0
        first, others = left[0], left[1:]
        best = min(
            (
                self._cost(others, remaining.with_pod(n, first))
                for n in self._open_to(first, remaining)
            ),
            default=inf,
        )
        for others_together in subsets(others):
            rest = [pod for pod in others if pod not in others_together]
            for purchase in self._purchases((first, *others_together)):
                if purchase.cost < best and remaining.allows(purchase):
                    best = min(best, purchase.cost + self._cost(rest, remaining.after(purchase)))
        return best

    def _open_to(self, pod: Pod, remaining: RemainingCapacity) -> Iterator[Node]:
        for node in self._nodes:
            together = [*remaining.received.get(node.name, ()), pod]
            if any(
                is_node_compatible(node, pod, wanted) for wanted in pod.alternatives
            ) and fits_on_node(node, together, self._planner_input.snapshot.daemonsets):
                yield node

    def _purchases(self, pods: Sequence[Pod]) -> list[NodePurchase]:
        """Every launch of one node for all of them; of those that use up the same the cheapest."""
        key = tuple(pod.key for pod in pods)
        if key not in self._known:
            ways = [each for catalog in self._pool_catalogs for each in self._at(catalog, pods)]
            ways.sort(key=lambda each: -each.cost)
            self._known[key] = list({each.uses: each for each in ways}.values())
        return self._known[key]

    def _at(self, catalog: PoolCatalog, pods: Sequence[Pod]) -> Iterator[NodePurchase]:
        requests, reservation_ids = (
            total_requests(pods),
            [name for name, n in self._free_instances.items() if n],
        )
        for alternatives in product(*(pod.alternatives for pod in pods)):
            asked = _joint_requirements(catalog, pods, alternatives)
            types = (
                []
                if asked is None
                else catalog.launchable_types(asked, requests, reservation_ids, catalog.types)
            )
            if asked is not None:
                # minValues are for nodes without a reservation.
                diverse = self._is_diverse(catalog, asked, types)
                offers = [
                    (k, each)
                    for k in types
                    for each in available_offerings(k, asked, reservation_ids)
                    if diverse or each.reservation_id is not None
                ]
                for kind, offering in _launchable_offerings(catalog, asked, offers):
                    yield NodePurchase(
                        hourly_cost(kind, offering), catalog, kind, offering.reservation_id
                    )

    def _is_diverse(
        self, catalog: PoolCatalog, asked: Requirements, types: Sequence[InstanceType]
    ) -> bool:
        counts = catalog.counts(asked, types, ()) if self._strict else {}
        return all(count >= (asked[key].min_values or 0) for key, count in counts.items())

    @cached_property
    def _free_instances(self) -> dict[str, int]:
        """Free instances by reservation: the lowest count of any pool, less those in flight."""
        free: dict[str, int] = {}
        kinds = [kind for catalog in self._pool_catalogs for kind in catalog.types if self._gate]
        for each in (offering for kind in kinds for offering in kind.offerings):
            if each.reservation_id is not None:
                known = free.get(each.reservation_id, each.available)
                free[each.reservation_id] = min(known, each.available)
        for node in self._planner_input.snapshot.nodes:
            name = node.reservation_id or ""
            if not node.launched and not node.deleting and free.get(name):
                free[name] -= 1
        return free


def subsets(pods: Sequence[Pod]) -> Iterator[tuple[Pod, ...]]:
    for size in range(len(pods) + 1):
        yield from combinations(pods, size)


def _joint_requirements(
    catalog: PoolCatalog, pods: Sequence[Pod], alternatives: Sequence[Requirements]
) -> Requirements | None:
    asked: Requirements | None = catalog.node
    for pod, wanted in zip(pods, alternatives, strict=True):
        asked = None if asked is None else catalog.joined(asked, pod, wanted)
    return asked


def _launchable_offerings(
    catalog: PoolCatalog, asked: Requirements, offers: Sequence[tuple[InstanceType, Offering]]
) -> Sequence[tuple[InstanceType, Offering]]:
    """Without bare metal and accelerators, unless they are required or the only types.
    minValues and limits may leave a claim nothing else: then all are allowed.
    """
    if catalog.minimums or catalog.pool.limits:
        return offers
    reserved = [pair for pair in offers if pair[1].reservation_id is not None]
    other = [pair for pair in offers if pair[1].reservation_id is None]
    ordinary = [pair for pair in other if is_ordinary_type(pair[0], asked)]
    return [*reserved, *(ordinary or other)]


Inequality: TypeAlias = tuple[list[int], Fraction]
"""Coefficients of the unknowns, and the upper bound of their sum."""


def maximum_value(demands: Sequence[Sequence[int]], supplies: Sequence[Supply]) -> Fraction:
    """The maximum value of the demands while no bin is worth more than it costs.
    By duality that is the cost of covering them. The unknowns are the prices of each group and
    resource. A bin may give each resource to any of its groups, so there is a row for each
    assignment.
    """
    unknowns = [(g, r) for g, own in enumerate(demands) for r, amount in enumerate(own) if amount]
    rows = [row for supply in supplies for row in _price_constraints(supply, unknowns)]
    rows += [
        ([-int(n == m) for m in range(len(unknowns))], Fraction(0)) for n in range(len(unknowns))
    ]
    worths = [
        sum(demands[g][r] * price for (g, r), price in zip(unknowns, corner, strict=True))
        for corner in _vertices(rows, len(unknowns))
    ]
    return max(map(Fraction, worths))


def _price_constraints(supply: Supply, unknowns: Sequence[tuple[int, int]]) -> Iterator[Inequality]:
    """A resource may be given to no group: some groups request none of it."""
    groups = [g for g in range(supply.usable_by.bit_length()) if supply.usable_by >> g & 1]
    for chosen in product(groups, repeat=len(supply.room)):
        given = {(group, resource) for resource, group in enumerate(chosen)}
        factors = [supply.room[place[1]] if place in given else 0 for place in unknowns]
        yield factors, Fraction(supply.price)


def _vertices(rows: Sequence[Inequality], size: int) -> Iterator[list[Fraction]]:
    """Points where as many rows as unknowns hold with equality, and none is violated."""
    distinct = [row for n, row in enumerate(rows) if row not in rows[:n]]
    for chosen in combinations(distinct, size):
        corner = _solve(chosen)
        if corner is not None and all(
            _value(factors, corner) <= most for factors, most in distinct
        ):
            yield corner


def _value(factors: Sequence[int], corner: Sequence[Fraction]) -> Fraction:
    return sum((f * x for f, x in zip(factors, corner, strict=True) if f), Fraction(0))


def _solve(rows: Sequence[Inequality]) -> list[Fraction] | None:
    """By Gaussian elimination; None where the rows have no unique solution."""
    size = len(rows)
    lines = [[*map(Fraction, factors), most] for factors, most in rows]
    for column in range(size):
        pivot = next((n for n in range(column, size) if lines[n][column]), None)
        if pivot is None:
            return None
        lines[column], lines[pivot] = lines[pivot], lines[column]
        lines[column] = [entry / lines[column][column] for entry in lines[column]]
        for n in range(size):
            if n != column and lines[n][column]:
                share = lines[n][column]
                lines[n] = [a - share * b for a, b in zip(lines[n], lines[column], strict=True)]
    return [line[-1] for line in lines]
