"""The pod queue: large pods first, as small pods fit into the room that large ones leave.

Consecutive pods of one class are a PodBatch. Consecutive batches that may be skipped together
because all of them wait for capacity reservations are a QueueSegment.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import TypeAlias

from wainwright.core.scheduling.pod_classes import PodClass, PodRequirements
from wainwright.core.scheduling.reservation_manager import ReservationSet
from wainwright.model.bitset import BitSet
from wainwright.model.pod import Pod
from wainwright.model.resources import CPU, MEMORY


class PodBatch:
    """Pods of one class that follow each other in the queue."""

    __slots__ = ("pod_class", "pods")

    def __init__(self, pod_class: PodClass, pods: list[Pod]) -> None:
        self.pod_class = pod_class
        self.pods = pods


Queue: TypeAlias = list[PodBatch]
RankedPod: TypeAlias = tuple[float, str, str, str, int, Pod, PodClass]


def build_queue(classes: Iterable[PodClass]) -> Queue:
    """Sorts by CPU and memory, descending; then oldest first, then by UID, namespace and name."""
    by_size: dict[tuple[int, int], list[RankedPod]] = {}
    for pod_class in classes:
        requests = pod_class.pods[0].requests  # equal for all pods of a class
        size = -requests.get(CPU, 0), -requests.get(MEMORY, 0)
        same = by_size.setdefault(size, [])
        for pod in pod_class.pods:
            age = inf if pod.created is None else pod.created
            # The running number makes every tuple unique, so that the sort never compares pods.
            same.append((age, pod.uid, pod.namespace, pod.name, len(same), pod, pod_class))
    queue: Queue = []
    # Mostly sizes are few: sorting the pods of each by themselves saves comparing their sizes.
    for size in sorted(by_size):
        _append_batches(sorted(by_size[size]), queue)
    return queue


def _append_batches(ranked: Iterable[RankedPod], queue: Queue) -> None:
    batch: PodBatch | None = None
    for _, _, _, _, _, pod, pod_class in ranked:
        if batch is None or batch.pod_class is not pod_class:
            batch = PodBatch(pod_class, [pod])
            queue.append(batch)
        else:
            batch.pods.append(pod)


class QueueSegment:
    """Consecutive batches of the queue, with facts that hold for all of them.

    The facts remain true when batches leave the segment.
    """

    __slots__ = (
        "awaited_by_all",
        "awaited_by_any",
        "batches",
        "checked_drafts",
        "children",
        "drafts_with_room",
        "smallest",
    )

    def __init__(self, batches: Queue, children: "Sequence[QueueSegment]" = ()) -> None:
        self.batches = batches
        self.children: list[QueueSegment] = list(children)
        """Shorter segments that hold the batches instead of this one."""
        self.awaited_by_any: ReservationSet = 0
        self.awaited_by_all: ReservationSet = 0
        """0 if nothing is known about all of the batches; then each batch is checked by itself."""
        self.smallest: PodRequirements | None = None
        """The smallest requests among the batches, if they differ in nothing but their requests."""
        self.drafts_with_room: BitSet = 0
        """The drafts with room for `smallest`, among `checked_drafts`."""
        self.checked_drafts: BitSet = 0

    def remaining_batches(self) -> Iterator[PodBatch]:
        yield from self.batches
        for child in self.children:
            yield from child.batches
