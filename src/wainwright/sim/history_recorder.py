"""Records the history of a simulated cluster, for reports: every node, pod and reservation.

Only where a report was asked for: it grows with every pod and node that ever was.
"""

from collections.abc import Iterable
from datetime import datetime

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import EventType
from wainwright.controllers.provisioning.provisioner import FAILED_SCHEDULING, NOMINATED
from wainwright.model.cluster_history import (
    ClusterHistory,
    NodeRecord,
    PodRecord,
    ReservationRecord,
)
from wainwright.model.resources import CPU, MEMORY
from wainwright.sim.billed_instances import BilledInstance
from wainwright.sim.node_info import amounts, pod_requests
from wainwright.sim.pod_counts import is_daemon, is_finished
from wainwright.sim.reservation_use import ReservationAtMoment


class HistoryRecorder:
    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._history = ClusterHistory()
        self._nodes: dict[str, int] = {}
        """By id the number of the node."""
        self._by_name: dict[str, int] = {}
        """By name of the Node that is there now."""
        self._pods: dict[str, PodRecord] = {}
        """By uid those that are there."""
        self._explained: set[str] = set()
        """Uids of pods of which our controllers have said why they are pending."""
        self._reservations: dict[str, ReservationRecord] = {}

    @property
    def history(self) -> ClusterHistory | None:
        """None where nobody asked for it."""
        return self._history if self._keep else None

    # Nodes

    def instance_started(self, at: float, billed: BilledInstance) -> None:
        if not self._keep:
            return
        instance = billed.instance
        record = self._node(instance.id, at)
        record.pool, record.instanceType, record.zone = billed.pool, instance.type, instance.zone
        record.capacityType, record.reservationID = _capacity(billed)
        self._set_price(at, billed)

    def instance_ended(self, at: float, billed: BilledInstance, reason: str) -> None:
        if not self._keep:
            return
        record = self._node(billed.instance.id, at)
        record.ended, record.endReason = at, reason

    def _set_price(self, at: float, billed: BilledInstance) -> None:
        record = self._node(billed.instance.id, at)
        capacity = _capacity(billed)
        if capacity != record.capacity_at(at):
            record.capacityChanges = [*record.capacityChanges, (at, *capacity)]
        if billed.is_price_modelled != record.is_price_modelled_at(at):
            record.modelled = [*record.modelled, at]
        if record.prices and record.prices[-1][1] == billed.price:
            return
        if record.prices and record.prices[-1][0] == at:
            record.prices.pop()
        record.prices = [*record.prices, (at, billed.price)]

    def prices_changed(self, at: float, instances: Iterable[BilledInstance]) -> None:
        if not self._keep:
            return
        for billed in instances:
            self._set_price(at, billed)

    def answering_changed(self, at: float, instance_id: str, answers: bool) -> None:
        if not self._keep:
            return
        record = self._node(instance_id, at)
        if answers != record.is_answering_at(at):
            record.silent = [*record.silent, at]

    def claim_changed(self, at: float, claim: NodeClaim) -> None:
        if not self._keep:
            return
        status = claim.status or NodeClaimStatus()
        number = self._nodes.get(status.providerID.rpartition("/")[2])
        if number is None:
            return
        record = self._history.nodes[number]
        record.claim = claim.metadata.name
        record.created = record.created or _timestamp(claim.metadata.creationTimestamp)
        if not record.name and status.allocatable:
            record.allocatable = amounts(status.allocatable)
        if claim.metadata.deletionTimestamp and record.deleting is None:
            record.deleting = at

    def node_changed(self, at: float, event: EventType, node: Node) -> None:
        if not self._keep:
            return
        name = node.metadata.name
        number = self._number_of(at, node)
        record = self._history.nodes[number]
        if event is EventType.DELETED:
            self._by_name.pop(name, None)
            if not record.is_managed:
                record.ended = at
            return
        self._by_name[name] = number
        if record.joined is None:
            record.joined, record.name = at, name
            record.created = record.created or _timestamp(node.metadata.creationTimestamp)
        if node.status.allocatable:
            record.allocatable = amounts(node.status.allocatable)
        if node.metadata.deletionTimestamp and record.deleting is None:
            record.deleting = at
        if _is_ready(node) != record.is_ready_at(at):
            record.ready = [*record.ready, at]

    def _number_of(self, at: float, node: Node) -> int:
        """A node without an instance of the account goes by its name."""
        identity = node.spec.providerID.rpartition("/")[2]
        name = node.metadata.name
        if identity not in self._nodes:
            known = self._by_name.get(name)
            if known is not None:
                return known
            identity = identity or name
            self._node(identity, at)
        return self._nodes[identity]

    def _node(self, identity: str, at: float) -> NodeRecord:
        number = self._nodes.get(identity)
        if number is None:
            number = self._nodes[identity] = len(self._history.nodes)
            self._history.nodes.append(NodeRecord(id=identity, launched=at))
        return self._history.nodes[number]

    # Pods

    def pod_changed(self, at: float, event: EventType, pod: Pod) -> None:
        if not self._keep:
            return
        uid = pod.metadata.uid
        record = self._pods.get(uid)
        if record is None:
            if event is EventType.DELETED or not _counts(pod):
                return
            record = self._pods[uid] = self._new_pod(at, pod)
        if event is EventType.DELETED or is_finished(pod) or _is_given_up(pod):
            record.ended = at
            del self._pods[uid]
            return
        self._follow(at, record, pod)

    def pod_evicted(self, pod: Pod) -> None:
        if not self._keep:
            return
        record = self._pods.get(pod.metadata.uid)
        if record is not None:
            record.evicted = True

    def event_written(self, at: float, event: Event) -> None:
        """What our controllers say of a pending pod goes before what the kube-scheduler says."""
        uid = event.involvedObject.uid
        record, reason = self._pods.get(uid), explained_reason(event)
        if not self._keep or record is None or record.bound is not None or not reason:
            return
        self._explained.add(uid)
        self._set_reason(at, record, reason)

    def _set_reason(self, at: float, record: PodRecord, reason: str) -> None:
        if reason and (not record.waits or record.waits[-1][1] != reason):
            record.waits = [*record.waits, (at, reason)]

    def _new_pod(self, at: float, pod: Pod) -> PodRecord:
        requests = pod_requests(pod.spec)
        record = PodRecord(
            name=f"{pod.metadata.namespace}/{pod.metadata.name}",
            owner=_owner(pod),
            cpu=requests.pop(CPU, 0),
            memory=requests.pop(MEMORY, 0),
            other=requests,
            daemon=is_daemon(pod),
            created=at,
        )
        self._history.pods.append(record)
        return record

    def _follow(self, at: float, record: PodRecord, pod: Pod) -> None:
        if record.bound is None and pod.spec.nodeName:
            record.bound, record.node = at, self._by_name.get(pod.spec.nodeName)
        elif not pod.spec.nodeName and pod.metadata.uid not in self._explained:
            self._set_reason(at, record, pending_reason(pod))
        if record.running is None and pod.status.phase == "Running":
            record.running = at
        if record.deleting is None and pod.metadata.deletionTimestamp is not None:
            record.deleting = at

    # Reservations

    def reservations_changed(self, at: float, states: Iterable[ReservationAtMoment]) -> None:
        if not self._keep:
            return
        for state in states:
            record = self._reservations.get(state.id)
            if record is None:
                record = self._reservations[state.id] = ReservationRecord(
                    id=state.id,
                    instanceType=state.instance_type,
                    zone=state.zone,
                    modelledPrice=state.is_price_modelled,
                )
                self._history.reservations.append(record)
            counts = (state.used, state.total, state.idle)
            if not record.counts or record.counts[-1][1:] != counts:
                kept = [each for each in record.counts if each[0] < at]
                record.counts = [*kept, (at, *counts)]
            if not record.prices or record.prices[-1][1] != state.price:
                record.prices = [*record.prices, (at, state.price)]


def _capacity(billed: BilledInstance) -> tuple[str, str | None]:
    is_reserved = billed.capacity_type == "reserved"
    return billed.capacity_type, billed.instance.reservation if is_reserved else None


def pending_reason(pod: Pod | None) -> str:
    """What the scheduler says of a pod that it could not place."""
    for each in (pod.status.conditions or ()) if pod is not None else ():
        if each.type == "PodScheduled" and each.status == "False":
            return each.message or each.reason
    return ""


def explained_reason(event: Event) -> str:
    """Why a pod is pending, as our controllers tell it; empty where the event is about else."""
    if event.reason == "FailedScheduling":
        return event.message.removeprefix(f"{FAILED_SCHEDULING}: ")
    if event.reason == "SchedulingDisagreement":
        return event.message
    kind, _, name = event.message.removeprefix(f"{NOMINATED}: ").partition("/")
    if event.reason != "Nominated" or not name:
        return ""
    if kind == "nodeclaim":
        return f"waiting for the new node of NodeClaim {name}"
    return f"waiting to be bound to node {name}, which has room"


def _counts(pod: Pod) -> bool:
    """Whether it waits or is bound: one with scheduling gates does neither."""
    return bool(pod.spec.nodeName) or not (pod.spec.schedulingGates or is_finished(pod))


def _is_given_up(pod: Pod) -> bool:
    """Deleted before it had a node."""
    return not pod.spec.nodeName and pod.metadata.deletionTimestamp is not None


def _owner(pod: Pod) -> str:
    owners = pod.metadata.ownerReferences or ()
    found = next((each for each in owners if each.controller), None)
    return "" if found is None else f"{found.kind}/{found.name}"


def _is_ready(node: Node) -> bool:
    conditions = node.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def _timestamp(stated: str | None) -> float | None:
    return None if stated is None else datetime.fromisoformat(stated).timestamp()
