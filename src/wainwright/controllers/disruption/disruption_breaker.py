"""The disruption breaker: voluntary disruption stops once it has removed too large a share of the
nodes within a window, whatever budgets allow. A mistake in a NodePool takes part of a cluster then,
and not all of it. It goes on by itself when the window has less in it.

After a restart it holds against two counts: that of what this process sees, as if nothing had been
before, and that of the records. The lower one counts, so that records that are lost or damaged
never let more nodes go than none.
"""

from collections import deque
from collections.abc import Iterable
from math import floor, inf

from wainwright.controllers.disruption.removal_records import RecordedRemoval
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
        self._under_way: deque[float] = deque()
        """When nodes were removed by a process before this one, which have not gone yet."""
        self._recorded: deque[RecordedRemoval] = deque()
        """What such a process has written down, of the same nodes and others."""

    @property
    def is_off(self) -> bool:
        return self._settings.share >= 1

    def remember(self, under_way: Iterable[float], recorded: Iterable[RecordedRemoval]) -> None:
        """What was before this process."""
        self._under_way = deque(sorted(under_way))
        self._recorded = deque(sorted(recorded, key=lambda each: each.at))

    def count_nodes(self, nodes: int, now: float) -> None:
        """To be told whenever it is asked."""
        if not self._counts or self._counts[-1][1] != nodes:
            self._counts.append((now, nodes))
        self._forget(now)

    @property
    def nodes_before(self) -> int:
        """Against which a removal counts now: those at the beginning of the window, or those that
        are left of them, where nodes have gone since, by our own doing or not.
        """
        return min(self._counts[0][1], self._counts[-1][1]) if self._counts else 0

    def removed(self, moments: Iterable[float]) -> None:
        self._removals = deque(sorted([*self._removals, *moments]))

    def room(self, in_flight: int, now: float) -> float:
        """How many more nodes may go; `in_flight` are those of commands that have begun."""
        if self.is_off:
            return inf
        self._forget(now)
        begun = len(self._removals) + in_flight
        seen = self._limit(self._counts[0][1] if self._counts else 0) - len(self._under_way)
        if self._recorded:
            gone = sum(each.nodes for each in self._recorded)
            seen = min(seen, self._limit(self._recorded[0].before) - gone)
        return max(0, seen - begun)

    def _limit(self, nodes: int) -> int:
        """How many of so many nodes may go within a window."""
        return max(self._settings.nodes, floor(self._settings.share * nodes + 1e-9))

    @property
    def next_change(self) -> float | None:
        """When more nodes may go: a removal leaves the window, or it begins with more nodes."""
        first = [
            *(moments[0] for moments in (self._removals, self._under_way) if moments),
            *(each.at for each in (*self._recorded,)[:1]),
            *self._growth(),
        ]
        return min(first) + self._settings.window if first else None

    def _growth(self) -> list[float]:
        """Since when there have been so many nodes that more of them may go."""
        limits = [(at, self._limit(nodes)) for at, nodes in self._counts]
        return [at for at, limit in limits if limit > limits[0][1]][:1]

    def _forget(self, now: float) -> None:
        begin = now - self._settings.window
        for moments in (self._removals, self._under_way):
            while moments and moments[0] <= begin:
                moments.popleft()
        while self._recorded and self._recorded[0].at <= begin:
            self._recorded.popleft()
        while len(self._counts) > 1 and self._counts[1][0] <= begin:
            self._counts.popleft()
