"""Events of a scenario that change the emulated account: reservations, stock, prices, notices to
instances, faults of calls.
"""

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from random import Random
from typing import Final

from wainwright.api.catalog_documents import CloudReservation, UnavailableOffering
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    ACTIVE,
    HELD_STATES,
    SCHEDULED,
    CapacityReservation,
)
from wainwright.emulator.ec2.instance.interruptions import NOTICE_SECONDS, ScheduledEventCode
from wainwright.emulator.ec2.instance.launcher import LaunchFault
from wainwright.emulator.ec2.instance.lifecycle import ON_DEMAND, Instance
from wainwright.errors import AwsError
from wainwright.model.labels import RESERVED, SPOT
from wainwright.sim.aws_calls import CallFault, SimulatedAwsCalls
from wainwright.sim.money import PriceChange, capacity_type_of, is_meant_offering
from wainwright.sim.recorder import Recorder
from wainwright.sim.scenario import (
    ANY_OFFERING,
    ChangePrice,
    ChangeReservation,
    FailCalls,
    Interrupt,
    OfferingPattern,
    ScenarioEvent,
    ThrottleCalls,
    Unavailable,
    ZoneOutage,
)
from wainwright.sim.world import World

VANISHED_REASON: Final = "Server.InternalError"
NO_CAPACITY: Final = "InsufficientInstanceCapacity"
THROTTLED: Final = "RequestLimitExceeded"


class CloudEvents:
    def __init__(
        self, world: World, calls: SimulatedAwsCalls, recorder: Recorder, *, seed: int
    ) -> None:
        self._world = world
        self._services = world.account.services
        self._calls = calls
        self._recorder = recorder
        self._seed = seed
        self._in_force: list[ScenarioEvent] = []
        """Events that last, in the order in which they began."""
        self._reclaimed: dict[str, str] = {}
        """Instances that others take back, and the reservation that they are in."""
        self._services.instances.add_listener(self._on_instance)
        self.warnings: list[str] = []

    def warn(self, event: ScenarioEvent, message: str) -> None:
        place = f"line {event.line}" if event.line is not None else f"after {event.at:.0f}s"
        self.warnings.append(f"{place}: {message}")

    # Reservations

    def create_reservation(self, event: ScenarioEvent, reservation: CloudReservation) -> None:
        if reservation.id in self._reservations():
            self.warn(event, f"reservation {reservation.id} exists already")
            return
        if reservation.availabilityZone not in self._world.account.zones:
            self.warn(event, f"there is no zone {reservation.availabilityZone}")
            return
        self._services.seed_reservations([reservation])

    def change_reservation(self, event: ScenarioEvent, change: ChangeReservation) -> None:
        reservation = self._held(event, change.id)
        if reservation is None:
            return
        problem = _refusal(reservation, change)
        if problem:
            self.warn(event, f"EC2 refuses to change {change.id}: {problem}")
            return
        try:
            self._resize(reservation, change)
        except AwsError as error:
            self.warn(event, f"EC2 refuses to change {change.id}: {error}")
            return
        self._change_description(reservation, change)

    def _resize(self, reservation: CapacityReservation, change: ChangeReservation) -> None:
        if change.total is not None:
            self._services.reservations.lifecycle.resize(reservation, change.total)
        if change.available is not None:
            others = reservation.total - reservation.used - change.available
            reservation.used_by_others = others

    def _change_description(
        self, reservation: CapacityReservation, change: ChangeReservation
    ) -> None:
        lifecycle = self._services.reservations.lifecycle
        if change.tags is not None:
            reservation.tags = dict(change.tags)
        if change.groups is not None:
            self._services.resource_groups.set_groups(reservation, change.groups)
        if change.start_time is not None:
            reservation.start = change.start_time
            is_later = change.start_time > self._world.clock.now() and not reservation.used
            reservation.state = SCHEDULED if is_later else ACTIVE
        if change.end_time is not None:
            reservation.end = change.end_time
        if change.start_time is not None or change.end_time is not None:
            lifecycle.schedule(reservation)
        lifecycle.adopt_running_instances(reservation)
        lifecycle.notify(reservation)

    def cancel_reservation(self, event: ScenarioEvent, identity: str) -> None:
        reservation = self._held(event, identity)
        if reservation is not None:
            self._services.reservations.lifecycle.end(reservation, "cancelled")

    def _held(self, event: ScenarioEvent, identity: str) -> CapacityReservation | None:
        reservation = self._reservations().get(identity)
        if reservation is None:
            self.warn(event, f"there is no reservation {identity}")
        elif reservation.state not in HELD_STATES:
            self.warn(event, f"reservation {identity} is {reservation.state}")
        else:
            return reservation
        return None

    def _reservations(self) -> dict[str, CapacityReservation]:
        return self._services.reservations.state.reservations

    # Stock and prices

    def begin_unavailable(self, event: ScenarioEvent) -> None:
        self._in_force.append(event)
        if isinstance(event.action, Unavailable):
            self._warn_of_nothing(event, event.action.offerings)
        self._set_unavailable()

    def _set_unavailable(self) -> None:
        entries = list(self._world.cloud.spec.unavailable or ())
        for event in self._in_force:
            match event.action:
                case Unavailable(offerings=pattern):
                    entries.append(_unavailable_offering(pattern))
                case ZoneOutage(zone=zone):
                    entries.append(UnavailableOffering(zone=zone))
                case _:
                    pass
        self._services.capacity_market.set_unavailable(entries)

    def is_out(self, zone: str) -> bool:
        return any(
            isinstance(event.action, ZoneOutage) and event.action.zone == zone
            for event in self._in_force
        )

    def unavailable(self) -> list[UnavailableOffering]:
        """Everything that EC2 does not sell now."""
        return list(self._services.capacity_market.state.capacity.unavailable)

    def _warn_of_nothing(self, event: ScenarioEvent, pattern: OfferingPattern) -> None:
        """A reserved offering is one of its reservation, whatever the market has."""
        keys = self._world.account.region_offerings.offering_keys
        if pattern.capacity_type != RESERVED and not any(
            is_meant_offering(key, pattern) for key in keys
        ):
            verb = event.action.__struct_config__.tag
            self.warn(event, f"{verb}: EC2 has no such offering")

    def begin_price(self, event: ScenarioEvent) -> None:
        self._in_force.append(event)
        if isinstance(event.action, ChangePrice):
            self._warn_of_nothing(event, event.action.offerings)
        self._set_prices()

    def _set_prices(self) -> None:
        changes = [
            PriceChange(offerings=event.action.offerings, factor=event.action.factor)
            for event in self._in_force
            if isinstance(event.action, ChangePrice)
        ]
        self._world.prices.set_changes(changes)
        self._recorder.prices_changed()

    def end(self, event: ScenarioEvent) -> None:
        """An event that lasts is over."""
        self._in_force = [each for each in self._in_force if each is not event]
        match event.action:
            case Unavailable() | ZoneOutage():
                self._set_unavailable()
            case ChangePrice():
                self._set_prices()
            case _:
                self._set_faults()

    # Instances

    def interrupt(self, event: ScenarioEvent, named: Sequence[str] | None) -> None:
        """Gives notice; `named` are instances that the event names."""
        action = event.action
        assert isinstance(action, Interrupt)
        candidates = [
            each for each in self._services.instances.list_alive() if self._is_meant(each, action)
        ]
        if named is not None:
            candidates = [each for each in candidates if each.id in set(named)]
        chosen = self._choose(event, action, candidates)
        if not chosen:
            self.warn(event, "interrupt: no instance is meant")
        for instance in chosen:
            self._give_notice(instance, action)

    def _is_meant(self, instance: Instance, action: Interrupt) -> bool:
        """An instance that has its notice already is not interrupted twice."""
        billed = self._recorder.instances.get(instance.id)
        is_noticed = billed is not None and billed.was_noticed
        return not is_noticed and _matches(instance, action.offerings)

    def _choose(
        self, event: ScenarioEvent, action: Interrupt, candidates: list[Instance]
    ) -> list[Instance]:
        if action.share is not None:
            count = math.ceil(action.share * len(candidates))
        elif action.count is not None:
            count = min(action.count, len(candidates))
        else:
            return candidates
        random = Random(f"{self._seed} interrupt {event.line} {event.at}")
        numbers = random.sample(range(len(candidates)), count)
        return [candidates[number] for number in sorted(numbers)]

    def _give_notice(self, instance: Instance, action: Interrupt) -> None:
        interruptions = self._services.interruptions
        if action.offerings.reservation_id is not None and instance.reservation is not None:
            self._reclaimed[instance.id] = instance.reservation
            interruptions.interrupt_reserved(instance.id)
        elif instance.lifecycle == SPOT:
            interruptions.interrupt_spot(instance.id)
        elif instance.lifecycle == ON_DEMAND:
            starts = self._world.clock.now() + NOTICE_SECONDS
            code = ScheduledEventCode.INSTANCE_RETIREMENT
            interruptions.schedule_change(instance.id, code, starts=starts)
        else:
            interruptions.interrupt_reserved(instance.id)

    def _on_instance(self, instance: Instance, previous: str) -> None:
        """What others have taken back stays theirs."""
        if instance.alive or not previous:
            return
        reservation = self._reservations().get(self._reclaimed.pop(instance.id, ""))
        if reservation is not None and reservation.active:
            reservation.used_by_others += 1

    def vanish(self, instance_id: str) -> None:
        self._services.instances.terminate([instance_id], VANISHED_REASON)

    def instances_in_zone(self, zone: str) -> list[str]:
        return [each.id for each in self._services.instances.list_alive() if each.zone == zone]

    def set_addresses(self, event: ScenarioEvent, zone: str, free: int) -> None:
        subnets = [
            each for each in self._services.network.state.subnets.values() if each.zone == zone
        ]
        if not subnets:
            self.warn(event, f"addresses: there is no subnet in {zone}")
        for subnet in subnets:
            subnet.free = free

    # Faults of calls

    @property
    def has_faults(self) -> bool:
        """Whether calls fail now, so that nothing can be said of how the world comes to rest."""
        return bool(self._calls.faults or self._services.launcher.faults)

    def begin_fault(self, event: ScenarioEvent) -> None:
        self._in_force.append(event)
        self._set_faults()

    def _set_faults(self) -> None:
        calls: list[CallFault] = []
        launches: list[LaunchFault] = []
        for event in self._in_force:
            action = event.action
            if not isinstance(action, FailCalls | ThrottleCalls):
                continue
            if action.offerings == ANY_OFFERING:
                calls.append(_call_fault(action))
            else:
                launches.append(_launch_fault(action))
        self._calls.faults = calls
        self._services.launcher.faults = launches


def _refusal(reservation: CapacityReservation, change: ChangeReservation) -> str:
    """Why EC2 does not make the change; empty if it does."""
    total = reservation.total if change.total is None else change.total
    others = reservation.used_by_others if change.available is None else 0
    if total < reservation.used + others:
        return f"{reservation.used + others} instances run in it, more than {total}"
    if change.available is not None and change.available > total - reservation.used:
        return f"of {total} instances {reservation.used} are used: {change.available} are not free"
    return ""


def _unavailable_offering(pattern: OfferingPattern) -> UnavailableOffering:
    return UnavailableOffering(
        instanceType=pattern.instance_type, zone=pattern.zone, capacityType=pattern.capacity_type
    )


def _matches(instance: Instance, pattern: OfferingPattern) -> bool:
    return (
        fnmatchcase(instance.type, pattern.instance_type or "*")
        and pattern.zone in (None, instance.zone)
        and pattern.capacity_type in (None, capacity_type_of(instance))
        and pattern.reservation_id in (None, instance.reservation)
    )


def _call_fault(action: FailCalls | ThrottleCalls) -> CallFault:
    if isinstance(action, ThrottleCalls):
        return CallFault(
            operation=action.operation, share=action.share, code=action.code, throttles=True
        )
    return CallFault(
        operation=action.operation, share=action.share, kind=action.kind, code=action.code
    )


def _launch_fault(action: FailCalls | ThrottleCalls) -> LaunchFault:
    pattern = action.offerings
    default = THROTTLED if isinstance(action, ThrottleCalls) else NO_CAPACITY
    return LaunchFault(
        code=action.code or default,
        probability=action.share,
        instance_type=pattern.instance_type,
        zone=pattern.zone,
        capacity_type=pattern.capacity_type,
        reservation=pattern.reservation_id,
    )
