"""Slots: what reservations have free for one more launch, those under way counted.

Between a request and its answer nobody knows which of its reservations the machines went into, so
that each is held for all of them; `Availability` is told once it is known. Where the answer got
lost, every claim keeps a place in each of them until it is clear what became of it.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from wainwright.aws.reservations import Availability
from wainwright.clock import Clock

DOUBTED: Final = 120.0
"""Seconds; by then EC2 has been asked twice what is free."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Places that a launch holds while it is under way."""

    number: int
    reservations: frozenset[str]
    count: int


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that may have got a machine."""

    reservations: frozenset[str]
    until: float


class Slots:
    def __init__(self, availability: Availability, clock: Clock) -> None:
        self._availability = availability
        self._clock = clock
        self._held: dict[int, Held] = {}
        self._doubts: dict[str, Doubt] = {}
        self._number = 0

    def free(self, reservation: str) -> int:
        now = self._clock.now()
        self._doubts = {uid: each for uid, each in self._doubts.items() if each.until > now}
        held = sum(each.count for each in self._held.values() if reservation in each.reservations)
        held += sum(reservation in each.reservations for each in self._doubts.values())
        return max(0, self._availability.free(reservation) - held)

    def doubt(self, claims: Iterable[str], reservations: Iterable[str]) -> None:
        """Nobody knows whether these claims, by uid, have got a place in one of them."""
        doubt = Doubt(reservations=frozenset(reservations), until=self._clock.now() + DOUBTED)
        if doubt.reservations:
            self._doubts.update(dict.fromkeys(claims, doubt))

    def clear(self, claim: str, reservation: str = "") -> None:
        """It is known after all: the claim has a place in that one, or nowhere."""
        if self._doubts.pop(claim, None) is not None and reservation:
            self._availability.launched(reservation)

    def hold(self, reservations: Iterable[str], count: int) -> Held:
        """`release` must follow, whatever happens."""
        self._number += 1
        held = Held(number=self._number, reservations=frozenset(reservations), count=count)
        self._held[held.number] = held
        return held

    def release(self, held: Held, launched: Iterable[str] = ()) -> None:
        """Lets go, and counts the machines that were launched, by the reservation of each."""
        del self._held[held.number]
        for reservation in launched:
            self._availability.launched(reservation)
