"""The process of `wain run` in virtual time, on the API server in memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.controlled_cluster import node_pool, pending_pod

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import ConfigMap, Event, Lease, LeaseSpec
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock, format_microseconds
from wainwright.operator.process import (
    EMULATOR,
    CannotStartError,
    OperatorProcess,
    RunOptions,
    cloud_connector,
    refuse_beside_karpenter,
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

    def __init__(self, world: "World", options: RunOptions) -> None:
        connect = cloud_connector(SETTINGS, options, "1.33", world.clock)
        self.operator = OperatorProcess(
            world.api, connect, SETTINGS, clock=world.clock, namespace=NAMESPACE, options=options
        )
        self.task = asyncio.create_task(self.operator.run())

    async def stop(self) -> None:
        self.operator.stop()
        await self.task

    async def kill(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


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

    def run(self, options: RunOptions | None = None) -> Process:
        given = options or RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_boot=5.0)
        process = Process(self, given)
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


def test_a_pending_pod_gets_a_node_and_runs() -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.api.create(pending_pod())
        await world.clock.sleep(30)
        assert process.operator.is_ready
        assert await world.running() == 1
        (node,) = (await world.api.list(Node)).items
        assert node.status.nodeInfo.kubeletVersion == "v1.33.0"
        lease = await world.api.get(Lease, node.metadata.name, "kube-node-lease")
        assert lease.spec.renewTime is not None

    play(story)


def test_a_lease_of_a_node_is_renewed_every_ten_seconds() -> None:
    async def story(world: World) -> None:
        world.run()
        await world.api.create(pending_pod())
        await world.clock.sleep(30)
        (node,) = (await world.api.list(Node)).items
        first = await world.api.get(Lease, node.metadata.name, "kube-node-lease")
        await world.clock.sleep(11)
        second = await world.api.get(Lease, node.metadata.name, "kube-node-lease")
        assert first.spec.renewTime != second.spec.renewTime

    play(story)


def test_the_second_process_stands_by_and_takes_over_with_all_instances() -> None:
    async def story(world: World) -> None:
        first = world.run()
        await world.clock.sleep(5)
        second = world.run()
        await world.api.create(pending_pod())
        await world.clock.sleep(30)
        assert second.operator.is_ready
        before = await world.claims()
        assert len(before) == 1
        await first.stop()
        await world.api.create(pending_pod("web-1"))
        await world.clock.sleep(60)
        assert before <= await world.claims()
        assert await world.running() == 2

    play(story)


@pytest.mark.parametrize("pause", ["provisioning", "all"])
def test_a_pause_in_the_config_map_acts_within_a_second_and_is_lifted(pause: str) -> None:
    async def story(world: World) -> None:
        world.run()
        await world.clock.sleep(5)
        metadata = ObjectMeta(name="wainwright-settings", namespace=NAMESPACE)
        await world.api.create(ConfigMap(metadata=metadata, data={"pause": pause}))
        await world.clock.sleep(1)
        await world.api.create(pending_pod())
        await world.clock.sleep(60)
        assert await world.claims() == set()
        await world.api.delete(ConfigMap, "wainwright-settings", NAMESPACE)
        await world.clock.sleep(12)
        assert len(await world.claims()) == 1

    play(story)


def test_a_dry_run_logs_each_decision_once_and_writes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        await world.api.create(pending_pod())
        await world.clock.sleep(5)  # the kube-scheduler says that it fits nowhere
        revision = world.api.revision
        world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True))
        await world.clock.sleep(60)
        assert world.api.revision == revision

    with caplog.at_level(logging.INFO, logger="wainwright.operator"):
        play(story)
    decided = [each.message for each in caplog.records if each.message.startswith("would")]
    assert len(decided) == 1
    assert decided[0].startswith("would launch for NodePool web: m5.large")
    assert decided[0].endswith("for 1 pod")


def test_once_ends_when_nothing_is_to_be_done() -> None:
    async def story(world: World) -> None:
        await world.api.create(pending_pod())
        process = world.run(
            RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_boot=600.0, once=True)
        )
        await process.task
        assert len(await world.claims()) == 1
        assert not (await world.api.list(Node)).items

    play(story)


@pytest.mark.parametrize(("age", "is_refused"), [(5.0, True), (16.0, False)])
def test_karpenter_is_at_work_while_its_lease_lasts(age: float, is_refused: bool) -> None:
    async def story(world: World) -> None:
        spec = LeaseSpec(
            holderIdentity="karpenter-1",
            leaseDurationSeconds=15,
            renewTime=format_microseconds(world.clock.now() - age),
        )
        metadata = ObjectMeta(name="karpenter-leader-election", namespace="kube-system")
        await world.api.create(Lease(metadata=metadata, spec=spec))
        if not is_refused:
            await refuse_beside_karpenter(world.api, world.clock)
            return
        with pytest.raises(CannotStartError, match="karpenter-1 holds the lease kube-system/"):
            await refuse_beside_karpenter(world.api, world.clock)

    play(story)


def test_events_of_nominations_are_bounded() -> None:
    """Five thousand pods must not be five thousand requests."""

    async def story(world: World) -> None:
        world.run()
        for number in range(60):
            await world.api.create(pending_pod(f"web-{number}", cpu="100m", memory="64Mi"))
        await world.clock.sleep(20)
        events = [
            each for each in (await world.api.list(Event)).items if each.reason == "Nominated"
        ]
        assert 1 <= len(events) <= 20

    play(story)
