"""The capacity of instances, from the market or from a reservation, and the lifecycle of capacity
reservations: who runs in them, when they begin and end, what then happens.

What is reserved has been set aside: it is not in the market, and instances that run in a
reservation take nothing from it. When a reservation ends, what was free in it goes back to the
market, and the instances in it go on as if they had been launched from there; those of a capacity
block or of interruptible capacity end with it.
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
    """By machines of this account."""
    others: int = 0
    """By machines of other accounts, which share it."""
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    criteria: str = OPEN
    kind: str = "default"
    """Or capacity-block."""
    interruptible: bool = False
    state: str = "active"
    created: float
    start: float
    end: float | None = None
    ebs_optimized: bool = False
    tags: dict[str, str] = {}

    @property
    def free(self) -> int:
        return max(self.total - self.used - self.others, 0)

    @property
    def active(self) -> bool:
        return self.state == "active"

    @property
    def lifecycle(self) -> str:
        """What machines are called that run in it."""
        if self.kind == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return INTERRUPTIBLE if self.interruptible else ON_DEMAND


BLOCK_RECLAIM_SECONDS: Final = 30 * 60.0  # so long before its end EC2 takes the machines of a block
RESERVED_CAPACITY_TYPE: Final = "reserved"


class CapacityRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine asks of capacity."""

    type: str
    zone: str
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    lifecycle: str = ON_DEMAND
    preference: str = OPEN
    target: str | None = None

    @property
    def market(self) -> str:
        """Which stock it comes from, unless it comes from a reservation."""
        return SPOT if self.lifecycle == SPOT else ON_DEMAND


class CapacitySource:
    """Finds capacity, takes it and gives it back."""

    def __init__(self, context: AccountContext, capacity_market: CapacityMarket) -> None:
        self._context = context
        self._capacity_market = capacity_market
        self.reservations = {}

    @property
    def reservations(self) -> Mapping[str, CapacityReservation]:
        return self._reservations

    @reservations.setter
    def reservations(self, known: Mapping[str, CapacityReservation]) -> None:
        self._reservations = known
        self._by_pool: dict[tuple[str, str], list[CapacityReservation]] = {}
        for each in known.values():
            self.add(each)

    def add(self, reservation: CapacityReservation) -> None:
        """Has a new one found by those who look for it."""
        self._by_pool.setdefault((reservation.type, reservation.zone), []).append(reservation)

    def find(self, wanted: CapacityRequest) -> CapacityReservation | None:
        """The reservation that the machine would run in; None: the stock has one.

        Raises what EC2 says where it would not launch.
        """
        check_capacity_request(wanted)
        if wanted.target is not None:
            return self._targeted(wanted, wanted.target)
        if wanted.lifecycle == ON_DEMAND and wanted.preference != NONE:
            found = self.open_for(wanted)
            if found is not None:
                return found
            if wanted.preference == RESERVATIONS_ONLY:
                raise reservation_capacity_exceeded()
        if self._capacity_market.free(wanted.type, wanted.zone, wanted.market) == 0:
            raise insufficient_capacity(wanted.type, wanted.zone, wanted.market)
        return None

    def open_for(self, wanted: CapacityRequest) -> CapacityReservation | None:
        """The oldest open reservation that takes the machine in without being named."""
        for each in self._by_pool.get((wanted.type, wanted.zone), ()):
            if each.criteria == OPEN and each.free and self.takes(each, wanted):
                return each
        return None

    def any_open(self, instance_type: str, zone: str) -> bool:
        """Whether it is worth a closer look."""
        known = self._by_pool.get((instance_type, zone), ())
        return any(each.criteria == OPEN and each.active and each.free for each in known)

    def room(self, wanted: CapacityRequest) -> int:
        """How many such machines open reservations would take in."""
        known = self._by_pool.get((wanted.type, wanted.zone), ())
        return sum(
            each.free for each in known if each.criteria == OPEN and self.takes(each, wanted)
        )

    def takes(self, reservation: CapacityReservation, wanted: CapacityRequest) -> bool:
        """Whether the machine may run in it, had it room."""
        return (
            reservation.active
            and reservation.type == wanted.type
            and reservation.zone == wanted.zone
            and reservation.tenancy == wanted.tenancy
            and reservation.lifecycle == wanted.lifecycle
            and _platform_matches(reservation, wanted)
            and not self._ending(reservation)
            and self._capacity_market.free(wanted.type, wanted.zone, RESERVED_CAPACITY_TYPE) != 0
        )

    def take(self, wanted: CapacityRequest, reservation: CapacityReservation | None) -> None:
        if reservation is not None:
            reservation.used += 1
        else:
            self._capacity_market.take(wanted.type, wanted.zone, wanted.market)

    def release(self, instance: Instance) -> None:
        """What a machine has taken, when it ends or never begins."""
        reservation = self._reservations.get(instance.reservation or "")
        if reservation is not None:
            reservation.used -= 1
        else:
            market = SPOT if instance.lifecycle == SPOT else ON_DEMAND
            self._capacity_market.release(instance.type, instance.zone, market)

    def enter(self, instance: Instance, reservation: CapacityReservation) -> None:
        """A machine that runs already goes into a reservation; its own place becomes free."""
        self.release(instance)
        reservation.used += 1
        instance.reservation = reservation.id

    def leave(self, instance: Instance) -> None:
        """A machine goes on outside its reservation, which gets another place from the stock."""
        if self._capacity_market.free(instance.type, instance.zone, ON_DEMAND) == 0:
            raise insufficient_capacity(instance.type, instance.zone, ON_DEMAND)
        self.release(instance)
        instance.reservation = None
        self._capacity_market.take(instance.type, instance.zone, ON_DEMAND)

    def release_unused(self, reservation: CapacityReservation) -> None:
        """What was free in it goes back to the stock; what was used is used on."""
        self._capacity_market.release(
            reservation.type, reservation.zone, ON_DEMAND, reservation.free
        )
        reservation.used = 0

    def _targeted(self, wanted: CapacityRequest, target: str) -> CapacityReservation:
        found = self._reservations.get(target)
        if found is None:
            raise CAPACITY_RESERVATION.lost([target])
        if not found.free or not self.takes(found, wanted):
            raise reservation_capacity_exceeded()
        return found

    def _ending(self, reservation: CapacityReservation) -> bool:
        if reservation.kind != CAPACITY_BLOCK or reservation.end is None:
            return False
        return self._context.now() >= reservation.end - BLOCK_RECLAIM_SECONDS


def _platform_matches(reservation: CapacityReservation, wanted: CapacityRequest) -> bool:
    """Images do not say which Linux they are: who names a reservation is believed."""
    if reservation.platform == wanted.platform:
        return True
    windows = "Windows"
    return wanted.target is not None and windows not in (
        wanted.platform,
        reservation.platform.partition(" ")[0],
    )


def parse_reservation_specification(
    specification: Mapping[str, Any] | None,
) -> tuple[str, str | None]:
    """Preference and target of a CapacityReservationSpecification."""
    asked = specification or {}
    target = asked.get("CapacityReservationTarget") or {}
    if target.get("CapacityReservationResourceGroupArn"):
        raise AwsError("UnsupportedOperation", "Groups of Capacity Reservations are not emulated.")
    preference = asked.get("CapacityReservationPreference") or OPEN
    if preference not in (OPEN, NONE, RESERVATIONS_ONLY):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({preference}) for parameter capacityReservationPreference is invalid.",
        )
    return preference, target.get("CapacityReservationId")


def check_capacity_request(wanted: CapacityRequest) -> None:
    """Refuses what contradicts itself."""
    if wanted.target is None:
        if wanted.lifecycle not in (ON_DEMAND, SPOT):
            raise AwsError(
                "InvalidParameterCombination",
                f"A launch of market type {wanted.lifecycle} must target a Capacity Reservation.",
            )
    elif wanted.preference == NONE:
        raise AwsError(
            "InvalidParameterCombination",
            "A Capacity Reservation preference of 'none' cannot be used together with a Capacity "
            "Reservation target.",
        )
    elif wanted.lifecycle == SPOT:
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
BLOCK_WARNING_SECONDS: Final = 40 * 60.0  # so long before its end everybody is told of a block
ACTIVE, SCHEDULED, EXPIRED = "active", "scheduled", "expired"
HELD_STATES: Final = (ACTIVE, SCHEDULED)
"""States in which its capacity is set aside."""
RESERVATION_ENDED_REASON: Final = "Server.CapacityReservationEnded"


BlockEndListener: TypeAlias = Callable[[CapacityReservation, list[Instance]], None]


class ReservationsState(msgspec.Struct, kw_only=True):
    """In the order in which they were made."""

    reservations: dict[str, CapacityReservation] = {}
    tokens: dict[str, IdempotentResponse] = {}


class ReservationLifecycle:
    """Keeps counts and machines in step, whatever happens to either."""

    def __init__(
        self, context: AccountContext, capacity_market: CapacityMarket, instances: Instances
    ) -> None:
        self._context = context
        self._capacity_market = capacity_market
        self._instances = instances
        self.capacity_source = CapacitySource(context, capacity_market)
        self.state = ReservationsState()
        instances.watch(self._note)
        context.on(BEGIN_EVENT, self._begin)
        context.on(END_EVENT, self._expire)
        context.on(WARNING_EVENT, self._warn)
        context.on(RECLAIM_EVENT, self._reclaim)
        self._told: list[BlockEndListener] = []

    @property
    def state(self) -> ReservationsState:
        return self._state

    @state.setter
    def state(self, state: ReservationsState) -> None:
        self._state = state
        self.capacity_source.reservations = state.reservations

    def watch(self, told: BlockEndListener) -> None:
        """Told of every capacity block that is nearly over, and of the machines in it."""
        self._told.append(told)

    def add(self, reservation: CapacityReservation) -> None:
        self.state.reservations[reservation.id] = reservation
        self.capacity_source.add(reservation)
        self.schedule(reservation)
        self.absorb(reservation)

    def set_aside(self, reservation: CapacityReservation, count: int) -> None:
        """Takes more machines out of the stock, to be kept for it."""
        free = self._capacity_market.free(reservation.type, reservation.zone, ON_DEMAND)
        if free is not None and free < count:
            raise insufficient_capacity(reservation.type, reservation.zone, ON_DEMAND)
        self._capacity_market.take(reservation.type, reservation.zone, ON_DEMAND, count)

    def resize(self, reservation: CapacityReservation, total: int) -> None:
        grown = total - reservation.total
        if grown > 0:
            self.set_aside(reservation, grown)
        elif grown < 0:
            self._capacity_market.release(reservation.type, reservation.zone, ON_DEMAND, -grown)
        reservation.total = total

    def replace(self, known: CapacityReservation, described: CapacityReservation) -> None:
        """Makes it what the Cloud says now; machines without room any more go on outside."""
        for each in self.inside(known)[described.total :]:
            each.reservation = None
            known.used -= 1
            self._capacity_market.take(each.type, each.zone, ON_DEMAND)
        known.total = described.total
        known.others = max(described.others - known.used, 0)
        known.criteria, known.tags = described.criteria, described.tags
        known.start, known.end = described.start, described.end
        if known.active and described.state != ACTIVE:
            self.end(known, described.state)
        known.state = described.state
        self.schedule(known)
        self.absorb(known)
        self._instances.changed()

    def schedule(self, reservation: CapacityReservation) -> None:
        about = {"id": reservation.id}
        if reservation.state == SCHEDULED:
            self._context.at(reservation.start, BEGIN_EVENT, at=reservation.start, **about)
        if reservation.end is not None and reservation.state in HELD_STATES:
            self._context.at(reservation.end, END_EVENT, at=reservation.end, **about)
            if reservation.kind == CAPACITY_BLOCK:
                for kind, before in (
                    (WARNING_EVENT, BLOCK_WARNING_SECONDS),
                    (RECLAIM_EVENT, BLOCK_RECLAIM_SECONDS),
                ):
                    due = max(reservation.end - before, self._context.now())
                    self._context.at(due, kind, at=reservation.end, **about)

    def absorb(self, reservation: CapacityReservation) -> None:
        """An open reservation takes in what runs already, matches, and has nothing against it."""
        if reservation.criteria != OPEN or not reservation.active:
            return
        for each in self._instances.alive():
            loose = each.reservation is None and each.target is None and each.preference == OPEN
            if (
                loose
                and reservation.free
                and self.capacity_source.takes(reservation, self.wanted(each))
            ):
                self.capacity_source.enter(each, reservation)
        self._instances.changed()

    def wanted(self, instance: Instance) -> CapacityRequest:
        """What a machine that runs already would ask for."""
        build = self._instances.specification_of(instance)
        return CapacityRequest(
            type=instance.type,
            zone=instance.zone,
            platform=build.platform,
            tenancy=build.tenancy,
            lifecycle=instance.lifecycle,
            preference=instance.preference,
            target=instance.target,
        )

    def inside(self, reservation: CapacityReservation) -> list[Instance]:
        """The oldest first."""
        return [each for each in self._instances.alive() if each.reservation == reservation.id]

    def end(self, reservation: CapacityReservation, state: str) -> None:
        """Ordinary machines go on as on-demand ones; those of a block or on call end with it."""
        inside = self.inside(reservation)
        if reservation.lifecycle != ON_DEMAND:
            self._instances.terminate([each.id for each in inside], RESERVATION_ENDED_REASON)
        if reservation.state in HELD_STATES:
            self.capacity_source.release_unused(reservation)
        reservation.state = state
        for each in inside:
            each.reservation = None
        self._instances.changed()

    def _begin(self, about: Mapping[str, Any]) -> None:
        reservation = self.state.reservations[about["id"]]
        if reservation.state == SCHEDULED and reservation.start == about["at"]:
            reservation.state = ACTIVE
            self.absorb(reservation)

    def _expire(self, about: Mapping[str, Any]) -> None:
        reservation = self.state.reservations[about["id"]]
        if reservation.state in HELD_STATES and reservation.end == about["at"]:
            self.end(reservation, EXPIRED)

    def _warn(self, about: Mapping[str, Any]) -> None:
        reservation = self.state.reservations[about["id"]]
        if reservation.active and reservation.end == about["at"]:
            for told in self._told:
                told(reservation, self.inside(reservation))

    def _reclaim(self, about: Mapping[str, Any]) -> None:
        """EC2 ends the machines of a block half an hour before the block itself."""
        reservation = self.state.reservations[about["id"]]
        if reservation.active and reservation.end == about["at"]:
            self._instances.terminate(
                [each.id for each in self.inside(reservation)], RESERVATION_ENDED_REASON
            )

    def _note(self, instance: Instance, before: str) -> None:
        if before in ALIVE_STATES and not instance.alive:
            self.capacity_source.release(instance)
