"""The growth rule: a draft grows only while one of the types left to it is cost-effective.

First-fit lets drafts grow until only the largest types are left, which cost most for their
resources. Here a draft refuses a pod, for the present round, that would leave it no
cost-effective type, or would make the draft or the pod more expensive: the pod opens a new draft,
which grows in turn.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf
from operator import or_
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.launch.launch_choice import hourly_cost
from wainwright.core.packing.bin_types import (
    AllowedOfferings,
    CapacityForPods,
    enumerate_bin_types,
    remove_dominated,
)
from wainwright.core.packing.linear_program import shadow_prices, value_of
from wainwright.core.packing.packing_problem import DemandGroups, ItemType, resource_vector
from wainwright.core.packing.resource_vectors import encoder_for
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.draft_fit import try_fit
from wainwright.core.scheduling.drafts import Draft, DraftChange
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import PodClass, PodRequirements
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.offering_groups import OfferingGroupSet

# Sets of offering groups whose prices are cached; others count as all groups.
MAX_CACHED_RATES: Final = 64

PriceRates: TypeAlias = tuple[list[float], list[int], list[BitSet]]
"""Prices of types as multiples of their value, ascending; the types in that order; and for each
position the set of all types up to it, so that a price limit becomes a bit set by bisection."""


class CostEffectiveTypes(NamedTuple):
    """The types with the best price for their value under some requirements."""

    rate: float
    """Price of the best of them, as a multiple of its value."""
    types: BitSet


class GrowthRule:
    """Refuses pods that would make drafts more expensive, until drafts are pinned."""

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        classes: Sequence[PodClass],
        names: Sequence[str],
    ) -> None:
        """`names` are the resources by their number."""
        self.price_tolerance = 0.02
        """How much higher than the best the rate of a cost-effective type may be."""
        self.max_price_ratio = 1.25
        """How many times as high the best rate may get by zone or capacity type of another pod."""
        resources = sorted(names)
        self._pools = [
            _PoolValuation(template, list(_pool_demands(template, classes, names)), resources)
            for template in templates
        ]
        self._cache: dict[CompiledRequirements, CostEffectiveTypes] = {}
        """Drafts have few different requirements: without it each pod that is tried on a draft
        rates all its types again.
        """
        self._refused: dict[PodRequirements, BitSet] = {}
        """By pod requirements: the drafts that this rule, and nothing else, made refuse them."""

    def fit(self, draft: Draft, pod_reqs: PodRequirements) -> DraftChange | None:
        """As `try_fit`, but None for a draft that would get too expensive.

        The refusal is noted among the drafts that rejected the pod, so that equal pods skip the
        draft without being tried.
        """
        change = try_fit(draft, pod_reqs)
        if change is None or draft.pinned_type or draft.held:
            return change
        if self._is_cost_effective(draft, pod_reqs, change):
            return change
        pod_reqs.rejected_by |= draft.bit
        self._refused[pod_reqs] = self._refused.get(pod_reqs, 0) | draft.bit
        return None

    def clear_refusals(self) -> None:
        """Lets pods be tried again: drafts are pinned by now, and a pod that fits costs no more."""
        for pod_reqs, drafts in self._refused.items():
            pod_reqs.rejected_by ^= pod_reqs.rejected_by & drafts
        self._refused.clear()

    def update_cost_effective(self, draft: Draft) -> None:
        """Sets the types of the draft that count as cost-effective.

        Where none of its types is, those count that are hardly worse than its best: but they are
        kept from then on, as otherwise the draft would get a little worse with every pod.
        """
        if not draft.pinned_type and not draft.held:
            kept = draft.preferred_types & draft.types
            best = self._cost_effective_types(draft.template, draft.compiled).types
            draft.preferred_types = best & draft.types or kept
            if not draft.preferred_types:
                pool = self._pools[draft.template.number]
                draft.preferred_types = pool.best(
                    draft.types, draft.compiled.offering_groups, self.price_tolerance
                ).types

    def _rate(self, template: NodeClaimTemplate, pod_reqs: PodRequirements) -> float:
        compatibility = pod_reqs.scheduling.compatibility[template.number]
        if compatibility is None:
            return inf
        return self._cost_effective_types(template, compatibility.compiled).rate

    def _is_cost_effective(
        self, draft: Draft, pod_reqs: PodRequirements, change: DraftChange
    ) -> bool:
        template = draft.template
        before = self._cost_effective_types(template, draft.compiled)
        after = self._cost_effective_types(template, change.compiled)
        alone = self._rate(template, pod_reqs)
        if after.rate > self.max_price_ratio * min(before.rate, alone):
            return False
        return bool(change.types & draft.preferred_types) or not draft.preferred_types

    def _cost_effective_types(
        self, template: NodeClaimTemplate, compiled: CompiledRequirements
    ) -> CostEffectiveTypes:
        best = self._cache.get(compiled)
        if best is None:
            pool = self._pools[template.number]
            best = self._cache[compiled] = pool.cost_effective_types(compiled, self.price_tolerance)
        return best


class _PoolValuation:
    """The value of the types of one pool to the pods that it takes."""

    def __init__(
        self, template: NodeClaimTemplate, items: Sequence[ItemType], resources: Sequence[str]
    ) -> None:
        self._template = template
        self._rooms = CapacityForPods(template, resources)
        self._cache: dict[OfferingGroupSet, PriceRates] = {}
        """Requirements with the same offerings share rates, which take a look at every type."""
        base = template.base
        offerings = _offerings_of_template(template, base.types & base.offered)
        bin_types = enumerate_bin_types([template], [offerings], resources)
        self._prices = [0.0] * len(resources)
        if items and bin_types:
            encoder = encoder_for(
                [item.amounts for item in items], [each.room for each in bin_types]
            )
            bin_types = remove_dominated(bin_types, encoder)
            groups = DemandGroups(items, bin_types, encoder, max_groups=1)
            self._prices = shadow_prices(groups.demands, groups.supplies(bin_types))[0]

    def cost_effective_types(
        self, compiled: CompiledRequirements, price_tolerance: float
    ) -> CostEffectiveTypes:
        types = compiled.types & compiled.offered
        return self.best(types, compiled.offering_groups, price_tolerance)

    def best(
        self, types: BitSet, offering_groups: OfferingGroupSet, price_tolerance: float
    ) -> CostEffectiveTypes:
        """The cost-effective ones of the types; exotic ones only where there are no others."""
        index = self._template.index
        types = types ^ (types & (index.metal | index.accelerated)) or types
        rates, ordered, up_to = self._rates(offering_groups)
        best = next((n for n, type_number in enumerate(ordered) if types >> type_number & 1), None)
        if best is None:
            return CostEffectiveTypes(inf, 0)
        last = bisect_right(rates, (1 + price_tolerance) * rates[best])
        return CostEffectiveTypes(rates[best], up_to[last - 1] & types)

    def _rates(self, offering_groups: OfferingGroupSet) -> PriceRates:
        """The rates of all types in these offering groups.

        Each set of groups takes a look at every type: when many sets are cached, the rates of
        further ones are taken to be those in all groups of the pool.
        """
        rates = self._cache.get(offering_groups)
        if rates is None:
            is_exact = len(self._cache) < MAX_CACHED_RATES
            rated_groups = offering_groups if is_exact else self._template.base.offering_groups
            rates = self._cache.get(rated_groups) or self._compute_rates(rated_groups)
            self._cache[offering_groups] = rates
        return rates

    def _compute_rates(self, offering_groups: OfferingGroupSet) -> PriceRates:
        index = self._template.index
        rated = []
        for type_number in iter_bits(
            self._template.base.types & index.available_in(offering_groups)
        ):
            value = value_of(self._rooms.room_of(type_number), self._prices)
            cheapest = index.find_cheapest(1 << type_number, offering_groups)
            if value and cheapest is not None:
                rated.append((hourly_cost(index, type_number, cheapest[2]) / value, type_number))
        rated.sort()
        up_to = accumulate((1 << type_number for _, type_number in rated), or_)
        return [rate for rate, _ in rated], [type_number for _, type_number in rated], list(up_to)


def _offerings_of_template(template: NodeClaimTemplate, types: BitSet) -> AllowedOfferings:
    """These types in all offering groups of the pool, and nothing of other pools."""
    number = template.number
    return AllowedOfferings(
        (0,) * number + (types,), (0,) * number + (template.base.offering_groups,)
    )


def _pool_demands(
    template: NodeClaimTemplate, classes: Sequence[PodClass], names: Sequence[str]
) -> Iterator[ItemType]:
    """The pods whose first alternative the pool takes."""
    for pod_class in classes:
        for pod_reqs in pod_class.alternatives[:1]:
            if pod_reqs.scheduling.compatibility[template.number] is not None:
                yield ItemType(resource_vector(pod_reqs, names), len(pod_class.pods), 0)
