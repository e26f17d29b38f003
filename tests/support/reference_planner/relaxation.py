"""The relaxation levels of a pod, from all of its preferences to its hard requirements.
Preferences are relaxed in this order: pod affinity, pod anti-affinity, node affinity, soft spreads,
and last PreferNoSchedule taints. Of each kind the one with the highest weight goes first. Of the
preferred node terms only the heaviest remaining one counts.
"""

from collections.abc import Iterator

import msgspec

from wainwright.model.plan import PreferencePolicy
from wainwright.model.pod import AffinityTerm, Pod, TopologySpread
from wainwright.model.reasons import (
    PreferNoScheduleTaint,
    PreferredNodeAffinity,
    PreferredPodAffinity,
    PreferredPodAntiAffinity,
    PreferredTopologySpread,
    RelaxedPreference,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.taints import TOLERATE_PREFER_NO_SCHEDULE


class RelaxedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod at one relaxation level."""

    pod: Pod
    """With the tolerations of this level, and its node alternatives."""
    asked: tuple[Requirements, ...]
    """The pod's alternatives, before volumes and preferences narrow them."""
    reach: tuple[Requirements, ...]
    """The alternatives narrowed by its volumes."""
    spreads: tuple[TopologySpread, ...]
    near: tuple[tuple[AffinityTerm, ...], ...]
    """Terms that must all hold; those of one tuple select the same pods."""
    away: tuple[AffinityTerm, ...]
    given_up: tuple[RelaxedPreference, ...]
    there: tuple[str, ...] = ()
    """Labels that the node must have, whatever their values."""


def relaxation_levels(
    pod: Pod, policy: PreferencePolicy, *, soft_taints: bool
) -> Iterator[RelaxedPod]:
    """`soft_taints`: whether any pool or node has a PreferNoSchedule taint."""
    preferences: list[RelaxedPreference] = (
        _preferences(pod) if policy is PreferencePolicy.RESPECT else []
    )
    last: list[RelaxedPreference] = [PreferNoScheduleTaint()] if soft_taints else []
    for count in range(len(preferences) + len(last) + 1):
        given, kept = (*preferences, *last)[:count], preferences[count:]
        places = _alternatives(pod, _preferred_requirements(pod, kept))
        if places:
            yield _relaxed_pod(pod, places, kept, given)


def _preferences(pod: Pod) -> list[RelaxedPreference]:
    constraints = pod.constraints
    return [
        *(
            PreferredPodAffinity(term=each.term, weight=each.weight)
            for each in constraints.preferred_affinity
        ),
        *(
            PreferredPodAntiAffinity(term=p.term, weight=p.weight)
            for p in constraints.preferred_anti_affinity
        ),
        *(
            PreferredNodeAffinity(requirements=str(each.requirements), weight=each.weight)
            for each in constraints.preferred_nodes
        ),
        *(
            PreferredTopologySpread(spread=spread)
            for spread in constraints.spreads
            if not spread.required
        ),
    ]


def _relaxed_pod(
    pod: Pod,
    places: tuple[Requirements, ...],
    kept: list[RelaxedPreference],
    given: tuple[RelaxedPreference, ...],
) -> RelaxedPod:
    constraints = pod.constraints
    soft = [each.spread for each in kept if isinstance(each, PreferredTopologySpread)]
    near = [(each.term,) for each in kept if isinstance(each, PreferredPodAffinity)]
    away = [each.term for each in kept if isinstance(each, PreferredPodAntiAffinity)]
    extra = (TOLERATE_PREFER_NO_SCHEDULE,) if PreferNoScheduleTaint() in given else ()
    return RelaxedPod(
        pod=msgspec.structs.replace(
            pod, alternatives=places, tolerations=(*pod.tolerations, *extra)
        ),
        asked=pod.alternatives,
        reach=_alternatives(pod, NO_REQUIREMENTS),
        spreads=tuple(
            spread for spread in constraints.spreads if spread.required or spread in soft
        ),
        near=(*((constraints.affinity,) if constraints.affinity else ()), *near),
        away=(*constraints.anti_affinity, *away),
        given_up=given,
    )


def _preferred_requirements(pod: Pod, kept: list[RelaxedPreference]) -> Requirements:
    nodes = sum(isinstance(each, PreferredNodeAffinity) for each in kept)
    return pod.constraints.preferred_nodes[-nodes].requirements if nodes else NO_REQUIREMENTS


def _alternatives(pod: Pod, liked: Requirements) -> tuple[Requirements, ...]:
    """Each alternative combined with each volume topology and the preferred nodes."""
    found: dict[Requirements, None] = {}
    for alternative in pod.alternatives:
        for volumes in pod.constraints.volume_topology:
            wanted = intersect(intersect(alternative, volumes), liked)
            if wanted is not None:
                found[wanted] = None
    return tuple(found)


def intersect(one: Requirements | None, other: Requirements) -> Requirements | None:
    """The intersection; None where no node can satisfy both."""
    if one is None or not one.is_compatible(other, set(other)):
        return None
    return one.narrow(other)
