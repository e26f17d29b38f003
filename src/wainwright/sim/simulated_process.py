"""The process of the controllers in a simulation: what it gets, and how it dies and starts anew."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, Protocol

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
from wainwright.controllers.reports import ControllerReports
from wainwright.controllers.runtime import ChangeFeed
from wainwright.emulator.ec2.region_offerings import OfferingKey
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.aws_calls import AwsCalls
from wainwright.sim.settings import SimulationSettings

START_SECONDS: Final = 5.0
"""From the death of a process until another one is up."""


class PodDeletionListener(Protocol):
    """Hears of pods that the controllers delete or evict, before the API server does."""

    def deleting(self, pod: Pod) -> None: ...

    def evicting(self, pod: Pod) -> None: ...


class ControllerClient:
    """Implements `Cluster` for the controllers: tells how they end pods."""

    def __init__(self, api: InMemoryApiServer, listener: PodDeletionListener) -> None:
        self._api = api
        self._listener = listener

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, name: str = ""
    ) -> ObjectList[ObjectT]:
        return await self._api.list(kind, namespace, name=name)

    async def list_pods_on_node(self, node: str) -> ObjectList[Pod]:
        return await self._api.list_pods_on_node(node)

    def watch(
        self, kind: type[ObjectT], resource_version: str
    ) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        return self._api.watch(kind, resource_version)

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        return await self._api.get(kind, name, namespace)

    async def create(self, obj: ObjectT) -> ObjectT:
        return await self._api.create(obj)

    async def patch(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        return await self._api.patch(kind, name, patch, namespace)

    async def patch_status(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        return await self._api.patch_status(kind, name, patch, namespace)

    async def delete(
        self,
        kind: type[WireStruct],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> None:
        pod = self._api.peek(Pod, name, namespace) if kind is Pod and self._api.is_up else None
        is_meant = pod is not None and preconditions.uid in ("", pod.metadata.uid)
        if pod is not None and is_meant and pod.metadata.deletionTimestamp is None:
            self._listener.deleting(pod)
        await self._api.delete(
            kind, name, namespace, preconditions=preconditions, grace_period=grace_period
        )

    async def evict(
        self, name: str, namespace: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        pod = self._api.peek(Pod, name, namespace)
        await self._api.evict(name, namespace, uid=uid, grace_period=grace_period)
        if pod is not None:
            self._listener.evicting(pod)


class SimulatedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """What the controllers get."""

    cluster: Cluster
    aws: AwsCalls
    """A seam of the AWS provider."""
    clock: Clock
    cluster_name: str
    region: str
    queue: str
    """The interruption queue."""
    settings: SimulationSettings
    volumes: int | None = None
    """How many can be attached to each node; None: as many as its instance type attaches."""
    identity: str
    """From the seed, and another one for each start."""
    reports: ControllerReports
    account_revision: Callable[[], int]
    """Another number after each change in the account."""
    modelled_prices: frozenset[OfferingKey] = frozenset()
    """Offerings whose price the emulated account made up."""
    feed: ChangeFeed | None
    """Tells of every change in the world, so that polls which would find nothing are left out;
    None: they are all made."""


class RunningController(Protocol):
    """Everything that one process runs."""

    @property
    def next_due(self) -> float | None:
        """When it next does something by time alone, but for expiry and polls."""
        ...

    async def run(self) -> None:
        """Until cancelled."""
        ...


ControllerFactory = Callable[[SimulatedProcess], RunningController]


class NoControllers:
    """A cluster in which nobody manages nodes."""

    next_due = None

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


class ControllerProcess:
    """Runs the controllers, one process after the other."""

    def __init__(
        self,
        make: Callable[[int], RunningController],
        clock: Clock,
        on_restart: Callable[[str], None],
    ) -> None:
        self._make = make
        self._clock = clock
        self._on_restart = on_restart
        self._starts = 0
        self._current: RunningController | None = None
        self._died = asyncio.Event()

    @property
    def next_due(self) -> float | None:
        return self._current.next_due if self._current is not None else self._clock.now()

    def restart(self) -> None:
        """The process dies now, also one that is just starting."""
        self._on_restart("the controllers stop; they start again in 5 s")
        self._died.set()

    async def run(self) -> None:
        while True:
            self._died.clear()
            self._current = self._make(self._starts)
            self._starts += 1
            await self._until_dead(self._current.run())
            self._current = None
            await self._wait_for_start()
            self._on_restart("the controllers have started again")

    async def _until_dead(self, running: Awaitable[None]) -> None:
        work = asyncio.ensure_future(running)
        death = asyncio.ensure_future(self._died.wait())
        try:
            await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()  # raises what ended it
        finally:
            for task in (work, death):
                task.cancel()
            await asyncio.gather(work, death, return_exceptions=True)

    async def _wait_for_start(self) -> None:
        """Another death while it is starting begins the time anew."""
        while True:
            self._died.clear()
            try:
                async with asyncio.timeout(START_SECONDS):
                    await self._died.wait()
            except TimeoutError:
                return
