"""The ladder: pools by descending weight, and how far down it a pod goes for a node of its own.

Weight beats reservation across pools; reserved beats the rest among pools of one weight. A slot
that is merely held by another draft makes the pod wait: it neither takes something else of that
weight nor goes further down.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

from wainwright.core.answer import REFUSED, WAIT, Answer, Kind
from wainwright.core.opening import Openings, room
from wainwright.core.reservations import Ids, Stock
from wainwright.core.templates import Template
from wainwright.core.wishes import PodClass, Stage, Wish

Rung: TypeAlias = tuple[int, tuple[Template, ...]]
"""A weight, and the pools that have it in the order of their names' hashes."""


class Step:
    """Where a pod would get its own node, or what it would hear there."""

    __slots__ = ("answer", "template", "weight", "wish")

    def __init__(self, answer: Answer, template: Template, wish: Wish) -> None:
        self.answer = answer
        self.template = template
        self.weight = template.pool.weight
        self.wish = wish


class Ladder:
    """Asks the pools in order."""

    def __init__(self, templates: Sequence[Template], openings: Openings) -> None:
        by_weight = groupby(templates, key=lambda template: template.pool.weight)
        self._rungs: list[Rung] = [(weight, tuple(group)) for weight, group in by_weight]
        self.highest = templates[0].pool.weight if templates else 0
        self._with_slots = [template for template in templates if template.shelf.markets]
        self._choosy = any(template.minimums for template in self._with_slots)
        self._openings = openings
        self.stock: Stock = openings.stock

    def slot_weight(self, stage: Stage) -> int:
        """The highest weight of a pool with a slot for these pods, now or perhaps later; else -1.

        On no other new node of that weight or less may they go, or the slot would be wrongly idle.
        """
        if not self.stock.live:
            return -1
        # Without minValues only what is taken counts, and that changes between rounds.
        stamp = self.stock.version if self._choosy else self.stock.era
        if stage.slot_stamp != stamp:
            stage.slot_stamp = stamp
            stage.slot_weight = self._slot_weight(stage)
        return stage.slot_weight

    def step(self, stage: Stage, wish: Wish) -> Step | None:
        """The first pool that opens a node or has the pod wait; None if there is none."""
        for _, templates in self._rungs:
            found = self._reserved(stage, templates) or self._plain(wish, templates)
            if found is not None:
                return found
        return None

    def equals(self, step: Step) -> list[Step]:
        """The same from every pool of that weight that would open a node for anybody's money."""
        templates = next(found for weight, found in self._rungs if weight == step.weight)
        answers = [(self._ask(template, step.wish), template) for template in templates]
        return [
            Step(answer, template, step.wish)
            for answer, template in answers
            if answer.kind is Kind.PLAIN
        ]

    def needs(self, group: PodClass) -> Ids:
        """The reservations that these pods, waiting now, wait for; 0 where it is not so simple.

        Simple is one wish and one pool that comes first, alone in its weight and without limits
        or minValues: as long as one of these has slots left and none can be held, it goes on.
        """
        wish = group.only_wish
        template = None if wish is None else self._only_pool(wish)
        return 0 if wish is None or template is None else _slots(template, wish)

    def needed(self, least: Wish, most: Wish) -> tuple[Ids, Ids]:
        """All that anybody who asks for something between these needs, and what everybody does."""
        template = self._only_pool(least)
        if template is None or template is not self._only_pool(most):
            return 0, 0
        return _slots(template, least), _slots(template, most)

    def _only_pool(self, wish: Wish) -> Template | None:
        """The first pool with room for the wish, if no other of its weight has any."""
        terms = wish.ask.terms
        for _, templates in self._rungs:
            able = [each for each in templates if terms[each.number] and room(each, wish)]
            if able:
                return able[0] if len(able) == 1 else None
        return None

    def limited(self, wish: Wish) -> bool:
        """Whether some pool refuses only because its drafts count at their worst, or are many."""
        return any(
            self._ask(template, wish).kind is Kind.LIMITED
            for _, templates in self._rungs
            for template in templates
        )

    def _slot_weight(self, stage: Stage) -> int:
        for template in self._with_slots:  # in descending weight
            if any(self._has_slot(template, wish) for wish in stage.wishes):
                return template.pool.weight
        return -1

    def _has_slot(self, template: Template, wish: Wish) -> bool:
        if template.minimums:
            return self._ask(template, wish).kind <= Kind.WAIT
        return self._openings.has_slot(template, wish)

    def _reserved(self, stage: Stage, templates: Sequence[Template]) -> Step | None:
        """A slot for any of the alternatives, as an idle one would be wrong whatever the order."""
        if not self.stock.live:
            return None
        waiting: Step | None = None
        for template in templates:
            if template.shelf.markets:
                for wish in stage.wishes:
                    answer = self._ask(template, wish)
                    if answer.kind is Kind.RESERVED:
                        return Step(answer, template, wish)
                    if answer.kind is Kind.WAIT:
                        waiting = waiting or Step(WAIT, template, wish)
        return waiting

    def _plain(self, wish: Wish, templates: Sequence[Template]) -> Step | None:
        for template in templates:
            answer = self._ask(template, wish)
            if answer.kind is Kind.PLAIN:
                return Step(answer, template, wish)
        return None

    def _ask(self, template: Template, wish: Wish) -> Answer:
        """The answer, asked for again only when something has changed."""
        if wish.ask.terms[template.number] is None:
            return REFUSED
        known, stamp = wish.answers.get(template.number), self.stock.version
        if known is not None and known[0] == stamp:
            return known[1]
        answer = self._openings.ask(template, wish)
        wish.answers = {**wish.answers, template.number: (stamp, answer)}
        return answer


def _slots(template: Template, wish: Wish) -> Ids:
    terms = wish.ask.terms[template.number]
    if terms is None or template.minimums or template.pool.limits:
        return 0
    shelf = template.shelf
    return shelf.ids(terms.narrowing.reserved & shelf.selling(room(template, wish)))
