"""What placed pods asked for: every machine that any of their alternatives would have allowed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wainwright.core.packing.lots import Lot, amounts_of
from wainwright.core.packing.machines import Amounts, Reach
from wainwright.core.solve import Solution
from wainwright.core.templates import Template
from wainwright.core.wishes import Ask, PodClass
from wainwright.model.columns import Rows
from wainwright.model.markets import Markets

CUSTOMERS: Final = 24  # kinds of wants that are told apart; all lighter ones count as one


class Wants(NamedTuple):
    """What some pods may be on."""

    reach: Reach
    reserved: tuple[Markets, ...]
    """By template: the markets in which they may have slots of reservations."""
    nodes: Rows
    """The nodes of the cluster."""
    least: Amounts = ()
    """The smallest amount of each resource that any of them asks for."""
    blurred: Rows = 0
    """The templates of which not every type is for who may buy in any of the markets."""

    def with_those_of(self, other: "Wants") -> "Wants":
        """What either may be on."""
        return Wants(
            self.reach.with_that_of(other.reach),
            _either(self.reserved, other.reserved),
            self.nodes | other.nodes,
            tuple(map(min, self.least, other.least)),
            self.blurred | other.blurred | self.reach.differing(other.reach),
        )

    def of_size(self, amounts: Amounts) -> "Wants":
        return self._replace(least=amounts)


def placed_lots(solution: Solution) -> tuple[list[Wants], list[Lot]]:
    """The pods that have a place, and what they want by number of the customer."""
    names, templates = solution.classes.resources, solution.placing.templates
    counts = _placed(solution)
    groups = sorted(counts, key=lambda group: min((pod.namespace, pod.name) for pod in group.pods))
    weights: dict[tuple[Ask, ...], int] = {}
    for group in groups:
        weights[_asks(group)] = weights.get(_asks(group), 0) + counts[group]
    heaviest = sorted(weights, key=lambda asks: -weights[asks])
    numbers = {asks: min(n, CUSTOMERS - 1) for n, asks in enumerate(heaviest)}
    found: list[Wants] = []
    for asks, number in numbers.items():
        mine = _wants(asks, templates)
        if number == len(found):
            found.append(mine)
        else:
            found[number] = found[number].with_those_of(mine)
    lots = [
        Lot(amounts_of(group.wishes[0], names), counts[group], numbers[_asks(group)])
        for group in groups
    ]
    return found, lots


def _placed(solution: Solution) -> dict[PodClass, int]:
    counts = {group: len(group.pods) for group in solution.classes.all}
    for run in solution.rounds.failed:
        counts[run.group] -= len(run.pods)
    return {group: count for group, count in counts.items() if count}


def _asks(group: PodClass) -> tuple[Ask, ...]:
    return tuple(dict.fromkeys(wish.ask for wish in group.wishes))


def _wants(asks: Sequence[Ask], templates: Sequence[Template]) -> Wants:
    each = [_wants_of(ask, templates) for ask in asks]
    found = each[0]
    for other in each[1:]:
        found = found.with_those_of(other)
    return found


def _wants_of(ask: Ask, templates: Sequence[Template]) -> Wants:
    terms = [ask.terms[template.number] for template in templates]
    rows = tuple(0 if each is None else each.rows for each in terms)
    markets = tuple(0 if each is None else each.narrowing.markets for each in terms)
    reserved = tuple(0 if each is None else each.narrowing.reserved for each in terms)
    return Wants(Reach(rows, markets), reserved, ask.nodes)


def _either(mine: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a | b for a, b in zip(mine, others, strict=True))
