"""A plan carried out: its claims join as nodes, and its pods are bound there one by one."""

from collections.abc import Iterable
from math import inf

from tests.support.kubefilter import Host, is_selected, is_tolerated, refusal
from tests.support.randomworlds import World

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    RESERVATION_ID,
    WELL_KNOWN,
    ZONE,
)
from wainwright.model.node import Node
from wainwright.model.plan import Plan, PlannedClaim
from wainwright.model.pod import Bonds, DaemonSet, Pod


class Cluster:
    """What stands, the nodes that the plan adds one by one, and who is to be bound where."""

    def __init__(self, world: World, plan: Plan) -> None:
        pods = {pod.key: pod for pod in world.snapshot.pods}
        daemonsets = world.snapshot.daemonsets
        standing = [node for node in world.snapshot.nodes if not node.deleting]
        self.joined = {node.name: _standing(node, daemonsets) for node in standing}
        self.coming: list[Host] = []
        self.waiting: list[tuple[Pod, Host]] = []
        for placement in plan.placements:
            self.waiting += [(pods[key], self.joined[placement.node]) for key in placement.pods]
        for claim in plan.claims:
            host = _launched(world, claim)
            self.coming.append(host)
            self.waiting += [(pods[key], host) for key in claim.pods]
        self.waiting.sort(key=lambda each: _large_and_old_first(each[0]))

    @property
    def hosts(self) -> list[Host]:
        return [*self.joined.values(), *self.coming]

    def refused(self) -> list[str]:
        """Who cannot be bound in any order, and why not; nobody if the plan is sound.

        Nodes join in the order in which the plan opens them, and pods are bound meanwhile.
        """
        search = _Search(self.hosts, self.waiting)
        return [] if search.succeeds(frozenset(), len(self.joined)) else sorted(search.stuck)


class _Search:
    """An order in which everybody can be bound, looked for by trying."""

    def __init__(self, hosts: list[Host], waiting: list[tuple[Pod, Host]]) -> None:
        self._hosts = hosts
        self._waiting = waiting
        self._failed: set[tuple[frozenset[int], int]] = set()
        self.stuck: list[str] = []
        """Of the attempt that got furthest."""
        self._furthest = -1

    def succeeds(self, bound: frozenset[int], joined: int) -> bool:
        """Whether the rest can be bound, with so many of the nodes there already."""
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
        with _Bound([self._waiting[number] for number in bound]):
            for number, (pod, host) in enumerate(self._waiting):
                if number not in bound:
                    here = host in hosts
                    why = refusal(pod, host, hosts) if here else "the node has not joined"
                    reasons[number] = why or ""
        found = [number for number, why in reasons.items() if not why]
        if not found and joined == len(self._hosts) and len(bound) > self._furthest:
            told = ((self._waiting[number], why) for number, why in reasons.items())
            self._furthest = len(bound)
            self.stuck = [f"{pod.key} on {host.name}: {why}" for (pod, host), why in told]
        return found


class _Bound:
    """Pods on their hosts for a while."""

    def __init__(self, pairs: list[tuple[Pod, Host]]) -> None:
        self._pairs = pairs

    def __enter__(self) -> None:
        for pod, host in self._pairs:
            host.pods.append(pod)

    def __exit__(self, *_: object) -> None:
        for pod, host in self._pairs:
            host.pods.remove(pod)


def _large_and_old_first(pod: Pod) -> tuple[float, float, float, str, str]:
    """As the planner goes about it, so that a good order is found soon."""
    age = inf if pod.created is None else pod.created
    return -pod.requests.get("cpu", 0), -pod.requests.get("memory", 0), age, pod.uid, pod.key


def _standing(node: Node, daemonsets: Iterable[DaemonSet]) -> Host:
    labels = {HOSTNAME: node.name, **node.labels}
    host = Host(node.name, labels, node.lasting_taints, dict(node.allocatable))
    host.attach_limits = node.attach_limits
    host.pods = list(node.pods)
    _await(host, daemonsets)
    return host


def _await(host: Host, daemonsets: Iterable[DaemonSet]) -> None:
    """Keeps what daemonsets will need beside what their pods have; who runs for whom is unknown.

    What labels those pods will have is unknown as well, so that no selector sees them.
    """
    agents = [agent for each in daemonsets if (agent := _agent(each, host)) is not None]
    running = [pod for pod in host.pods if pod.daemonset]
    host.kept_ports = [port for agent in agents for port in agent.bonds.ports]
    for name in {"pods", *(name for agent in agents for name in agent.requests)}:
        missing = _sum(agents, name) - _sum(running, name)
        host.allocatable[name] = host.allocatable.get(name, 0) - max(0, missing)


def _sum(pods: Iterable[Pod], name: str) -> int:
    return sum(1 if name == "pods" else pod.requests.get(name, 0) for pod in pods)


def _agent(daemonset: DaemonSet, host: Host) -> Pod | None:
    """The pod that a daemonset runs on the host, if it does."""
    pod = Pod(
        namespace=daemonset.namespace,
        name=f"{daemonset.name}-on-{host.name}",
        requests=daemonset.requests,
        alternatives=tuple(each.without({HOSTNAME}) for each in daemonset.alternatives),
        tolerations=daemonset.tolerations,
        bonds=Bonds(ports=daemonset.ports),
        daemonset=True,
    )
    wanted = is_selected(host.labels, pod.alternatives) and is_tolerated(host.taints, pod)
    return pod if wanted else None


def _launched(world: World, claim: PlannedClaim) -> Host:
    pool = next(each for each in world.snapshot.pools if each.name == claim.pool)
    kinds = world.types[pool.name]
    kind = next(each for each in kinds if each.name == claim.launch.instance_type)
    labels = _promised(kinds, claim) | _bought(kind, claim) | {HOSTNAME: claim.name}
    host = Host(claim.name, labels, pool.taints, dict(kind.allocatable))
    _await(host, world.snapshot.daemonsets)
    return host


def _bought(kind: InstanceType, claim: PlannedClaim) -> dict[str, str]:
    """What the cloud and the kubelet write on the node."""
    launch, found = claim.launch, {INSTANCE_TYPE: kind.name}
    for said in (kind.requirements, _offering(kind, claim).requirements):
        for key, requirement in said.items():
            both = requirement.allowed & claim.requirements.allowed(key)
            found |= {} if both.open or both.empty else {key: both.any()}
    found |= {CAPACITY_TYPE: launch.capacity_type}
    found |= {} if launch.zone is None else {ZONE: launch.zone}
    return found | (
        {} if launch.reservation_id is None else {RESERVATION_ID: launch.reservation_id}
    )


def _offering(kind: InstanceType, claim: PlannedClaim) -> Offering:
    launch = claim.launch
    return next(
        each
        for each in kind.offerings
        if each.available > 0
        and (each.price, each.reservation_id) == (launch.price, launch.reservation_id)
        and each.zone in (None, launch.zone)
        and each.capacity_type in (None, launch.capacity_type)
    )


def _promised(kinds: Iterable[InstanceType], claim: PlannedClaim) -> dict[str, str]:
    """What the claim writes on the node: what it has settled on, and any value of its own labels.

    Labels that machines bring with them are as they are; one that only some offerings name is left
    open by the others.
    """
    brought = WELL_KNOWN.union(*(kind.requirements for kind in kinds))
    found = {}
    for key, requirement in claim.requirements.items():
        allowed = requirement.allowed
        if allowed.length == 1 or (key not in brought and not allowed.admits_absence):
            found[key] = allowed.any()
    return found
