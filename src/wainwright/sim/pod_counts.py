"""How many pods wait and run, how long they waited, and what is on each node.

Kept up to date change by change: a changed pod costs the same in a cluster of any size. DaemonSet
and static pods are not counted.
"""

from array import array
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

import msgspec

from wainwright.api.kubernetes.workloads import Pod
from wainwright.sim.evictions import FINISHED_PHASES

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
MAX_ENDED: Final = 100
"""Waits that have ended and are still in the heap, besides as many as twice the pods."""


class PodKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodProgress(msgspec.Struct, kw_only=True):
    """What is remembered of a pod."""

    created: float
    """Seconds since the start."""
    node: str = ""
    is_pending: bool = False
    is_running: bool = False
    has_waited: bool = False
    """Whether its wait is over and counted."""
    in_heap: bool = False


def is_daemon(pod: Pod) -> bool:
    """Whether it belongs to its node: of a DaemonSet, or static."""
    owners = pod.metadata.ownerReferences or ()
    if any(each.kind in ("DaemonSet", "Node") for each in owners):
        return True
    return MIRROR_ANNOTATION in (pod.metadata.annotations or {})


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED_PHASES


def _is_pending(pod: Pod) -> bool:
    return not (
        pod.spec.nodeName
        or pod.spec.schedulingGates
        or pod.metadata.deletionTimestamp
        or is_finished(pod)
    )


def _is_running(pod: Pod) -> bool:
    return bool(
        pod.spec.nodeName
        and pod.status.phase == "Running"
        and pod.metadata.deletionTimestamp is None
    )


class PodCounts:
    def __init__(self) -> None:
        self.pending = 0
        self.running = 0
        """On machines that answer."""
        self.waits = array("d")
        """Seconds from creation to binding, of every pod that is bound or went unbound."""
        self._pods: dict[PodKey, PodProgress] = {}
        self._on_node: dict[str, dict[PodKey, None]] = {}
        self._running_on: dict[str, int] = {}
        self._silent: set[str] = set()
        """Nodes whose machines do not answer."""
        self._oldest: list[tuple[float, PodKey]] = []
        """A heap of pods that are or were pending; those that no longer wait are dropped late, but
        before they are many: nobody may ever ask for the longest wait."""
        self._longest_ended_wait = 0.0

    def change(self, pod: Pod, created: float, now: float) -> PodProgress:
        """A pod that was created or changed; `created` counts where it is new."""
        key = PodKey(pod.metadata.namespace, pod.metadata.name)
        known = self._pods.get(key)
        if known is None:
            known = self._pods[key] = PodProgress(created=created)
        self._count_pending(key, known, _is_pending(pod))
        if pod.spec.nodeName and not known.node:
            self._end_wait(known, now)
            known.node = pod.spec.nodeName
        self._count_running(known, _is_running(pod))
        if known.node:
            self._place(key, known.node, is_finished(pod))
        return known

    def remove(self, pod: Pod, now: float) -> None:
        key = PodKey(pod.metadata.namespace, pod.metadata.name)
        known = self._pods.pop(key, None)
        if known is None:
            return
        was_waiting = known.is_pending or not known.node
        self._count_pending(key, known, False)
        self._count_running(known, False)
        if was_waiting and not is_finished(pod):
            self._end_wait(known, now)
        if known.node:
            self._place(key, known.node, gone=True)

    def set_answering(self, node: str, answers: bool) -> None:
        """Whether the machine of the node answers: only then its pods count as running."""
        if answers == (node not in self._silent):
            return
        count = self._running_on.get(node, 0)
        if answers:
            self._silent.discard(node)
            self.running += count
        else:
            self._silent.add(node)
            self.running -= count

    def forget_node(self, node: str) -> None:
        """The node is gone; one of the same name answers until somebody says otherwise."""
        self.set_answering(node, answers=True)

    def names_on(self, node: str) -> list[str]:
        """Those bound to the node that have not ended, in order."""
        return sorted(map(str, self._on_node.get(node, ())))

    def pending_keys(self) -> list[PodKey]:
        return sorted(key for key, pod in self._pods.items() if pod.is_pending)

    def longest_wait(self, now: float) -> float:
        """Of the pods that wait now, and of those whose wait has ended since the last call of
        `settle`.
        """
        while self._oldest:
            created, key = self._oldest[0]
            pod = self._pods.get(key)
            if pod is not None and pod.is_pending and pod.created == created:
                return max(now - created, self._longest_ended_wait)
            heappop(self._oldest)
            if pod is not None and pod.created == created:
                pod.in_heap = False
        return self._longest_ended_wait

    def settle(self) -> None:
        self._longest_ended_wait = 0.0

    def unfinished_waits(self, now: float) -> Iterator[float]:
        """Of the pods that still wait."""
        return (now - pod.created for pod in self._pods.values() if pod.is_pending)

    def _count_pending(self, key: PodKey, pod: PodProgress, is_pending: bool) -> None:
        if is_pending == pod.is_pending:
            return
        pod.is_pending = is_pending
        self.pending += 1 if is_pending else -1
        if is_pending and not pod.in_heap:
            pod.in_heap = True
            heappush(self._oldest, (pod.created, key))
            if len(self._oldest) > 2 * len(self._pods) + MAX_ENDED:
                self._drop_ended()

    def _drop_ended(self) -> None:
        """Leaves those that wait in the heap."""
        for pod in self._pods.values():
            pod.in_heap = pod.is_pending
        self._oldest = [(pod.created, key) for key, pod in self._pods.items() if pod.is_pending]
        heapify(self._oldest)

    def _end_wait(self, pod: PodProgress, now: float) -> None:
        if not pod.has_waited:
            pod.has_waited = True
            wait = now - pod.created
            self.waits.append(wait)
            self._longest_ended_wait = max(self._longest_ended_wait, wait)

    def _count_running(self, pod: PodProgress, is_running: bool) -> None:
        if is_running == pod.is_running:
            return
        pod.is_running, change = is_running, 1 if is_running else -1
        self._running_on[pod.node] = self._running_on.get(pod.node, 0) + change
        if pod.node not in self._silent:
            self.running += change

    def _place(self, key: PodKey, node: str, gone: bool) -> None:
        on_node = self._on_node.setdefault(node, {})
        if gone:
            on_node.pop(key, None)
            if not on_node:
                del self._on_node[node]
                if not self._running_on.get(node):
                    self._running_on.pop(node, None)
        else:
            on_node[key] = None
