"""Patience: which pods of the queue need not be asked, because they can only go on waiting.

Whoever waits for a slot that drafts of this round hold is woken by two things only: a slot that
he could use is let go, or a draft with one has room for him; on others he would leave the slot
idle. With many reservations nearly all pods wait most of the time, so that they are passed over
by the stretch.
"""

from collections.abc import Sequence
from typing import Final

from wainwright.core.drafts import DraftTable
from wainwright.core.ladder import Ladder
from wainwright.core.order import Queue, Run
from wainwright.core.reservations import Ids, Stock
from wainwright.core.slack import Place
from wainwright.core.wishes import PodClass, Wish

LENGTH: Final = 64


class Stretch:
    """Neighbours in the queue, and what can be said of all of them even if some have left."""

    __slots__ = ("needed_by_all", "needed_by_any", "runs", "short")

    def __init__(self, runs: Queue) -> None:
        self.runs = runs
        self.needed_by_any: Ids = 0
        self.needed_by_all: Ids = 0
        """Where this is nothing, nothing is known, and each is looked at by himself."""
        self.short: Sequence[Place] = ()
        """Where the drafts stand that are too full for the least that any of them asks for."""


class Patience:
    """Who sleeps on, and whether those who do have missed something in this pass."""

    __slots__ = ("_heard", "_ladder", "_stock", "_table", "again", "at_once")

    def __init__(self, ladder: Ladder, table: DraftTable) -> None:
        self._ladder = ladder
        self._stock: Stock = ladder.stock
        self._table = table
        self._heard: Ids = 0
        self.at_once = False
        """Whether pods may wait before they are asked the first time, as no nodes stand."""
        self.again = False
        """Whether another pass may help somebody who was asked in vain."""

    def stretches(self, queue: Queue) -> list[Stretch]:
        cuts = range(0, len(queue), LENGTH)
        return [self._stretch(queue[start : start + LENGTH]) for start in cuts]

    def begin_pass(self) -> None:
        self._heard, self.again = 0, False

    def wait(self, run: Run) -> None:
        """Somebody was asked in vain; those who wait for no slots may be woken by anything."""
        needs = run.group.needs or 0
        self._heard |= needs
        self.again = self.again or not needs

    def opened(self) -> None:
        """A draft was opened that somebody asked before may have room on."""
        self.again = self.again or bool(self._heard)

    def let_go(self, ids: Ids) -> None:
        """Slots were given back that somebody before may have wanted."""
        self.again = self.again or bool(ids & self._heard)

    def all_sleep(self, stretch: Stretch) -> bool:
        live, holdable = self._stock.live, self._stock.holdable
        if not stretch.needed_by_all & live or stretch.needed_by_any & holdable:
            return False
        if self._table.open_for(stretch.short):
            return False
        self._heard |= stretch.needed_by_any
        return True

    def sleeps(self, run: Run) -> bool:
        live = self._stock.live
        needs = self._needs(run.group) if live else 0
        if not needs & live or needs & self._stock.holdable:
            return False
        if self._table.candidates(run.group.stages[0].wishes[0], self._table.slotted):
            return False
        self._heard |= needs
        return True

    def _needs(self, group: PodClass) -> Ids:
        if group.needs is None and self.at_once:
            group.needs = self._ladder.needs(group)
        return group.needs or 0

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
    wishes = [run.group.only_wish for run in runs]
    first = wishes[0]
    if first is None:
        return None
    ask, columns = first.ask, first.columns
    amounts = [
        wish.amounts
        for wish in wishes
        if wish is not None and wish.ask is ask and wish.columns is columns
    ]
    if len(amounts) < len(runs):
        return None
    least, most = (tuple(map(choice, zip(*amounts, strict=True))) for choice in (min, max))
    return Wish(ask, least, columns), Wish(ask, most, columns)
