"""Processes of `wain run` in virtual time, on the API server in memory, with a kube-scheduler."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.support.aws_account import CheckedApi, discovered_node_class
from tests.support.controlled_cluster import node_pool

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.aws.api.services import Seam
from wainwright.clock import VirtualClock
from wainwright.cluster import Cluster
from wainwright.kube.connections import MayWrite
from wainwright.operator.process import (
    EMULATOR,
    ClusterClients,
    ConnectCloud,
    ConnectedCloud,
    KnownCluster,
    OperatorCluster,
    OperatorProcess,
    RunOptions,
    cloud_connector,
)
from wainwright.operator.settings import OperatorSettings
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.informers import Informers
from wainwright.sim.kube_scheduler import KubeScheduler
from wainwright.sim.node_lifecycle import NodeLifecycle

SETTINGS = OperatorSettings(cluster_name="shop")
CLOUD = Cloud(spec=CloudSpec(region="us-west-2", instanceTypes=["m5.large", "m5.xlarge"]))
NAMESPACE = "kube-system"


class Process:
    """One process of `wain run`, with tasks of its own."""

    def __init__(
        self,
        world: "World",
        options: RunOptions,
        settings: OperatorSettings,
        cluster: OperatorCluster | None = None,
        connect: ConnectCloud | None = None,
    ) -> None:
        """`cluster`: the port of its controllers, if it is another than that of its lease."""
        connect = connect or cloud_connector(settings, options, "1.33", world.clock)
        self.may_write: list[MayWrite] = []
        """What its controllers ask before each write, if a lease is needed."""
        clients = ClusterClients(
            cluster or world.api, of_lease=world.api, for_leader=self._for_leader
        )
        self._port = clients.cluster
        self.operator = OperatorProcess(
            clients, connect, settings, clock=world.clock, options=options
        )
        self.task = asyncio.create_task(self.operator.run())
        self._is_failure_expected = False

    def _for_leader(self, may_write: MayWrite) -> Cluster:
        self.may_write.append(may_write)
        return self._port

    async def stop(self) -> None:
        self.operator.stop()
        await self.task

    async def failure(self) -> BaseException | None:
        """What it ends with, within a minute."""
        self._is_failure_expected = True
        await asyncio.wait({self.task}, timeout=60)
        return self.task.exception()

    async def kill(self) -> None:
        if self._is_failure_expected and self.task.done():
            return
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class RecordedCloud:
    """An emulated cloud whose calls are kept, for a process in a pod."""

    def __init__(self, cloud: ConnectedCloud, seam: Seam | None = None) -> None:
        """`seam`: what answers, if it is not the account itself."""
        self._cloud = cloud
        self.region, self.queue = cloud.region, cloud.queue
        self.modelled_prices = cloud.modelled_prices
        self.seam = CheckedApi(seam or cloud.seam)
        self.known = KnownCluster(version=self._version, ipv6=False)

    async def run(self) -> None:
        await self._cloud.run()

    def close(self) -> None:
        self._cloud.close()

    async def _version(self) -> str:
        return "1.33"


class AlwaysAnswering:
    """The kubelets, as the control plane sees them."""

    def on_silence(self, handler: Callable[[str], None]) -> None:
        """No kubelet falls silent."""

    def silent_since(self, node: str) -> float | None:  # noqa: ARG002
        return None


class World:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.api = InMemoryApiServer(clock)
        informers = Informers(self.api, clock)
        self._informers, self._scheduler = informers, KubeScheduler(self.api, clock, informers)
        self._lifecycle = NodeLifecycle(informers, AlwaysAnswering())
        self._processes: list[Process] = []

    async def start(self) -> None:
        await self.api.create(discovered_node_class())
        await self.api.create(node_pool())
        self._tasks = [asyncio.create_task(self._informers.run())]
        await self._informers.synced()
        for component in (self._scheduler, self._lifecycle):
            self._tasks.append(asyncio.create_task(component.run()))

    def run(
        self,
        options: RunOptions | None = None,
        settings: OperatorSettings = SETTINGS,
        cluster: OperatorCluster | None = None,
        connect: ConnectCloud | None = None,
    ) -> Process:
        given = options or RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_boot=5.0)
        process = Process(self, given, settings, cluster, connect)
        self._processes.append(process)
        return process

    async def end(self) -> None:
        for process in self._processes:
            await process.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def claims(self) -> set[str]:
        return {each.metadata.name for each in (await self.api.list(NodeClaim)).items}

    async def running(self) -> int:
        pods = (await self.api.list(Pod)).items
        return sum(each.status.phase == "Running" for each in pods)


def play(story: Callable[[World], Awaitable[None]]) -> None:
    clock = VirtualClock()

    async def main() -> None:
        world = World(clock)
        await world.start()
        try:
            await story(world)
        finally:
            await world.end()

    try:
        clock.run(main())
    finally:
        clock.close()
