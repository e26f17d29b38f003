"""Patience: which pods of the queue need not be asked, because they can only go on waiting.

Whoever waits for a slot that drafts of this round hold is woken by two things only: a slot that
he could use is let go, or a draft with one has room for him; on others he would leave the slot
idle. With many reservations nearly all pods wait most of the time, so that they are passed over
by the stretch.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from wainwright.core.drafts import DraftTable
from wainwright.core.ladder import Ladder
from wainwright.core.order import Queue, Run
from wainwright.core.reservations import Ids, Stock
from wainwright.core.slack import Place
from wainwright.core.wishes import PodClass, Wish
from wainwright.model.columns import Rows

LONG: Final = 512  # runs of a stretch at first
SHORT: Final = 16  # and of its parts, once somebody in it is awake


class Stretch:
    """Neighbours in the queue, and what can be said of all of them even if some have left."""

    __slots__ = ("needed_by_all", "needed_by_any", "open", "parts", "runs", "seen", "short")

    def __init__(self, runs: Queue) -> None:
        self.runs = runs
        self.parts: list[Stretch] = []
        """The same runs in shorter stretches, once that is of use."""
        self.needed_by_any: Ids = 0
        self.needed_by_all: Ids = 0
        """Where this is nothing, nothing is known, and each is looked at by himself."""
        self.short: Sequence[Place] = ()
        """Where the drafts stand that are too full for the least that any of them asks for."""
        self.open: Rows = 0
        """Those that were not, among the drafts seen at the last look."""
        self.seen: Rows = -1

    def waiting(self) -> Iterator[Run]:
        yield from self.runs
        for part in self.parts:
            yield from part.waiting()


class Patience:
    """Who sleeps on, and whether those who do have missed something in this pass."""

    __slots__ = ("_asked", "_heard", "_ladder", "_stock", "_table", "again", "at_once")

    def __init__(self, ladder: Ladder, table: DraftTable) -> None:
        self._ladder = ladder
        self._stock: Stock = ladder.stock
        self._table = table
        self._heard: Ids = 0
        self._asked = Stretch([])
        """Where those who are asked now stand in the queue."""
        self.at_once = False
        """Whether pods may wait before they are asked the first time, as no nodes stand."""
        self.again = False
        """Whether another pass may help somebody who was asked in vain."""

    def stretches(self, queue: Queue) -> list[Stretch]:
        return self._every(LONG, queue)

    def cut(self, stretch: Stretch) -> None:
        """Takes a stretch apart in which somebody is awake: most of the others will not be."""
        if len(stretch.runs) > SHORT and self.at_once and self._stock.live:
            stretch.parts, stretch.runs = self._every(SHORT, stretch.runs), []

    def begin_round(self) -> None:
        """Until the first pass anybody may be asked."""
        self._asked = Stretch([])

    def begin_pass(self) -> None:
        self._heard, self.again = 0, False

    def wait(self, run: Run) -> None:
        """Somebody was asked in vain; those who wait for no slots may be woken by anything."""
        needs = run.group.needs
        if needs is None:
            needs = self._asked.needed_by_any if self._all_wait(self._asked) else 0
        self._heard |= needs
        self.again = self.again or not needs

    def opened(self) -> None:
        """A draft was opened that somebody asked before may have room on."""
        self.again = self.again or bool(self._heard)

    def let_go(self, ids: Ids) -> None:
        """Slots were given back that somebody before may have wanted."""
        self.again = self.again or bool(ids & self._heard)

    def all_sleep(self, stretch: Stretch) -> bool:
        self._asked, stretch.seen = stretch, -1
        if not self._all_wait(stretch) or self._open_to(stretch):
            return False
        self._heard |= stretch.needed_by_any
        return True

    def sleeps(self, run: Run, stretch: Stretch) -> bool:
        if stretch.needed_by_all & self._stock.holdable:
            return False  # there is a slot for any of them
        group, all_wait = run.group, self._all_wait(stretch)
        if not (all_wait or self.waits(group)):
            return False
        wish = group.stages[0].wishes[0]
        if self._table.candidates(wish, self._open_to(stretch)):
            return False
        self._heard |= stretch.needed_by_any if all_wait else group.needs or 0
        return True

    def _all_wait(self, stretch: Stretch) -> bool:
        stock = self._stock
        awake = stretch.needed_by_any & stock.holdable
        return not awake and stretch.needed_by_all & stock.live != 0

    def _open_to(self, stretch: Stretch) -> Rows:
        """The drafts with a slot that have, or had a moment ago, room for the least of them.

        They only get fuller, so that it is looked up again when there is a new one.
        """
        slotted = self._table.slotted
        if stretch.seen != slotted:
            stretch.seen = slotted
            stretch.open = self._table.open_among(slotted, stretch.short)
        return stretch.open

    def passes_over_settled(self, stretch: Stretch) -> bool:
        """Whether no machine under way has room even for the least of them."""
        settled, short = self._table.settled, stretch.short
        return bool(short and settled) and not self._table.open_among(settled, short)

    def waits(self, group: PodClass) -> bool:
        """Whether there is a slot for its pods and each is held, so that they open no node."""
        stock, needs = self._stock, group.needs
        if needs is None and self.at_once and stock.live:
            if self._all_wait(self._asked):
                return True
            needs = group.needs = self._ladder.needs(group)
        return needs is not None and not needs & stock.holdable and needs & stock.live != 0

    def _every(self, length: int, runs: Queue) -> list[Stretch]:
        cuts = range(0, len(runs), length)
        return [self._stretch(runs[start : start + length]) for start in cuts]

    def _stretch(self, runs: Queue) -> Stretch:
        """Of neighbours who differ but in size, the least and the most speak for the others."""
        stretch = Stretch(runs)
        extremes = _extremes(runs) if self.at_once and self._stock.live else None
        if extremes is not None:
            least, most = extremes
            stretch.needed_by_any, stretch.needed_by_all = self._ladder.needed(least, most)
            stretch.short = self._table.slack.places(least.amounts)
        return stretch


def _extremes(runs: Queue) -> tuple[Wish, Wish] | None:
    """A wish for the least that anybody asks for, and one for the most; None if they differ."""
    first = runs[0].group.only_wish
    if first is None:
        return None
    ask, columns, amounts = first.ask, first.columns, []
    for run in runs:
        wish = run.group.only_wish
        if wish is None or wish.ask is not ask or wish.columns is not columns:
            return None
        amounts.append(wish.amounts)
    by_column = [[amount for _, amount in pairs] for pairs in zip(*amounts, strict=True)]
    least, most = map(min, by_column), map(max, by_column)
    return (
        Wish(ask, tuple(zip(columns, least, strict=True)), columns),
        Wish(ask, tuple(zip(columns, most, strict=True)), columns),
    )
