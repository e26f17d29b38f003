"""Reservations in use: what is free between two polls, who has left, and which blocks end.

EC2 is asked once a minute. In between, what was launched and terminated is counted here, so that a
reservation is not used twice and a freed place is not left idle. What is to be done about nodes
whose instance has left its reservation, or whose block ends, is data: others relabel and drain.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.api.cloud import Reservation
from wainwright.aws.instance import Instance
from wainwright.catalogue.reservations import CAPACITY_BLOCK, Selected, Standing
from wainwright.clock import Clock
from wainwright.model.labels import (
    CAPACITY_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_LABELS,
    RESERVED,
)

RETENTION: Final = 24 * 3600.0  # seconds
ENDING: Final = (Standing.ENDING, Standing.ENDED)


class _Count(msgspec.Struct):
    total: int
    free: int
    asked: float
    """When the question was asked that `free` answers."""
    changes: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """What was launched (-1) and terminated (+1) since, and when."""
    exhausted: float | None = None
    """When EC2 last said that none is left."""


class Availability:
    """How many instances each reservation has free, as far as anybody here can know."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, _Count] = {}

    def learn(self, found: Iterable[Reservation], asked: float) -> None:
        """What EC2 answered to a question asked at that moment.

        What happened while the answer was under way may or may not be in it. Launches are counted
        on top, terminations are not: a place too few is used a minute later, a place too many would
        be a launch that fails.
        """
        for each in found:
            known = self._counts.get(each.id)
            if known is not None and known.asked > asked:
                continue
            free = each.total if each.available is None else each.available
            count = _Count(total=each.total, free=free, asked=asked)
            if known is not None:
                count.changes = [change for change in known.changes if _launch_since(change, asked)]
                count.exhausted = known.exhausted if (known.exhausted or 0) >= asked else None
            self._counts[each.id] = count
        self._tidy()

    def launched(self, identity: str) -> None:
        self._change(identity, -1)

    def terminated(self, identity: str) -> None:
        self._change(identity, +1)

    def exceeded(self, identity: str) -> None:
        """EC2 said ReservationCapacityExceeded: none is free until it is asked again."""
        known = self._counts.setdefault(identity, _Count(total=0, free=0, asked=self._clock.now()))
        known.exhausted = self._clock.now()
        known.changes.clear()

    def free(self, identity: str) -> int:
        """None is free of what nobody knows."""
        known = self._counts.get(identity)
        if known is None or self._clock.now() - known.asked > RETENTION:
            return 0
        base = known.free if known.exhausted is None else 0
        return max(0, min(known.total, base + sum(delta for _, delta in known.changes)))

    def current(self, reservation: Reservation) -> Reservation:
        """The reservation with the count of this moment."""
        return msgspec.structs.replace(reservation, available=self.free(reservation.id))

    def _change(self, identity: str, delta: int) -> None:
        known = self._counts.get(identity)
        if known is not None:
            known.changes.append((self._clock.now(), delta))

    def _tidy(self) -> None:
        oldest = self._clock.now() - RETENTION
        for identity in [key for key, count in self._counts.items() if count.asked < oldest]:
            del self._counts[identity]


def _launch_since(change: tuple[float, int], asked: float) -> bool:
    moment, delta = change
    return delta < 0 and moment >= asked


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim or Node, as far as its reservation is concerned."""

    kind: str
    name: str
    instance_id: str
    labels: Mapping[str, str]

    @property
    def reserved(self) -> bool:
        return self.labels.get(CAPACITY_TYPE) == RESERVED


class Relabel(msgspec.Struct, frozen=True, kw_only=True):
    """Labels to be changed on one object."""

    kind: str
    name: str
    change: dict[str, str]
    remove: tuple[str, ...] = ()


def demotions(marked: Iterable[Marked], instances: Mapping[str, Instance]) -> list[Relabel]:
    """What to relabel so that the labels say what is paid.

    An instance that is in no reservation any more is on-demand. Claims and nodes are looked at one
    by one, as either may be left alone. Of an instance that is not known nothing is said: it may
    merely not be visible yet.
    """
    found: list[Relabel] = []
    for each in marked:
        instance = instances.get(each.instance_id)
        if each.reserved and instance is not None:
            found += _demotion(each, instance)
    return found


def _demotion(marked: Marked, instance: Instance) -> list[Relabel]:
    now = instance.reservation_id if instance.reserved else ""
    if not now:
        gone = tuple(sorted(RESERVATION_LABELS & set(marked.labels)))
        change = {CAPACITY_TYPE: ON_DEMAND}
        return [Relabel(kind=marked.kind, name=marked.name, change=change, remove=gone)]
    if now != marked.labels.get(RESERVATION_ID):
        # Somebody has moved the instance to another reservation; drift decides whether it may stay.
        return [Relabel(kind=marked.kind, name=marked.name, change={RESERVATION_ID: now})]
    return []


def to_be_drained(marked: Iterable[Marked], selected: Iterable[Selected]) -> list[str]:
    """Names of what runs in a capacity block that ends within 40 minutes."""
    ending = {
        each.reservation.id
        for each in selected
        if each.standing in ENDING and each.reservation.reservationType == CAPACITY_BLOCK
    }
    return sorted(
        each.name for each in marked if each.reserved and each.labels.get(RESERVATION_ID) in ending
    )
