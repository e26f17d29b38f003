"""Allowed domains: what topology constraints leave to one more pod right now.

Of drafts that have decided on a value, a set says which are allowed. Those that have not, and new
nodes, must be narrowed: there are as many options as combinations of values that keep every spread
within its skew, the emptiest first. Affinity and anti-affinity need no combinations, they narrow
the options.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, product
from typing import Final, TypeAlias

from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.domains import Domains, union_of
from wainwright.core.scheduling.topology.groups import HostGroup, LabelGroup, domains_within_skew
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
"""How full a place is in the eyes of each spread; places of which it is the same are equal."""


class AllowedDomains:
    """Where one more pod of the bound may go."""

    __slots__ = ("_keys", "_ranked", "drafts", "near_a_node", "nodes", "undecided")

    def __init__(self, keys: "_AllowedValues") -> None:
        self._keys = keys
        self._ranked: tuple[list[Requirements], list[DomainCounts]] | None = None
        self.nodes: BitSet = -1
        self.drafts: BitSet = -1
        """Of the drafts that have settled on all labels in question."""
        self.undecided: BitSet = 0
        """Those that have not, and might do."""
        self.near_a_node = False
        """Whether only a node or draft that is there already will do."""

    def among(self, drafts: BitSet) -> "AllowedDomains":
        """What it leaves of these."""
        self.nodes, self.drafts, self.undecided = 0, self.drafts & drafts, self.undecided & drafts
        return self

    @property
    def options(self) -> list[Requirements]:
        """What undecided drafts, and new nodes, have to be narrowed to: any of these."""
        return self._in_order[0]

    @property
    def crowds(self) -> list[DomainCounts]:
        """Of each option."""
        return self._in_order[1]

    @property
    def _in_order(self) -> tuple[list[Requirements], list[DomainCounts]]:
        if self._ranked is None:
            found = list(islice(self._keys.options(), MAX_OPTIONS))
            self._ranked = [asked for asked, _ in found], [crowd for _, crowd in found]
        return self._ranked


def allowed_domains(bound: TopologyConstraints, domains: Domains) -> AllowedDomains | None:
    """None where no place will do, whatever is there."""
    per_key = _AllowedValues(domains)
    found = AllowedDomains(per_key)
    for key in bound.there:
        per_key.labelled(key)
    _apply_affinity(bound, found, per_key)
    for group in bound.full:
        found.nodes &= ~group.full_nodes
        found.drafts &= ~group.full
    for away in bound.away:
        per_key.avoid(away)
    for spread, itself in bound.spreads:
        per_key.spread(spread, itself=itself)
    return found if per_key.settle(found) else None


def _apply_affinity(
    bound: TopologyConstraints, found: AllowedDomains, per_key: "_AllowedValues"
) -> None:
    for groups, itself in bound.near:
        if itself and not any(map(_has_pods, groups)):
            # The first of its kind may go anywhere, as long as there is a label to stick to.
            for group in groups:
                if isinstance(group, LabelGroup):
                    per_key.labelled(group.key)
            continue
        for group in groups:
            if isinstance(group, HostGroup):
                found.nodes &= group.full_nodes
                found.drafts &= group.full
                found.near_a_node = True
            else:
                per_key.near(group)


def _has_pods(group: LabelGroup | HostGroup) -> bool:
    return group.anywhere if isinstance(group, HostGroup) else bool(group.counts or group.pending)


class _AllowedValues:
    """What is allowed of each label, put together."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._allowed: dict[str, ValueSet] = {}
        self._spread: dict[str, dict[str, int]] = {}
        """By label the values that keep every spread even, the emptiest first, and how full."""
        self._optional: dict[str, bool] = {}
        """Whether a node without the label will do as well."""

    def labelled(self, key: str) -> None:
        self._narrow(key, ANY_VALUE, optional=False)

    def near(self, group: LabelGroup) -> None:
        here = (value for value, count in group.counts.items() if count)
        self._narrow(group.key, one_of(here), optional=False)

    def avoid(self, group: LabelGroup) -> None:
        taken = [value for value, count in group.counts.items() if count]
        if taken or group.stuck:
            # Where a draft cannot settle in this round its pods might be anywhere.
            free = one_of(()) if group.stuck else none_of(taken)
            self._narrow(group.key, free, optional=True)

    def spread(self, group: LabelGroup, *, itself: bool) -> None:
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

    def settle(self, found: AllowedDomains) -> bool:
        """Whether anything is left."""
        undecided, possible = 0, True
        for key, allowed in self._allowed.items():
            optional = self._optional[key]
            found.nodes &= self._nodes(key, allowed, optional=optional)
            settled, maybe = self._drafts(key, allowed, optional=optional)
            found.drafts &= settled | maybe
            undecided |= maybe
            possible = possible and (optional or not allowed.is_empty)
        found.undecided = undecided & found.drafts
        found.drafts &= ~undecided
        new = possible and not found.near_a_node
        return bool(new or found.nodes or found.drafts or found.undecided)

    def _nodes(self, key: str, allowed: ValueSet, *, optional: bool) -> BitSet:
        columns = self._domains.of_nodes[key]
        fine = union_of(columns, filter(allowed.admits, columns))
        return fine | self._domains.unlabelled[key] if optional else fine

    def _drafts(self, key: str, allowed: ValueSet, *, optional: bool) -> tuple[BitSet, BitSet]:
        columns = self._domains.of_drafts[key]
        fine = union_of(columns, filter(allowed.admits, columns))
        if optional:
            fine |= self._domains.lacking[key]
        return fine, 0 if allowed.is_empty else self._domains.undecided[key]

    def options(self) -> Iterator[tuple[Requirements, DomainCounts]]:
        """All combinations that keep every spread even, the emptiest places first."""
        keys = list(self._allowed)
        choices = [self._choices(key) for key in keys]
        for values, crowd in _emptiest_first(choices):
            pairs = zip(keys, values, strict=True)
            said = tuple((key, allowed) for key, allowed in pairs if self._says(key, allowed))
            yield _requirements_of(said), crowd

    def _says(self, key: str, allowed: ValueSet) -> bool:
        """That a node has some zone goes without saying; that it has some label does not."""
        return allowed != ANY_VALUE or not (self._optional[key] or key in WELL_KNOWN_LABELS)

    def _choices(self, key: str) -> list[tuple[ValueSet, int]]:
        """The values, and how full each is."""
        allowed = self._allowed[key]
        if key not in self._spread:
            return [(allowed, 0)] if not allowed.is_empty or self._optional[key] else []
        counted = self._spread[key].items()
        return [(one_of([value]), count) for value, count in counted if allowed.admits(value)]


@lru_cache(maxsize=65536)
def _requirements_of(pairs: tuple[tuple[str, ValueSet], ...]) -> Requirements:
    if not pairs:
        return NO_REQUIREMENTS
    return Requirements(Requirement(key=key, allowed=allowed) for key, allowed in pairs)


def _emptiest_first(
    choices: list[list[tuple[ValueSet, int]]],
) -> Iterator[tuple[tuple[ValueSet, ...], DomainCounts]]:
    """All combinations, those with the best places in every list first."""
    if len(choices) == 1:
        return (((values,), (count,)) for values, count in choices[0])
    ranked = product(*map(_ranks, choices))
    ordered = sorted(ranked, key=lambda each: (sum(rank for rank, _ in each), _domain_counts(each)))
    return ((tuple(values for _, values in each), _domain_counts(each)) for each in ordered)


def _ranks(choices: list[tuple[ValueSet, int]]) -> list[tuple[int, ValueSet]]:
    """Each with its rank among the others: 0 for the emptiest."""
    counts = sorted({count for _, count in choices})
    return [(counts.index(count), values) for values, count in choices]


def _domain_counts(each: tuple[tuple[int, ValueSet], ...]) -> DomainCounts:
    return tuple(rank for rank, _ in each)
