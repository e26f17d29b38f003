"""Joining: where a machine gets its capacity from, the stock of its pool or a reservation.

What is reserved has been set aside: it is not in stock, and machines that run in a reservation take
nothing from it. When a reservation ends, what was free in it goes back to the stock, and the
machines in it go on as if they had been launched from there.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.emulator.ec2.launch_errors import insufficient
from wainwright.emulator.ec2.lookup import RESERVATION
from wainwright.emulator.ec2.machines import (
    BLOCK,
    NONE,
    ON_DEMAND,
    ONLY,
    OPEN,
    SPOT,
    CapacityReservation,
    Instance,
)
from wainwright.emulator.ec2.prices import Shop
from wainwright.emulator.world import World
from wainwright.errors import AwsError

RECLAIMED: Final = 30 * 60.0  # so long before its end EC2 takes the machines of a block
RESERVED: Final = "reserved"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
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


class Joining:
    """Finds capacity, takes it and gives it back."""

    def __init__(self, world: World, shop: Shop) -> None:
        self._world = world
        self._shop = shop
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

    def find(self, wanted: Wanted) -> CapacityReservation | None:
        """The reservation that the machine would run in; None: the stock has one.

        Raises what EC2 says where it would not launch.
        """
        check(wanted)
        if wanted.target is not None:
            return self._targeted(wanted, wanted.target)
        if wanted.lifecycle == ON_DEMAND and wanted.preference != NONE:
            found = self.open_for(wanted)
            if found is not None:
                return found
            if wanted.preference == ONLY:
                raise exceeded()
        if self._shop.free(wanted.type, wanted.zone, wanted.market) == 0:
            raise insufficient(wanted.type, wanted.zone, wanted.market)
        return None

    def open_for(self, wanted: Wanted) -> CapacityReservation | None:
        """The oldest open reservation that takes the machine in without being named."""
        for each in self._by_pool.get((wanted.type, wanted.zone), ()):
            if each.criteria == OPEN and each.free and self.takes(each, wanted):
                return each
        return None

    def any_open(self, instance_type: str, zone: str) -> bool:
        """Whether it is worth a closer look."""
        known = self._by_pool.get((instance_type, zone), ())
        return any(each.criteria == OPEN and each.active and each.free for each in known)

    def room(self, wanted: Wanted) -> int:
        """How many such machines open reservations would take in."""
        known = self._by_pool.get((wanted.type, wanted.zone), ())
        return sum(
            each.free for each in known if each.criteria == OPEN and self.takes(each, wanted)
        )

    def takes(self, reservation: CapacityReservation, wanted: Wanted) -> bool:
        """Whether the machine may run in it, had it room."""
        return (
            reservation.active
            and reservation.type == wanted.type
            and reservation.zone == wanted.zone
            and reservation.tenancy == wanted.tenancy
            and reservation.lifecycle == wanted.lifecycle
            and _suits(reservation, wanted)
            and not self._ending(reservation)
            and self._shop.free(wanted.type, wanted.zone, RESERVED) != 0
        )

    def take(self, wanted: Wanted, reservation: CapacityReservation | None) -> None:
        if reservation is not None:
            reservation.used += 1
        else:
            self._shop.take(wanted.type, wanted.zone, wanted.market)

    def give_back(self, instance: Instance) -> None:
        """What a machine has taken, when it ends or never begins."""
        reservation = self._reservations.get(instance.reservation or "")
        if reservation is not None:
            reservation.used -= 1
        else:
            market = SPOT if instance.lifecycle == SPOT else ON_DEMAND
            self._shop.give_back(instance.type, instance.zone, market)

    def enter(self, instance: Instance, reservation: CapacityReservation) -> None:
        """A machine that runs already goes into a reservation; its own place becomes free."""
        self.give_back(instance)
        reservation.used += 1
        instance.reservation = reservation.id

    def leave(self, instance: Instance) -> None:
        """A machine goes on outside its reservation, which gets another place from the stock."""
        if self._shop.free(instance.type, instance.zone, ON_DEMAND) == 0:
            raise insufficient(instance.type, instance.zone, ON_DEMAND)
        self.give_back(instance)
        instance.reservation = None
        self._shop.take(instance.type, instance.zone, ON_DEMAND)

    def dissolve(self, reservation: CapacityReservation) -> None:
        """What was free in it goes back to the stock; what was used is used on."""
        self._shop.give_back(reservation.type, reservation.zone, ON_DEMAND, reservation.free)
        reservation.used = 0

    def _targeted(self, wanted: Wanted, target: str) -> CapacityReservation:
        found = self._reservations.get(target)
        if found is None:
            raise RESERVATION.lost([target])
        if not found.free or not self.takes(found, wanted):
            raise exceeded()
        return found

    def _ending(self, reservation: CapacityReservation) -> bool:
        if reservation.kind != BLOCK or reservation.end is None:
            return False
        return self._world.now() >= reservation.end - RECLAIMED


def _suits(reservation: CapacityReservation, wanted: Wanted) -> bool:
    """Images do not say which Linux they are: who names a reservation is believed."""
    if reservation.platform == wanted.platform:
        return True
    windows = "Windows"
    return wanted.target is not None and windows not in (
        wanted.platform,
        reservation.platform.partition(" ")[0],
    )


def specified(specification: Mapping[str, Any] | None) -> tuple[str, str | None]:
    """Preference and target of a CapacityReservationSpecification."""
    asked = specification or {}
    target = asked.get("CapacityReservationTarget") or {}
    if target.get("CapacityReservationResourceGroupArn"):
        raise AwsError("UnsupportedOperation", "Groups of Capacity Reservations are not emulated.")
    preference = asked.get("CapacityReservationPreference") or OPEN
    if preference not in (OPEN, NONE, ONLY):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({preference}) for parameter capacityReservationPreference is invalid.",
        )
    return preference, target.get("CapacityReservationId")


def check(wanted: Wanted) -> None:
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


def exceeded() -> AwsError:
    return AwsError(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for "
        "this request.",
    )
