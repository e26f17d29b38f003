"""The reference planner for pods with topology constraints, volumes, ports and preferences, and
the comparison with the planner's result.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from math import inf
from typing import Any, Final

import msgspec
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.first_fit import (
    NewNodeOption,
    ReferenceDraft,
    ReferencePlanner,
    draft_choices,
    draft_launch,
)
from tests.support.reference_planner.new_nodes import (
    eligible_new_nodes,
    expected_limits,
    has_port_conflict,
    has_too_many_volumes,
    launchable_values,
    launched_label,
    ports_and_volumes_fit,
    restrict_draft,
    types_that_attach,
    types_without_port_conflict,
)
from tests.support.reference_planner.offerings import (
    PoolCatalog,
    fits_on_node,
    hourly_cost,
    is_node_compatible,
    schedulable_nodes,
)
from tests.support.reference_planner.relaxation import RelaxedPod, intersect, relaxation_levels
from tests.support.reference_planner.topology import (
    AllowedDomains,
    DomainDecision,
    NodeOrDraft,
    PodPlacements,
    affinity_questions,
    matches_all_terms,
    topology_questions,
)

from wainwright.core.plan import plan
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import HOSTNAME
from wainwright.model.plan import Plan, PlannedNodeClaim
from wainwright.model.pod import Pod, TopologySpread
from wainwright.model.reasons import RelaxedPreference
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node
from wainwright.model.taints import PREFER_NO_SCHEDULE


class PlacementOption(msgspec.Struct, frozen=True):
    """A pod with additional node requirements; an alternative that contradicts them is None."""

    pod: Pod
    alternatives: tuple[Requirements | None, ...]
    crowd: list[int]
    """Its rank by the counts of the spreads."""


class PlacementSearch:
    """A pod, the domains allowed to it, and its requirements in them."""

    def __init__(self, pod: Pod, limits: AllowedDomains) -> None:
        self.pod = pod
        self.limits = limits
        self.options = [_placement_option(pod, *each) for each in limits.options()]
        self.new = [] if limits.near_a_place else self.options
        """The options for a new node."""


def _placement_option(pod: Pod, extra: Requirements, crowd: list[int]) -> PlacementOption:
    narrowed = tuple(intersect(alternative, extra) for alternative in pod.alternatives)
    possible = tuple(each for each in narrowed if each is not None)
    return PlacementOption(msgspec.structs.replace(pod, alternatives=possible), narrowed, crowd)


def alternative_index(search: PlacementSearch, opening: NewNodeOption) -> int:
    """The index of the pod's alternative that the opening is for."""
    for option in search.new:
        for number, wanted in enumerate(option.alternatives):
            if wanted is opening.wanted:
                return number
    raise AssertionError("openings are asked for with the alternatives of an option")


def only_reserved(kind: InstanceType) -> InstanceType:
    offerings = tuple(each for each in kind.offerings if each.reservation_id is not None)
    return msgspec.structs.replace(kind, offerings=offerings)


UNSATISFIABLE: Final = Requirements.from_labels({"example.com/nobody": "has-it"})
"""Unsatisfiable: keeps the index of an alternative that contradicts the option."""


class ConstrainedReferencePlanner(ReferencePlanner):
    def __init__(
        self,
        planner_input: PlannerInput,
        settling: DomainDecision = DomainDecision.UNLESS_ANTI_AFFINITY,
    ) -> None:
        super().__init__(planner_input)
        self.settling = settling
        self.pod_placements = PodPlacements()
        self.stuck: set[tuple[int, str]] = set()
        """Drafts whose value of a label cannot be decided before their round ends."""
        self.given_up: dict[str, tuple[RelaxedPreference, ...]] = {}
        self.nodes = schedulable_nodes(planner_input.snapshot.nodes)
        taints = [taint for catalog in self.pool_catalogs for taint in catalog.pool.taints]
        taints += [taint for node in self.nodes for taint in node.effective_taints]
        self.soft_taints = any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)

    def wants(self, pod: Pod) -> Iterator[RelaxedPod]:
        return relaxation_levels(pod, self.options.preference_policy, soft_taints=self.soft_taints)

    def is_tied(self, pod: Pod) -> bool:
        """Whether its placement depends on other pods."""
        company = [*self.snapshot.pods, *(each for node in self.nodes for each in node.pods)]
        is_repelled = any(
            matches_all_terms((t,), pod) for each in company for t in each.constraints.anti_affinity
        )
        return is_repelled or any(
            want.spreads or want.near or want.away for want in self.wants(pod)
        )

    def is_servable(self, pod: Pod) -> bool:
        """Whether a pool would launch a node for it without any other pods."""
        if pod.unsupported or pod.volume_problem is not None:
            return False
        asked = [(want.pod, wanted) for want in self.wants(pod) for wanted in want.pod.alternatives]
        return any(self._opening(*each) is not None for each in asked)

    def _passes(self, left: list[Pod]) -> list[Pod]:
        self.stuck = set()
        return super()._passes(left)

    def _place(self, pod: Pod) -> bool:
        """Relaxes preferences one by one, but not for a reserved instance that is only held."""
        if pod.volume_problem is not None:
            return False
        for want in self.wants(pod):
            found = self._place_wanting(want)
            if found and want.given_up:
                self.given_up[pod.key] = want.given_up
            if found is not None:
                return found
        return False

    def _place_wanting(self, want: RelaxedPod) -> bool | None:
        """None where there is no reservation to wait for either."""
        if not self._is_possible(want):
            return None
        if self._place_near(want):
            return True
        search = PlacementSearch(want.pod, self._limits(want))
        for number, wanted in enumerate(want.pod.alternatives):
            if self._to_node(want.pod, wanted, search.limits) or self._to_draft(search, number):
                return True
            opening = self._best(search.new, number)
            if opening is not None:
                other = alternative_index(search, opening)
                if other != number and self._to_draft(search, other):
                    return (
                        True  # a reserved instance for another alternative, which fits without it
                    )
                if opening.draft is not None:
                    self.drafts.append(opening.draft)
                return opening.draft is not None
        return True if self._steers(want, search.limits.undecided_drafts) else None

    def _is_possible(self, want: RelaxedPod) -> bool:
        """Whether any node or pool matches the pod; otherwise no draft is restricted for it."""
        pod = want.pod
        return any(
            any(is_node_compatible(node, pod, wanted) for node in self.nodes)
            or any(
                catalog.joined(catalog.node, pod, wanted) is not None
                for catalog in self.pool_catalogs
            )
            for wanted in pod.alternatives
        )

    def _steers(self, want: RelaxedPod, undecided_drafts: list[ReferenceDraft]) -> bool:
        """Joins the one undecided draft that blocks it, which restricts the draft."""
        if len(undecided_drafts) != 1:
            return False
        search = PlacementSearch(want.pod, self._limits(want, steered=True))
        count = range(len(want.pod.alternatives))
        return any(self._to_draft(search, number, undecided_drafts) for number in count)

    def _place_near(self, want: RelaxedPod) -> bool:
        """Joins the drafts of its affinity terms, if their domain is undecided."""
        self._count()
        for number, terms in enumerate(want.near):
            for each in affinity_questions(terms):
                found = self.pod_placements.by_value(each.key, each.counts)
                afloat = all(draft.launch is None for draft in found.undecided)
                if each.key != HOSTNAME and found.undecided and not found.known and afloat:
                    near = want.near[:number] + want.near[number + 1 :]
                    there = tuple(
                        {q.key: None for q in affinity_questions(terms) if q.key != HOSTNAME}
                    )
                    met = msgspec.structs.replace(want, near=near, there=there)
                    search = PlacementSearch(want.pod, self._limits(met))
                    count = range(len(want.pod.alternatives))
                    return any(self._to_draft(search, n, found.undecided) for n in count)
        return False

    def _limits(self, want: RelaxedPod, *, steered: bool = False) -> AllowedDomains:
        self._count()
        for each in list(topology_questions(self.pod_placements, want)):
            for draft in self.pod_placements.by_value(each.key, each.counts).undecided:
                if draft.launch is not None or not self.settling.waits(each):
                    self._decide(draft, each.key)
        launchable = partial(self._launchable, want)
        return AllowedDomains(self.pod_placements, want, launchable, steered=steered)

    def _count(self) -> None:
        standing: list[tuple[NodeOrDraft, list[Pod]]] = [
            (node, [*node.pods, *self.received.get(node.name, ())]) for node in self.nodes
        ]
        self.pod_placements.occupied = [*standing, *((draft, draft.pods) for draft in self.drafts)]

    def _decide(self, draft: ReferenceDraft, key: str) -> None:
        """Restricts the draft to its current launch, if possible."""
        if (id(draft), key) in self.stuck:
            return
        value = launched_label(draft, draft.launch or self._choice(draft), key)
        narrowed = None if value is None else restrict_draft(draft, key, value)
        if narrowed is not None:
            draft.asked, draft.types, draft.held = narrowed.asked, narrowed.types, narrowed.held
        if narrowed is not None or value is None or draft.launch is not None:
            self.pod_placements.settle(draft, key, value)
        else:
            self.stuck.add((id(draft), key))

    def _launchable(self, want: RelaxedPod, spread: TopologySpread) -> set[str]:
        live = {name for name, count in self.free.items() if count > 0}
        found: set[str] = set()
        for catalog in self.pool_catalogs:
            among = self._within_limits(catalog, worst=False)
            reserved = [
                only_reserved(kind)
                for kind in self._within_limits(catalog, worst=False, reserved=True)
            ]
            for asked in eligible_new_nodes(catalog, want, spread):
                found |= launchable_values(catalog, spread.key, asked, among, ())
                found |= launchable_values(catalog, spread.key, asked, reserved, live)
        return found

    def _to_node(self, pod: Pod, wanted: Requirements, limits: AllowedDomains) -> bool:
        daemonsets = self.snapshot.daemonsets
        for node in self.nodes:
            there = self.received.setdefault(node.name, [])
            if (
                limits.admits(node)
                and is_node_compatible(node, pod, wanted)
                and fits_on_node(node, [*there, pod], daemonsets)
                and ports_and_volumes_fit(
                    node, [*node.pods, *there], pod, daemonsets, self._attach_limits(node)
                )
            ):
                there.append(pod)
                return True
        return False

    def _attach_limits(self, node: Node) -> Mapping[str, int]:
        catalogs = [each for each in self.pool_catalogs if each.pool.name == node.pool]
        return expected_limits(node, [kind for each in catalogs for kind in each.types])

    def _joinable_by(self, options: Sequence[PlacementOption], number: int) -> list[ReferenceDraft]:
        """The drafts that the pod may join without bypassing reservations or a heavier pool."""
        drafts = self._joinable()
        reserved_weight = max(
            (self._reserved_weight(each.pod) for each in options if drafts), default=-inf
        )
        step = self._best(options, number) if drafts and self.options.strict_weights else None
        least = -inf if step is None else step.catalog.pool.weight
        return [
            draft
            for draft in drafts
            if draft.catalog.pool.weight >= least
            and (draft.held or draft.catalog.pool.weight > reserved_weight)
        ]

    def _to_draft(
        self, search: PlacementSearch, number: int, among: Sequence[ReferenceDraft] | None = None
    ) -> bool:
        """Drafts that are undecided on a label of the question must be restricted for the pod."""
        for draft in self._joinable_by(search.new, number):
            if among is not None and draft not in among:
                continue
            joined = self._joined_by(search, number, draft) if search.limits.admits(draft) else None
            if joined is not None:
                draft.asked, draft.types, draft.held = joined.asked, joined.types, joined.held
                draft.pods.append(search.pod)
                return True
        return False

    def _joined_by(
        self, search: PlacementSearch, number: int, draft: ReferenceDraft
    ) -> ReferenceDraft | None:
        """The draft with the pod added, in the domain with the fewest pods, then the cheapest."""
        if not search.limits.is_undecided(draft):
            return self._joined(draft, search.pod, search.pod.alternatives[number])
        ways: list[tuple[ReferenceDraft, list[int]]] = []
        for option in search.options:
            wanted = option.alternatives[number]
            joined = None if wanted is None else self._joined(draft, search.pod, wanted)
            if joined is not None:
                ways.append((joined, option.crowd))
        if not ways or draft.launch is not None:
            return ways[0][0] if ways else None
        return min((way for way, crowd in ways if crowd == ways[0][1]), key=self._price)

    def _price(self, draft: ReferenceDraft) -> float:
        return hourly_cost(*self._choice(draft))

    def _joined(
        self, draft: ReferenceDraft, pod: Pod, wanted: Requirements
    ) -> ReferenceDraft | None:
        if has_port_conflict(draft.pods, pod) or has_too_many_volumes(draft, pod):
            return None
        usable = copy(draft)
        usable.types = types_without_port_conflict(draft.catalog, draft.types, pod)
        usable.types = types_that_attach(usable.types, [*draft.pods, pod], pod)
        return super()._joined(usable, pod, wanted)

    def _new(
        self,
        catalog: PoolCatalog,
        pod: Pod,
        wanted: Requirements,
        reservation_ids: Collection[str],
        among: Sequence[InstanceType],
    ) -> ReferenceDraft | None:
        usable = types_without_port_conflict(catalog, among, pod)
        usable = types_that_attach(usable, [pod], pod)
        return super()._new(catalog, pod, wanted, reservation_ids, usable)

    def _openings(
        self, pod: Pod, catalogs: Iterable[PoolCatalog] | None = None
    ) -> Iterator[NewNodeOption]:
        """Only used for reserved openings, of which there are none once all instances are used."""
        return super()._openings(pod, catalogs) if any(self.free.values()) else iter(())

    def _best(self, options: Sequence[PlacementOption], number: int) -> NewNodeOption | None:
        """The heaviest pool; then reserved, then held, then any other node.
        Then the domain with the fewest pods, then the cheapest. Open choice: the first of equals.
        """
        found: list[tuple[NewNodeOption, list[int]]] = []
        for option in options:
            wanted = option.alternatives[number]
            opening = self._opening(option.pod, UNSATISFIABLE if wanted is None else wanted)
            if opening is not None:
                found.append((opening, option.crowd))
        if not found:
            return None
        best, emptiest = min(found, key=lambda each: _new_node_rank(each[0]))
        equal = [
            o
            for o, crowd in found
            if crowd == emptiest and _new_node_rank(o) == _new_node_rank(best)
        ]
        return min(equal, key=lambda o: 0.0 if o.draft is None else self._price(o.draft))


def _new_node_rank(opening: NewNodeOption) -> tuple[float, int]:
    kind = 2 if not opening.is_reserved else 1 if opening.draft is None else 0
    return -opening.catalog.pool.weight, kind


def first_difference(planner_input: PlannerInput) -> str | None:
    """The first difference of the two results; None where they agree."""
    ours, theirs = planner_result(planner_input), reference_result(planner_input)
    for subject, said in ours.items():
        if said != theirs[subject]:
            return f"{subject}: {said}\nbut slowly: {theirs[subject]}"
    return None


def planner_result(planner_input: PlannerInput) -> Mapping[str, Any]:
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    placed = {key for claim in made.claims for key in claim.pods}
    placed |= {key for placement in made.placements for key in placement.pods}
    return {
        "claims": [_claim_summary(claim) for claim in made.claims],
        "nodes": {each.node: list(each.pods) for each in made.placements},
        "unplaced": sorted(pod.key for pod in planner_input.snapshot.pods if pod.key not in placed),
        "relaxed": _relaxations(made),
    }


def reference_result(planner_input: PlannerInput) -> Mapping[str, Any]:
    made = _run_reference(planner_input)
    return {
        "claims": [_draft_summary(draft) for draft in made.drafts],
        "nodes": {node: _pod_keys(pods) for node, pods in made.received.items() if pods},
        "unplaced": _pod_keys(made.unplaced),
        "relaxed": made.given_up,
    }


def _run_reference(planner_input: PlannerInput) -> ConstrainedReferencePlanner:
    """Where pods stay unscheduled, further attempts in which drafts are decided sooner or later.
    Open choices: only for pods that some pool would launch a node for without other pods; and an
    earlier attempt counts unless a later one schedules more pods.
    """
    best: ConstrainedReferencePlanner | None = None
    for settling in DomainDecision:
        if best is None or any(best.is_tied(p) and best.is_servable(p) for p in best.unplaced):
            made = ConstrainedReferencePlanner(planner_input, settling)
            made.run()
            if best is None or len(made.unplaced) < len(best.unplaced):
                best = made
    assert best is not None
    return best


def _claim_summary(claim: PlannedNodeClaim) -> dict[str, Any]:
    return {
        "pool": claim.pool,
        "round": claim.round,
        "pods": list(claim.pods),
        "requirements": str(claim.requirements),
        "choices": claim.choices,
        "launch": claim.launch,
        "relaxed": claim.relaxed_min_values,
    }


def _draft_summary(draft: ReferenceDraft) -> dict[str, Any]:
    return {
        "pool": draft.catalog.pool.name,
        "round": draft.round,
        "pods": _pod_keys(draft.pods),
        "requirements": str(draft.requirements),
        "choices": draft_choices(draft),
        "launch": draft_launch(draft),
        "relaxed": draft.relaxed,
    }


def _relaxations(made: Plan) -> dict[str, object]:
    return {key: group.preferences for group in made.relaxed for key in group.pods}


def _pod_keys(pods: list[Pod]) -> list[str]:
    return sorted(pod.key for pod in pods)
