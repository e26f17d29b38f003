"""Patience: which pods of the queue need not be asked, because they can only go on waiting.

Whoever waits for a slot that drafts of this round hold is woken by two things only: a slot that
he could use is let go, or a draft has room for him. With many reservations nearly all pods wait
most of the time, so that they are passed over by the stretch.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_
from typing import Final

from wainwright.core.drafts import DraftTable
from wainwright.core.order import Queue, Run
from wainwright.core.reservations import Ids, Stock
from wainwright.core.slack import Place
from wainwright.core.wishes import Amounts

LENGTH: Final = 64


class Stretch:
    """Neighbours in the queue, and what can be said of all of them even if some have left."""

    __slots__ = ("needed_by_all", "needed_by_any", "runs", "short")

    def __init__(self, runs: Queue, short: Sequence[Place]) -> None:
        needs = [run.group.needs for run in runs]
        self.runs = runs
        self.needed_by_any: Ids = reduce(or_, needs)
        self.needed_by_all: Ids = reduce(and_, needs)
        self.short = short
        """Where the drafts stand that are too full for the least that any of them asks for."""


class Patience:
    """Who sleeps on, and whether those who do have missed something in this pass."""

    __slots__ = ("_heard", "_stock", "_table", "again")

    def __init__(self, stock: Stock, table: DraftTable) -> None:
        self._stock = stock
        self._table = table
        self._heard: Ids = 0
        self.again = False
        """Whether another pass may help somebody who was asked in vain."""

    def stretches(self, queue: Queue, resources: Sequence[str]) -> list[Stretch]:
        cuts = range(0, len(queue), LENGTH)
        return [self._stretch(queue[start : start + LENGTH], resources) for start in cuts]

    def begin_pass(self) -> None:
        self._heard, self.again = 0, False

    def wait(self, run: Run) -> None:
        """Somebody was asked in vain; those who wait for no slots may be woken by anything."""
        self._heard |= run.group.needs
        self.again = self.again or not run.group.needs

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
        needs = run.group.needs
        if not needs & self._stock.live or needs & self._stock.holdable:
            return False
        if self._table.candidates(run.group.stages[0].wishes[0], self._table.current):
            return False
        self._heard |= needs
        return True

    def _stretch(self, runs: Queue, resources: Sequence[str]) -> Stretch:
        least = _least(runs, resources) if self._stock.live else ()
        return Stretch(runs, self._table.slack.places(least))


def _least(runs: Queue, resources: Sequence[str]) -> Amounts:
    """The smallest amount of each resource that all of the runs ask for."""
    asked = [run.group.requests for run in runs]
    least = [(column, min(each.get(n, 0) for each in asked)) for column, n in enumerate(resources)]
    return tuple((column, amount) for column, amount in least if amount)
