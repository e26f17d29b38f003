"""Reservations of a class: the capacity reservations that its terms select, asked of EC2."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from wainwright.api.cloud import Reservation
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.selectors import ReservationTerm
from wainwright.aws.ec2 import Ec2
from wainwright.aws.nodeclass.conditions import CAPACITY_RESERVATIONS, Part, good, timestamp
from wainwright.aws.nodeclass.resolved import listed
from wainwright.aws.remember import Remembered
from wainwright.aws.reservations import Availability
from wainwright.aws.wire import Row, from_pairs
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.nodeclass import ami_family
from wainwright.catalogue.reservation_filters import Request, requests
from wainwright.catalogue.reservations import Selected, Standing, serves, timing
from wainwright.clock import Clock
from wainwright.errors import AwsError

KEPT: Final = 60.0  # seconds
UNKNOWN_ID: Final = "InvalidCapacityReservationId.NotFound"
GONE: Final = (Standing.NOT_ACTIVE, Standing.ENDED)


class Reservations:
    """Asks EC2 once a minute for the same terms, and tells `availability` what is free."""

    def __init__(
        self, ec2: Ec2, clock: Clock, availability: Availability, *, enabled: bool = True
    ) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._availability = availability
        self._enabled = enabled
        self._known: Remembered[tuple[Reservation, ...]] = Remembered(clock, KEPT)

    async def find(self, node_class: EC2NodeClass) -> Part[tuple[Selected, ...]]:
        """Ready with or without the gate, and also where nothing is selected: none is needed."""
        terms = node_class.spec.capacityReservationSelectorTerms or []
        if not self._enabled or not terms:
            return Part(value=(), finding=good(CAPACITY_RESERVATIONS), again=KEPT)
        key = msgspec.json.encode(terms, order="deterministic")
        rows = await self._known.get(key, lambda: self._ask(terms))
        selected = self._standing(rows, ami_family(node_class.spec))
        finding = good(CAPACITY_RESERVATIONS, listed(selected))
        return Part(value=selected, finding=finding, again=KEPT)

    def _standing(self, rows: Iterable[Reservation], family: AmiFamily) -> tuple[Selected, ...]:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        every = (Selected(reservation=row, standing=standing(row, family, now)) for row in rows)
        return tuple(each for each in every if each.standing not in GONE)

    async def _ask(self, terms: Sequence[ReservationTerm]) -> tuple[Reservation, ...]:
        asked = self._clock.now()
        found: dict[str, Reservation] = {}
        for request in requests(list(terms)):
            for row in await self._describe(request):
                found[row["CapacityReservationId"]] = reservation(row)
        rows = tuple(found[key] for key in sorted(found))
        self._availability.learn(rows, asked)
        return rows

    async def _describe(self, request: Request) -> list[Row]:
        """An id that EC2 does not know must not hide the others: then each is asked for alone."""
        try:
            return await self._ec2.describe_capacity_reservations(request)
        except AwsError as error:
            if error.code != UNKNOWN_ID:
                raise
        ids = request["CapacityReservationIds"]
        if len(ids) == 1:
            return []
        alone = [{**request, "CapacityReservationIds": [each]} for each in ids]
        return [row for each in alone for row in await self._describe(each)]


def standing(reservation: Reservation, family: AmiFamily, now: datetime) -> Standing:
    """Whether instances of the family can be launched into it now."""
    timed = timing(reservation, now)
    if timed in GONE:
        return timed
    if reservation.tenancy != "default":
        return Standing.OTHER_TENANCY
    return timed if serves(reservation.platform, family) else Standing.OTHER_PLATFORM


def reservation(row: Row) -> Reservation:
    """One row of DescribeCapacityReservations as the catalogue wants it."""
    return Reservation(
        id=row["CapacityReservationId"],
        instanceType=row["InstanceType"],
        availabilityZone=row["AvailabilityZone"],
        total=row.get("TotalInstanceCount", 0),
        available=row.get("AvailableInstanceCount", 0),
        instanceMatchCriteria=row.get("InstanceMatchCriteria", "targeted"),
        ownerID=row.get("OwnerId"),
        tags=from_pairs(row.get("Tags")) or None,
        state=row.get("State", "active"),
        reservationType=row.get("ReservationType") or "default",
        startTime=_time(row.get("StartDate")),
        endTime=_time(row.get("EndDate")),
        platform=row.get("InstancePlatform", "Linux/UNIX"),
        tenancy=row.get("Tenancy", "default"),
        interruptible=bool(row.get("Interruptible")),
    )


def _time(moment: Any) -> str | None:
    return None if moment is None else timestamp(moment.timestamp())
