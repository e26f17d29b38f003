"""World: time, chance and appointments of an emulated account, shared by all its services.

Nothing here waits. Time is read from outside; what is due by then happens, in order, before the
next question is answered. Everything that must survive being saved is data: appointments by kind,
services by their `state`.
"""

import heapq
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Protocol, TypeAlias

import msgspec

Params: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Params], Answer]
Due: TypeAlias = Callable[[Mapping[str, Any]], None]

ACCOUNT: Final = "111122223333"


class Service(Protocol):
    """A service, or one subject of a large one."""

    name: str
    """What boto calls the service."""
    state: msgspec.Struct
    """All that it remembers; becomes JSON when the account is saved, and comes back from it."""

    def operations(self) -> Mapping[str, Handler]:
        """By the name in the API; each takes and gives the shapes of boto3."""
        ...


class Appointment(msgspec.Struct, order=True):
    due: float
    number: int
    kind: str
    about: dict[str, Any]


class World:
    """What the services of one account share."""

    def __init__(
        self, now: Callable[[], float], *, region: str, seed: int = 0, account: str = ACCOUNT
    ) -> None:
        self.region = region
        self.account = account
        self.random = Random(seed)
        self._now = now
        self._moment: float | None = None
        self._appointments: list[Appointment] = []
        self._number = 0
        self._due: dict[str, Due] = {}

    def now(self) -> float:
        """Seconds since 1970; during an appointment the moment for which it was made."""
        return self._now() if self._moment is None else self._moment

    def on(self, kind: str, happens: Due) -> None:
        """Says what happens at appointments of that kind."""
        self._due[kind] = happens

    def at(self, due: float, kind: str, **about: Any) -> None:
        """Makes an appointment; what it is about must be JSON."""
        self._number += 1
        heapq.heappush(self._appointments, Appointment(due, self._number, kind, about))

    def next_due(self) -> float | None:
        return self._appointments[0].due if self._appointments else None

    def catch_up(self) -> None:
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
    def appointments(self) -> list[Appointment]:
        """Those still to come, to be saved."""
        return sorted(self._appointments)

    def restore(self, appointments: list[Appointment]) -> None:
        self._appointments = sorted(appointments)
        self._number = max((each.number for each in appointments), default=0)
