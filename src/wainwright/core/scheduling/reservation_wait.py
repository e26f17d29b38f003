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

    __slots__ = ("_asked", "_heard", "_ladder", "_stock", "_table", "again", "at_once")

    def __init__(self, ladder: NodePoolSelector, table: DraftTable) -> None:
        self._ladder = ladder
        self._stock: ReservationManager = ladder.stock
        self._table = table
        self._heard: ReservationSet = 0
        self._asked = QueueSegment([])
        """Where those who are asked now stand in the queue."""
        self.at_once = False
        """Whether pods may wait before they are asked the first time, as no nodes stand."""
        self.again = False
        """Whether another pass may help somebody who was asked in vain."""

    def stretches(self, queue: Queue) -> list[QueueSegment]:
        if not (self.at_once and self._stock.live):
            return [QueueSegment(queue)] if queue else []
        parts = [self._stretch(runs) for runs in _chunks(BATCHES_PER_SEGMENT, queue)]
        return [self._together(several) for several in _chunks(SEGMENTS_PER_GROUP, parts)]

    def begin_round(self) -> None:
        """Until the first pass anybody may be asked."""
        self._asked = QueueSegment([])

    def begin_pass(self) -> None:
        self._heard, self.again = 0, False

    def wait(self, run: PodBatch) -> None:
        """Somebody was asked in vain; those who wait for no slots may be woken by anything."""
        needs = run.group.needs
        if needs is None:
            needs = self._asked.needed_by_any if self._all_wait(self._asked) else 0
        self._heard |= needs
        self.again = self.again or not needs

    def opened(self) -> None:
        """A draft was opened that somebody asked before may have room on."""
        self.again = self.again or bool(self._heard)

    def let_go(self, ids: ReservationSet) -> None:
        """Slots were given back that somebody before may have wanted."""
        self.again = self.again or bool(ids & self._heard)

    def all_sleep(self, stretch: QueueSegment) -> bool:
        self._asked = stretch
        if not self._all_wait(stretch):
            return False
        stretch.seen = 0  # those seen then may have become too full
        if self._open_to(stretch):
            return False
        self._heard |= stretch.needed_by_any
        return True

    def asleep(self, stretch: QueueSegment, start: int) -> int:
        """How many runs of the stretch, from there on, can only go on waiting."""
        if stretch.needed_by_all & self._stock.holdable:
            return 0  # there is a slot for any of them
        if self._all_wait(stretch):
            found = self._first_with_room(stretch, start)
            self._heard |= stretch.needed_by_any if found > start else 0
        else:
            found = self._first_awake(stretch, start)
        return found - start

    def _first_with_room(self, stretch: QueueSegment, start: int) -> int:
        """The first run that a draft with a slot seems to have room for."""
        table, found, runs = self._table, self._open_to(stretch), stretch.runs
        if found.bit_count() <= FEW_DRAFTS:
            drafts = [table.drafts[number] for number in iter_bits(found)]
            return _first_fitting(runs, start, [table.free(draft) for draft in drafts])
        while start < len(runs) and not self._has_room(runs[start].group, stretch):
            start += 1
        return start

    def _first_awake(self, stretch: QueueSegment, start: int) -> int:
        runs = stretch.runs
        while start < len(runs):
            group = runs[start].group
            if not self.waits(group) or self._has_room(group, stretch):
                break
            self._heard |= group.needs or 0
            start += 1
        return start

    def _has_room(self, group: PodClass, stretch: QueueSegment) -> bool:
        assert group.only_wish is not None, "who waits for slots has one wish"
        return bool(self._table.candidates(group.only_wish, self._open_to(stretch)))

    def _all_wait(self, stretch: QueueSegment) -> bool:
        stock = self._stock
        awake = stretch.needed_by_any & stock.holdable
        return not awake and stretch.needed_by_all & stock.live != 0

    def _open_to(self, stretch: QueueSegment) -> BitSet:
        """The drafts with a slot that have, or had a moment ago, room for the least of them.

        They only get fuller, so that it is looked up again when there is a new one.
        """
        slotted, least = self._table.slotted, stretch.least
        if stretch.seen != slotted:
            stretch.seen = slotted
            stretch.open = slotted if least is None else self._table.candidates(least, slotted)
        return stretch.open if slotted else 0

    def passes_over_settled(self, stretch: QueueSegment) -> bool:
        """Whether no machine under way has room even for the least of them."""
        settled, least = self._table.settled, stretch.least
        if not settled or least is None:
            return False
        return not self._table.open_among(settled, least.short)

    def waits(self, group: PodClass) -> bool:
        """Whether there is a slot for its pods and each is held, so that they open no node."""
        stock, needs = self._stock, group.needs
        if needs is None and self.at_once and stock.live:
            if self._all_wait(self._asked):
                return True
            needs = group.needs = self._ladder.needs(group)
        return needs is not None and not needs & stock.holdable and needs & stock.live != 0

    def _stretch(self, runs: Queue) -> QueueSegment:
        """Of neighbours who differ but in size, the least and the most speak for the others."""
        stretch, extremes = QueueSegment(runs), _extremes([run.group.only_wish for run in runs])
        if extremes is not None:
            stretch.needed_by_any, stretch.needed_by_all = self._ladder.needed(*extremes)
            self._know_least(stretch, extremes[0])
        return stretch

    def _together(self, parts: list[QueueSegment]) -> QueueSegment:
        """Several that are neighbours; what is known of each is known of all of them."""
        whole, wishes = QueueSegment([], parts), [part.least for part in parts]
        extremes = _extremes(wishes)
        if extremes is not None:
            whole.needed_by_any = union(part.needed_by_any for part in parts)
            whole.needed_by_all = reduce(and_, (part.needed_by_all for part in parts))
            self._know_least(whole, extremes[0])
        return whole

    def _know_least(self, stretch: QueueSegment, least: PodRequirements) -> None:
        least.short = self._table.slack.places(least.amounts)
        stretch.least = least


def _chunks(count: int, things: list[_T]) -> list[list[_T]]:
    return [things[start : start + count] for start in range(0, len(things), count)]


def _first_fitting(runs: Queue, start: int, spaces: Sequence[Sequence[int]]) -> int:
    """The first run whose pods ask for no more of each resource than some space has."""
    # Spelt out, as it is asked of nearly every run whenever anything happens.
    for number in range(start, len(runs) if spaces else start):
        wish = runs[number].group.only_wish
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
    ask, columns, amounts = first.ask, first.columns, []
    for wish in wishes:
        if wish is None or wish.ask is not ask or wish.columns is not columns:
            return None
        amounts.append(wish.amounts)
    by_column = [[amount for _, amount in pairs] for pairs in zip(*amounts, strict=True)]
    least, most = map(min, by_column), map(max, by_column)
    return (
        PodRequirements(ask, tuple(zip(columns, least, strict=True)), columns),
        PodRequirements(ask, tuple(zip(columns, most, strict=True)), columns),
    )
