"""What a pod asks for, from all that it would like to what it must have.

The order in which preferences are given up: to be near pods, to be away from them, nodes, even
spreads, and at last that it stays off nodes whose taint asks it to. Of each kind the heaviest goes
first. Of the preferred nodes only the heaviest left count.
"""

from collections.abc import Iterator

import msgspec

from wainwright.model.options import PreferencePolicy
from wainwright.model.pod import Pod
from wainwright.model.preference import (
    AwayFromPods,
    GivenUp,
    NearPods,
    OnNodes,
    OnUntainted,
    SpreadEvenly,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.taints import TOLERATE_PREFERENCES
from wainwright.model.topology import Company, Spread


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has given up so much."""

    pod: Pod
    """With the tolerations that it has by now, and places as its alternatives."""
    asked: tuple[Requirements, ...]
    """Its own alternatives, before volumes and preferences narrow them."""
    reach: tuple[Requirements, ...]
    """The same with its volumes."""
    spreads: tuple[Spread, ...]
    near: tuple[tuple[Company, ...], ...]
    """Terms of which each has to hold; those of one tuple speak of the same pods."""
    away: tuple[Company, ...]
    given_up: tuple[GivenUp, ...]
    there: tuple[str, ...] = ()
    """Labels that the node must have, whatever their values."""


def wants(pod: Pod, policy: PreferencePolicy, *, soft_taints: bool) -> Iterator[Want]:
    """`soft_taints` tells whether any pool or node has a taint that only asks."""
    wishes: list[GivenUp] = _preferences(pod) if policy is PreferencePolicy.RESPECT else []
    last: list[GivenUp] = [OnUntainted()] if soft_taints else []
    for count in range(len(wishes) + len(last) + 1):
        given, kept = (*wishes, *last)[:count], wishes[count:]
        places = _places(pod, _liked(pod, kept))
        if places:
            yield _want(pod, places, kept, given)


def _preferences(pod: Pod) -> list[GivenUp]:
    bonds = pod.bonds
    return [
        *(NearPods(term=each.term, weight=each.weight) for each in bonds.preferred_affinity),
        *(AwayFromPods(term=p.term, weight=p.weight) for p in bonds.preferred_anti_affinity),
        *(
            OnNodes(requirements=str(each.requirements), weight=each.weight)
            for each in bonds.preferred_nodes
        ),
        *(SpreadEvenly(spread=spread) for spread in bonds.spreads if not spread.required),
    ]


def _want(
    pod: Pod, places: tuple[Requirements, ...], kept: list[GivenUp], given: tuple[GivenUp, ...]
) -> Want:
    bonds = pod.bonds
    soft = [each.spread for each in kept if isinstance(each, SpreadEvenly)]
    near = [(each.term,) for each in kept if isinstance(each, NearPods)]
    away = [each.term for each in kept if isinstance(each, AwayFromPods)]
    extra = (TOLERATE_PREFERENCES,) if OnUntainted() in given else ()
    return Want(
        pod=msgspec.structs.replace(
            pod, alternatives=places, tolerations=(*pod.tolerations, *extra)
        ),
        asked=pod.alternatives,
        reach=_places(pod, NO_REQUIREMENTS),
        spreads=tuple(spread for spread in bonds.spreads if spread.required or spread in soft),
        near=(*((bonds.affinity,) if bonds.affinity else ()), *near),
        away=(*bonds.anti_affinity, *away),
        given_up=given,
    )


def _liked(pod: Pod, kept: list[GivenUp]) -> Requirements:
    nodes = sum(isinstance(each, OnNodes) for each in kept)
    return pod.bonds.preferred_nodes[-nodes].requirements if nodes else NO_REQUIREMENTS


def _places(pod: Pod, liked: Requirements) -> tuple[Requirements, ...]:
    """Each alternative with each place of its volumes, on the nodes that it likes."""
    found: dict[Requirements, None] = {}
    for alternative in pod.alternatives:
        for volumes in pod.bonds.volume_places:
            wanted = both(both(alternative, volumes), liked)
            if wanted is not None:
                found[wanted] = None
    return tuple(found)


def both(one: Requirements | None, other: Requirements) -> Requirements | None:
    """What is asked by both; None where no node can satisfy them."""
    if one is None or not one.compatible(other, set(other)):
        return None
    return one.narrow(other)
