"""One process of `wain run`: a client of the cluster, a cloud, and the controllers between them.

What only some processes need is loaded by those: boto3 with AWS, the emulated EC2 without it, the
flight recorder, the dry run. Pods wait for the first plan while a process starts.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import aclosing, closing, suppress
from fractions import Fraction
from ipaddress import ip_address
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import msgspec

from wainwright import __version__
from wainwright.api.api_resources import ApiResource, resource_of
from wainwright.api.catalog_documents import Cloud, InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.operations import ConfigMap, Lease
from wainwright.api.wire import WireStruct
from wainwright.aws.api.middleware import with_middleware
from wainwright.aws.api.read_only import ReadOnlySeam
from wainwright.aws.api.services import Seam
from wainwright.aws.cluster_config import ClusterConfig, VersionSource
from wainwright.aws.instancetypes.account_offerings import OfferingKey
from wainwright.aws.provider import AwsCloudProvider, ProviderEnvironment, ProviderOptions
from wainwright.backoff import Backoff
from wainwright.catalogue.instancetypes.node_class_settings import CatalogOptions
from wainwright.clock import Clock, SystemClock
from wainwright.cloud import CloudProvider, LaunchLog
from wainwright.cluster import Cluster, EventType, ListAndWatch, ObjectList
from wainwright.controllers.background_tasks import background_tasks
from wainwright.controllers.context import compute_in_thread
from wainwright.controllers.decision_recorder import NO_RECORDER
from wainwright.controllers.manager import ControllerEnvironment, ControllerManager
from wainwright.controllers.settings import PauseSwitch
from wainwright.errors import (
    InvalidInputError,
    KubernetesError,
    ObjectNotFoundError,
    RequestForbiddenError,
    WainError,
    WatchSilentError,
)
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import MayWrite, RequestLimit
from wainwright.kube.kubeconfig import load_address
from wainwright.kube.leader_election import LeaderCluster, LeaderElection, LeaseSettings
from wainwright.kube.retries import NOT_YET, read_with_retries
from wainwright.metrics import (
    BUILD_INFO,
    EVENT_LOOP_LAG,
    LEADER_STATUS,
    PROCESS_GAUGES,
    MetricsRegistry,
)
from wainwright.model.plan import ClusterLimits
from wainwright.operator.endpoints import EVERYWHERE, LOOPBACK, EndpointOptions, serve_endpoints
from wainwright.operator.recorder_options import RecorderOptions
from wainwright.operator.settings import OperatorSettings
from wainwright.sim.controller_options import controller_settings
from wainwright.sim.settings import DisruptionBreaker, SimulationSettings
from wainwright.translate.object_metadata import parse_timestamp

if TYPE_CHECKING:
    from wainwright.operator.dry_run import DryRun
    from wainwright.operator.emulated_cloud import EmulatedCloud
    from wainwright.operator.flight_recorder import FlightRecorder

LOG: Final = logging.getLogger(__name__)

EMULATOR: Final = "emulator"
AWS: Final = "aws"
KARPENTER_LEASE: Final = "karpenter-leader-election"
STOP_SECONDS: Final = 6.0
"""From the signal until what has not ended by itself is cancelled. Within ten seconds the process
is gone: until then the last decisions are recorded, and the lease is given back."""
NO_LIMITS: Final = ClusterLimits()
OUTSIDE_NAMESPACE: Final = "kube-system"
"""Of the lease and the settings, where the process runs outside a pod."""
SETTINGS_NAME: Final = "wainwright-settings"
IDLE_POLL: Final = 0.2
IDLE_LOOKS: Final = 5
LAG_POLL: Final = 0.05
GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Collections are rarer than by default: each stops everything, planner and event loop."""
PAUSE_RETRY: Final = 0.8
"""Seconds until a watch that has ended is opened again: a pause acts within one."""
MAX_PAUSE_RETRY: Final = 5.0
"""Where that fails again and again."""
START_SECONDS: Final = 60.0
"""For so long a start waits for an API server that answers, but not yet with what was asked for."""
NO_OBJECT: Final = "wainwright.dev"
"""A name that no object has."""
CUSTOM_KINDS: Final = (NodePool, NodeClaim, EC2NodeClass, NodeOverlay, InstanceType)

Answer = TypeVar("Answer")


class CannotStartError(WainError):
    """Another controller is at work, or there is no cluster."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What only flags say."""

    provider: str = AWS
    kubeconfig: str = ""
    context: str = ""
    cloud: Cloud | None = None
    cluster_limits: ClusterLimits = NO_LIMITS
    dry_run: bool = False
    """Decide and log, and write nothing."""
    once: bool = False
    """Exit when nothing is left to do."""
    emulator_boot: float = 2.0
    emulator_kubelet: bool = True
    emulator_state: Path | None = None
    emulator_port: int | None = None
    record: RecorderOptions | None = None
    """Where decisions are kept; None: nowhere."""


class KnownCluster(msgspec.Struct, frozen=True, kw_only=True):
    """What EKS need not be asked, because the API server or the pod of this process says it."""

    version: VersionSource | None = None
    ipv6: bool | None = None


NOTHING_KNOWN: Final = KnownCluster()


class ServerVersion:
    """That of Kubernetes: an upgrade of the control plane changes it while a process runs."""

    def __init__(self, known: str, read: VersionSource) -> None:
        self._known, self._read = known, read

    async def __call__(self) -> str:
        """The last one that is known, where the API server does not answer at the moment."""
        try:
            self._known = await self._read()
        except KubernetesError as error:
            LOG.warning("the version of the API server cannot be read: %s", error)
        return self._known


class ConnectedCloud(Protocol):
    """What controllers reach of a cloud, and what runs beside them for it."""

    @property
    def region(self) -> str: ...

    @property
    def queue(self) -> str:
        """Of interruptions; empty if there is none."""
        ...

    @property
    def seam(self) -> Seam: ...

    @property
    def modelled_prices(self) -> Collection[OfferingKey]:
        """Offerings whose price the cloud made up."""
        ...

    @property
    def known(self) -> KnownCluster: ...

    async def run(self) -> None:
        """Until cancelled."""
        ...

    def close(self) -> None:
        """After the last use, also where it never ran."""
        ...


class RealCloud:
    """AWS, with the credentials and the region that its tools would use."""

    def __init__(self, region: str, queue: str, known: KnownCluster) -> None:
        from wainwright.aws.api.boto import BotoSeam

        self.region, self.queue, self.known = region, queue, known
        self.seam: Seam = BotoSeam(region)
        self.modelled_prices: Collection[OfferingKey] = ()

    async def run(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        """Its threads end with the process, whatever they wait for."""


class EmulatedSeam:
    """The emulated EC2 in this process, with an EKS that knows of which version its images are."""

    known = NOTHING_KNOWN

    def __init__(self, cloud: "EmulatedCloud") -> None:
        self._cloud = cloud
        self.region, self.queue = cloud.region, cloud.queue
        self.seam: Seam = cloud.account
        self.modelled_prices = cloud.account.region_offerings.modelled_prices

    async def run(self) -> None:
        await self._cloud.run()

    def close(self) -> None:
        self._cloud.close()


ConnectCloud: TypeAlias = Callable[[Cluster], Awaitable[ConnectedCloud]]


class OperatorCluster(Cluster, ListAndWatch, Protocol):
    """What the process needs of a cluster."""


class ClusterClients(NamedTuple):
    """Three of one API server."""

    cluster: OperatorCluster
    of_lease: Cluster
    """Not held back, however many requests of the controllers wait: they would end the leadership
    otherwise."""
    for_leader: Callable[[MayWrite], Cluster]
    """That of controllers which need a lease: it asks when a write is about to be sent, since the
    lease may have run out while the write waited."""

    @classmethod
    def of(cls, client: KubeClient) -> Self:
        return cls(client, client.without_limit(), client.for_leader)


class OperatorProcess:
    """This process: it stands by until it leads, and then runs the controllers."""

    def __init__(
        self,
        clients: ClusterClients,
        connect_cloud: ConnectCloud,
        settings: OperatorSettings,
        *,
        clock: Clock,
        options: RunOptions,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        self._cluster, self._connect_cloud, self._clock = clients.cluster, connect_cloud, clock
        self._lease_cluster, self._for_leader = clients.of_lease, clients.for_leader
        self._settings, self._options = settings, options
        self._namespace = settings.leader_election_namespace or OUTSIDE_NAMESPACE
        self._identity = f"{socket.gethostname()}_{token_hex(8)}"
        self.metrics = metrics or MetricsRegistry()
        self.metrics.set(BUILD_INFO, 1, version=__version__)
        self._pause = PauseSwitch()
        self._controller_settings = msgspec.structs.replace(
            controller_settings(loop_settings(settings, options)),
            switch=self._pause,
            cluster_state_observability=not settings.disable_cluster_state_observability,
        )
        self._stop = asyncio.Event()
        self._manager: ControllerManager | None = None
        self._dry_run: DryRun | None = None
        self._has_failed = False

    @property
    def is_ready(self) -> bool:
        """A process that stands by is ready to take over; not one that ends with an error, and one
        that only decides stands by never.
        """
        if self._has_failed:
            return False
        if self._options.dry_run:
            return self._dry_run is not None and self._dry_run.is_synced
        return self._manager is None or self._manager.is_synced

    async def verdicts(self) -> bytes | None:
        """What becomes of every node as things stand, as JSON; None where it is not known here."""
        disruption = None if self._manager is None else self._manager.disruption
        current = None if disruption is None else await disruption.verdicts()
        if current is None or current.looked_at is None:
            return None
        from wainwright.operator.verdict_json import verdicts_json  # needed by few processes

        return await compute_in_thread(lambda: verdicts_json(current))

    def stop(self) -> None:
        """Lets `run` end when what is in work is done."""
        self._stop.set()

    async def run(self) -> None:
        if self._options.dry_run:
            await self._until_stopped(self._only_decide())
            return
        if self._settings.disable_leader_election:
            await self._until_stopped(self._lead(self._cluster))
            return
        lease = LeaseSettings(name=self._settings.leader_election_name, namespace=self._namespace)
        election = LeaderElection(self._lease_cluster, self._clock, lease, self._identity)
        cluster = LeaderCluster(self._for_leader(lambda: election.is_leader), election)
        self.metrics.set(LEADER_STATUS, 0, name=lease.name)
        await self._until_stopped(election.run(lambda: self._hold_lease(lease.name, cluster)))

    async def _hold_lease(self, name: str, cluster: Cluster) -> None:
        self.metrics.set(LEADER_STATUS, 1, name=name)
        try:
            await self._lead(cluster)
        finally:
            self.metrics.set(LEADER_STATUS, 0, name=name)

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """A process that leads ends by itself when it is stopped; one that stands by is ended."""
        task = asyncio.create_task(work, name="operator")
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if self._manager is not None:
                self._manager.runtime.stop()
                await asyncio.wait({task}, timeout=STOP_SECONDS)
        finally:
            await _cancel(stopped, task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _only_decide(self) -> None:
        from wainwright.operator.dry_run import DryRun

        with closing(await self._connect_cloud(self._cluster)) as cloud:
            recorder = self._make_recorder(cloud)
            dry_run = self._dry_run = DryRun(
                self._cluster,
                lambda launch_log: self._make_cloud(cloud, launch_log),
                self._clock,
                self._controller_settings,
                metrics=self.metrics,
                recorder=recorder or NO_RECORDER,
            )
            async with background_tasks() as start:
                if recorder is not None:
                    start(recorder.run, "flight recorder")
                is_pause_known = asyncio.Event()
                start(lambda: self._follow_pause(is_pause_known), "settings")
                await is_pause_known.wait()
                await dry_run.run(once=self._options.once)
                while recorder is not None and not recorder.is_idle:
                    await self._clock.sleep(IDLE_POLL)

    async def _lead(self, cluster: Cluster) -> None:
        """With a memory of its own: another process may have led meanwhile."""
        with closing(await self._connect_cloud(cluster)) as cloud:
            await self._control(cluster, cloud)

    async def _control(self, cluster: Cluster, cloud: ConnectedCloud) -> None:
        recorder = self._make_recorder(cloud)
        environment = ControllerEnvironment(
            cluster=cluster,
            source=self._cluster,
            make_cloud=lambda launch_log: self._make_cloud(cloud, launch_log),
            clock=self._clock,
            metrics=self.metrics,
            seed=self._identity,
            compute=compute_in_thread,
            recorder=recorder or NO_RECORDER,
        )
        manager = self._manager = ControllerManager(environment, self._controller_settings)
        is_pause_known = asyncio.Event()
        beside = [
            asyncio.create_task(cloud.run(), name="cloud"),
            asyncio.create_task(self._follow_pause(is_pause_known), name="settings"),
        ]
        if recorder is not None:
            beside.append(asyncio.create_task(recorder.run(), name="flight recorder"))
        if self._options.once:
            beside.append(asyncio.create_task(self._until_idle(manager, recorder), name="once"))
        work = _run_after(is_pause_known, manager)
        controllers = asyncio.create_task(work, name="controllers")
        freeze = asyncio.create_task(self._freeze_when_synced(manager), name="garbage collector")
        try:
            await asyncio.wait({controllers, *beside}, return_when=asyncio.FIRST_COMPLETED)
            for task in (controllers, *beside):
                if task.done():
                    task.result()
        except Exception:
            # The process ends: who restarts it waits longer each time, as a kubelet does, and
            # another that stands by leads meanwhile.
            self._has_failed = True
            raise
        finally:
            self._manager = None
            await _cancel(controllers, freeze, *beside)
            # What another leader knows by now would be contradicted for as long as this one runs.
            self.metrics.remove_gauges(keep=PROCESS_GAUGES)

    def _make_recorder(self, cloud: ConnectedCloud) -> "FlightRecorder | None":
        record = self._options.record
        if record is None:
            return None
        from wainwright.operator.flight_recorder import FlightRecorder

        return FlightRecorder(record, self._clock, cloud.region)

    async def _until_idle(
        self, manager: ControllerManager, recorder: "FlightRecorder | None"
    ) -> None:
        """Returns when the controllers have had nothing to do for a moment."""
        quiet = 0
        while quiet < IDLE_LOOKS:
            await self._clock.sleep(IDLE_POLL)
            is_quiet = manager.is_synced and manager.has_started and manager.runtime.is_idle
            is_quiet = is_quiet and (recorder is None or recorder.is_idle)
            quiet = quiet + 1 if is_quiet else 0
        manager.runtime.stop()

    async def _freeze_when_synced(self, manager: ControllerManager) -> None:
        """Spares the garbage collector the objects of the cluster, which stay: to look at them all
        would hold the event loop up for a quarter of a second with 10,000 pods.
        """
        gc.set_threshold(*GC_THRESHOLDS)
        while not manager.is_synced:
            await self._clock.sleep(IDLE_POLL)
        gc.freeze()

    async def _follow_pause(self, is_known: asyncio.Event) -> None:
        """The ConfigMap that people pause everything with, and no other of the cluster. `is_known`
        is set once it has been read, or cannot be: nothing may be decided before.
        """
        name = f"{self._namespace}/{SETTINGS_NAME}"
        backoff = Backoff(f"{self._identity} {name}", first=PAUSE_RETRY, most=MAX_PAUSE_RETRY)
        known = ""
        while True:
            try:
                async with aclosing(self._pause_changes()) as changes:
                    async for _ in changes:
                        backoff.succeeded(name)
                        is_known.set()
                known = ""
            except WatchSilentError as error:  # of a new API server, while nobody changes them
                is_known.set()
                LOG.debug("watching %s: %s", name, error)
            except KubernetesError as error:
                is_known.set()
                if str(error) != known:
                    LOG.warning("%s cannot be read: %s", name, error)
                known = str(error)
            await self._clock.sleep(backoff.failed(name))

    async def _pause_changes(self) -> AsyncGenerator[None, None]:
        changes = self._cluster.list_and_watch(
            ConfigMap, namespace=self._namespace, name=SETTINGS_NAME
        )
        async with aclosing(changes):
            async for change in changes:
                if isinstance(change, ObjectList):
                    self._set_pause(next(iter(change.items), None))
                elif change.type is not EventType.BOOKMARK:
                    is_gone = change.type is EventType.DELETED
                    self._set_pause(None if is_gone else change.object)
                yield

    def _set_pause(self, settings: ConfigMap | None) -> None:
        data = None if settings is None else settings.data
        self._pause.set((data or {}).get("pause"))

    def _make_cloud(self, cloud: ConnectedCloud, launch_log: LaunchLog) -> CloudProvider:
        settings, gates = self._settings, self._settings.feature_gates
        random = Random(f"{self._identity} calls")
        is_dry_run = self._options.dry_run
        seam = ReadOnlySeam(cloud.seam) if is_dry_run else cloud.seam
        environment = ProviderEnvironment(
            process_id=self._identity,
            seam=with_middleware(seam, self._clock, random, self.metrics),
            launch_log=launch_log,
            clock=self._clock,
            metrics=self.metrics,
            server_version=cloud.known.version,
            modelled_prices=cloud.modelled_prices,
        )
        options = ProviderOptions(
            cluster=_cluster_config(settings, cloud, read_only=is_dry_run),
            queue=cloud.queue,
            node_overlay=gates["NodeOverlay"],
            catalog_options=CatalogOptions(
                vm_memory_overhead=Fraction(str(settings.vm_memory_overhead_percent)),
                reserved_enis=settings.reserved_enis,
            ),
        )
        return AwsCloudProvider(environment, options)


def _cluster_config(
    settings: OperatorSettings, cloud: ConnectedCloud, *, read_only: bool
) -> ClusterConfig:
    gates = settings.feature_gates
    return ClusterConfig(
        name=settings.cluster_name,
        region=cloud.region,
        endpoint=settings.cluster_endpoint,
        ca_bundle=settings.cluster_ca_bundle,
        ipv6=cloud.known.ipv6,
        isolated_vpc=settings.isolated_vpc,
        dry_runs=not settings.disable_dry_run,
        read_only=read_only,
        capacity_reservations=gates["CapacityReservations"] and gates["ReservedCapacity"],
    )


async def _run_after(event: asyncio.Event, manager: ControllerManager) -> None:
    await event.wait()
    await manager.run()


def loop_settings(settings: OperatorSettings, options: RunOptions) -> SimulationSettings:
    # A single pass does not wait for more pods.
    idle, most = settings.batch_idle_duration, settings.batch_max_duration
    return SimulationSettings(
        batch_idle_duration=0.0 if options.once else idle,
        batch_max_duration=0.0 if options.once else most,
        feature_gates=settings.feature_gates,
        min_values_policy=settings.min_values_policy,
        preference_policy=settings.preference_policy,
        default_constraints=settings.scheduler_config,
        packing=settings.packing,
        strict_weights=settings.strict_weights,
        minimum_saving=settings.min_saving,
        spot_to_spot_types=settings.spot_to_spot_types,
        max_nodes_per_command=settings.max_nodes,
        balanced_k=settings.balanced_k,
        node_repair=settings.node_repair,
        cluster_limits=options.cluster_limits,
        disruption_breaker=DisruptionBreaker(
            share=settings.breaker_share,
            nodes=settings.breaker_nodes,
            window=settings.breaker_window,
        ),
    )


async def run_operator(settings: OperatorSettings, options: RunOptions) -> None:
    """Until SIGTERM or SIGINT. CannotStartError where it may not start."""
    address = load_address(kubeconfig=options.kubeconfig, context=options.context)
    limit = RequestLimit(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    in_pod = _is_in_pod(os.environ)
    if in_pod and not settings.leader_election_namespace:
        settings = msgspec.structs.replace(settings, leader_election_namespace=address.namespace)
    metrics = MetricsRegistry()
    async with KubeClient.connect(address, limit=limit, metrics=metrics) as cluster:
        clock, seed = SystemClock(), token_hex(8)
        version = await until_answered(clock, lambda: _check_cluster(cluster), seed)
        if not options.dry_run:
            await until_answered(clock, lambda: refuse_beside_karpenter(cluster, clock), seed)
        operator = OperatorProcess(
            ClusterClients.of(cluster),
            cloud_connector(
                settings,
                options,
                version,
                clock,
                seed,
                read_version=ServerVersion(version, cluster.server_version),
            ),
            settings,
            clock=clock,
            options=options,
            metrics=metrics,
        )
        _stop_on_signals(operator.stop)
        endpoints = EndpointOptions(
            metrics_port=settings.metrics_port,
            health_port=settings.health_probe_port,
            host=EVERYWHERE if in_pod else LOOPBACK,
        )
        async with serve_endpoints(
            endpoints, operator.metrics, lambda: operator.is_ready, operator.verdicts
        ) as ports:
            LOG.info(
                "runs on %s (Kubernetes %s) with %s; metrics on port %d, health on port %d",
                address.url,
                version,
                "the emulated EC2" if options.provider == EMULATOR else "AWS",
                ports.metrics,
                ports.health,
            )
            lag = asyncio.create_task(measure_loop_lag(metrics), name="loop lag")
            try:
                await operator.run()
            finally:
                await _cancel(lag)
    LOG.info("stopped")


def cloud_connector(
    settings: OperatorSettings,
    options: RunOptions,
    version: str,
    clock: Clock,
    seed: str = "",
    read_version: VersionSource | None = None,
) -> ConnectCloud:
    """`seed`: of waiting times, another in each process. `read_version`: for AWS; without it EKS
    is asked.
    """
    if options.provider == AWS:
        known = KnownCluster(version=read_version, ipv6=services_are_ipv6(os.environ))
        real = RealCloud(_aws_region(os.environ), settings.interruption_queue, known)

        async def connect_real(_: Cluster) -> ConnectedCloud:
            return real

        return connect_real
    from wainwright.operator.emulated_cloud import EmulatedCloud, EmulatedCloudOptions

    emulated = EmulatedCloudOptions(
        cluster_name=settings.cluster_name,
        kubernetes=version,
        cloud=options.cloud,
        boot=options.emulator_boot,
        kubelet=options.emulator_kubelet,
        state=options.emulator_state,
        port=options.emulator_port,
        seed=seed,
    )

    async def connect_emulated(cluster: Cluster) -> ConnectedCloud:
        """Anew for each term: another process may have launched instances meanwhile."""

        async def rebuild() -> ConnectedCloud:
            cloud = EmulatedCloud(cluster, clock, emulated)
            await cloud.rebuild()
            return EmulatedSeam(cloud)

        return await until_answered(clock, rebuild, seed)

    return connect_emulated


async def until_answered(
    clock: Clock, read: Callable[[], Awaitable[Answer]], seed: str = ""
) -> Answer:
    """What is read at the start, repeated while the API server is not able to answer. A process
    that ended instead would be restarted by the kubelet, later each time.
    """
    try:
        return await read_with_retries(
            read, clock, longest=START_SECONDS, seed=seed, level=logging.WARNING
        )
    except NOT_YET as error:
        raise CannotStartError(f"the cluster cannot be reached: {error}") from error


async def _check_cluster(cluster: KubeClient) -> str:
    """The version of a cluster that answers and has our kinds."""
    try:
        version = await cluster.server_version()
    except NOT_YET:
        raise
    except KubernetesError as error:
        raise CannotStartError(f"the cluster cannot be reached: {error}") from error
    missing = await missing_kinds(cluster)
    if missing:
        names = ", ".join(each.qualified_plural for each in missing)
        raise CannotStartError(
            f"the cluster does not have {names}", "install them: wain crds | kubectl apply -f -"
        )
    return version


async def missing_kinds(cluster: KubeClient) -> list[ApiResource]:
    """By discovery, with a request for each API group; a kind that it does not have yet, because
    its CRD was created a moment ago, is asked for by itself.
    """
    wanted = [resource_of(kind) for kind in CUSTOM_KINDS]
    groups = sorted({each.api_version for each in wanted})
    found = await asyncio.gather(*(_discovered(cluster, each) for each in groups))
    served = dict(zip(groups, found, strict=True))
    doubtful = [each for each in wanted if each.plural not in served[each.api_version]]
    answers = await asyncio.gather(*(_is_served(cluster, each.type) for each in doubtful))
    return [each for each, is_there in zip(doubtful, answers, strict=True) if not is_there]


async def _discovered(cluster: KubeClient, api_version: str) -> frozenset[str]:
    """Nothing where somebody has taken the right to it from authenticated users."""
    try:
        return await cluster.discover(api_version)
    except (ObjectNotFoundError, RequestForbiddenError):
        return frozenset()


async def _is_served(cluster: KubeClient, kind: type[WireStruct]) -> bool:
    """By a list of those with a name that none has, so that it is short however many there are."""
    try:
        await cluster.list(kind, name=NO_OBJECT)
    except ObjectNotFoundError:
        return False
    return True


async def refuse_beside_karpenter(cluster: Cluster, clock: Clock) -> None:
    """Two controllers would undo each other's work."""
    for lease in (await cluster.list(Lease, name=KARPENTER_LEASE)).items:
        if is_alive(lease, clock.now()):
            where = f"{lease.metadata.namespace}/{lease.metadata.name}"
            raise CannotStartError(
                f"Karpenter is at work: {lease.spec.holderIdentity} holds the lease {where}",
                "scale it to zero first, or use --dry-run to watch alongside it",
            )


def is_alive(lease: Lease, now: float) -> bool:
    renewed = parse_timestamp(lease.spec.renewTime) if lease.spec.renewTime else None
    seconds = lease.spec.leaseDurationSeconds or 0
    return renewed is not None and bool(lease.spec.holderIdentity) and renewed + seconds > now


def _aws_region(environment: Mapping[str, str]) -> str:
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region:
        raise InvalidInputError("the region is not set", "set AWS_REGION, such as us-west-2")
    return region


def services_are_ipv6(environment: Mapping[str, str]) -> bool | None:
    """By the address of the service `kubernetes`, which pods are told. None outside a pod, and
    where somebody has put the name of a server in its place.
    """
    try:
        return ip_address(environment.get("KUBERNETES_SERVICE_HOST", "")).version == 6
    except ValueError:
        return None


def _is_in_pod(environment: Mapping[str, str]) -> bool:
    return "KUBERNETES_SERVICE_HOST" in environment


async def measure_loop_lag(metrics: MetricsRegistry) -> None:
    """Until cancelled: how much later than asked for this task is woken."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_POLL
        await asyncio.sleep(LAG_POLL)
        metrics.observe(EVENT_LOOP_LAG, max(0.0, loop.time() - due))


def _stop_on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


async def _cancel(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
