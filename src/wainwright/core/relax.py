"""Relaxing: which preferences a pod gives up, and in which order, until it finds a place.

First those about company: to be near, then to be away; then about nodes; then how evenly it is
spread; and last of all that it would rather not be where a taint asks it not to be. Of each kind
the heaviest goes first. What is required is never given up.
"""

from collections.abc import Iterator

import msgspec

from wainwright.model.options import PreferencePolicy
from wainwright.model.pod import Bonds, PreferredNodes
from wainwright.model.preference import (
    AwayFromPods,
    GivenUp,
    NearPods,
    OnNodes,
    OnUntainted,
    SpreadEvenly,
)
from wainwright.model.topology import Company, Preferred, Spread


class Degree(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod still asks for after it has given up so much."""

    spreads: tuple[Spread, ...] = ()
    affinity: tuple[Company, ...] = ()
    anti_affinity: tuple[Company, ...] = ()
    near: tuple[Preferred, ...] = ()
    away: tuple[Preferred, ...] = ()
    nodes: tuple[PreferredNodes, ...] = ()
    """Only the first of these counts; the next does when it is given up."""
    tolerates_preferences: bool = False
    """Whether it goes where a taint asks it not to, if it must."""
    given_up: tuple[GivenUp, ...] = ()

    def less(self) -> "Degree | None":
        """The same with the next preference given up; None where there is none left."""
        replace, given = msgspec.structs.replace, self.given_up
        if self.near:
            lost = NearPods(term=self.near[0].term, weight=self.near[0].weight)
            return replace(self, near=self.near[1:], given_up=(*given, lost))
        if self.away:
            apart = AwayFromPods(term=self.away[0].term, weight=self.away[0].weight)
            return replace(self, away=self.away[1:], given_up=(*given, apart))
        if self.nodes:
            first = self.nodes[0]
            left = OnNodes(requirements=str(first.requirements), weight=first.weight)
            return replace(self, nodes=self.nodes[1:], given_up=(*given, left))
        return self._uneven()

    def _uneven(self) -> "Degree | None":
        soft = next((each for each in self.spreads if not each.required), None)
        if soft is None:
            return None
        kept = tuple(each for each in self.spreads if each is not soft)
        lost = SpreadEvenly(spread=soft)
        return msgspec.structs.replace(self, spreads=kept, given_up=(*self.given_up, lost))


def degrees(bonds: Bonds, policy: PreferencePolicy, *, tainted: bool) -> Iterator[Degree]:
    """From all that the pod would like to what it must have.

    `tainted` tells whether any pool or node asks pods not to come by a taint that does not bind.
    """
    now: Degree | None = _all(bonds) if policy is PreferencePolicy.RESPECT else _must(bonds)
    last = now
    while now is not None:
        yield now
        last, now = now, now.less()
    if tainted and last is not None:
        given = (*last.given_up, OnUntainted())
        yield msgspec.structs.replace(last, tolerates_preferences=True, given_up=given)


def _all(bonds: Bonds) -> Degree:
    return Degree(
        spreads=bonds.spreads,
        affinity=bonds.affinity,
        anti_affinity=bonds.anti_affinity,
        near=bonds.preferred_affinity,
        away=bonds.preferred_anti_affinity,
        nodes=bonds.preferred_nodes,
    )


def _must(bonds: Bonds) -> Degree:
    return Degree(
        spreads=tuple(each for each in bonds.spreads if each.required),
        affinity=bonds.affinity,
        anti_affinity=bonds.anti_affinity,
    )
