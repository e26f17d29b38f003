"""One run of a case, and what it breaks."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from tests.chaos.launch_laws import LaunchObserver
from tests.chaos.random_cases import ChaosCase

from wainwright.emulator.faults import AnswerFault
from wainwright.model.simulation import LawResult, SimulationResult
from wainwright.sim.fault_injection import InjectedFault
from wainwright.sim.simulation import Simulation, SimulationOptions

SETTLES_WITHIN: Final = 4 * 3600.0
"""Seconds after the last event and fault by which nothing may change any more: a removal that was
undone is tried again after an hour, and then after two.
"""
CONVERGES: Final = "converges"
CRASHES: Final = "runs-to-the-end"
"""A simulation that ends with an error."""


LONGEST_RUN: Final = 15.0
"""Seconds of CPU after which a run is taken to be going round in a circle."""


class EndlessRunError(Exception):
    """A run that was stopped."""


class BrokenLawError(Exception):
    """A run that goes round in a circle, by a law: the rest of it would show nothing else."""


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    broken: tuple[LawResult, ...]
    faults: tuple[InjectedFault, ...] = ()
    result: SimulationResult | None = None

    @property
    def laws(self) -> frozenset[str]:
        return frozenset(each.law for each in self.broken)


def run_case(
    case: ChaosCase, *, keep_timeline: bool = False, longest_run: float = LONGEST_RUN
) -> TrialResult:
    interruption = _Interruption()
    observer = LaunchObserver(
        case.faults.clock_error, on_circle=lambda: interruption.interrupt(BrokenLawError())
    )
    simulation = Simulation(
        case.scenario(),
        options=SimulationOptions(
            until=case.faults.until + SETTLES_WITHIN, keep_timeline=keep_timeline
        ),
        controllers=observer.start_process,
        observers=[observer],
        faults=case.faults,
    )
    observer.follow(simulation)
    _answer_unusually(simulation, case)
    assert simulation.injector is not None
    result = None
    try:
        with interruption.after(longest_run):
            result = simulation.run()
        found = _broken_laws(simulation, result)
    except BrokenLawError:
        found = []  # the observer has it
    except Exception as error:
        logging.getLogger(__name__).debug("seed %d", case.seed, exc_info=True)
        message = f"{type(error).__name__}: {error}"
        found = [LawResult(law=CRASHES, held=False, message=message)]
    finally:
        simulation.close()
    return TrialResult(
        broken=(*observer.broken, *found),
        faults=tuple(simulation.injector.happened),
        result=result,
    )


def _broken_laws(simulation: Simulation, result: SimulationResult) -> list[LawResult]:
    found = [each for each in result.laws if not each.held]
    if not simulation.was_quiet:
        message = f"still busy {SETTLES_WITHIN / 3600:g} hours after the last event and fault"
        found.append(LawResult(law=CONVERGES, held=False, at=None, message=message))
    return found


def _answer_unusually(simulation: Simulation, case: ChaosCase) -> None:
    if case.extra_instances:
        rule = {
            "operation": "CreateFleet",
            "answer": AnswerFault.ONE_MORE,
            "probability": case.extra_instances,
            "end": simulation.world.start + case.faults.until,
        }
        simulation.world.account.change({"faults": [rule]})


class _Interruption:
    """Ends a run as Ctrl-C does, so that its tasks end in order."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def interrupt(self, error: Exception) -> None:
        if self.error is None:
            self.error = error
            signal.raise_signal(signal.SIGINT)

    @contextmanager
    def after(self, seconds: float) -> Iterator[None]:
        """Of CPU; raises the error of an interruption."""
        endless = EndlessRunError(f"no end after {seconds:g} s of CPU")
        before = signal.signal(signal.SIGVTALRM, lambda *_: self.interrupt(endless))
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            yield
        except KeyboardInterrupt:
            if self.error is None:
                raise
            raise self.error from None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
