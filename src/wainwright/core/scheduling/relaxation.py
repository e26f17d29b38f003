"""Relaxation: which preferences a pod gives up, and in which order, until it can be scheduled.

First preferred pod affinity, then preferred pod anti-affinity, then preferred node affinity, then
ScheduleAnyway topology spread, and last PreferNoSchedule taints. Of each kind the heaviest goes
first. What is required is never given up.

They are given up one by one, as Karpenter does. Every level is tried with all constraints between
pods that are left, so that thousands of preferences would be tried millions of times: from some
hundred on, ever more of them are given up at once.
"""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

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

MAX_TRIED_CONSTRAINTS: Final = 5000
"""Constraints between pods on all levels of a pod whose preferences are given up one by one: those
of a hundred preferences. It takes less than a tenth of a second to try them.
"""


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

    @property
    def between_pods(self) -> int:
        """How many constraints by other pods there are."""
        preferred = len(self.preferred_affinity) + len(self.preferred_anti_affinity)
        return preferred + len(self.spreads) + len(self.affinity) + len(self.anti_affinity)


def relaxation_steps(
    constraints: PodConstraints,
    policy: PreferencePolicy,
    *,
    has_soft_taints: bool,
    alternatives: int = 1,
) -> Iterator[RelaxedConstraints]:
    """The constraints with all preferences, then with one less each, down to the required ones.

    `has_soft_taints` says whether any pool or node has a PreferNoSchedule taint; `alternatives` how
    many node terms the pod has, each of which is tried on every level.
    """
    preferences = _Preferences(constraints, policy)
    tried, step, given_up = 0, 1, 0
    while True:
        current = preferences.without_first(given_up)
        yield current
        if given_up == preferences.count:
            break
        tried += current.between_pods + alternatives - 1
        step = step if tried <= MAX_TRIED_CONSTRAINTS else 2 * step
        given_up = min(given_up + step, preferences.count)
    if has_soft_taints:
        yield _tolerating_preferences(current)


def relaxed_constraints(
    constraints: PodConstraints, policy: PreferencePolicy, given_up: tuple[RelaxedPreference, ...]
) -> RelaxedConstraints:
    """The constraints with these preferences given up; all of them, if it could not be these."""
    preferences = _Preferences(constraints, policy)
    tolerates = PreferNoScheduleTaint() in given_up[-1:]
    found = preferences.without_first(len(given_up) - tolerates)
    found = _tolerating_preferences(found) if tolerates else found
    if found.given_up == given_up:
        return found
    return _tolerating_preferences(preferences.without_first(preferences.count))


def _tolerating_preferences(relaxed: RelaxedConstraints) -> RelaxedConstraints:
    given = (*relaxed.given_up, PreferNoScheduleTaint())
    return msgspec.structs.replace(relaxed, tolerates_preferences=True, given_up=given)


class _Preferences:
    """The preferences of a pod, in the order in which they are given up."""

    def __init__(self, constraints: PodConstraints, policy: PreferencePolicy) -> None:
        is_kept = policy is PreferencePolicy.RESPECT
        self._constraints = constraints
        self._required = tuple(each for each in constraints.spreads if each.required)
        self._affinity = constraints.preferred_affinity if is_kept else ()
        self._anti_affinity = constraints.preferred_anti_affinity if is_kept else ()
        self._nodes = constraints.preferred_nodes if is_kept else ()
        spreads = enumerate(constraints.spreads if is_kept else ())
        self._spreads = tuple(number for number, each in spreads if not each.required)
        """The positions of those that are preferred."""
        self._in_order = tuple(self._all())

    @property
    def count(self) -> int:
        return len(self._in_order)

    def _all(self) -> Iterator[RelaxedPreference]:
        for each in self._affinity:
            yield PreferredPodAffinity(term=each.term, weight=each.weight)
        for each in self._anti_affinity:
            yield PreferredPodAntiAffinity(term=each.term, weight=each.weight)
        for node_term in self._nodes:
            wanted = str(node_term.requirements)
            yield PreferredNodeAffinity(requirements=wanted, weight=node_term.weight)
        for number in self._spreads:
            yield PreferredTopologySpread(spread=self._constraints.spreads[number])

    def without_first(self, count: int) -> RelaxedConstraints:
        """What is left after so many were given up."""
        kinds = self._affinity, self._anti_affinity, self._nodes, self._spreads
        bounds = accumulate(map(len, kinds), initial=0)
        affinity, anti_affinity, nodes, spreads = (
            max(0, min(count, end) - start) for start, end in pairwise(bounds)
        )
        return RelaxedConstraints(
            spreads=self._kept_spreads(spreads),
            affinity=self._constraints.affinity,
            anti_affinity=self._constraints.anti_affinity,
            preferred_affinity=self._affinity[affinity:],
            preferred_anti_affinity=self._anti_affinity[anti_affinity:],
            preferred_nodes=self._nodes[nodes:],
            given_up=self._in_order[:count],
        )

    def _kept_spreads(self, given_up: int) -> tuple[TopologySpread, ...]:
        """In the order of the manifest, which their groups and reasons have."""
        every = self._constraints.spreads
        if given_up == len(self._spreads):
            return self._required
        first = self._spreads[given_up]
        return tuple(each for number, each in enumerate(every) if each.required or number >= first)
