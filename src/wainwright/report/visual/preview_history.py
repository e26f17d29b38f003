"""The history of a preview: a snapshot, and what planned nodes and commands change of it.

Moments are steps. A pod that moves ends on its old node and begins anew on the other one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.model.cluster_history import (
    ClusterHistory,
    NodeRecord,
    PodRecord,
    ReservationRecord,
)
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.pod import Pod
from wainwright.model.resources import CPU, MEMORY, Resources, subtract_resources
from wainwright.model.snapshot import Node, Pool, ReservationState, Snapshot, find_offering
from wainwright.report.visual.story import PoolInfo

DAEMON_PODS: Final = "pods of DaemonSets"
"""Stands for what a planned node needs for itself."""
PODS: Final = "pods"


class PreviewHistory:
    def __init__(self, snapshot: Snapshot, indexes: Mapping[str, InstanceTypeIndex]) -> None:
        self.history = ClusterHistory()
        self.node_numbers: dict[str, int] = {}
        """By name."""
        self.pod_numbers: dict[str, int] = {}
        """By namespace/name, of the record that is there now."""
        self._on_node: dict[int, list[PodRecord]] = defaultdict(list)
        """Every pod that is or was on a node."""
        self._types = {
            pool: {each.name: each for each in index.types} for pool, index in indexes.items()
        }
        self._pods = {pod.key: pod for pod in snapshot.pods}
        for node in snapshot.nodes:
            self.add_node(node, 0.0)
        for pod in snapshot.pods:
            if pod.key not in self.pod_numbers:  # of a node that is being deleted: it moves
                self._add_pod(pod, 0.0, None)
        for reservation in snapshot.reservations:
            self.history.reservations.append(_reservation(reservation))

    # Nodes

    def add_node(self, node: Node, at: float) -> None:
        """A node with its pods, as a snapshot has it."""
        labels = node.labels
        is_reserved = labels.get(CAPACITY_TYPE) == "reserved"
        offering = self._offering(node)
        record = NodeRecord(
            id=node.name,
            name=node.name if node.joined else "",
            claim=node.claim.name if node.claim is not None else "",
            pool=(node.pool or "") if node.managed else "",
            instanceType=labels.get(INSTANCE_TYPE, ""),
            zone=labels.get(ZONE, ""),
            capacityType=labels.get(CAPACITY_TYPE, ""),
            reservationID=(labels.get(RESERVATION_ID) or node.reservation_id)
            if is_reserved
            else None,
            allocatable=dict(node.allocatable),
            created=node.created,
            launched=at,
            joined=at if node.joined else None,
            ready=[at] if node.joined and _is_ready(node) else [],
            deleting=at if node.deleting else None,
            prices=[(at, None if offering is None else offering.price)],
            modelled=[at] if offering is not None and offering.modelled else [],
        )
        number = self._append(record)
        for pod in node.pods:
            self._pods[pod.key] = pod
            self._add_pod(pod, at, number)

    def launch(self, claim: PlannedNodeClaim, at: float) -> int:
        """A planned node with its pods."""
        launch = claim.launch
        instance_type = self._types.get(claim.pool, {}).get(launch.instance_type)
        record = NodeRecord(
            id=claim.name,
            claim=claim.name,
            pool=claim.pool,
            instanceType=launch.instance_type,
            zone=launch.zone or "",
            capacityType=launch.capacity_type,
            reservationID=launch.reservation_id,
            allocatable=dict(instance_type.allocatable) if instance_type is not None else {},
            launched=at,
            prices=[(at, launch.price)],
            modelled=[at] if launch.modelled_price else [],
        )
        number = self._append(record)
        self._add_daemons(claim, number, at)
        for key in claim.pods:
            self.place(key, number, at)
        return number

    def remove(self, name: str, at: float, reason: str) -> None:
        """The node is gone, and what is still on it."""
        number = self.node_numbers[name]
        record = self.history.nodes[number]
        record.ended, record.endReason = at, reason
        for pod in self._on_node.get(number, ()):
            if pod.ended is None:
                pod.ended = at

    # Pods

    def place(self, key: str, node: int, at: float) -> None:
        """A pod that waits is bound, one that is elsewhere moves."""
        number = self.pod_numbers.get(key)
        known = self.history.pods[number] if number is not None else None
        if known is not None and known.bound is None:
            known.bound = known.running = at
            known.node = node
            self._on_node[node].append(known)
            return
        if known is not None and known.ended is None:
            known.ended, known.evicted = at, True
        pod = self._pods.get(key)
        if pod is not None:
            self._add_pod(pod, at, node)

    def _add_pod(self, pod: Pod, at: float, node: int | None) -> None:
        requests = dict(pod.requests)
        record = PodRecord(
            name=pod.key,
            owner=pod.eviction.owner,
            cpu=requests.pop(CPU, 0),
            memory=requests.pop(MEMORY, 0),
            other={name: amount for name, amount in requests.items() if name != PODS and amount},
            daemon=pod.daemonset or pod.eviction.static,
            created=at,
            bound=None if node is None else at,
            node=node,
            running=None if node is None else at,
            deleting=at if pod.terminating else None,
        )
        self.pod_numbers[pod.key] = len(self.history.pods)
        self._append_pod(record)

    def _add_daemons(self, claim: PlannedNodeClaim, number: int, at: float) -> None:
        rest: Resources = claim.requests
        for key in claim.pods:
            pod = self._pods.get(key)
            rest = rest if pod is None else subtract_resources(rest, pod.requests)
        cpu, memory = max(rest.get(CPU, 0), 0), max(rest.get(MEMORY, 0), 0)
        if cpu or memory:
            daemons = PodRecord(
                name=DAEMON_PODS, cpu=cpu, memory=memory, daemon=True, created=at, node=number
            )
            daemons.bound = daemons.running = at
            self._append_pod(daemons)

    def _append_pod(self, record: PodRecord) -> None:
        self.history.pods.append(record)
        if record.node is not None:
            self._on_node[record.node].append(record)

    def _append(self, record: NodeRecord) -> int:
        number = self.node_numbers[record.id] = len(self.history.nodes)
        self.history.nodes.append(record)
        return number

    def _offering(self, node: Node) -> Offering | None:
        found = self._type_of(node)
        return None if found is None else find_offering(node, found.offerings)

    def _type_of(self, node: Node) -> InstanceType | None:
        return self._types.get(node.pool or "", {}).get(node.labels.get(INSTANCE_TYPE, ""))

    # Reservations

    def count_reservations(self, steps: int) -> None:
        """Instances that are launched into reservations, or leave them, step by step."""
        for record in self.history.reservations:
            _, used, total, idle = record.counts[0]
            for step in range(1, steps + 1):
                change = sum(
                    (node.launched == step) - (node.ended == step)
                    for node in self.history.nodes
                    if node.reservationID == record.id
                )
                used, idle = used + change, idle - change
                if change:
                    record.counts = [*record.counts, (float(step), used, total, max(idle, 0))]


def _is_ready(node: Node) -> bool:
    """A node of which nobody states conditions is taken to be Ready."""
    ready = node.conditions.get("Ready")
    return ready is None or ready.is_true


def _reservation(state: ReservationState) -> ReservationRecord:
    used = max(state.total - state.available, 0)
    return ReservationRecord(
        id=state.id,
        instanceType=state.instance_type,
        zone=state.zone,
        counts=[(0.0, used, state.total, state.available)],
        unusable=state.unusable or "",
    )


def pool_infos(pools: Iterable[Pool]) -> list[PoolInfo]:
    return [
        PoolInfo(name=pool.name, weight=pool.weight, limits=dict(pool.limits))
        for pool in sorted(pools, key=lambda pool: (-pool.weight, pool.name))
    ]
