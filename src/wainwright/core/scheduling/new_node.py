"""New-node selection: which NodePool opens a node for a pod, by weight, reservations and limits.

Weight beats reservation across NodePools; reserved capacity beats the rest among NodePools of one
weight. A reservation whose free instances are merely held by other drafts makes the pod wait: it
neither takes another offering of that weight nor goes on to NodePools of lower weight.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_requirements import (
    INCOMPATIBLE,
    LIMIT_REACHED_FOR_NOW,
    WAIT_FOR_RESERVATION,
    NewNodeOption,
    OptionKind,
    PodClass,
    PodRequirements,
    RelaxationLevel,
)
from wainwright.core.scheduling.reservation_manager import ReservationManager, ReservationSet
from wainwright.model.bitset import BitSet
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import MinValuesPolicy


class NewNodeEvaluator:
    """Asks pools for new nodes under one policy for minValues."""

    __slots__ = ("_best_effort", "stock")

    def __init__(self, policy: MinValuesPolicy, stock: ReservationManager) -> None:
        self._best_effort = policy is MinValuesPolicy.BEST_EFFORT
        self.stock = stock

    def ask(self, template: NodeClaimTemplate, wish: PodRequirements) -> NewNodeOption:
        """A reserved node if the pool has a slot to hold, else any other."""
        terms = wish.ask.terms[template.number]
        rows = fitting_types(template, wish)
        if terms is None or not rows:
            return INCOMPATIBLE
        live = terms.narrowing.reserved & template.shelf.of(self.stock.live)
        reserved = self._reserved(template, terms.narrowing, rows, live) if live else None
        return reserved or self._plain(template, terms.narrowing, rows)

    def has_slot(self, template: NodeClaimTemplate, wish: PodRequirements) -> bool:
        """Whether there is a slot for the pod or may yet be, minValues aside."""
        terms = wish.ask.terms[template.number]
        if terms is None:
            return False
        live = terms.narrowing.reserved & template.shelf.of(self.stock.live)
        at_best = fitting_types(template, wish) & template.limits.allowed_at_start
        return bool(live and live & template.shelf.selling(at_best))

    def _reserved(
        self,
        template: NodeClaimTemplate,
        narrowing: CompiledRequirements,
        rows: BitSet,
        live: OfferingGroupSet,
    ) -> NewNodeOption | None:
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
        return (
            WAIT_FOR_RESERVATION
            if self._with_slots(template, narrowing, at_best, slots) is not None
            else None
        )

    def _with_slots(
        self,
        template: NodeClaimTemplate,
        narrowing: CompiledRequirements,
        rows: BitSet,
        held: OfferingGroupSet,
    ) -> NewNodeOption | None:
        """A node of these types with slots in these markets, if the pool is content with that."""
        buyable = rows & narrowing.offered
        buyable |= template.shelf.available_in(held, rows ^ buyable)
        return self._answer(template, narrowing, buyable, held)

    def _plain(
        self, template: NodeClaimTemplate, narrowing: CompiledRequirements, rows: BitSet
    ) -> NewNodeOption:
        buyable = rows & narrowing.offered
        now = buyable & template.limits.allowed
        found = self._answer(template, narrowing, now, 0) if now else None
        return found or self._later(template, narrowing, buyable)

    def _later(
        self, template: NodeClaimTemplate, narrowing: CompiledRequirements, buyable: BitSet
    ) -> NewNodeOption:
        """Whether limits may yet allow what they do not while drafts count at their worst."""
        limits = template.limits
        at_best = buyable & limits.allowed_at_start
        if not at_best or at_best == buyable & limits.allowed:
            return INCOMPATIBLE
        return (
            INCOMPATIBLE
            if self._answer(template, narrowing, at_best, 0) is None
            else LIMIT_REACHED_FOR_NOW
        )

    def _answer(
        self,
        template: NodeClaimTemplate,
        narrowing: CompiledRequirements,
        rows: BitSet,
        held: OfferingGroupSet,
    ) -> NewNodeOption | None:
        """A node of these types, if they are diverse enough for the pool."""
        answer = NewNodeOption(OptionKind.RESERVED if held else OptionKind.PLAIN)
        answer.narrowing, answer.rows, answer.held = narrowing, rows, held
        answer.minimums = template.minimums
        if not answer.minimums:
            return answer
        diversity, offering_groups = template.diversity, narrowing.offering_groups | held
        if self._best_effort:
            answer.minimums = diversity.lowered(answer.minimums, narrowing, rows, offering_groups)
        found = diversity.witnesses(answer.minimums, narrowing, rows, offering_groups)
        answer.witnesses = found or ()
        return None if found is None else answer


def fitting_types(template: NodeClaimTemplate, wish: PodRequirements) -> BitSet:
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


WeightTier: TypeAlias = tuple[int, tuple[NodeClaimTemplate, ...]]
"""A weight, and the pools that have it in the order of their names' hashes."""


class NewNodeCandidate:
    """Where a pod would get its own node, or what it would hear there."""

    __slots__ = ("answer", "template", "weight", "wish")

    def __init__(
        self, answer: NewNodeOption, template: NodeClaimTemplate, wish: PodRequirements
    ) -> None:
        self.answer = answer
        self.template = template
        self.weight = template.pool.weight
        self.wish = wish


class NodePoolSelector:
    """Asks the pools in order."""

    def __init__(self, templates: Sequence[NodeClaimTemplate], openings: NewNodeEvaluator) -> None:
        by_weight = groupby(templates, key=lambda template: template.pool.weight)
        self._rungs: list[WeightTier] = [(weight, tuple(group)) for weight, group in by_weight]
        self.highest = templates[0].pool.weight if templates else 0
        self._with_slots = [template for template in templates if template.shelf.offering_groups]
        self._choosy = any(template.minimums for template in self._with_slots)
        self._openings = openings
        self.stock: ReservationManager = openings.stock

    def slot_weight(self, stage: RelaxationLevel) -> int:
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

    def step(self, stage: RelaxationLevel, wish: PodRequirements) -> NewNodeCandidate | None:
        """The first pool that opens a node or has the pod wait; None if there is none."""
        for _, templates in self._rungs:
            found = self._reserved(stage, templates) or self._plain(wish, templates)
            if found is not None:
                return found
        return None

    def equals(self, step: NewNodeCandidate) -> list[NewNodeCandidate]:
        """The same from every pool of that weight that would open a node for anybody's money."""
        templates = next(found for weight, found in self._rungs if weight == step.weight)
        answers = [(self._ask(template, step.wish), template) for template in templates]
        return [
            NewNodeCandidate(answer, template, step.wish)
            for answer, template in answers
            if answer.kind is OptionKind.PLAIN
        ]

    def needs(self, group: PodClass) -> ReservationSet:
        """The reservations that these pods, waiting now, wait for; 0 where it is not so simple.

        Simple is one wish and one pool that comes first, alone in its weight and without limits
        or minValues: as long as one of these has slots left and none can be held, it goes on.
        """
        wish = group.only_wish
        template = None if wish is None else self._only_pool(wish)
        return 0 if wish is None or template is None else _usable_reservations(template, wish)

    def needed(
        self, least: PodRequirements, most: PodRequirements
    ) -> tuple[ReservationSet, ReservationSet]:
        """All that anybody who asks for something between these needs, and what everybody does."""
        template = self._only_pool(least)
        if template is None or template is not self._only_pool(most):
            return 0, 0
        return _usable_reservations(template, least), _usable_reservations(template, most)

    def _only_pool(self, wish: PodRequirements) -> NodeClaimTemplate | None:
        """The first pool with room for the wish, if no other of its weight has any."""
        terms = wish.ask.terms
        for _, templates in self._rungs:
            able = [each for each in templates if terms[each.number] and fitting_types(each, wish)]
            if able:
                return able[0] if len(able) == 1 else None
        return None

    def limited(self, wish: PodRequirements) -> bool:
        """Whether some pool refuses only because its drafts count at their worst, or are many."""
        return any(
            self._ask(template, wish).kind is OptionKind.LIMITED
            for _, templates in self._rungs
            for template in templates
        )

    def _slot_weight(self, stage: RelaxationLevel) -> int:
        for template in self._with_slots:  # in descending weight
            if any(self._has_slot(template, wish) for wish in stage.wishes):
                return template.pool.weight
        return -1

    def _has_slot(self, template: NodeClaimTemplate, wish: PodRequirements) -> bool:
        if template.minimums:
            return self._ask(template, wish).kind <= OptionKind.WAIT
        return self._openings.has_slot(template, wish)

    def _reserved(
        self, stage: RelaxationLevel, templates: Sequence[NodeClaimTemplate]
    ) -> NewNodeCandidate | None:
        """A slot for any of the alternatives, as an idle one would be wrong whatever the order."""
        if not self.stock.live:
            return None
        waiting: NewNodeCandidate | None = None
        for template in templates:
            if template.shelf.offering_groups:
                for wish in stage.wishes:
                    answer = self._ask(template, wish)
                    if answer.kind is OptionKind.RESERVED:
                        return NewNodeCandidate(answer, template, wish)
                    if answer.kind is OptionKind.WAIT:
                        waiting = waiting or NewNodeCandidate(WAIT_FOR_RESERVATION, template, wish)
        return waiting

    def _plain(
        self, wish: PodRequirements, templates: Sequence[NodeClaimTemplate]
    ) -> NewNodeCandidate | None:
        for template in templates:
            answer = self._ask(template, wish)
            if answer.kind is OptionKind.PLAIN:
                return NewNodeCandidate(answer, template, wish)
        return None

    def _ask(self, template: NodeClaimTemplate, wish: PodRequirements) -> NewNodeOption:
        """The answer, asked for again only when something has changed."""
        if wish.ask.terms[template.number] is None:
            return INCOMPATIBLE
        known, stamp = wish.answers.get(template.number), self.stock.version
        if known is not None and known[0] == stamp:
            return known[1]
        answer = self._openings.ask(template, wish)
        wish.answers = {**wish.answers, template.number: (stamp, answer)}
        return answer


def _usable_reservations(template: NodeClaimTemplate, wish: PodRequirements) -> ReservationSet:
    terms = wish.ask.terms[template.number]
    if terms is None or template.minimums or template.pool.limits:
        return 0
    shelf = template.shelf
    return shelf.ids(terms.narrowing.reserved & shelf.selling(fitting_types(template, wish)))
