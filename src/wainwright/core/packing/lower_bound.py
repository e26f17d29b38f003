"""The lower bound: what no plan for the same pods can be cheaper than.

Every pod may be on any type that one of its alternatives allows, at the best price it can be
had for, and nodes can be bought in fractions; existing nodes and reservations are used as far
as they go. Topology, limits and minValues are left out of account.
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
from wainwright.core.scheduling.pod_requirements import Amounts as AskedFor
from wainwright.core.scheduling.pod_requirements import PodClass, SchedulingRequirements
from wainwright.core.scheduling.solver import Solution
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.labels import INSTANCE_FAMILY, INSTANCE_SIZE, INSTANCE_TYPE
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.requirements import Requirements

MAX_BOUND_CLASSES: Final = 24  # of pods; all smaller ones count as one


class AllowedCapacity(NamedTuple):
    """The capacity that some pods may use."""

    offerings: AllowedOfferings
    reserved: tuple[OfferingGroupSet, ...]
    """By template: the offering groups in which they may use reservations."""
    nodes: BitSet
    """The nodes of the cluster."""
    least: ResourceVector = ()
    """The smallest amount of each resource that any of them asks for."""
    imprecise: BitSet = 0
    """The templates of which not every type is for who may buy in any of the markets."""

    def merged_with(self, other: "AllowedCapacity") -> "AllowedCapacity":
        """What either may be on."""
        return AllowedCapacity(
            self.offerings.merged_with(other.offerings),
            _bitwise_union(self.reserved, other.reserved),
            self.nodes | other.nodes,
            tuple(map(min, self.least, other.least)),
            self.imprecise | other.imprecise | self.offerings.differing_templates(other.offerings),
        )

    def for_size(self, amounts: ResourceVector) -> "AllowedCapacity":
        return self._replace(least=amounts)


def placed_item_types(solution: Solution) -> tuple[list[AllowedCapacity], list[ItemType]]:
    """The pods that have a place, and what they allow, by number of the item class."""
    names, templates = solution.classes.resources, solution.placing.templates
    counts = _placed_pod_counts(solution)
    groups = sorted(counts, key=lambda group: min((pod.namespace, pod.name) for pod in group.pods))
    weights: dict[tuple[SchedulingRequirements, ...], int] = {}
    for group in groups:
        weights[_requirements_of_class(group)] = (
            weights.get(_requirements_of_class(group), 0) + counts[group]
        )
    heaviest = sorted(weights, key=lambda asks: -weights[asks])
    numbers = {asks: min(n, MAX_BOUND_CLASSES - 1) for n, asks in enumerate(heaviest)}
    found: list[AllowedCapacity] = []
    for asks, number in numbers.items():
        mine = _allowed_capacity(asks, templates)
        if number == len(found):
            found.append(mine)
        else:
            found[number] = found[number].merged_with(mine)
    items = [
        ItemType(
            resource_vector(group.wishes[0], names),
            counts[group],
            numbers[_requirements_of_class(group)],
        )
        for group in groups
    ]
    return found, items


def _placed_pod_counts(solution: Solution) -> dict[PodClass, int]:
    counts = {group: len(group.pods) for group in solution.classes.all}
    for run in solution.rounds.failed:
        counts[run.group] -= len(run.pods)
    return {group: count for group, count in counts.items() if count}


def _requirements_of_class(group: PodClass) -> tuple[SchedulingRequirements, ...]:
    return tuple(dict.fromkeys(wish.ask for wish in group.wishes))


def _allowed_capacity(
    asks: Sequence[SchedulingRequirements], templates: Sequence[NodeClaimTemplate]
) -> AllowedCapacity:
    each = [_capacity_allowed_by(ask, templates) for ask in asks]
    found = each[0]
    for other in each[1:]:
        found = found.merged_with(other)
    return found


def _capacity_allowed_by(
    ask: SchedulingRequirements, templates: Sequence[NodeClaimTemplate]
) -> AllowedCapacity:
    terms = [ask.terms[template.number] for template in templates]
    rows = tuple(0 if each is None else each.rows for each in terms)
    offering_groups = tuple(0 if each is None else each.narrowing.offering_groups for each in terms)
    reserved = tuple(0 if each is None else each.narrowing.reserved for each in terms)
    return AllowedCapacity(AllowedOfferings(rows, offering_groups), reserved, ask.nodes)


def _bitwise_union(mine: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a | b for a, b in zip(mine, others, strict=True))


class SpareNodeCapacity(NamedTuple):
    """Room on nodes that the same groups of pods may use, added up."""

    usable_by: int
    room: ResourceVector


class AvailableReservation(NamedTuple):
    """The available capacity of one reservation."""

    usable_by: int
    room: ResourceVector
    """Of its largest type."""
    price: float
    """Of its cheapest."""
    free: int


def spare_node_capacity(
    solution: Solution, groups: Sequence[AllowedCapacity]
) -> list[SpareNodeCapacity]:
    """What nodes had to spare before any pod of the plan was put there."""
    nodes, names = solution.placing.nodes, solution.classes.resources
    order = sorted(range(len(names)), key=names.__getitem__)
    taken = _requests_by_pod(solution) if nodes.nodes else {}
    found: dict[int, list[int]] = {}
    for number in range(len(nodes.nodes)):
        free = list(nodes.free(number))
        for pod in nodes.pods[number]:
            for column, amount in taken[id(pod)]:
                free[column] += amount
        room = [max(0, free[column]) for column in order]
        usable_by = sum(1 << n for n, each in enumerate(groups) if _may_use(each, number, room))
        known = found.setdefault(usable_by, [0] * len(room))
        for resource, amount in enumerate(room):
            known[resource] += amount
    return [
        SpareNodeCapacity(usable_by, tuple(room))
        for usable_by, room in sorted(found.items())
        if usable_by
    ]


def _requests_by_pod(solution: Solution) -> dict[int, AskedFor]:
    groups = [group for group in solution.classes.all if group.wishes]
    return {id(pod): group.wishes[0].amounts for group in groups for pod in group.pods}


def _may_use(allowed: AllowedCapacity, number: int, room: Sequence[int]) -> bool:
    fits = all(least <= amount for least, amount in zip(allowed.least, room, strict=True))
    return fits and bool(allowed.nodes >> number & 1)


def available_reservations(
    solution: Solution, groups: Sequence[AllowedCapacity]
) -> list[AvailableReservation]:
    """Every reservation with available capacity that some of the groups may use."""
    found: dict[str, AvailableReservation] = {}
    resources = sorted(solution.classes.resources)
    for template in solution.placing.templates:
        for name, mine in _reservations_of_template(template, groups, resources):
            count = solution.free.get(name, 0)
            known = found.get(name, mine)
            found[name] = AvailableReservation(
                known.usable_by | mine.usable_by,
                tuple(map(max, known.room, mine.room)),
                min(known.price, mine.price),
                count,
            )
    return [each for _, each in sorted(found.items()) if each.free]


def _reservations_of_template(
    template: NodeClaimTemplate, groups: Sequence[AllowedCapacity], resources: Sequence[str]
) -> Iterator[tuple[str, AvailableReservation]]:
    index, rooms, own = template.index, CapacityForPods(template, resources), template.number
    for offering_group in iter_bits(union(each.reserved[own] for each in groups)):
        sold, name = (
            index.offering_groups[offering_group].available_types,
            index.offering_groups[offering_group].reservation_id,
        )
        usable_by = sum(
            1 << number
            for number, each in enumerate(groups)
            if each.reserved[own] >> offering_group & 1 and each.offerings.rows[own] & sold
        )
        rows = sold & union(each.offerings.rows[own] for each in groups)
        offers = list(index.available_offerings(rows, 1 << offering_group))
        if name is not None and usable_by and offers:
            sizes = [rooms.of(row) for row in iter_bits(rows)]
            room = tuple(map(max, *sizes)) if len(sizes) > 1 else sizes[0]
            price = min(hourly_cost(index, row, offering) for row, _, offering in offers)
            yield name, AvailableReservation(usable_by, room, price, 0)


INSTANCE_NAME_LABELS: Final = (INSTANCE_TYPE, INSTANCE_SIZE, INSTANCE_FAMILY)
ROUNDING_MARGIN: Final = 1 - 1e-9  # so that errors of rounding never make it too high


def lower_bound(solution: Solution) -> float:
    """USD per hour with fees, for the pods that have a place."""
    allowed, items = placed_item_types(solution)
    bin_types = _possible_bin_types(solution, allowed)
    if not items or not bin_types:
        return 0.0
    encoder = encoder_for(
        [item.amounts for item in items], [bin_type.room for bin_type in bin_types]
    )
    best = remove_dominated(bin_types, encoder)
    groups = DemandGroups(items, best, encoder)
    supplies = groups.supplies(best)
    joint = _capacity_by_group(allowed, items, groups)
    there = spare_node_capacity(solution, joint), available_reservations(solution, joint)
    as_if_bought = [Supply(each.price, each.room, each.usable_by) for each in there[1]]
    prices = [
        shadow_prices(_remaining_demands(groups.demands, *there), supplies),
        shadow_prices(_remaining_demands(groups.demands, there[0], ()), supplies + as_if_bought),
    ]
    return max(_bound_at_prices(groups.demands, each, supplies, there) for each in prices)


def _possible_bin_types(solution: Solution, allowed: Sequence[AllowedCapacity]) -> list[BinType]:
    """All that could be launched; bare metal and accelerators only where they might be."""
    resources, allowed_offerings = (
        sorted(solution.classes.resources),
        [each.offerings for each in allowed],
    )
    asks = solution.classes.asks.values()
    everywhere = solution.placing.topology is not None  # others may leave pods but one zone
    everywhere |= any(_names_types(ask.requirements) for ask in asks)
    imprecise, found = union(each.imprecise for each in allowed), []
    for template in solution.placing.templates:
        exotic = everywhere or imprecise >> template.number & 1 or _may_leave_only_exotic(template)
        found += enumerate_bin_types([template], allowed_offerings, resources, exotic=bool(exotic))
    return found


def _may_leave_only_exotic(template: NodeClaimTemplate) -> bool:
    """Whether the pool may leave a claim nothing but bare metal or accelerators."""
    named = _names_types(template.base.requirements)
    return named or bool(template.minimums or template.pool.limits)


def _names_types(requirements: Requirements) -> bool:
    """Whether somebody may have asked for bare metal or accelerators by name."""
    return any(not requirements.allowed(key).open for key in INSTANCE_NAME_LABELS)


def _capacity_by_group(
    allowed: Sequence[AllowedCapacity], items: Sequence[ItemType], groups: DemandGroups
) -> list[AllowedCapacity]:
    """What the item types of each group allow between them."""
    found: list[AllowedCapacity | None] = [None] * len(groups.demands)
    for item, group in zip(items, groups.group_of_item, strict=True):
        mine = allowed[item.item_class].for_size(item.amounts)
        other = found[group]
        found[group] = mine if other is None else other.merged_with(mine)
    return [each for each in found if each is not None]


def _remaining_demands(
    demands: Sequence[Sequence[int]],
    room: Sequence[SpareNodeCapacity],
    reserved: Sequence[AvailableReservation],
) -> list[list[int]]:
    """What has to be bought if all that there is already were used; only to find good prices."""
    left = [list(own) for own in demands]
    there = [(each.usable_by, each.room, 1) for each in room]
    there += [(each.usable_by, each.room, each.free) for each in reserved]
    for usable_by, amounts, count in there:
        mine = [own for group, own in enumerate(left) if usable_by >> group & 1]
        for resource, amount in enumerate(amounts):
            total = sum(own[resource] for own in mine)
            used = min(total, amount * count)
            for own in mine:
                own[resource] -= own[resource] * used // total if total else 0
    return left


def _bound_at_prices(
    demands: Sequence[Sequence[int]],
    prices: Prices,
    supplies: Sequence[Supply],
    there: tuple[Sequence[SpareNodeCapacity], Sequence[AvailableReservation]],
) -> float:
    """Holds for any prices, once they are so low that no bin type is worth more than it costs."""
    rates = [
        min(1.0, supply.price / value)
        for supply in supplies
        if (value := value_of(supply.room, highest_prices(prices, supply.usable_by)))
    ]
    scale = min(rates, default=0.0)
    fair = [[scale * price for price in own] for own in prices]
    total = sum(value_of(own, price) for own, price in zip(demands, fair, strict=True))
    total -= sum(value_of(each.room, highest_prices(fair, each.usable_by)) for each in there[0])
    for each in there[1]:
        gain = value_of(each.room, highest_prices(fair, each.usable_by)) - each.price
        total -= each.free * max(0.0, gain)
    return max(0.0, total) * ROUNDING_MARGIN
