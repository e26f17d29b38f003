"""New-node selection: which NodePool opens a node for a pod, by weight, reservations, limits and
price.

Weight beats reservation across NodePools; reserved capacity beats the rest among NodePools of one
weight. Of several NodePools that are equal in that, the one where the node would cost least for
this pod opens it; of equal prices the first in `pool_order`. A reservation whose free instances are
merely held by other drafts makes the pod wait: it neither takes another offering of that weight
nor goes on to NodePools of lower weight.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import TypeAlias

from wainwright.core.launch.launch_choice import LaunchOptions, choose_offering, hourly_cost
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints import offerings, resource_fit
from wainwright.core.scheduling.constraints.min_values import MinValues
from wainwright.core.scheduling.forks import shallow_copy
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import (
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
from wainwright.model.bitset import MAX_CACHED_RESULTS, BitSet
from wainwright.model.instance_type import Offering
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import MinValuesPolicy


def launch_price(options: LaunchOptions, available_count: Callable[[str], int]) -> float:
    """USD per hour with fees; `available_count` returns a reservation's available instances."""
    choice = choose_offering(options, available_count)
    return hourly_cost(options.index, choice.type_number, choice.offering)


def options_of_new_node(template: NodeClaimTemplate, option: NewNodeOption) -> LaunchOptions:
    """What a node of the pool could be launched as."""
    assert option.compiled is not None, "only an option that opens a node can be launched"
    return LaunchOptions(
        index=template.index,
        types=option.types,
        offering_groups=option.compiled.offering_groups,
        held=option.held,
        reserved_types=template.pool_reservations.available_in(option.held, option.types),
        requirements=option.compiled.requirements,
        min_values=option.min_values,
    )


class NewNodeEvaluator:
    """Evaluates how a pool could launch a node for a pod, under one minValues policy."""

    __slots__ = ("_best_effort", "_policy", "_prices", "reservation_manager")

    def __init__(self, policy: MinValuesPolicy, reservation_manager: ReservationManager) -> None:
        self._policy = policy
        self._best_effort = policy is MinValuesPolicy.BEST_EFFORT
        self._prices: dict[tuple[CompiledRequirements | None, BitSet, MinValues], float] = {}
        self.reservation_manager = reservation_manager

    def fork(self, reservation_manager: ReservationManager) -> "NewNodeEvaluator":
        clone = NewNodeEvaluator(self._policy, reservation_manager)
        clone._prices = self._prices
        return clone

    def price(self, template: NodeClaimTemplate, option: NewNodeOption) -> float:
        """USD per hour, with fees, of the node that would be launched now; computed once."""
        if option.price is None:
            option.price = self._launch_price(template, option)
        return option.price

    def _launch_price(self, template: NodeClaimTemplate, option: NewNodeOption) -> float:
        available_count = self.reservation_manager.available_count
        if option.held:
            return launch_price(options_of_new_node(template, option), available_count)
        # Options that differ in what limits leave mostly have the same types: saves looking for
        # the cheapest offering after every draft of a NodePool with limits.
        key = (option.compiled, option.types, option.min_values)
        price = self._prices.get(key)
        if price is None:
            if len(self._prices) >= MAX_CACHED_RESULTS:
                self._prices.clear()
            price = launch_price(options_of_new_node(template, option), available_count)
            self._prices[key] = price
        return price

    def evaluate(self, template: NodeClaimTemplate, pod_reqs: PodRequirements) -> NewNodeOption:
        """A reserved node if there is a reserved instance to hold, otherwise an unreserved one."""
        compatibility = pod_reqs.scheduling.compatibility[template.number]
        types = fitting_types(template, pod_reqs)
        if compatibility is None or not types:
            return INCOMPATIBLE
        available = compatibility.compiled.reserved & template.pool_reservations.groups_of(
            self.reservation_manager.available
        )
        reserved = (
            self._reserved(template, compatibility.compiled, types, available)
            if available
            else None
        )
        return reserved or self._unreserved(template, compatibility.compiled, types)

    def has_reserved_capacity(self, template: NodeClaimTemplate, pod_reqs: PodRequirements) -> bool:
        """Whether there is reserved capacity for the pod now or maybe later."""
        compatibility = pod_reqs.scheduling.compatibility[template.number]
        if compatibility is None:
            return False
        available = compatibility.compiled.reserved & template.pool_reservations.groups_of(
            self.reservation_manager.available
        )
        at_best = fitting_types(template, pod_reqs) & template.limits.admitted_reserved_at_start
        return bool(available and available & template.pool_reservations.groups_offering(at_best))

    def _reserved(
        self,
        template: NodeClaimTemplate,
        compiled: CompiledRequirements,
        types: BitSet,
        available: OfferingGroupSet,
    ) -> NewNodeOption | None:
        """A reserved node, or WAIT_FOR_RESERVATION if there may be one later; else None."""
        pool_reservations, limits = template.pool_reservations, template.limits
        at_best = types & limits.admitted_reserved_at_start
        if not available & pool_reservations.groups_offering(at_best):
            return None
        allowed_types = types & limits.admitted_reserved
        held = (
            available
            & pool_reservations.groups_of(self.reservation_manager.unheld)
            & pool_reservations.groups_offering(allowed_types)
        )
        if not held:
            return WAIT_FOR_RESERVATION
        # Without minValues: these are for finding capacity, and a reservation is capacity found.
        option = NewNodeOption(OptionKind.RESERVED)
        option.compiled, option.held = compiled, held
        option.types = offerings.admits_types(allowed_types, compiled, pool_reservations, held)
        return option

    def _unreserved(
        self, template: NodeClaimTemplate, compiled: CompiledRequirements, types: BitSet
    ) -> NewNodeOption:
        offered = types & compiled.offered
        allowed_types = offered & template.limits.admitted
        option = self._option(template, compiled, allowed_types) if allowed_types else None
        return option or self._limit_reached_or_incompatible(template, compiled, offered)

    def _limit_reached_or_incompatible(
        self, template: NodeClaimTemplate, compiled: CompiledRequirements, offered: BitSet
    ) -> NewNodeOption:
        """LIMIT_REACHED if limits could allow it once drafts count as what they launch."""
        limits = template.limits
        at_best = offered & limits.admitted_at_start
        if not at_best or at_best == offered & limits.admitted:
            return INCOMPATIBLE
        return (
            INCOMPATIBLE
            if self._option(template, compiled, at_best) is None
            else LIMIT_REACHED_FOR_NOW
        )

    def _option(
        self, template: NodeClaimTemplate, compiled: CompiledRequirements, types: BitSet
    ) -> NewNodeOption | None:
        """A node of these types without a reservation; None if minValues are not met."""
        option = NewNodeOption(OptionKind.UNRESERVED)
        option.compiled, option.types = compiled, types
        option.min_values = template.min_values
        if not option.min_values:
            return option
        checker, offering_groups = template.min_values_checker, compiled.offering_groups
        if self._best_effort:
            option.min_values = checker.lower_to_available(
                option.min_values, compiled, types, offering_groups
            )
        witnesses = checker.admits(option.min_values, compiled, types, offering_groups)
        option.witnesses = witnesses or ()
        return None if witnesses is None else option


def fitting_types(template: NodeClaimTemplate, pod_reqs: PodRequirements) -> BitSet:
    """The pool's types with the labels, enough allocatable resources and room for the volumes;
    cached."""
    types = pod_reqs.types_by_pool.get(template.number)
    if types is None:
        compatibility = pod_reqs.scheduling.compatibility[template.number]
        types = 0 if compatibility is None else compatibility.types
        if types:
            tables = template.allocatable_tables
            types = resource_fit.admits_types(types, tables, pod_reqs.amounts, [0] * len(tables))
            if pod_reqs.attachments:
                types = template.volume_limits.admits_types(types, pod_reqs.attachments)
        pod_reqs.types_by_pool[template.number] = types
    return types


MANY_POOLS = 32
WeightTier: TypeAlias = tuple[int, tuple[NodeClaimTemplate, ...]]
"""A weight, and the templates of that weight in the order of `pool_order`."""


class NewNodeCandidate:
    """An option of one template for a new node, or for waiting."""

    __slots__ = ("option", "pod_reqs", "template", "weight")

    def __init__(
        self, option: NewNodeOption, template: NodeClaimTemplate, pod_reqs: PodRequirements
    ) -> None:
        self.option = option
        self.template = template
        self.weight = template.pool.weight
        self.pod_reqs = pod_reqs


class _PriceRanking:
    """The NodePools of one weight that would open an unreserved node for such pods, by price.

    Kept while reservations stay as they are: only the NodePools whose limits have changed since are
    evaluated again, so that a thousand NodePools are not compared for every node.
    """

    __slots__ = ("entries", "options_version", "seen_changes")

    def __init__(self, options_version: int, seen_changes: int) -> None:
        self.entries: list[tuple[float, int, int]] = []
        """A heap of price, template number, and the version of the limits that it is valid for."""
        self.options_version = options_version
        self.seen_changes = seen_changes

    def copy(self) -> "_PriceRanking":
        """For a fork, in which no limit has been seen to change."""
        clone = _PriceRanking(self.options_version, 0)
        clone.entries = self.entries.copy()
        return clone


class NodePoolSelector:
    """Selects the pool for a new node, in order of weight."""

    def __init__(self, templates: Sequence[NodeClaimTemplate], evaluator: NewNodeEvaluator) -> None:
        self._templates = templates
        by_weight = groupby(templates, key=lambda template: template.pool.weight)
        self._tiers: list[WeightTier] = [(weight, tuple(tier)) for weight, tier in by_weight]
        self._tier_numbers = {weight: number for number, (weight, _) in enumerate(self._tiers)}
        self.highest_weight = templates[0].pool.weight if templates else 0
        self._with_reservations = [
            template for template in templates if template.pool_reservations.offering_groups
        ]
        self._evaluator = evaluator
        self.reservation_manager: ReservationManager = evaluator.reservation_manager
        self._rankings: dict[tuple[PodRequirements, int], _PriceRanking] = {}
        """By requirements and weight; only where many NodePools have the weight."""
        self._changes: list[int] = []
        """The numbers of the templates whose limits have changed, in this order."""
        self._original: NodePoolSelector | None = None
        """Of a fork: whose rankings it begins with."""

    def fork(
        self, templates: Sequence[NodeClaimTemplate], reservation_manager: ReservationManager
    ) -> "NodePoolSelector":
        """The same for a forked state, which replaces templates of its list when it changes them:
        see `templates_replaced`.
        """
        clone = shallow_copy(self)
        clone._evaluator = self._evaluator.fork(reservation_manager)
        clone._templates, clone.reservation_manager = templates, reservation_manager
        clone._rankings, clone._changes, clone._original = {}, [], self
        return clone

    def templates_replaced(self, numbers: Iterable[int]) -> None:
        """The list of templates has others with these numbers now, with limits of their own."""
        self._tiers = self._tiers.copy()  # the original has them too
        for weight in {self._templates[number].pool.weight for number in numbers}:
            position = self._tier_numbers[weight]
            tier = self._tiers[position][1]
            replaced = self._templates[tier[0].number : tier[-1].number + 1]
            self._tiers[position] = weight, tuple(replaced)
        self._with_reservations = [self._templates[each.number] for each in self._with_reservations]

    def limits_changed(self, template: NodeClaimTemplate) -> None:
        """A draft was counted against the limits of this NodePool, or a node no longer is."""
        self._changes.append(template.number)

    def all_limits_charged(self) -> None:
        """A draft was counted against limits that all NodePools share."""
        self._rankings.clear()
        self._original = None

    def reserved_weight(self, level: RelaxationLevel) -> int:
        """The highest weight of a pool with reserved capacity for these pods now or later; else -1.

        They must not go on any other new node of that weight or less, or the reservation would stay
        idle although a pod could use it.
        """
        if not self.reservation_manager.available:
            return -1
        # The result depends only on instances taken by launches, and these change only between
        # rounds: one evaluation per round instead of one per state change.
        if level.reserved_weight_version != self.reservation_manager.round:
            level.reserved_weight_version = self.reservation_manager.round
            level.reserved_weight = self._find_reserved_weight(level)
        return level.reserved_weight

    def select(self, level: RelaxationLevel, pod_reqs: PodRequirements) -> NewNodeCandidate | None:
        """The candidate of the first weight whose pools launch a node or make the pod wait.

        Of several pools that would launch one, that of the cheapest node.
        """
        for _, templates in self._tiers:
            candidate = self._reserved(level, templates) or self._unreserved(pod_reqs, templates)
            if candidate is not None:
                return candidate
        return None

    def price(self, candidate: NewNodeCandidate) -> float:
        """USD per hour, with fees, of the node that would be launched now."""
        return self._evaluator.price(candidate.template, candidate.option)

    def launched_offering(self, candidate: NewNodeCandidate) -> Offering:
        """The offering that would be launched now."""
        options = options_of_new_node(candidate.template, candidate.option)
        available_count = self._evaluator.reservation_manager.available_count
        return choose_offering(options, available_count).offering

    def equal_candidates(self, candidate: NewNodeCandidate) -> list[NewNodeCandidate]:
        """The candidates of all pools of the same weight that are reserved, or not, as this one."""
        templates = next(tier for weight, tier in self._tiers if weight == candidate.weight)
        options = [
            (self._evaluate(template, candidate.pod_reqs), template) for template in templates
        ]
        return [
            NewNodeCandidate(option, template, candidate.pod_reqs)
            for option, template in options
            if option.kind is candidate.option.kind
        ]

    def awaited_reservations(self, pod_class: PodClass) -> ReservationSet:
        """The reservations that these waiting pods wait for; 0 if that cannot be said by one set.

        It can for pods without alternatives whose first compatible pool is alone in its weight and
        has no limits: they wait as long as one of these reservations is available and none of them
        is unheld.
        """
        pod_reqs = pod_class.only_requirements
        template = None if pod_reqs is None else self._only_pool(pod_reqs)
        return (
            0 if pod_reqs is None or template is None else _usable_reservations(template, pod_reqs)
        )

    def awaited_between(
        self, smallest: PodRequirements, largest: PodRequirements
    ) -> tuple[ReservationSet, ReservationSet]:
        """The reservations that any, and that all, of the pods with requests in between await."""
        template = self._only_pool(smallest)
        if template is None or template is not self._only_pool(largest):
            return 0, 0
        return _usable_reservations(template, smallest), _usable_reservations(template, largest)

    def _only_pool(self, pod_reqs: PodRequirements) -> NodeClaimTemplate | None:
        """The first pool with a fitting type, if no other pool of its weight has one."""
        compatibility = pod_reqs.scheduling.compatibility
        for _, templates in self._tiers:
            compatible = [
                each
                for each in templates
                if compatibility[each.number] and fitting_types(each, pod_reqs)
            ]
            if compatible:
                return compatible[0] if len(compatible) == 1 else None
        return None

    def is_limited_for_now(self, pod_reqs: PodRequirements) -> bool:
        """Whether a pool refuses only because this round's drafts count as their largest type."""
        return any(
            self._evaluate(template, pod_reqs).kind is OptionKind.LIMIT_REACHED
            for _, templates in self._tiers
            for template in templates
        )

    def _find_reserved_weight(self, level: RelaxationLevel) -> int:
        # In descending weight, so that the first match is the highest.
        has_reserved_capacity = self._evaluator.has_reserved_capacity
        for template in self._with_reservations:
            if any(has_reserved_capacity(template, pod_reqs) for pod_reqs in level.alternatives):
                return template.pool.weight
        return -1

    def _reserved(
        self, level: RelaxationLevel, templates: Sequence[NodeClaimTemplate]
    ) -> NewNodeCandidate | None:
        """Reserved capacity for any of the alternatives, in any order: it must not stay idle."""
        if not self.reservation_manager.available:
            return None
        waiting: NewNodeCandidate | None = None
        best: NewNodeCandidate | None = None
        for template in templates:
            if template.pool_reservations.offering_groups:
                for pod_reqs in level.alternatives:
                    option = self._evaluate(template, pod_reqs)
                    if option.kind is OptionKind.RESERVED:
                        best = self._cheaper(best, option, template, pod_reqs)
                        break
                    if option.kind is OptionKind.WAIT_FOR_RESERVATION:
                        waiting = waiting or NewNodeCandidate(
                            WAIT_FOR_RESERVATION, template, pod_reqs
                        )
        return best or waiting

    def _unreserved(
        self, pod_reqs: PodRequirements, templates: Sequence[NodeClaimTemplate]
    ) -> NewNodeCandidate | None:
        if len(templates) > MANY_POOLS:
            return self._cheapest_of_many(pod_reqs, templates)
        best: NewNodeCandidate | None = None
        for template in templates:
            option = self._evaluate(template, pod_reqs)
            if option.kind is OptionKind.UNRESERVED:
                best = self._cheaper(best, option, template, pod_reqs)
        return best

    def _cheapest_of_many(
        self, pod_reqs: PodRequirements, tier: Sequence[NodeClaimTemplate]
    ) -> NewNodeCandidate | None:
        entries = self._ranking(pod_reqs, tier).entries
        while entries:
            _, number, limits_version = entries[0]
            template = self._templates[number]
            if template.limits.version == limits_version:
                return NewNodeCandidate(self._evaluate(template, pod_reqs), template, pod_reqs)
            heappop(entries)
        return None

    def _ranking(
        self, pod_reqs: PodRequirements, tier: Sequence[NodeClaimTemplate]
    ) -> _PriceRanking:
        """The ranking of these pods, up to date."""
        key, version = (pod_reqs, tier[0].pool.weight), self.reservation_manager.options_version
        ranking = self._rankings.get(key)
        if ranking is None or ranking.options_version != version:
            ranking = self._rankings[key] = self._new_ranking(pod_reqs, tier)
        if ranking.seen_changes < len(self._changes):
            changed = {*self._changes[ranking.seen_changes :]}
            ranking.seen_changes = len(self._changes)
            templates = [self._templates[each] for each in changed]
            of_weight = [each for each in templates if each.pool.weight == key[1]]
            for entry in self._prices(pod_reqs, of_weight):
                heappush(ranking.entries, entry)
        return ranking

    def _new_ranking(
        self, pod_reqs: PodRequirements, tier: Sequence[NodeClaimTemplate]
    ) -> _PriceRanking:
        """Of a fork in which reservations are as before, what is known of the original: without it
        every simulation of a removal would look at every NodePool.
        """
        version, original = self.reservation_manager.options_version, self._original
        if original is not None and original.reservation_manager.options_version == version:
            return original._ranking(pod_reqs, tier).copy()
        ranking = _PriceRanking(version, len(self._changes))
        ranking.entries = self._prices(pod_reqs, self._compatible(pod_reqs, tier))
        heapify(ranking.entries)
        return ranking

    def _prices(
        self, pod_reqs: PodRequirements, templates: Iterable[NodeClaimTemplate]
    ) -> list[tuple[float, int, int]]:
        """Entries of a ranking: those of the templates that would open an unreserved node."""
        found = []
        for template in templates:
            option = self._evaluate(template, pod_reqs)
            if option.kind is OptionKind.UNRESERVED:
                price = self._evaluator.price(template, option)
                found.append((price, template.number, template.limits.version))
        return found

    def _compatible(
        self, pod_reqs: PodRequirements, tier: Sequence[NodeClaimTemplate]
    ) -> Sequence[NodeClaimTemplate]:
        """Of one weight: without this every pod would look at every NodePool that it cannot use."""
        numbers, weight = pod_reqs.scheduling.compatible_pools, tier[0].pool.weight
        found = [self._templates[number] for number in numbers]
        return [template for template in found if template.pool.weight == weight]

    def _cheaper(
        self,
        best: NewNodeCandidate | None,
        option: NewNodeOption,
        template: NodeClaimTemplate,
        pod_reqs: PodRequirements,
    ) -> NewNodeCandidate:
        """The candidate so far, unless that of this pool costs less."""
        # Prices are compared only where several pools would do, and are known after the first pod
        # of a class: without either, every pod that opens a node would look for offerings.
        if best is not None and self.price(best) <= self._evaluator.price(template, option):
            return best
        return NewNodeCandidate(option, template, pod_reqs)

    def _evaluate(self, template: NodeClaimTemplate, pod_reqs: PodRequirements) -> NewNodeOption:
        """The template's option, evaluated again only if reservations or its limits changed."""
        if pod_reqs.scheduling.compatibility[template.number] is None:
            return INCOMPATIBLE
        known = pod_reqs.options_by_pool.get(template.number)
        version, limits_version = self.reservation_manager.options_version, template.limits.version
        if known is not None and known[0] == version and known[1] == limits_version:
            return known[2]
        option = self._evaluator.evaluate(template, pod_reqs)
        pod_reqs.options_by_pool[template.number] = (version, limits_version, option)
        return option


def _usable_reservations(template: NodeClaimTemplate, pod_reqs: PodRequirements) -> ReservationSet:
    compatibility = pod_reqs.scheduling.compatibility[template.number]
    if compatibility is None or template.limits.is_limited:
        return 0
    pool_reservations = template.pool_reservations
    return pool_reservations.reservations_in(
        compatibility.compiled.reserved
        & pool_reservations.groups_offering(fitting_types(template, pod_reqs))
    )
