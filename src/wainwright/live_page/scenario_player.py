"""Plays a scenario while somebody looks on: at a chosen speed, step by step, and with events that
no file has.

The simulation runs in one thread of its own, so that the page is answered meanwhile; everything
that touches it goes there, one after the other. How fast it is played depends on the clock of the
process that serves the page; what happens depends on the scenario and the events alone.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import msgspec

from wainwright import __version__
from wainwright.api.kubernetes.workloads import Deployment, StatefulSet
from wainwright.clock import Clock
from wainwright.live_page.event_stream import EventStream, FrameKind
from wainwright.model.simulation import SimulationResult
from wainwright.report.visual.simulation_story import pool_infos, simulation_story
from wainwright.report.visual.story import LiveInfo, LiveMode, Report, Story, WorkloadInfo
from wainwright.report.visual.story_changes import StoryChanges, StorySnapshot
from wainwright.sim.scenario import Scenario
from wainwright.sim.scenario_reader import read_event
from wainwright.sim.simulation import Simulation, SimulationOptions
from wainwright.translate.workload_expansion import POD_LIMIT

Result = TypeVar("Result")
TICK: Final = 0.25
"""Seconds of the clock between two changes of the page."""
REST_SHARE: Final = 0.3
"""Of the time that a change took: requests are answered also where changes take long."""
DEFAULT_SPEED: Final = 300.0
MAX_SPEED: Final = 86_400.0
MAX_STEP: Final = 86_400.0
OPTIONS: Final = SimulationOptions(keep_all_points=True, keep_history=True)


class StreamedChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a page gets where a story goes on."""

    live: LiveInfo
    changes: StoryChanges | None = None


class ScenarioPlayer:
    """One run of a scenario, its page's stream of changes, and the controls of both."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        *,
        speed: float = DEFAULT_SPEED,
        pod_limit: int = POD_LIMIT,
    ) -> None:
        self.stream = EventStream()
        self._scenario = scenario
        self._clock = clock
        self._speed = speed
        self._pod_limit = pod_limit
        self._playing = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="simulation")
        self._at = 0.0
        self._final: SimulationResult | None = None
        """What came of it, once it has ended for good."""

    # What the server needs

    async def begin(self) -> None:
        await self._in_thread(self._begin)

    async def run(self) -> None:
        """Plays whenever it is to play; until cancelled."""
        while True:
            await self._playing.wait()
            began = self._clock.now()
            await self._in_thread(partial(self._advance, self._speed * TICK))
            spent = self._clock.now() - began
            await self._clock.sleep(max(TICK - spent, spent * REST_SHARE))

    async def end(self) -> None:
        """Waits for what is under way."""
        await self._in_thread(self._close)
        self._thread.shutdown()

    async def report(self) -> bytes:
        """The JSON of all that happened so far."""
        return await self._in_thread(self._report)

    # What the page may do

    async def play(self, speed: float | None = None) -> None:
        self._speed = self._speed if speed is None else speed
        if not self._is_over:
            self._playing.set()
        await self._in_thread(self._publish_state)

    async def pause(self) -> None:
        self._playing.clear()
        await self._in_thread(self._publish_state)

    async def step(self, seconds: float) -> None:
        """Pauses, and goes on by so much."""
        self._playing.clear()
        await self._in_thread(partial(self._advance, seconds))

    async def inject(self, text: str) -> str:
        """Lets an event happen now. Raises InvalidInput; returns what was done."""
        return await self._in_thread(partial(self._inject, text))

    # In the thread of the simulation

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _begin(self) -> None:
        self._simulation = Simulation(self._scenario, options=OPTIONS)
        self._simulation.begin()
        self._shown = StorySnapshot(self._story())

    def _close(self) -> None:
        if self._final is None:
            self._simulation.stop()
        self._simulation.close()

    @property
    def _is_over(self) -> bool:
        return self._final is not None or self._simulation.is_over

    def _advance(self, seconds: float) -> None:
        if self._final is not None:
            return
        simulation = self._simulation
        # What was asked for is added up: steps of 0.1 s must not drift.
        self._at = min(self._at + seconds, simulation.end)
        simulation.advance(self._at)
        if self._at >= simulation.end:
            simulation.advance(simulation.end + 1.0)
            self._final = simulation.finish()
        if self._is_over:
            self._playing.clear()
        self._publish()

    def _inject(self, text: str) -> str:
        simulation = self._simulation
        if self._final is not None:
            return "the scenario is over: nothing happens any more"
        event = read_event(text, simulation.manifests(), self._at, pod_limit=self._pod_limit)
        warned = len(simulation.warnings)
        simulation.inject(event)
        self._publish()
        return "; ".join(simulation.warnings[warned:])

    def _publish(self) -> None:
        shown = StorySnapshot(self._story())
        changes = shown.changes_since(self._shown)
        self._shown = shown
        self._add_frame(changes)

    def _publish_state(self) -> None:
        self._add_frame(None)

    def _add_frame(self, changes: StoryChanges | None) -> None:
        change = StreamedChange(live=self._live(self.stream.next_id), changes=changes)
        self.stream.add(FrameKind.CHANGES, msgspec.json.encode(change))

    def _report(self) -> bytes:
        report = Report(
            version=__version__, stories=[self._story()], live=self._live(self.stream.last_id)
        )
        return msgspec.json.encode(report)

    def _story(self) -> Story:
        simulation = self._simulation
        result = self._final or simulation.result_so_far()
        history = simulation.recorder.history
        assert history is not None
        story = simulation_story(result, history, pool_infos(self._scenario.manifests.pools))
        judged = [each for each in story.findings if each.held is not None]
        return msgspec.structs.replace(story, opensAt=None, findings=judged)

    def _live(self, frame: str) -> LiveInfo:
        return LiveInfo(
            mode=LiveMode.SCENARIO,
            frame=frame,
            isPlaying=self._playing.is_set(),
            isOver=self._is_over,
            speed=self._speed,
            until=self._scenario.duration,
            zones=sorted(self._simulation.world.account.zones),
            workloads=[*self._workloads()],
        )

    def _workloads(self) -> Iterator[WorkloadInfo]:
        api = self._simulation.world.api
        found: list[Deployment | StatefulSet] = [*api.peek_all(Deployment)]
        for each in (*found, *api.peek_all(StatefulSet)):
            replicas = each.spec.replicas
            yield WorkloadInfo(
                kind=type(each).__name__,
                namespace=each.metadata.namespace,
                name=each.metadata.name,
                replicas=1 if replicas is None else replicas,
            )
