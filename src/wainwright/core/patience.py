"""Patience: which pods of a queue need not even be asked, because they can only go on waiting.

Whoever waits for a slot that drafts of this round hold is woken by two things only: a slot that
he could use is let go, or a draft has room for him. With many reservations nearly all pods wait
most of the time, so that passing them over has to be cheap.
"""

from typing import Final

from wainwright.core.drafts import DraftTable
from wainwright.core.order import Queue, Run
from wainwright.core.reservations import Ids, Stock
from wainwright.model.resources import CPU, MEMORY

STRETCH: Final = 256  # runs looked over at a time, as whoever is woken changes what comes after


class Patience:
    """Who sleeps on, and whether those who do have missed something in this pass."""

    __slots__ = ("_heard", "_stock", "_table", "again")

    def __init__(self, stock: Stock, table: DraftTable) -> None:
        self._stock = stock
        self._table = table
        self._heard: Ids = 0
        self.again = False
        """Whether another pass may help somebody who was asked in vain."""

    def begin_pass(self) -> None:
        self._heard, self.again = 0, False

    def wait(self, run: Run) -> None:
        """Somebody was asked in vain; those who wait for no slots may be woken by anything."""
        self._heard |= run.group.needs
        self.again = self.again or not run.group.needs

    def let_go(self, ids: Ids) -> None:
        """Slots were given back that somebody before may have wanted."""
        self.again = self.again or bool(ids & self._heard)

    def sleepers(self, queue: Queue, place: int) -> int:
        """The place of the next run that must be asked, no more than a stretch ahead."""
        live, holdable = self._stock.live, self._stock.holdable
        table = self._table
        cpu, memory = table.most_free(CPU), table.most_free(MEMORY)
        for run in queue[place : place + STRETCH]:
            needs = run.group.needs
            if not needs & live or needs & holdable:
                break
            if run.cpu < cpu and run.memory < memory and table.may_take(run.group.wishes[0]):
                break
            self._heard |= needs
            place += 1
        return place
