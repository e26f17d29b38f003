"""The life of a machine: pending, running, shutting down, terminated, after an hour forgotten."""

from collections.abc import Callable, Iterable
from math import exp
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.emulator.ec2.machines import (
    GONE,
    PENDING,
    RUNNING,
    SHUTTING_DOWN,
    TERMINATED,
    Build,
    Instance,
)
from wainwright.emulator.world import World

RISES: Final = "ec2.instance.running"
ENDS: Final = "ec2.instance.terminated"
FADES: Final = "ec2.instance.forgotten"
BY_USER: Final = "Client.UserInitiatedShutdown"

Change: TypeAlias = Callable[[Instance, str], None]
"""Told of a machine that has changed its state, and which one it had; "" if it is new."""


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """How long something takes: log-normal around its median; always the same without spread."""

    median: float = 0.0
    spread: float = 0.0
    """Standard deviation of the logarithm."""

    def draw(self, chance: Random) -> float:
        if not self.spread:
            return self.median
        return self.median * exp(chance.gauss(0.0, self.spread))


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How quickly machines come and go."""

    boot: Delay = Delay(median=1.0)
    shutdown: Delay = Delay(median=1.0)
    invisible: Delay = Delay()
    """How long a new machine is not found by those who ask for it."""
    remembered: float = 3600.0
    """How long a terminated machine is still shown."""
    duds: float = 0.0
    """The share of machines that never join their cluster."""


class Machines(msgspec.Struct, kw_only=True):
    """All machines of the account, in the order of their launch."""

    instances: dict[str, Instance] = {}
    builds: dict[str, Build] = {}
    number: int = 0
    """Of the last machine."""
    pace: Pace = Pace()


class Lifecycle:
    """Moves machines from state to state, and tells those who want to know."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._watchers: list[Change] = []
        self.machines = Machines()
        world.on(RISES, self._rise)
        world.on(ENDS, self._terminate)
        world.on(FADES, self._forget)

    def watch(self, told: Change) -> None:
        """In the order of asking."""
        self._watchers.append(told)

    def begin(self, born: Iterable[Instance]) -> None:
        """Adds machines that have just been launched."""
        pace, now = self.machines.pace, self._world.now()
        batches = Batches(self._world, RISES)
        for instance in born:
            self.machines.instances[instance.id] = instance
            self._tell(instance, "")
            batches.add(now + pace.boot.draw(self._world.random), instance.id)
        batches.make()

    def end(self, instances: Iterable[Instance], reason: str = BY_USER) -> None:
        """Shuts down those that are alive; to the others it has happened already."""
        pace, now = self.machines.pace, self._world.now()
        batches = Batches(self._world, ENDS)
        for instance in instances:
            if not instance.alive:
                continue
            instance.reason = reason
            self._move(instance, SHUTTING_DOWN)
            batches.add(now + pace.shutdown.draw(self._world.random), instance.id)
        batches.make()

    def _rise(self, about: Any) -> None:
        for instance in self._known(about):
            if instance.state == PENDING:
                self._move(instance, RUNNING)

    def _terminate(self, about: Any) -> None:
        for instance in self._known(about):
            self._move(instance, TERMINATED)
        due = self._world.now() + self.machines.pace.remembered
        self._world.at(due, FADES, ids=list(about["ids"]))

    def _forget(self, about: Any) -> None:
        for instance in self._known(about):
            del self.machines.instances[instance.id]
            self._move(instance, GONE)

    def _known(self, about: Any) -> list[Instance]:
        known = self.machines.instances
        return [known[each] for each in about["ids"] if each in known]

    def _move(self, instance: Instance, state: str) -> None:
        before, instance.state = instance.state, state
        self._tell(instance, before)

    def _tell(self, instance: Instance, before: str) -> None:
        for told in self._watchers:
            told(instance, before)


class Batches:
    """Appointments of one kind for several machines; those at the same moment become one."""

    def __init__(self, world: World, kind: str) -> None:
        self._world = world
        self._kind = kind
        self._ids: dict[float, list[str]] = {}

    def add(self, moment: float, instance: str) -> None:
        self._ids.setdefault(moment, []).append(instance)

    def make(self) -> None:
        for moment, ids in self._ids.items():
            self._world.at(moment, self._kind, ids=ids)
