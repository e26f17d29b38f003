"""Capacity reservations: created, described, changed, cancelled, and entered afterwards."""

from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.cloud import Reservation
from wainwright.emulator.ec2 import reservation_requests as requests
from wainwright.emulator.ec2 import tokens
from wainwright.emulator.ec2.goods import Goods
from wainwright.emulator.ec2.instances import Instances
from wainwright.emulator.ec2.joining import Wanted, check, exceeded, specified
from wainwright.emulator.ec2.lookup import RESERVATION, named, only
from wainwright.emulator.ec2.machines import (
    BLOCK,
    NONE,
    ON_DEMAND,
    ONLY,
    OPEN,
    RUNNING,
    CapacityReservation,
    Instance,
)
from wainwright.emulator.ec2.prices import Shop
from wainwright.emulator.ec2.reservation_book import HELD, Book, Reserved
from wainwright.emulator.ec2.reservation_views import FIELDS, shown
from wainwright.emulator.filters import matching
from wainwright.emulator.paging import page
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError, BadInput

MOST: Final = 1000


class Reservations:
    """Every reservation that the account can see, its own and those shared with it."""

    name = "ec2"

    def __init__(self, world: World, goods: Goods, shop: Shop, instances: Instances) -> None:
        self._world = world
        self._goods = goods
        self._instances = instances
        self.book = Book(world, shop, instances)
        self.joining = self.book.joining
        self.state = Reserved()

    @property
    def state(self) -> Reserved:
        return self.book.state

    @state.setter
    def state(self, state: Reserved) -> None:
        self.book.state = state
        self._tokens = tokens.Tokens(self._world, state.tokens)

    def operations(self) -> Mapping[str, Handler]:
        return {
            "CreateCapacityReservation": self.create,
            "DescribeCapacityReservations": self.describe,
            "ModifyCapacityReservation": self.modify,
            "CancelCapacityReservation": self.cancel,
            "ModifyInstanceCapacityReservationAttributes": self.attach,
        }

    def check(self, entries: Iterable[Reservation]) -> None:
        """BadInput where one lies in a zone that is not there."""
        for entry in entries:
            if entry.availabilityZone not in self._goods.zones:
                raise BadInput(
                    f"capacityReservations: {entry.id} lies in {entry.availabilityZone}, which is "
                    "not there",
                    f"one of {', '.join(self._goods.zones)}",
                )

    def seed(self, entries: Iterable[Reservation]) -> None:
        """Reservations as the Cloud describes them, at the start or while the emulator runs.

        Those in zones that the Cloud leaves out are left out as well.
        """
        for entry in entries:
            if entry.availabilityZone not in self._goods.zones:
                continue
            described = requests.described(entry, self._world, self._goods)
            known = self.state.reservations.get(entry.id)
            if known is None:
                self.book.add(described)
            else:
                self.book.replace(known, described)

    def create(self, params: Params) -> Answer:
        tokens.check(params)
        made = self._tokens.once(params, lambda: self._create(params))
        return {"CapacityReservation": self._shown(self._known(made))}

    def describe(self, params: Params) -> Answer:
        asked = params.get("CapacityReservationIds")
        if asked and params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter CapacityReservationIds cannot be used with the parameter MaxResults",
            )
        rows = named(self.state.reservations, asked, RESERVATION)
        found = matching(rows, params.get("Filters"), FIELDS, lambda each: each.tags)
        rows, token = page(found, params, most=MOST, least=1)
        return {"CapacityReservations": [self._shown(each) for each in rows], **token}

    def modify(self, params: Params) -> Answer:
        reservation = self._changeable(params)
        changed = requests.changed(params, reservation, self._world.now())
        self.book.resize(reservation, changed.total)
        reservation.criteria = changed.criteria
        if reservation.end != changed.end:
            reservation.end = changed.end
            self.book.schedule(reservation)
        self.book.absorb(reservation)
        return {"Return": True}

    def cancel(self, params: Params) -> Answer:
        self.book.end(self._changeable(params), "cancelled")
        return {"Return": True}

    def attach(self, params: Params) -> Answer:
        """EC2 wants the machine stopped first; here machines do not stop, so it may run."""
        asked = specified(params.get("CapacityReservationSpecification"))
        instance = self._instances.named([requests.required(params, "InstanceId")])[0]
        if instance.state != RUNNING or instance.lifecycle != ON_DEMAND:
            raise AwsError(
                "IncorrectInstanceState",
                f"The instance '{instance.id}' is not a running On-Demand Instance.",
            )
        before = instance.preference, instance.target
        instance.preference, instance.target = asked
        try:
            self._settle(instance)
        except AwsError:
            instance.preference, instance.target = before
            raise
        self._instances.changed()
        return {"Return": True}

    def _settle(self, instance: Instance) -> None:
        """Moves the machine to where it wants to be; raises where there is no room."""
        wanted = self.book.wanted(instance)
        check(wanted)
        inside = self.state.reservations.get(instance.reservation or "")
        if inside is not None and _content(inside, wanted):
            return
        goal = self._goal(wanted)
        if goal is not None:
            self.joining.enter(instance, goal)
        elif inside is not None:
            self.joining.leave(instance)

    def _goal(self, wanted: Wanted) -> CapacityReservation | None:
        """The reservation to move to; None: wherever else there is capacity."""
        if wanted.target is not None:
            return self.joining.find(wanted)
        if wanted.preference == NONE:
            return None
        found = self.joining.open_for(wanted)
        if found is None and wanted.preference == ONLY:
            raise exceeded()
        return found

    def _create(self, params: Params) -> str:
        reservation = requests.asked(params, self._world, self._goods)
        self.book.set_aside(reservation, reservation.total)
        self.book.add(reservation)
        return reservation.id

    def _changeable(self, params: Params) -> CapacityReservation:
        reservation = self._known(params.get("CapacityReservationId"))
        if reservation.owner != self._world.account:
            raise AwsError(
                "UnauthorizedOperation",
                f"Capacity Reservation '{reservation.id}' belongs to another account.",
                403,
            )
        if reservation.kind == BLOCK:
            raise AwsError(
                "UnsupportedOperation", "A Capacity Block cannot be changed or cancelled."
            )
        if reservation.state not in HELD:
            raise AwsError(
                "InvalidCapacityReservationState",
                f"Capacity Reservation '{reservation.id}' is {reservation.state}.",
            )
        return reservation

    def _known(self, identity: str | None) -> CapacityReservation:
        return only(self.state.reservations, identity, RESERVATION)

    def _shown(self, reservation: CapacityReservation) -> Answer:
        return shown(reservation, self._world.region)


def _content(inside: CapacityReservation, wanted: Wanted) -> bool:
    """Whether a machine may stay where it is."""
    if wanted.target is not None:
        return inside.id == wanted.target
    return wanted.preference != NONE and inside.criteria == OPEN
