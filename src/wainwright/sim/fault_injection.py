"""Faults at every call that the controllers make to the cluster and to EC2, by a seed.

Whether a call fails, and how, follows from the seed, the operation and how many calls of that
operation came before; what happened to other calls has no part in it. So a run can be repeated with
only some of its faults (`only`), each known by its name: `create NodeClaim #3: after`.

What is injected is what a real API server, EC2 and a real machine may do:

- a call fails before it is carried out, or after it; its answer is lost; it is slow or throttled;
- the process dies before a call, after it, or a few steps of the event loop later, while its other
  tasks stand at whatever await they have reached;
- a watch is delayed, ends, repeats an event, or answers 410 so that everything is listed again.
  The order of one kind is kept, as by an API server; that of different kinds is not;
- the clock of the controllers is set forward or back. They read another time then, and sleep as
  long as before; the API server, the kubelets and EC2 keep theirs.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

import msgspec

from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.clock import Clock
from wainwright.cluster import (
    NO_PRECONDITIONS,
    Cluster,
    MergePatch,
    ObjectList,
    ObjectT,
    Preconditions,
    WatchEvent,
)
from wainwright.controllers.runtime import Subject, existence_of
from wainwright.emulator.context import Params, Response
from wainwright.emulator.faults import CONNECTION_CLOSED, throttling_error
from wainwright.errors import (
    AwsError,
    ResourceVersionGoneError,
    ServerUnavailableError,
    TooManyRequestsError,
    WainError,
)
from wainwright.sim.aws_calls import LOST_AFTER, SERVER_ERROR, AwsCalls

CLUSTER_TIMEOUT: Final = 30.0  # seconds until a client of the API server gives up
LONGEST_CALL: Final = 20.0
LONGEST_WATCH_DELAY: Final = 60.0
MOST_STEPS: Final = 8
"""Steps of the event loop between a call and the death that it brings about."""
DRAWN_BYTES: Final = 8

Answer = TypeVar("Answer")


class Fault(StrEnum):
    BEFORE = "before"
    """An error, and nothing was done."""
    AFTER = "after"
    """Done, and an error is answered."""
    LOST = "lost"
    """Done, and the caller gives up waiting for the answer."""
    SLOW = "slow"
    """Takes up to 20 s, half of the time before it is done and half of it after."""
    THROTTLED = "throttled"
    DIES_BEFORE = "dies-before"
    """The process dies, and the call was not made."""
    DIES_AFTER = "dies-after"
    """The process dies, and the call was carried out."""
    DIES_SOON = "dies-soon"
    """The process dies within a few steps of the event loop."""
    DELAYED = "delayed"
    """Of a watch: nothing comes for up to a minute."""
    DROPPED = "dropped"
    """Of a watch: the connection ends before the event."""
    REPEATED = "repeated"
    """Of a watch: the event comes twice."""
    GONE = "gone"
    """Of a watch: 410, everything is to be listed again."""


CALL_FAULTS: Final = (
    Fault.BEFORE,
    Fault.AFTER,
    Fault.LOST,
    Fault.SLOW,
    Fault.THROTTLED,
    Fault.DIES_BEFORE,
    Fault.DIES_AFTER,
    Fault.DIES_SOON,
)
WATCH_FAULTS: Final = (Fault.DELAYED, Fault.DROPPED, Fault.REPEATED, Fault.GONE)
OPENING_FAULTS: Final = (Fault.BEFORE, Fault.GONE)


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
    """From this moment on the controllers read a time that is off by so many seconds."""

    at: float
    """Seconds since the start."""
    offset: float


class FaultInjection(msgspec.Struct, frozen=True, kw_only=True):
    """The faults of one simulation."""

    seed: int
    shares: Mapping[Fault, float] = {}
    """Of the calls, or events of watches, that each kind can happen to."""
    clock_steps: tuple[ClockStep, ...] = ()
    """In the order of time."""
    until: float
    """Seconds since the start; afterwards nothing fails, and the clock is right."""
    only: frozenset[str] | None = None
    """Names of the faults that happen; None: all that the seed says."""

    def offset_at(self, moment: float) -> float:
        if moment >= self.until:
            return 0.0
        offsets = [step.offset for step in self.clock_steps if step.at <= moment]
        return offsets[-1] if offsets else 0.0

    @property
    def clock_error(self) -> float:
        """The most that the clock is off by."""
        return max((abs(step.offset) for step in self.clock_steps), default=0.0)


class DrawnFault(NamedTuple):
    kind: Fault
    strength: float
    """From 0 to 1: how long, how late."""


class InjectedFault(NamedTuple):
    """One that has happened."""

    at: float
    name: str


class FaultInjector:
    """Draws the faults of one simulation, and remembers those that happened."""

    def __init__(
        self,
        faults: FaultInjection,
        clock: Clock,
        start: float,
        kill: Callable[[], None],
        shown: Callable[[Subject], None] = lambda _: None,
    ) -> None:
        """`kill` ends the process; `shown` is told of what it learns of by a list or a watch,
        which may be long after the change.
        """
        self._faults, self._clock, self._start, self._kill = faults, clock, start, kill
        self.shown = shown
        self._counts: dict[str, int] = {}
        self._process: InjectedProcess | None = None
        self.happened: list[InjectedFault] = []

    def start_process(self, cluster: Cluster, aws: AwsCalls) -> "InjectedProcess":
        """What a process that starts now is given in place of these."""
        self._process = InjectedProcess(self, cluster, aws, self._clock)
        return self._process

    def now(self) -> float:
        """Seconds since the start."""
        return self._clock.now() - self._start

    def offset(self) -> float:
        return self._faults.offset_at(self.now())

    def draw(self, operation: str, kinds: Sequence[Fault]) -> DrawnFault | None:
        """The fault of the next call of this operation."""
        if self.now() >= self._faults.until:
            return None
        number = self._counts[operation] = self._counts.get(operation, 0) + 1
        key = f"{self._faults.seed} {operation} {number}".encode()
        digest = blake2b(key, digest_size=2 * DRAWN_BYTES).digest()
        fault = self._choose(_share(digest[:DRAWN_BYTES]), kinds)
        name = f"{operation} #{number}: {fault}"
        if fault is None or (self._faults.only is not None and name not in self._faults.only):
            return None
        self.happened.append(InjectedFault(round(self.now(), 3), name))
        return DrawnFault(fault, _share(digest[DRAWN_BYTES:]))

    def _choose(self, drawn: float, kinds: Sequence[Fault]) -> Fault | None:
        for kind in kinds:
            drawn -= self._faults.shares.get(kind, 0.0)
            if drawn < 0:
                return kind
        return None

    def process_died(self) -> None:
        """Whoever ends it."""
        if self._process is not None:
            self._process.is_dead = True

    def die(self) -> None:
        self.process_died()
        self._kill()

    def die_after(self, steps: int, process: "InjectedProcess") -> None:
        if process.is_dead:
            return
        if steps <= 0:
            self.die()
            return
        asyncio.get_running_loop().call_soon(self.die_after, steps - 1, process)


class InjectedProcess:
    """The ports of one process, until it dies."""

    def __init__(
        self, injector: FaultInjector, cluster: Cluster, aws: AwsCalls, clock: Clock
    ) -> None:
        self._injector, self._clock = injector, clock
        self.is_dead = False
        self.cluster: Cluster = InjectedCluster(self, cluster)
        self.aws: AwsCalls = InjectedAwsCalls(self, aws)
        self.clock: Clock = SteppedClock(injector, clock)

    def shown(self, kind: type[WireStruct]) -> None:
        """Polls that looked before this process could know of a change look again."""
        for subject in (kind.__name__, existence_of(kind.__name__)):
            self._injector.shown(subject)

    async def draw(self, operation: str, kinds: Sequence[Fault]) -> DrawnFault | None:
        await self._require_alive()
        return self._injector.draw(operation, kinds)

    async def _require_alive(self) -> None:
        """A process that is dead makes no calls: each of its tasks waits to be cancelled."""
        if not self.is_dead:
            return
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        await asyncio.get_running_loop().create_future()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._require_alive()

    async def call(
        self,
        operation: str,
        carry_out: Callable[[], Awaitable[Answer]],
        error_of: Callable[[Fault], WainError],
        give_up_after: float,
    ) -> Answer:
        fault = await self.draw(operation, CALL_FAULTS)
        if fault is None:
            return await carry_out()
        await self._before(fault, error_of)
        answer = await carry_out()
        await self._after(fault, error_of, give_up_after)
        return answer

    async def _before(self, fault: DrawnFault, error_of: Callable[[Fault], WainError]) -> None:
        if fault.kind in (Fault.BEFORE, Fault.THROTTLED):
            raise error_of(fault.kind)
        if fault.kind is Fault.DIES_BEFORE:
            await self._die()
        elif fault.kind is Fault.DIES_SOON:
            self._injector.die_after(int(fault.strength * MOST_STEPS), self)
        elif fault.kind is Fault.SLOW:
            await self.sleep(fault.strength * LONGEST_CALL / 2)

    async def _after(
        self, fault: DrawnFault, error_of: Callable[[Fault], WainError], give_up_after: float
    ) -> None:
        if fault.kind is Fault.DIES_AFTER:
            await self._die()
        elif fault.kind is Fault.SLOW:
            await self.sleep(fault.strength * LONGEST_CALL / 2)
        elif fault.kind is Fault.LOST:
            await self.sleep(give_up_after)
        if fault.kind in (Fault.AFTER, Fault.LOST):
            raise error_of(fault.kind)

    async def _die(self) -> None:
        self._injector.die()
        await self._require_alive()


class SteppedClock:
    """The clock of a machine whose time was set: implements `Clock`."""

    def __init__(self, injector: FaultInjector, clock: Clock) -> None:
        self._injector, self._clock = injector, clock

    def now(self) -> float:
        return self._clock.now() + self._injector.offset()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class InjectedAwsCalls:
    """A seam of the AWS provider whose calls fail."""

    def __init__(self, process: InjectedProcess, aws: AwsCalls) -> None:
        self._process, self._aws = process, aws

    async def call(self, service: str, operation: str, params: Params) -> Response:
        carry_out = partial(self._aws.call, service, operation, params)
        error_of = partial(_aws_error, service)
        return await self._process.call(operation, carry_out, error_of, LOST_AFTER)


class InjectedCluster:
    """Implements `Cluster` with calls that fail and watches that lag."""

    def __init__(self, process: InjectedProcess, cluster: Cluster) -> None:
        self._process, self._cluster = process, cluster

    async def _call(
        self, verb: str, kind: type[WireStruct], carry_out: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        operation = f"{verb} {kind.__name__}"
        return await self._process.call(operation, carry_out, _cluster_error, CLUSTER_TIMEOUT)

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, name: str = ""
    ) -> ObjectList[ObjectT]:
        carry_out = partial(self._cluster.list, kind, namespace, name=name)
        listed = await self._call("list", kind, carry_out)
        self._process.shown(kind)
        return listed

    async def list_pods_on_node(self, node: str) -> ObjectList[Pod]:
        carry_out = partial(self._cluster.list_pods_on_node, node)
        return await self._call("list on a node", Pod, carry_out)

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        return await self._call("get", kind, partial(self._cluster.get, kind, name, namespace))

    async def create(self, obj: ObjectT) -> ObjectT:
        return await self._call("create", type(obj), partial(self._cluster.create, obj))

    async def patch(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        carry_out = partial(self._cluster.patch, kind, name, patch, namespace)
        return await self._call("patch", kind, carry_out)

    async def patch_status(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        carry_out = partial(self._cluster.patch_status, kind, name, patch, namespace)
        return await self._call("patch status", kind, carry_out)

    async def delete(
        self,
        kind: type[WireStruct],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> None:
        carry_out = partial(
            self._cluster.delete,
            kind,
            name,
            namespace,
            preconditions=preconditions,
            grace_period=grace_period,
        )
        await self._call("delete", kind, carry_out)

    async def evict(
        self, name: str, namespace: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        carry_out = partial(
            self._cluster.evict, name, namespace, uid=uid, grace_period=grace_period
        )
        await self._process.call("evict", carry_out, _cluster_error, CLUSTER_TIMEOUT)

    async def watch(
        self, kind: type[ObjectT], resource_version: str
    ) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        opening = await self._process.draw(f"watch {kind.__name__}", OPENING_FAULTS)
        if opening is not None:
            raise _watch_error(opening.kind)
        async with aclosing(self._cluster.watch(kind, resource_version)) as events:
            async for event in events:
                fault = await self._process.draw(f"event {kind.__name__}", WATCH_FAULTS)
                if fault is not None and fault.kind is Fault.DROPPED:
                    return
                if fault is not None and fault.kind is Fault.GONE:
                    raise _watch_error(fault.kind)
                if fault is not None and fault.kind is Fault.DELAYED:
                    await self._process.sleep(fault.strength * LONGEST_WATCH_DELAY)
                yield event
                if event.object is not None:
                    self._process.shown(kind)
                if fault is not None and fault.kind is Fault.REPEATED:
                    yield event


def _share(drawn: bytes) -> float:
    return float(int.from_bytes(drawn, "big") / 256 ** len(drawn))


def _cluster_error(fault: Fault) -> WainError:
    if fault is Fault.THROTTLED:
        return TooManyRequestsError("injected: too many requests")
    return ServerUnavailableError(f"injected: {fault}")


def _watch_error(fault: Fault) -> WainError:
    if fault is Fault.GONE:
        return ResourceVersionGoneError("injected: too old resource version")
    return ServerUnavailableError(f"injected: {fault}")


def _aws_error(service: str, fault: Fault) -> WainError:
    if fault is Fault.THROTTLED:
        return throttling_error(service)
    if fault is Fault.LOST:
        return AwsError(CONNECTION_CLOSED, "injected: no answer came in time", 0)
    return AwsError(SERVER_ERROR, f"injected: {fault}", 500)
