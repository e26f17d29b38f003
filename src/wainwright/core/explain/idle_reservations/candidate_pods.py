"""Candidate pods: pods of a plan that use no capacity reservation, where the plan has them
instead, and which domains other pods leave to them there.

The plan decided one pod after the other; this looks at the end of it, with every pod in its
place and each planned claim seen as the node it will be. What still rules a domain out is a
reason. What did so earlier and no longer does cannot be named, only that it may have been so.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.drafts import DraftTable
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_requirements import combine_requirements
from wainwright.core.scheduling.relaxation import RelaxedConstraints, relaxation_steps
from wainwright.core.scheduling.solver import create_reservation_manager
from wainwright.core.scheduling.topology.constraints import (
    TopologyConstraints,
    topology_constraints,
)
from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    ConstraintKind,
    HostGroup,
    LabelGroup,
    domains_within_skew,
)
from wainwright.core.scheduling.topology.registry import MatchingGroups, TopologyRegistry
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.plan import (
    Plan,
    PlannedLaunch,
    PlannedNodeClaim,
    PreferencePolicy,
    UnschedulableGroup,
)
from wainwright.model.pod import ANY_NODE_TERMS, NO_CONSTRAINTS, Pod, PodConstraints
from wainwright.model.reasons import CurrentPlacement, RelaxedPreference, TopologyElsewhere
from wainwright.model.requirements import ANY_VALUE, Requirements, ValueSet, none_of, one_of
from wainwright.model.resources import PODS, Resources, resources_key
from wainwright.model.snapshot import Node, Snapshot
from wainwright.model.taints import Taint


class PlannedNodes:
    """Remembers what it made, as most claims of a plan are like some other."""

    def __init__(self, catalogs: Mapping[str, InstanceTypeIndex]) -> None:
        self._catalogs = catalogs
        self._types: dict[str, dict[str, InstanceType]] = {}
        self._requirements: dict[object, Requirements] = {}

    def node_requirements(self, claim: PlannedNodeClaim) -> Requirements:
        """What the labels of the node will be; several values where that is still open."""
        key = (claim.pool, claim.launch, claim.requirements)
        if key not in self._requirements:
            kind = self._kind(claim)
            bought = kind.requirements.narrow(_offering_requirements(kind, claim.launch))
            self._requirements[key] = bought.narrow(claim.requirements)
        return self._requirements[key]

    def node(self, claim: PlannedNodeClaim, pods: Iterable[Pod], taints: tuple[Taint, ...]) -> Node:
        found = self.node_requirements(claim)
        labels = {key: value for key in found if (value := found.single_value(key)) is not None}
        return Node(name=claim.name, labels=labels, taints=taints, pods=tuple(pods))

    def _kind(self, claim: PlannedNodeClaim) -> InstanceType:
        if claim.pool not in self._types:
            types = self._catalogs[claim.pool].types
            self._types[claim.pool] = {kind.name: kind for kind in types}
        return self._types[claim.pool][claim.launch.instance_type]


def _offering_requirements(kind: InstanceType, launch: PlannedLaunch) -> Requirements:
    """What the offering says that is bought, and what was decided where it leaves that open."""
    decided = {CAPACITY_TYPE: launch.capacity_type}
    if launch.zone is not None:
        decided[ZONE] = launch.zone
    said = Requirements.from_labels(decided)
    fitting = (
        each.requirements
        for each in kind.offerings
        if (each.reservation_id, each.price) == (launch.reservation_id, launch.price)
        and each.requirements.is_compatible(said, frozenset(decided))
    )
    return next(fitting, said).narrow(said)


AllowedValues: TypeAlias = dict[str, ValueSet]
"""By label the values that will do."""


class RemainingDomains:
    """What the others leave to a pod, as if it was not where it is."""

    def __init__(
        self, bound: TopologyConstraints, counting: frozenset[int], at: Callable[[str], str]
    ) -> None:
        self._counting = counting
        """The numbers of the groups that count the pod itself."""
        self._at = at
        """The values of labels where it is."""
        self._left: AllowedValues = {}
        self._left_by_anti_affinity: AllowedValues = {}
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
            left = (
                self._left_by_anti_affinity if group.kind is ConstraintKind.SHUNNED else self._left
            )
            _narrow_values(left, group.key, none_of(self._places(group)))

    def against(self, node_requirements: Requirements) -> TopologyElsewhere | None:
        """By which labels a new node like that will not do, if any."""
        own = [key for key in self._left if self._excludes(key, self._left, node_requirements)]
        if own:
            return TopologyElsewhere(keys=tuple(sorted(own)))
        theirs = [
            key
            for key in self._left_by_anti_affinity
            if self._excludes(key, self._left_by_anti_affinity, node_requirements)
        ]
        if theirs:
            return TopologyElsewhere(keys=tuple(sorted(theirs)), theirs=True)
        both = {
            key: self._left[key] & self._left_by_anti_affinity[key]
            for key in {*self._left} & {*self._left_by_anti_affinity}
        }
        keys = [key for key in both if self._excludes(key, both, node_requirements)]
        return TopologyElsewhere(keys=tuple(sorted(keys))) if keys else None

    def _excludes(self, key: str, left: AllowedValues, node_requirements: Requirements) -> bool:
        offered = node_requirements[key].allowed if key in node_requirements else None
        if offered is None or offered.is_empty:
            return left is self._left and key in self._needed
        return (offered & left[key]).is_empty

    def _spread(self, bound: TopologyConstraints) -> None:
        for group, itself in bound.spreads:
            others = group.fork()
            if group.number in self._counting:
                others.add(self._at(group.key), -1)
            self._need(group.key, one_of(domains_within_skew(others, itself=itself)))

    def _near(self, bound: TopologyConstraints) -> None:
        for groups, itself in bound.near:
            alone = itself and not any(map(self._places, groups))
            for group in groups:
                allowed = ANY_VALUE if alone else one_of(self._places(group))
                if isinstance(group, LabelGroup) or not alone:
                    self._need(group.key, allowed)

    def _need(self, key: str, allowed: ValueSet) -> None:
        _narrow_values(self._left, key, allowed)
        self._needed.add(key)

    def _places(self, group: AnyGroup) -> list[str]:
        """Where others of the group are; of nodes only that there are some."""
        itself = group.number in self._counting
        if isinstance(group, HostGroup):
            return ["a node that stands"] if group.total > itself else []
        own = self._at(group.key) if itself else None
        return [value for value, count in group.counts.items() if count > (value == own)]


def _narrow_values(left: AllowedValues, key: str, allowed: ValueSet) -> None:
    left[key] = left.get(key, ANY_VALUE) & allowed


class TopologyAfterPlan:
    """The cluster as the plan leaves it, counted."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        planned_nodes: PlannedNodes,
        policy: PreferencePolicy,
    ) -> None:
        self._planned_nodes = planned_nodes
        self._policy = policy
        self._registry = TopologyRegistry()
        running = (pod for node in snapshot.nodes if not node.deleting for pod in node.pods)
        self._registry.introduce(snapshot.pods, running)
        settled = _nodes_after_plan(snapshot, plan, planned_nodes) if self._registry.groups else ()
        self._table = ExistingNodes(settled, ())
        self._numbers = {node.name: number for number, node in enumerate(self._table.nodes)}
        self._degrees: dict[
            tuple[PodConstraints, tuple[RelaxedPreference, ...]], RelaxedConstraints
        ] = {}
        self._remaining_domains: dict[object, RemainingDomains | None] = {}

    def count(self, templates: Sequence[NodeClaimTemplate], free: Mapping[str, int]) -> None:
        """To be called before anything is asked; pools say where pods could be besides."""
        if self._registry.groups:
            stock = create_reservation_manager(templates, Counter(free), gate=True)
            stock.begin_round()
            drafts = DraftTable(templates, CapacityIndex((), 0))
            Topology(self._registry, templates, self._table, drafts, stock).refresh_all()

    @property
    def keys(self) -> list[str]:
        """The labels by which anything is counted."""
        return self._registry.keys

    def remaining_domains(
        self, pod: Pod, claim: PlannedNodeClaim, given_up: tuple[RelaxedPreference, ...]
    ) -> RemainingDomains | None:
        """None for a pod that may be anywhere; for those that are alike it is the very same."""
        standing = self._registry.standing(pod)
        if not self._registry.groups or (
            pod.constraints is NO_CONSTRAINTS and not standing.shunned
        ):
            return None
        number = self._numbers[claim.name]
        counting = frozenset(self._counting(pod, standing, number))
        labels = self._table.nodes[number].labels
        here = tuple(labels.get(key) for key in self._registry.keys)
        identity = (
            pod.namespace,
            *pod.labels.items(),
            pod.constraints,
            pod.alternatives,
            pod.tolerations,
        )
        key = (identity, given_up, counting, here)
        if key not in self._remaining_domains:
            found = topology_constraints(
                pod, self._degree(pod.constraints, given_up), self._registry, standing
            )
            self._remaining_domains[key] = (
                None if found is None else RemainingDomains(found, counting, labels.__getitem__)
            )
        return self._remaining_domains[key]

    def _counting(self, pod: Pod, standing: MatchingGroups, number: int) -> Iterator[int]:
        """The groups that count the pod on this node."""
        own = (self._registry.shunned(term) for term in pod.constraints.anti_affinity)
        labels = self._table.nodes[number].labels
        for group in (*standing.counted, *own):
            is_labelled = group.key in labels or group.key not in self._registry.keys
            if group.nodes >> number & 1 and is_labelled:
                yield group.number

    def _degree(
        self, constraints: PodConstraints, given_up: tuple[RelaxedPreference, ...]
    ) -> RelaxedConstraints:
        """What the pod still asked for when it found its place."""
        key = (constraints, given_up)
        if key not in self._degrees:
            every = list(relaxation_steps(constraints, self._policy, tainted=True))
            self._degrees[key] = next(
                (each for each in every if each.given_up == given_up), every[-1]
            )
        return self._degrees[key]


def _nodes_after_plan(
    snapshot: Snapshot, plan: Plan, planned_nodes: PlannedNodes
) -> Iterator[Node]:
    """The nodes with the pods that they receive, and the new ones with theirs."""
    pods = {pod.key: pod for pod in snapshot.pods}
    taints = {pool.name: pool.taints for pool in snapshot.pools}
    received = {each.node: [pods[key] for key in each.pods] for each in plan.placements}
    for node in snapshot.nodes:
        yield msgspec.structs.replace(node, pods=(*node.pods, *received.get(node.name, ())))
    for claim in plan.claims:
        yield planned_nodes.node(claim, (pods[key] for key in claim.pods), taints[claim.pool])


CandidateLocation = tuple[CurrentPlacement, str | int]
"""With the pool of the new node, or which failure of the plan it is."""


class CandidatePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that uses no reservation, for all equal ones that fared alike."""

    pod: Pod
    place: CurrentPlacement
    wanted: tuple[Requirements, ...]
    """Its alternatives, where its volumes can be reached."""
    needs: Resources
    """What it requests, one of the node's pods included."""
    pool: str | None = None
    """That launches the new node it is on."""
    placed_by: Requirements | None = None
    """Of several alternatives the one that the new node is for."""
    remaining_domains: RemainingDomains | None = None
    """What other pods leave to one that is on a new node."""
    failure: UnschedulableGroup | None = None
    given_up: tuple[RelaxedPreference, ...] = ()
    keys: list[str] = msgspec.field(default_factory=list)


def find_candidate_pods(
    snapshot: Snapshot, plan: Plan, planned_nodes: PlannedNodes, topology: TopologyAfterPlan
) -> Iterable[CandidatePod]:
    """Pods that are to be placed and are on no reserved claim of the plan, alike ones together."""
    whereabouts, launched = _pod_locations(plan), _unreserved_claims_by_pod(plan)
    given_up = {pod: each.preferences for each in plan.relaxed for pod in each.pods}
    found: dict[object, CandidatePod] = {}
    for pod in snapshot.pods:
        where = whereabouts.get(pod.key)
        if where is not None:
            gave, claim = given_up.get(pod.key, ()), launched.get(pod.key)
            remaining_domains = (
                topology.remaining_domains(pod, claim, gave) if claim is not None else None
            )
            placed_by = (
                _matching_alternative(pod, claim, planned_nodes) if claim is not None else None
            )
            identity = (
                resources_key(pod.requests),
                pod.alternatives,
                pod.tolerations,
                pod.constraints,
            )
            key = (identity, where, gave, remaining_domains, placed_by)
            if key not in found:
                made = _create_candidate(pod, where, plan, gave)
                found[key] = msgspec.structs.replace(
                    made, remaining_domains=remaining_domains, placed_by=placed_by
                )
            found[key].keys.append(pod.key)
    return found.values()


def _unreserved_claims_by_pod(plan: Plan) -> dict[str, PlannedNodeClaim]:
    """By pod the new node that it is on, where that uses no reservation."""
    claims = (claim for claim in plan.claims if claim.launch.reservation_id is None)
    return {pod: claim for claim in claims for pod in claim.pods}


def _matching_alternative(
    pod: Pod, claim: PlannedNodeClaim, planned_nodes: PlannedNodes
) -> Requirements | None:
    if len(pod.alternatives) == 1:
        return None
    node_requirements = planned_nodes.node_requirements(claim)
    return next(
        (each for each in _alternatives_with_volumes(pod) if node_requirements.is_compatible(each)),
        None,
    )


def _pod_locations(plan: Plan) -> dict[str, CandidateLocation]:
    found: dict[str, CandidateLocation] = {}
    for number, failure in enumerate(plan.unschedulable):
        found |= dict.fromkeys(failure.pods, (CurrentPlacement.NONE, number))
    for claim in plan.claims:
        if claim.launch.reservation_id is None:
            found |= dict.fromkeys(claim.pods, (CurrentPlacement.NEW, claim.pool))
    for placement in plan.placements:
        found |= dict.fromkeys(placement.pods, (CurrentPlacement.EXISTING, 0))
    return found


def _create_candidate(
    pod: Pod, where: CandidateLocation, plan: Plan, given_up: tuple[RelaxedPreference, ...]
) -> CandidatePod:
    place, detail = where
    return CandidatePod(
        pod=pod,
        place=place,
        wanted=_alternatives_with_volumes(pod),
        needs={**pod.requests, PODS: 1},
        pool=detail if isinstance(detail, str) else None,
        failure=plan.unschedulable[int(detail)] if place is CurrentPlacement.NONE else None,
        given_up=given_up,
    )


def _alternatives_with_volumes(pod: Pod) -> tuple[Requirements, ...]:
    """Each alternative with each place of the pod's volumes."""
    places = pod.constraints.volume_topology
    if places is ANY_NODE_TERMS:
        return pod.alternatives
    together = (combine_requirements(one, place) for one in pod.alternatives for place in places)
    return tuple(dict.fromkeys(each for each in together if each is not None))
