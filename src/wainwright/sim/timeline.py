"""Writes the timeline of a simulation; where nobody asked for it, only what totals need is kept."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from wainwright.api.api_resources import resource_of
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.cluster import EventType, WatchEvent
from wainwright.emulator.context import Params
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    CapacityReservation,
    parse_reservation_specification,
)
from wainwright.errors import AwsError
from wainwright.model.labels import NODEPOOL
from wainwright.model.simulation import (
    BindEntry,
    ConditionEntry,
    DisruptEntry,
    EventEntry,
    EvictEntry,
    ExpectationEntry,
    FaultEntry,
    InterruptEntry,
    JoinEntry,
    LabelEntry,
    LaunchEntry,
    LaunchFailureEntry,
    ReadyEntry,
    ReservationEntry,
    RestartEntry,
    ScenarioEntry,
    TerminateEntry,
    Timeline,
)
from wainwright.sim.aws_calls import CallInProgress, SimulatedAwsCalls
from wainwright.sim.billed_instances import BilledInstance
from wainwright.sim.initial_nodes import NODECLAIM_TAG
from wainwright.sim.object_store import metadata_of
from wainwright.sim.pod_counts import is_daemon
from wainwright.sim.world import World

RESERVATION_SPECIFICATION: Final = "CapacityReservationSpecification"
EVICTED: Final = "EvictionByEvictionAPI"
CONDITION_KINDS: Final = (NodeClaim, NodePool, EC2NodeClass, Node)
LABEL_KINDS: Final = (NodeClaim, Node)


def object_name(obj: WireStruct) -> str:
    """`Kind/name` or `Kind/namespace/name`; one that names no namespace is in `default`."""
    metadata, resource = metadata_of(obj), resource_of(type(obj))
    namespace = (metadata.namespace or "default") if resource.is_namespaced else ""
    return qualified_name(resource.kind, namespace, metadata.name)


def qualified_name(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}"


class TimelineWriter:
    def __init__(self, world: World, calls: SimulatedAwsCalls, *, keep: bool) -> None:
        self._world = world
        self._calls = calls
        self._keep = keep
        self.entries: Timeline = []
        self._launches: dict[str, int] = {}
        """By instance, where its launch is in the timeline: its claim may become known later."""
        self._ready: set[str] = set()
        self._joined: set[str] = set()
        self._evicted: set[str] = set()
        """Uids of pods whose eviction is written down and that are not gone yet."""
        self._forced: set[str] = set()
        """Uids of pods that a controller deletes without an eviction."""
        self._unbound: set[str] = set()
        """Uids of pods that have no node yet."""
        self._last: dict[str, WireStruct] = {}
        """Objects of which conditions and labels are compared, as they were last."""
        if keep:
            for kind in CONDITION_KINDS:
                for obj in world.api.peek_all(kind):
                    self._last[object_name(obj)] = obj
        self._unbound.update(
            pod.metadata.uid for pod in world.api.peek_all(Pod) if not pod.spec.nodeName
        )

    def _add(self, entry: Any) -> None:
        if self._keep:
            self.entries.append(entry)

    # Instances and nodes

    def launch(self, at: float, billed: BilledInstance) -> None:
        if not self._keep:
            return
        instance, call = billed.instance, self._calls.in_progress
        is_reserved = billed.capacity_type == "reserved"
        self._launches[instance.id] = len(self.entries)
        self._add(
            LaunchEntry(
                at=at,
                object=_claim_or_instance(billed),
                message=f"{instance.type} in {instance.zone}, {billed.capacity_type}",
                instance=instance.id,
                nodePool=billed.pool,
                instanceType=instance.type,
                zone=instance.zone,
                capacityType=billed.capacity_type,
                reservationID=instance.reservation if is_reserved else None,
                pricePerHour=billed.price,
                types=_requested_types(call),
                templates=self._requested_reservations(call),
            )
        )

    def claim_known(self, billed: BilledInstance) -> None:
        index = self._launches.get(billed.instance.id)
        if index is not None:
            entry = self.entries[index]
            self.entries[index] = msgspec.structs.replace(entry, object=_claim_or_instance(billed))

    def launch_failure(self, at: float, claim: NodeClaim) -> None:
        """The claim is gone, because EC2 would not sell what it asks for."""
        labels = claim.metadata.labels or {}
        self._add(
            LaunchFailureEntry(
                at=at,
                object=object_name(claim),
                message=_launch_problem(claim),
                nodePool=labels.get(NODEPOOL, ""),
            )
        )

    def terminate(self, at: float, billed: BilledInstance, reason: str) -> None:
        self._add(
            TerminateEntry(
                at=at,
                object=_claim_or_instance(billed),
                message=f"{billed.instance.type} in {billed.instance.zone} ended: {reason}",
                instance=billed.instance.id,
                reason=reason,
            )
        )
        self._launches.pop(billed.instance.id, None)

    def interrupt(self, at: float, billed: BilledInstance) -> None:
        name = billed.node or billed.instance.id
        self._add(
            InterruptEntry(
                at=at,
                object=f"Node/{name}",
                message="EC2 interruption notice",
                claim=billed.claim or None,
                instance=billed.instance.id,
            )
        )

    def known_ready(self, node: Node) -> None:
        """A node of the start: it neither joins nor becomes ready."""
        self._joined.add(node.metadata.uid)
        if _is_ready(node):
            self._ready.add(node.metadata.uid)

    def forget_node(self, node: Node) -> None:
        self._joined.discard(node.metadata.uid)
        self._ready.discard(node.metadata.uid)

    def node_changed(self, at: float, node: Node, billed: BilledInstance) -> None:
        uid, claim = node.metadata.uid, billed.claim or None
        if uid not in self._joined:
            self._joined.add(uid)
            message = f"{billed.instance.id} joined"
            self._add(JoinEntry(at=at, object=object_name(node), message=message, claim=claim))
        if uid not in self._ready and _is_ready(node):
            self._ready.add(uid)
            self._add(ReadyEntry(at=at, object=object_name(node), message="Ready", claim=claim))

    # Pods

    def delete_forcibly(self, uid: str) -> None:
        """A controller deletes the pod without asking for an eviction."""
        self._forced.add(uid)

    def pod_changed(self, at: float, event: EventType, pod: Pod) -> bool:
        """Writes down bindings and evictions; whether it is an eviction that counts."""
        uid = pod.metadata.uid
        if event is EventType.DELETED:
            for each in (self._evicted, self._forced, self._unbound):
                each.discard(uid)
            return False
        if not pod.spec.nodeName:
            self._unbound.add(uid)
        elif uid in self._unbound:
            self._unbound.discard(uid)
            self._bind(at, pod)
        if pod.metadata.deletionTimestamp is None or uid in self._evicted:
            return False
        forced = uid in self._forced
        if not forced and not _is_evicted(pod):
            return False
        self._evicted.add(uid)
        self._evict(at, pod, forced)
        return not is_daemon(pod)

    def _bind(self, at: float, pod: Pod) -> None:
        if self._keep:
            node, daemon = pod.spec.nodeName, is_daemon(pod)
            message = f"bound to {node}"
            self._add(
                BindEntry(at=at, object=object_name(pod), message=message, node=node, daemon=daemon)
            )

    def _evict(self, at: float, pod: Pod, forced: bool) -> None:
        if self._keep:
            self._add(
                EvictEntry(
                    at=at,
                    object=object_name(pod),
                    message="deleted by force" if forced else "evicted",
                    node=pod.spec.nodeName,
                    forced=forced,
                    daemon=is_daemon(pod),
                )
            )

    # Everything else

    def kubernetes_event(self, at: float, event: Event) -> EventEntry:
        subject = event.involvedObject
        entry = EventEntry(
            at=at,
            object=qualified_name(subject.kind, subject.namespace, subject.name),
            message=event.message,
            reason=event.reason,
            type=event.type or "Normal",
        )
        self._add(entry)
        return entry

    def disrupt(self, entry: DisruptEntry) -> None:
        self._add(entry)

    def reservation(self, at: float, reservation: CapacityReservation, change: str) -> None:
        is_active = reservation.active
        self._add(
            ReservationEntry(
                at=at,
                object=f"CapacityReservation/{reservation.id}",
                message=f"{change}: {reservation.total} × {reservation.type} in {reservation.zone}",
                change=change,
                total=reservation.total if is_active else 0,
                used=reservation.used if is_active else 0,
            )
        )

    def fault(self, at: float, operation: str, error: AwsError) -> None:
        message = f"{operation}: {error.text}"
        self._add(
            FaultEntry(at=at, object="", message=message, operation=operation, code=error.code)
        )

    def scenario(self, at: float, verb: str, line: int | None, subject: str, text: str) -> None:
        self._add(ScenarioEntry(at=at, object=subject, message=text, verb=verb, line=line))

    def restart(self, at: float, message: str) -> None:
        self._add(RestartEntry(at=at, object="", message=message))

    def expectation(self, at: float, line: int, held: bool, message: str) -> None:
        self._add(ExpectationEntry(at=at, object="", message=message, line=line, held=held))

    def conditions_and_labels(self, moment: Callable[[], float], change: WatchEvent[Any]) -> None:
        """What changed of the conditions and labels of claims, nodes, pools and classes."""
        obj = change.object
        if not self._keep or not isinstance(obj, CONDITION_KINDS):
            return
        name, at = object_name(obj), moment()
        if change.type is EventType.DELETED:
            self._last.pop(name, None)
            return
        before = self._last.get(name)
        self._last[name] = obj
        self.entries.extend(_condition_changes(at, name, before, obj))
        if before is not None and isinstance(obj, LABEL_KINDS) and _is_launched(before):
            self.entries.extend(_label_changes(at, name, before, obj))

    def _requested_reservations(self, call: CallInProgress | None) -> list[str | None]:
        if call is None:
            return [None]
        configs = call.params.get("LaunchTemplateConfigs") or ()
        return [self._template_reservation(each) for each in configs] or [None]

    def _template_reservation(self, config: Params) -> str | None:
        """The capacity reservation that a launch template targets."""
        templates = self._world.account.services.templates
        _, version = templates.resolve(config.get("LaunchTemplateSpecification") or {})
        return parse_reservation_specification(version.data.get(RESERVATION_SPECIFICATION))[1]


def _claim_or_instance(billed: BilledInstance) -> str:
    claim = billed.claim or billed.instance.tags.get(NODECLAIM_TAG)
    return f"NodeClaim/{claim}" if claim else f"Instance/{billed.instance.id}"


def _launch_problem(claim: NodeClaim) -> str:
    launched = _conditions(claim).get("Launched")
    return (launched.message or launched.reason) if launched is not None else ""


def _requested_types(call: CallInProgress | None) -> int:
    if call is None:
        return 0
    configs = call.params.get("LaunchTemplateConfigs") or ()
    types = {each.get("InstanceType") for one in configs for each in one.get("Overrides") or ()}
    return len(types - {None}) or 1


def _is_ready(node: Node) -> bool:
    conditions = node.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def _is_evicted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.reason == EVICTED
        for each in pod.status.conditions or ()
    )


def _conditions(obj: WireStruct | None) -> Mapping[str, Any]:
    status = getattr(obj, "status", None)
    return {each.type: each for each in (getattr(status, "conditions", None) or ())}


def _condition_changes(
    at: float, name: str, before: WireStruct | None, after: WireStruct
) -> Iterator[ConditionEntry]:
    if before is not None and getattr(before, "status", None) is getattr(after, "status", None):
        return
    known, current = _conditions(before), _conditions(after)
    for kind, condition in current.items():
        old = known.get(kind)
        if old is None or (old.status, old.reason) != (condition.status, condition.reason):
            yield ConditionEntry(
                at=at,
                object=name,
                message=condition.message,
                type=kind,
                status=condition.status,
                reason=condition.reason,
            )
    for kind in known:
        if kind not in current:
            yield ConditionEntry(
                at=at, object=name, message="removed", type=kind, status="False", reason=""
            )


def _is_launched(obj: WireStruct) -> bool:
    """Whether labels that change now change after the launch."""
    if isinstance(obj, NodeClaim):
        return bool((obj.status or NodeClaimStatus()).providerID)
    return True


def _label_changes(
    at: float, name: str, before: WireStruct, after: WireStruct
) -> Iterator[LabelEntry]:
    old, new = metadata_of(before).labels or {}, metadata_of(after).labels or {}
    if old is new or old == new:
        return
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield LabelEntry(
                at=at,
                object=name,
                message=f"{key}: {old.get(key)} → {new.get(key)}",
                key=key,
                before=old.get(key),
                after=new.get(key),
            )
