"""Relaxation: which preferences a pod gives up, and in which order, until it can be scheduled.

First preferred pod affinity, then preferred pod anti-affinity, then preferred node affinity, then
ScheduleAnyway topology spread, and last PreferNoSchedule taints. Of each kind the heaviest goes
first. What is required is never given up.
"""

from collections.abc import Iterator

import msgspec

from wainwright.model.plan import PreferencePolicy
from wainwright.model.pod import (
    AffinityTerm,
    PodConstraints,
    PreferredNodeTerm,
    TopologySpread,
    WeightedAffinityTerm,
)
from wainwright.model.reasons import (
    PreferNoScheduleTaint,
    PreferredNodeAffinity,
    PreferredPodAffinity,
    PreferredPodAntiAffinity,
    PreferredTopologySpread,
    RelaxedPreference,
)


class RelaxedConstraints(msgspec.Struct, frozen=True, kw_only=True):
    """The constraints that are left of a pod after some of its preferences were given up."""

    spreads: tuple[TopologySpread, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_nodes: tuple[PreferredNodeTerm, ...] = ()
    """Only the first of these applies; when it is given up the next one does."""
    tolerates_preferences: bool = False
    """Whether the pod tolerates PreferNoSchedule taints by now."""
    given_up: tuple[RelaxedPreference, ...] = ()

    def relax(self) -> "RelaxedConstraints | None":
        """The same with the next preference given up; None if there is no preference left."""
        replace, given = msgspec.structs.replace, self.given_up
        if self.preferred_affinity:
            dropped = PreferredPodAffinity(
                term=self.preferred_affinity[0].term, weight=self.preferred_affinity[0].weight
            )
            return replace(
                self, preferred_affinity=self.preferred_affinity[1:], given_up=(*given, dropped)
            )
        if self.preferred_anti_affinity:
            dropped_term = PreferredPodAntiAffinity(
                term=self.preferred_anti_affinity[0].term,
                weight=self.preferred_anti_affinity[0].weight,
            )
            return replace(
                self,
                preferred_anti_affinity=self.preferred_anti_affinity[1:],
                given_up=(*given, dropped_term),
            )
        if self.preferred_nodes:
            first_term = self.preferred_nodes[0]
            dropped_node_term = PreferredNodeAffinity(
                requirements=str(first_term.requirements), weight=first_term.weight
            )
            return replace(
                self, preferred_nodes=self.preferred_nodes[1:], given_up=(*given, dropped_node_term)
            )
        return self._relax_spread()

    def _relax_spread(self) -> "RelaxedConstraints | None":
        preferred = next((each for each in self.spreads if not each.required), None)
        if preferred is None:
            return None
        kept = tuple(each for each in self.spreads if each is not preferred)
        dropped = PreferredTopologySpread(spread=preferred)
        return msgspec.structs.replace(self, spreads=kept, given_up=(*self.given_up, dropped))


def relaxation_steps(
    constraints: PodConstraints, policy: PreferencePolicy, *, has_soft_taints: bool
) -> Iterator[RelaxedConstraints]:
    """The constraints with all preferences, then with one less each, down to the required ones.

    `has_soft_taints` says whether any pool or node has a PreferNoSchedule taint.
    """
    current: RelaxedConstraints | None = (
        _with_preferences(constraints)
        if policy is PreferencePolicy.RESPECT
        else _required_only(constraints)
    )
    previous = current
    while current is not None:
        yield current
        previous, current = current, current.relax()
    if has_soft_taints and previous is not None:
        given = (*previous.given_up, PreferNoScheduleTaint())
        yield msgspec.structs.replace(previous, tolerates_preferences=True, given_up=given)


def _with_preferences(constraints: PodConstraints) -> RelaxedConstraints:
    return RelaxedConstraints(
        spreads=constraints.spreads,
        affinity=constraints.affinity,
        anti_affinity=constraints.anti_affinity,
        preferred_affinity=constraints.preferred_affinity,
        preferred_anti_affinity=constraints.preferred_anti_affinity,
        preferred_nodes=constraints.preferred_nodes,
    )


def _required_only(constraints: PodConstraints) -> RelaxedConstraints:
    return RelaxedConstraints(
        spreads=tuple(each for each in constraints.spreads if each.required),
        affinity=constraints.affinity,
        anti_affinity=constraints.anti_affinity,
    )
