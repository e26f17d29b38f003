"""One run of a case, and what it breaks."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from tests.chaos.random_cases import ChaosCase

from wainwright.emulator.faults import AnswerFault
from wainwright.model.simulation import LawResult, SimulationResult
from wainwright.sim.fault_injection import InjectedFault
from wainwright.sim.observed_state import ObservedState
from wainwright.sim.simulation import Simulation, SimulationOptions

SETTLES_WITHIN: Final = 4 * 3600.0
"""Seconds after the last event and fault by which nothing may change any more: a removal that was
undone is tried again after an hour, and then after two.
"""
FREE_LAUNCHES: Final = 20
LAUNCHES_PER_POD: Final = 3
CONVERGES: Final = "converges"
LAUNCHES_BIND: Final = "launches-bind"
CRASHES: Final = "runs-to-the-end"
"""A simulation that ends with an error."""


LONGEST_RUN: Final = 15.0
"""Seconds of CPU after which a run is taken to be going round in a circle."""


class EndlessRunError(Exception):
    """A run that was stopped."""


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    broken: tuple[LawResult, ...]
    faults: tuple[InjectedFault, ...] = ()
    result: SimulationResult | None = None

    @property
    def laws(self) -> frozenset[str]:
        return frozenset(each.law for each in self.broken)


class LaunchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """At one moment: all since the start, and the pods that there are."""

    at: float
    launches: int
    bound: int
    deaths: int
    """Of the controllers."""
    pods: int


class LaunchStreak:
    """Launches after which no pod was bound: their number is bounded by the pods there have been
    meanwhile, since those of a node that is drained are gone for a moment. After a death commands
    are rolled back, and their replacements are launched anew.
    """

    def __init__(self) -> None:
        self._last_bound = LaunchCounts(at=0.0, launches=0, bound=0, deaths=0, pods=0)
        self._most_pods = 0
        self.broken: LawResult | None = None

    def count(self, now: LaunchCounts) -> None:
        if now.bound > self._last_bound.bound:
            self._last_bound, self._most_pods = now, 0
        self._most_pods = max(self._most_pods, now.pods)
        launches = now.launches - self._last_bound.launches
        deaths = now.deaths - self._last_bound.deaths
        limit = FREE_LAUNCHES + LAUNCHES_PER_POD * self._most_pods * (1 + deaths)
        if launches > limit and self.broken is None:
            message = f"{launches} launches, and no pod was bound since the first"
            self.broken = LawResult(law=LAUNCHES_BIND, held=False, at=now.at, message=message)


class LaunchObserver:
    """Counts for the streak at each moment of a simulation."""

    def __init__(self, streak: LaunchStreak) -> None:
        self._streak = streak
        self._simulation: Simulation | None = None

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def observe(self, state: ObservedState) -> None:
        assert self._simulation is not None
        recorder = self._simulation.recorder
        self._streak.count(
            LaunchCounts(
                at=state.at,
                launches=recorder.launches,
                bound=len(recorder.pods.waits),
                deaths=self._deaths(),
                pods=state.pending_pods + state.running_pods,
            )
        )

    def _deaths(self) -> int:
        assert self._simulation is not None
        assert self._simulation.injector is not None
        return sum(": dies" in each.name for each in self._simulation.injector.happened)


def run_case(
    case: ChaosCase, *, keep_timeline: bool = False, longest_run: float = LONGEST_RUN
) -> TrialResult:
    streak = LaunchStreak()
    observer = LaunchObserver(streak)
    simulation = Simulation(
        case.scenario(),
        options=SimulationOptions(
            until=case.faults.until + SETTLES_WITHIN, keep_timeline=keep_timeline
        ),
        observers=[observer],
        faults=case.faults,
    )
    observer.follow(simulation)
    _answer_unusually(simulation, case)
    assert simulation.injector is not None
    try:
        with _bounded(longest_run):
            result = simulation.run()
    except Exception as error:
        logging.getLogger(__name__).debug("seed %d", case.seed, exc_info=True)
        broken = LawResult(law=CRASHES, held=False, message=f"{type(error).__name__}: {error}")
        return TrialResult(broken=(broken,), faults=tuple(simulation.injector.happened))
    finally:
        simulation.close()
    found = [each for each in result.laws if not each.held]
    if streak.broken is not None:
        found.append(streak.broken)
    if not simulation.was_quiet:
        message = f"still busy {SETTLES_WITHIN / 3600:g} hours after the last event and fault"
        found.append(LawResult(law=CONVERGES, held=False, at=None, message=message))
    return TrialResult(
        broken=tuple(found), faults=tuple(simulation.injector.happened), result=result
    )


def _answer_unusually(simulation: Simulation, case: ChaosCase) -> None:
    if case.extra_instances:
        rule = {
            "operation": "CreateFleet",
            "answer": AnswerFault.ONE_MORE,
            "probability": case.extra_instances,
            "end": simulation.world.start + case.faults.until,
        }
        simulation.world.account.change({"faults": [rule]})


@contextmanager
def _bounded(longest_run: float) -> Iterator[None]:
    """A run that takes too long is interrupted as by Ctrl-C, so that its tasks end in order."""
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, longest_run)
    try:
        yield
    except KeyboardInterrupt:
        if not stopped:
            raise
        raise EndlessRunError(f"no end after {longest_run:g} s of CPU") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
