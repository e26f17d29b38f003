"""Capacity reservations: created, described, modified, cancelled; instances moved into them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.field_error import did_you_mean
from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import (
    CAPACITY_RESERVATION,
    find_by_ids,
    get_by_id,
    iso_timestamp,
    to_datetime,
    to_epoch_seconds,
)
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters, paginate
from wainwright.emulator.ec2 import tags
from wainwright.emulator.ec2.capacity_market import CapacityMarket
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    HELD_STATES,
    CapacityRequest,
    CapacityReservation,
    ReservationLifecycle,
    ReservationsState,
    check_capacity_request,
    parse_reservation_specification,
    reservation_capacity_exceeded,
)
from wainwright.emulator.ec2.instance import launch_errors
from wainwright.emulator.ec2.instance.instances import Instances
from wainwright.emulator.ec2.instance.lifecycle import (
    CAPACITY_BLOCK,
    NONE,
    ON_DEMAND,
    OPEN,
    RESERVATIONS_ONLY,
    RUNNING,
    Instance,
)
from wainwright.emulator.ec2.region_offerings import RegionOfferings
from wainwright.errors import AwsError, InvalidInputError

RESERVATION_FILTERS: Final[FilterFields[CapacityReservation]] = {
    "availability-zone": lambda each: (each.zone,),
    "availability-zone-id": lambda each: (each.zone_id,),
    "end-date": lambda each: () if each.end is None else (iso_timestamp(each.end),),
    "end-date-type": lambda each: (_end_date_type(each),),
    "instance-match-criteria": lambda each: (each.criteria,),
    "instance-platform": lambda each: (each.platform,),
    "instance-type": lambda each: (each.type,),
    "owner-id": lambda each: (each.owner,),
    "start-date": lambda each: (iso_timestamp(each.start),),
    "state": lambda each: (each.state,),
    "tenancy": lambda each: (each.tenancy,),
}


def reservation_view(reservation: CapacityReservation, region: str) -> Response:
    view: Response = {
        "CapacityReservationId": reservation.id,
        "CapacityReservationArn": CAPACITY_RESERVATION.arn(
            region, reservation.owner, reservation.id
        ),
        "OwnerId": reservation.owner,
        "InstanceType": reservation.type,
        "InstancePlatform": reservation.platform,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": reservation.zone_id,
        "Tenancy": reservation.tenancy,
        "TotalInstanceCount": reservation.total,
        "AvailableInstanceCount": reservation.free if reservation.active else 0,
        "EbsOptimized": reservation.ebs_optimized,
        "EphemeralStorage": False,
        "State": reservation.state,
        "CreateDate": to_datetime(int(reservation.created)),
        "StartDate": to_datetime(int(reservation.start)),
        "EndDateType": _end_date_type(reservation),
        "InstanceMatchCriteria": reservation.criteria,
        "ReservationType": reservation.kind,
        "Interruptible": reservation.interruptible,
        "Tags": tags.to_tag_list(reservation.tags),
    }
    if reservation.end is not None:
        view["EndDate"] = to_datetime(int(reservation.end))
    return view


def _end_date_type(reservation: CapacityReservation) -> str:
    return "unlimited" if reservation.end is None else "limited"


MAX_INSTANCE_COUNT: Final = 1000
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
MATCH_CRITERIA: Final = (OPEN, "targeted")
TENANCIES: Final = ("default", "dedicated")


def parse_create_request(
    params: Params, context: AccountContext, region_offerings: RegionOfferings
) -> CapacityReservation:
    """The reservation that CreateCapacityReservation requests."""
    tags.check_taggable_types(params, "capacity-reservation")
    instance_type, zone, now = (
        require_param(params, "InstanceType"),
        _parse_zone(params, region_offerings),
        context.now(),
    )
    _check_offered(instance_type, zone, region_offerings)
    start = to_epoch_seconds(params.get("StartDate") or now, "startDate")
    return CapacityReservation(
        id=api_conventions.new_resource_id(context, "cr"),
        owner=context.account,
        type=instance_type,
        zone=zone,
        zone_id=region_offerings.zones[zone],
        total=parse_instance_count(require_param(params, "InstanceCount")),
        platform=_one_of(require_param(params, "InstancePlatform"), PLATFORMS, "instancePlatform"),
        tenancy=_one_of(params.get("Tenancy"), TENANCIES, "tenancy"),
        criteria=parse_match_criteria(params.get("InstanceMatchCriteria")),
        state="scheduled" if start > now else "active",
        created=now,
        start=max(start, now),
        end=parse_end_date(params, max(start, now)),
        ebs_optimized=bool(params.get("EbsOptimized")),
        tags=tags.parse_tag_specifications(params, "capacity-reservation"),
    )


def reservation_from_cloud(
    entry: CloudReservation, context: AccountContext, region_offerings: RegionOfferings
) -> CapacityReservation:
    """A reservation of the Cloud; whatever its state says, it is active only in its time window."""
    now = context.now()
    start = now if entry.startTime is None else to_epoch_seconds(entry.startTime, "startTime")
    end = None if entry.endTime is None else to_epoch_seconds(entry.endTime, "endTime")
    available = entry.total if entry.available is None else min(entry.available, entry.total)
    return CapacityReservation(
        id=entry.id,
        owner=entry.ownerID or context.account,
        type=entry.instanceType,
        zone=entry.availabilityZone,
        zone_id=region_offerings.zones[entry.availabilityZone],
        total=entry.total,
        used_by_others=entry.total - available,
        platform=entry.platform,
        tenancy=entry.tenancy,
        criteria=entry.instanceMatchCriteria,
        kind=entry.reservationType,
        interruptible=entry.interruptible,
        state=_state_at(entry.state, start, end, now),
        created=min(start, now),
        start=start,
        end=end,
        tags=dict(entry.tags or {}),
    )


class ModifiedReservation(NamedTuple):
    """The values after ModifyCapacityReservation."""

    total: int
    criteria: str
    end: float | None


def parse_modify_request(
    params: Params, reservation: CapacityReservation, now: float
) -> ModifiedReservation:
    in_use = reservation.used + reservation.used_by_others
    total = parse_instance_count(params.get("InstanceCount", reservation.total))
    if total < in_use:
        raise invalid_reservation_parameter(
            total, "instanceCount", f"at least the {in_use} instances that run in it"
        )
    criteria = parse_match_criteria(params.get("InstanceMatchCriteria", reservation.criteria))
    if criteria != reservation.criteria and in_use:
        raise AwsError(
            "InvalidParameterCombination",
            "The instance eligibility can only be changed while no instances run in the "
            "Capacity Reservation.",
        )
    changes_end = "EndDate" in params or "EndDateType" in params
    return ModifiedReservation(
        total, criteria, parse_end_date(params, now) if changes_end else reservation.end
    )


def _state_at(state: str, start: float, end: float | None, now: float) -> str:
    if state != "active":
        return state
    if end is not None and end <= now:
        return "expired"
    return "scheduled" if start > now else "active"


def require_param(params: Params, name: str) -> Any:
    value = params.get(name)
    if value is None or value == "":
        raise AwsError("MissingParameter", f"The request must contain the parameter {name}")
    return value


def parse_instance_count(value: int) -> int:
    if not 1 <= value <= MAX_INSTANCE_COUNT:
        raise invalid_reservation_parameter(
            value, "instanceCount", f"a number from 1 to {MAX_INSTANCE_COUNT}"
        )
    return int(value)


def parse_match_criteria(value: Any) -> str:
    return _one_of(value, MATCH_CRITERIA, "instanceMatchCriteria")


def parse_end_date(params: Params, after: float) -> float | None:
    """When it expires; None: not before it is cancelled."""
    end_date = params.get("EndDate")
    limited = params.get("EndDateType", "unlimited" if end_date is None else "limited") == "limited"
    if limited != (end_date is not None):
        raise AwsError(
            "InvalidParameterCombination",
            "EndDate must be given if, and only if, EndDateType is limited.",
        )
    if end_date is None:
        return None
    end = to_epoch_seconds(end_date, "endDate")
    if end <= after:
        raise invalid_reservation_parameter(end_date, "endDate", "a time in the future")
    return end


def invalid_reservation_parameter(value: Any, name: str, expected: str) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"Value ({value}) for parameter {name} is invalid. Expecting {expected}.",
    )


def _one_of(value: Any, known: tuple[str, ...], name: str) -> str:
    """The value, checked; the first of `known` by default."""
    if value is None:
        return known[0]
    if value not in known:
        raise invalid_reservation_parameter(value, name, f"one of {', '.join(known)}")
    return str(value)


def _parse_zone(params: Params, region_offerings: RegionOfferings) -> str:
    identity = params.get("AvailabilityZoneId")
    zone = params.get("AvailabilityZone") or region_offerings.zone_names.get(identity or "")
    if zone is None and identity is None:
        raise AwsError(
            "MissingParameter", "The request must contain the parameter AvailabilityZone"
        )
    if zone not in region_offerings.zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{zone or identity}]")
    return str(zone)


def _check_offered(instance_type: str, zone: str, region_offerings: RegionOfferings) -> None:
    if instance_type not in region_offerings.instance_types:
        raise launch_errors.invalid_instance_type(instance_type)
    offered = region_offerings.zones_by_type[instance_type]
    if zone not in offered:
        raise launch_errors.unsupported_zone(instance_type, zone, offered)


MAX_RESULTS: Final = 1000


class CapacityReservations:
    """Every reservation visible to the account: its own and those shared with it."""

    name = "ec2"

    def __init__(
        self,
        context: AccountContext,
        region_offerings: RegionOfferings,
        capacity_market: CapacityMarket,
        instances: Instances,
    ) -> None:
        self._context = context
        self._region_offerings = region_offerings
        self._instances = instances
        self.lifecycle = ReservationLifecycle(context, capacity_market, instances)
        self.capacity_source = self.lifecycle.capacity_source
        self.state = ReservationsState()

    @property
    def state(self) -> ReservationsState:
        return self.lifecycle.state

    @state.setter
    def state(self, state: ReservationsState) -> None:
        self.lifecycle.state = state
        self._tokens = api_conventions.ClientTokens(self._context, state.tokens)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateCapacityReservation": self.create,
            "DescribeCapacityReservations": self.describe,
            "ModifyCapacityReservation": self.modify,
            "CancelCapacityReservation": self.cancel,
            "ModifyInstanceCapacityReservationAttributes": self.attach,
        }

    def check_zones(self, entries: Iterable[CloudReservation]) -> None:
        """InvalidInputError where an entry is in a zone that the region does not have."""
        for entry in entries:
            if entry.availabilityZone not in self._region_offerings.zones:
                zones = [*self._region_offerings.zones]
                raise InvalidInputError(
                    f"capacityReservations: {entry.id} is in {entry.availabilityZone}, which "
                    f"{self._region_offerings.region} does not have",
                    did_you_mean(entry.availabilityZone, zones) or f"one of {', '.join(zones)}",
                )

    def seed(self, entries: Iterable[CloudReservation]) -> None:
        """Adds or changes reservations from the Cloud, at the start or while the emulator runs.

        Those in zones that the Cloud leaves out are skipped.
        """
        for entry in entries:
            if entry.availabilityZone not in self._region_offerings.zones:
                continue
            described = reservation_from_cloud(entry, self._context, self._region_offerings)
            existing = self.state.reservations.get(entry.id)
            if existing is None:
                self.lifecycle.add(described)
            else:
                self.lifecycle.replace(existing, described)

    def create(self, params: Params) -> Response:
        api_conventions.check_client_token(params)
        reservation_id = self._tokens.run_once(params, lambda: self._create(params))
        return {"CapacityReservation": self._view(self._get(reservation_id))}

    def describe(self, params: Params) -> Response:
        reservation_ids = params.get("CapacityReservationIds")
        if reservation_ids and params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter CapacityReservationIds cannot be used with the parameter MaxResults",
            )
        rows = find_by_ids(self.state.reservations, reservation_ids, CAPACITY_RESERVATION)
        matching = apply_filters(
            rows, params.get("Filters"), RESERVATION_FILTERS, lambda each: each.tags
        )
        rows, token = paginate(matching, params, maximum=MAX_RESULTS, minimum=1)
        return {"CapacityReservations": [self._view(each) for each in rows], **token}

    def modify(self, params: Params) -> Response:
        reservation = self._require_modifiable(params)
        changed = parse_modify_request(params, reservation, self._context.now())
        self.lifecycle.resize(reservation, changed.total)
        reservation.criteria = changed.criteria
        if reservation.end != changed.end:
            reservation.end = changed.end
            self.lifecycle.schedule(reservation)
        self.lifecycle.adopt_running_instances(reservation)
        self.lifecycle.notify(reservation)
        return {"Return": True}

    def cancel(self, params: Params) -> Response:
        self.lifecycle.end(self._require_modifiable(params), "cancelled")
        return {"Return": True}

    def attach(self, params: Params) -> Response:
        """EC2 requires a stopped instance; stopping is not emulated, so here it may be running."""
        specification = parse_reservation_specification(
            params.get("CapacityReservationSpecification")
        )
        instance = self._instances.get_by_ids([require_param(params, "InstanceId")])[0]
        if instance.state != RUNNING or instance.lifecycle != ON_DEMAND:
            raise AwsError(
                "IncorrectInstanceState",
                f"The instance '{instance.id}' is not a running On-Demand Instance.",
            )
        previous = instance.preference, instance.target
        instance.preference, instance.target = specification
        try:
            self._move_instance(instance)
        except AwsError:
            instance.preference, instance.target = previous
            raise
        self._instances.invalidate_listing()
        return {"Return": True}

    def _move_instance(self, instance: Instance) -> None:
        """Moves the instance to the capacity that it now requests; raises where there is none."""
        request = self.lifecycle.capacity_request(instance)
        check_capacity_request(request)
        current = self.state.reservations.get(instance.reservation or "")
        if current is not None and _may_stay(current, request):
            return
        target = self._select_reservation(request)
        if target is not None:
            self.capacity_source.move_into(instance, target)
        elif current is not None:
            self.capacity_source.move_out(instance)

    def _select_reservation(self, request: CapacityRequest) -> CapacityReservation | None:
        """The reservation to move to; None: capacity outside reservations."""
        if request.target is not None:
            return self.capacity_source.find_capacity(request)
        if request.preference == NONE:
            return None
        reservation = self.capacity_source.find_open(request)
        if reservation is None and request.preference == RESERVATIONS_ONLY:
            raise reservation_capacity_exceeded()
        return reservation

    def _create(self, params: Params) -> str:
        reservation = parse_create_request(params, self._context, self._region_offerings)
        self.lifecycle.hold_capacity(reservation, reservation.total)
        self.lifecycle.add(reservation)
        return reservation.id

    def _require_modifiable(self, params: Params) -> CapacityReservation:
        reservation = self._get(params.get("CapacityReservationId"))
        if reservation.owner != self._context.account:
            raise AwsError(
                "UnauthorizedOperation",
                f"Capacity Reservation '{reservation.id}' belongs to another account.",
                403,
            )
        if reservation.kind == CAPACITY_BLOCK:
            raise AwsError(
                "UnsupportedOperation", "A Capacity Block cannot be changed or cancelled."
            )
        if reservation.state not in HELD_STATES:
            raise AwsError(
                "InvalidCapacityReservationState",
                f"Capacity Reservation '{reservation.id}' is {reservation.state}.",
            )
        return reservation

    def _get(self, identity: str | None) -> CapacityReservation:
        return get_by_id(self.state.reservations, identity, CAPACITY_RESERVATION)

    def _view(self, reservation: CapacityReservation) -> Response:
        return reservation_view(reservation, self._context.region)


def _may_stay(current: CapacityReservation, request: CapacityRequest) -> bool:
    """Whether the instance may stay in its reservation."""
    if request.target is not None:
        return current.id == request.target
    return request.preference != NONE and current.criteria == OPEN
