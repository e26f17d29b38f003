"""Interruptions: what befalls machines from outside, and the messages that tell of it.

A warning comes first and the end two minutes later, by appointment. What DescribeInstanceStatus
shows of a machine beside its state stands in `state` here: `events` (scheduled by EC2) and
`impaired` (checks that fail, and since when), both by the id of the machine.

Wiring: register it beside the services so that its state is saved, and have machines watched by
`instances.watch(interruptions.noticed)`: that sends the state changes and forgets the dead.
Without a queue of that name nobody is told, and everything happens all the same.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from wainwright.emulator import events
from wainwright.emulator.events import Event
from wainwright.emulator.ids import new
from wainwright.emulator.world import Handler, World
from wainwright.errors import BadInput

NOTICE: Final = 120.0
MONTH: Final = 30 * 86_400.0
ENDS: Final = "interruption.ends"
STRIKES: Final = "interruption.spot"
SHOWN: Final = frozenset({"pending", "running", "shutting-down", "terminated"})
OVER: Final = frozenset({"terminated", "gone"})

SPOT_REASON: Final = "Server.SpotInstanceTermination"
RESERVATION_REASON: Final = "Server.CapacityReservationInterruption"
SCHEDULED_REASON: Final = "Server.ScheduledStop"


class Code(StrEnum):
    """What EC2 schedules."""

    INSTANCE_REBOOT = "instance-reboot"
    SYSTEM_REBOOT = "system-reboot"
    SYSTEM_MAINTENANCE = "system-maintenance"
    INSTANCE_RETIREMENT = "instance-retirement"
    INSTANCE_STOP = "instance-stop"

    @property
    def final(self) -> bool:
        """Whether the machine is gone afterwards."""
        return self in (Code.INSTANCE_RETIREMENT, Code.INSTANCE_STOP)


class Check(StrEnum):
    """What EC2 looks at."""

    INSTANCE = "instance"
    SYSTEM = "system"
    EBS = "attached-ebs"


class ScheduledEvent(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    code: Code
    description: str
    not_before: float
    not_after: float


class InterruptionState(msgspec.Struct, kw_only=True):
    events: dict[str, list[ScheduledEvent]] = {}
    impaired: dict[str, dict[Check, float]] = {}
    """Which checks fail, and since when."""
    spot_share: float = 0.0
    """The share of spot machines that EC2 takes back within thirty days; none unless asked for."""


class Victim(Protocol):
    """What must be known of a machine."""

    @property
    def id(self) -> str: ...
    @property
    def zone(self) -> str: ...
    @property
    def zone_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def lifecycle(self) -> str: ...


class Victims(Protocol):
    def get(self, instance: str) -> Victim | None: ...

    def terminate(self, ids: Iterable[str], reason: str) -> None: ...


class Sender(Protocol):
    def send(self, queue: str, body: str) -> None: ...


class Interruptions:
    name = "interruptions"

    def __init__(self, world: World, sender: Sender, queue: str, machines: Victims) -> None:
        self.state = InterruptionState()
        self._world = world
        self._sender = sender
        self._queue = queue
        self._machines = machines
        world.on(ENDS, self._end)
        world.on(STRIKES, self._strike)

    def operations(self) -> Mapping[str, Handler]:
        """None of its own: it is told from within what to do."""
        return {}

    def spot(self, instance: str, notice: float = NOTICE) -> None:
        """EC2 wants the machine back."""
        victim = self._known(instance)
        self._tell(events.spot_interruption(self._world, victim.id, victim.zone))
        self._end_later(victim, notice, SPOT_REASON)

    def rebalance(self, instance: str) -> None:
        """EC2 may want the machine back before long; nothing else happens."""
        victim = self._known(instance)
        self._tell(events.rebalance(self._world, victim.id, victim.zone))

    def reservation(self, instance: str, notice: float = NOTICE) -> None:
        """Whoever lent the capacity takes it back, or the block that it came with is over."""
        victim, ends = self._known(instance), self._world.now() + notice
        self._tell(
            events.reservation_interruption(
                self._world, victim.id, victim.zone_id, victim.lifecycle, ends
            )
        )
        self._end_later(victim, notice, RESERVATION_REASON)

    def block(
        self, reservation: str, machines: Iterable[Victim], *, ends: float, taken: float
    ) -> None:
        """A capacity block is nearly over, and its machines are taken before; others do that."""
        self._tell(events.block_expires(self._world, reservation, ends))
        for each in machines:
            told = (each.id, each.zone_id, each.lifecycle, taken)
            self._tell(events.reservation_interruption(self._world, *told))

    def schedule(
        self, instance: str, code: Code, *, starts: float, lasts: float = 3600.0
    ) -> ScheduledEvent:
        """EC2 will do something to the machine; `starts` in seconds since 1970."""
        victim = self._known(instance)
        event = ScheduledEvent(
            id=new(self._world, "instance-event"),
            code=code,
            description=f"{code.replace('-', ' ')} is scheduled",
            not_before=starts,
            not_after=starts + lasts,
        )
        self.state.events.setdefault(victim.id, []).append(event)
        window = (event.not_before, event.not_after)
        self._tell(events.scheduled_change(self._world, [victim.id], code, window))
        if code.final:
            self._end_later(victim, max(starts - self._world.now(), 0.0), SCHEDULED_REASON)
        return event

    def impair(self, instance: str, check: Check) -> None:
        """From now on the check fails; it is not a second time that it begins to."""
        failing = self.state.impaired.setdefault(self._known(instance).id, {})
        failing.setdefault(check, self._world.now())

    def mend(self, instance: str) -> None:
        """All checks pass again."""
        self.state.impaired.pop(instance, None)

    def noticed(self, machine: Victim, before: str) -> None:
        """A machine was born or has changed its state."""
        if machine.state in SHOWN and machine.state != before:
            self._tell(events.state_change(self._world, machine.id, machine.state))
        if machine.state in OVER:
            self.state.events.pop(machine.id, None)
            self.state.impaired.pop(machine.id, None)
        if not before and machine.lifecycle == "spot" and self.state.spot_share:
            self._world.at(self._world.now() + self._lifetime(), STRIKES, id=machine.id)

    def _lifetime(self) -> float:
        """Without memory: a machine that has lived long is as safe as a new one."""
        return self._world.random.expovariate(self.state.spot_share / MONTH)

    def _strike(self, about: Mapping[str, Any]) -> None:
        victim = self._machines.get(about["id"])
        if victim is not None and victim.state not in OVER and victim.state != "shutting-down":
            self.spot(victim.id)

    def _end_later(self, victim: Victim, seconds: float, reason: str) -> None:
        self._world.at(self._world.now() + seconds, ENDS, id=victim.id, reason=reason)

    def _end(self, about: Mapping[str, Any]) -> None:
        """To a machine that is gone already it makes no difference."""
        self._machines.terminate([about["id"]], about["reason"])

    def _known(self, instance: str) -> Victim:
        victim = self._machines.get(instance)
        if victim is None:
            raise BadInput(f"there is no machine {instance}", "name one that DescribeInstances has")
        return victim

    def _tell(self, event: Event) -> None:
        self._sender.send(self._queue, events.body(self._world, event))
