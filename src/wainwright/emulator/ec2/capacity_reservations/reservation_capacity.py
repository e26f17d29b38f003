"""The capacity of instances, from the capacity market or from a reservation, and the lifecycle of
capacity reservations: the instances in them, when they begin and end, and what happens then.

Reserved capacity is held: the market does not have it, and instances in a reservation take none
from the market. When a reservation ends, its unused capacity goes back to the market, and its
instances continue as if they had been launched from there; those of a capacity block or of
interruptible capacity are terminated with it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.emulator.api_conventions import CAPACITY_RESERVATION, IdempotentResponse
from wainwright.emulator.context import AccountContext
from wainwright.emulator.ec2.capacity_market import CapacityMarket
from wainwright.emulator.ec2.instance.instances import Instances
from wainwright.emulator.ec2.instance.launch_errors import insufficient_capacity
from wainwright.emulator.ec2.instance.lifecycle import (
    ALIVE_STATES,
    CAPACITY_BLOCK,
    INTERRUPTIBLE,
    NONE,
    ON_DEMAND,
    OPEN,
    RESERVATIONS_ONLY,
    SPOT,
    Instance,
)
from wainwright.errors import AwsError


class CapacityReservation(msgspec.Struct, kw_only=True):
    id: str
    owner: str
    type: str
    zone: str
    zone_id: str
    total: int
    used: int = 0
    """By instances of this account."""
    used_by_others: int = msgspec.field(default=0, name="others")
    """By instances of other accounts, where it is shared."""
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    criteria: str = OPEN
    kind: str = "default"
    """default or capacity-block."""
    interruptible: bool = False
    state: str = "active"
    created: float
    start: float
    end: float | None = None
    ebs_optimized: bool = False
    tags: dict[str, str] = {}

    @property
    def free(self) -> int:
        return max(self.total - self.used - self.used_by_others, 0)

    @property
    def active(self) -> bool:
        return self.state == "active"

    @property
    def lifecycle(self) -> str:
        """The lifecycle of instances that run in it."""
        if self.kind == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return INTERRUPTIBLE if self.interruptible else ON_DEMAND


BLOCK_RECLAIM_SECONDS: Final = 30 * 60.0  # before its end; then EC2 terminates the instances
RESERVED_CAPACITY_TYPE: Final = "reserved"


class CapacityRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity that an instance needs."""

    type: str
    zone: str
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    lifecycle: str = ON_DEMAND
    preference: str = OPEN
    target: str | None = None

    @property
    def capacity_type(self) -> str:
        """The capacity type in the market, where the instance is in no reservation."""
        return SPOT if self.lifecycle == SPOT else ON_DEMAND


class CapacitySource:
    """Finds, takes and releases capacity of instances."""

    def __init__(self, context: AccountContext, capacity_market: CapacityMarket) -> None:
        self._context = context
        self._capacity_market = capacity_market
        self.reservations = {}

    @property
    def reservations(self) -> Mapping[str, CapacityReservation]:
        return self._reservations

    @reservations.setter
    def reservations(self, reservations: Mapping[str, CapacityReservation]) -> None:
        self._reservations = reservations
        self._by_type_and_zone: dict[tuple[str, str], list[CapacityReservation]] = {}
        for each in reservations.values():
            self.add(each)

    def add(self, reservation: CapacityReservation) -> None:
        """Indexes the reservation by type and zone, so that launches look at matching ones only."""
        self._by_type_and_zone.setdefault((reservation.type, reservation.zone), []).append(
            reservation
        )

    def find_capacity(self, request: CapacityRequest) -> CapacityReservation | None:
        """The reservation that the instance would run in; None: capacity of the market.

        Raises the error of EC2 where it could not be launched.
        """
        check_capacity_request(request)
        if request.target is not None:
            return self._find_targeted(request, request.target)
        if request.lifecycle == ON_DEMAND and request.preference != NONE:
            reservation = self.find_open(request)
            if reservation is not None:
                return reservation
            if request.preference == RESERVATIONS_ONLY:
                raise reservation_capacity_exceeded()
        if self._capacity_market.free(request.type, request.zone, request.capacity_type) == 0:
            raise insufficient_capacity(request.type, request.zone, request.capacity_type)
        return None

    def find_open(self, request: CapacityRequest) -> CapacityReservation | None:
        """The oldest open reservation with free capacity that matches the request."""
        for each in self._by_type_and_zone.get((request.type, request.zone), ()):
            if each.criteria == OPEN and each.free and self.accepts(each, request):
                return each
        return None

    def has_open_capacity(self, instance_type: str, zone: str) -> bool:
        """A cheap test that saves building a request: whether open reservations have capacity."""
        reservations = self._by_type_and_zone.get((instance_type, zone), ())
        return any(each.criteria == OPEN and each.active and each.free for each in reservations)

    def open_capacity(self, request: CapacityRequest) -> int:
        """How many such instances fit into open reservations."""
        reservations = self._by_type_and_zone.get((request.type, request.zone), ())
        return sum(
            each.free
            for each in reservations
            if each.criteria == OPEN and self.accepts(each, request)
        )

    def accepts(self, reservation: CapacityReservation, request: CapacityRequest) -> bool:
        """Whether the instance may run in it, apart from free capacity."""
        return (
            reservation.active
            and reservation.type == request.type
            and reservation.zone == request.zone
            and reservation.tenancy == request.tenancy
            and reservation.lifecycle == request.lifecycle
            and _platform_matches(reservation, request)
            and not self._is_ending(reservation)
            and self._capacity_market.free(request.type, request.zone, RESERVED_CAPACITY_TYPE) != 0
        )

    def take(self, request: CapacityRequest, reservation: CapacityReservation | None) -> None:
        if reservation is not None:
            reservation.used += 1
        else:
            self._capacity_market.take(request.type, request.zone, request.capacity_type)

    def release(self, instance: Instance) -> None:
        """Releases the capacity of an instance that ends or was never launched."""
        reservation = self._reservations.get(instance.reservation or "")
        if reservation is not None:
            reservation.used -= 1
        else:
            capacity_type = SPOT if instance.lifecycle == SPOT else ON_DEMAND
            self._capacity_market.release(instance.type, instance.zone, capacity_type)

    def move_into(self, instance: Instance, reservation: CapacityReservation) -> None:
        """Moves a running instance into a reservation; its former capacity is released."""
        self.release(instance)
        reservation.used += 1
        instance.reservation = reservation.id

    def move_out(self, instance: Instance) -> None:
        """Moves an instance out of its reservation, onto capacity of the market."""
        if self._capacity_market.free(instance.type, instance.zone, ON_DEMAND) == 0:
            raise insufficient_capacity(instance.type, instance.zone, ON_DEMAND)
        self.release(instance)
        instance.reservation = None
        self._capacity_market.take(instance.type, instance.zone, ON_DEMAND)

    def release_unused(self, reservation: CapacityReservation) -> None:
        """Releases unused capacity to the market; used capacity stays with its instances."""
        self._capacity_market.release(
            reservation.type, reservation.zone, ON_DEMAND, reservation.free
        )
        reservation.used = 0

    def _find_targeted(self, request: CapacityRequest, target: str) -> CapacityReservation:
        reservation = self._reservations.get(target)
        if reservation is None:
            raise CAPACITY_RESERVATION.not_found_error([target])
        if not reservation.free or not self.accepts(reservation, request):
            raise reservation_capacity_exceeded()
        return reservation

    def _is_ending(self, reservation: CapacityReservation) -> bool:
        if reservation.kind != CAPACITY_BLOCK or reservation.end is None:
            return False
        return self._context.now() >= reservation.end - BLOCK_RECLAIM_SECONDS


def _platform_matches(reservation: CapacityReservation, request: CapacityRequest) -> bool:
    """Images do not tell Linux distributions apart: a launch that targets a reservation matches."""
    if reservation.platform == request.platform:
        return True
    windows = "Windows"
    return request.target is not None and windows not in (
        request.platform,
        reservation.platform.partition(" ")[0],
    )


def parse_reservation_specification(
    specification: Mapping[str, Any] | None,
) -> tuple[str, str | None]:
    """Preference and target of a CapacityReservationSpecification."""
    requested = specification or {}
    target = requested.get("CapacityReservationTarget") or {}
    if target.get("CapacityReservationResourceGroupArn"):
        raise AwsError("UnsupportedOperation", "Groups of Capacity Reservations are not emulated.")
    preference = requested.get("CapacityReservationPreference") or OPEN
    if preference not in (OPEN, NONE, RESERVATIONS_ONLY):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({preference}) for parameter capacityReservationPreference is invalid.",
        )
    return preference, target.get("CapacityReservationId")


def check_capacity_request(request: CapacityRequest) -> None:
    """Raises for contradictory requests."""
    if request.target is None:
        if request.lifecycle not in (ON_DEMAND, SPOT):
            raise AwsError(
                "InvalidParameterCombination",
                f"A launch of market type {request.lifecycle} must target a Capacity Reservation.",
            )
    elif request.preference == NONE:
        raise AwsError(
            "InvalidParameterCombination",
            "A Capacity Reservation preference of 'none' cannot be used together with a Capacity "
            "Reservation target.",
        )
    elif request.lifecycle == SPOT:
        raise AwsError(
            "InvalidParameterCombination",
            "Spot Instances cannot be launched into a Capacity Reservation.",
        )


def reservation_capacity_exceeded() -> AwsError:
    return AwsError(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for "
        "this request.",
    )


BEGIN_EVENT: Final = "ec2.reservation.begins"
END_EVENT: Final = "ec2.reservation.ends"
WARNING_EVENT: Final = "ec2.reservation.warns"
RECLAIM_EVENT: Final = "ec2.reservation.reclaims"
BLOCK_WARNING_SECONDS: Final = 40 * 60.0  # before the end of a block; then warnings are sent
ACTIVE, SCHEDULED, EXPIRED = "active", "scheduled", "expired"
HELD_STATES: Final = (ACTIVE, SCHEDULED)
"""States in which its capacity is held."""
RESERVATION_ENDED_REASON: Final = "Server.CapacityReservationEnded"


BlockEndListener: TypeAlias = Callable[[CapacityReservation, list[Instance]], None]
ReservationListener: TypeAlias = Callable[[CapacityReservation, str], None]
"""Called with a reservation that has changed, and how: one of the words below, or its new state."""
CREATED, CHANGED, BEGUN = "created", "changed", "begun"


class ReservationsState(msgspec.Struct, kw_only=True):
    """Reservations in order of creation."""

    reservations: dict[str, CapacityReservation] = {}
    tokens: dict[str, IdempotentResponse] = {}


class ReservationLifecycle:
    """Keeps the counts of reservations consistent with the instances in them."""

    def __init__(
        self, context: AccountContext, capacity_market: CapacityMarket, instances: Instances
    ) -> None:
        self._context = context
        self._capacity_market = capacity_market
        self._instances = instances
        self.capacity_source = CapacitySource(context, capacity_market)
        self.state = ReservationsState()
        instances.add_listener(self._on_state_change)
        context.register_handler(BEGIN_EVENT, self._activate)
        context.register_handler(END_EVENT, self._expire)
        context.register_handler(WARNING_EVENT, self._warn)
        context.register_handler(RECLAIM_EVENT, self._reclaim)
        self._block_end_listeners: list[BlockEndListener] = []
        self._listeners: list[ReservationListener] = []

    @property
    def state(self) -> ReservationsState:
        return self._state

    @state.setter
    def state(self, state: ReservationsState) -> None:
        self._state = state
        self.capacity_source.reservations = state.reservations

    def add_listener(self, listener: BlockEndListener) -> None:
        """Adds a callback for capacity blocks that are about to end, with the instances in them."""
        self._block_end_listeners.append(listener)

    def add_change_listener(self, listener: ReservationListener) -> None:
        """Adds a callback for every reservation that is created, changed, begins or ends."""
        self._listeners.append(listener)

    def notify(self, reservation: CapacityReservation, change: str = CHANGED) -> None:
        for listener in self._listeners:
            listener(reservation, change)

    def add(self, reservation: CapacityReservation) -> None:
        self.state.reservations[reservation.id] = reservation
        self.capacity_source.add(reservation)
        self.schedule(reservation)
        self.adopt_running_instances(reservation)
        self.notify(reservation, CREATED)

    def hold_capacity(self, reservation: CapacityReservation, count: int) -> None:
        """Takes more capacity from the market for the reservation."""
        free = self._capacity_market.free(reservation.type, reservation.zone, ON_DEMAND)
        if free is not None and free < count:
            raise insufficient_capacity(reservation.type, reservation.zone, ON_DEMAND)
        self._capacity_market.take(reservation.type, reservation.zone, ON_DEMAND, count)

    def resize(self, reservation: CapacityReservation, total: int) -> None:
        growth = total - reservation.total
        if growth > 0:
            self.hold_capacity(reservation, growth)
        elif growth < 0:
            self._capacity_market.release(reservation.type, reservation.zone, ON_DEMAND, -growth)
        reservation.total = total

    def replace(self, reservation: CapacityReservation, described: CapacityReservation) -> None:
        """Applies a changed entry of the Cloud; instances beyond the total move outside."""
        for each in self.instances_in(reservation)[described.total :]:
            each.reservation = None
            reservation.used -= 1
            self._capacity_market.take(each.type, each.zone, ON_DEMAND)
        reservation.total = described.total
        reservation.used_by_others = max(described.used_by_others - reservation.used, 0)
        reservation.criteria, reservation.tags = described.criteria, described.tags
        reservation.start, reservation.end = described.start, described.end
        if reservation.active and described.state != ACTIVE:
            self.end(reservation, described.state)
        reservation.state = described.state
        self.schedule(reservation)
        self.adopt_running_instances(reservation)
        self._instances.invalidate_listing()
        self.notify(reservation)

    def schedule(self, reservation: CapacityReservation) -> None:
        payload = {"id": reservation.id}
        if reservation.state == SCHEDULED:
            self._context.schedule_event(
                reservation.start, BEGIN_EVENT, at=reservation.start, **payload
            )
        if reservation.end is not None and reservation.state in HELD_STATES:
            self._context.schedule_event(reservation.end, END_EVENT, at=reservation.end, **payload)
            if reservation.kind == CAPACITY_BLOCK:
                for kind, before in (
                    (WARNING_EVENT, BLOCK_WARNING_SECONDS),
                    (RECLAIM_EVENT, BLOCK_RECLAIM_SECONDS),
                ):
                    due = max(reservation.end - before, self._context.now())
                    self._context.schedule_event(due, kind, at=reservation.end, **payload)

    def adopt_running_instances(self, reservation: CapacityReservation) -> None:
        """Moves running instances into an open reservation if they match and allow it."""
        if reservation.criteria != OPEN or not reservation.active:
            return
        for each in self._instances.list_alive():
            eligible = each.reservation is None and each.target is None and each.preference == OPEN
            if (
                eligible
                and reservation.free
                and self.capacity_source.accepts(reservation, self.capacity_request(each))
            ):
                self.capacity_source.move_into(each, reservation)
        self._instances.invalidate_listing()

    def capacity_request(self, instance: Instance) -> CapacityRequest:
        """The capacity request of a running instance."""
        specification = self._instances.specification_of(instance)
        return CapacityRequest(
            type=instance.type,
            zone=instance.zone,
            platform=specification.platform,
            tenancy=specification.tenancy,
            lifecycle=instance.lifecycle,
            preference=instance.preference,
            target=instance.target,
        )

    def instances_in(self, reservation: CapacityReservation) -> list[Instance]:
        """The instances in the reservation, the oldest first."""
        return [each for each in self._instances.list_alive() if each.reservation == reservation.id]

    def end(self, reservation: CapacityReservation, state: str) -> None:
        """Ordinary instances continue as on-demand; those of a block or interruptible ones end."""
        instances = self.instances_in(reservation)
        if reservation.lifecycle != ON_DEMAND:
            self._instances.terminate([each.id for each in instances], RESERVATION_ENDED_REASON)
        if reservation.state in HELD_STATES:
            self.capacity_source.release_unused(reservation)
        reservation.state = state
        for each in instances:
            each.reservation = None
        self._instances.invalidate_listing()
        self.notify(reservation, state)

    def _activate(self, payload: Mapping[str, Any]) -> None:
        reservation = self.state.reservations[payload["id"]]
        if reservation.state == SCHEDULED and reservation.start == payload["at"]:
            reservation.state = ACTIVE
            self.adopt_running_instances(reservation)
            self.notify(reservation, BEGUN)

    def _expire(self, payload: Mapping[str, Any]) -> None:
        reservation = self.state.reservations[payload["id"]]
        if reservation.state in HELD_STATES and reservation.end == payload["at"]:
            self.end(reservation, EXPIRED)

    def _warn(self, payload: Mapping[str, Any]) -> None:
        reservation = self.state.reservations[payload["id"]]
        if reservation.active and reservation.end == payload["at"]:
            for notify in self._block_end_listeners:
                notify(reservation, self.instances_in(reservation))

    def _reclaim(self, payload: Mapping[str, Any]) -> None:
        """EC2 terminates the instances of a block half an hour before its end."""
        reservation = self.state.reservations[payload["id"]]
        if reservation.active and reservation.end == payload["at"]:
            self._instances.terminate(
                [each.id for each in self.instances_in(reservation)], RESERVATION_ENDED_REASON
            )

    def _on_state_change(self, instance: Instance, previous_state: str) -> None:
        if previous_state in ALIVE_STATES and not instance.alive:
            self.capacity_source.release(instance)
