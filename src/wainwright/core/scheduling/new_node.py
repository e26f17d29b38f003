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

    __slots__ = ("_best_effort", "reservation_manager")

    def __init__(self, policy: MinValuesPolicy, stock: ReservationManager) -> None:
        self._best_effort = policy is MinValuesPolicy.BEST_EFFORT
        self.reservation_manager = stock

    def evaluate(self, template: NodeClaimTemplate, wish: PodRequirements) -> NewNodeOption:
        """A reserved node if the pool has a slot to hold, else any other."""
        terms = wish.scheduling.compatibility[template.number]
        rows = fitting_types(template, wish)
        if terms is None or not rows:
            return INCOMPATIBLE
        live = terms.compiled.reserved & template.pool_reservations.groups_of(
            self.reservation_manager.available
        )
        reserved = self._reserved(template, terms.compiled, rows, live) if live else None
        return reserved or self._unreserved(template, terms.compiled, rows)

    def has_reserved_capacity(self, template: NodeClaimTemplate, wish: PodRequirements) -> bool:
        """Whether there is a slot for the pod or may yet be, minValues aside."""
        terms = wish.scheduling.compatibility[template.number]
        if terms is None:
            return False
        live = terms.compiled.reserved & template.pool_reservations.groups_of(
            self.reservation_manager.available
        )
        at_best = fitting_types(template, wish) & template.limits.allowed_at_start
        return bool(live and live & template.pool_reservations.groups_offering(at_best))

    def _reserved(
        self,
        template: NodeClaimTemplate,
        narrowing: CompiledRequirements,
        rows: BitSet,
        live: OfferingGroupSet,
    ) -> NewNodeOption | None:
        """A node with a slot, or word that there may be one later; None if there is none."""
        shelf, limits = template.pool_reservations, template.limits
        at_best = rows & limits.allowed_at_start
        slots = live & shelf.groups_offering(at_best)
        if not slots:
            return None
        now = rows & limits.allowed
        held = live & shelf.groups_of(self.reservation_manager.unheld) & shelf.groups_offering(now)
        found = self._reserved_option(template, narrowing, now, held) if held else None
        if found is not None:
            return found
        return (
            WAIT_FOR_RESERVATION
            if self._reserved_option(template, narrowing, at_best, slots) is not None
            else None
        )

    def _reserved_option(
        self,
        template: NodeClaimTemplate,
        narrowing: CompiledRequirements,
        rows: BitSet,
        held: OfferingGroupSet,
    ) -> NewNodeOption | None:
        """A node of these types with slots in these markets, if the pool is content with that."""
        buyable = rows & narrowing.offered
        buyable |= template.pool_reservations.available_in(held, rows ^ buyable)
        return self._option(template, narrowing, buyable, held)

    def _unreserved(
        self, template: NodeClaimTemplate, narrowing: CompiledRequirements, rows: BitSet
    ) -> NewNodeOption:
        buyable = rows & narrowing.offered
        now = buyable & template.limits.allowed
        found = self._option(template, narrowing, now, 0) if now else None
        return found or self._limit_reached_or_incompatible(template, narrowing, buyable)

    def _limit_reached_or_incompatible(
        self, template: NodeClaimTemplate, narrowing: CompiledRequirements, buyable: BitSet
    ) -> NewNodeOption:
        """Whether limits may yet allow what they do not while drafts count at their worst."""
        limits = template.limits
        at_best = buyable & limits.allowed_at_start
        if not at_best or at_best == buyable & limits.allowed:
            return INCOMPATIBLE
        return (
            INCOMPATIBLE
            if self._option(template, narrowing, at_best, 0) is None
            else LIMIT_REACHED_FOR_NOW
        )

    def _option(
        self,
        template: NodeClaimTemplate,
        narrowing: CompiledRequirements,
        rows: BitSet,
        held: OfferingGroupSet,
    ) -> NewNodeOption | None:
        """A node of these types, if they are diverse enough for the pool."""
        answer = NewNodeOption(OptionKind.RESERVED if held else OptionKind.UNRESERVED)
        answer.compiled, answer.types, answer.held = narrowing, rows, held
        answer.min_values = template.min_values
        if not answer.min_values:
            return answer
        diversity, offering_groups = template.min_values_checker, narrowing.offering_groups | held
        if self._best_effort:
            answer.min_values = diversity.lower_to_available(
                answer.min_values, narrowing, rows, offering_groups
            )
        found = diversity.witnesses(answer.min_values, narrowing, rows, offering_groups)
        answer.witnesses = found or ()
        return None if found is None else answer


def fitting_types(template: NodeClaimTemplate, wish: PodRequirements) -> BitSet:
    """The types of the pool with the labels and the room, remembered for the wish."""
    found = wish.types_by_pool.get(template.number)
    if found is None:
        terms = wish.scheduling.compatibility[template.number]
        found = 0 if terms is None else terms.types
        for column, amount in wish.amounts if found else ():
            amounts, having = template.allocatable_tables[column]
            found &= having[bisect_left(amounts, amount)]
        wish.types_by_pool = {**wish.types_by_pool, template.number: found}
    return found


WeightTier: TypeAlias = tuple[int, tuple[NodeClaimTemplate, ...]]
"""A weight, and the pools that have it in the order of their names' hashes."""


class NewNodeCandidate:
    """Where a pod would get its own node, or what it would hear there."""

    __slots__ = ("option", "pod_reqs", "template", "weight")

    def __init__(
        self, answer: NewNodeOption, template: NodeClaimTemplate, wish: PodRequirements
    ) -> None:
        self.option = answer
        self.template = template
        self.weight = template.pool.weight
        self.pod_reqs = wish


class NodePoolSelector:
    """Asks the pools in order."""

    def __init__(self, templates: Sequence[NodeClaimTemplate], openings: NewNodeEvaluator) -> None:
        by_weight = groupby(templates, key=lambda template: template.pool.weight)
        self._tiers: list[WeightTier] = [(weight, tuple(group)) for weight, group in by_weight]
        self.highest_weight = templates[0].pool.weight if templates else 0
        self._with_reservations = [
            template for template in templates if template.pool_reservations.offering_groups
        ]
        self._has_min_values = any(template.min_values for template in self._with_reservations)
        self._evaluator = openings
        self.reservation_manager: ReservationManager = openings.reservation_manager

    def reserved_weight(self, stage: RelaxationLevel) -> int:
        """The highest weight of a pool with a slot for these pods, now or perhaps later; else -1.

        On no other new node of that weight or less may they go, or the slot would be wrongly idle.
        """
        if not self.reservation_manager.available:
            return -1
        # Without minValues only what is taken counts, and that changes between rounds.
        stamp = (
            self.reservation_manager.version
            if self._has_min_values
            else self.reservation_manager.round
        )
        if stage.reserved_weight_version != stamp:
            stage.reserved_weight_version = stamp
            stage.reserved_weight = self._find_reserved_weight(stage)
        return stage.reserved_weight

    def select(self, stage: RelaxationLevel, wish: PodRequirements) -> NewNodeCandidate | None:
        """The first pool that opens a node or has the pod wait; None if there is none."""
        for _, templates in self._tiers:
            found = self._reserved(stage, templates) or self._unreserved(wish, templates)
            if found is not None:
                return found
        return None

    def equal_candidates(self, step: NewNodeCandidate) -> list[NewNodeCandidate]:
        """The same from every pool of that weight that would open a node for anybody's money."""
        templates = next(found for weight, found in self._tiers if weight == step.weight)
        answers = [(self._evaluate(template, step.pod_reqs), template) for template in templates]
        return [
            NewNodeCandidate(answer, template, step.pod_reqs)
            for answer, template in answers
            if answer.kind is OptionKind.UNRESERVED
        ]

    def awaited_reservations(self, group: PodClass) -> ReservationSet:
        """The reservations that these pods, waiting now, wait for; 0 where it is not so simple.

        Simple is one wish and one pool that comes first, alone in its weight and without limits
        or minValues: as long as one of these has slots left and none can be held, it goes on.
        """
        wish = group.only_requirements
        template = None if wish is None else self._only_pool(wish)
        return 0 if wish is None or template is None else _usable_reservations(template, wish)

    def awaited_between(
        self, least: PodRequirements, most: PodRequirements
    ) -> tuple[ReservationSet, ReservationSet]:
        """All that anybody who asks for something between these needs, and what everybody does."""
        template = self._only_pool(least)
        if template is None or template is not self._only_pool(most):
            return 0, 0
        return _usable_reservations(template, least), _usable_reservations(template, most)

    def _only_pool(self, wish: PodRequirements) -> NodeClaimTemplate | None:
        """The first pool with room for the wish, if no other of its weight has any."""
        terms = wish.scheduling.compatibility
        for _, templates in self._tiers:
            able = [each for each in templates if terms[each.number] and fitting_types(each, wish)]
            if able:
                return able[0] if len(able) == 1 else None
        return None

    def is_limited_for_now(self, wish: PodRequirements) -> bool:
        """Whether some pool refuses only because its drafts count at their worst, or are many."""
        return any(
            self._evaluate(template, wish).kind is OptionKind.LIMIT_REACHED
            for _, templates in self._tiers
            for template in templates
        )

    def _find_reserved_weight(self, stage: RelaxationLevel) -> int:
        for template in self._with_reservations:  # in descending weight
            if any(self._has_reserved_capacity(template, wish) for wish in stage.alternatives):
                return template.pool.weight
        return -1

    def _has_reserved_capacity(self, template: NodeClaimTemplate, wish: PodRequirements) -> bool:
        if template.min_values:
            return self._evaluate(template, wish).kind <= OptionKind.WAIT_FOR_RESERVATION
        return self._evaluator.has_reserved_capacity(template, wish)

    def _reserved(
        self, stage: RelaxationLevel, templates: Sequence[NodeClaimTemplate]
    ) -> NewNodeCandidate | None:
        """A slot for any of the alternatives, as an idle one would be wrong whatever the order."""
        if not self.reservation_manager.available:
            return None
        waiting: NewNodeCandidate | None = None
        for template in templates:
            if template.pool_reservations.offering_groups:
                for wish in stage.alternatives:
                    answer = self._evaluate(template, wish)
                    if answer.kind is OptionKind.RESERVED:
                        return NewNodeCandidate(answer, template, wish)
                    if answer.kind is OptionKind.WAIT_FOR_RESERVATION:
                        waiting = waiting or NewNodeCandidate(WAIT_FOR_RESERVATION, template, wish)
        return waiting

    def _unreserved(
        self, wish: PodRequirements, templates: Sequence[NodeClaimTemplate]
    ) -> NewNodeCandidate | None:
        for template in templates:
            answer = self._evaluate(template, wish)
            if answer.kind is OptionKind.UNRESERVED:
                return NewNodeCandidate(answer, template, wish)
        return None

    def _evaluate(self, template: NodeClaimTemplate, wish: PodRequirements) -> NewNodeOption:
        """The answer, asked for again only when something has changed."""
        if wish.scheduling.compatibility[template.number] is None:
            return INCOMPATIBLE
        known, stamp = wish.options_by_pool.get(template.number), self.reservation_manager.version
        if known is not None and known[0] == stamp:
            return known[1]
        answer = self._evaluator.evaluate(template, wish)
        wish.options_by_pool = {**wish.options_by_pool, template.number: (stamp, answer)}
        return answer


def _usable_reservations(template: NodeClaimTemplate, wish: PodRequirements) -> ReservationSet:
    terms = wish.scheduling.compatibility[template.number]
    if terms is None or template.min_values or template.pool.limits:
        return 0
    shelf = template.pool_reservations
    return shelf.reservations_in(
        terms.compiled.reserved & shelf.groups_offering(fitting_types(template, wish))
    )
