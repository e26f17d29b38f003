"""Capacity reservations: which ones a class selects, and how many instances each has available.

EC2 is asked once a minute. In between, what was launched and terminated is counted here, so that a
reservation is not used twice and freed capacity is not left idle.

Between a request and its answer nobody knows which of its reservations the instances went into, so
that each is held for all of them; `ReservationAvailability` is told once it is known. Where the
answer got lost, every claim keeps its hold on each of them until it is clear what became of it.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.ec2nodeclass import CapacityReservationSelectorTerm, EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.seam import Row, from_tag_list
from wainwright.aws.api.services import Ec2
from wainwright.aws.nodeclass.status import (
    CAPACITY_RESERVATIONS_READY,
    ResolvedPart,
    condition_true,
    format_timestamp,
    reservations_message,
)
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, resolve_ami_family
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationRequest,
    ReservationStanding,
    SelectedReservation,
    describe_reservation_requests,
    is_platform_compatible,
    standing_by_time,
)
from wainwright.clock import Clock
from wainwright.errors import AwsError

COUNT_RETENTION: Final = 24 * 3600.0  # seconds


class _ReservationCount(msgspec.Struct):
    total: int
    free: int
    asked: float
    """When the question was asked that `free` answers."""
    changes: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """What was launched (-1) and terminated (+1) since, and when."""
    exhausted: float | None = None
    """When EC2 last said that none is left."""


class ReservationAvailability:
    """How many instances each reservation has free, as far as anybody here can know."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, _ReservationCount] = {}

    def record_counts(self, found: Iterable[CloudReservation], asked: float) -> None:
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
            count = _ReservationCount(total=each.total, free=free, asked=asked)
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
        known = self._counts.setdefault(
            identity, _ReservationCount(total=0, free=0, asked=self._clock.now())
        )
        known.exhausted = self._clock.now()
        known.changes.clear()

    def free(self, identity: str) -> int:
        """None is free of what nobody knows."""
        known = self._counts.get(identity)
        if known is None or self._clock.now() - known.asked > COUNT_RETENTION:
            return 0
        base = known.free if known.exhausted is None else 0
        return max(0, min(known.total, base + sum(delta for _, delta in known.changes)))

    def current(self, reservation: CloudReservation) -> CloudReservation:
        """The reservation with the count of this moment."""
        return msgspec.structs.replace(reservation, available=self.free(reservation.id))

    def _change(self, identity: str, delta: int) -> None:
        known = self._counts.get(identity)
        if known is not None:
            known.changes.append((self._clock.now(), delta))

    def _tidy(self) -> None:
        oldest = self._clock.now() - COUNT_RETENTION
        for identity in [key for key, count in self._counts.items() if count.asked < oldest]:
            del self._counts[identity]


def _launch_since(change: tuple[float, int], asked: float) -> bool:
    moment, delta = change
    return delta < 0 and moment >= asked


UNCLEAR_TTL: Final = 120.0
"""Seconds; by then EC2 has been asked twice what is free."""


class ReservationHold(msgspec.Struct, frozen=True, kw_only=True):
    """Places that a launch holds while it is under way."""

    number: int
    reservations: frozenset[str]
    count: int


class UnclearLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that may have got an instance."""

    reservations: frozenset[str]
    until: float


class ReservationHolds:
    def __init__(self, availability: ReservationAvailability, clock: Clock) -> None:
        self._availability = availability
        self._clock = clock
        self._held: dict[int, ReservationHold] = {}
        self._unclear: dict[str, UnclearLaunch] = {}
        self._number = 0

    def free(self, reservation: str) -> int:
        now = self._clock.now()
        self._unclear = {uid: each for uid, each in self._unclear.items() if each.until > now}
        held = sum(each.count for each in self._held.values() if reservation in each.reservations)
        held += sum(reservation in each.reservations for each in self._unclear.values())
        return max(0, self._availability.free(reservation) - held)

    def mark_unclear(self, claims: Iterable[str], reservations: Iterable[str]) -> None:
        """Nobody knows whether these claims, by uid, have got a place in one of them."""
        mark_unclear = UnclearLaunch(
            reservations=frozenset(reservations), until=self._clock.now() + UNCLEAR_TTL
        )
        if mark_unclear.reservations:
            self._unclear.update(dict.fromkeys(claims, mark_unclear))

    def clear(self, claim: str, reservation: str = "") -> None:
        """It is known after all: the claim has a place in that one, or nowhere."""
        if self._unclear.pop(claim, None) is not None and reservation:
            self._availability.launched(reservation)

    def hold(self, reservations: Iterable[str], count: int) -> ReservationHold:
        """`release` must follow, whatever happens."""
        self._number += 1
        held = ReservationHold(
            number=self._number, reservations=frozenset(reservations), count=count
        )
        self._held[held.number] = held
        return held

    def release(self, held: ReservationHold, launched: Iterable[str] = ()) -> None:
        """Lets go, and counts the instances that were launched, by the reservation of each."""
        del self._held[held.number]
        for reservation in launched:
            self._availability.launched(reservation)


RESERVATIONS_TTL: Final = 60.0  # seconds
RESERVATION_NOT_FOUND: Final = "InvalidCapacityReservationId.NotFound"
INACTIVE: Final = (ReservationStanding.NOT_ACTIVE, ReservationStanding.ENDED)


class CapacityReservationProvider:
    """Asks EC2 once a minute for the same terms, and tells `availability` what is free."""

    def __init__(
        self, ec2: Ec2, clock: Clock, availability: ReservationAvailability, *, enabled: bool = True
    ) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._availability = availability
        self._enabled = enabled
        self._known: TtlCache[tuple[CloudReservation, ...]] = TtlCache(clock, RESERVATIONS_TTL)

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[tuple[SelectedReservation, ...]]:
        """Ready with or without the gate, and also where nothing is selected: none is needed."""
        terms = node_class.spec.capacityReservationSelectorTerms or []
        if not self._enabled or not terms:
            return ResolvedPart(
                value=(),
                finding=condition_true(CAPACITY_RESERVATIONS_READY),
                requeue_after=RESERVATIONS_TTL,
            )
        key = msgspec.json.encode(terms, order="deterministic")
        rows = await self._known.get(key, lambda: self._ask(terms))
        selected = self._standing(rows, resolve_ami_family(node_class.spec))
        finding = condition_true(CAPACITY_RESERVATIONS_READY, reservations_message(selected))
        return ResolvedPart(value=selected, finding=finding, requeue_after=RESERVATIONS_TTL)

    def _standing(
        self, rows: Iterable[CloudReservation], family: AmiFamily
    ) -> tuple[SelectedReservation, ...]:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        every = (
            SelectedReservation(reservation=row, standing=reservation_standing(row, family, now))
            for row in rows
        )
        return tuple(each for each in every if each.standing not in INACTIVE)

    async def _ask(
        self, terms: Sequence[CapacityReservationSelectorTerm]
    ) -> tuple[CloudReservation, ...]:
        asked = self._clock.now()
        found: dict[str, CloudReservation] = {}
        for request in describe_reservation_requests(list(terms)):
            for row in await self._describe(request):
                found[row["CapacityReservationId"]] = parse_reservation(row)
        rows = tuple(found[key] for key in sorted(found))
        self._availability.record_counts(rows, asked)
        return rows

    async def _describe(self, request: ReservationRequest) -> list[Row]:
        """An id that EC2 does not know must not hide the others: then each is asked for alone."""
        try:
            return await self._ec2.describe_capacity_reservations(request)
        except AwsError as error:
            if error.code != RESERVATION_NOT_FOUND:
                raise
        ids = request["CapacityReservationIds"]
        if len(ids) == 1:
            return []
        alone = [{**request, "CapacityReservationIds": [each]} for each in ids]
        return [row for each in alone for row in await self._describe(each)]


def reservation_standing(
    reservation: CloudReservation, family: AmiFamily, now: datetime
) -> ReservationStanding:
    """Whether instances of the family can be launched into it now."""
    timed = standing_by_time(reservation, now)
    if timed in INACTIVE:
        return timed
    if reservation.tenancy != "default":
        return ReservationStanding.OTHER_TENANCY
    return (
        timed
        if is_platform_compatible(reservation.platform, family)
        else ReservationStanding.OTHER_PLATFORM
    )


def parse_reservation(row: Row) -> CloudReservation:
    """One row of DescribeCapacityReservations as the catalogue wants it."""
    return CloudReservation(
        id=row["CapacityReservationId"],
        instanceType=row["InstanceType"],
        availabilityZone=row["AvailabilityZone"],
        total=row.get("TotalInstanceCount", 0),
        available=row.get("AvailableInstanceCount", 0),
        instanceMatchCriteria=row.get("InstanceMatchCriteria", "targeted"),
        ownerID=row.get("OwnerId"),
        tags=from_tag_list(row.get("Tags")) or None,
        state=row.get("State", "active"),
        reservationType=row.get("ReservationType") or "default",
        startTime=_format_time(row.get("StartDate")),
        endTime=_format_time(row.get("EndDate")),
        platform=row.get("InstancePlatform", "Linux/UNIX"),
        tenancy=row.get("Tenancy", "default"),
        interruptible=bool(row.get("Interruptible")),
    )


def _format_time(moment: Any) -> str | None:
    return None if moment is None else format_timestamp(moment.timestamp())
