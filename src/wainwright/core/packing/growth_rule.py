"""The growth rule: a draft grows only while one of the types left to it is cost-effective.

First-fit lets drafts grow until only the largest types are left, which cost most for what they
have. Here a pod is refused, for the time being, where it would cost a draft its last
cost-effective type, or would make the draft or itself dearer: it opens a node of its own, and
that one grows in turn.
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
from wainwright.core.packing.resource_vectors import ResourceVector, encoder_for
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.drafts import Draft, DraftChange, try_fit
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_requirements import PodClass, PodRequirements
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.offering_groups import OfferingGroupSet

MAX_CACHED_RATES: Final = 64  # sets of offering groups; more count as all of them

PriceRates: TypeAlias = tuple[list[float], list[int], list[BitSet]]
"""What types cost as multiples of what they are worth, ascending; the types, and those up to it."""


class CostEffectiveTypes(NamedTuple):
    """Which types are good buys under some requirements."""

    rate: float
    """What the best of them costs, as a multiple of what it is worth."""
    rows: BitSet


class GrowthRule:
    """Refuses pods that would make drafts dearer; forgets it when drafts are pinned."""

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        classes: Sequence[PodClass],
        names: Sequence[str],
    ) -> None:
        """`names` are the resources by their number."""
        self.price_tolerance = 0.02
        """How much more than the best buy a good buy may cost for what it is worth."""
        self.max_price_ratio = 1.25
        """How many times as much it may cost because of where or how somebody wants to buy."""
        self._names = names
        resources = sorted(names)
        self._pools = [
            _PoolValuation(template, list(_pool_demands(template, classes, names)), resources)
            for template in templates
        ]
        self._known: dict[CompiledRequirements, CostEffectiveTypes] = {}
        self._refused: dict[PodRequirements, BitSet] = {}

    def fit(self, draft: Draft, wish: PodRequirements) -> DraftChange | None:
        """As fit, but for drafts that would grow too dear."""
        if draft.pinned_type or draft.held:
            return try_fit(draft, wish)
        change = try_fit(draft, wish)
        if change is None or self._is_cost_effective(draft, wish, change):
            return change
        wish.rejected_by |= draft.bit
        self._refused[wish] = self._refused.get(wish, 0) | draft.bit
        return None

    def clear_refusals(self) -> None:
        """Lets all ask again: drafts are pinned by now, and what fits costs nothing more."""
        for wish, drafts in self._refused.items():
            wish.rejected_by ^= wish.rejected_by & drafts
        self._refused.clear()

    def update_cost_effective(self, draft: Draft) -> None:
        """Lets the draft know which of its types are good buys.

        Where none is, those count that are hardly worse than the best it has: but once only, or
        it would get a little worse with every pod.
        """
        if not draft.pinned_type and not draft.held:
            kept = draft.preferred_types & draft.types
            draft.preferred_types = (
                self._of(draft.template, draft.compiled).rows & draft.types or kept
            )
            if not draft.preferred_types:
                pool = self._pools[draft.template.number]
                draft.preferred_types = pool.best(
                    draft.types, draft.compiled.offering_groups, self.price_tolerance
                ).rows

    def price(self, template: NodeClaimTemplate, wish: PodRequirements) -> float:
        """What such a pod would cost in the pool on the best buy for it, shared with others."""
        rate = self._rate(template, wish)
        amounts = resource_vector(wish, self._names)
        return inf if rate == inf else rate * self._pools[template.number].worth(amounts)

    def _rate(self, template: NodeClaimTemplate, wish: PodRequirements) -> float:
        terms = wish.scheduling.compatibility[template.number]
        return inf if terms is None else self._of(template, terms.compiled).rate

    def _is_cost_effective(self, draft: Draft, wish: PodRequirements, change: DraftChange) -> bool:
        template = draft.template
        before, after = (self._of(template, each) for each in (draft.compiled, change.compiled))
        alone = self._rate(template, wish)
        if after.rate > self.max_price_ratio * min(before.rate, alone):
            return False
        return bool(change.types & draft.preferred_types) or not draft.preferred_types

    def _of(
        self, template: NodeClaimTemplate, narrowing: CompiledRequirements
    ) -> CostEffectiveTypes:
        found = self._known.get(narrowing)
        if found is None:
            found = self._pools[template.number].cost_effective_types(
                narrowing, self.price_tolerance
            )
            self._known[narrowing] = found
        return found


class _PoolValuation:
    """What the types of one pool are worth to the pods that it takes."""

    def __init__(
        self, template: NodeClaimTemplate, items: Sequence[ItemType], resources: Sequence[str]
    ) -> None:
        self._template = template
        self._rooms = CapacityForPods(template, resources)
        self._known: dict[OfferingGroupSet, PriceRates] = {}
        base = template.base
        offerings = _offerings_of_template(template, base.types & base.offered)
        bin_types = enumerate_bin_types([template], [offerings], resources)
        self._prices = [0.0] * len(resources)
        if items and bin_types:
            encoder = encoder_for(
                [item.amounts for item in items], [each.room for each in bin_types]
            )
            bin_types = remove_dominated(bin_types, encoder)
            groups = DemandGroups(items, bin_types, encoder, most=1)
            self._prices = shadow_prices(groups.demands, groups.supplies(bin_types))[0]

    def worth(self, amounts: ResourceVector) -> float:
        return value_of(amounts, self._prices)

    def cost_effective_types(
        self, narrowing: CompiledRequirements, price_tolerance: float
    ) -> CostEffectiveTypes:
        rows = narrowing.types & narrowing.offered
        return self.best(rows, narrowing.offering_groups, price_tolerance)

    def best(
        self, rows: BitSet, offering_groups: OfferingGroupSet, price_tolerance: float
    ) -> CostEffectiveTypes:
        """The best buys among the types; exotic ones would not be launched beside others."""
        index = self._template.index
        rows = rows ^ (rows & (index.metal | index.accelerated)) or rows
        rates, types, up_to = self._rates(offering_groups)
        best = next((n for n, row in enumerate(types) if rows >> row & 1), None)
        if best is None:
            return CostEffectiveTypes(inf, 0)
        last = bisect_right(rates, (1 + price_tolerance) * rates[best])
        return CostEffectiveTypes(rates[best], up_to[last - 1] & rows)

    def _rates(self, offering_groups: OfferingGroupSet) -> PriceRates:
        """What the types cost in these markets; with many of them in question, in any market."""
        found = self._known.get(offering_groups)
        if found is None:
            asked = (
                offering_groups
                if len(self._known) < MAX_CACHED_RATES
                else self._template.base.offering_groups
            )
            found = self._known.get(asked) or self._rated(asked)
            self._known[offering_groups] = found
        return found

    def _rated(self, offering_groups: OfferingGroupSet) -> PriceRates:
        index = self._template.index
        rated = []
        for row in iter_bits(self._template.base.types & index.available_in(offering_groups)):
            value = value_of(self._rooms.of(row), self._prices)
            bought = index.find_cheapest(1 << row, offering_groups)
            if value and bought is not None:
                rated.append((hourly_cost(index, row, bought[2]) / value, row))
        rated.sort()
        up_to = accumulate((1 << row for _, row in rated), or_)
        return [rate for rate, _ in rated], [row for _, row in rated], list(up_to)


def _offerings_of_template(template: NodeClaimTemplate, rows: BitSet) -> AllowedOfferings:
    """All that the pool buys, and nothing of the others."""
    number = template.number
    return AllowedOfferings(
        (0,) * number + (rows,), (0,) * number + (template.base.offering_groups,)
    )


def _pool_demands(
    template: NodeClaimTemplate, classes: Sequence[PodClass], names: Sequence[str]
) -> Iterator[ItemType]:
    """The pods that the pool takes if it is asked first."""
    for group in classes:
        wishes = group.alternatives[:1]
        if wishes and wishes[0].scheduling.compatibility[template.number] is not None:
            yield ItemType(resource_vector(wishes[0], names), len(group.pods), 0)
