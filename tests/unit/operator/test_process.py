"""The process of `wain run` in virtual time, on the API server in memory."""

import asyncio
import logging
import threading
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.controlled_cluster import pending_pod
from tests.support.operator_world import (
    CLOUD,
    NAMESPACE,
    SETTINGS,
    Process,
    RecordedCloud,
    World,
    play,
)
from tests.support.scraped_metrics import ScrapedMetrics
from tests.support.scripted_api import page, serve, status

from wainwright import __version__
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node, Service, ServiceSpec
from wainwright.api.kubernetes.operations import ConfigMap, Event, Lease, LeaseSpec
from wainwright.api.kubernetes.workloads import Pod, TopologySpreadConstraint
from wainwright.api.wire import ObjectMeta
from wainwright.clock import SystemClock, VirtualClock, format_microseconds
from wainwright.cluster import Cluster
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.provisioning.provisioner import Provisioner
from wainwright.controllers.runtime import DONE, STOP_SECONDS, WHOLE_CLUSTER, Result, WorkQueue
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.server import listen
from wainwright.errors import (
    InvalidInputError,
    KubernetesError,
    NotLeaderError,
    RequestForbiddenError,
    ServerUnavailableError,
    TooManyRequestsError,
    UsageError,
    WatchSilentError,
)
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit, RequestLimiter
from wainwright.metrics import (
    LEADER_STATUS,
    NODECLAIMS_CREATED,
    NODEPOOL_COST,
    STATE_NODES,
    STATE_SYNCED,
)
from wainwright.model.labels import ZONE
from wainwright.model.plan import ClusterLimits
from wainwright.operator.dry_run import DryRun
from wainwright.operator.process import (
    EMULATOR,
    CannotStartError,
    ClusterClients,
    ConnectedCloud,
    RunOptions,
    ServerVersion,
    cloud_connector,
    missing_kinds,
    refuse_beside_karpenter,
    services_are_ipv6,
    until_answered,
)
from wainwright.operator.recorder_options import RecorderOptions
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.translate.topology import DefaultConstraints

BY_ZONE = TopologySpreadConstraint(maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="DoNotSchedule")


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


class PacedApiServer(InMemoryApiServer):
    """Whose writes wait for their turn, as those of a client with a low KUBE_CLIENT_QPS."""

    def __init__(self, api: InMemoryApiServer, limit: RequestLimit) -> None:
        vars(self).update(vars(api))
        self._limiter, self.waiting = RequestLimiter(limit), 0

    async def patch(self, *arguments: Any) -> Any:
        self.waiting += 1
        await self._limiter.wait()
        self.waiting -= 1
        return await super().patch(*arguments)


def test_the_lease_is_renewed_however_many_writes_wait() -> None:
    async def story(world: World) -> None:
        cluster = PacedApiServer(world.api, RequestLimit(qps=0.1, burst=1))
        node = {"metadata": {"labels": {"a": "b"}}}
        writes = [asyncio.create_task(cluster.patch(Node, "gone", node)) for _ in range(300)]
        process = world.run(cluster=cluster)
        name = "wainwright-leader-election"
        for _ in range(6):
            await world.clock.sleep(20)
            lease = await world.api.get(Lease, name, NAMESPACE)
            assert world.clock.now() - (parse_timestamp(lease.spec.renewTime) or 0) < 3
            assert lease.spec.leaseTransitions == 0
            assert process.operator.metrics.value(LEADER_STATUS, name=name) == 1
        assert cluster.waiting > 200
        for each in writes:
            each.cancel()
        await asyncio.gather(*writes, return_exceptions=True)

    play(story)


def test_controllers_write_by_a_client_that_checks_whether_the_process_leads() -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.clock.sleep(20)
        (may_write,) = process.may_write
        assert may_write()
        world.clock.advance(60)
        assert not may_write(), "it was stopped for longer than its lease lasts"
        alone = msgspec.structs.replace(SETTINGS, disable_leader_election=True)
        assert world.run(settings=alone).may_write == [], "who needs no lease always writes"

    play(story)


def test_of_the_clients_of_a_process_one_never_waits_and_one_checks_before_it_writes() -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.method)
        return page(1)

    async def main() -> None:
        limit = RequestLimit(qps=0.001, burst=2)
        async with asyncio.timeout(20), serve(handle) as url:
            address = ApiServerAddress(url=url)
            async with KubeClient.connect(address, limit=limit) as client:
                clients = ClusterClients.of(client)
                with pytest.raises(NotLeaderError):
                    await clients.for_leader(lambda: False).delete(Pod, "a", "default")
                await clients.cluster.delete(Pod, "a", "default")
                for _ in range(3):
                    await clients.of_lease.list(Lease)

    asyncio.run(main())
    assert seen == ["DELETE", "GET", "GET", "GET"]


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


class BadSubscriber:
    """A bug of ours in what follows a watch, at the pod of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, change: Change[Any]) -> None:
        if change.name == self._name:
            raise ZeroDivisionError


def subscribe(process: Process, handler: BadSubscriber) -> None:
    manager = process.operator._manager
    assert manager is not None
    manager._cache.subscribe(Pod, handler)


def test_a_bug_that_ends_the_watches_ends_the_leader_and_another_takes_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        first = world.run()
        await world.clock.sleep(5)
        second = world.run()
        await world.clock.sleep(5)
        subscribe(first, BadSubscriber("poison"))
        await world.api.create(pending_pod("poison"))
        await world.clock.sleep(1)
        assert isinstance(await first.failure(), ZeroDivisionError)
        assert not first.operator.is_ready
        assert STATE_SYNCED.name not in first.operator.metrics.exposition()
        await world.clock.sleep(60)
        assert second.operator.is_ready
        assert await world.running() == 1

    play(story)
    (record,) = (each for each in caplog.records if each.exc_info)
    assert record.getMessage() == "watches ended with an error"


class SlowToEnd:
    """A reconciler that ends a second after it was told to."""

    name = "slow"

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: str) -> Result:
        try:
            await asyncio.Event().wait()
        finally:
            await self._clock.sleep(1)
        return DONE


def test_a_leader_whose_watches_have_ended_is_not_ready_while_it_ends() -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.clock.sleep(10)
        operator, manager = process.operator, process.operator._manager
        assert manager is not None
        assert (operator.is_ready, operator.metrics.value(STATE_SYNCED)) == (True, 1)
        manager.runtime.add(SlowToEnd(world.clock)).start()
        subscribe(process, BadSubscriber("poison"))
        await world.api.create(pending_pod("poison"))
        await world.clock.sleep(0.5)
        assert not process.task.done()
        assert (operator.is_ready, operator.metrics.value(STATE_SYNCED)) == (False, 0)
        assert isinstance(await process.failure(), ZeroDivisionError)

    play(story)


def test_a_dry_run_ends_with_its_watches() -> None:
    async def story(world: World) -> None:
        process = world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True))
        await world.clock.sleep(15)
        assert process.operator.is_ready
        dry_run = process.operator._dry_run
        assert dry_run is not None
        dry_run._cache.subscribe(Pod, BadSubscriber("poison"))
        await world.api.create(pending_pod("poison"))
        await world.clock.sleep(1)
        assert isinstance(await process.failure(), ZeroDivisionError)
        assert not process.operator.is_ready

    play(story)


def test_who_does_not_lead_any_more_exports_no_gauges() -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.api.create(pending_pod())
        await world.clock.sleep(30)
        leading = process.operator.metrics.exposition()
        await process.stop()
        ended = process.operator.metrics.exposition()
        for gauge in (STATE_SYNCED, STATE_NODES, NODEPOOL_COST):
            assert f"{gauge.name} " in leading or f"{gauge.name}{{" in leading
            assert gauge.name not in ended
        assert NODECLAIMS_CREATED.name in ended, "counters only ever grow"

    play(story)


def test_every_process_has_its_version_and_says_whether_it_leads() -> None:
    async def story(world: World) -> None:
        first = world.run()
        await world.clock.sleep(5)
        second = world.run()
        await world.clock.sleep(30)

        def leads(process: Process) -> float:
            scraped = ScrapedMetrics(process.operator.metrics)
            assert scraped.value("karpenter_build_info", version=__version__) == 1
            lease = "wainwright-leader-election"
            return scraped.value("leader_election_master_status", name=lease)

        assert (leads(first), leads(second)) == (1, 0)
        await first.stop()
        await world.clock.sleep(30)
        assert (leads(first), leads(second)) == (0, 1)

    play(story)


def test_metrics_of_controllers_and_of_disruption_have_the_names_of_karpenter() -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.api.create(pending_pod())
        await world.clock.sleep(120)
        scraped = ScrapedMetrics(process.operator.metrics)
        lifecycle = {"controller": "nodeclaim.lifecycle"}
        assert scraped.value("controller_runtime_max_concurrent_reconciles", **lifecycle) >= 1
        assert scraped.value("controller_runtime_reconcile_time_seconds_count", **lifecycle) > 1
        assert scraped.value("workqueue_depth", **lifecycle) == 0
        evaluations = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count"
        assert scraped.value(evaluations) > 0
        allowed = "karpenter_nodepools_allowed_disruptions"
        for reason in ("empty", "underutilized", "drifted"):
            assert scraped.value(allowed, nodepool="web", reason=reason) == 1

    play(story)


class ForbiddenSettings(InMemoryApiServer):
    """Who asks for the settings is refused."""

    def __init__(self, api: InMemoryApiServer) -> None:
        vars(self).update(vars(api))
        self.refusals = 0

    async def list_and_watch(
        self, kind: type[Any], *, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[Any, None]:
        if kind is ConfigMap:
            self.refusals += 1
            raise RequestForbiddenError("configmaps is forbidden")
        async for each in super().list_and_watch(kind, namespace=namespace, name=name):
            yield each


def test_settings_that_may_not_be_read_are_asked_for_ever_more_rarely_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        cluster = ForbiddenSettings(world.api)
        world.run(cluster=cluster)
        await world.clock.sleep(600)
        assert 600 / 5 < cluster.refusals < 600 / 4 + 10

    with caplog.at_level(logging.WARNING):
        play(story)
    assert caplog.text.count("configmaps is forbidden") == 1


class SilentSettings(InMemoryApiServer):
    """Nothing comes by the watch of the settings, not even a bookmark."""

    def __init__(self, api: InMemoryApiServer, clock: VirtualClock) -> None:
        vars(self).update(vars(api))
        self._sleep = clock.sleep
        self.watches = 0

    async def list_and_watch(
        self, kind: type[Any], *, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[Any, None]:
        async for each in super().list_and_watch(kind, namespace=namespace, name=name):
            yield each
            if kind is ConfigMap:
                self.watches += 1
                await self._sleep(90)
                raise WatchSilentError("no sign of life for 90 s")


def test_settings_that_nobody_changes_are_watched_again_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        cluster = SilentSettings(world.api, world.clock)
        world.run(cluster=cluster)
        await world.clock.sleep(600)
        assert cluster.watches == 7
        await pause(world, "all")
        await world.clock.sleep(95)
        await world.api.create(pending_pod())
        await world.clock.sleep(60)
        assert await world.claims() == set(), "it was read again"

    with caplog.at_level(logging.INFO, logger="wainwright.operator"):
        play(story)
    assert "wainwright-settings" not in caplog.text


@pytest.mark.parametrize("paused", ["provisioning", "all"])
def test_a_pause_in_the_config_map_acts_within_a_second_and_is_lifted(paused: str) -> None:
    async def story(world: World) -> None:
        world.run()
        await world.clock.sleep(5)
        await pause(world, paused)
        await world.clock.sleep(1)
        await world.api.create(pending_pod())
        await world.clock.sleep(60)
        assert await world.claims() == set()
        await world.api.delete(ConfigMap, "wainwright-settings", NAMESPACE)
        await world.clock.sleep(12)
        assert len(await world.claims()) == 1

    play(story)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" ALL ", "paused: all"),
        (
            "true",
            'pause of the ConfigMap wainwright-settings: "true" is not one of all, disruption, '
            "provisioning: everything is paused",
        ),
    ],
)
def test_a_pause_of_the_config_map_is_read_in_any_case_or_pauses_everything(
    text: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        world.run()
        await world.clock.sleep(5)
        await pause(world, text)
        more = {"metadata": {"labels": {"team": "shop"}}}
        await world.api.patch(ConfigMap, "wainwright-settings", more, NAMESPACE)
        await world.api.create(pending_pod())
        await world.clock.sleep(60)
        assert await world.claims() == set()
        lifted = {"data": {"pause": "false"}}
        await world.api.patch(ConfigMap, "wainwright-settings", lifted, NAMESPACE)
        await world.clock.sleep(12)
        assert len(await world.claims()) == 1

    with caplog.at_level(logging.INFO, logger="wainwright.controllers.settings"):
        play(story)
    lines = [each.getMessage() for each in caplog.records if each.name.endswith(".settings")]
    assert lines == [said, "paused: nothing"]


async def pause(world: World, what: str) -> None:
    metadata = ObjectMeta(name="wainwright-settings", namespace=NAMESPACE)
    await world.api.create(ConfigMap(metadata=metadata, data={"pause": what}))


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_was_paused_before_the_start_stays_so(
    dry_run: bool, once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        await pause(world, "all")
        await world.api.create(pending_pod())
        await world.clock.sleep(20)  # longer than pods are waited for
        world.run(
            RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=dry_run, once=once),
            cluster=SlowSettings(world.api, world.clock),
        )
        await world.clock.sleep(60)
        assert await world.claims() == set()

    with caplog.at_level(logging.INFO, logger="wainwright.operator"):
        play(story)
    assert "would launch" not in caplog.text


class SlowSettings(InMemoryApiServer):
    """Answers whoever asks for the settings a second late."""

    def __init__(self, api: InMemoryApiServer, clock: VirtualClock) -> None:
        vars(self).update(vars(api))
        self._sleep = clock.sleep

    async def list_and_watch(
        self, kind: type[Any], *, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[Any, None]:
        if kind is ConfigMap:
            await self._sleep(1)
        async for each in super().list_and_watch(kind, namespace=namespace, name=name):
            yield each


def test_a_dry_run_follows_the_pause_of_the_config_map(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await pause(world, "provisioning")
        await world.api.create(pending_pod())
        world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True))
        await world.clock.sleep(60)
        assert "would launch" not in caplog.text
        await world.api.delete(ConfigMap, "wainwright-settings", NAMESPACE)
        await world.clock.sleep(15)
        assert caplog.text.count("would launch") == 1

    with caplog.at_level(logging.INFO, logger="wainwright.operator"):
        play(story)


def test_a_dry_run_that_may_not_read_the_settings_decides_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        await world.api.create(pending_pod())
        options = RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True)
        world.run(options, cluster=ForbiddenSettings(world.api))
        await world.clock.sleep(60)

    with caplog.at_level(logging.INFO, logger="wainwright.operator"):
        play(story)
    assert "would launch" in caplog.text


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


def test_a_dry_run_is_ready_after_its_first_look() -> None:
    async def story(world: World) -> None:
        process = world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True))
        assert not process.operator.is_ready, "it connects to its cloud"
        await world.clock.sleep(5)
        assert process.operator.is_ready

    play(story)


@pytest.mark.parametrize(("constraints", "nodes"), [((BY_ZONE,), 3), ((), 1)])
def test_a_dry_run_knows_the_defaults_of_the_scheduler(
    constraints: DefaultConstraints, nodes: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = msgspec.structs.replace(SETTINGS, scheduler_config=constraints)

    async def story(world: World) -> None:
        metadata, selector = ObjectMeta(name="web", namespace="default"), {"app": "web"}
        await world.api.create(Service(metadata=metadata, spec=ServiceSpec(selector=selector)))
        for number in range(3):
            pod = pending_pod(f"web-{number}", cpu="100m", metadata={"labels": selector})
            await world.api.create(pod)
        run = RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True, once=True)
        await world.run(run, settings).task

    with caplog.at_level(logging.INFO, logger="wainwright.operator"):
        play(story)
    decided = [each.message for each in caplog.records if each.message.startswith("would")]
    assert len(decided) == nodes


@pytest.mark.parametrize(
    ("paused", "expected"),
    [
        ("disruption", ["would launch for NodePool web"]),
        ("provisioning", ["would disrupt by emptiness"]),
        ("all", []),
        ("yes", []),
        (None, ["would disrupt by emptiness", "would launch for NodePool web"]),
    ],
)
def test_a_dry_run_decides_nothing_that_is_paused(
    paused: str | None, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.api.create(pending_pod("web-0", cpu="1500m"))
        await world.clock.sleep(60)
        await process.stop()
        spec = {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}
        annotations = {"wainwright.dev/pause": paused}
        await world.api.patch(
            NodePool, "web", {"spec": spec, "metadata": {"annotations": annotations}}
        )
        await world.api.delete(Pod, "web-0", "default", grace_period=0)
        await world.api.create(pending_pod("web-1", cpu="3500m"))
        await world.clock.sleep(5)
        world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True))
        await world.clock.sleep(60)

    with caplog.at_level(logging.INFO, logger="wainwright.operator"):
        play(story)
    decided = [each.message for each in caplog.records if each.message.startswith("would")]
    assert sorted(each.partition(":")[0] for each in decided) == expected


def test_a_dry_run_logs_an_annotation_that_means_nothing_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        annotations = {"wainwright.dev/minimum-saving": "ten"}
        await world.api.patch(NodePool, "web", {"metadata": {"annotations": annotations}})
        world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True))
        await world.clock.sleep(120)

    with caplog.at_level(logging.WARNING):
        play(story)
    assert caplog.text.count('NodePool web: wainwright.dev/minimum-saving: "ten" is not') == 1


def test_endpoint_and_certificates_of_settings_reach_user_data_without_a_call_of_eks() -> None:
    settings = msgspec.structs.replace(
        SETTINGS, cluster_endpoint="https://api.shop:6443", cluster_ca_bundle="Q0Eh"
    )
    options = RunOptions(provider=EMULATOR, cloud=CLOUD)
    clouds: list[RecordedCloud] = []

    async def story(world: World) -> None:
        connect = cloud_connector(settings, options, "1.33", world.clock)

        async def connect_recorded(cluster: Cluster) -> ConnectedCloud:
            clouds.append(RecordedCloud(await connect(cluster)))
            return clouds[-1]

        alias = {"spec": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}}
        await world.api.patch(EC2NodeClass, "default", alias)
        await world.api.create(pending_pod())
        world.run(options, settings, connect=connect_recorded)
        await world.clock.sleep(30)
        assert len(await world.claims()) == 1

    play(story)
    (seam,) = (each.seam for each in clouds)
    made = [each["LaunchTemplateData"] for each in seam.calls_to("CreateLaunchTemplate")]
    for each in made:
        data = b64decode(each["UserData"]).decode()
        assert 'api-server = "https://api.shop:6443"' in data
        assert 'cluster-certificate = "Q0Eh"' in data
    assert made
    assert seam.calls_to("CreateFleet")
    assert not seam.calls_to("DescribeCluster")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.0.0.1", False), ("fd00::1", True), ("api.shop", None), (None, None)],
)
def test_the_family_of_services_is_that_of_the_address_in_the_environment_of_pods(
    host: str | None, expected: bool | None
) -> None:
    environment = {} if host is None else {"KUBERNETES_SERVICE_HOST": host}
    assert services_are_ipv6(environment) is expected


def test_the_last_version_counts_while_the_api_server_does_not_answer() -> None:
    answers: list[str | KubernetesError] = ["1.34", ServerUnavailableError("-"), "1.35"]

    async def read() -> str:
        answer = answers.pop(0)
        if isinstance(answer, KubernetesError):
            raise answer
        return answer

    async def main() -> list[str]:
        version = ServerVersion("1.33", read)
        return [await version() for _ in range(3)]

    assert asyncio.run(main()) == ["1.34", "1.34", "1.35"]


class SilentApiServer(InMemoryApiServer):
    """Takes writes of some kinds, and answers none."""

    def __init__(self, api: InMemoryApiServer) -> None:
        vars(self).update(vars(api))
        self.unanswered: tuple[type[Any], ...] = ()

    async def get(self, kind: type[Any], *rest: Any) -> Any:
        await self._answer(kind)
        return await super().get(kind, *rest)

    async def patch(self, kind: type[Any], *rest: Any) -> Any:
        await self._answer(kind)
        return await super().patch(kind, *rest)

    async def create(self, obj: Any) -> Any:
        await self._answer(type(obj))
        return await super().create(obj)

    async def _answer(self, kind: type[Any]) -> None:
        if kind in self.unanswered:
            await asyncio.Event().wait()


def test_a_process_that_has_to_stop_is_gone_within_ten_seconds_though_nothing_answers(
    tmp_path: Path,
) -> None:
    record = RecorderOptions(folder=tmp_path / "record")

    async def story(world: World) -> None:
        world.api = api = SilentApiServer(world.api)
        process = world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, record=record))
        await world.clock.sleep(5)
        api.unanswered = (NodeClaim,)
        await world.api.create(pending_pod())
        await world.clock.sleep(3)
        api.unanswered = (NodeClaim, Lease)
        began = world.clock.now()
        await process.stop()
        assert STOP_SECONDS <= world.clock.now() - began < 9

    play(story)


@pytest.fixture
def free_port() -> int:
    with closing(listen(0)) as bound:
        port: int = bound.getsockname()[1]
        return port


class RefusesOnce(InMemoryApiServer):
    """Answers 503 to the first list of classes."""

    def __init__(self, api: InMemoryApiServer) -> None:
        vars(self).update(vars(api))
        self.refusals = [_not_yet(ServerUnavailableError)]

    async def list(self, kind: type[Any], namespace: str = "", *, name: str = "") -> Any:
        if kind is EC2NodeClass and self.refusals:
            raise self.refusals.pop()
        return await super().list(kind, namespace, name=name)


def test_the_port_of_the_emulated_account_is_free_for_the_next_attempt(free_port: int) -> None:
    options = RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_port=free_port)

    async def story(world: World) -> None:
        connect = cloud_connector(SETTINGS, options, "1.33", world.clock)
        cluster = RefusesOnce(world.api)
        cloud = await connect(cluster)
        assert not cluster.refusals
        cloud.close()
        with closing(listen(free_port)):
            """It is free again."""

    play(story)


def test_the_port_of_the_emulated_account_is_free_after_a_term_that_hardly_began(
    free_port: int, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    record = RecorderOptions(folder=file / "folder")
    options = RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_port=free_port, record=record)

    async def story(world: World) -> None:
        process = world.run(options)
        assert isinstance(await process.failure(), UsageError)
        with closing(listen(free_port)):
            """It is free again."""

    play(story)


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_port_of_the_emulated_account_is_free_after_the_process(
    dry_run: bool, free_port: int
) -> None:
    options = RunOptions(
        provider=EMULATOR, cloud=CLOUD, emulator_port=free_port, dry_run=dry_run, once=True
    )

    async def story(world: World) -> None:
        await world.run(options).task
        with closing(listen(free_port)):
            """It is free again."""

    play(story)


def test_a_damaged_account_leaves_no_port_bound(free_port: int, tmp_path: Path) -> None:
    state = tmp_path / "account.json"
    state.write_text("{")
    options = RunOptions(
        provider=EMULATOR, cloud=CLOUD, emulator_port=free_port, emulator_state=state
    )

    async def story(world: World) -> None:
        with pytest.raises(InvalidInputError):
            await cloud_connector(SETTINGS, options, "1.33", world.clock)(world.api)
        with closing(listen(free_port)):
            """It is free again."""

    play(story)


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


def test_the_lease_of_karpenter_is_asked_for_by_its_name() -> None:
    """Every node has a lease."""
    asked: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.query["fieldSelector"])
        return page(1)

    async def main() -> None:
        async with serve(handle) as url, KubeClient.connect(ApiServerAddress(url=url)) as client:
            await refuse_beside_karpenter(client, SystemClock())

    asyncio.run(main())
    assert asked == ["metadata.name=karpenter-leader-election"]


DISCOVERED = {
    "/apis/karpenter.sh/v1": ["nodepools", "nodepools/status", "nodeclaims"],
    "/apis/karpenter.sh/v1alpha1": ["nodeoverlays", "instancetypes"],
    "/apis/karpenter.k8s.aws/v1": ["ec2nodeclasses"],
}


def missing_where(discovered: Mapping[str, Sequence[str]], code: int) -> tuple[list[str], int]:
    """The kinds that a cluster lacks by this discovery, where all else is answered by the code; and
    how many requests were made.
    """
    requests: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request.path)
        if request.path not in discovered:
            return status(code)
        return web.json_response({"resources": [{"name": n} for n in discovered[request.path]]})

    async def main() -> list[str]:
        async with serve(handle) as url, KubeClient.connect(ApiServerAddress(url=url)) as client:
            return [each.qualified_plural for each in await missing_kinds(client)]

    return asyncio.run(main()), len(requests)


def test_our_kinds_are_looked_for_by_one_request_for_each_version_of_a_group() -> None:
    assert missing_where(DISCOVERED, 404) == ([], 3)


def test_a_kind_that_discovery_does_not_have_yet_is_asked_for_by_itself() -> None:
    some = {path: names[:1] for path, names in DISCOVERED.items()}
    lacking = ["nodeclaims.karpenter.sh", "instancetypes.karpenter.sh"]
    assert missing_where(some, 404) == (lacking, 5)
    with pytest.raises(TooManyRequestsError):
        missing_where(some, 429)


@pytest.mark.parametrize("error", [TooManyRequestsError, ServerUnavailableError])
def test_a_start_waits_for_an_api_server_that_serves_new_kinds_in_a_moment(
    error: type[TooManyRequestsError | ServerUnavailableError],
) -> None:
    async def story(world: World) -> None:
        refusals = [_not_yet(error) for _ in range(4)]

        async def read() -> str:
            if refusals:
                raise refusals.pop()
            return "1.36"

        assert await until_answered(world.clock, read) == "1.36"
        assert not refusals

    play(story)


@pytest.mark.parametrize(
    ("error", "longest"),
    [(TooManyRequestsError("storage is (re)initializing"), 60), (ServerUnavailableError("-"), 0)],
    ids=["answers for a minute", "is not there"],
)
def test_a_start_does_not_wait_for_ever(error: KubernetesError, longest: float) -> None:
    async def story(world: World) -> None:
        began = world.clock.now()

        async def read() -> None:
            raise error

        with pytest.raises(CannotStartError, match="the cluster cannot be reached: "):
            await until_answered(world.clock, read)
        assert world.clock.now() - began <= longest
        assert world.clock.now() - began >= longest / 3

    play(story)


def _not_yet(
    error: type[TooManyRequestsError | ServerUnavailableError],
) -> TooManyRequestsError | ServerUnavailableError:
    refusal = error("storage is (re)initializing")
    refusal.status = 503 if error is ServerUnavailableError else 429
    return refusal


def note_threads(
    monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str
) -> list[threading.Thread]:
    """The threads in which that is done from now on."""
    seen: list[threading.Thread] = []
    really = getattr(owner, name)

    def noted(*arguments: Any, **named: Any) -> Any:
        seen.append(threading.current_thread())
        return really(*arguments, **named)

    monkeypatch.setattr(owner, name, noted)
    return seen


@pytest.mark.parametrize(
    ("dry_run", "owner", "decision"),
    [
        (False, Provisioner, "_solve"),
        (False, DisruptionPass, "_find_command"),
        (True, DryRun, "_decide"),
    ],
)
def test_decisions_are_made_in_another_thread_than_that_of_leases_and_probes(
    dry_run: bool, owner: type[Any], decision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = note_threads(monkeypatch, owner, decision)

    async def story(world: World) -> None:
        await world.api.create(pending_pod())
        world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=dry_run))
        await world.clock.sleep(60)

    play(story)
    assert threads
    assert threading.current_thread() not in threads


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


def test_no_more_nodes_than_the_limit_of_the_cluster() -> None:
    async def story(world: World) -> None:
        limits = ClusterLimits(nodes=1)
        world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, cluster_limits=limits))
        for number in range(3):
            await world.api.create(pending_pod(f"web-{number}", cpu="3"))
        await world.clock.sleep(60)
        assert len(await world.claims()) == 1
        assert await world.running() == 1

    play(story)


def test_the_account_in_a_file_outlives_the_process(tmp_path: Path) -> None:
    """An instance that no NodeClaim knows of is in the file, and so it is terminated as garbage."""
    file = tmp_path / "account.json"
    options = RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_boot=5.0, emulator_state=file)

    async def story(world: World) -> None:
        first = world.run(options)
        await world.api.create(pending_pod())
        await world.clock.sleep(30)
        (claim,) = (await world.api.list(NodeClaim)).items
        await first.stop()
        assert claim.status is not None
        instance = claim.status.providerID.rpartition("/")[2]
        assert instance in file.read_text()
        await world.api.patch(NodeClaim, claim.metadata.name, {"metadata": {"finalizers": None}})
        await world.api.delete(NodeClaim, claim.metadata.name)
        second = world.run(options)
        await world.clock.sleep(300)
        await second.stop()
        account = EmulatedAwsAccount.load(file.read_bytes(), clock=world.clock)
        states = account.answer("ec2", "DescribeInstances", {"InstanceIds": [instance]})
        assert '"terminated"' in msgspec.json.encode(states, enc_hook=str).decode()

    play(story)
