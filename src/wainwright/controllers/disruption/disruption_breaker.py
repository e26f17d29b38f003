"""The disruption breaker: voluntary disruption stops once it has removed too large a share of the
nodes within a window, whatever budgets allow. A mistake in a NodePool takes part of a cluster then,
and not all of it. It goes on by itself when the window has less in it.
"""

from collections import deque
from collections.abc import Iterable
from math import floor, inf

from wainwright.controllers.settings import BreakerSettings
from wainwright.core.disruption.budgets import DisruptionReason

VOLUNTARY = frozenset(
    {DisruptionReason.EMPTY, DisruptionReason.DRIFTED, DisruptionReason.UNDERUTILIZED}
)


class DisruptionBreaker:
    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._removals: deque[float] = deque()
        """When nodes were removed."""
        self._counts: deque[tuple[float, int]] = deque()
        """How many nodes there were; the first is that at the beginning of the window."""

    @property
    def is_off(self) -> bool:
        return self._settings.share >= 1

    def count_nodes(self, nodes: int, now: float) -> None:
        """To be told whenever it is asked."""
        if not self._counts or self._counts[-1][1] != nodes:
            self._counts.append((now, nodes))
        self._forget(now)

    def removed(self, moments: Iterable[float]) -> None:
        self._removals = deque(sorted([*self._removals, *moments]))

    def room(self, in_flight: int, now: float) -> float:
        """How many more nodes may go; `in_flight` are those of commands that have begun."""
        if self.is_off:
            return inf
        self._forget(now)
        before = self._counts[0][1] if self._counts else 0
        limit = max(self._settings.nodes, floor(self._settings.share * before + 1e-9))
        return max(0, limit - len(self._removals) - in_flight)

    @property
    def next_change(self) -> float | None:
        """When the first removal leaves the window."""
        return self._removals[0] + self._settings.window if self._removals else None

    def _forget(self, now: float) -> None:
        begin = now - self._settings.window
        while self._removals and self._removals[0] <= begin:
            self._removals.popleft()
        while len(self._counts) > 1 and self._counts[1][0] <= begin:
            self._counts.popleft()
