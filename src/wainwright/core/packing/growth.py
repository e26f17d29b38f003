"""The growth rule: a draft grows only as long as one of the types left to it is a good buy.

First-fit lets drafts grow until nothing but the largest types are left, which cost most for what
they have. Here a pod is refused, for the time being, where it would cost a draft its last good
buy, or would make it or itself dearer: it opens a node of its own, and that one grows in turn.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf
from operator import or_
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.drafts import Change, Draft
from wainwright.core.fit import fit
from wainwright.core.launch import cost
from wainwright.core.narrowing import Narrowing
from wainwright.core.packing.gauge import gauge_for
from wainwright.core.packing.linear import shadow_prices, worth
from wainwright.core.packing.lots import Groups, Lot, amounts_of
from wainwright.core.packing.machines import Amounts, Reach, Rooms, on_sale, undominated
from wainwright.core.templates import Template
from wainwright.core.wishes import PodClass, Wish
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.markets import Markets

REMEMBERED: Final = 64  # sets of markets in which costs are worked out; more count as all of them

Rates: TypeAlias = tuple[list[float], list[int], list[Rows]]
"""What types cost as multiples of what they are worth, ascending; the types, and those up to it."""


class Thrift(NamedTuple):
    """Which types are good buys under some requirements."""

    rate: float
    """What the best of them costs, as a multiple of what it is worth."""
    rows: Rows


class Growth:
    """Refuses pods that would make drafts dearer; forgets it when drafts are pinned."""

    def __init__(
        self,
        templates: Sequence[Template],
        classes: Sequence[PodClass],
        names: Sequence[str],
    ) -> None:
        """`names` are the resources by their number."""
        self.slack = 0.02
        """How much more than the best buy a good buy may cost for what it is worth."""
        self.dearer = 1.25
        """How many times as much it may cost because of where or how somebody wants to buy."""
        self._names = names
        resources = sorted(names)
        self._pools = [
            _Pool(template, list(_demands(template, classes, names)), resources)
            for template in templates
        ]
        self._known: dict[Narrowing, Thrift] = {}
        self._refused: dict[Wish, Rows] = {}

    def fit(self, draft: Draft, wish: Wish) -> Change | None:
        """As fit, but for drafts that would grow too dear."""
        if draft.pinned or draft.held:
            return fit(draft, wish)
        change = fit(draft, wish)
        if change is None or self._is_thrifty(draft, wish, change):
            return change
        wish.rejected |= draft.bit
        self._refused[wish] = self._refused.get(wish, 0) | draft.bit
        return None

    def forget(self) -> None:
        """Lets all ask again: drafts are pinned by now, and what fits costs nothing more."""
        for wish, drafts in self._refused.items():
            wish.rejected ^= wish.rejected & drafts
        self._refused.clear()

    def mind(self, draft: Draft) -> None:
        """Lets the draft know which of its types are good buys.

        Where none is, those count that are hardly worse than the best it has: but once only, or
        it would get a little worse with every pod.
        """
        if not draft.pinned and not draft.held:
            kept = draft.good & draft.rows
            draft.good = self._of(draft.template, draft.narrowing).rows & draft.rows or kept
            if not draft.good:
                pool = self._pools[draft.template.number]
                draft.good = pool.best(draft.rows, draft.narrowing.markets, self.slack).rows

    def price(self, template: Template, wish: Wish) -> float:
        """What such a pod would cost in the pool on the best buy for it, shared with others."""
        rate = self._rate(template, wish)
        amounts = amounts_of(wish, self._names)
        return inf if rate == inf else rate * self._pools[template.number].worth(amounts)

    def _rate(self, template: Template, wish: Wish) -> float:
        terms = wish.ask.terms[template.number]
        return inf if terms is None else self._of(template, terms.narrowing).rate

    def _is_thrifty(self, draft: Draft, wish: Wish, change: Change) -> bool:
        template = draft.template
        before, after = (self._of(template, each) for each in (draft.narrowing, change.narrowing))
        alone = self._rate(template, wish)
        if after.rate > self.dearer * min(before.rate, alone):
            return False
        return bool(change.rows & draft.good) or not draft.good

    def _of(self, template: Template, narrowing: Narrowing) -> Thrift:
        found = self._known.get(narrowing)
        if found is None:
            found = self._pools[template.number].thrift(narrowing, self.slack)
            self._known[narrowing] = found
        return found


class _Pool:
    """What the types of one pool are worth to the pods that it takes."""

    def __init__(self, template: Template, lots: Sequence[Lot], resources: Sequence[str]) -> None:
        self._template = template
        self._rooms = Rooms(template, resources)
        self._known: dict[Markets, Rates] = {}
        base = template.base
        reach = _only(template, base.rows & base.offered)
        machines = on_sale([template], [reach], resources)
        self._prices = [0.0] * len(resources)
        if lots and machines:
            gauge = gauge_for([lot.amounts for lot in lots], [each.room for each in machines])
            machines = undominated(machines, gauge)
            groups = Groups(lots, machines, gauge, most=1)
            self._prices = shadow_prices(groups.demands, groups.supplies(machines))[0]

    def worth(self, amounts: Amounts) -> float:
        return worth(amounts, self._prices)

    def thrift(self, narrowing: Narrowing, slack: float) -> Thrift:
        rows = narrowing.rows & narrowing.offered
        return self.best(rows, narrowing.markets, slack)

    def best(self, rows: Rows, markets: Markets, slack: float) -> Thrift:
        """The best buys among the types; exotic ones would not be launched beside others."""
        index = self._template.index
        rows = rows ^ (rows & (index.metal | index.accelerated)) or rows
        rates, types, up_to = self._rates(markets)
        best = next((n for n, row in enumerate(types) if rows >> row & 1), None)
        if best is None:
            return Thrift(inf, 0)
        last = bisect_right(rates, (1 + slack) * rates[best])
        return Thrift(rates[best], up_to[last - 1] & rows)

    def _rates(self, markets: Markets) -> Rates:
        """What the types cost in these markets; with many of them in question, in any market."""
        found = self._known.get(markets)
        if found is None:
            asked = markets if len(self._known) < REMEMBERED else self._template.base.markets
            found = self._known.get(asked) or self._rated(asked)
            self._known[markets] = found
        return found

    def _rated(self, markets: Markets) -> Rates:
        index = self._template.index
        rated = []
        for row in row_numbers(self._template.base.rows & index.sold_in(markets)):
            value = worth(self._rooms.of(row), self._prices)
            bought = index.best_buy(1 << row, markets)
            if value and bought is not None:
                rated.append((cost(index, row, bought[2]) / value, row))
        rated.sort()
        up_to = accumulate((1 << row for _, row in rated), or_)
        return [rate for rate, _ in rated], [row for _, row in rated], list(up_to)


def _only(template: Template, rows: Rows) -> Reach:
    """All that the pool buys, and nothing of the others."""
    number = template.number
    return Reach((0,) * number + (rows,), (0,) * number + (template.base.markets,))


def _demands(
    template: Template, classes: Sequence[PodClass], names: Sequence[str]
) -> Iterator[Lot]:
    """The pods that the pool takes if it is asked first."""
    for group in classes:
        wishes = group.wishes[:1]
        if wishes and wishes[0].ask.terms[template.number] is not None:
            yield Lot(amounts_of(wishes[0], names), len(group.pods), 0)
