"""Capacity reservations as they are asked for: by a caller of the API, or by the Cloud."""

from typing import Any, Final, NamedTuple

from wainwright.api.cloud import Reservation
from wainwright.emulator import ids, tags
from wainwright.emulator.ec2 import launch_errors
from wainwright.emulator.ec2.goods import Goods
from wainwright.emulator.ec2.machines import OPEN, CapacityReservation
from wainwright.emulator.times import seconds
from wainwright.emulator.world import Params, World
from wainwright.errors import AwsError

MOST: Final = 1000
PLATFORMS: Final = (
    "Linux/UNIX",
    "Red Hat Enterprise Linux",
    "SUSE Linux",
    "Ubuntu Pro",
    "Windows",
    *(f"Windows with SQL Server{edition}" for edition in ("", " Enterprise", " Standard", " Web")),
    *(f"Linux with SQL Server {edition}" for edition in ("Standard", "Web", "Enterprise")),
    *(f"RHEL with SQL Server {edition}" for edition in ("Standard", "Enterprise", "Web")),
    "RHEL with HA",
    *(f"RHEL with HA and SQL Server {edition}" for edition in ("Standard", "Enterprise")),
)
CRITERIA: Final = (OPEN, "targeted")
TENANCIES: Final = ("default", "dedicated")


def asked(params: Params, world: World, goods: Goods) -> CapacityReservation:
    """What CreateCapacityReservation is to make."""
    tags.only_for(params, "capacity-reservation")
    kind, zone, now = required(params, "InstanceType"), _zone(params, goods), world.now()
    _check_offered(kind, zone, goods)
    start = seconds(params.get("StartDate") or now, "startDate")
    return CapacityReservation(
        id=ids.new(world, "cr"),
        owner=world.account,
        type=kind,
        zone=zone,
        zone_id=goods.zones[zone],
        total=count(required(params, "InstanceCount")),
        platform=_one_of(required(params, "InstancePlatform"), PLATFORMS, "instancePlatform"),
        tenancy=_one_of(params.get("Tenancy"), TENANCIES, "tenancy"),
        criteria=criteria(params.get("InstanceMatchCriteria")),
        state="scheduled" if start > now else "active",
        created=now,
        start=max(start, now),
        end=end(params, max(start, now)),
        ebs_optimized=bool(params.get("EbsOptimized")),
        tags=tags.from_specifications(params, "capacity-reservation"),
    )


def described(entry: Reservation, world: World, goods: Goods) -> CapacityReservation:
    """What the Cloud has; whatever its state says, it is active only in its time."""
    now = world.now()
    start = now if entry.startTime is None else seconds(entry.startTime, "startTime")
    until = None if entry.endTime is None else seconds(entry.endTime, "endTime")
    free = entry.total if entry.available is None else min(entry.available, entry.total)
    return CapacityReservation(
        id=entry.id,
        owner=entry.ownerID or world.account,
        type=entry.instanceType,
        zone=entry.availabilityZone,
        zone_id=goods.zones[entry.availabilityZone],
        total=entry.total,
        others=entry.total - free,
        platform=entry.platform,
        tenancy=entry.tenancy,
        criteria=entry.instanceMatchCriteria,
        kind=entry.reservationType,
        interruptible=entry.interruptible,
        state=_timely(entry.state, start, until, now),
        created=min(start, now),
        start=start,
        end=until,
        tags=dict(entry.tags or {}),
    )


class Changed(NamedTuple):
    """What ModifyCapacityReservation leaves behind."""

    total: int
    criteria: str
    end: float | None


def changed(params: Params, reservation: CapacityReservation, now: float) -> Changed:
    in_use = reservation.used + reservation.others
    total = count(params.get("InstanceCount", reservation.total))
    if total < in_use:
        raise invalid(total, "instanceCount", f"at least the {in_use} instances that run in it")
    wanted = criteria(params.get("InstanceMatchCriteria", reservation.criteria))
    if wanted != reservation.criteria and in_use:
        raise AwsError(
            "InvalidParameterCombination",
            "The instance eligibility can only be changed while no instances run in the "
            "Capacity Reservation.",
        )
    dated = "EndDate" in params or "EndDateType" in params
    return Changed(total, wanted, end(params, now) if dated else reservation.end)


def _timely(state: str, start: float, until: float | None, now: float) -> str:
    if state != "active":
        return state
    if until is not None and until <= now:
        return "expired"
    return "scheduled" if start > now else "active"


def required(params: Params, name: str) -> Any:
    value = params.get(name)
    if value is None or value == "":
        raise AwsError("MissingParameter", f"The request must contain the parameter {name}")
    return value


def count(value: int) -> int:
    if not 1 <= value <= MOST:
        raise invalid(value, "instanceCount", f"a number from 1 to {MOST}")
    return int(value)


def criteria(value: Any) -> str:
    return _one_of(value, CRITERIA, "instanceMatchCriteria")


def end(params: Params, after: float) -> float | None:
    """When it is to expire; None: when it is cancelled."""
    date = params.get("EndDate")
    limited = params.get("EndDateType", "unlimited" if date is None else "limited") == "limited"
    if limited != (date is not None):
        raise AwsError(
            "InvalidParameterCombination",
            "EndDate must be given if, and only if, EndDateType is limited.",
        )
    if date is None:
        return None
    moment = seconds(date, "endDate")
    if moment <= after:
        raise invalid(date, "endDate", "a time in the future")
    return moment


def invalid(value: Any, name: str, expected: str) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"Value ({value}) for parameter {name} is invalid. Expecting {expected}.",
    )


def _one_of(value: Any, known: tuple[str, ...], name: str) -> str:
    """The first where nothing is said."""
    if value is None:
        return known[0]
    if value not in known:
        raise invalid(value, name, f"one of {', '.join(known)}")
    return str(value)


def _zone(params: Params, goods: Goods) -> str:
    identity = params.get("AvailabilityZoneId")
    zone = params.get("AvailabilityZone") or goods.zone_names.get(identity or "")
    if zone is None and identity is None:
        raise AwsError(
            "MissingParameter", "The request must contain the parameter AvailabilityZone"
        )
    if zone not in goods.zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{zone or identity}]")
    return str(zone)


def _check_offered(instance_type: str, zone: str, goods: Goods) -> None:
    if instance_type not in goods.machines:
        raise launch_errors.no_such_type(instance_type)
    offered = goods.offered[instance_type]
    if zone not in offered:
        raise launch_errors.unsupported(instance_type, zone, offered)
