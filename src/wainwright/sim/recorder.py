"""Records a simulation as it happens: the timeline, the series, the totals, and the state that
expectations and laws look at.

It hears of every change of the API server and of every change of an instance or reservation of the
account. What changes at one moment is one state: it is settled when the clock is about to move.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Any, Protocol

from wainwright.api.api_resources import served_resources
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.cluster import EventType, WatchEvent
from wainwright.controllers.runtime import ACCOUNT
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import CapacityReservation
from wainwright.emulator.ec2.instance.lifecycle import ALIVE_STATES, TERMINATED, Instance
from wainwright.errors import AwsError
from wainwright.messages.formatting import format_count
from wainwright.model.cluster_history import ClusterHistory
from wainwright.model.labels import NODEPOOL
from wainwright.model.simulation import (
    DisruptEntry,
    EndClaim,
    EndNode,
    EndState,
    EventEntry,
    PendingPod,
    PendingSeconds,
    Series,
    Totals,
)
from wainwright.sim.aws_calls import SimulatedAwsCalls
from wainwright.sim.billed_instances import BilledInstance, BilledInstances
from wainwright.sim.claim_endings import ClaimEndings
from wainwright.sim.history_recorder import HistoryRecorder, pending_reason
from wainwright.sim.money import PRICED_KINDS
from wainwright.sim.object_store import metadata_of
from wainwright.sim.observed_state import ObservedState, ReservationCount
from wainwright.sim.pod_counts import PodCounts, is_daemon
from wainwright.sim.reservation_use import ReservationUse
from wainwright.sim.series import SeriesRecorder, Values
from wainwright.sim.timeline import TimelineWriter
from wainwright.sim.world import RECORDS, World


class StateObserver(Protocol):
    """Looks at every state of a simulation."""

    def observe(self, state: ObservedState) -> None: ...


class Recorder:
    """Implements `ObservedState`: the state of this moment."""

    def __init__(
        self,
        world: World,
        calls: SimulatedAwsCalls,
        *,
        keep_timeline: bool = True,
        keep_all_points: bool = False,
        keep_history: bool = False,
    ) -> None:
        self._world = world
        self._calls = calls
        self.pods = PodCounts()
        self.instances = BilledInstances(world.account, world.prices)
        self.endings = ClaimEndings(world.api)
        self._reservation_use = ReservationUse(world.account, world.prices)
        self._series = SeriesRecorder(keep_all=keep_all_points)
        self.timeline = TimelineWriter(world, calls, keep=keep_timeline)
        self._history = HistoryRecorder(keep=keep_history)
        self._observers: list[StateObserver] = []
        self.command_listeners: list[Callable[[str, Sequence[str], Sequence[str]], None]] = []
        """Called with reason, candidates and replacements before the candidates are deleted."""
        self._new_events: list[EventEntry] = []
        self._is_changed = True
        self._are_prices_stale = False
        self._are_reservations_stale = True
        self._at = 0.0
        self.last_change = 0.0
        """When something last happened: an object that is no Event or Lease, or the cloud."""
        self._priced_specs: dict[tuple[type[WireStruct], str], Any] = {}
        counted = ("launches", "terminations", "evictions", "interruptions", "commands", "moves")
        self._counts = dict.fromkeys(counted, 0)
        self._savings = 0.0
        self._disrupted_nodes: set[str] = set()
        """Names of nodes that commands of disruption took, until they are gone."""
        self._handlers: Mapping[type[WireStruct], Callable[[EventType, Any], None]] = {
            Pod: self._on_pod,
            Node: self._on_node,
            NodeClaim: self._on_claim,
            Event: self._on_event,
        }
        self._read_world()
        self._listen()

    @property
    def history(self) -> ClusterHistory | None:
        """Every node and pod so far; None where nobody asked for it."""
        return self._history.history

    def add_observer(self, observer: StateObserver) -> None:
        self._observers.append(observer)

    # The state of this moment

    @property
    def at(self) -> float:
        return self._at

    @property
    def pending_pods(self) -> int:
        return self.pods.pending

    @property
    def running_pods(self) -> int:
        return self.pods.running

    @property
    def longest_wait(self) -> float:
        return self.pods.longest_wait(self._at)

    @property
    def launches(self) -> int:
        """So far."""
        return self._counts["launches"]

    @property
    def nodes(self) -> int:
        return len(self.instances)

    @property
    def nodes_by_capacity_type(self) -> Mapping[str, int]:
        return self.instances.by_capacity_type

    @property
    def price_per_hour(self) -> float:
        return self._series.current.price

    @property
    def reservations(self) -> Mapping[str, ReservationCount]:
        return self._reservation_use.counts

    @property
    def new_events(self) -> Sequence[EventEntry]:
        return self._new_events

    def node_views(self) -> list[EndNode]:
        return [self._node_view(each) for each in self.instances.all()]

    def claim_views(self) -> list[EndClaim]:
        return [_claim_view(each) for each in self._world.api.peek_all(NodeClaim)]

    def find_object(self, kind: str, namespace: str, name: str) -> WireStruct | None:
        for resource in served_resources().values():
            if resource.kind == kind:
                inside = namespace if resource.is_namespaced else ""
                return self._world.api.peek(resource.type, name, inside)
        return None

    def object_names(self, kind: str) -> list[tuple[str, str]]:
        for resource in served_resources().values():
            if resource.kind == kind:
                stored = map(metadata_of, self._world.api.peek_all(resource.type))
                return [(each.namespace, each.name) for each in stored]
        return []

    # What only controllers and scenarios know

    def set_answering(self, instance_id: str, answers: bool) -> None:
        """Whether the machine answers; of one that does not no pod is running."""
        billed = self.instances.get(instance_id)
        if billed is not None and billed.is_answering != answers:
            billed.is_answering = answers
            if billed.node:
                self.pods.set_answering(billed.node, answers)
            self.touch()
            self._history.answering_changed(self._at, instance_id, answers)

    def kill(self, instance_id: str) -> None:
        """The machine vanishes without notice."""
        billed = self.instances.get(instance_id)
        if billed is not None:
            billed.was_killed = True

    def command_carried_out(
        self,
        *,
        reason: str,
        method: str,
        candidates: Sequence[str],
        replacements: Sequence[str],
        savings_per_hour: float | None,
        has_modelled_prices: bool = False,
    ) -> None:
        """A command of disruption; candidates and replacements are names of claims."""
        self._counts["commands"] += 1
        self._savings += savings_per_hour or 0.0
        claims = (self._world.api.peek(NodeClaim, name) for name in candidates)
        self._disrupted_nodes |= {
            each.status.nodeName for each in claims if each is not None and each.status is not None
        }
        for listener in self.command_listeners:
            listener(reason, candidates, replacements)
        verb = "replaced" if replacements else "removed"
        self.timeline.disrupt(
            DisruptEntry(
                at=self._moment(),
                object=f"NodeClaim/{candidates[0]}" if candidates else "",
                message=f"{reason}: {format_count(len(candidates), 'node')} {verb}",
                reason=reason,
                method=method,
                candidates=list(candidates),
                replacements=list(replacements),
                savingsPerHour=savings_per_hour,
                modelledPrices=has_modelled_prices,
            )
        )

    def claim_disrupted(self, claim: str, reason: str) -> None:
        """Why a claim is deleted."""
        self.endings.claim_disrupted(claim, reason)

    def touch(self) -> None:
        """Something happened, or this moment is one that somebody wants to see."""
        self._note_moment()

    def prices_changed(self) -> None:
        self._are_prices_stale = self._are_reservations_stale = True
        self.touch()

    # The end

    def finish(self) -> tuple[Series, Totals, EndState]:
        self._note_moment()
        self.settle()
        at, series = self._at, self._series
        points = series.finish(at)
        totals = Totals(
            cost=round(series.cost, 9),
            fees=round(series.fees, 9),
            nodeHours=round(series.node_hours, 9),
            podHours=round(series.pod_hours, 9),
            launches=self._counts["launches"],
            launchFailures=self.endings.launch_failures,
            terminations=self._counts["terminations"],
            evictions=self._counts["evictions"],
            interruptions=self._counts["interruptions"],
            disruptions=dict(sorted(self.endings.by_reason.items())),
            commands=self._counts["commands"],
            savingsPerHour=round(self._savings, 9),
            moves=self._counts["moves"],
            pendingSeconds=_pending_seconds([*self.pods.waits, *self.pods.unfinished_waits(at)]),
            apiCalls=dict(sorted(self._calls.counts.items())),
            reservations=self._reservation_use.finish(at),
        )
        return points, totals, self._end_state()

    def _end_state(self) -> EndState:
        api = self._world.api
        pending = [
            PendingPod(pod=str(key), reason=pending_reason(api.peek(Pod, key.name, key.namespace)))
            for key in self.pods.pending_keys()
        ]
        nodes = sorted(self.node_views(), key=lambda each: (each.name or "~", each.instance))
        return EndState(nodes=nodes, pending=pending, claims=self.claim_views())

    # Settling

    def settle(self) -> None:
        """Takes the state of this moment: everything that was due has been done."""
        if not self._is_changed:
            return
        if self._are_prices_stale:
            self._world.prices.forget()
            self.instances.refresh()
            self._history.prices_changed(self._at, self.instances.all())
        if self._are_reservations_stale:
            self._reservation_use.refresh(self._at)
            self._history.reservations_changed(self._at, self._reservation_use.states())
        self._is_changed = self._are_prices_stale = self._are_reservations_stale = False
        self._series.record(
            self._at,
            Values(
                nodes=len(self.instances),
                running=self.pods.running,
                pending=self.pods.pending,
                price=round(self.instances.price_per_hour, 9),
                fees=round(self.instances.fees_per_hour, 9),
                reservations=self._reservation_use.counts,
            ),
        )
        for observer in self._observers:
            observer.observe(self)
        self._new_events = []
        self.pods.settle()

    def _before_advance(self, target: float) -> None:
        if self._is_changed and self._rounded(target) > self._at:
            self.settle()

    def _note_moment(self) -> None:
        """Something changes at this moment; what changed before is another state."""
        at = self._moment()
        if at > self._at:
            self.settle()
            self._at = at
        self._is_changed = True

    def _moment(self) -> float:
        return self._rounded(self._world.clock.now())

    def _rounded(self, time: float) -> float:
        return round(time - self._world.start, 3)

    # Listening

    def _listen(self) -> None:
        services = self._world.account.services
        self._world.api.subscribe(self._on_change)
        services.instances.add_listener(self._on_instance)
        services.reservations.lifecycle.add_change_listener(self._on_reservation)
        services.interruptions.add_notice_listener(self._on_notice)
        self._calls.on_fault = self._on_fault
        self._world.clock.on_advance(self._before_advance)

    def _read_world(self) -> None:
        """What is there before anything happens."""
        world = self._world
        for instance in world.account.services.instances.list_alive():
            self._add_instance(instance)
        for claim in world.api.peek_all(NodeClaim):
            self._connect_claim(claim)
            self._history.claim_changed(0.0, claim)
        for node in world.api.peek_all(Node):
            self._connect_node(node)
            self.timeline.known_ready(node)
            self._history.node_changed(0.0, EventType.ADDED, node)
        for pod in world.api.peek_all(Pod):
            self._history.pod_changed(0.0, EventType.ADDED, pod)
            if not is_daemon(pod):
                self.pods.change(pod, self._created(pod), 0.0)
        self.pods.waits = type(self.pods.waits)("d")
        self.pods.settle()

    def _created(self, pod: Pod) -> float:
        stated, start = pod.metadata.creationTimestamp, self._world.start
        return 0.0 if stated is None else datetime.fromisoformat(stated).timestamp() - start

    def _on_change(self, change: WatchEvent[Any]) -> None:
        obj = change.object
        if obj is None:
            return
        if not isinstance(obj, RECORDS):
            self.last_change = self._world.now()
        handler = self._handlers.get(type(obj))
        if handler is not None:
            self._note_moment()
            handler(change.type, obj)
        if isinstance(obj, PRICED_KINDS) and self._is_price_affected(change.type, obj):
            self.prices_changed()
        self.timeline.conditions_and_labels(self._moment, change)

    def _is_price_affected(self, event: EventType, obj: Any) -> bool:
        """Whether its spec is another one: the status of pools and classes changes all the time."""
        key = type(obj), obj.metadata.name
        known = self._priced_specs.pop(key, None)
        if event is not EventType.DELETED:
            self._priced_specs[key] = obj.spec
        return event is EventType.DELETED or known is not obj.spec

    def _on_pod(self, event: EventType, pod: Pod) -> None:
        self._history.pod_changed(self._at, event, pod)
        if self.timeline.pod_changed(self._at, event, pod):
            self._counts["evictions"] += 1
            self._counts["moves"] += pod.spec.nodeName in self._disrupted_nodes
            self._history.pod_evicted(pod)
        if is_daemon(pod):
            return
        if event is EventType.DELETED:
            self.pods.remove(pod, self._at)
        else:
            self.pods.change(pod, self._at, self._at)

    def _on_node(self, event: EventType, node: Node) -> None:
        self._history.node_changed(self._at, event, node)
        if event is EventType.DELETED:
            self._disrupted_nodes.discard(node.metadata.name)
            self.pods.forget_node(node.metadata.name)
            self.timeline.forget_node(node)
            return
        billed = self._connect_node(node)
        if billed is not None:
            self.timeline.node_changed(self._at, node, billed)

    def _connect_node(self, node: Node) -> BilledInstance | None:
        billed = self.instances.get(node.spec.providerID.rpartition("/")[2])
        if billed is not None and billed.node != node.metadata.name:
            billed.node = node.metadata.name
            self.pods.set_answering(billed.node, billed.is_answering)
        return billed

    def _on_claim(self, event: EventType, claim: NodeClaim) -> None:
        billed = self._connect_claim(claim)
        self._history.claim_changed(self._at, claim)
        if event is EventType.DELETED:
            if self.endings.claim_removed(claim, has_instance=billed is not None):
                self.timeline.launch_failure(self._at, claim)
        else:
            self.endings.claim_changed(claim, self._world.clock.now())

    def _connect_claim(self, claim: NodeClaim) -> BilledInstance | None:
        status = claim.status or NodeClaimStatus()
        billed = self.instances.get(status.providerID.rpartition("/")[2])
        if billed is not None and billed.claim != claim.metadata.name:
            billed.claim = claim.metadata.name
            self.timeline.claim_known(billed)
        return billed

    def _on_event(self, event: EventType, obj: Event) -> None:
        if event is EventType.DELETED:
            return
        self._history.event_written(self._at, obj)
        entry = self.timeline.kubernetes_event(self._at, obj)
        self._new_events.append(entry)

    def _on_instance(self, instance: Instance, previous: str) -> None:
        self._note_moment()
        self.last_change = self._world.now()
        self._are_reservations_stale = True
        if not previous:
            self._counts["launches"] += 1
            self.timeline.launch(self._at, self._add_instance(instance))
        elif previous in ALIVE_STATES and not instance.alive:
            self.set_answering(instance.id, answers=False)
        elif instance.state == TERMINATED:
            self._end_instance(instance)

    def _add_instance(self, instance: Instance) -> BilledInstance:
        billed = self.instances.add(instance)
        self._history.instance_started(self._at, billed)
        return billed

    def _end_instance(self, instance: Instance) -> None:
        billed = self.instances.remove(instance.id)
        if billed is not None:
            self._counts["terminations"] += 1
            reason = self.endings.instance_ended(billed)
            self.timeline.terminate(self._at, billed, reason)
            self._history.instance_ended(self._at, billed, reason)

    def _on_reservation(self, reservation: CapacityReservation, change: str) -> None:
        self._note_moment()
        self.last_change = self._world.now()
        self.prices_changed()
        self.timeline.reservation(self._at, reservation, change)

    def _on_notice(self, instance_id: str) -> None:
        self._note_moment()
        billed = self.instances.get(instance_id)
        if billed is not None:
            billed.was_noticed = True
            self._counts["interruptions"] += 1
            self.timeline.interrupt(self._at, billed)

    def _on_fault(self, operation: str, error: AwsError) -> None:
        self._world.changes.add(ACCOUNT)
        self._note_moment()
        self.timeline.fault(self._at, operation, error)

    def _node_view(self, billed: BilledInstance) -> EndNode:
        instance = billed.instance
        node = self._world.api.peek(Node, billed.node) if billed.node else None
        conditions = (node.status.conditions or ()) if node is not None else ()
        is_reserved = billed.capacity_type == "reserved"
        return EndNode(
            name=billed.node or None,
            claim=billed.claim or None,
            nodePool=billed.pool,
            instance=instance.id,
            instanceType=instance.type,
            zone=instance.zone,
            capacityType=billed.capacity_type,
            reservationID=instance.reservation if is_reserved else None,
            pricePerHour=billed.price,
            ready=any(each.type == "Ready" and each.status == "True" for each in conditions),
            pods=self.pods.names_on(billed.node) if billed.node else [],
        )


def _claim_view(claim: NodeClaim) -> EndClaim:
    status, labels = claim.status or NodeClaimStatus(), claim.metadata.labels or {}
    return EndClaim(
        name=claim.metadata.name,
        nodePool=labels.get(NODEPOOL, ""),
        node=status.nodeName or None,
        instance=status.providerID.rpartition("/")[2] or None,
        conditions={each.type: each.status for each in status.conditions or ()},
        labels=dict(sorted(labels.items())),
    )


def _pending_seconds(waits: Iterable[float]) -> PendingSeconds:
    """Percentiles by the nearest rank: the smallest wait that so many do not exceed."""
    ordered = sorted(round(each, 3) for each in waits)
    if not ordered:
        return PendingSeconds()

    def percentile(share: float) -> float:
        return ordered[max(ceil(share * len(ordered)), 1) - 1]

    return PendingSeconds(
        p50=percentile(0.5), p95=percentile(0.95), max=ordered[-1], total=round(sum(ordered), 3)
    )
