"""The book of capacity reservations: who is in them, when they begin and end, what then happens."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.emulator.ec2.instances import Instances
from wainwright.emulator.ec2.joining import RECLAIMED, Joining, Wanted
from wainwright.emulator.ec2.launch_errors import insufficient
from wainwright.emulator.ec2.machines import (
    ALIVE,
    BLOCK,
    ON_DEMAND,
    OPEN,
    CapacityReservation,
    Instance,
)
from wainwright.emulator.ec2.prices import Shop
from wainwright.emulator.ec2.tokens import Kept
from wainwright.emulator.world import World

BEGINS: Final = "ec2.reservation.begins"
ENDS: Final = "ec2.reservation.ends"
WARNS: Final = "ec2.reservation.warns"
RECLAIMS: Final = "ec2.reservation.reclaims"
WARNED: Final = 40 * 60.0  # so long before its end everybody is told of a block
ACTIVE, SCHEDULED, EXPIRED = "active", "scheduled", "expired"
HELD: Final = (ACTIVE, SCHEDULED)
"""States in which its capacity is set aside."""
TAKEN_BACK: Final = "Server.CapacityReservationEnded"


Warned: TypeAlias = Callable[[CapacityReservation, list[Instance]], None]


class Reserved(msgspec.Struct, kw_only=True):
    """In the order in which they were made."""

    reservations: dict[str, CapacityReservation] = {}
    tokens: dict[str, Kept] = {}


class Book:
    """Keeps counts and machines in step, whatever happens to either."""

    def __init__(self, world: World, shop: Shop, instances: Instances) -> None:
        self._world = world
        self._shop = shop
        self._instances = instances
        self.joining = Joining(world, shop)
        self.state = Reserved()
        instances.watch(self._note)
        world.on(BEGINS, self._begin)
        world.on(ENDS, self._expire)
        world.on(WARNS, self._warn)
        world.on(RECLAIMS, self._reclaim)
        self._told: list[Warned] = []

    @property
    def state(self) -> Reserved:
        return self._state

    @state.setter
    def state(self, state: Reserved) -> None:
        self._state = state
        self.joining.reservations = state.reservations

    def watch(self, told: Warned) -> None:
        """Told of every capacity block that is nearly over, and of the machines in it."""
        self._told.append(told)

    def add(self, reservation: CapacityReservation) -> None:
        self.state.reservations[reservation.id] = reservation
        self.joining.add(reservation)
        self.schedule(reservation)
        self.absorb(reservation)

    def set_aside(self, reservation: CapacityReservation, count: int) -> None:
        """Takes more machines out of the stock, to be kept for it."""
        free = self._shop.free(reservation.type, reservation.zone, ON_DEMAND)
        if free is not None and free < count:
            raise insufficient(reservation.type, reservation.zone, ON_DEMAND)
        self._shop.take(reservation.type, reservation.zone, ON_DEMAND, count)

    def resize(self, reservation: CapacityReservation, total: int) -> None:
        grown = total - reservation.total
        if grown > 0:
            self.set_aside(reservation, grown)
        elif grown < 0:
            self._shop.give_back(reservation.type, reservation.zone, ON_DEMAND, -grown)
        reservation.total = total

    def replace(self, known: CapacityReservation, described: CapacityReservation) -> None:
        """Makes it what the Cloud says now; machines without room any more go on outside."""
        for each in self.inside(known)[described.total :]:
            each.reservation = None
            known.used -= 1
            self._shop.take(each.type, each.zone, ON_DEMAND)
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
            self._world.at(reservation.start, BEGINS, at=reservation.start, **about)
        if reservation.end is not None and reservation.state in HELD:
            self._world.at(reservation.end, ENDS, at=reservation.end, **about)
            if reservation.kind == BLOCK:
                for kind, before in ((WARNS, WARNED), (RECLAIMS, RECLAIMED)):
                    due = max(reservation.end - before, self._world.now())
                    self._world.at(due, kind, at=reservation.end, **about)

    def absorb(self, reservation: CapacityReservation) -> None:
        """An open reservation takes in what runs already, matches, and has nothing against it."""
        if reservation.criteria != OPEN or not reservation.active:
            return
        for each in self._instances.alive():
            loose = each.reservation is None and each.target is None and each.preference == OPEN
            if loose and reservation.free and self.joining.takes(reservation, self.wanted(each)):
                self.joining.enter(each, reservation)
        self._instances.changed()

    def wanted(self, instance: Instance) -> Wanted:
        """What a machine that runs already would ask for."""
        build = self._instances.build_of(instance)
        return Wanted(
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
            self._instances.terminate([each.id for each in inside], TAKEN_BACK)
        if reservation.state in HELD:
            self.joining.dissolve(reservation)
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
        if reservation.state in HELD and reservation.end == about["at"]:
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
            self._instances.terminate([each.id for each in self.inside(reservation)], TAKEN_BACK)

    def _note(self, instance: Instance, before: str) -> None:
        if before in ALIVE and not instance.alive:
            self.joining.give_back(instance)
