"""Slots: what reservations have free for one more launch, those under way counted.

Between a request and its answer nobody knows which of its reservations the machines went into, so
that each is held for all of them; `Availability` is told once it is known.
"""

from collections.abc import Iterable

import msgspec

from wainwright.aws.reservations import Availability


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Places that a launch holds while it is under way."""

    number: int
    reservations: frozenset[str]
    count: int


class Slots:
    def __init__(self, availability: Availability) -> None:
        self._availability = availability
        self._held: dict[int, Held] = {}
        self._number = 0

    def free(self, reservation: str) -> int:
        held = sum(each.count for each in self._held.values() if reservation in each.reservations)
        return max(0, self._availability.free(reservation) - held)

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
