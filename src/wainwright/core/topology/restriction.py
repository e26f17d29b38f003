"""Restrictions: what a bound leaves to a pod right now, as sets of nodes and drafts.

Of drafts that have settled on a value, a set says which will do. Those that have not, and new
nodes, must be made to: there are as many options as combinations of values that keep every
spread even, the emptiest first. Near and away need no combinations, they narrow the options.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice, product
from typing import Final

from wainwright.core.topology.bound import Bound
from wainwright.core.topology.domains import Domains, union_of
from wainwright.core.topology.groups import HostGroup, LabelGroup, spread_over
from wainwright.model.columns import Rows
from wainwright.model.labels import WELL_KNOWN
from wainwright.model.requirements import NO_REQUIREMENTS, Requirement, Requirements
from wainwright.model.values import ANYTHING, ValueSet, none_of, one_of

OPTIONS: Final = 64  # combinations of values that are tried at most


class Restriction:
    """Where one more pod of the bound may go."""

    __slots__ = ("_keys", "_options", "drafts", "near_a_node", "nodes", "undecided")

    def __init__(self, keys: "_Keys") -> None:
        self._keys = keys
        self._options: list[Requirements] | None = None
        self.nodes: Rows = -1
        self.drafts: Rows = -1
        """Of the drafts that have settled on all labels in question."""
        self.undecided: Rows = 0
        """Those that have not, and might do."""
        self.near_a_node = False
        """Whether only a node or draft that is there already will do."""

    @property
    def options(self) -> list[Requirements]:
        """What undecided drafts, and new nodes, have to be narrowed to: any of these."""
        if self._options is None:
            self._options = list(islice(self._keys.options(), OPTIONS))
        return self._options


def restriction(bound: Bound, domains: Domains) -> Restriction | None:
    """None where no place will do, whatever is there."""
    per_key = _Keys(domains)
    found = Restriction(per_key)
    _near(bound, found, per_key)
    for group in bound.full:
        found.nodes &= ~group.full_nodes
        found.drafts &= ~group.full
    for away in bound.away:
        per_key.avoid(away)
    for spread, itself in bound.spreads:
        per_key.spread(spread.key, spread_over(spread, itself=itself))
    return found if per_key.settle(found) else None


def _near(bound: Bound, found: Restriction, per_key: "_Keys") -> None:
    for groups, itself in bound.near:
        if itself and not any(map(_somewhere, groups)):
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


def _somewhere(group: LabelGroup | HostGroup) -> bool:
    return group.anywhere if isinstance(group, HostGroup) else bool(group.counts or group.pending)


class _Keys:
    """What is allowed of each label, put together."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._allowed: dict[str, ValueSet] = {}
        self._spread: dict[str, list[str]] = {}
        self._optional: dict[str, bool] = {}
        """Whether a node without the label will do as well."""

    def labelled(self, key: str) -> None:
        self._narrow(key, ANYTHING, optional=False)

    def near(self, group: LabelGroup) -> None:
        here = (value for value, count in group.counts.items() if count)
        self._narrow(group.key, one_of(here), optional=False)

    def avoid(self, group: LabelGroup) -> None:
        taken = [value for value, count in group.counts.items() if count]
        if taken or group.stuck:
            # Where a draft cannot settle in this round its pods might be anywhere.
            free = one_of(()) if group.stuck else none_of(taken)
            self._narrow(group.key, free, optional=True)

    def spread(self, key: str, values: list[str]) -> None:
        self._narrow(key, one_of(values), optional=False)
        before = self._spread.get(key)
        self._spread[key] = values if before is None else [v for v in before if v in values]

    def _narrow(self, key: str, allowed: ValueSet, *, optional: bool) -> None:
        before = self._allowed.get(key)
        self._allowed[key] = allowed if before is None else before & allowed
        self._optional[key] = self._optional.get(key, True) and optional

    def settle(self, found: Restriction) -> bool:
        """Whether anything is left."""
        undecided, possible = 0, True
        for key, allowed in self._allowed.items():
            optional = self._optional[key]
            found.nodes &= self._nodes(key, allowed, optional=optional)
            settled, maybe = self._drafts(key, allowed, optional=optional)
            found.drafts &= settled | maybe
            undecided |= maybe
            possible = possible and (optional or not allowed.empty)
        found.undecided = undecided & found.drafts
        found.drafts &= ~undecided
        new = possible and not found.near_a_node
        return bool(new or found.nodes or found.drafts or found.undecided)

    def _nodes(self, key: str, allowed: ValueSet, *, optional: bool) -> Rows:
        columns = self._domains.of_nodes[key]
        fine = union_of(columns, filter(allowed.admits, columns))
        return fine | self._domains.unlabelled[key] if optional else fine

    def _drafts(self, key: str, allowed: ValueSet, *, optional: bool) -> tuple[Rows, Rows]:
        columns = self._domains.of_drafts[key]
        fine = union_of(columns, filter(allowed.admits, columns))
        if optional:
            fine |= self._domains.lacking[key]
        return fine, 0 if allowed.empty else self._domains.undecided[key]

    def options(self) -> Iterable[Requirements]:
        """All combinations that keep every spread even, the emptiest places first."""
        keys = list(self._allowed)
        choices = [self._choices(key) for key in keys]
        for values in _emptiest_first(choices):
            pairs = zip(keys, values, strict=True)
            yield _asked(
                tuple((key, allowed) for key, allowed in pairs if self._says(key, allowed))
            )

    def _says(self, key: str, allowed: ValueSet) -> bool:
        """That a node has some zone goes without saying; that it has some label does not."""
        return allowed != ANYTHING or not (self._optional[key] or key in WELL_KNOWN)

    def _choices(self, key: str) -> list[ValueSet]:
        allowed = self._allowed[key]
        if key not in self._spread:
            return [allowed] if not allowed.empty or self._optional[key] else []
        return [one_of([value]) for value in self._spread[key] if allowed.admits(value)]


@lru_cache(maxsize=65536)
def _asked(pairs: tuple[tuple[str, ValueSet], ...]) -> Requirements:
    if not pairs:
        return NO_REQUIREMENTS
    return Requirements(Requirement(key=key, allowed=allowed) for key, allowed in pairs)


def _emptiest_first(choices: list[list[ValueSet]]) -> Iterable[tuple[ValueSet, ...]]:
    """All combinations, those with the best places in every list first."""
    if len(choices) == 1:
        return ((value,) for value in choices[0])
    ranked = product(*(list(enumerate(each)) for each in choices))
    ordered = sorted(ranked, key=lambda each: (sum(n for n, _ in each), [n for n, _ in each]))
    return (tuple(value for _, value in each) for each in ordered)
