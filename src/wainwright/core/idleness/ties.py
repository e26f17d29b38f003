"""Ties: where other pods leave a pod no place, now that all are where the plan has them.

The plan decided one pod after the other, and this looks at the end of it: what still rules a place
out is a reason. What once did and does no more cannot be named, only that it may have been so.
"""

from collections.abc import Callable
from typing import TypeAlias

from wainwright.core.topology.bound import Bound
from wainwright.core.topology.groups import AnyGroup, HostGroup, Kind, LabelGroup, spread_over
from wainwright.model.obstacle import Tied
from wainwright.model.requirements import Requirements
from wainwright.model.values import ANYTHING, ValueSet, none_of, one_of

Left: TypeAlias = dict[str, ValueSet]
"""By label the values that will do."""


class Tie:
    """What the others leave to a pod, as if it was not where it is."""

    def __init__(self, bound: Bound, counting: frozenset[int], at: Callable[[str], str]) -> None:
        self._counting = counting
        """The numbers of the groups that count the pod itself."""
        self._at = at
        """The values of labels where it is."""
        self._left: Left = {}
        self._spared: Left = {}
        """What is left by those who do not want it near."""
        self._needed: set[str] = set()
        """Labels without which no node will do."""
        near = (group for groups, _ in bound.near for group in groups)
        others = any(map(self._places, (*bound.away, *near)))
        self.is_concerned = others or bool(bound.spreads)
        """Whether a new node for it cannot be just anywhere."""
        self._spread(bound)
        self._near(bound)
        for group in bound.away:
            left = self._spared if group.kind is Kind.SHUNNED else self._left
            _narrow(left, group.key, none_of(self._places(group)))

    def against(self, machine: Requirements) -> Tied | None:
        """By which labels a new node like that will not do, if any."""
        own = [key for key in self._left if self._bars(key, self._left, machine)]
        if own:
            return Tied(keys=tuple(sorted(own)))
        theirs = [key for key in self._spared if self._bars(key, self._spared, machine)]
        if theirs:
            return Tied(keys=tuple(sorted(theirs)), theirs=True)
        both = {key: self._left[key] & self._spared[key] for key in {*self._left} & {*self._spared}}
        keys = [key for key in both if self._bars(key, both, machine)]
        return Tied(keys=tuple(sorted(keys))) if keys else None

    def _bars(self, key: str, left: Left, machine: Requirements) -> bool:
        offered = machine[key].allowed if key in machine else None
        if offered is None or offered.empty:
            return left is self._left and key in self._needed
        return (offered & left[key]).empty

    def _spread(self, bound: Bound) -> None:
        for group, itself in bound.spreads:
            others = group.fork()
            if group.number in self._counting:
                others.add(self._at(group.key), -1)
            self._need(group.key, one_of(spread_over(others, itself=itself)))

    def _near(self, bound: Bound) -> None:
        for groups, itself in bound.near:
            alone = itself and not any(map(self._places, groups))
            for group in groups:
                allowed = ANYTHING if alone else one_of(self._places(group))
                if isinstance(group, LabelGroup) or not alone:
                    self._need(group.key, allowed)

    def _need(self, key: str, allowed: ValueSet) -> None:
        _narrow(self._left, key, allowed)
        self._needed.add(key)

    def _places(self, group: AnyGroup) -> list[str]:
        """Where others of the group are; of nodes only that there are some."""
        itself = group.number in self._counting
        if isinstance(group, HostGroup):
            return ["a node that stands"] if group.total > itself else []
        own = self._at(group.key) if itself else None
        return [value for value, count in group.counts.items() if count > (value == own)]


def _narrow(left: Left, key: str, allowed: ValueSet) -> None:
    left[key] = left.get(key, ANYTHING) & allowed
