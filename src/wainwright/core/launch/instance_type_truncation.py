"""Instance type truncation: the types that a NodeClaim (600) or a launch request (60) names,
cheapest first, few but diverse enough for minValues.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from wainwright.core.launch.launch_choice import LaunchOptions, hourly_cost
from wainwright.core.scheduling.min_values import MinValues
from wainwright.model.bitset import union
from wainwright.model.instance_type import InstanceType

MAX_TYPES_PER_LAUNCH: Final = 60  # instance types in one launch request
MAX_TYPES_PER_CLAIM: Final = 600  # instance types written down in a claim

ValuesByKey: TypeAlias = Mapping[str, frozenset[str]]
"""By key: the values that one type has of it."""


def truncate_types(left: LaunchOptions, most: int) -> tuple[InstanceType, ...] | None:
    """At most so many types, cheapest first; None where minValues cannot be kept with so few."""
    ordered = _cheapest_first(left)
    chosen = ordered[:most]
    if len(ordered) > most and not _meets_min_values(left, chosen):
        chosen = _keeping_min_values(left, ordered, most)
    return tuple(left.index.types[row] for row in chosen) or None


def _meets_min_values(left: LaunchOptions, chosen: Sequence[int]) -> bool:
    return left.meets(union(1 << row for row in chosen), left.offering_groups | left.held)


def _cheapest_first(left: LaunchOptions) -> list[int]:
    costs: dict[int, float] = {}
    for row, _, offering in left.index.available_offerings(
        left.rows, left.offering_groups | left.held
    ):
        one = hourly_cost(left.index, row, offering)
        costs[row] = min(one, costs.get(row, one))
    return sorted(costs, key=lambda row: (costs[row], left.index.types[row].name))


def _keeping_min_values(left: LaunchOptions, ordered: Sequence[int], most: int) -> list[int]:
    """Types that keep the minValues between them, filled up with the cheapest."""
    values = {row: _values(left, row) for row in ordered}
    needed = _cheapest_for_each(left.minimums, values)
    if len(needed) > most:
        needed = _fewest(left.minimums, values, most)
    if len(needed) > most:
        return []
    rest = [row for row in ordered if row not in needed]
    kept = needed.union(rest[: most - len(needed)])
    chosen = [row for row in ordered if row in kept]
    return chosen if _meets_min_values(left, chosen) else []


def _values(left: LaunchOptions, row: int) -> ValuesByKey:
    offering_groups = left.offering_groups | left.held
    return {
        key: frozenset(
            left.index.remaining_values(
                key, 1 << row, offering_groups, left.requirements.allowed(key)
            )
        )
        for key, _ in left.minimums
    }


def _cheapest_for_each(wanted: MinValues, values: Mapping[int, ValuesByKey]) -> set[int]:
    """For every key the cheapest types that have enough values of it."""
    needed: set[int] = set()
    for key, count in wanted:
        seen: set[str] = set()
        for row, own in values.items():
            if len(seen) >= count:
                break
            if own[key] - seen:
                seen |= own[key]
                needed.add(row)
    return needed


def _fewest(wanted: MinValues, values: Mapping[int, ValuesByKey], most: int) -> set[int]:
    """Types that each bring as much as any other would, until there is enough of every key."""
    seen: dict[str, set[str]] = {key: set() for key, _ in wanted}
    chosen: set[int] = set()
    hoped = sum(count for _, count in wanted)
    while len(chosen) <= most and any(len(seen[key]) < count for key, count in wanted):
        hoped, row = _most_useful(wanted, values, seen, hoped)
        if not hoped:
            return set(values)  # not even all of them are enough
        chosen.add(row)
        for key, own in values[row].items():
            seen[key] |= own
    return chosen


def _most_useful(
    wanted: MinValues, values: Mapping[int, ValuesByKey], seen: Mapping[str, set[str]], hoped: int
) -> tuple[int, int]:
    """The cheapest of the types that bring the most; no type can bring more than is hoped for."""
    best, chosen = 0, -1
    for row, own in values.items():
        brought = sum(
            min(count - len(seen[key]), len(own[key] - seen[key]))
            for key, count in wanted
            if len(seen[key]) < count
        )
        if brought > best:
            best, chosen = brought, row
            if brought >= hoped:
                break
    return best, chosen
