"""One process of `wain run`: a client of the cluster, a cloud, and the controllers between them."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from fractions import Fraction
from random import Random
from secrets import token_hex
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.catalog_documents import Cloud
from wainwright.api.kubernetes.operations import Lease
from wainwright.aws.api.boto import BotoSeam
from wainwright.aws.api.middleware import with_middleware
from wainwright.aws.api.services import Seam
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.provider import AwsCloudProvider, ProviderEnvironment, ProviderOptions
from wainwright.catalogue.instancetypes.node_class_settings import CatalogOptions
from wainwright.clock import Clock, SystemClock
from wainwright.cloud import CloudProvider, LaunchLog
from wainwright.cluster import Cluster
from wainwright.controllers.manager import ControllerEnvironment, ControllerManager
from wainwright.controllers.settings import ControllerSettings
from wainwright.errors import InvalidInputError, KubernetesError, WainError
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit
from wainwright.kube.kubeconfig import load_address
from wainwright.metrics import MetricsRegistry
from wainwright.model.plan import ClusterLimits
from wainwright.operator.emulated_cloud import EmulatedCloud, EmulatedCloudOptions
from wainwright.operator.endpoints import EVERYWHERE, LOOPBACK, EndpointOptions, serve_endpoints
from wainwright.operator.settings import OperatorSettings
from wainwright.sim.default_processes import disruption_options, plan_options
from wainwright.sim.scenario import SimulationSettings
from wainwright.translate.object_metadata import parse_timestamp

LOG: Final = logging.getLogger(__name__)

EMULATOR: Final = "emulator"
AWS: Final = "aws"
KARPENTER_LEASE: Final = "karpenter-leader-election"
STOP_SECONDS: Final = 8.0
"""From the signal to the end, what is in work included; people do not wait for longer."""
NO_LIMITS: Final = ClusterLimits()


class CannotStartError(WainError):
    """Another controller is at work, or there is no cluster."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What only flags say."""

    provider: str = AWS
    kubeconfig: str = ""
    context: str = ""
    cloud: Cloud | None = None
    cluster_limits: ClusterLimits = NO_LIMITS
    emulator_boot: float = 2.0
    emulator_kubelet: bool = True


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

    async def run(self) -> None:
        """Until cancelled."""
        ...


class RealCloud:
    """AWS, with the credentials and the region that its tools would use."""

    def __init__(self, region: str, queue: str) -> None:
        self.region, self.queue = region, queue
        self.seam: Seam = BotoSeam(region)

    async def run(self) -> None:
        await asyncio.Event().wait()


class EmulatedSeam:
    """The emulated EC2 in this process."""

    def __init__(self, cloud: EmulatedCloud) -> None:
        self._cloud = cloud
        self.region, self.queue = cloud.region, cloud.queue
        self.seam: Seam = cloud.account

    async def run(self) -> None:
        await self._cloud.run()


class Operator:
    """The controllers of this process."""

    def __init__(
        self,
        cluster: Cluster,
        cloud: ConnectedCloud,
        settings: OperatorSettings,
        *,
        clock: Clock,
        cluster_limits: ClusterLimits = NO_LIMITS,
    ) -> None:
        self._cloud, self._settings, self._clock = cloud, settings, clock
        self._identity = f"{socket.gethostname()}_{token_hex(8)}"
        self.metrics = MetricsRegistry()
        environment = ControllerEnvironment(
            cluster=cluster,
            make_cloud=self._make_cloud,
            clock=clock,
            metrics=self.metrics,
            seed=self._identity,
        )
        self._manager = ControllerManager(
            environment, controller_settings(settings, cluster_limits)
        )

    @property
    def is_ready(self) -> bool:
        return self._manager.is_synced

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; then what is in work is finished."""
        async with _background(self._cloud.run(), "cloud") as cloud:
            controllers = asyncio.create_task(self._manager.run(), name="controllers")
            stopped = asyncio.create_task(stop.wait(), name="stop")
            try:
                await asyncio.wait(
                    {controllers, cloud, stopped}, return_when=asyncio.FIRST_COMPLETED
                )
                self._manager.runtime.stop()
                if not controllers.done():
                    await asyncio.wait({controllers}, timeout=STOP_SECONDS)
            finally:
                await _cancel(controllers, stopped)
            for task in (controllers, cloud):
                _raise_failure(task)

    def _make_cloud(self, launch_log: LaunchLog) -> CloudProvider:
        settings, cloud = self._settings, self._cloud
        gates = settings.feature_gates
        environment = ProviderEnvironment(
            process_id=self._identity,
            seam=with_middleware(
                cloud.seam, self._clock, Random(f"{self._identity} calls"), self.metrics
            ),
            launch_log=launch_log,
            clock=self._clock,
            metrics=self.metrics,
        )
        cluster = ClusterConfig(
            name=settings.cluster_name,
            region=cloud.region,
            ca_bundle=settings.cluster_ca_bundle,
            isolated_vpc=settings.isolated_vpc,
            dry_runs=not settings.disable_dry_run,
            capacity_reservations=gates["CapacityReservations"] and gates["ReservedCapacity"],
        )
        overhead = Fraction(str(settings.vm_memory_overhead_percent))
        options = ProviderOptions(
            cluster=cluster,
            queue=cloud.queue,
            node_overlay=gates["NodeOverlay"],
            catalog_options=CatalogOptions(
                vm_memory_overhead=overhead, reserved_enis=settings.reserved_enis
            ),
        )
        return AwsCloudProvider(environment, options)


def controller_settings(
    settings: OperatorSettings, cluster_limits: ClusterLimits
) -> ControllerSettings:
    gates = settings.feature_gates
    shared = SimulationSettings(
        feature_gates=gates,
        min_values_policy=settings.min_values_policy,
        preference_policy=settings.preference_policy,
        cluster_limits=cluster_limits,
    )
    return ControllerSettings(
        batch_idle=settings.batch_idle_duration,
        batch_max=settings.batch_max_duration,
        plan_options=plan_options(shared),
        disruption_options=disruption_options(shared),
        node_repair=gates["NodeRepair"],
        managed_deletion_cost=gates["PodDeletionCostManagement"],
        capacity_buffer=gates["CapacityBuffer"],
    )


async def run_operator(settings: OperatorSettings, options: RunOptions) -> None:
    """Until SIGTERM or SIGINT. CannotStartError where it may not start."""
    address = load_address(kubeconfig=options.kubeconfig, context=options.context)
    limit = RequestLimit(qps=settings.kube_client_qps, burst=settings.kube_client_burst)
    clock, stop = SystemClock(), asyncio.Event()
    _stop_on_signals(stop)
    async with KubeClient.connect(address, limit=limit) as cluster:
        version = await _reach(cluster)
        await refuse_beside_karpenter(cluster, clock)
        cloud = await _connect_cloud(cluster, clock, settings, options, version)
        operator = Operator(
            cluster, cloud, settings, clock=clock, cluster_limits=options.cluster_limits
        )
        endpoints = EndpointOptions(
            metrics_port=settings.metrics_port,
            health_port=settings.health_probe_port,
            host=EVERYWHERE if _is_in_pod(os.environ) else LOOPBACK,
        )
        async with serve_endpoints(endpoints, operator.metrics, lambda: operator.is_ready) as ports:
            LOG.info(
                "runs on %s (Kubernetes %s) with %s in %s; metrics on port %d, health on port %d",
                address.url,
                version,
                "the emulated EC2" if options.provider == EMULATOR else "AWS",
                cloud.region,
                ports.metrics,
                ports.health,
            )
            await operator.run(stop)
    LOG.info("stopped")


async def _connect_cloud(
    cluster: Cluster,
    clock: Clock,
    settings: OperatorSettings,
    options: RunOptions,
    version: str,
) -> ConnectedCloud:
    if options.provider == AWS:
        return RealCloud(_aws_region(os.environ), settings.interruption_queue)
    emulated = EmulatedCloud(
        cluster,
        clock,
        EmulatedCloudOptions(
            cluster_name=settings.cluster_name,
            kubernetes=version,
            cloud=options.cloud,
            boot=options.emulator_boot,
            kubelet=options.emulator_kubelet,
        ),
    )
    await emulated.rebuild()
    return EmulatedSeam(emulated)


async def _reach(cluster: KubeClient) -> str:
    try:
        return await cluster.server_version()
    except KubernetesError as error:
        raise CannotStartError(f"the cluster cannot be reached: {error}") from error


async def refuse_beside_karpenter(cluster: Cluster, clock: Clock) -> None:
    """Two controllers would undo each other's work."""
    for lease in (await cluster.list(Lease)).items:
        if lease.metadata.name == KARPENTER_LEASE and is_alive(lease, clock.now()):
            where = f"{lease.metadata.namespace}/{lease.metadata.name}"
            raise CannotStartError(
                f"Karpenter is at work: {lease.spec.holderIdentity} holds the lease {where}",
                "scale it to zero first, or use --dry-run to watch beside it",
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


def _is_in_pod(environment: Mapping[str, str]) -> bool:
    return "KUBERNETES_SERVICE_HOST" in environment


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


@asynccontextmanager
async def _background(
    work: Coroutine[Any, Any, None], name: str
) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        await _cancel(task)


async def _cancel(*tasks: "asyncio.Task[object]") -> None:
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


def _raise_failure(task: "asyncio.Task[None]") -> None:
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        raise error
