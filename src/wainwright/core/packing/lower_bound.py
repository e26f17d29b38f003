"""The lower bound: the least that any plan for the same pods can cost.

Every pod may be on any type that one of its alternatives allows, at the lowest price for it, and
nodes can be launched in fractions; existing nodes and reservations are used as far as they go.
Topology, limits and minValues are not taken into account.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from wainwright.core.launch.launch_choice import hourly_cost
from wainwright.core.packing.bin_types import (
    AllowedOfferings,
    BinType,
    CapacityForPods,
    enumerate_bin_types,
    remove_dominated,
)
from wainwright.core.packing.linear_program import (
    Prices,
    Supply,
    highest_prices,
    shadow_prices,
    value_of,
)
from wainwright.core.packing.packing_problem import DemandGroups, ItemType, resource_vector
from wainwright.core.packing.resource_vectors import ResourceVector, encoder_for
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import Amounts as RequestAmounts
from wainwright.core.scheduling.pod_classes import PodClass, SchedulingRequirements
from wainwright.core.scheduling.solver import Solution
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.labels import INSTANCE_FAMILY, INSTANCE_SIZE, INSTANCE_TYPE
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.requirements import Requirements

# Of pods; all smaller ones count as one, as the linear program grows with them.
MAX_BOUND_CLASSES: Final = 24


class AllowedCapacity(NamedTuple):
    """The capacity that some pods may use."""

    offerings: AllowedOfferings
    reserved: tuple[OfferingGroupSet, ...]
    """By template: the offering groups in which they may use reservations."""
    nodes: BitSet
    """The existing nodes."""
    smallest_requests: ResourceVector = ()
    """The smallest amount of each resource that any of the pods requests."""
    imprecise: BitSet = 0
    """The templates for which merged pods allow different types or offering groups: then not every
    allowed type may be launched in every allowed group."""

    def merged_with(self, other: "AllowedCapacity") -> "AllowedCapacity":
        """The capacity that either may use."""
        return AllowedCapacity(
            self.offerings.merged_with(other.offerings),
            _bitwise_union(self.reserved, other.reserved),
            self.nodes | other.nodes,
            tuple(map(min, self.smallest_requests, other.smallest_requests)),
            self.imprecise | other.imprecise | self.offerings.differing_templates(other.offerings),
        )

    def for_size(self, amounts: ResourceVector) -> "AllowedCapacity":
        return self._replace(smallest_requests=amounts)


def placed_item_types(solution: Solution) -> tuple[list[AllowedCapacity], list[ItemType]]:
    """The capacity that pods with a place may use, by item class; and these pods as item types."""
    names, templates = solution.classes.resources, solution.state.templates
    counts = _placed_pod_counts(solution)
    pod_classes = sorted(
        counts, key=lambda each: min((pod.namespace, pod.name) for pod in each.pods)
    )
    pods_by_requirements: dict[tuple[SchedulingRequirements, ...], int] = {}
    for pod_class in pod_classes:
        own = _requirements_of_class(pod_class)
        pods_by_requirements[own] = pods_by_requirements.get(own, 0) + counts[pod_class]
    largest_first = sorted(pods_by_requirements, key=lambda own: -pods_by_requirements[own])
    numbers = {own: min(n, MAX_BOUND_CLASSES - 1) for n, own in enumerate(largest_first)}
    allowed: list[AllowedCapacity] = []
    for requirements, number in numbers.items():
        capacity = _allowed_capacity(requirements, templates)
        if number == len(allowed):
            allowed.append(capacity)
        else:
            allowed[number] = allowed[number].merged_with(capacity)
    items = [
        ItemType(
            resource_vector(pod_class.alternatives[0], names),
            counts[pod_class],
            numbers[_requirements_of_class(pod_class)],
        )
        for pod_class in pod_classes
    ]
    return allowed, items


def _placed_pod_counts(solution: Solution) -> dict[PodClass, int]:
    counts = {pod_class: len(pod_class.pods) for pod_class in solution.classes.all}
    for batch in solution.failed:
        counts[batch.pod_class] -= len(batch.pods)
    return {pod_class: count for pod_class, count in counts.items() if count}


def _requirements_of_class(pod_class: PodClass) -> tuple[SchedulingRequirements, ...]:
    return tuple(dict.fromkeys(pod_reqs.scheduling for pod_reqs in pod_class.alternatives))


def _allowed_capacity(
    alternatives: Sequence[SchedulingRequirements], templates: Sequence[NodeClaimTemplate]
) -> AllowedCapacity:
    first, *others = (_capacity_allowed_by(each, templates) for each in alternatives)
    for other in others:
        first = first.merged_with(other)
    return first


def _capacity_allowed_by(
    scheduling_reqs: SchedulingRequirements, templates: Sequence[NodeClaimTemplate]
) -> AllowedCapacity:
    by_pool = [scheduling_reqs.compatibility[template.number] for template in templates]
    types = tuple(0 if each is None else each.types for each in by_pool)
    offering_groups = tuple(
        0 if each is None else each.compiled.offering_groups for each in by_pool
    )
    reserved = tuple(0 if each is None else each.compiled.reserved for each in by_pool)
    return AllowedCapacity(
        AllowedOfferings(types, offering_groups), reserved, scheduling_reqs.compatible_nodes
    )


def _bitwise_union(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a | b for a, b in zip(one, other, strict=True))


class SpareNodeCapacity(NamedTuple):
    """Free resources of existing nodes that the same demand groups may use, added up."""

    usable_by: int
    room: ResourceVector


class AvailableReservation(NamedTuple):
    """The available capacity of one reservation."""

    usable_by: int
    room: ResourceVector
    """The most of each resource that any of its types has."""
    price: float
    """Of its cheapest type."""
    available: int
    """Available instances."""


def spare_node_capacity(
    solution: Solution, groups: Sequence[AllowedCapacity]
) -> list[SpareNodeCapacity]:
    """The free resources of existing nodes before any pod of the plan was placed there."""
    nodes, names = solution.state.nodes, solution.classes.resources
    order = sorted(range(len(names)), key=names.__getitem__)
    requests = _requests_by_pod(solution) if nodes.nodes else {}
    by_groups: dict[int, list[int]] = {}
    for number in range(len(nodes.nodes)):
        free = list(nodes.resources.free(number))
        for pod in nodes.pods[number]:
            for column, amount in requests[id(pod)]:
                free[column] += amount
        room = [max(0, free[column]) for column in order]
        usable_by = sum(1 << n for n, each in enumerate(groups) if _may_use(each, number, room))
        total = by_groups.setdefault(usable_by, [0] * len(room))
        for resource, amount in enumerate(room):
            total[resource] += amount
    return [
        SpareNodeCapacity(usable_by, tuple(room))
        for usable_by, room in sorted(by_groups.items())
        if usable_by
    ]


def _requests_by_pod(solution: Solution) -> dict[int, RequestAmounts]:
    classes = [pod_class for pod_class in solution.classes.all if pod_class.alternatives]
    return {id(pod): each.alternatives[0].amounts for each in classes for pod in each.pods}


def _may_use(allowed: AllowedCapacity, number: int, room: Sequence[int]) -> bool:
    smallest = zip(allowed.smallest_requests, room, strict=True)
    fits = all(request <= amount for request, amount in smallest)
    return fits and bool(allowed.nodes >> number & 1)


def available_reservations(
    solution: Solution, groups: Sequence[AllowedCapacity]
) -> list[AvailableReservation]:
    """Every reservation with available capacity that some of the groups may use."""
    reservations: dict[str, AvailableReservation] = {}
    resources = sorted(solution.classes.resources)
    for template in solution.state.templates:
        for name, own in _reservations_of_template(template, groups, resources):
            known = reservations.get(name, own)
            reservations[name] = AvailableReservation(
                known.usable_by | own.usable_by,
                tuple(map(max, known.room, own.room)),
                min(known.price, own.price),
                solution.free_counts.get(name, 0),
            )
    return [each for _, each in sorted(reservations.items()) if each.available]


def _reservations_of_template(
    template: NodeClaimTemplate, groups: Sequence[AllowedCapacity], resources: Sequence[str]
) -> Iterator[tuple[str, AvailableReservation]]:
    index, rooms, number = template.index, CapacityForPods(template, resources), template.number
    for group_number in iter_bits(union(each.reserved[number] for each in groups)):
        offering_group = index.offering_groups[group_number]
        available, name = offering_group.available_types, offering_group.reservation_id
        usable_by = sum(
            1 << n
            for n, each in enumerate(groups)
            if each.reserved[number] >> group_number & 1
            and each.offerings.types[number] & available
        )
        types = available & union(each.offerings.types[number] for each in groups)
        offers = list(index.available_offerings(types, 1 << group_number))
        if name is not None and usable_by and offers:
            sizes = [rooms.room_of(type_number) for type_number in iter_bits(types)]
            room = tuple(map(max, *sizes)) if len(sizes) > 1 else sizes[0]
            price = min(
                hourly_cost(index, type_number, offering) for type_number, _, offering in offers
            )
            yield name, AvailableReservation(usable_by, room, price, 0)


INSTANCE_NAME_LABELS: Final = (INSTANCE_TYPE, INSTANCE_SIZE, INSTANCE_FAMILY)
ROUNDING_MARGIN: Final = 1 - 1e-9  # without it rounding errors could make the bound too high


def lower_bound(solution: Solution, *, all_types: bool = False) -> float:
    """USD per hour with fees, for the pods that have a place; with bare metal and accelerators
    that no plan would launch for them, if all types are wanted.

    Good prices depend on how much of the reservations the cheapest plan uses. Both extremes are
    tried, all of them and as much as pays; each gives a valid bound, and the higher is taken.
    """
    allowed, items = placed_item_types(solution)
    bin_types = _possible_bin_types(solution, allowed, all_types=all_types)
    if not items or not bin_types:
        return 0.0
    encoder = encoder_for(
        [item.amounts for item in items], [bin_type.room for bin_type in bin_types]
    )
    best = remove_dominated(bin_types, encoder)
    groups = DemandGroups(items, best, encoder)
    supplies = groups.supplies(best)
    joint = _capacity_by_group(allowed, items, groups)
    spare = spare_node_capacity(solution, joint)
    reservations = available_reservations(solution, joint)
    as_supplies = [Supply(each.price, each.room, each.usable_by) for each in reservations]
    prices = [
        shadow_prices(_remaining_demands(groups.demands, spare, reservations), supplies),
        shadow_prices(_remaining_demands(groups.demands, spare, ()), supplies + as_supplies),
    ]
    return max(
        _bound_at_prices(groups.demands, each, supplies, spare, reservations) for each in prices
    )


def _possible_bin_types(
    solution: Solution, allowed: Sequence[AllowedCapacity], *, all_types: bool
) -> list[BinType]:
    """All types that could be launched; bare metal and accelerators only where that may happen."""
    resources, allowed_offerings = (
        sorted(solution.classes.resources),
        [each.offerings for each in allowed],
    )
    requirements = (each.requirements for each in solution.classes.scheduling.values())
    # Pods elsewhere may leave but one zone.
    everywhere = all_types or solution.state.topology is not None
    everywhere |= any(map(_names_types, requirements))
    imprecise, bin_types = union(each.imprecise for each in allowed), []
    for template in solution.state.templates:
        exotic = everywhere or imprecise >> template.number & 1 or _may_leave_only_exotic(template)
        bin_types += enumerate_bin_types(
            [template], allowed_offerings, resources, exotic=bool(exotic)
        )
    return bin_types


def _may_leave_only_exotic(template: NodeClaimTemplate) -> bool:
    """Whether the pool may leave a claim nothing but bare metal or accelerators."""
    named = _names_types(template.base.requirements)
    return named or bool(template.min_values or template.limits.is_limited)


def _names_types(requirements: Requirements) -> bool:
    """Whether the requirements may select bare metal or accelerators by name."""
    return any(not requirements.allowed(key).open for key in INSTANCE_NAME_LABELS)


def _capacity_by_group(
    allowed: Sequence[AllowedCapacity], items: Sequence[ItemType], groups: DemandGroups
) -> list[AllowedCapacity]:
    """The capacity that any item type of each group may use."""
    by_group: list[AllowedCapacity | None] = [None] * len(groups.demands)
    for item, group in zip(items, groups.group_of_item, strict=True):
        capacity = allowed[item.item_class].for_size(item.amounts)
        known = by_group[group]
        by_group[group] = capacity if known is None else known.merged_with(capacity)
    return [each for each in by_group if each is not None]


def _remaining_demands(
    demands: Sequence[Sequence[int]],
    spare: Sequence[SpareNodeCapacity],
    reservations: Sequence[AvailableReservation],
) -> list[list[int]]:
    """The demands that are left if all this capacity were used; only to find good prices."""
    remaining = [list(own) for own in demands]
    existing = [(each.usable_by, each.room, 1) for each in spare]
    existing += [(each.usable_by, each.room, each.available) for each in reservations]
    for usable_by, amounts, count in existing:
        served = [own for group, own in enumerate(remaining) if usable_by >> group & 1]
        for resource, amount in enumerate(amounts):
            total = sum(own[resource] for own in served)
            used = min(total, amount * count)
            for own in served:
                own[resource] -= own[resource] * used // total if total else 0
    return remaining


def _bound_at_prices(
    demands: Sequence[Sequence[int]],
    prices: Prices,
    supplies: Sequence[Supply],
    spare: Sequence[SpareNodeCapacity],
    reservations: Sequence[AvailableReservation],
) -> float:
    """Valid for any prices: they are scaled down until no bin type is worth more than it costs."""
    rates = [
        min(1.0, supply.price / value)
        for supply in supplies
        if (value := value_of(supply.room, highest_prices(prices, supply.usable_by)))
    ]
    scale = min(rates, default=0.0)
    fair = [[scale * price for price in own] for own in prices]
    total = sum(value_of(own, price) for own, price in zip(demands, fair, strict=True))
    total -= sum(value_of(each.room, highest_prices(fair, each.usable_by)) for each in spare)
    for each in reservations:
        gain = value_of(each.room, highest_prices(fair, each.usable_by)) - each.price
        total -= each.available * max(0.0, gain)
    return max(0.0, total) * ROUNDING_MARGIN
