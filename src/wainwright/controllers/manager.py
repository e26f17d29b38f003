"""All controllers of one process: their wiring, and the order in which they start."""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

import msgspec

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.kubernetes.operations import VolumeAttachment
from wainwright.api.wire import WireStruct
from wainwright.clock import Clock
from wainwright.cloud import CloudProvider, LaunchLog
from wainwright.cluster import Cluster, ListAndWatch
from wainwright.controllers.background_tasks import background_tasks
from wainwright.controllers.cloud.capacity_reservations import (
    CapacityBlockExpiration,
    CapacityReservationLabels,
)
from wainwright.controllers.cloud.cloud_upkeep import CloudRefresh, GarbageCollection
from wainwright.controllers.cloud.discovered_capacity import CapacityDiscovery
from wainwright.controllers.cloud.interruption import (
    InstanceStatusChecks,
    InterruptionHandler,
    InterruptionQueueReader,
)
from wainwright.controllers.cloud.tagging import InstanceTagging
from wainwright.controllers.cloud.unused_cloud_resources import UnusedCloudResources
from wainwright.controllers.cluster_metrics import ClusterMetrics
from wainwright.controllers.condition_metrics import ConditionMetrics
from wainwright.controllers.context import Compute, ControllerContext, compute_inline
from wainwright.controllers.decision_recorder import NO_RECORDER, DecisionRecorder
from wainwright.controllers.disruption.consolidation_backoff import ConsolidationBackoff
from wainwright.controllers.disruption.disruption_conditions import DisruptionConditions, PodEvents
from wainwright.controllers.disruption.disruption_controller import Disruption
from wainwright.controllers.disruption.disruption_queue import DisruptionQueue
from wainwright.controllers.disruption.drift_detection import DriftDetection
from wainwright.controllers.disruption.pod_deletion_costs import PodDeletionCosts
from wainwright.controllers.events import EventRecorder
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import SNAPSHOT_KINDS, LiveState, kinds_for_defaults
from wainwright.controllers.node.do_not_disrupt import DoNotDisruptEvents
from wainwright.controllers.node.node_repair import NodeRepair
from wainwright.controllers.node.node_termination import NodeTermination, PodEviction
from wainwright.controllers.nodeclaim.claim_creation import ClaimCreator
from wainwright.controllers.nodeclaim.consistency import Consistency
from wainwright.controllers.nodeclaim.expiration import Expiration
from wainwright.controllers.nodeclaim.hydration import Hydration
from wainwright.controllers.nodeclaim.launch_log import NodeClaimLaunchLog
from wainwright.controllers.nodeclaim.nodeclaim_lifecycle import NodeClaimLifecycle
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodeclass.nodeclass_status import NodeClassStatus
from wainwright.controllers.nodeclass.override_status import OverrideStatus
from wainwright.controllers.nodepool.invalid_annotations import InvalidAnnotations
from wainwright.controllers.nodepool.nodepool_counter import NodePoolCounter
from wainwright.controllers.nodepool.nodepool_hash import NodePoolHash
from wainwright.controllers.nodepool.nodepool_status import NodePoolConditions
from wainwright.controllers.nodepool.registration_health import RegistrationHealth
from wainwright.controllers.nodepool.static_capacity import StaticDeprovisioning, StaticProvisioning
from wainwright.controllers.provisioning.capacity_buffers import (
    BUFFER_KINDS,
    CapacityBufferProvisioning,
    CapacityBuffers,
    VirtualPods,
)
from wainwright.controllers.provisioning.provisioner import Provisioner
from wainwright.controllers.reports import NO_REPORTS, ControllerReports
from wainwright.controllers.runtime import ChangeFeed, ControllerRuntime, LearntChanges, Reconciler
from wainwright.controllers.settings import ControllerSettings
from wainwright.controllers.state_metrics import StateMetrics
from wainwright.metered_cloud import MeteredCloudProvider
from wainwright.metrics import STATE_SYNCED, MetricsRegistry

WATCHED_KINDS: Final[tuple[type[WireStruct], ...]] = (
    *SNAPSHOT_KINDS,
    EC2NodeClass,
    InstanceType,
    NodeOverlay,
    VolumeAttachment,
)
"""Whatever the settings are; `watched_kinds` has those that some of them need."""
LIFECYCLE_WORKERS: Final = 200
"""Launches that are asked for at the same time are merged into one request; a worker waits for
each."""

CloudFactory: TypeAlias = Callable[[LaunchLog], CloudProvider]


class ControllerEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The outside of the controllers."""

    cluster: Cluster
    make_cloud: CloudFactory
    clock: Clock
    metrics: MetricsRegistry
    seed: int | str
    """For names and jitter: no two processes of a cluster may have the same."""
    source: ListAndWatch | None = None
    """Where kinds are read by one request; else they are listed, then watched."""
    feed: ChangeFeed | None = None
    """Only in simulations."""
    reports: ControllerReports = NO_REPORTS
    compute: Compute = compute_inline
    recorder: DecisionRecorder = NO_RECORDER


def watched_kinds(settings: ControllerSettings) -> tuple[type[WireStruct], ...]:
    """Each once, although several settings may need it."""
    kinds = (*WATCHED_KINDS, *kinds_for_defaults(settings.default_constraints))
    buffers = BUFFER_KINDS if settings.capacity_buffer else ()
    return tuple(dict.fromkeys((*kinds, *buffers)))


class ControllerManager:
    disruption: Disruption | None = None
    """Once it runs."""

    def __init__(self, environment: ControllerEnvironment, settings: ControllerSettings) -> None:
        cluster, clock, metrics = environment.cluster, environment.clock, environment.metrics
        self._cache = InformerCache(
            cluster,
            clock,
            watched_kinds(settings),
            f"{environment.seed} watches",
            source=environment.source,
        )
        self._cloud = environment.make_cloud(NodeClaimLaunchLog(cluster, self._cache))
        feed = None if environment.feed is None else LearntChanges(environment.feed)
        learnt = {} if feed is None else {"learnt": feed.add}
        self._context = ControllerContext(
            **learnt,
            cache=self._cache,
            state=LiveState(self._cache, clock, settings.default_constraints),
            cloud=self._cloud,
            clock=clock,
            events=EventRecorder(cluster, clock),
            metrics=metrics,
            settings=settings,
            reports=environment.reports,
            compute=environment.compute,
            recorder=environment.recorder,
        )
        self._seed = environment.seed
        self._declared = DeclaredObjectsTracker(self._cache, self._cloud)
        self._health = RegistrationHealth(self._cache, clock)
        self._interruption = InterruptionHandler(self._context)
        self.has_started = False
        """Whether the controllers are at work."""
        self.disruption: Disruption | None = None
        """Once it runs: it knows the verdict on every node."""
        self.runtime = ControllerRuntime(clock, metrics, seed=self._seed, feed=feed)

    @property
    def is_synced(self) -> bool:
        """Whether the cluster has been read, so that decisions can be made."""
        return self._context.state.is_synced

    async def run(self) -> None:
        """Until it is cancelled, or the runtime is stopped. The error of the watches or the queue
        reader ends it: who does not see the cluster any more must not decide about it.
        """
        try:
            async with background_tasks() as start:
                start(self._watch, "watches")
                await self._cache.wait_until_listed()
                self._declared.apply()
                await self._cloud.refresh()
                self._add_controllers()
                self.has_started = True
                reader = InterruptionQueueReader(self._context, self._interruption)
                start(reader.run, reader.name)
                await self.runtime.run()
        finally:
            self._context.metrics.remove_collectors()

    async def _watch(self) -> None:
        try:
            await self._cache.run()
        finally:
            self._context.metrics.set(STATE_SYNCED, 0)

    def _add_controllers(self) -> None:
        self._add_pool_controllers()
        self._add_provisioning()
        self._add_node_controllers()
        self._add_cloud_controllers()

    def _add_pool_controllers(self) -> None:
        """NodePools and node classes."""
        context, declared = self._context, self._declared
        self._add(NodeClassStatus(self._for(NodeClassStatus.name), declared), workers=10)
        self._add(NodePoolConditions(context, self._health), workers=10)
        self._add(NodePoolHash(context), workers=10)
        self._add(InvalidAnnotations(context))
        self._add(NodePoolCounter(context), workers=10)
        self._add(StateMetrics(context, declared))
        ConditionMetrics(context).watch()
        if context.settings.cluster_state_observability:
            ClusterMetrics(context).register()
        self._add(OverrideStatus(self._for(OverrideStatus.name), declared))

    def _add_provisioning(self) -> None:
        """Who creates NodeClaims, and who replaces them."""
        context, declared = self._context, self._declared
        creator = ClaimCreator(context, Random(f"{self._seed} names"))
        backoff = ConsolidationBackoff(context)
        queue = DisruptionQueue(context, creator, backoff)
        self._add(Provisioner(context, declared, creator, backoff))
        if context.settings.capacity_buffer:
            virtual = VirtualPods(context.cache, context.settings.default_constraints)
            buffers = CapacityBuffers(context, virtual)
            self._add(buffers)
            self._add(
                CapacityBufferProvisioning(
                    context, declared, creator, virtual, buffers.look_at, backoff
                )
            )
        self._add(queue)
        self.disruption = disruption = Disruption(context, declared, queue)
        self._add(disruption)
        if context.settings.managed_deletion_cost:
            self._add(PodDeletionCosts(context, disruption))
        if context.settings.static_capacity:
            self._add(StaticProvisioning(context, declared, creator), workers=10)
            self._add(StaticDeprovisioning(context), workers=10)

    def _add_node_controllers(self) -> None:
        """NodeClaims, their nodes, and the pods on these."""
        context = self._context
        lifecycle = NodeClaimLifecycle(self._for(NodeClaimLifecycle.name), self._health)
        self._add(lifecycle, workers=LIFECYCLE_WORKERS)
        eviction = PodEviction(context)
        self._add(eviction, workers=100)
        self._add(NodeTermination(self._for(NodeTermination.name), eviction), workers=100)
        self._add(PodEvents(context), workers=10)
        self._add(DoNotDisruptEvents(context))
        self._add(DisruptionConditions(context), workers=10)
        self._add(DriftDetection(self._for(DriftDetection.name), self._declared), workers=10)
        self._add(Expiration(context))
        self._add(Consistency(context), workers=10)
        self._add(Hydration(context), workers=10)
        if context.settings.node_repair and not context.settings.replace_before_repair:
            self._add(NodeRepair(context))

    def _add_cloud_controllers(self) -> None:
        """What is looked after in the cloud."""
        context, declared = self._context, self._declared
        self._add(CloudRefresh(self._for(CloudRefresh.name)))
        self._add(GarbageCollection(self._for(GarbageCollection.name)))
        self._add(CapacityReservationLabels(context))
        self._add(CapacityBlockExpiration(context))
        self._add(InstanceStatusChecks(context, self._interruption))
        self._add(InstanceTagging(context))
        self._add(CapacityDiscovery(context))
        self._add(UnusedCloudResources(context, declared))

    def _add(self, reconciler: Reconciler, *, workers: int = 1) -> None:
        self.runtime.add(reconciler, workers=workers)

    def _for(self, controller: str) -> ControllerContext:
        """The context with a cloud that measures the calls of this controller."""
        context = self._context
        metered = MeteredCloudProvider(
            self._cloud, context.clock, context.metrics, controller=controller
        )
        return msgspec.structs.replace(context, cloud=metered)
