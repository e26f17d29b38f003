"""Allowed domains: where topology constraints allow one more pod right now.

For drafts that have decided on a value, a set says which are allowed. Undecided drafts and new
nodes must be narrowed: there are as many options as combinations of values that keep every spread
within its skew, the emptiest first. Affinity and anti-affinity need no combinations, they only
narrow the options.
"""

from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice
from typing import Final, TypeAlias

from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.domains import Domains, union_of
from wainwright.core.scheduling.topology.groups import HostGroup, LabelGroup
from wainwright.model.bitset import BitSet
from wainwright.model.labels import WELL_KNOWN_LABELS
from wainwright.model.requirements import (
    ANY_VALUE,
    NO_REQUIREMENTS,
    Requirement,
    Requirements,
    ValueSet,
    none_of,
    one_of,
)

MAX_OPTIONS: Final = 64  # combinations of values that are tried at most

DomainCounts: TypeAlias = tuple[int, ...]
"""Pod count, or rank by it, for each spread; options with equal ones are equally good."""


RankedDomains: TypeAlias = tuple[list[Requirements], list[DomainCounts]]
ANYWHERE: Final[RankedDomains] = ([NO_REQUIREMENTS], [()])
"""One option, without requirements."""


class AllowedDomains:
    """Where one more pod with these constraints may go."""

    __slots__ = ("_ranked", "_values", "drafts", "existing_only", "nodes", "undecided_drafts")

    def __init__(
        self, values: "_AllowedValues | None", ranked: "RankedDomains | None" = None
    ) -> None:
        self._values = values
        self._ranked = ranked
        self.nodes: BitSet = -1
        self.drafts: BitSet = -1
        """Allowed drafts, of those that have decided on all labels in question."""
        self.undecided_drafts: BitSet = 0
        """Drafts that have not decided, and could decide on an allowed value."""
        self.existing_only = False
        """Whether only an existing node or draft is allowed, not a new one."""

    def among(self, drafts: BitSet) -> "AllowedDomains":
        """Restricts it to these drafts."""
        self.nodes, self.drafts, self.undecided_drafts = (
            0,
            self.drafts & drafts,
            self.undecided_drafts & drafts,
        )
        return self

    @property
    def options(self) -> list[Requirements]:
        """The requirements, any of which undecided drafts and new nodes must be narrowed to."""
        return self._in_order[0]

    @property
    def domain_counts(self) -> list[DomainCounts]:
        """The pod counts of each option."""
        return self._in_order[1]

    @property
    def _in_order(self) -> "RankedDomains":
        if self._ranked is None:
            assert self._values is not None
            combinations = list(islice(self._values.options(), MAX_OPTIONS))
            self._ranked = (
                [requirements for requirements, _ in combinations],
                [counts for _, counts in combinations],
            )
        return self._ranked


def domains_within_skew(group: LabelGroup, *, itself: bool) -> list[str]:
    """The values where one more pod keeps within the skew, the emptiest first.

    `itself` says whether the pod is one of those that are counted.
    """
    assert group.spread is not None
    counts = group.counts
    counts_in_order = [counts.get(value, 0) for value in group.domains]
    min_domains = group.spread.min_domains
    has_too_few_domains = bool(group.outside_drafts) or (
        min_domains is not None and len(counts_in_order) < min_domains
    )
    lowest = 0 if has_too_few_domains else min(counts_in_order, default=0)
    if lowest and group.uncertain_counts:
        uncertain = group.uncertain_counts
        lowest = min(counts.get(value, 0) - uncertain.get(value, 0) for value in group.domains)
    # Pods on drafts that cannot decide yet might be in any domain.
    undecided_pods = sum(group.undecided_counts.values()) if group.deferred_drafts else 0
    highest = lowest + group.spread.max_skew - itself - undecided_pods
    pairs = zip(counts_in_order, group.domains, strict=True)
    return [value for count, value in sorted(pairs) if count <= highest]


def allowed_domains(constraints: TopologyConstraints, domains: Domains) -> AllowedDomains | None:
    """None if no place is allowed."""
    if constraints.is_by_host_only and not constraints.required_labels:
        return _not_full(constraints)
    values = _AllowedValues(domains)
    allowed = AllowedDomains(values)
    for key in constraints.required_labels:
        values.require_label(key)
    _apply_affinity(constraints, allowed, values)
    _exclude_full(constraints, allowed)
    for avoided in constraints.anti_affinity:
        values.apply_anti_affinity(avoided)
    for spread, itself in constraints.spreads:
        values.apply_spread(spread, itself=itself)
    return allowed if values.apply_to(allowed) else None


def _not_full(constraints: TopologyConstraints) -> AllowedDomains:
    """The same for constraints by hostname: saves looking for labels that do not matter."""
    allowed = AllowedDomains(None, ANYWHERE)
    _exclude_full(constraints, allowed)
    return allowed


def _exclude_full(constraints: TopologyConstraints, allowed: AllowedDomains) -> None:
    full_nodes = full_drafts = 0
    for group in constraints.host_groups:
        full_nodes |= group.full_nodes
        full_drafts |= group.full_drafts
    allowed.nodes &= ~full_nodes
    allowed.drafts &= ~full_drafts


def _apply_affinity(
    constraints: TopologyConstraints, allowed: AllowedDomains, values: "_AllowedValues"
) -> None:
    for groups, itself in constraints.affinity:
        if itself and not any(map(_has_pods, groups)):
            # The first pod of its own affinity group may go anywhere with the topology label.
            for group in groups:
                if isinstance(group, LabelGroup):
                    values.require_label(group.key)
            continue
        for group in groups:
            if isinstance(group, HostGroup):
                allowed.nodes &= group.full_nodes
                allowed.drafts &= group.full_drafts
                allowed.existing_only = True
            else:
                values.require_affinity(group)


def _has_pods(group: LabelGroup | HostGroup) -> bool:
    return (
        group.has_pods
        if isinstance(group, HostGroup)
        else bool(group.counts or group.undecided_counts)
    )


class _AllowedValues:
    """The allowed values of each label, over all constraints."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._allowed: dict[str, ValueSet] = {}
        self._spread: dict[str, dict[str, int]] = {}
        """By label the values within the skew of every spread with pod counts, emptiest first."""
        self._optional: dict[str, bool] = {}
        """Whether a node without the label is allowed as well."""

    def require_label(self, key: str) -> None:
        self._narrow(key, ANY_VALUE, optional=False)

    def require_affinity(self, group: LabelGroup) -> None:
        occupied = (value for value, count in group.counts.items() if count)
        self._narrow(group.key, one_of(occupied), optional=False)

    def apply_anti_affinity(self, group: LabelGroup) -> None:
        occupied = [value for value, count in group.counts.items() if count]
        if occupied or group.deferred_drafts:
            # The pods of a draft that cannot decide in this round might be in any domain.
            free = one_of(()) if group.deferred_drafts else none_of(occupied)
            self._narrow(group.key, free, optional=True)

    def apply_spread(self, group: LabelGroup, *, itself: bool) -> None:
        key, values = group.key, domains_within_skew(group, itself=itself)
        self._narrow(key, one_of(values), optional=False)
        before = self._spread.get(key)
        if before is None:
            self._spread[key] = {value: group.counts.get(value, 0) for value in values}
        else:
            self._spread[key] = {v: count for v, count in before.items() if v in values}

    def _narrow(self, key: str, allowed: ValueSet, *, optional: bool) -> None:
        before = self._allowed.get(key)
        self._allowed[key] = allowed if before is None else before & allowed
        self._optional[key] = self._optional.get(key, True) and optional

    def apply_to(self, result: AllowedDomains) -> bool:
        """Restricts nodes and drafts to the allowed values; returns whether anything is left."""
        undecided, has_values = 0, True
        for key, allowed in self._allowed.items():
            optional = self._optional[key]
            result.nodes &= self._nodes(key, allowed, optional=optional)
            decided, possible = self._drafts(key, allowed, optional=optional)
            result.drafts &= decided | possible
            undecided |= possible
            has_values = has_values and (optional or not allowed.is_empty)
        result.undecided_drafts = undecided & result.drafts
        result.drafts &= ~undecided
        can_open_node = has_values and not result.existing_only
        return bool(can_open_node or result.nodes or result.drafts or result.undecided_drafts)

    def _nodes(self, key: str, allowed: ValueSet, *, optional: bool) -> BitSet:
        by_value = self._domains.nodes_by_value[key]
        nodes = union_of(by_value, filter(allowed.admits, by_value))
        return nodes | self._domains.nodes_without(key) if optional else nodes

    def _drafts(self, key: str, allowed: ValueSet, *, optional: bool) -> tuple[BitSet, BitSet]:
        by_value = self._domains.drafts_by_value[key]
        decided = union_of(by_value, filter(allowed.admits, by_value))
        if optional:
            decided |= self._domains.drafts_without(key)
        return decided, 0 if allowed.is_empty else self._domains.undecided_drafts[key]

    def options(self) -> Iterator[tuple[Requirements, DomainCounts]]:
        """All combinations of values within the skew of every spread, the emptiest first."""
        keys = list(self._allowed)
        choices = [self._choices(key) for key in keys]
        for values, counts in _emptiest_first(choices):
            pairs = zip(keys, values, strict=True)
            stated = tuple(
                (key, allowed) for key, allowed in pairs if self._must_state(key, allowed)
            )
            yield _requirements_of(stated), counts

    def _must_state(self, key: str, allowed: ValueSet) -> bool:
        """Whether requirements must state the key: every node has a zone, but not every label."""
        return allowed != ANY_VALUE or not (self._optional[key] or key in WELL_KNOWN_LABELS)

    def _choices(self, key: str) -> list[tuple[ValueSet, int]]:
        """The values, with their pod counts."""
        allowed = self._allowed[key]
        if key not in self._spread:
            return [(allowed, 0)] if not allowed.is_empty or self._optional[key] else []
        counted = self._spread[key].items()
        return [(one_of([value]), count) for value, count in counted if allowed.admits(value)]


# Cached because the same combinations come up for every pod: saves building them, and finding
# them in `narrowed_levels` is quick as equal ones are one object.
@lru_cache(maxsize=65536)
def _requirements_of(pairs: tuple[tuple[str, ValueSet], ...]) -> Requirements:
    if not pairs:
        return NO_REQUIREMENTS
    return Requirements(Requirement(key=key, allowed=allowed) for key, allowed in pairs)


def _emptiest_first(
    choices: list[list[tuple[ValueSet, int]]],
) -> Iterator[tuple[tuple[ValueSet, ...], DomainCounts]]:
    """All combinations, those with the lowest ranks first; of equal ones in the order of choices.

    One by one, as few are needed: of four labels with some hundred values there are billions.
    """
    if len(choices) == 1:
        yield from (((values,), (count,)) for values, count in choices[0])
        return
    ranked = [_ranks(each) for each in choices]
    if not all(ranked):
        return
    open_labels = [number for number, each in enumerate(ranked) if len(each) > 1]
    waiting = [_combination((0,) * len(ranked), ranked, 0)]
    while waiting:
        _, ranks, chosen, first = heappop(waiting)
        values = (each[number][1] for each, number in zip(ranked, chosen, strict=True))
        yield tuple(values), ranks
        # A value further on for one label, which leads to every combination once. Ranks do not get
        # lower by that, so that whatever is best now stays better than what it leads to.
        for position in range(first, len(open_labels)):
            label = open_labels[position]
            following = chosen[label] + 1
            if following < len(ranked[label]):
                further = (*chosen[:label], following, *chosen[label + 1 :])
                heappush(waiting, _combination(further, ranked, position))


def _combination(
    chosen: tuple[int, ...], ranked: list[list[tuple[int, ValueSet]]], first: int
) -> tuple[int, DomainCounts, tuple[int, ...], int]:
    """What it is sorted by, the choice of each label, and the first that may go further."""
    ranks = tuple(each[number][0] for each, number in zip(ranked, chosen, strict=True))
    return sum(ranks), ranks, chosen, first


def _ranks(choices: list[tuple[ValueSet, int]]) -> list[tuple[int, ValueSet]]:
    """Each value with its rank by pod count: 0 for the emptiest, which comes first."""
    counts = sorted({count for _, count in choices})
    rank_of = {count: rank for rank, count in enumerate(counts)}
    return [(rank_of[count], values) for values, count in choices]
