"""Pods that wait for a capacity reservation whose available instances are held by other drafts.

Such a pod can be placed only after one of two events: an instance that it could use is released, or
a draft that holds one has room for it; on any other draft it would leave the reservation idle. With
many reservations nearly all pods wait most of the time, so that whole segments of the queue are
skipped without looking at each pod: without that, planning time grows with pods times reservations.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Final, TypeVar

from wainwright.core.scheduling.drafts import DraftTable
from wainwright.core.scheduling.new_node import NodePoolSelector
from wainwright.core.scheduling.pod_classes import PodClass, PodRequirements
from wainwright.core.scheduling.queue import PodBatch, Queue, QueueSegment
from wainwright.core.scheduling.reservation_manager import ReservationManager, ReservationSet
from wainwright.model.bitset import BitSet, iter_bits, union

_T = TypeVar("_T")

BATCHES_PER_SEGMENT: Final = 64  # batches in a segment
SEGMENTS_PER_GROUP: Final = 8  # segments that are checked together first
FEW_DRAFTS: Final = 4  # up to so many drafts, checking each one directly is faster than the index


class ReservationWait:
    """Which pods can be skipped, and whether one may have missed an event in this pass."""

    __slots__ = (
        "_awaited_this_pass",
        "_pool_selector",
        "_reservation_manager",
        "_segment",
        "_table",
        "can_wait_untried",
        "needs_another_pass",
    )

    def __init__(self, pool_selector: NodePoolSelector, table: DraftTable) -> None:
        self._pool_selector = pool_selector
        self._reservation_manager: ReservationManager = pool_selector.reservation_manager
        self._table = table
        self._awaited_this_pass: ReservationSet = 0
        self._segment = QueueSegment([])
        """The segment whose pods are tried now."""
        self.can_wait_untried = False
        """Whether pods may wait before their first try, as there are no existing nodes to try."""
        self.needs_another_pass = False
        """Whether another pass may place a pod that could not be placed in this one."""

    def build_segments(self, queue: Queue) -> list[QueueSegment]:
        if not (self.can_wait_untried and self._reservation_manager.available):
            return [QueueSegment(queue)] if queue else []
        segments = [self._build_segment(batches) for batches in _chunks(BATCHES_PER_SEGMENT, queue)]
        return [
            self._merge_segments(children) for children in _chunks(SEGMENTS_PER_GROUP, segments)
        ]

    def begin_round(self) -> None:
        """Before the first pass no segment is current."""
        self._segment = QueueSegment([])

    def begin_pass(self) -> None:
        self._awaited_this_pass, self.needs_another_pass = 0, False

    def record_unplaced(self, batch: PodBatch) -> None:
        """A pod is unplaced; unless it waits for reservations, any event may make it placeable."""
        awaited = batch.pod_class.awaited_reservations
        if awaited is None:
            awaited = self._segment.awaited_by_any if self._all_waiting(self._segment) else 0
        self._awaited_this_pass |= awaited
        self.needs_another_pass = self.needs_another_pass or not awaited

    def draft_opened(self) -> None:
        """A draft was opened that may have room for a pod tried earlier in this pass."""
        self.needs_another_pass = self.needs_another_pass or bool(self._awaited_this_pass)

    def reservations_released(self, ids: ReservationSet) -> None:
        """Reservations were released that a pod tried earlier in this pass may await."""
        self.needs_another_pass = self.needs_another_pass or bool(ids & self._awaited_this_pass)

    def can_skip(self, segment: QueueSegment) -> bool:
        self._segment = segment
        if not self._all_waiting(segment):
            return False
        segment.checked_drafts = 0  # the drafts checked then may have become too full
        if self._reserved_drafts_with_room(segment):
            return False
        self._awaited_this_pass |= segment.awaited_by_any
        return True

    def count_skippable(self, segment: QueueSegment, start: int) -> int:
        """How many batches of the segment, from `start` on, can only continue to wait."""
        if segment.awaited_by_all & self._reservation_manager.unheld:
            return 0  # there is an unheld instance for any of them
        if self._all_waiting(segment):
            end = self._first_with_room(segment, start)
            self._awaited_this_pass |= segment.awaited_by_any if end > start else 0
        else:
            end = self._first_not_waiting(segment, start)
        return end - start

    def _first_with_room(self, segment: QueueSegment, start: int) -> int:
        """The first batch that a draft with reservations seems to have room for."""
        table, batches = self._table, segment.batches
        open_drafts = self._reserved_drafts_with_room(segment)
        if open_drafts.bit_count() <= FEW_DRAFTS:
            drafts = [table.drafts[number] for number in iter_bits(open_drafts)]
            return _first_fitting(batches, start, [table.free_resources(draft) for draft in drafts])
        while start < len(batches) and not self._has_room(batches[start].pod_class, segment):
            start += 1
        return start

    def _first_not_waiting(self, segment: QueueSegment, start: int) -> int:
        batches = segment.batches
        while start < len(batches):
            pod_class = batches[start].pod_class
            if not self.is_waiting(pod_class) or self._has_room(pod_class, segment):
                break
            self._awaited_this_pass |= pod_class.awaited_reservations or 0
            start += 1
        return start

    def _has_room(self, pod_class: PodClass, segment: QueueSegment) -> bool:
        assert pod_class.only_requirements is not None, (
            "pods that wait for reservations have no alternatives"
        )
        return bool(
            self._table.candidates(
                pod_class.only_requirements, self._reserved_drafts_with_room(segment)
            )
        )

    def _all_waiting(self, segment: QueueSegment) -> bool:
        reservation_manager = self._reservation_manager
        holdable = segment.awaited_by_any & reservation_manager.unheld
        return not holdable and segment.awaited_by_all & reservation_manager.available != 0

    def _reserved_drafts_with_room(self, segment: QueueSegment) -> BitSet:
        """Drafts with reservations that have, or recently had, room for the smallest requests.

        Drafts only get fuller, so that the cached set is updated only if there is a new draft.
        """
        reserved, smallest = self._table.reserved, segment.smallest
        if segment.checked_drafts != reserved:
            segment.checked_drafts = reserved
            segment.drafts_with_room = (
                reserved if smallest is None else self._table.candidates(smallest, reserved)
            )
        return segment.drafts_with_room if reserved else 0

    def can_skip_inflight(self, segment: QueueSegment) -> bool:
        """Whether no in-flight node has room even for the smallest requests of the segment."""
        inflight, smallest = self._table.inflight, segment.smallest
        if not inflight or smallest is None:
            return False
        return not self._table.with_room(inflight, smallest.too_full_drafts)

    def is_waiting(self, pod_class: PodClass) -> bool:
        """Whether the pods open no node because every instance they could use is held."""
        reservation_manager, awaited = self._reservation_manager, pod_class.awaited_reservations
        if awaited is None and self.can_wait_untried and reservation_manager.available:
            if self._all_waiting(self._segment):
                return True
            awaited = pod_class.awaited_reservations = self._pool_selector.awaited_reservations(
                pod_class
            )
        return (
            awaited is not None
            and not awaited & reservation_manager.unheld
            and awaited & reservation_manager.available != 0
        )

    def _build_segment(self, batches: Queue) -> QueueSegment:
        """If the batches differ only in their requests, the smallest and largest decide for all."""
        segment = QueueSegment(batches)
        extremes = _extremes([batch.pod_class.only_requirements for batch in batches])
        if extremes is not None:
            segment.awaited_by_any, segment.awaited_by_all = self._pool_selector.awaited_between(
                *extremes
            )
            self._set_smallest(segment, extremes[0])
        return segment

    def _merge_segments(self, children: list[QueueSegment]) -> QueueSegment:
        """A segment of consecutive segments; what holds for each of them holds for all."""
        whole, requirements = QueueSegment([], children), [child.smallest for child in children]
        extremes = _extremes(requirements)
        if extremes is not None:
            whole.awaited_by_any = union(child.awaited_by_any for child in children)
            whole.awaited_by_all = reduce(and_, (child.awaited_by_all for child in children))
            self._set_smallest(whole, extremes[0])
        return whole

    def _set_smallest(self, segment: QueueSegment, smallest: PodRequirements) -> None:
        smallest.too_full_drafts = self._table.capacity_index.entries(smallest.amounts)
        segment.smallest = smallest


def _chunks(count: int, things: list[_T]) -> list[list[_T]]:
    return [things[start : start + count] for start in range(0, len(things), count)]


def _first_fitting(batches: Queue, start: int, spaces: Sequence[Sequence[int]]) -> int:
    """The first batch whose requests fit into one of the spaces."""
    # A plain loop: runs over nearly all batches after every event; generators are much slower.
    for number in range(start, len(batches) if spaces else start):
        pod_reqs = batches[number].pod_class.only_requirements
        assert pod_reqs is not None, "pods of a segment have no alternatives"
        for space in spaces:
            for column, amount in pod_reqs.amounts:
                if amount > space[column]:
                    break
            else:
                return number
    return len(batches)


def _extremes(
    requirements: Sequence[PodRequirements | None],
) -> tuple[PodRequirements, PodRequirements] | None:
    """Requirements with the smallest and the largest requests; None if anything else differs."""
    first = requirements[0]
    if first is None:
        return None
    scheduling, columns, amounts = first.scheduling, first.columns, []
    for pod_reqs in requirements:
        if (
            pod_reqs is None
            or pod_reqs.scheduling is not scheduling
            or pod_reqs.columns is not columns
        ):
            return None
        amounts.append(pod_reqs.amounts)
    by_column = [[amount for _, amount in pairs] for pairs in zip(*amounts, strict=True)]
    smallest, largest = map(min, by_column), map(max, by_column)
    return (
        PodRequirements(scheduling, tuple(zip(columns, smallest, strict=True)), columns),
        PodRequirements(scheduling, tuple(zip(columns, largest, strict=True)), columns),
    )
