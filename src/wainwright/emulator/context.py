"""What the services of one emulated account share: time, randomness, and a queue of timed events.

Nothing here waits. Time is read from the clock; events that are due by then are handled, in order,
before the next request. Everything that must survive a save is data: timed events by kind, services
by their `state`.
"""

import heapq
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, TypeAlias

import msgspec


class EmptyState(msgspec.Struct):
    """The state of a service that keeps none."""


Params: TypeAlias = Mapping[str, Any]
Response: TypeAlias = dict[str, Any]
OperationHandler: TypeAlias = Callable[[Params], Response]
EventHandler: TypeAlias = Callable[[Mapping[str, Any]], None]

ACCOUNT_ID: Final = "111122223333"


class TimedEvent(msgspec.Struct, order=True):
    """Compared field by field: by time, and within one moment in the order of scheduling."""

    due: float
    number: int
    kind: str
    payload: dict[str, Any] = msgspec.field(name="about")


class AccountContext:
    """What the services of one account share."""

    def __init__(
        self, now: Callable[[], float], *, region: str, seed: int = 0, account: str = ACCOUNT_ID
    ) -> None:
        self.region = region
        self.account = account
        self.random = Random(seed)
        self._now = now
        self._event_time: float | None = None
        self._events: list[TimedEvent] = []
        self._last_number = 0
        self._handlers: dict[str, EventHandler] = {}
        self.on_schedule: Callable[[float], None] | None = None
        """Called with the time of every event that is scheduled, for whoever has to wake then."""

    def now(self) -> float:
        """Seconds since 1970; while a timed event is handled, its scheduled time."""
        return self._now() if self._event_time is None else self._event_time

    def register_handler(self, kind: str, handler: EventHandler) -> None:
        """Sets the handler of timed events of that kind."""
        self._handlers[kind] = handler

    def schedule_event(self, due: float, kind: str, **payload: Any) -> None:
        """Schedules a timed event; its payload must be JSON, as it is saved with the account."""
        self._last_number += 1
        # A heap: there may be thousands of pending events, and every call looks at the first.
        heapq.heappush(self._events, TimedEvent(due, self._last_number, kind, payload))
        if self.on_schedule is not None:
            self.on_schedule(due)

    def next_due(self) -> float | None:
        return self._events[0].due if self._events else None

    def run_due_events(self) -> None:
        """Handles all events that are due by now, in order, each at its own time."""
        now = self._now()
        while self._events and self._events[0].due <= now:
            event = heapq.heappop(self._events)
            self._event_time = event.due
            try:
                self._handlers[event.kind](event.payload)
            finally:
                self._event_time = None

    @property
    def pending_events(self) -> list[TimedEvent]:
        """Events that are not due yet, for the saved state."""
        return sorted(self._events)

    def restore_events(self, events: list[TimedEvent]) -> None:
        self._events = sorted(events)
        self._last_number = max((each.number for each in events), default=0)
