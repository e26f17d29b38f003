"""Instances as data, and their lifecycle: pending, running, shutting down, terminated, and after an
hour removed.
"""

from collections.abc import Callable, Iterable
from math import exp
from random import Random
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from wainwright.emulator.context import AccountContext

PENDING: Final = "pending"
RUNNING: Final = "running"
SHUTTING_DOWN: Final = "shutting-down"
TERMINATED: Final = "terminated"
REMOVED: Final = "gone"  # removed; seen only by listeners, never in a response
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
    """A network interface of a new instance."""

    device: int = 0
    card: int = 0
    kind: str = "interface"
    groups: tuple[str, ...] = ()


class LaunchSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """Launch parameters without instance type and subnet: shared by the instances of a launch."""

    image: str
    architecture: str
    windows: bool = False
    user_data: str | None = None
    """As in the request: base64."""
    vpc: str = ""
    groups: dict[str, str] = {}
    """Security group names by id, of all interfaces."""
    interfaces: tuple[NetworkInterface, ...] = (NetworkInterface(),)
    profile: dict[str, str] | None = None
    """Arn and Id."""
    metadata: dict[str, Any] = {}
    disks: dict[str, bool] = {}
    """DeleteOnTermination by device name."""
    sizes: dict[str, int] = {}
    """GiB by device name, as far as image or launch parameters specify it."""
    root_device: str = "/dev/xvda"
    key: str | None = None
    monitored: bool = False
    enclave: bool = False
    ebs_optimized: bool = False
    tenancy: str = "default"
    placement_group: str | None = None

    @property
    def platform(self) -> str:
        """The platform as in capacity reservations."""
        return "Windows" if self.windows else "Linux/UNIX"


class Instance(msgspec.Struct, kw_only=True):
    id: str
    number: int
    """Sequence number over all launches of the account."""
    launch_id: str = msgspec.field(name="run")
    """EC2's ReservationId: the launch request that it came from."""
    index: int
    """AmiLaunchIndex within that launch."""
    type: str
    specification_key: str = msgspec.field(name="build")
    """The key of its launch specification in `InstancesState.specifications`."""
    zone: str
    zone_id: str
    subnet: str
    address: str
    launched: float
    visible_from: float = msgspec.field(name="visible")
    """Since when the API finds it."""
    state: str = PENDING
    reason: str = ""
    """Why it was terminated; empty before."""
    lifecycle: str = ON_DEMAND
    spot_request: str | None = None
    preference: str = OPEN
    target: str | None = None
    """The capacity reservation that it must run in."""
    reservation: str | None = None
    """The capacity reservation that it runs in."""
    token: str = ""
    joins_cluster: bool = msgspec.field(default=True, name="joins")
    """Whether it can become a node; the others run and never join their cluster."""
    tags: dict[str, str] = {}

    @property
    def alive(self) -> bool:
        """Whether it takes up capacity."""
        return self.state in ALIVE_STATES


RUNNING_EVENT: Final = "ec2.instance.running"
TERMINATED_EVENT: Final = "ec2.instance.terminated"
REMOVED_EVENT: Final = "ec2.instance.forgotten"
USER_INITIATED_SHUTDOWN: Final = "Client.UserInitiatedShutdown"

StateChangeListener: TypeAlias = Callable[[Instance, str], None]
"""Called with an instance whose state has changed, and its previous state; "" for a new one."""


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class DelayDistribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A duration: log-normal around its median; constant without spread."""

    median: Seconds = 0.0
    spread: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.0
    """Standard deviation of the logarithm."""

    def draw(self, random: Random) -> float:
        if not self.spread:
            return self.median
        return self.median * exp(random.gauss(0.0, self.spread))


class InstanceTimings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Delays of boot, shutdown and visibility of instances."""

    boot: DelayDistribution = DelayDistribution(median=1.0)
    shutdown: DelayDistribution = DelayDistribution(median=1.0)
    visibility_delay: DelayDistribution = msgspec.field(
        default=DelayDistribution(), name="invisible"
    )
    """How long the API does not find a new instance."""
    retention_seconds: Seconds = msgspec.field(default=3600.0, name="remembered")
    """How long a terminated instance is still described."""
    never_join_rate: Share = msgspec.field(default=0.0, name="neverJoinRate")
    """The share of instances that never join their cluster."""


class InstancesState(msgspec.Struct, kw_only=True):
    """All instances of the account, in launch order."""

    instances: dict[str, Instance] = {}
    specifications: dict[str, LaunchSpecification] = msgspec.field(
        default_factory=dict, name="builds"
    )
    last_number: int = msgspec.field(default=0, name="number")
    """Sequence number of the last instance."""
    timings: InstanceTimings = msgspec.field(default=InstanceTimings(), name="pace")


class InstanceLifecycle:
    """Moves instances from state to state, and notifies listeners."""

    def __init__(self, context: AccountContext) -> None:
        self._context = context
        self._listeners: list[StateChangeListener] = []
        self.instances_state = InstancesState()
        context.register_handler(RUNNING_EVENT, self._mark_running)
        context.register_handler(TERMINATED_EVENT, self._terminate)
        context.register_handler(REMOVED_EVENT, self._remove)

    def add_listener(self, listener: StateChangeListener) -> None:
        """Listeners are called in the order in which they were added."""
        self._listeners.append(listener)

    def add_launched(self, launched: Iterable[Instance]) -> None:
        """Adds instances that were just launched."""
        timings, now = self.instances_state.timings, self._context.now()
        batches = TimedEventBatches(self._context, RUNNING_EVENT)
        for instance in launched:
            self.instances_state.instances[instance.id] = instance
            self._notify(instance, "")
            batches.add(now + timings.boot.draw(self._context.random), instance.id)
        batches.schedule_all()

    def shut_down(
        self, instances: Iterable[Instance], reason: str = USER_INITIATED_SHUTDOWN
    ) -> None:
        """Shuts down those that are pending or running, and ignores the others."""
        timings, now = self.instances_state.timings, self._context.now()
        batches = TimedEventBatches(self._context, TERMINATED_EVENT)
        for instance in instances:
            if not instance.alive:
                continue
            instance.reason = reason
            self._set_state(instance, SHUTTING_DOWN)
            batches.add(now + timings.shutdown.draw(self._context.random), instance.id)
        batches.schedule_all()

    def _mark_running(self, payload: Any) -> None:
        for instance in self._instances_of(payload):
            if instance.state == PENDING:
                self._set_state(instance, RUNNING)

    def _terminate(self, payload: Any) -> None:
        for instance in self._instances_of(payload):
            self._set_state(instance, TERMINATED)
        due = self._context.now() + self.instances_state.timings.retention_seconds
        self._context.schedule_event(due, REMOVED_EVENT, ids=list(payload["ids"]))

    def _remove(self, payload: Any) -> None:
        for instance in self._instances_of(payload):
            del self.instances_state.instances[instance.id]
            self._set_state(instance, REMOVED)

    def _instances_of(self, payload: Any) -> list[Instance]:
        instances = self.instances_state.instances
        return [instances[each] for each in payload["ids"] if each in instances]

    def _set_state(self, instance: Instance, state: str) -> None:
        previous_state, instance.state = instance.state, state
        self._notify(instance, previous_state)

    def _notify(self, instance: Instance, previous_state: str) -> None:
        for listener in self._listeners:
            listener(instance, previous_state)


class TimedEventBatches:
    """Timed events of one kind for several instances; those at the same time become one event.

    Without spread a launch of thousands of instances is one event instead of thousands.
    """

    def __init__(self, context: AccountContext, kind: str) -> None:
        self._context = context
        self._kind = kind
        self._ids: dict[float, list[str]] = {}

    def add(self, due: float, instance_id: str) -> None:
        self._ids.setdefault(due, []).append(instance_id)

    def schedule_all(self) -> None:
        for due, ids in self._ids.items():
            self._context.schedule_event(due, self._kind, ids=ids)
