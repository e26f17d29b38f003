"""A cluster at one moment of a story: what `wain top` prints, and what tests hold pages to."""

from collections.abc import Iterable
from math import fsum

import msgspec

from wainwright.messages.formatting import HOURS_PER_MONTH
from wainwright.model.cluster_history import NodeRecord, PodRecord, ReservationRecord
from wainwright.model.resources import CPU, MEMORY, Resources, add_resources
from wainwright.report.visual.story import PendingExplanation, Story, VerdictRecord


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it is at the moment."""

    record: NodeRecord
    state: str
    """launching, joining, ready, not-ready or deleting."""
    capacityType: str
    """At the moment: a reservation may have ended before its nodes; and so is the next."""
    reservationID: str | None
    pricePerHour: float | None
    modelledPrice: bool
    used: Resources
    """Requests of the pods on it, those of DaemonSets included."""
    pods: tuple[PodRecord, ...]
    verdict: VerdictRecord | None = None

    @property
    def workload_pods(self) -> int:
        """Without those that belong to the node."""
        return sum(not pod.daemon for pod in self.pods)


class PendingView(msgspec.Struct, frozen=True, kw_only=True):
    pod: PodRecord
    reason: str
    explanation: PendingExplanation | None = None


class ReservationView(msgspec.Struct, frozen=True, kw_only=True):
    record: ReservationRecord
    used: int
    total: int
    idle: int
    idlePricePerHour: float | None
    """What the idle instances would cost on demand."""


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: int
    used: Resources
    allocatable: Resources
    pricePerHour: float
    modelledPrices: bool


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    nodes: tuple[NodeView, ...]
    """In the order of their launches; unmanaged ones included."""
    pending: tuple[PendingView, ...]
    reservations: tuple[ReservationView, ...]
    pools: tuple[PoolView, ...]
    runningPods: int
    """On machines that answer, without pods of DaemonSets."""

    @property
    def managed(self) -> list[NodeView]:
        return [node for node in self.nodes if node.record.is_managed]

    @property
    def pricePerHour(self) -> float:  # noqa: N802  # as the JSON spells it
        return fsum(node.pricePerHour or 0.0 for node in self.managed)

    @property
    def modelledPrices(self) -> bool:  # noqa: N802
        """Whether a price among them is an estimate."""
        return any(node.modelledPrice for node in self.managed)

    @property
    def pricePerMonth(self) -> float:  # noqa: N802
        return self.pricePerHour * HOURS_PER_MONTH

    @property
    def used(self) -> Resources:
        """Of the managed nodes."""
        return _sum(node.used for node in self.managed)

    @property
    def allocatable(self) -> Resources:
        return _sum(node.record.allocatable for node in self.managed)


def cluster_at(story: Story, at: float) -> ClusterView:
    """After everything that happened at that moment."""
    history = story.history
    on_node: dict[int, list[PodRecord]] = {}
    running = 0
    for pod in history.pods:
        if pod.node is not None and pod.is_bound_at(at):
            on_node.setdefault(pod.node, []).append(pod)
            answers = history.nodes[pod.node].is_answering_at(at)
            running += not pod.daemon and answers and pod.is_running_at(at)
    verdicts = {each.node: each for each in story.verdicts if each.at <= at}
    nodes = tuple(
        _node_view(node, at, on_node.get(number, ()), verdicts.get(number))
        for number, node in enumerate(history.nodes)
        if node.exists_at(at)
    )
    return ClusterView(
        at=at,
        nodes=nodes,
        pending=tuple(_pending(story, at)),
        reservations=tuple(_reservation(each, at) for each in history.reservations),
        pools=tuple(_pool_views(story, nodes)),
        runningPods=running,
    )


def _node_view(
    node: NodeRecord, at: float, pods: Iterable[PodRecord], verdict: VerdictRecord | None
) -> NodeView:
    on_it = tuple(pods)
    capacity_type, reservation = node.capacity_at(at)
    return NodeView(
        record=node,
        state=node_state(node, at),
        capacityType=capacity_type,
        reservationID=reservation,
        pricePerHour=node.price_at(at),
        modelledPrice=node.is_price_modelled_at(at),
        used=_sum(map(_requests, on_it)),
        pods=on_it,
        verdict=verdict,
    )


def node_state(node: NodeRecord, at: float) -> str:
    if node.deleting is not None and node.deleting <= at:
        return "deleting"
    if node.joined is None or node.joined > at:
        return "launching"
    if node.is_ready_at(at):
        return "ready"
    return "not-ready" if node.ready and node.ready[0] <= at else "joining"


def _requests(pod: PodRecord) -> Resources:
    return {CPU: pod.cpu, MEMORY: pod.memory, "pods": 1, **pod.other}


def _pending(story: Story, at: float) -> Iterable[PendingView]:
    known = {number: each for each in story.pending for number in each.pods}
    for number, pod in enumerate(story.history.pods):
        if pod.is_pending_at(at) and not pod.daemon:
            explanation = known.get(number)
            reason = explanation.reason if explanation is not None else pod.wait_reason_at(at)
            yield PendingView(pod=pod, reason=reason, explanation=explanation)


def _reservation(record: ReservationRecord, at: float) -> ReservationView:
    used, total, idle = 0, 0, 0
    for moment, *counts in record.counts:
        if moment <= at:
            used, total, idle = counts
    price = next((each for moment, each in reversed(record.prices) if moment <= at), None)
    return ReservationView(
        record=record,
        used=used,
        total=total,
        idle=idle,
        idlePricePerHour=None if price is None else price * idle,
    )


def _pool_views(story: Story, nodes: Iterable[NodeView]) -> Iterable[PoolView]:
    """Those of the story first, in their order; one that is gone but has nodes after them."""
    by_pool: dict[str, list[NodeView]] = {pool.name: [] for pool in story.pools}
    for node in nodes:
        if node.record.is_managed:
            by_pool.setdefault(node.record.pool, []).append(node)
    for name, members in by_pool.items():
        yield PoolView(
            name=name,
            nodes=len(members),
            used=_sum(each.used for each in members),
            allocatable=_sum(each.record.allocatable for each in members),
            pricePerHour=fsum(each.pricePerHour or 0.0 for each in members),
            modelledPrices=any(each.modelledPrice for each in members),
        )


def _sum(many: Iterable[Resources]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in many:
        total = add_resources(total, each)
    return total
