"""Capacity reservations: which ones a class selects, and how many instances each has available.

EC2 is polled once a minute. In between, launches and terminations are counted here, so that
reserved capacity is not used twice and freed capacity is not left idle.

Until the response to a launch arrives it is unknown which of its reservations the instances went
into, so the launch holds capacity for all its instances in each of them; the response then
goes to `ReservationAvailability`. If the response is lost, every claim keeps its hold in each
reservation until the outcome of its launch is known; after a restart such holds are made anew from
the launch records of the claims.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.ec2nodeclass import CapacityReservationSelectorTerm, EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.services import AwsServices, Row, from_tag_list
from wainwright.aws.nodeclass.status import (
    CAPACITY_RESERVATIONS_READY,
    ResolvedPart,
    condition_true,
    reservations_message,
)
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, resolve_ami_family
from wainwright.catalogue.offerings.capacity_reservations import (
    GroupMembers,
    ReservationRequest,
    ReservationStanding,
    SelectedReservation,
    describe_reservation_requests,
    is_platform_compatible,
    standing_by_time,
)
from wainwright.clock import Clock, format_timestamp
from wainwright.errors import AwsError

COUNT_RETENTION: Final = 24 * 3600.0  # seconds


class _ReservationCount(msgspec.Struct):
    total: int
    available_count: int
    requested_at: float
    """When the request was sent that returned `available_count`."""
    changes: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """Launches (-1) and terminations (+1) since, each with its time."""
    exhausted_at: float | None = None
    """When EC2 last returned ReservationCapacityExceeded."""


class ReservationAvailability:
    """The best known number of available instances of each reservation."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, _ReservationCount] = {}
        self.revision = 0
        """Another number after EC2 has returned other counts than were known."""

    def record_counts(self, reservations: Iterable[CloudReservation], requested_at: float) -> None:
        """Records the counts that EC2 returned for a request sent at that time.

        Launches and terminations since the request may or may not be included in the response.
        Launches are subtracted in any case, terminations are not added: a reserved instance too few
        is used a minute later, one too many would be a launch that fails.
        """
        for each in reservations:
            old, known = self._counts.get(each.id), self.available_count(each.id)
            if old is not None and old.requested_at > requested_at:
                continue
            available = each.total if each.available is None else each.available
            count = _ReservationCount(
                total=each.total, available_count=available, requested_at=requested_at
            )
            if old is not None:
                count.changes = [
                    change for change in old.changes if _launch_since(change, requested_at)
                ]
                exhausted_since = (old.exhausted_at or 0) >= requested_at
                count.exhausted_at = old.exhausted_at if exhausted_since else None
            self._counts[each.id] = count
            if old is None or old.total != each.total or self.available_count(each.id) != known:
                self.revision += 1
        self._drop_old_counts()

    def record_launch(self, reservation_id: str) -> None:
        self._change(reservation_id, -1)

    def record_termination(self, reservation_id: str) -> None:
        self._change(reservation_id, +1)

    def mark_exhausted(self, reservation_id: str) -> None:
        """After ReservationCapacityExceeded: nothing is available until the next poll."""
        count = self._counts.setdefault(
            reservation_id,
            _ReservationCount(total=0, available_count=0, requested_at=self._clock.now()),
        )
        count.exhausted_at = self._clock.now()
        count.changes.clear()

    def available_count(self, reservation_id: str) -> int:
        """Available instances; 0 for an unknown reservation."""
        count = self._counts.get(reservation_id)
        if count is None or self._clock.now() - count.requested_at > COUNT_RETENTION:
            return 0
        base = count.available_count if count.exhausted_at is None else 0
        return max(0, min(count.total, base + sum(delta for _, delta in count.changes)))

    def with_current_count(self, reservation: CloudReservation) -> CloudReservation:
        """The reservation with its current count."""
        return msgspec.structs.replace(reservation, available=self.available_count(reservation.id))

    def _change(self, reservation_id: str, delta: int) -> None:
        count = self._counts.get(reservation_id)
        if count is not None:
            count.changes.append((self._clock.now(), delta))

    def _drop_old_counts(self) -> None:
        oldest = self._clock.now() - COUNT_RETENTION
        self._counts = {
            key: count for key, count in self._counts.items() if count.requested_at >= oldest
        }


def _launch_since(change: tuple[float, int], requested_at: float) -> bool:
    moment, delta = change
    return delta < 0 and moment >= requested_at


UNCLEAR_TTL: Final = 120.0
"""Seconds; by then two polls have returned counts that include such a launch."""


class ReservationHold(msgspec.Struct, frozen=True, kw_only=True):
    """Reserved capacity that a launch holds while it is in flight."""

    number: int
    reservations: frozenset[str]
    count: int


class UnclearLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The reservations in which a claim may have got an instance."""

    reservations: frozenset[str]
    until: float


class ReservationHolds:
    def __init__(self, availability: ReservationAvailability, clock: Clock) -> None:
        self._availability = availability
        self._clock = clock
        self._holds: dict[int, ReservationHold] = {}
        self._unclear: dict[str, UnclearLaunch] = {}
        self._number = 0

    def available_count(self, reservation: str) -> int:
        now = self._clock.now()
        self._unclear = {uid: each for uid, each in self._unclear.items() if each.until > now}
        held = sum(each.count for each in self._holds.values() if reservation in each.reservations)
        held += sum(reservation in each.reservations for each in self._unclear.values())
        return max(0, self._availability.available_count(reservation) - held)

    def mark_unclear(self, claims: Iterable[str], reservations: Iterable[str]) -> None:
        """Each of these claims, by uid, may have got an instance in one of the reservations."""
        unclear = UnclearLaunch(
            reservations=frozenset(reservations), until=self._clock.now() + UNCLEAR_TTL
        )
        if unclear.reservations:
            self._unclear.update(dict.fromkeys(claims, unclear))

    def hold_unknown(self, claim: str, reservations: Iterable[str]) -> None:
        """A launch of another process: it may have used one of them, and nobody has counted it."""
        if claim not in self._unclear:
            self.mark_unclear([claim], reservations)

    def resolve_unclear(self, claim: str, reservation: str = "") -> None:
        """The outcome is known: the claim has an instance in that reservation, or in none."""
        if self._unclear.pop(claim, None) is not None and reservation:
            self._availability.record_launch(reservation)

    def hold(self, reservations: Iterable[str], count: int) -> ReservationHold:
        """Holds capacity for `count` instances in each; `release` must follow in any case."""
        self._number += 1
        hold = ReservationHold(
            number=self._number, reservations=frozenset(reservations), count=count
        )
        self._holds[hold.number] = hold
        return hold

    def release(self, hold: ReservationHold, launched: Iterable[str] = ()) -> None:
        """Ends the hold, and records the launched instances, by the reservation of each."""
        del self._holds[hold.number]
        for reservation in launched:
            self._availability.record_launch(reservation)


RESERVATIONS_TTL: Final = 60.0  # seconds
RESERVATION_RESOURCE: Final = ":capacity-reservation/"
RESERVATION_NOT_FOUND: Final = "InvalidCapacityReservationId.NotFound"
INACTIVE: Final = (ReservationStanding.NOT_ACTIVE, ReservationStanding.ENDED)


class CapacityReservationProvider:
    """Describes the selected reservations once a minute, and records their counts."""

    def __init__(
        self,
        account: AwsServices,
        clock: Clock,
        availability: ReservationAvailability,
        *,
        enabled: bool = True,
    ) -> None:
        self._ec2 = account.ec2
        self._groups = account.resource_groups
        self._clock = clock
        self._availability = availability
        self._enabled = enabled
        self._cache: TtlCache[tuple[CloudReservation, ...]] = TtlCache(clock, RESERVATIONS_TTL)

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[tuple[SelectedReservation, ...]]:
        """The condition is always true: a class needs no reservation, with or without the gate."""
        terms = node_class.spec.capacityReservationSelectorTerms or []
        if not self._enabled or not terms:
            return ResolvedPart(
                value=(),
                condition=condition_true(CAPACITY_RESERVATIONS_READY),
                requeue_after=RESERVATIONS_TTL,
            )
        key = msgspec.json.encode(terms, order="deterministic")
        rows = await self._cache.get(key, lambda: self._fetch(terms))
        selected = self._with_standings(rows, resolve_ami_family(node_class.spec))
        condition = condition_true(CAPACITY_RESERVATIONS_READY, reservations_message(selected))
        return ResolvedPart(value=selected, condition=condition, requeue_after=RESERVATIONS_TTL)

    def _with_standings(
        self, rows: Iterable[CloudReservation], family: AmiFamily
    ) -> tuple[SelectedReservation, ...]:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        all_reservations = (
            SelectedReservation(reservation=row, standing=reservation_standing(row, family, now))
            for row in rows
        )
        return tuple(each for each in all_reservations if each.standing not in INACTIVE)

    async def _fetch(
        self, terms: Sequence[CapacityReservationSelectorTerm]
    ) -> tuple[CloudReservation, ...]:
        members = await self._group_members(terms)
        requested_at = self._clock.now()
        by_id: dict[str, CloudReservation] = {}
        for request in describe_reservation_requests(list(terms), members):
            for row in await self._describe(request):
                by_id[row["CapacityReservationId"]] = parse_reservation(row, members)
        reservations = tuple(by_id[key] for key in sorted(by_id))
        self._availability.record_counts(reservations, requested_at)
        return reservations

    async def _group_members(
        self, terms: Iterable[CapacityReservationSelectorTerm]
    ) -> dict[str, frozenset[str]]:
        """The reservations of the groups that terms name, by ARN of the group."""
        groups = sorted({each.reservationGroup for each in terms if each.reservationGroup})
        return {
            group: frozenset(
                arn.rpartition("/")[2]
                for arn in await self._groups.list_resources(group)
                if RESERVATION_RESOURCE in arn
            )
            for group in groups
        }

    async def _describe(self, request: ReservationRequest) -> list[Row]:
        """An unknown id fails the whole call: then the ids are requested in two halves."""
        try:
            return await self._ec2.describe_capacity_reservations(request)
        except AwsError as error:
            if error.code != RESERVATION_NOT_FOUND:
                raise
        ids = request["CapacityReservationIds"]
        if len(ids) == 1:
            return []
        middle = len(ids) // 2
        halves = [
            {**request, "CapacityReservationIds": each} for each in (ids[:middle], ids[middle:])
        ]
        return [row for each in halves for row in await self._describe(each)]


def reservation_standing(
    reservation: CloudReservation, family: AmiFamily, now: datetime
) -> ReservationStanding:
    """Whether instances of the family can be launched into it now."""
    standing = standing_by_time(reservation, now)
    if standing in INACTIVE:
        return standing
    if reservation.tenancy != "default":
        return ReservationStanding.OTHER_TENANCY
    return (
        standing
        if is_platform_compatible(reservation.platform, family)
        else ReservationStanding.OTHER_PLATFORM
    )


def parse_reservation(row: Row, members: GroupMembers | None = None) -> CloudReservation:
    """One row of DescribeCapacityReservations as the catalog's document type."""
    identity = row["CapacityReservationId"]
    groups = [group for group, ids in sorted((members or {}).items()) if identity in ids]
    return CloudReservation(
        id=identity,
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
        groups=groups or None,
    )


def _format_time(moment: Any) -> str | None:
    return None if moment is None else format_timestamp(moment.timestamp())
