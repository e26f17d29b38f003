"""The growth rule: a draft grows only as long as one of the types left to it is a good buy.

First-fit lets drafts grow until nothing but the largest types are left, which cost most for what
they have. Here a pod is refused, for the time being, where it would cost a draft its last good
buy, or would make it or itself dearer: it opens a node of its own, and that one grows in turn.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final, NamedTuple

from wainwright.core.drafts import Change, Draft
from wainwright.core.fit import fit
from wainwright.core.launch import cost
from wainwright.core.narrowing import Narrowing
from wainwright.core.packing.gauge import Gauge
from wainwright.core.packing.linear import shadow_prices, worth
from wainwright.core.packing.lots import Groups, Lot
from wainwright.core.packing.machines import Amounts, Reach, Rooms, on_sale, undominated
from wainwright.core.templates import Template
from wainwright.core.wishes import PodClass, Wish
from wainwright.model.columns import Rows, row_numbers

REMEMBERED: Final = 512  # requirements whose good buys are worked out; all others share the pool's


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

    def has_refused(self, group: PodClass) -> bool:
        return any(wish in self._refused for wish in group.wishes)

    def rate(self, template: Template, wish: Wish) -> float:
        """What the best buy for such a pod costs in the pool, for what it is worth."""
        terms = wish.ask.terms[template.number]
        return inf if terms is None else self._of(template, terms.narrowing).rate

    def _is_thrifty(self, draft: Draft, wish: Wish, change: Change) -> bool:
        template = draft.template
        before, after = (self._of(template, each) for each in (draft.narrowing, change.narrowing))
        alone = self.rate(template, wish)
        if after.rate > (1 + self.slack) * min(before.rate, alone):
            return False
        return bool(change.rows & after.rows) or not draft.rows & before.rows

    def _of(self, template: Template, narrowing: Narrowing) -> Thrift:
        found = self._known.get(narrowing)
        if found is None:
            shared = len(self._known) >= REMEMBERED and narrowing is not template.base
            asked = template.base if shared else narrowing
            found = self._pools[template.number].thrift(asked, self.slack)
            self._known[narrowing] = found
        return found


class _Pool:
    """What the types of one pool are worth to the pods that it takes."""

    def __init__(self, template: Template, lots: Sequence[Lot], resources: Sequence[str]) -> None:
        self._template = template
        self._rooms = Rooms(template, resources)
        base = template.base
        reach = _only(template, base.rows & base.offered)
        machines = on_sale([template], [reach], resources)
        self._prices = [0.0] * len(resources)
        if lots and machines:
            gauge = gauge_for([lot.amounts for lot in lots], [each.room for each in machines])
            machines = undominated(machines, gauge)
            groups = Groups(lots, machines, gauge, most=1)
            self._prices = shadow_prices(groups.demands, groups.supplies(machines))[0]

    def thrift(self, narrowing: Narrowing, slack: float) -> Thrift:
        rates = self._rates(narrowing)
        best = min(rates.values(), default=inf)
        good = sum(1 << row for row, rate in rates.items() if rate <= (1 + slack) * best < inf)
        return Thrift(best, good)

    def _rates(self, narrowing: Narrowing) -> dict[int, float]:
        index = self._template.index
        rows = narrowing.rows & narrowing.offered
        ordinary = rows ^ (rows & index.metal)
        found = {}
        for row in row_numbers(ordinary or rows):
            value = worth(self._rooms.of(row), self._prices)
            bought = index.best_buy(1 << row, narrowing.markets)
            if value and bought is not None:
                found[row] = cost(index, row, bought[2]) / value
        return found


def amounts_of(wish: Wish, names: Sequence[str]) -> Amounts:
    """What it needs of each resource, in the order of their names."""
    asked = {names[column]: amount for column, amount in wish.amounts}
    return tuple(asked.get(name, 0) for name in sorted(names))


def gauge_for(*amounts: Sequence[Sequence[int]]) -> Gauge:
    everything = [each for some in amounts for each in some]
    return Gauge([max(column) for column in zip(*everything, strict=True)])


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
