"""Instances as data, and their lifecycle: pending, running, shutting down, terminated, and after an
hour forgotten.
"""

from collections.abc import Callable, Iterable
from math import exp
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.emulator.context import AccountContext

PENDING: Final = "pending"
RUNNING: Final = "running"
SHUTTING_DOWN: Final = "shutting-down"
TERMINATED: Final = "terminated"
FORGOTTEN: Final = "gone"  # what only our own parts get to see
STATE_CODES: Final = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48}
ALIVE_STATES: Final = (PENDING, RUNNING)

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
CAPACITY_BLOCK: Final = "capacity-block"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"

OPEN: Final = "open"
NONE: Final = "none"
RESERVATIONS_ONLY: Final = "capacity-reservations-only"


class NetworkInterface(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface that a machine is born with."""

    device: int = 0
    card: int = 0
    kind: str = "interface"
    groups: tuple[str, ...] = ()


class LaunchSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine is made of, whatever its type and place: the same for all of one launch."""

    image: str
    architecture: str
    windows: bool = False
    user_data: str | None = None
    """As it came: base64."""
    vpc: str = ""
    groups: dict[str, str] = {}
    """Id to name, of all interfaces."""
    interfaces: tuple[NetworkInterface, ...] = (NetworkInterface(),)
    profile: dict[str, str] | None = None
    """Arn and Id."""
    metadata: dict[str, Any] = {}
    disks: dict[str, bool] = {}
    """Device to whether it goes with the machine."""
    sizes: dict[str, int] = {}
    """Device to GiB, as far as image or launch say it."""
    root_device: str = "/dev/xvda"
    key: str | None = None
    monitored: bool = False
    enclave: bool = False
    ebs_optimized: bool = False
    tenancy: str = "default"
    placement_group: str | None = None

    @property
    def platform(self) -> str:
        """As capacity reservations spell it."""
        return "Windows" if self.windows else "Linux/UNIX"


class Instance(msgspec.Struct, kw_only=True):
    id: str
    number: int
    """In the order of launches."""
    run: str
    """What EC2 calls its reservation: the launch that it came out of."""
    index: int
    """Within that launch."""
    type: str
    build: str
    """Which of the builds it is made from."""
    zone: str
    zone_id: str
    subnet: str
    address: str
    launched: float
    visible: float
    """From when on it is found by those who ask for it."""
    state: str = PENDING
    reason: str = ""
    """Why it ended."""
    lifecycle: str = ON_DEMAND
    spot_request: str | None = None
    preference: str = OPEN
    target: str | None = None
    """The capacity reservation that it must run in."""
    reservation: str | None = None
    """The capacity reservation that it runs in."""
    token: str = ""
    joins: bool = True
    """Whether it comes up as it should; the others run, and nobody ever hears of them."""
    tags: dict[str, str] = {}

    @property
    def alive(self) -> bool:
        """Whether it takes up capacity."""
        return self.state in ALIVE_STATES


RUNNING_EVENT: Final = "ec2.instance.running"
TERMINATED_EVENT: Final = "ec2.instance.terminated"
FORGOTTEN_EVENT: Final = "ec2.instance.forgotten"
USER_INITIATED_SHUTDOWN: Final = "Client.UserInitiatedShutdown"

StateChangeListener: TypeAlias = Callable[[Instance, str], None]
"""Told of a machine that has changed its state, and which one it had; "" if it is new."""


class DelayDistribution(msgspec.Struct, frozen=True, kw_only=True):
    """How long something takes: log-normal around its median; always the same without spread."""

    median: float = 0.0
    spread: float = 0.0
    """Standard deviation of the logarithm."""

    def draw(self, chance: Random) -> float:
        if not self.spread:
            return self.median
        return self.median * exp(chance.gauss(0.0, self.spread))


class InstanceTimings(msgspec.Struct, frozen=True, kw_only=True):
    """How quickly machines come and go."""

    boot: DelayDistribution = DelayDistribution(median=1.0)
    shutdown: DelayDistribution = DelayDistribution(median=1.0)
    invisible: DelayDistribution = DelayDistribution()
    """How long a new machine is not found by those who ask for it."""
    remembered: float = 3600.0
    """How long a terminated machine is still shown."""
    duds: float = 0.0
    """The share of machines that never join their cluster."""


class InstancesState(msgspec.Struct, kw_only=True):
    """All machines of the account, in the order of their launch."""

    instances: dict[str, Instance] = {}
    builds: dict[str, LaunchSpecification] = {}
    number: int = 0
    """Of the last machine."""
    pace: InstanceTimings = InstanceTimings()


class InstanceLifecycle:
    """Moves machines from state to state, and tells those who want to know."""

    def __init__(self, context: AccountContext) -> None:
        self._context = context
        self._watchers: list[StateChangeListener] = []
        self.machines = InstancesState()
        context.on(RUNNING_EVENT, self._rise)
        context.on(TERMINATED_EVENT, self._terminate)
        context.on(FORGOTTEN_EVENT, self._forget)

    def watch(self, told: StateChangeListener) -> None:
        """In the order of asking."""
        self._watchers.append(told)

    def begin(self, born: Iterable[Instance]) -> None:
        """Adds machines that have just been launched."""
        pace, now = self.machines.pace, self._context.now()
        batches = TimedEventBatches(self._context, RUNNING_EVENT)
        for instance in born:
            self.machines.instances[instance.id] = instance
            self._tell(instance, "")
            batches.add(now + pace.boot.draw(self._context.random), instance.id)
        batches.make()

    def end(self, instances: Iterable[Instance], reason: str = USER_INITIATED_SHUTDOWN) -> None:
        """Shuts down those that are alive; to the others it has happened already."""
        pace, now = self.machines.pace, self._context.now()
        batches = TimedEventBatches(self._context, TERMINATED_EVENT)
        for instance in instances:
            if not instance.alive:
                continue
            instance.reason = reason
            self._move(instance, SHUTTING_DOWN)
            batches.add(now + pace.shutdown.draw(self._context.random), instance.id)
        batches.make()

    def _rise(self, about: Any) -> None:
        for instance in self._known(about):
            if instance.state == PENDING:
                self._move(instance, RUNNING)

    def _terminate(self, about: Any) -> None:
        for instance in self._known(about):
            self._move(instance, TERMINATED)
        due = self._context.now() + self.machines.pace.remembered
        self._context.at(due, FORGOTTEN_EVENT, ids=list(about["ids"]))

    def _forget(self, about: Any) -> None:
        for instance in self._known(about):
            del self.machines.instances[instance.id]
            self._move(instance, FORGOTTEN)

    def _known(self, about: Any) -> list[Instance]:
        known = self.machines.instances
        return [known[each] for each in about["ids"] if each in known]

    def _move(self, instance: Instance, state: str) -> None:
        before, instance.state = instance.state, state
        self._tell(instance, before)

    def _tell(self, instance: Instance, before: str) -> None:
        for told in self._watchers:
            told(instance, before)


class TimedEventBatches:
    """Appointments of one kind for several machines; those at the same moment become one."""

    def __init__(self, context: AccountContext, kind: str) -> None:
        self._context = context
        self._kind = kind
        self._ids: dict[float, list[str]] = {}

    def add(self, moment: float, instance: str) -> None:
        self._ids.setdefault(moment, []).append(instance)

    def make(self) -> None:
        for moment, ids in self._ids.items():
            self._context.at(moment, self._kind, ids=ids)
