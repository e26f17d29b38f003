"""Replacements: what is left of a planned node once it must cost less than what it replaces.

A type is cheap enough if the most expensive offering that its launch could end with is: of the
reservation, else of spot, else on demand. What is left must still be diverse enough for minValues.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from operator import or_
from typing import Final

import msgspec

from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.disruption_input import ReplacementRules
from wainwright.core.launch.launch_choice import (
    LaunchOptions,
    capacity_type_of,
    choose_offering,
    options_of_claim,
    zone_of,
)
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import PlannedLaunch, PlannedNodeClaim, RemainingOptions
from wainwright.model.requirements import Requirements

ROUNDING: Final = 1e-9  # of prices; a share of a price is not exact


class NoReplacement(StrEnum):
    """Why there is no cheaper replacement; the value is the code of the verdict."""

    NO_SAVING = "no-saving"
    SPOT_TO_SPOT = "spot-to-spot"
    MIN_VALUES = "min-values"


class _Left(msgspec.Struct, frozen=True):
    """Types and offering groups that are cheap enough."""

    types: BitSet
    groups: OfferingGroupSet


def cheaper_replacement(
    claim: PlannedNodeClaim,
    index: InstanceTypeIndex,
    candidates: Sequence[Candidate],
    rules: ReplacementRules,
) -> PlannedNodeClaim | NoReplacement:
    """The claim with only what is strictly cheaper than the candidates together."""
    options = options_of_claim(claim, index)
    return _cheaper_claim(claim, options, candidates, rules, _price_limit(candidates, options))


def cheaper_replacements(
    claims: Sequence[PlannedNodeClaim],
    catalogs: Mapping[str, InstanceTypeIndex],
    candidates: Sequence[Candidate],
    rules: ReplacementRules,
) -> tuple[PlannedNodeClaim, ...] | NoReplacement:
    """Several claims that are cheaper together, whatever each of them is launched as.

    What is saved is divided among them by price: each may cost that much more than planned.
    """
    total = sum(candidate.price for candidate in candidates)
    planned = sum(claim.launch.price for claim in claims)
    if not 0 < planned < total:
        return NoReplacement.NO_SAVING
    found: list[PlannedNodeClaim] = []
    for claim in claims:
        options = options_of_claim(claim, catalogs[claim.pool])
        limit = claim.launch.price * total / planned * (1 - ROUNDING)
        cheaper = _cheaper_claim(claim, options, candidates, rules, limit)
        if isinstance(cheaper, NoReplacement):
            return cheaper
        found.append(cheaper)
    return tuple(found)


def _cheaper_claim(
    claim: PlannedNodeClaim,
    options: LaunchOptions,
    candidates: Sequence[Candidate],
    rules: ReplacementRules,
    limit: float,
) -> PlannedNodeClaim | NoReplacement:
    if claim.relaxed_min_values and not options.held:
        return NoReplacement.MIN_VALUES  # relaxing is for pods that have no node yet
    left = _cheaper_options(options, limit)
    if not left.types:
        return NoReplacement.NO_SAVING
    if _is_spot_to_spot(options, left, candidates):
        refined = _spot_to_spot_types(options, left, candidates, rules)
        if isinstance(refined, NoReplacement):
            return refined
        left = refined
    if not options.held and not options.meets_min_values(left.types, left.groups):
        return NoReplacement.MIN_VALUES
    return _narrowed_claim(claim, options, left)


def _price_limit(candidates: Sequence[Candidate], options: LaunchOptions) -> float:
    """What the replacement must be cheaper than.

    Where several nodes are replaced by one of a type that one of them has, it must be cheaper than
    that one: else simply keeping it, and removing the others, would do.
    """
    total = sum(candidate.price for candidate in candidates)
    if len(candidates) == 1:
        return total
    names = {options.index.types[number].name for number in iter_bits(options.types)}
    same = [
        candidate.price
        for candidate in candidates
        if candidate.node.labels.get(INSTANCE_TYPE) in names
    ]
    return min([total, *same])


def _cheaper_options(options: LaunchOptions, limit: float) -> _Left:
    """Those of the capacity type that would be launched: reserved, else spot, else on demand."""
    if options.held:
        types = options.reserved_types or options.types & options.index.available_in(options.held)
        return _Left(_types_below(options, types, options.held, limit), options.held)
    spot = options.spot
    on_demand = options.offering_groups ^ spot
    cheaper_spot = _types_below(options, options.types, spot, limit)
    if cheaper_spot:
        # Only spot: a launch that fell back to on demand could cost more than before.
        return _Left(cheaper_spot, spot)
    return _Left(_types_below(options, options.types, on_demand, limit), on_demand)


def _types_below(
    options: LaunchOptions, types: BitSet, groups: OfferingGroupSet, limit: float
) -> BitSet:
    prices, types_at = _highest_prices(options.index, groups)
    return types & types_at[bisect_left(prices, limit)]


@lru_cache(maxsize=256)
def _highest_prices(
    index: InstanceTypeIndex, groups: OfferingGroupSet
) -> tuple[list[float], list[BitSet]]:
    """The highest price of each type in these groups, ascending, and at each position the types
    that come before it.

    Kept for each index: thousands of nodes are compared with the prices of the same few groups.
    """
    highest: dict[int, float] = {}
    for number, _, offering in index.available_offerings(index.all_types, groups):
        highest[number] = max(highest.get(number, 0.0), offering.price)
    ordered = sorted(highest, key=lambda number: highest[number])
    types_at = list(accumulate((1 << number for number in ordered), or_, initial=0))
    return [highest[number] for number in ordered], types_at


def _is_spot_to_spot(options: LaunchOptions, left: _Left, candidates: Sequence[Candidate]) -> bool:
    all_spot = all(each.node.labels.get(CAPACITY_TYPE) == SPOT for each in candidates)
    return all_spot and not options.held and left.groups == options.spot


def _spot_to_spot_types(
    options: LaunchOptions,
    left: _Left,
    candidates: Sequence[Candidate],
    rules: ReplacementRules,
) -> _Left | NoReplacement:
    """For a single node the cheapest types, as many as minValues and the rule need.

    With all of them the replacement would likely be launched as another cheap type, which would be
    replaced in turn.
    """
    if not rules.spot_to_spot:
        return NoReplacement.SPOT_TO_SPOT
    if len(candidates) > 1:
        return left
    by_price = _by_price(options, left)
    needed = max(rules.spot_to_spot_types, _types_for_min_values(options, by_price, left.groups))
    kept = by_price[:needed]
    current = candidates[0].node.labels.get(INSTANCE_TYPE)
    names = {options.index.types[number].name for number in kept}
    if len(by_price) < rules.spot_to_spot_types or current in names:
        return NoReplacement.SPOT_TO_SPOT
    return _Left(union(1 << number for number in kept), left.groups)


def _by_price(options: LaunchOptions, left: _Left) -> list[int]:
    lowest: dict[int, float] = {}
    for number, _, offering in options.index.available_offerings(left.types, left.groups):
        lowest[number] = min(lowest.get(number, offering.price), offering.price)
    return sorted(lowest, key=lambda number: (lowest[number], options.index.types[number].name))


def _types_for_min_values(
    options: LaunchOptions, by_price: Sequence[int], groups: OfferingGroupSet
) -> int:
    """How many of the cheapest types meet minValues; all of them where none do."""
    types = 0
    for count, number in enumerate(by_price):
        if options.meets_min_values(types, groups):
            return count
        types |= 1 << number
    return len(by_price)


def _narrowed_claim(
    claim: PlannedNodeClaim, options: LaunchOptions, left: _Left
) -> PlannedNodeClaim:
    narrowed = msgspec.structs.replace(
        options,
        types=left.types,
        offering_groups=0 if options.held else left.groups,
        reserved_types=left.types if options.held else 0,
        min_values=(),
    )
    choice = choose_offering(narrowed, lambda _: 0)
    instance_type = options.index.types[choice.type_number]
    launch = PlannedLaunch(
        instance_type=instance_type.name,
        zone=zone_of(narrowed, choice),
        capacity_type=capacity_type_of(narrowed, choice),
        price=choice.offering.price,
        reservation_id=choice.offering.reservation_id,
        modelled_price=choice.offering.modelled,
    )
    requirements = claim.requirements
    if not options.held:
        required = Requirements.from_labels({CAPACITY_TYPE: launch.capacity_type})
        requirements = requirements.narrow(required)
    return msgspec.structs.replace(
        claim,
        requirements=requirements,
        choices=_remaining_options(claim, options, left, launch.capacity_type),
        launch=launch,
        fees=instance_type.fee,
    )


def _remaining_options(
    claim: PlannedNodeClaim, options: LaunchOptions, left: _Left, capacity_type: str
) -> RemainingOptions:
    index = options.index
    zones = index.remaining_values(
        ZONE, left.types, left.groups, options.requirements.allowed(ZONE)
    )
    return msgspec.structs.replace(
        claim.choices,
        instance_types=tuple(sorted(index.types[number].name for number in iter_bits(left.types))),
        zones=tuple(zones) or claim.choices.zones,
        capacity_types=(capacity_type,),
    )
