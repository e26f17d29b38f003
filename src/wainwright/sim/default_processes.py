"""The processes of a simulated cluster, as a scenario configures them: our controllers, and the
components of Kubernetes.
"""

from random import Random
from typing import Final

import msgspec

from wainwright.aws.api.middleware import with_middleware
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.provider import AwsCloudProvider, ProviderEnvironment, ProviderOptions
from wainwright.cloud import CloudProvider, LaunchLog
from wainwright.controllers.cloud.cloud_upkeep import CloudRefresh
from wainwright.controllers.manager import ControllerEnvironment, ControllerManager
from wainwright.controllers.nodeclaim.consistency import Consistency
from wainwright.controllers.nodeclaim.expiration import Expiration
from wainwright.controllers.settings import ControllerSettings
from wainwright.metrics import MetricsRegistry
from wainwright.sim.components import ClusterComponents
from wainwright.sim.controller_options import controller_settings
from wainwright.sim.kubelet import EBS_DRIVER, KubeletOptions
from wainwright.sim.scenario import DurationRange, Scenario
from wainwright.sim.simulated_process import RunningController, SimulatedProcess
from wainwright.sim.world import World


def cluster_components(world: World, scenario: Scenario, seed: int) -> ClusterComponents:
    instances, pods = scenario.instances, scenario.pods
    options = KubeletOptions(
        boot=_bounds(instances.boot),
        ready=_bounds(instances.ready),
        never_join=instances.never_join,
        pod_start=_bounds(pods.start),
        pod_termination=_bounds(pods.termination),
        less=instances.less,
        volumes=instances.volumes,
    )
    return ClusterComponents(
        world.api,
        world.clock,
        world.account,
        options,
        seed=seed,
        default_constraints=scenario.settings.default_constraints,
    )


def _bounds(between: DurationRange) -> tuple[float, float]:
    return between.low, between.high


def _process_settings(process: SimulatedProcess) -> ControllerSettings:
    """As many volumes as the scenario states can be attached to each node."""
    settings = controller_settings(process.settings)
    if process.volumes is None:
        return settings
    limits = ((EBS_DRIVER, process.volumes),)
    plan = msgspec.structs.replace(settings.plan_options, attach_limits=limits)
    return msgspec.structs.replace(settings, plan_options=plan)


NOT_DUE: Final = (CloudRefresh.name, Expiration.name, Consistency.name)
"""Controllers whose timers do not keep a cluster from being quiet."""


class AwsControllers:
    """Our controllers with the AWS provider on the emulated account."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process
        self._metrics = MetricsRegistry()
        environment = ControllerEnvironment(
            cluster=process.cluster,
            make_cloud=self._make_cloud,
            clock=process.clock,
            metrics=self._metrics,
            seed=process.identity,
            feed=process.feed,
            reports=process.reports,
        )
        self._manager = ControllerManager(environment, _process_settings(process))

    @property
    def next_due(self) -> float | None:
        """Expiry and polls are not waited for: a cluster whose nodes expire in a month, or whose
        prices are fetched again tomorrow, is quiet; so is one with a node that offers too little,
        which is warned of every ten minutes. One that waits for the hours in which a budget allows
        what it wants to do is not.
        """
        queues = [each.queue for each in self._manager.runtime if each.name not in NOT_DUE]
        due = min((each.next_due for each in queues if each.next_due is not None), default=None)
        disruption = self._manager.disruption
        return due if due is not None or disruption is None else disruption.next_release

    async def run(self) -> None:
        await self._manager.run()

    def _make_cloud(self, launch_log: LaunchLog) -> CloudProvider:
        process, gates = self._process, self._process.settings.feature_gates
        random = Random(f"{process.identity} calls")
        environment = ProviderEnvironment(
            process_id=process.identity,
            seam=with_middleware(process.aws, process.clock, random, self._metrics),
            launch_log=launch_log,
            clock=process.clock,
            metrics=self._metrics,
            account_revision=process.account_revision,
            modelled_prices=process.modelled_prices,
        )
        cluster = ClusterConfig(
            name=process.cluster_name,
            region=process.region,
            capacity_reservations=gates["CapacityReservations"] and gates["ReservedCapacity"],
        )
        options = ProviderOptions(
            cluster=cluster,
            queue=process.queue,
            node_overlay=gates["NodeOverlay"],
            price_refresh=process.settings.price_refresh,
        )
        return AwsCloudProvider(environment, options)


def aws_controllers(process: SimulatedProcess) -> RunningController:
    return AwsControllers(process)
