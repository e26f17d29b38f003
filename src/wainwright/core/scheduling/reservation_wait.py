"""Pods that wait for a capacity reservation whose free instances are held by other drafts.

Such a pod is woken by two things only: an instance that it could use is released, or a draft that
holds one has room for it; on any other draft it would leave the reservation idle. With many
reservations nearly all pods wait most of the time, so that whole segments of the queue are skipped
without looking at each pod: without that, planning time grows with pods times reservations.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Final, TypeVar

from wainwright.core.scheduling.drafts import DraftTable
from wainwright.core.scheduling.new_node import NodePoolSelector
from wainwright.core.scheduling.pod_requirements import PodClass, PodRequirements
from wainwright.core.scheduling.queue import PodBatch, Queue, QueueSegment
from wainwright.core.scheduling.reservation_manager import ReservationManager, ReservationSet
from wainwright.model.bitset import BitSet, iter_bits, union

_T = TypeVar("_T")

BATCHES_PER_SEGMENT: Final = 64  # runs of a stretch
SEGMENTS_PER_GROUP: Final = 8  # stretches that are looked at together first
FEW_DRAFTS: Final = 4  # drafts that are quicker looked at one by one


class ReservationWait:
    """Who sleeps on, and whether those who do have missed something in this pass."""

    __slots__ = (
        "_awaited_this_pass",
        "_pool_selector",
        "_reservation_manager",
        "_segment",
        "_table",
        "can_wait_untried",
        "needs_another_pass",
    )

    def __init__(self, ladder: NodePoolSelector, table: DraftTable) -> None:
        self._pool_selector = ladder
        self._reservation_manager: ReservationManager = ladder.reservation_manager
        self._table = table
        self._awaited_this_pass: ReservationSet = 0
        self._segment = QueueSegment([])
        """Where those who are asked now stand in the queue."""
        self.can_wait_untried = False
        """Whether pods may wait before they are asked the first time, as no nodes stand."""
        self.needs_another_pass = False
        """Whether another pass may help somebody who was asked in vain."""

    def build_segments(self, queue: Queue) -> list[QueueSegment]:
        if not (self.can_wait_untried and self._reservation_manager.available):
            return [QueueSegment(queue)] if queue else []
        parts = [self._build_segment(runs) for runs in _chunks(BATCHES_PER_SEGMENT, queue)]
        return [self._merge_segments(several) for several in _chunks(SEGMENTS_PER_GROUP, parts)]

    def begin_round(self) -> None:
        """Until the first pass anybody may be asked."""
        self._segment = QueueSegment([])

    def begin_pass(self) -> None:
        self._awaited_this_pass, self.needs_another_pass = 0, False

    def record_unplaced(self, run: PodBatch) -> None:
        """Somebody was asked in vain; those who wait for no slots may be woken by anything."""
        needs = run.pod_class.awaited_reservations
        if needs is None:
            needs = self._segment.awaited_by_any if self._all_waiting(self._segment) else 0
        self._awaited_this_pass |= needs
        self.needs_another_pass = self.needs_another_pass or not needs

    def draft_opened(self) -> None:
        """A draft was opened that somebody asked before may have room on."""
        self.needs_another_pass = self.needs_another_pass or bool(self._awaited_this_pass)

    def reservations_released(self, ids: ReservationSet) -> None:
        """Slots were given back that somebody before may have wanted."""
        self.needs_another_pass = self.needs_another_pass or bool(ids & self._awaited_this_pass)

    def can_skip(self, stretch: QueueSegment) -> bool:
        self._segment = stretch
        if not self._all_waiting(stretch):
            return False
        stretch.checked_drafts = 0  # those seen then may have become too full
        if self._reserved_drafts_with_room(stretch):
            return False
        self._awaited_this_pass |= stretch.awaited_by_any
        return True

    def count_skippable(self, stretch: QueueSegment, start: int) -> int:
        """How many runs of the stretch, from there on, can only go on waiting."""
        if stretch.awaited_by_all & self._reservation_manager.unheld:
            return 0  # there is a slot for any of them
        if self._all_waiting(stretch):
            found = self._first_with_room(stretch, start)
            self._awaited_this_pass |= stretch.awaited_by_any if found > start else 0
        else:
            found = self._first_not_waiting(stretch, start)
        return found - start

    def _first_with_room(self, stretch: QueueSegment, start: int) -> int:
        """The first run that a draft with a slot seems to have room for."""
        table, found, runs = self._table, self._reserved_drafts_with_room(stretch), stretch.batches
        if found.bit_count() <= FEW_DRAFTS:
            drafts = [table.drafts[number] for number in iter_bits(found)]
            return _first_fitting(runs, start, [table.free_resources(draft) for draft in drafts])
        while start < len(runs) and not self._has_room(runs[start].pod_class, stretch):
            start += 1
        return start

    def _first_not_waiting(self, stretch: QueueSegment, start: int) -> int:
        runs = stretch.batches
        while start < len(runs):
            group = runs[start].pod_class
            if not self.is_waiting(group) or self._has_room(group, stretch):
                break
            self._awaited_this_pass |= group.awaited_reservations or 0
            start += 1
        return start

    def _has_room(self, group: PodClass, stretch: QueueSegment) -> bool:
        assert group.only_requirements is not None, "who waits for slots has one wish"
        return bool(
            self._table.candidates(
                group.only_requirements, self._reserved_drafts_with_room(stretch)
            )
        )

    def _all_waiting(self, stretch: QueueSegment) -> bool:
        stock = self._reservation_manager
        awake = stretch.awaited_by_any & stock.unheld
        return not awake and stretch.awaited_by_all & stock.available != 0

    def _reserved_drafts_with_room(self, stretch: QueueSegment) -> BitSet:
        """The drafts with a slot that have, or had a moment ago, room for the least of them.

        They only get fuller, so that it is looked up again when there is a new one.
        """
        slotted, least = self._table.reserved, stretch.smallest
        if stretch.checked_drafts != slotted:
            stretch.checked_drafts = slotted
            stretch.drafts_with_room = (
                slotted if least is None else self._table.candidates(least, slotted)
            )
        return stretch.drafts_with_room if slotted else 0

    def can_skip_inflight(self, stretch: QueueSegment) -> bool:
        """Whether no machine under way has room even for the least of them."""
        settled, least = self._table.inflight, stretch.smallest
        if not settled or least is None:
            return False
        return not self._table.with_room(settled, least.too_full_drafts)

    def is_waiting(self, group: PodClass) -> bool:
        """Whether there is a slot for its pods and each is held, so that they open no node."""
        stock, needs = self._reservation_manager, group.awaited_reservations
        if needs is None and self.can_wait_untried and stock.available:
            if self._all_waiting(self._segment):
                return True
            needs = group.awaited_reservations = self._pool_selector.awaited_reservations(group)
        return needs is not None and not needs & stock.unheld and needs & stock.available != 0

    def _build_segment(self, runs: Queue) -> QueueSegment:
        """Of neighbours who differ but in size, the least and the most speak for the others."""
        stretch, extremes = (
            QueueSegment(runs),
            _extremes([run.pod_class.only_requirements for run in runs]),
        )
        if extremes is not None:
            stretch.awaited_by_any, stretch.awaited_by_all = self._pool_selector.awaited_between(
                *extremes
            )
            self._set_smallest(stretch, extremes[0])
        return stretch

    def _merge_segments(self, parts: list[QueueSegment]) -> QueueSegment:
        """Several that are neighbours; what is known of each is known of all of them."""
        whole, wishes = QueueSegment([], parts), [part.smallest for part in parts]
        extremes = _extremes(wishes)
        if extremes is not None:
            whole.awaited_by_any = union(part.awaited_by_any for part in parts)
            whole.awaited_by_all = reduce(and_, (part.awaited_by_all for part in parts))
            self._set_smallest(whole, extremes[0])
        return whole

    def _set_smallest(self, stretch: QueueSegment, least: PodRequirements) -> None:
        least.too_full_drafts = self._table.capacity_index.entries(least.amounts)
        stretch.smallest = least


def _chunks(count: int, things: list[_T]) -> list[list[_T]]:
    return [things[start : start + count] for start in range(0, len(things), count)]


def _first_fitting(runs: Queue, start: int, spaces: Sequence[Sequence[int]]) -> int:
    """The first run whose pods ask for no more of each resource than some space has."""
    # Spelt out, as it is asked of nearly every run whenever anything happens.
    for number in range(start, len(runs) if spaces else start):
        wish = runs[number].pod_class.only_requirements
        assert wish is not None, "those of one stretch have one wish each"
        for space in spaces:
            for column, amount in wish.amounts:
                if amount > space[column]:
                    break
            else:
                return number
    return len(runs)


def _extremes(
    wishes: Sequence[PodRequirements | None],
) -> tuple[PodRequirements, PodRequirements] | None:
    """A wish for the least of these and one for the most; None if they differ in more than size."""
    first = wishes[0]
    if first is None:
        return None
    ask, columns, amounts = first.scheduling, first.columns, []
    for wish in wishes:
        if wish is None or wish.scheduling is not ask or wish.columns is not columns:
            return None
        amounts.append(wish.amounts)
    by_column = [[amount for _, amount in pairs] for pairs in zip(*amounts, strict=True)]
    least, most = map(min, by_column), map(max, by_column)
    return (
        PodRequirements(ask, tuple(zip(columns, least, strict=True)), columns),
        PodRequirements(ask, tuple(zip(columns, most, strict=True)), columns),
    )
