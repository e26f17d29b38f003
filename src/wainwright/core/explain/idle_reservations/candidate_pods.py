"""Candidate pods: pods of a plan that use no capacity reservation, where the plan has them
instead, and which topology domains other pods leave to them.

The plan placed one pod after the other; this looks at the end of it, with every pod in its place
and each planned claim seen as the node it will be. A constraint that still rules a domain out is a
reason. One that did so only earlier cannot be named, only that there may have been one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from wainwright.core.scheduling.capacity_index import CapacityIndex
from wainwright.core.scheduling.drafts import DraftTable
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import combine_requirements
from wainwright.core.scheduling.relaxation import RelaxedConstraints, relaxed_constraints
from wainwright.core.scheduling.solver import create_reservation_manager
from wainwright.core.scheduling.topology.allowed_domains import domains_within_skew
from wainwright.core.scheduling.topology.constraints import PodGroups, TopologyConstraints
from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    HostGroup,
    LabelGroup,
    TopologyKind,
)
from wainwright.core.scheduling.topology.registry import MatchingGroups, TopologyRegistry
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.plan import (
    ExplainedPlan,
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
    """The nodes that planned claims will be; cached, as most claims of a plan are equal."""

    def __init__(self, catalogs: Mapping[str, InstanceTypeIndex]) -> None:
        self._catalogs = catalogs
        self._types: dict[str, dict[str, InstanceType]] = {}
        self._requirements: dict[object, Requirements] = {}

    def node_requirements(self, claim: PlannedNodeClaim) -> Requirements:
        """The labels of the node; several values where one is not decided yet."""
        key = (claim.pool, claim.launch, claim.requirements)
        if key not in self._requirements:
            instance_type = self._instance_type(claim)
            offering = _offering_requirements(instance_type, claim.launch)
            launched = instance_type.requirements.narrow(offering)
            self._requirements[key] = launched.narrow(claim.requirements)
        return self._requirements[key]

    def node(self, claim: PlannedNodeClaim, pods: Iterable[Pod], taints: tuple[Taint, ...]) -> Node:
        known = self.node_requirements(claim)
        labels = {key: value for key in known if (value := known.single_value(key)) is not None}
        return Node(name=claim.name, labels=labels, taints=taints, pods=tuple(pods))

    def _instance_type(self, claim: PlannedNodeClaim) -> InstanceType:
        if claim.pool not in self._types:
            types = self._catalogs[claim.pool].types
            self._types[claim.pool] = {each.name: each for each in types}
        return self._types[claim.pool][claim.launch.instance_type]


def _offering_requirements(instance_type: InstanceType, launch: PlannedLaunch) -> Requirements:
    """Of the offering that is launched, with the zone and capacity type of the launch."""
    labels = {CAPACITY_TYPE: launch.capacity_type}
    if launch.zone is not None:
        labels[ZONE] = launch.zone
    decided = Requirements.from_labels(labels)
    matching = (
        each.requirements
        for each in instance_type.offerings
        if (each.reservation_id, each.price) == (launch.reservation_id, launch.price)
        and each.requirements.is_compatible(decided, frozenset(labels))
    )
    return next(matching, decided).narrow(decided)


AllowedValues: TypeAlias = dict[str, ValueSet]
"""Allowed values by label."""


class RemainingDomains:
    """The topology domains that other pods leave to a pod, as if it was not placed itself."""

    def __init__(
        self,
        constraints: TopologyConstraints,
        counting: frozenset[int],
        label_value: Callable[[str], str],
    ) -> None:
        self._counting = counting
        """The numbers of the groups that count the pod itself."""
        self._label_value = label_value
        """The value of a label of the node that it is on."""
        self._allowed: AllowedValues = {}
        """By the pod's own constraints."""
        self._allowed_by_others: AllowedValues = {}
        """By the anti-affinity of other pods."""
        self._required: set[str] = set()
        """Labels that a node must have."""
        affinity = (group for groups, _ in constraints.affinity for group in groups)
        others = any(map(self._occupied, (*constraints.anti_affinity, *affinity)))
        self.is_concerned = others or bool(constraints.spreads)
        """Whether other pods restrict where a new node for it may be."""
        self._add_spreads(constraints)
        self._add_affinity(constraints)
        for group in constraints.anti_affinity:
            is_inverse = group.kind is TopologyKind.INVERSE_ANTI_AFFINITY
            allowed = self._allowed_by_others if is_inverse else self._allowed
            _narrow_values(allowed, group.key, none_of(self._occupied(group)))

    def conflict_with(self, node_requirements: Requirements) -> TopologyElsewhere | None:
        """The labels by which a new node with these requirements is ruled out, if any."""
        own, others = self._allowed, self._allowed_by_others
        by_own = [key for key in own if self._excludes(key, own, node_requirements)]
        if by_own:
            return TopologyElsewhere(keys=tuple(sorted(by_own)))
        by_others = [key for key in others if self._excludes(key, others, node_requirements)]
        if by_others:
            return TopologyElsewhere(keys=tuple(sorted(by_others)), theirs=True)
        both = {key: own[key] & others[key] for key in {*own} & {*others}}
        keys = [key for key in both if self._excludes(key, both, node_requirements)]
        return TopologyElsewhere(keys=tuple(sorted(keys))) if keys else None

    def _excludes(self, key: str, allowed: AllowedValues, node_requirements: Requirements) -> bool:
        values = node_requirements[key].allowed if key in node_requirements else None
        if values is None or values.is_empty:
            return allowed is self._allowed and key in self._required
        return (values & allowed[key]).is_empty

    def _add_spreads(self, constraints: TopologyConstraints) -> None:
        for group, counts_itself in constraints.spreads:
            others = group.fork()
            if group.number in self._counting:
                others.add(self._label_value(group.key), -1)
            self._require(group.key, one_of(domains_within_skew(others, itself=counts_itself)))

    def _add_affinity(self, constraints: TopologyConstraints) -> None:
        for groups, matches_itself in constraints.affinity:
            is_first = matches_itself and not any(map(self._occupied, groups))
            for group in groups:
                allowed = ANY_VALUE if is_first else one_of(self._occupied(group))
                if isinstance(group, LabelGroup) or not is_first:
                    self._require(group.key, allowed)

    def _require(self, key: str, allowed: ValueSet) -> None:
        _narrow_values(self._allowed, key, allowed)
        self._required.add(key)

    def _occupied(self, group: AnyGroup) -> list[str]:
        """The domains with other pods of the group; for nodes only whether there are any."""
        is_counted = group.number in self._counting
        if isinstance(group, HostGroup):
            return ["an existing node"] if group.total > is_counted else []
        own = self._label_value(group.key) if is_counted else None
        return [value for value, count in group.counts.items() if count > (value == own)]


def _narrow_values(values: AllowedValues, key: str, allowed: ValueSet) -> None:
    values[key] = values.get(key, ANY_VALUE) & allowed


class TopologyAfterPlan:
    """The topology of the cluster after the plan, with every pod counted."""

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
        self._registry.register(snapshot.pods, running)
        # Without topology constraints of any pod nothing is counted, and no node is made.
        nodes = _nodes_after_plan(snapshot, plan, planned_nodes) if self._registry.groups else ()
        self._nodes = ExistingNodes(nodes, ())
        self._numbers = {node.name: number for number, node in enumerate(self._nodes.nodes)}
        self._relaxed: dict[
            tuple[PodConstraints, tuple[RelaxedPreference, ...]], RelaxedConstraints
        ] = {}
        self._remaining_domains: dict[object, RemainingDomains | None] = {}

    def count_pods(
        self, templates: Sequence[NodeClaimTemplate], available_counts: Mapping[str, int]
    ) -> None:
        """To be called before anything else; the pools add domains that have no node yet."""
        if self._registry.groups:
            manager = create_reservation_manager(templates, Counter(available_counts), gate=True)
            manager.begin_round()
            drafts = DraftTable(templates, CapacityIndex((), 0))
            Topology(self._registry, templates, self._nodes, drafts, manager).refresh_all()

    @property
    def keys(self) -> list[str]:
        """The topology keys by which pods are counted."""
        return self._registry.keys

    def remaining_domains(
        self, pod: Pod, claim: PlannedNodeClaim, given_up: tuple[RelaxedPreference, ...]
    ) -> RemainingDomains | None:
        """None for a pod without topology constraints.

        Equal pods get the same object: they are grouped by it, and it is made once.
        """
        matching = self._registry.matching_groups(pod)
        if not self._registry.groups or (
            pod.constraints is NO_CONSTRAINTS and not matching.inverse_anti_affinity
        ):
            return None
        number = self._numbers[claim.name]
        counting = frozenset(self._counting_groups(pod, matching, number))
        labels = self._nodes.nodes[number].labels
        domains = tuple(labels.get(key) for key in self._registry.keys)
        identity = (
            pod.namespace,
            *pod.labels.items(),
            pod.constraints,
            pod.alternatives,
            pod.tolerations,
        )
        key = (identity, given_up, counting, domains)
        if key not in self._remaining_domains:
            relaxed = self._relaxed_constraints(pod.constraints, given_up)
            constraints = PodGroups(pod, self._registry, matching).constraints_of(relaxed)
            self._remaining_domains[key] = (
                None
                if constraints is None
                else RemainingDomains(constraints, counting, labels.__getitem__)
            )
        return self._remaining_domains[key]

    def _counting_groups(self, pod: Pod, matching: MatchingGroups, number: int) -> Iterator[int]:
        """The numbers of the groups that count the pod on this node."""
        own = (
            self._registry.inverse_anti_affinity_group(term)
            for term in pod.constraints.anti_affinity
        )
        labels = self._nodes.nodes[number].labels
        for group in (*matching.counting, *own):
            is_labelled = group.key in labels or group.key not in self._registry.keys
            if group.nodes >> number & 1 and is_labelled:
                yield group.number

    def _relaxed_constraints(
        self, constraints: PodConstraints, given_up: tuple[RelaxedPreference, ...]
    ) -> RelaxedConstraints:
        """The constraints that were left when the pod found its place."""
        key = (constraints, given_up)
        if key not in self._relaxed:
            self._relaxed[key] = relaxed_constraints(constraints, self._policy, given_up)
        return self._relaxed[key]


def _nodes_after_plan(
    snapshot: Snapshot, plan: Plan, planned_nodes: PlannedNodes
) -> Iterator[Node]:
    """The existing nodes with the pods placed there, and the planned nodes with theirs."""
    pods = {pod.key: pod for pod in snapshot.pods}
    taints = {pool.name: pool.taints for pool in snapshot.pools}
    placed = {each.node: [pods[key] for key in each.pods] for each in plan.placements}
    for node in snapshot.nodes:
        yield msgspec.structs.replace(node, pods=(*node.pods, *placed.get(node.name, ())))
    for claim in plan.claims:
        yield planned_nodes.node(claim, (pods[key] for key in claim.pods), taints[claim.pool])


CandidateLocation = tuple[CurrentPlacement, str | int]
"""With the pool of the new node, or the number of the unschedulable group of the plan."""


class CandidatePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that uses no reservation, for all equal pods with the same result of the plan."""

    pod: Pod
    placement: CurrentPlacement
    alternatives: tuple[Requirements, ...]
    """With the topology of its volumes."""
    requests: Resources
    """With one of the resource pods."""
    pool: str | None = None
    """Of the new node that it is on."""
    placed_by: Requirements | None = None
    """Of several alternatives the one that the new node is for."""
    remaining_domains: RemainingDomains | None = None
    """Of a pod on a new node: the topology domains that other pods leave to it."""
    failure: UnschedulableGroup | None = None
    """Of a pod without a place."""
    given_up: tuple[RelaxedPreference, ...] = ()
    keys: list[str] = msgspec.field(default_factory=list)


def find_candidate_pods(
    snapshot: Snapshot,
    plan: ExplainedPlan,
    planned_nodes: PlannedNodes,
    topology: TopologyAfterPlan,
) -> Iterable[CandidatePod]:
    """The pending pods that are on no reserved claim of the plan, equal ones together.

    Everything after this is done once for equal pods: a plan has thousands of pods of few classes.
    """
    locations, claims = _pod_locations(plan), _unreserved_claims_by_pod(plan)
    given_up = {pod: each.preferences for each in plan.relaxed for pod in each.pods}
    candidates: dict[object, CandidatePod] = {}
    for pod in snapshot.pods:
        location = locations.get(pod.key)
        if location is not None:
            relaxed, claim = given_up.get(pod.key, ()), claims.get(pod.key)
            remaining_domains = (
                topology.remaining_domains(pod, claim, relaxed) if claim is not None else None
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
            key = (identity, location, relaxed, remaining_domains, placed_by)
            if key not in candidates:
                candidates[key] = msgspec.structs.replace(
                    _create_candidate(pod, location, plan, relaxed),
                    remaining_domains=remaining_domains,
                    placed_by=placed_by,
                )
            candidates[key].keys.append(pod.key)
    return candidates.values()


def _unreserved_claims_by_pod(plan: Plan) -> dict[str, PlannedNodeClaim]:
    """By key of the pod the claim that it is on, where that uses no reservation."""
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


def _pod_locations(plan: ExplainedPlan) -> dict[str, CandidateLocation]:
    locations: dict[str, CandidateLocation] = {}
    for number, failure in enumerate(plan.unschedulable):
        locations |= dict.fromkeys(failure.pods, (CurrentPlacement.NONE, number))
    for claim in plan.claims:
        if claim.launch.reservation_id is None:
            locations |= dict.fromkeys(claim.pods, (CurrentPlacement.NEW, claim.pool))
    for placement in plan.placements:
        locations |= dict.fromkeys(placement.pods, (CurrentPlacement.EXISTING, 0))
    return locations


def _create_candidate(
    pod: Pod,
    location: CandidateLocation,
    plan: ExplainedPlan,
    given_up: tuple[RelaxedPreference, ...],
) -> CandidatePod:
    placement, detail = location
    return CandidatePod(
        pod=pod,
        placement=placement,
        alternatives=_alternatives_with_volumes(pod),
        requests={**pod.requests, PODS: 1},
        pool=detail if isinstance(detail, str) else None,
        failure=plan.unschedulable[int(detail)] if placement is CurrentPlacement.NONE else None,
        given_up=given_up,
    )


def _alternatives_with_volumes(pod: Pod) -> tuple[Requirements, ...]:
    """Each alternative combined with each topology term of the pod's volumes."""
    terms = pod.constraints.volume_topology
    if terms is ANY_NODE_TERMS:
        return pod.alternatives
    combined = (combine_requirements(own, term) for own in pod.alternatives for term in terms)
    return tuple(dict.fromkeys(each for each in combined if each is not None))
