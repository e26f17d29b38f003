"""Executes a plan: claims join as nodes, launched from the planned or any other allowed offering,
and pods are bound one by one.
"""

from collections.abc import Iterable
from math import inf
from random import Random

import msgspec
from tests.support.kube_scheduler.filters import (
    BoundNode,
    filter_failure,
    matches_node_affinity,
    tolerates_taints,
)
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.offerings import available_offerings

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    RESERVATION_ID,
    WELL_KNOWN_LABELS,
    ZONE,
)
from wainwright.model.plan import Plan, PlannedLaunch, PlannedNodeClaim
from wainwright.model.pod import DaemonSet, Pod, PodConstraints
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.snapshot import Node


class BoundCluster:
    """Existing nodes, the nodes that the plan adds one by one, and the planned bindings."""

    def __init__(self, planner_input: PlannerInput, plan: Plan) -> None:
        pods = {pod.key: pod for pod in planner_input.snapshot.pods}
        daemonsets = planner_input.snapshot.daemonsets
        standing = [node for node in planner_input.snapshot.nodes if not node.deleting]
        self.joined = {node.name: _existing_node(node, daemonsets) for node in standing}
        self.coming: list[BoundNode] = []
        self.waiting: list[tuple[Pod, BoundNode]] = []
        for placement in plan.placements:
            self.waiting += [(pods[key], self.joined[placement.node]) for key in placement.pods]
        for claim in plan.claims:
            host = _joined_node(planner_input, claim)
            self.coming.append(host)
            self.waiting += [(pods[key], host) for key in claim.pods]
        self.waiting.sort(key=lambda each: _binding_order(each[0]))

    @property
    def hosts(self) -> list[BoundNode]:
        return [*self.joined.values(), *self.coming]

    def refused(self) -> list[str]:
        """Pods that cannot be bound in any order, and why; empty if the plan is valid.
        Nodes join in the order in which the plan opens them, with pods bound in between.
        """
        search = _BindingSearch(self.hosts, self.waiting)
        return [] if search.succeeds(frozenset(), len(self.joined)) else sorted(search.stuck)


class _BindingSearch:
    """Searches for an order in which all pods can be bound."""

    def __init__(self, hosts: list[BoundNode], waiting: list[tuple[Pod, BoundNode]]) -> None:
        self._hosts = hosts
        self._waiting = waiting
        self._failed: set[tuple[frozenset[int], int]] = set()
        self.stuck: list[str] = []
        """Failures of the attempt that bound the most pods."""
        self._furthest = -1

    def succeeds(self, bound: frozenset[int], joined: int) -> bool:
        """Whether the remaining pods can be bound, with this many nodes joined."""
        if len(bound) == len(self._waiting):
            return True
        if (bound, joined) in self._failed:
            return False
        if any(self.succeeds(bound | {number}, joined) for number in self._bindable(bound, joined)):
            return True
        if joined < len(self._hosts) and self.succeeds(bound, joined + 1):
            return True
        self._failed.add((bound, joined))
        return False

    def _bindable(self, bound: frozenset[int], joined: int) -> list[int]:
        hosts = self._hosts[:joined]
        reasons: dict[int, str] = {}
        with _TemporaryBinding([self._waiting[number] for number in bound]):
            for number, (pod, host) in enumerate(self._waiting):
                if number not in bound:
                    here = host in hosts
                    why = filter_failure(pod, host, hosts) if here else "the node has not joined"
                    reasons[number] = why or ""
        found = [number for number, why in reasons.items() if not why]
        if not found and joined == len(self._hosts) and len(bound) > self._furthest:
            failures = ((self._waiting[number], why) for number, why in reasons.items())
            self._furthest = len(bound)
            self.stuck = [f"{pod.key} on {host.name}: {why}" for (pod, host), why in failures]
        return found


class _TemporaryBinding:
    """Binds pods temporarily."""

    def __init__(self, pairs: list[tuple[Pod, BoundNode]]) -> None:
        self._pairs = pairs

    def __enter__(self) -> None:
        for pod, host in self._pairs:
            host.pods.append(pod)

    def __exit__(self, *_: object) -> None:
        for pod, host in self._pairs:
            host.pods.remove(pod)


def _binding_order(pod: Pod) -> tuple[float, float, float, str, str]:
    """The planner's order, in which a valid order is found soon."""
    age = inf if pod.created is None else pod.created
    return -pod.requests.get("cpu", 0), -pod.requests.get("memory", 0), age, pod.uid, pod.key


def _existing_node(node: Node, daemonsets: Iterable[DaemonSet]) -> BoundNode:
    labels = {HOSTNAME: node.name, **node.labels}
    host = BoundNode(node.name, labels, node.effective_taints, dict(node.allocatable))
    host.attach_limits = node.attach_limits
    host.pods = list(node.pods)
    _reserve_for_daemonsets(host, daemonsets)
    return host


def _reserve_for_daemonsets(host: BoundNode, daemonsets: Iterable[DaemonSet]) -> None:
    """Reserves what daemonset pods still to come will need; running ones are not matched to sets.
    The labels of those pods are unknown as well, so no selector matches them.
    """
    agents = [agent for each in daemonsets if (agent := _daemonset_pod(each, host)) is not None]
    running = [pod for pod in host.pods if pod.daemonset]
    host.kept_ports = [port for agent in agents for port in agent.constraints.ports]
    for name in {"pods", *(name for agent in agents for name in agent.requests)}:
        missing = _sum(agents, name) - _sum(running, name)
        host.allocatable[name] = host.allocatable.get(name, 0) - max(0, missing)


def _sum(pods: Iterable[Pod], name: str) -> int:
    return sum(1 if name == "pods" else pod.requests.get(name, 0) for pod in pods)


def _daemonset_pod(daemonset: DaemonSet, host: BoundNode) -> Pod | None:
    """The pod that a daemonset runs on the host, if it does."""
    pod = Pod(
        namespace=daemonset.namespace,
        name=f"{daemonset.name}-on-{host.name}",
        requests=daemonset.requests,
        alternatives=tuple(each.without({HOSTNAME}) for each in daemonset.alternatives),
        tolerations=daemonset.tolerations,
        constraints=PodConstraints(ports=daemonset.ports),
        daemonset=True,
    )
    wanted = matches_node_affinity(host.labels, pod.alternatives) and tolerates_taints(
        host.taints, pod
    )
    return pod if wanted else None


def _joined_node(planner_input: PlannerInput, claim: PlannedNodeClaim) -> BoundNode:
    pool = next(each for each in planner_input.snapshot.pools if each.name == claim.pool)
    kinds = planner_input.types[pool.name]
    kind = next(each for each in kinds if each.name == claim.launch.instance_type)
    labels = _claim_labels(kinds, claim) | _cloud_labels(kind, claim) | {HOSTNAME: claim.name}
    host = BoundNode(claim.name, labels, pool.taints, dict(kind.allocatable))
    host.attach_limits = kind.attach_limits
    _reserve_for_daemonsets(host, planner_input.snapshot.daemonsets)
    return host


def _cloud_labels(kind: InstanceType, claim: PlannedNodeClaim) -> dict[str, str]:
    """Labels that the cloud and the kubelet set on the node."""
    launch, found = claim.launch, {INSTANCE_TYPE: kind.name}
    for said in (kind.requirements, _offering(kind, claim).requirements):
        for key, requirement in said.items():
            both = requirement.allowed & claim.requirements.allowed(key)
            found |= {} if both.open or both.is_empty else {key: both.any_value()}
    found |= {CAPACITY_TYPE: launch.capacity_type}
    found |= {} if launch.zone is None else {ZONE: launch.zone}
    return found | (
        {} if launch.reservation_id is None else {RESERVATION_ID: launch.reservation_id}
    )


def _offering(kind: InstanceType, claim: PlannedNodeClaim) -> Offering:
    launch = claim.launch
    return next(
        each
        for each in kind.offerings
        if each.available > 0
        and (each.price, each.reservation_id) == (launch.price, launch.reservation_id)
        and each.zone in (None, launch.zone)
        and each.capacity_type in (None, launch.capacity_type)
    )


def _claim_labels(kinds: Iterable[InstanceType], claim: PlannedNodeClaim) -> dict[str, str]:
    """Labels from the claim: single values of its requirements, and any value of its own labels.
    Labels of the instance type stay as they are; one that only some offerings have is left open by
    the others.
    """
    brought = WELL_KNOWN_LABELS.union(*(kind.requirements for kind in kinds))
    found = {}
    for key, requirement in claim.requirements.items():
        allowed = requirement.allowed
        if allowed.length == 1 or (key not in brought and not allowed.admits_absence):
            found[key] = allowed.any_value()
    return found


def launch_differently(planner_input: PlannerInput, plan: Plan, rng: Random) -> Plan:
    """The same plan with each claim launched from a random allowed offering."""
    claims = tuple(
        _relaunched_claim(claim, _claim_offerings(planner_input, claim), rng)
        for claim in plan.claims
    )
    return msgspec.structs.replace(plan, claims=claims)


def _claim_offerings(
    planner_input: PlannerInput, claim: PlannedNodeClaim
) -> list[tuple[InstanceType, Offering]]:
    held = claim.choices.reservation_ids
    found = [
        (kind, offering)
        for kind in planner_input.types[claim.pool]
        if kind.name in claim.choices.instance_types
        for offering in available_offerings(kind, claim.requirements, held)
        if offering.zone and offering.capacity_type
    ]
    return [each for each in found if each[1].reservation_id or not held]


def _relaunched_claim(
    claim: PlannedNodeClaim, offers: list[tuple[InstanceType, Offering]], rng: Random
) -> PlannedNodeClaim:
    if not offers:
        return claim
    kind, offering = rng.choice(offers)
    launch = PlannedLaunch(
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type or "",
        price=offering.price,
        reservation_id=offering.reservation_id,
    )
    return msgspec.structs.replace(claim, launch=launch)


def without_min_values(planner_input: PlannerInput) -> PlannerInput:
    """Without minValues: a claim that must keep several zones cannot be restricted to one."""
    pools = tuple(
        msgspec.structs.replace(
            pool,
            requirements=Requirements(
                Requirement(key=key, allowed=found.allowed)
                for key, found in pool.requirements.items()
            ),
        )
        for pool in planner_input.snapshot.pools
    )
    snapshot = msgspec.structs.replace(planner_input.snapshot, pools=pools)
    return msgspec.structs.replace(planner_input, snapshot=snapshot)


def cluster_after_plan(planner_input: PlannerInput, plan: Plan) -> PlannerInput:
    """The cluster after the plan, without unschedulable pods."""
    cluster, old = (
        BoundCluster(planner_input, plan),
        {node.name: node for node in planner_input.snapshot.nodes},
    )
    received: dict[str, list[Pod]] = {host.name: [] for host in cluster.hosts}
    for pod, host in cluster.waiting:
        received[host.name].append(pod)
    kept = [old[name] for name in cluster.joined]
    nodes = [
        msgspec.structs.replace(node, pods=(*node.pods, *received[node.name])) for node in kept
    ]
    for claim, host in zip(plan.claims, cluster.coming, strict=True):
        kind = next(
            k for k in planner_input.types[claim.pool] if k.name == claim.launch.instance_type
        )
        nodes.append(
            Node(
                name=host.name,
                labels=host.labels,
                taints=host.taints,
                allocatable=dict(kind.allocatable),
                pods=tuple(received[host.name]),
                pool=claim.pool,
                launched=False,
                reservation_id=claim.launch.reservation_id,
            )
        )
    snapshot = msgspec.structs.replace(planner_input.snapshot, pods=(), nodes=tuple(nodes))
    return msgspec.structs.replace(planner_input, snapshot=snapshot)
