"""Runs a scenario on virtual time: the world, its components and controllers, the events, and what
is recorded of them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.api_resources import served_resources
from wainwright.api.catalog_documents import Cloud, CloudReservation
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.operations import Event
from wainwright.api.wire import ObjectMeta, WireStruct, to_manifest
from wainwright.clock import Clock, format_timestamp
from wainwright.cluster import Cluster
from wainwright.core.disruption.candidates import consolidated_again_at
from wainwright.core.plan import plan
from wainwright.emulator.account_timer import AccountTimer
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    BEGIN_EVENT,
    CapacityReservation,
)
from wainwright.emulator.ec2.instance.interruptions import TERMINATION_EVENT
from wainwright.emulator.ec2.instance.lifecycle import RUNNING_EVENT, TERMINATED_EVENT
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.model.disruption import Pause as PausedWork
from wainwright.model.simulation import (
    EndState,
    ExpectationResult,
    Series,
    SimulationResult,
    Totals,
)
from wainwright.offline import PlanSettings, prepare_input
from wainwright.sim.aws_calls import AwsCalls, SimulatedAwsCalls
from wainwright.sim.cloud_events import CloudEvents
from wainwright.sim.controller_options import plan_options
from wainwright.sim.default_processes import aws_controllers, cluster_components
from wainwright.sim.expectations import Expectations
from wainwright.sim.fault_injection import FaultInjection, FaultInjector
from wainwright.sim.laws import Laws
from wainwright.sim.object_store import metadata_of
from wainwright.sim.observed_state import ObservedState
from wainwright.sim.recorder import Recorder, StateObserver
from wainwright.sim.scenario import Scenario, ScenarioEvent
from wainwright.sim.scenario_events import InstanceControls, ScenarioEvents
from wainwright.sim.settings import Pause, SimulationSettings
from wainwright.sim.simulated_process import (
    ControllerClient,
    ControllerFactory,
    ControllerProcess,
    NoControllers,
    RunningController,
    SimulatedProcess,
)
from wainwright.sim.timeline import object_name
from wainwright.sim.world import RECORDS, World
from wainwright.translate.disruption import is_pausing, translate_claim_state

QUIET_SECONDS: Final = 600.0
LONGEST_QUIET: Final = 30 * 86_400.0
SETTLING: Final = 1e-4
"""Seconds after the end in which everything due at that moment is done."""
DUE_EVENTS: Final = (RUNNING_EVENT, TERMINATED_EVENT, TERMINATION_EVENT, BEGIN_EVENT)
"""Events of EC2 that a world which waits for them is not quiet before."""
DISAGREEMENT: Final = "SchedulingDisagreement"
EXPIRED: Final = "expired"


class Components(InstanceControls, Protocol):
    """The other processes of the cluster: scheduler, kubelets, workload controllers."""

    @property
    def next_due(self) -> float | None: ...

    async def run(self) -> None: ...


ComponentFactory = Callable[[World, Scenario, int], Components]


class NoComponents:
    """A cluster in which nothing runs: pods stay pending and instances never join."""

    next_due = None

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    def lose(self, instance_id: str) -> None:
        """Nobody notices."""

    def recover(self, instance_id: str) -> None:
        """Nobody notices."""

    def set_never_join(self, share: float) -> None:
        """Nobody joins."""

    def set_less(self, less: Mapping[str, str]) -> None:
        """Nobody joins."""


def no_components(world: World, scenario: Scenario, seed: int) -> Components:  # noqa: ARG001
    return NoComponents()


def no_controllers(process: SimulatedProcess) -> RunningController:  # noqa: ARG001
    return NoControllers()


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    seed: int | None = None
    """The seed to use instead of the scenario's."""
    until: float | None = None
    """Stops after so many seconds, where that is earlier."""
    keep_timeline: bool = True
    keep_all_points: bool = False
    """Whether the series are not thinned."""
    keep_history: bool = False
    """Whether every node and pod is remembered, for a report."""


DEFAULT_OPTIONS: Final = SimulationOptions()


class Simulation:
    """One run of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        options: SimulationOptions = DEFAULT_OPTIONS,
        controllers: ControllerFactory = aws_controllers,
        components: ComponentFactory = cluster_components,
        observers: Sequence[StateObserver] = (),
        faults: FaultInjection | None = None,
    ) -> None:
        self._scenario = scenario
        self._options = options
        self.seed = scenario.seed if options.seed is None else options.seed
        self._controllers = controllers
        self.world = world = World(scenario.manifests, start=scenario.start, seed=self.seed)
        self.calls = SimulatedAwsCalls(world.account, world.clock, seed=self.seed)
        self.recorder = Recorder(
            world,
            self.calls,
            keep_timeline=options.keep_timeline,
            keep_all_points=options.keep_all_points,
            keep_history=options.keep_history,
        )
        clock_error = faults.clock_error if faults is not None else 0.0
        self._laws = Laws(
            world,
            self.recorder,
            scenario.settings.cluster_limits,
            clock_error=clock_error,
        )
        self._components = components(world, scenario, self.seed)
        self._process = ControllerProcess(self._start_process, world.clock, self._on_restart)
        self.injector = (
            None
            if faults is None
            else FaultInjector(
                faults, world.clock, world.start, self._process.restart, world.changes.add
            )
        )
        self._last_moment = max(scenario.last_moment, 0.0 if faults is None else faults.until)
        self._cloud = CloudEvents(world, self.calls, self.recorder, seed=self.seed)
        self._expectations = Expectations(scenario.expect)
        self._tasks: list[asyncio.Future[None]] = []
        self._ending: asyncio.Future[None]
        """Done at the end, or once nothing is left to do."""
        self._quiet_changes: list[str] = []
        self._is_disturbed = False
        self.was_quiet = False
        """Whether nothing was left to do at the end."""
        self.recorder.add_observer(self._laws)
        self.recorder.add_observer(self._expectations)
        for observer in observers:
            self.recorder.add_observer(observer)

    def run(self) -> SimulationResult:
        return self.world.clock.run(self._run())

    def close(self) -> None:
        self.world.close()

    # Step by step, for somebody who looks at it and changes it on the way

    def begin(self) -> None:
        """Instead of `run`; the same happens, as far as `advance` goes."""
        self.world.clock.run(self._begin())
        self.advance(0.0)

    def advance(self, until: float) -> None:
        """Everything that is due until then, in seconds since the start, and not after the end."""
        self.world.clock.run_until(self.world.start + min(until, self.end + SETTLING))
        for task in self._tasks:
            if task.done():
                task.result()  # raises what ended it

    @property
    def end(self) -> float:
        """Seconds after which there is nothing to simulate any more."""
        return LONGEST_QUIET if self._scenario.duration is None else self._scenario.duration

    @property
    def is_over(self) -> bool:
        """Whether the end is reached, or nothing is left to do where that is the end."""
        return self._ending.done()

    def inject(self, event: ScenarioEvent) -> None:
        """What no file has happens now."""
        self._last_moment = max(self._last_moment, event.last_moment)
        self.world.clock.run(self._events.happen(event))
        self.advance(self.world.now())
        if self._ending.done() and self.world.now() < self.end:
            self._ending = self.world.clock.run(self._begin_ending())

    async def _begin_ending(self) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._until_end())

    @property
    def warnings(self) -> list[str]:
        """So far."""
        return [*self.world.warnings, *self._cloud.warnings]

    def result_so_far(self) -> SimulationResult:
        """As if it ended here; expectations of later moments are not judged."""
        series, totals, end = self.recorder.finish()
        expectations = self._expectations.finish(self.recorder, totals, is_complete=False)
        result = self._result(series, totals, end, expectations)
        return msgspec.structs.replace(result, laws=self._laws.results)

    def finish(self) -> SimulationResult:
        """What `run` gives, once it is over."""
        try:
            return self.world.clock.run(self._finish())
        finally:
            self.stop()

    def stop(self) -> None:
        self.world.clock.run(self._stop())

    # What runs

    def _start_process(self, number: int) -> RunningController:
        world = self.world
        cluster: Cluster = ControllerClient(world.api, self._laws)
        aws: AwsCalls = self.calls
        clock: Clock = world.clock
        if self.injector is not None:
            injected = self.injector.start_process(cluster, aws)
            cluster, aws, clock = injected.cluster, injected.aws, injected.clock
        return self._controllers(
            SimulatedProcess(
                cluster=cluster,
                aws=self._laws.heard_by_process(aws),
                clock=clock,
                cluster_name=world.cluster_name,
                region=world.region,
                queue=world.account.account.queue,
                settings=self._scenario.settings,
                volumes=self._scenario.instances.volumes,
                identity=f"{self.seed} process {number}",
                reports=self.recorder,
                account_revision=world.changes.account_revision,
                modelled_prices=world.account.region_offerings.modelled_prices,
                feed=world.changes,
            )
        )

    def _on_restart(self, message: str) -> None:
        self.recorder.touch()
        self.recorder.timeline.restart(round(self.world.now(), 3), message)

    def _restart(self) -> None:
        if self.injector is not None:
            self.injector.process_died()
        self._process.restart()

    async def _run(self) -> SimulationResult:
        await self._begin()
        try:
            await self._while_running(self._tasks, self._ending)
            return await self._finish()
        finally:
            await self._stop()

    async def _begin(self) -> None:
        self._timer = AccountTimer(self.world.account)
        self._timer.start()
        self._events = ScenarioEvents(
            self._scenario,
            self.world,
            self.recorder,
            self._cloud,
            self._components,
            self._restart,
        )
        await self._events.begin()
        self._tasks = [
            asyncio.ensure_future(each)
            for each in (
                self._events.run(),
                self._show_moments(),
                self._components.run(),
                self._process.run(),
            )
        ]
        self._ending = asyncio.ensure_future(self._until_end())

    async def _stop(self) -> None:
        tasks = [*self._tasks, self._ending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._timer.stop()
        self.world.clock.on_advance(None)

    async def _while_running(
        self,
        tasks: Iterable[asyncio.Future[None]],
        main: Coroutine[Any, Any, None] | asyncio.Future[None],
    ) -> None:
        """Until `main` is done; raises what ends one of the tasks before."""
        waiting = asyncio.ensure_future(main)
        pending = {waiting, *tasks}
        try:
            while not waiting.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            waiting.cancel()

    async def _show_moments(self) -> None:
        """States at the moments that expectations name, also where nothing changes there."""
        for at in self._expectations.moments:
            await self._sleep_until(at)
            self.recorder.touch()
        await asyncio.get_running_loop().create_future()

    # Time

    async def _sleep_until(self, at: float) -> None:
        await self.world.clock.sleep(max(at - self.world.now(), 0.0))

    async def _until_end(self) -> None:
        duration, until = self._scenario.duration, self._options.until
        if duration is not None:
            end = duration if until is None else min(duration, until)
            await self._sleep_until(end + SETTLING)
            return
        limit = LONGEST_QUIET if until is None else until
        await self._until_quiet(limit)

    async def _until_quiet(self, limit: float) -> None:
        """Until nothing has changed for ten minutes and nothing is due."""
        last = self._last_moment
        await self._sleep_until(min(last, limit))
        while self.world.now() < limit:
            now, quiet_since = self.world.now(), max(self.recorder.last_change, last)
            due = self._next_due()
            if now - quiet_since >= QUIET_SECONDS and due is None:
                return
            wake = quiet_since + QUIET_SECONDS
            if wake <= now:
                wake = max(due or 0.0, now + 60.0)
            await self._sleep_until(min(wake, limit) + SETTLING)

    def _next_due(self) -> float | None:
        """Seconds since the start; None where nothing is due."""
        found = [self._components.next_due, self._process.next_due, *self._due_events()]
        moments = [each - self.world.start for each in found if each is not None]
        return min(moments, default=None)

    def _due_events(self) -> list[float]:
        events = self.world.account.context.pending_events
        return [each.due for each in events if each.kind in DUE_EVENTS]

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing has changed for ten minutes, nothing is due and no call fails."""
        since = max(self.recorder.last_change, self._last_moment)
        is_still = self.world.now() - since >= QUIET_SECONDS
        return is_still and self._next_due() is None and not self._cloud.has_faults

    # The end

    async def _finish(self) -> SimulationResult:
        series, totals, end = self.recorder.finish()
        state: ObservedState = self.recorder
        expectations = self._expectations.finish(state, totals, is_complete=self._is_complete)
        self._tell_expectations(expectations, state.at)
        result = self._result(series, totals, end, expectations)
        self._shell_state = self._objects()
        await self._judge_quiet()
        return msgspec.structs.replace(result, laws=self._laws.results)

    def _result(
        self,
        series: Series,
        totals: Totals,
        end: EndState,
        expectations: list[ExpectationResult],
    ) -> SimulationResult:
        return SimulationResult(
            scenario=self._scenario.name,
            seed=self.seed,
            start=format_timestamp(self.world.start),
            finish=_moment(self.world.start + self.recorder.at),
            # Stable: what was judged at a moment comes after what happened at it.
            timeline=sorted(self.recorder.timeline.entries, key=lambda entry: entry.at),
            series=series,
            totals=totals,
            modelledPrices=self.world.prices.has_estimates,
            end=end,
            expectations=expectations,
            warnings=self.warnings,
        )

    def _tell_expectations(self, results: Sequence[ExpectationResult], end: float) -> None:
        moments = self._expectations.judged_at(end)
        for at, each in zip(moments, results, strict=True):
            if each.held is not None:
                self.recorder.timeline.expectation(at, each.line, each.held, each.message)

    @property
    def _is_complete(self) -> bool:
        until = self._options.until
        if until is None:
            return True
        duration = self._scenario.duration
        return until >= duration if duration is not None else self._is_quiet

    async def _judge_quiet(self) -> None:
        self.was_quiet = self._is_quiet
        if not self._is_quiet or not self._is_complete:
            return
        self._laws.judge_quiet(self._placeable_pods())
        if self._scenario.duration is None:
            self.world.api.subscribe(self._note_change)
            lifecycle = self.world.account.services.reservations.lifecycle
            lifecycle.add_change_listener(self._note_reservation)
            await self._while_running(self._tasks, self.world.clock.sleep(QUIET_SECONDS))
            self._laws.judge_stillness(self._quiet_changes)

    def _note_change(self, change: Any) -> None:
        if self._is_expired(change.object) or self._has_backoff_ended():
            self._is_disturbed = True  # its time has come, and nobody waits for that
        # A class is resolved every half an hour, and shows subnets by their free addresses.
        if not self._is_disturbed and not isinstance(change.object, (*RECORDS, EC2NodeClass)):
            self._quiet_changes.append(object_name(change.object))

    def _is_expired(self, obj: WireStruct | None) -> bool:
        endings = self.recorder.endings
        return isinstance(obj, NodeClaim) and endings.reason_of(obj.metadata.name) == EXPIRED

    def _has_backoff_ended(self) -> bool:
        """Whether some node may be consolidated again since the world was quiet: a removal that was
        undone is tried again after an hour, then after two, and so on.
        """
        now, claims = self.world.clock.now(), self.world.api.peek_all(NodeClaim)
        ends = (consolidated_again_at(translate_claim_state(each)) for each in claims)
        return any(each is not None and now - QUIET_SECONDS <= each <= now for each in ends)

    def _note_reservation(self, *_: object) -> None:
        """A reservation ends when its time has come: what follows is no change by itself."""
        self._is_disturbed = True

    def _placeable_pods(self) -> list[str]:
        """Pods that wait although a plan could place them, which counts on no node that starts."""
        settings = self._scenario.settings
        waiting = {str(key) for key in self.recorder.pods.pending_keys()}
        if not waiting or settings.pause in (Pause.PROVISIONING, Pause.ALL):
            return []
        prepared = prepare_input(self.manifests(), self._plan_settings(settings))
        indexes = {name: catalog.index for name, catalog in prepared.catalogs.items()}
        made = plan(prepared.snapshot, indexes, prepared.settings.options)
        starting = {each.name for each in prepared.snapshot.nodes if not each.initialized}
        if any(each.node in starting for each in made.placements):
            return []  # in a quiet world it is broken, and others may depend on the pods there
        return sorted(waiting - {*made.unplaced} - self._backing_off())

    def _plan_settings(self, settings: SimulationSettings) -> PlanSettings:
        return PlanSettings(
            now=datetime.fromtimestamp(self.world.clock.now(), UTC),
            options=plan_options(settings),
        )

    def _backing_off(self) -> set[str]:
        """Pods for which launches back off, as an event says."""
        events = self.world.api.peek_all(Event)
        subjects = (each.involvedObject for each in events if each.reason == DISAGREEMENT)
        return {f"{each.namespace}/{each.name}" for each in subjects if each.kind == "Pod"}

    # The cluster as manifests

    def manifests(self) -> ClusterManifests:
        """The cluster as it is, as offline commands read it."""
        found = ClusterManifests()
        found.objects = [each for each in self._objects() if not _is_paused(each)]
        found.default_constraints = self._scenario.settings.default_constraints
        return found

    def shell_state(self) -> dict[str, Any]:
        """The cluster as it was at the end, as one List that every offline command reads."""
        return {
            "apiVersion": "v1",
            "kind": "List",
            "items": [_manifest(each) for each in self._shell_state],
        }

    def _objects(self) -> list[WireStruct]:
        kinds = [kind for kind in served_resources() if kind not in RECORDS]
        stored = [each for kind in kinds for each in self.world.api.peek_all(kind)]
        named = sorted(stored, key=_order)
        catalog = self.world.manifests.catalog
        return [*named, self._cloud_now(), *([] if catalog is None else [catalog])]

    def _cloud_now(self) -> Cloud:
        services = self.world.account.services
        reservations = services.reservations.state.reservations.values()
        spec = msgspec.structs.replace(
            self.world.prices.cloud.spec,
            capacityReservations=[self._reservation_now(each) for each in reservations] or None,
            unavailable=self._cloud.unavailable() or None,
        )
        stated = self.world.cloud.metadata
        metadata = stated if stated.name else ObjectMeta(name=self.world.region)
        return msgspec.structs.replace(self.world.cloud, spec=spec, metadata=metadata)

    def _reservation_now(self, reservation: CapacityReservation) -> CloudReservation:
        groups = self.world.account.services.resource_groups.groups_of(reservation)
        return CloudReservation(
            id=reservation.id,
            instanceType=reservation.type,
            availabilityZone=reservation.zone,
            total=reservation.total,
            available=reservation.free if reservation.active else 0,
            instanceMatchCriteria=reservation.criteria,
            ownerID=reservation.owner,
            tags=dict(reservation.tags) or None,
            state=reservation.state,
            reservationType=reservation.kind,
            startTime=format_timestamp(reservation.start),
            endTime=None if reservation.end is None else format_timestamp(reservation.end),
            platform=reservation.platform,
            tenancy=reservation.tenancy,
            interruptible=reservation.interruptible,
            groups=groups or None,
        )


def simulate(
    scenario: Scenario,
    *,
    options: SimulationOptions = DEFAULT_OPTIONS,
    controllers: ControllerFactory = aws_controllers,
    components: ComponentFactory = cluster_components,
    observers: Sequence[StateObserver] = (),
) -> SimulationResult:
    """The result of one run."""
    simulation = Simulation(
        scenario,
        options=options,
        controllers=controllers,
        components=components,
        observers=observers,
    )
    try:
        return simulation.run()
    finally:
        simulation.close()


def _moment(seconds: float) -> str:
    """RFC 3339, with milliseconds where there are any."""
    at = datetime.fromtimestamp(round(seconds, 3), UTC)
    if not at.microsecond:
        return format_timestamp(round(seconds))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _order(obj: WireStruct) -> tuple[str, str, str]:
    metadata = metadata_of(obj)
    return served_resources()[type(obj)].kind, metadata.namespace, metadata.name


def _manifest(obj: WireStruct) -> Mapping[str, Any]:
    resource = served_resources().get(type(obj))
    if resource is None:
        return to_manifest(obj)
    manifest: dict[str, Any] = msgspec.to_builtins(obj)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}


def _is_paused(obj: WireStruct) -> bool:
    """Whether its annotation keeps a NodePool from launching nodes."""
    annotations = metadata_of(obj).annotations or {}
    return isinstance(obj, NodePool) and is_pausing(annotations, PausedWork.PROVISIONING)
