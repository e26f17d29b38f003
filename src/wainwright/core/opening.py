"""Opening: what a pool says to a pod that asks for a node of its own."""

from bisect import bisect_left

from wainwright.core.answer import LIMITED, REFUSED, WAIT, Answer, Kind
from wainwright.core.narrowing import Narrowing
from wainwright.core.reservations import Stock
from wainwright.core.templates import Template
from wainwright.core.wishes import Wish
from wainwright.model.columns import Rows
from wainwright.model.markets import Markets
from wainwright.model.options import MinValuesPolicy


class Openings:
    """Asks pools for new nodes under one policy for minValues."""

    __slots__ = ("_best_effort", "stock")

    def __init__(self, policy: MinValuesPolicy, stock: Stock) -> None:
        self._best_effort = policy is MinValuesPolicy.BEST_EFFORT
        self.stock = stock

    def ask(self, template: Template, wish: Wish) -> Answer:
        """A reserved node if the pool has a slot to hold, else any other."""
        terms = wish.ask.terms[template.number]
        rows = room(template, wish)
        if terms is None or not rows:
            return REFUSED
        live = terms.narrowing.reserved & template.shelf.of(self.stock.live)
        reserved = self._reserved(template, terms.narrowing, rows, live) if live else None
        return reserved or self._plain(template, terms.narrowing, rows)

    def has_slot(self, template: Template, wish: Wish) -> bool:
        """Whether there is a slot for the pod or may yet be, minValues aside."""
        terms = wish.ask.terms[template.number]
        if terms is None:
            return False
        live = terms.narrowing.reserved & template.shelf.of(self.stock.live)
        at_best = room(template, wish) & template.limits.allowed_at_start
        return bool(live and live & template.shelf.selling(at_best))

    def _reserved(
        self, template: Template, narrowing: Narrowing, rows: Rows, live: Markets
    ) -> Answer | None:
        """A node with a slot, or word that there may be one later; None if there is none."""
        shelf, limits = template.shelf, template.limits
        at_best = rows & limits.allowed_at_start
        slots = live & shelf.selling(at_best)
        if not slots:
            return None
        now = rows & limits.allowed
        held = live & shelf.of(self.stock.holdable) & shelf.selling(now)
        found = self._with_slots(template, narrowing, now, held) if held else None
        if found is not None:
            return found
        return WAIT if self._with_slots(template, narrowing, at_best, slots) is not None else None

    def _with_slots(
        self, template: Template, narrowing: Narrowing, rows: Rows, held: Markets
    ) -> Answer | None:
        """A node of these types with slots in these markets, if the pool is content with that."""
        buyable = rows & narrowing.offered
        buyable |= template.shelf.sold_in(held, rows ^ buyable)
        return self._answer(template, narrowing, buyable, held)

    def _plain(self, template: Template, narrowing: Narrowing, rows: Rows) -> Answer:
        buyable = rows & narrowing.offered
        now = buyable & template.limits.allowed
        found = self._answer(template, narrowing, now, 0) if now else None
        return found or self._later(template, narrowing, buyable)

    def _later(self, template: Template, narrowing: Narrowing, buyable: Rows) -> Answer:
        """Whether limits may yet allow what they do not while drafts count at their worst."""
        limits = template.limits
        at_best = buyable & limits.allowed_at_start
        if not at_best or at_best == buyable & limits.allowed:
            return REFUSED
        return REFUSED if self._answer(template, narrowing, at_best, 0) is None else LIMITED

    def _answer(
        self, template: Template, narrowing: Narrowing, rows: Rows, held: Markets
    ) -> Answer | None:
        """A node of these types, if they are diverse enough for the pool."""
        answer = Answer(Kind.RESERVED if held else Kind.PLAIN)
        answer.narrowing, answer.rows, answer.held = narrowing, rows, held
        answer.minimums = template.minimums
        if not answer.minimums:
            return answer
        diversity, markets = template.diversity, narrowing.markets | held
        if self._best_effort:
            answer.minimums = diversity.lowered(answer.minimums, narrowing, rows, markets)
        found = diversity.witnesses(answer.minimums, narrowing, rows, markets)
        answer.witnesses = found or ()
        return None if found is None else answer


def room(template: Template, wish: Wish) -> Rows:
    """The types of the pool with the labels and the room, remembered for the wish."""
    found = wish.room.get(template.number)
    if found is None:
        terms = wish.ask.terms[template.number]
        found = 0 if terms is None else terms.rows
        for column, amount in wish.amounts if found else ():
            amounts, having = template.sizes[column]
            found &= having[bisect_left(amounts, amount)]
        wish.room = {**wish.room, template.number: found}
    return found
