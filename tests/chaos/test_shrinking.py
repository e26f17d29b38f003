"""A failing seed: the line that replays it, and the smaller case in which the same law breaks."""

import logging
import re
import shlex
import subprocess
from collections.abc import Iterator

import msgspec
import pytest
from tests.chaos.__main__ import main
from tests.chaos.random_cases import ChaosCase, random_case
from tests.chaos.reports import describe_failure, describe_shrunk
from tests.chaos.shrinking import NEEDED_KINDS, shrink_case
from tests.chaos.trial import TrialResult
from tests.properties.test_planted_bugs import FOUND
from tests.support.manifest_tables import TESTS

from wainwright.errors import InvalidInputError
from wainwright.model.simulation import LawResult
from wainwright.sim.fault_injection import ClockStep, InjectedFault

BUG = "node-not-drained"
FAILURE = re.compile(r"seed (\d+): (\S+) at [\d.]+ s: .+; replay: (make chaos SEED=\1 BUG=\S+)")
SHRUNK = re.compile(r"shrunk in (\d+) runs to (\d+) events and (\d+) of (\d+) faults:")


@pytest.fixture
def _with_logs_again() -> Iterator[None]:
    before = logging.root.manager.disable
    yield
    logging.disable(before)


# A seed


@pytest.mark.usefixtures("_with_logs_again")
def test_a_failing_seed_prints_a_line_that_replays_it_and_a_smaller_timeline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = _failing_run(capsys)
    line = FAILURE.fullmatch(lines[0])
    assert line is not None, lines[0]
    seed, law, command = line.groups()
    assert _arguments_of(command) == f"--seed {seed} --bug {BUG}"
    runs, events, faults, of_faults = map(int, _match(SHRUNK, lines).groups())
    assert 0 < runs <= 4
    assert events < len(random_case(int(seed)).events)
    assert faults < of_faults
    shown = lines[lines.index(_match(SHRUNK, lines).group()) + 1 : lines.index("what happened:")]
    broken = [text for text in shown if "BROKEN" in text]
    assert any(f"BROKEN {law}: " in text for text in broken)
    assert len(shown) == events + faults + len(broken) + _clock_steps(shown)
    assert any("NodeClaim/pool-" in text for text in lines[lines.index("what happened:") :])


def _failing_run(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is printed of the first seed that finds the bug; the others hold every law."""
    for seed in FOUND[BUG]:
        wanted = ("--seed", str(seed), "--bug", BUG, "--shrink-runs", "4", "--timeline")
        code = main(wanted)
        lines = capsys.readouterr().out.splitlines()
        if code:
            return lines
        assert lines[0].startswith(f"seed {seed}: every law holds")
    raise AssertionError(f"no seed finds {BUG}: `make chaos-proof` says which one does")


def _arguments_of(command: str) -> str:
    """What `make` hands on of the line that somebody copies, from `--seed` on."""
    words = [*shlex.split(command), "--dry-run", "--no-print-directory"]
    run = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, check=True)
    (line,) = [each for each in run.stdout.splitlines() if "tests.chaos" in each]
    return line[line.index("--seed ") :].strip()


def _match(pattern: re.Pattern[str], lines: list[str]) -> re.Match[str]:
    (found,) = [match for each in lines if (match := pattern.fullmatch(each))]
    return found


def _clock_steps(shown: list[str]) -> int:
    return sum("clock of the controllers" in text for text in shown)


# The search, with a run that is only counted


class _CountedRun:
    """Breaks a law where the case has these events and faults, as a run of a simulation would."""

    def __init__(self, events: set[str], faults: set[str]) -> None:
        self._events, self._faults = events, faults
        self.cases: list[ChaosCase] = []

    def __call__(self, case: ChaosCase) -> TrialResult:
        self.cases.append(case)
        if not case.manifests or not any(each["kind"] == "Deployment" for each in case.manifests):
            raise InvalidInputError("an event is about a Deployment that is not there")
        happened = {f"fault-{number}" for number in range(20)}
        happened &= happened if case.faults.only is None else case.faults.only
        is_broken = self._events <= _names(case) and self._faults <= happened
        law = LawResult(law="planted" if is_broken else "another", held=False, at=60.0, message="x")
        faults = [InjectedFault(float(name[6:]), name) for name in sorted(happened)]
        return TrialResult(broken=(law,), faults=tuple(faults))


def _names(case: ChaosCase) -> set[str]:
    return {each["name"] for each in case.events}


def _case() -> ChaosCase:
    events = tuple({"at": f"{number}s", "name": f"event-{number}"} for number in range(12))
    kinds = (*NEEDED_KINDS, "Deployment", "PodDisruptionBudget", "StatefulSet")
    case = random_case(0)
    return msgspec.structs.replace(
        case,
        events=events,
        manifests=tuple({"kind": kind, "metadata": {"name": "a"}, "spec": {}} for kind in kinds),
        faults=msgspec.structs.replace(case.faults, clock_steps=(ClockStep(at=5.0, offset=30.0),)),
    )


def test_what_the_law_does_not_need_is_left_out() -> None:
    run = _CountedRun({"event-3", "event-8"}, {"fault-7"})
    case = _case()
    trial = run(case)
    shrunk = shrink_case(case, trial, run)
    assert _names(shrunk.case) == {"event-3", "event-8"}
    assert [each.name for each in shrunk.trial.faults] == ["fault-7"]
    assert shrunk.case.faults.clock_steps == ()
    assert [each["kind"] for each in shrunk.case.manifests] == [*NEEDED_KINDS, "Deployment"]
    assert shrunk.trial.laws == {"planted"}
    assert shrunk.runs == len(run.cases) - 1
    assert (
        describe_failure(7, shrunk.trial) == "seed 7: planted at 60 s: x; replay: make chaos SEED=7"
    )
    assert list(describe_shrunk(trial, shrunk)) == [
        f"shrunk in {shrunk.runs} runs to 2 events and 1 of 20 faults:",
        "      3.000 s  {name: event-3}",
        "      7.000 s  fault-7",
        "      8.000 s  {name: event-8}",
        "     60.000 s  BROKEN planted: x",
    ]


def test_a_case_that_breaks_another_law_is_not_taken() -> None:
    everything = {f"event-{number}" for number in range(12)}
    run = _CountedRun(everything, {f"fault-{number}" for number in range(20)})
    case = _case()
    shrunk = shrink_case(case, run(case), run)
    assert _names(shrunk.case) == everything
    assert len(shrunk.trial.faults) == 20
    assert shrunk.trial.laws == {"planted"}


def test_it_ends_after_as_many_runs_as_it_may_make() -> None:
    run = _CountedRun({"event-3"}, set())
    case = _case()
    shrunk = shrink_case(case, run(case), run, most_runs=3)
    assert shrunk.runs == 3
    assert len(run.cases) == 1 + 3
