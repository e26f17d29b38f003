"""Homes: from which pools pods would get nodes of their own, and what they may buy there."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wainwright.core.answer import Kind, Terms
from wainwright.core.ladder import Ladder
from wainwright.core.packing.machines import Customers, Reach, Rooms
from wainwright.core.templates import Template
from wainwright.core.wishes import Ask, PodClass, Stage, Wish
from wainwright.model.columns import Rows, row_numbers


class Customer(NamedTuple):
    """Pods that ask for the same of pools of one weight."""

    ask: Ask
    weight: int


class Home(NamedTuple):
    """As what pods would be packed, and the weight of the pools that come first for them."""

    stage: Stage
    wish: Wish
    weight: int

    @property
    def customer(self) -> Customer:
        return Customer(self.wish.ask, self.weight)


def home(group: PodClass, ladder: Ladder) -> Home | None:
    """None where pods are tied to others, have slots of reservations coming, or find no pool."""
    stage = group.stages[0] if group.stages else None
    if stage is None or stage.bound is not None or stage.given_up or group.ports:
        return None
    for wish in stage.wishes:
        step = ladder.step(stage, wish)
        if step is not None:
            is_plain = step.answer.kind is Kind.PLAIN
            return Home(stage, wish, step.weight) if is_plain else None
    return None


def reach(customer: Customer, templates: Sequence[Template], resources: Sequence[str]) -> Reach:
    rows, markets = [], []
    for template in templates:
        terms = customer.ask.terms[template.number]
        if terms is None or template.pool.weight != customer.weight:
            rows.append(0)
            markets.append(0)
        else:
            rows.append(_worth_filling(template, terms, resources))
            markets.append(terms.narrowing.markets)
    return Reach(tuple(rows), tuple(markets))


def _worth_filling(template: Template, terms: Terms, resources: Sequence[str]) -> Rows:
    """The types that would be launched if they were filled to the brim."""
    rows = terms.rows & terms.narrowing.offered & template.limits.allowed
    return _flexible(template, terms, rows, resources) or rows if template.minimums else rows


def _flexible(template: Template, terms: Terms, rows: Rows, resources: Sequence[str]) -> Rows:
    """Those that leave enough others which hold as much, where minValues ask for them."""
    rooms, narrowing, found = Rooms(template, resources), terms.narrowing, 0
    for row in row_numbers(rows):
        amounts = dict(zip(resources, rooms.of(row), strict=True))
        larger = rows & template.room.holding(amounts)
        enough = template.diversity.witnesses(
            template.minimums, narrowing, larger, narrowing.markets
        )
        found |= 0 if enough is None else 1 << row
    return found


def strangers(customers: Sequence[Customer], template: Template) -> list[Customers]:
    """For each customer those who cannot be on one node of the pool with it.

    That types or markets do not suit both shows elsewhere; this is about labels that only the
    pool decides, of which a node has but one value.
    """
    found = [0] * len(customers)
    terms = [customer.ask.terms[template.number] for customer in customers]
    for number, mine in enumerate(terms):
        for other, theirs in enumerate(terms[:number]):
            if mine is not None and theirs is not None and not _get_along(mine, theirs):
                found[number] |= 1 << other
                found[other] |= 1 << number
    return found


def _get_along(mine: Terms, theirs: Terms) -> bool:
    return mine.trivial or theirs.trivial or mine.narrowing.joined(theirs.asked) is not None


def customers_of(waiting: Iterable[tuple[Home, int]], most: int) -> list[Customer]:
    """Those with the most pods, the first of equals; `waiting` says how many a home has."""
    counts: dict[Customer, int] = {}
    for each, count in waiting:
        counts[each.customer] = counts.get(each.customer, 0) + count
    heaviest = sorted(counts, key=lambda customer: -counts[customer])
    return heaviest[:most]
