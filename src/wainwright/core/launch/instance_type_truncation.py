"""Instance type truncation: the types that a NodeClaim (600) or a launch request (60) lists,
cheapest first, few but diverse enough for minValues.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from wainwright.core.launch.launch_choice import LaunchOptions, hourly_cost, options_of_claim
from wainwright.core.scheduling.constraints.min_values import MinValues
from wainwright.model.bitset import union
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import PlannedNodeClaim

MAX_TYPES_PER_LAUNCH: Final = 60  # instance types in one launch request
MAX_TYPES_PER_CLAIM: Final = 600  # instance types listed in a NodeClaim

ValuesByKey: TypeAlias = Mapping[str, frozenset[str]]
"""By key: the values that one type has."""


def claim_instance_types(claim: PlannedNodeClaim, index: InstanceTypeIndex) -> list[str]:
    """What a NodeClaim lists, cheapest first, truncated so that minValues hold if possible."""
    remaining_names = set(claim.choices.instance_types)
    kept = truncate_types(options_of_claim(claim, index), MAX_TYPES_PER_CLAIM) or index.types
    return [instance_type.name for instance_type in kept if instance_type.name in remaining_names][
        :MAX_TYPES_PER_CLAIM
    ]


def truncate_types(options: LaunchOptions, most: int) -> tuple[InstanceType, ...] | None:
    """At most `most` types, cheapest first; None if minValues cannot be met with so few."""
    ordered = _cheapest_first(options)
    chosen = ordered[:most]
    if len(ordered) > most and not _meets_min_values(options, chosen):
        chosen = _keeping_min_values(options, ordered, most)
    return tuple(options.index.types[type_number] for type_number in chosen) or None


def _meets_min_values(options: LaunchOptions, chosen: Sequence[int]) -> bool:
    return options.meets_min_values(
        union(1 << type_number for type_number in chosen), options.offering_groups | options.held
    )


def _cheapest_first(options: LaunchOptions) -> list[int]:
    costs: dict[int, float] = {}
    for type_number, _, offering in options.index.available_offerings(
        options.types, options.offering_groups | options.held
    ):
        cost = hourly_cost(options.index, type_number, offering)
        costs[type_number] = min(cost, costs.get(type_number, cost))
    return sorted(
        costs, key=lambda type_number: (costs[type_number], options.index.types[type_number].name)
    )


def _keeping_min_values(options: LaunchOptions, ordered: Sequence[int], most: int) -> list[int]:
    """Types that together meet minValues, filled up with the cheapest."""
    values = {type_number: _values(options, type_number) for type_number in ordered}
    needed = _cheapest_for_each(options.min_values, values)
    if len(needed) > most:
        needed = _fewest(options.min_values, values, most)
    if len(needed) > most:
        return []
    rest = [type_number for type_number in ordered if type_number not in needed]
    kept = needed.union(rest[: most - len(needed)])
    chosen = [type_number for type_number in ordered if type_number in kept]
    return chosen if _meets_min_values(options, chosen) else []


def _values(options: LaunchOptions, type_number: int) -> ValuesByKey:
    offering_groups = options.offering_groups | options.held
    return {
        key: frozenset(
            options.index.remaining_values(
                key, 1 << type_number, offering_groups, options.requirements.allowed(key)
            )
        )
        for key, _ in options.min_values
    }


def _cheapest_for_each(min_values: MinValues, values: Mapping[int, ValuesByKey]) -> set[int]:
    """For every key the cheapest types with enough values of it."""
    needed: set[int] = set()
    for key, count in min_values:
        seen: set[str] = set()
        for type_number, own in values.items():
            if len(seen) >= count:
                break
            if own[key] - seen:
                seen |= own[key]
                needed.add(type_number)
    return needed


def _fewest(min_values: MinValues, values: Mapping[int, ValuesByKey], most: int) -> set[int]:
    """Greedy set cover: types with the largest gain until every key has enough values."""
    seen: dict[str, set[str]] = {key: set() for key, _ in min_values}
    chosen: set[int] = set()
    upper_bound = sum(count for _, count in min_values)
    while len(chosen) <= most and any(len(seen[key]) < count for key, count in min_values):
        upper_bound, type_number = _most_useful(min_values, values, seen, upper_bound)
        if not upper_bound:
            return set(values)  # even all of them are not enough
        chosen.add(type_number)
        for key, own in values[type_number].items():
            seen[key] |= own
    return chosen


def _most_useful(
    min_values: MinValues,
    values: Mapping[int, ValuesByKey],
    seen: Mapping[str, set[str]],
    upper_bound: int,
) -> tuple[int, int]:
    """The cheapest of the types with the largest gain, which is at most `upper_bound`."""
    best, chosen = 0, -1
    for type_number, own in values.items():
        gain = sum(
            min(count - len(seen[key]), len(own[key] - seen[key]))
            for key, count in min_values
            if len(seen[key]) < count
        )
        if gain > best:
            best, chosen = gain, type_number
            if gain >= upper_bound:
                break
    return best, chosen
