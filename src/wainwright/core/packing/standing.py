"""What need not be bought: room on nodes of the cluster, and slots of reservations."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wainwright.core.launch import cost
from wainwright.core.packing.asked import Wants
from wainwright.core.packing.machines import Amounts, Rooms
from wainwright.core.solve import Solution
from wainwright.core.templates import Template
from wainwright.core.wishes import Amounts as AskedFor
from wainwright.model.columns import row_numbers, union


class Spare(NamedTuple):
    """Room on nodes that the same groups of pods may use, added up."""

    takers: int
    room: Amounts


class Slots(NamedTuple):
    """The free slots of one reservation."""

    takers: int
    room: Amounts
    """Of its largest type."""
    price: float
    """Of its cheapest."""
    free: int


def spare(solution: Solution, groups: Sequence[Wants]) -> list[Spare]:
    """What nodes had to spare before any pod of the plan was put there."""
    nodes, names = solution.placing.nodes, solution.classes.resources
    order = sorted(range(len(names)), key=names.__getitem__)
    taken = _taken(solution) if nodes.nodes else {}
    found: dict[int, list[int]] = {}
    for number in range(len(nodes.nodes)):
        free = list(nodes.free(number))
        for pod in nodes.pods[number]:
            for column, amount in taken[id(pod)]:
                free[column] += amount
        room = [max(0, free[column]) for column in order]
        takers = sum(1 << n for n, each in enumerate(groups) if _may_use(each, number, room))
        known = found.setdefault(takers, [0] * len(room))
        for resource, amount in enumerate(room):
            known[resource] += amount
    return [Spare(takers, tuple(room)) for takers, room in sorted(found.items()) if takers]


def _taken(solution: Solution) -> dict[int, AskedFor]:
    groups = [group for group in solution.classes.all if group.wishes]
    return {id(pod): group.wishes[0].amounts for group in groups for pod in group.pods}


def _may_use(wants: Wants, number: int, room: Sequence[int]) -> bool:
    fits = all(least <= amount for least, amount in zip(wants.least, room, strict=True))
    return fits and bool(wants.nodes >> number & 1)


def slots(solution: Solution, groups: Sequence[Wants]) -> list[Slots]:
    """Every reservation with free slots that some of the groups may use."""
    found: dict[str, Slots] = {}
    resources = sorted(solution.classes.resources)
    for template in solution.placing.templates:
        for name, mine in _sold(template, groups, resources):
            count = solution.free.get(name, 0)
            known = found.get(name, mine)
            found[name] = Slots(
                known.takers | mine.takers,
                tuple(map(max, known.room, mine.room)),
                min(known.price, mine.price),
                count,
            )
    return [each for _, each in sorted(found.items()) if each.free]


def _sold(
    template: Template, groups: Sequence[Wants], resources: Sequence[str]
) -> Iterator[tuple[str, Slots]]:
    index, rooms, own = template.index, Rooms(template, resources), template.number
    for market in row_numbers(union(each.reserved[own] for each in groups)):
        sold, name = index.markets[market].sold, index.markets[market].reservation_id
        takers = sum(
            1 << number
            for number, each in enumerate(groups)
            if each.reserved[own] >> market & 1 and each.reach.rows[own] & sold
        )
        rows = sold & union(each.reach.rows[own] for each in groups)
        offers = list(index.offers(rows, 1 << market))
        if name is not None and takers and offers:
            sizes = [rooms.of(row) for row in row_numbers(rows)]
            room = tuple(map(max, *sizes)) if len(sizes) > 1 else sizes[0]
            price = min(cost(index, row, offering) for row, _, offering in offers)
            yield name, Slots(takers, room, price, 0)
