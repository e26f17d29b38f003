"""What the services of one emulated account share: time, randomness, and a queue of timed events.

Nothing here waits. Time is read from outside; what is due by then happens, in order, before the
next request is handled. Everything that must survive being saved is data: timed events by kind,
services by their `state`.
"""

import heapq
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Protocol, TypeAlias

import msgspec


class EmptyState(msgspec.Struct):
    """Of a part that remembers nothing."""


Params: TypeAlias = Mapping[str, Any]
Response: TypeAlias = dict[str, Any]
OperationHandler: TypeAlias = Callable[[Params], Response]
EventHandler: TypeAlias = Callable[[Mapping[str, Any]], None]

ACCOUNT_ID: Final = "111122223333"


class AwsService(Protocol):
    """A service, or one subject of a large one."""

    name: str
    """What boto calls the service."""
    state: msgspec.Struct
    """All that it remembers; becomes JSON when the account is saved, and comes back from it."""

    def operations(self) -> Mapping[str, OperationHandler]:
        """By the name in the API; each takes and gives the shapes of boto3."""
        ...


class TimedEvent(msgspec.Struct, order=True):
    due: float
    number: int
    kind: str
    about: dict[str, Any]


class AccountContext:
    """What the services of one account share."""

    def __init__(
        self, now: Callable[[], float], *, region: str, seed: int = 0, account: str = ACCOUNT_ID
    ) -> None:
        self.region = region
        self.account = account
        self.random = Random(seed)
        self._now = now
        self._moment: float | None = None
        self._appointments: list[TimedEvent] = []
        self._number = 0
        self._due: dict[str, EventHandler] = {}

    def now(self) -> float:
        """Seconds since 1970; during an appointment the moment for which it was made."""
        return self._now() if self._moment is None else self._moment

    def on(self, kind: str, happens: EventHandler) -> None:
        """Says what happens at appointments of that kind."""
        self._due[kind] = happens

    def at(self, due: float, kind: str, **about: Any) -> None:
        """Makes an appointment; what it is about must be JSON."""
        self._number += 1
        heapq.heappush(self._appointments, TimedEvent(due, self._number, kind, about))

    def next_due(self) -> float | None:
        return self._appointments[0].due if self._appointments else None

    def run_due_events(self) -> None:
        """Lets everything happen that is due by now, each at its own moment."""
        now = self._now()
        while self._appointments and self._appointments[0].due <= now:
            appointment = heapq.heappop(self._appointments)
            self._moment = appointment.due
            try:
                self._due[appointment.kind](appointment.about)
            finally:
                self._moment = None

    @property
    def appointments(self) -> list[TimedEvent]:
        """Those still to come, to be saved."""
        return sorted(self._appointments)

    def restore(self, appointments: list[TimedEvent]) -> None:
        self._appointments = sorted(appointments)
        self._number = max((each.number for each in appointments), default=0)
