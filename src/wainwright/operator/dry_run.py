"""`wain run --dry-run`: decides and logs, and writes nothing, also beside Karpenter.

Each decision is logged once: a node that would be launched until its pods are bound or others are
planned, a disruption command until it is another. What is logged is recorded too, where decisions
are kept. Once a day, and at the end, the decisions of a Karpenter that works on the cluster are
compared with these.
"""

import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.clock import Clock
from wainwright.cluster import Cluster
from wainwright.controllers.background_tasks import background_tasks
from wainwright.controllers.context import compute_in_thread
from wainwright.controllers.decision_recorder import NO_RECORDER, DecisionRecorder
from wainwright.controllers.disruption.disruption_queue import describe_command
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import LiveState, kinds_for_defaults
from wainwright.controllers.manager import WATCHED_KINDS, CloudFactory
from wainwright.controllers.nodeclaim.launch_log import NodeClaimLaunchLog
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodepool.invalid_annotations import AnnotationLog
from wainwright.controllers.provisioning.provisioner import describe_claim
from wainwright.controllers.settings import ControllerSettings
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import DisruptionInput
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.plan import SolvedPlan, solve_plan
from wainwright.metrics import (
    SCHEDULER_QUEUE,
    SCHEDULER_UNSCHEDULABLE,
    SCHEDULING_SECONDS,
    STATE_NODES,
    STATE_SYNCED,
    MetricsRegistry,
)
from wainwright.model.disruption import Pause
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.snapshot import Snapshot
from wainwright.operator.shadow import Shadow

LOG: Final = logging.getLogger(__name__)
REFRESH_SECONDS: Final = 12 * 3600.0
SUMMARY_SECONDS: Final = 24 * 3600.0


class DryRun:
    def __init__(
        self,
        cluster: Cluster,
        make_cloud: CloudFactory,
        clock: Clock,
        settings: ControllerSettings,
        *,
        metrics: MetricsRegistry,
        recorder: DecisionRecorder = NO_RECORDER,
    ) -> None:
        self._clock, self._settings = clock, settings
        self._metrics, self._recorder = metrics, recorder
        self._disruption_options = msgspec.structs.replace(
            settings.disruption_options, plan=settings.plan_options
        )
        constraints = settings.default_constraints
        kinds = (*WATCHED_KINDS, *kinds_for_defaults(constraints))
        self._cache = InformerCache(cluster, clock, kinds, "dry run")
        self._cloud = make_cloud(NodeClaimLaunchLog(cluster, self._cache))
        self._state = LiveState(self._cache, clock, constraints)
        self._declared = DeclaredObjectsTracker(self._cache, self._cloud)
        self._previous: DisruptionPass | None = None
        self._launches: set[frozenset[str]] = set()
        """Pods of the nodes that were logged."""
        self._command = ""
        self._shadow = Shadow(settings.plan_options)
        self._annotations = AnnotationLog()
        self._cache.subscribe(NodeClaim, self._shadow.claim_changed)
        self.is_synced = False

    async def run(self, *, once: bool = False) -> None:
        """Until cancelled, or for one look."""
        try:
            async with background_tasks() as start:
                start(self._cache.run, "watches")
                await self._cache.wait_until_listed()
                self._declared.apply()
                await self._look_again_and_again(once=once)
        finally:
            self.is_synced = False
            self._metrics.set(STATE_SYNCED, 0)
            self._log_summary()

    async def _look_again_and_again(self, *, once: bool) -> None:
        refreshed, summarized = -REFRESH_SECONDS, self._clock.now()
        while True:
            if self._clock.now() - refreshed >= REFRESH_SECONDS:
                refreshed = self._clock.now()
                await self._cloud.refresh()
            await self._look()
            self.is_synced = True
            if once:
                return
            if self._clock.now() - summarized >= SUMMARY_SECONDS:
                summarized = self._clock.now()
                self._log_summary()
            await self._clock.sleep(self._settings.batch_max)

    async def _look(self) -> None:
        catalogs = await self._declared.catalogs()
        snapshot = self._state.snapshot(catalogs.values())
        for pool in snapshot.pools:
            self._annotations.look(pool.name, pool.annotations)
        indexes = {name: catalog.index for name, catalog in catalogs.items()}
        solved, command = await compute_in_thread(lambda: self._decide(snapshot, indexes))
        self._measure(snapshot, solved)
        self._log_launches(solved)
        self._log_command(command)

    def _decide(
        self, snapshot: Snapshot, indexes: Mapping[str, InstanceTypeIndex]
    ) -> tuple[SolvedPlan, Command | None]:
        began = self._clock.now()
        solved = solve_plan(self._launching(snapshot), indexes, self._settings.plan_options)
        self._metrics.observe(SCHEDULING_SECONDS, self._clock.now() - began)
        given = DisruptionInput(
            snapshot=snapshot,
            catalogs=indexes,
            paused=frozenset(
                pool.name
                for pool in snapshot.pools
                if self._settings.pauses(pool, Pause.DISRUPTION)
            ),
        )
        self._previous = DisruptionPass(given, self._disruption_options, self._previous)
        command = self._previous.find_command()
        self._shadow.look(snapshot, indexes, command)
        return solved, command

    def _measure(self, snapshot: Snapshot, solved: SolvedPlan) -> None:
        """Nothing that only who acts can say."""
        self._metrics.set(STATE_SYNCED, int(self._state.is_synced))
        self._metrics.set(STATE_NODES, len(snapshot.nodes))
        self._metrics.set(SCHEDULER_QUEUE, len(snapshot.pods))
        self._metrics.set(SCHEDULER_UNSCHEDULABLE, len(solved.plan.unplaced))

    def _launching(self, snapshot: Snapshot) -> Snapshot:
        """Without NodePools whose provisioning is paused."""
        pauses = self._settings.pauses
        pools = tuple(each for each in snapshot.pools if not pauses(each, Pause.PROVISIONING))
        return msgspec.structs.replace(snapshot, pools=pools)

    def _log_summary(self) -> None:
        """Where there is nobody else it says nothing."""
        summary = self._shadow.summary()
        if summary.launched or summary.disrupted:
            LOG.info("beside Karpenter: %s", summary.describe())

    def _log_launches(self, solved: SolvedPlan) -> None:
        launches = {frozenset(claim.pods): claim for claim in solved.plan.claims}
        new = [claim for pods, claim in launches.items() if pods not in self._launches]
        for claim in new:
            LOG.info("would launch for NodePool %s: %s", claim.pool, describe_claim(claim))
        if new:
            self._recorder.plan_made(solved, self._pools())
        self._launches = set(launches)

    def _log_command(self, command: Command | None) -> None:
        text = "" if command is None else f"{command.method.value}: {describe_command(command)}"
        if command is not None and text != self._command:
            assert self._previous is not None
            LOG.info("would disrupt by %s", text)
            given, options = self._previous.given, self._previous.options
            self._recorder.command_found(given, options, command, self._pools())
        self._command = text

    def _pools(self) -> tuple[NodePool, ...]:
        return tuple(self._cache.all(NodePool))
