"""`make chaos`: random worlds with faults at every call, held to the laws."""

import argparse
import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import msgspec
from tests.chaos.random_cases import random_case
from tests.chaos.reports import (
    describe_failure,
    describe_shrunk,
    describe_timeline,
    describe_world,
)
from tests.chaos.shrinking import MOST_RUNS, shrink_case
from tests.chaos.trial import TrialResult, run_case
from tests.support.planted_bugs import BUGS, planted

PROGRESS_SECONDS = 10.0
SHRUNK_FAILURES = 3
"""Failing seeds that are shrunk; the others are only named."""


class SeedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    failure: str
    """Empty where every law held."""
    faults: dict[str, int]
    seconds: float


def main(words: Sequence[str] | None = None) -> int:
    wanted = _arguments(words)
    logging.disable(logging.CRITICAL)
    if wanted.seed is not None:
        return _replay(wanted.seed, wanted.bug, wanted.timeline, wanted.shrink_runs)
    return _run(range(wanted.first, wanted.first + wanted.seeds), wanted.jobs, wanted.bug)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="replay this one, and shrink it if it fails")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--bug", default="", choices=["", *BUGS], help="a planted bug")
    parser.add_argument("--timeline", action="store_true", help="print all that happens")
    parser.add_argument(
        "--shrink-runs", type=int, default=MOST_RUNS, help="runs to make a failing case smaller"
    )
    return parser.parse_args(words)


def _planted(bug: str) -> AbstractContextManager[None]:
    return planted(bug) if bug else nullcontext()


# One seed


def _replay(seed: int, bug: str, with_timeline: bool, most_runs: int = MOST_RUNS) -> int:
    case = random_case(seed)
    with _planted(bug):
        trial = run_case(case)
        if not trial.broken:
            _say(f"seed {seed}: every law holds, with {len(trial.faults)} faults")
            return 0
        _say(describe_failure(seed, trial, bug))
        shrunk = shrink_case(case, trial, most_runs=most_runs)
        if with_timeline:
            shrunk = msgspec.structs.replace(
                shrunk, trial=run_case(shrunk.case, keep_timeline=True)
            )
    _say("the world at the start:", *describe_world(shrunk.case))
    _say(*describe_shrunk(trial, shrunk))
    if with_timeline:
        _say("what happened:", *describe_timeline(shrunk.trial))
    return 1


# Many


def try_seed(seed: int, bug: str = "") -> SeedOutcome:
    began = time.perf_counter()
    with _planted(bug):
        trial = run_case(random_case(seed))
    gc.collect()
    return SeedOutcome(
        seed=seed,
        failure=describe_failure(seed, trial, bug) if trial.broken else "",
        faults=dict(_kinds(trial)),
        seconds=time.perf_counter() - began,
    )


def _kinds(trial: TrialResult) -> Counter[str]:
    return Counter(each.name.rpartition(": ")[2] for each in trial.faults)


def _prepare_process() -> None:
    """Without logs, and with the garbage of a run collected once, after it: that saves a tenth."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    gc.disable()


def _outcomes(seeds: Iterable[int], jobs: int, bug: str) -> Iterator[SeedOutcome]:
    if jobs <= 1:
        _prepare_process()
        yield from (try_seed(seed, bug) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=_prepare_process) as processes:
        yield from processes.map(try_seed, seeds, [bug] * len([*seeds]), chunksize=4)


def _run(seeds: range, jobs: int, bug: str) -> int:
    began = said = time.monotonic()
    failed: list[int] = []
    faults: Counter[str] = Counter()
    slowest = (0.0, 0)
    for number, outcome in enumerate(_outcomes(seeds, jobs, bug), 1):
        faults.update(outcome.faults)
        slowest = max(slowest, (outcome.seconds, outcome.seed))
        if outcome.failure:
            failed.append(outcome.seed)
            _say(outcome.failure)
        if time.monotonic() - said >= PROGRESS_SECONDS:
            said = time.monotonic()
            _say(_progress(number, len(seeds), len(failed), said - began))
    _say(_summary(len(seeds), failed, faults, time.monotonic() - began, slowest))
    for seed in failed[:SHRUNK_FAILURES]:
        _replay(seed, bug, with_timeline=False)
    return 1 if failed else 0


def _progress(done: int, total: int, failed: int, seconds: float) -> str:
    left = seconds / done * (total - done)
    return f"{done} of {total} seeds, {failed} failed, {_duration(left)} left"


def _summary(
    total: int, failed: list[int], faults: Counter[str], seconds: float, slowest: tuple[float, int]
) -> str:
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in faults.most_common())
    said = f"{len(failed)} failed" if failed else "every law held"
    return (
        f"{total} seeds in {_duration(seconds)}: {said}; slowest {slowest[1]} with "
        f"{slowest[0]:.1f} s; {faults.total():,} faults: {kinds or 'none'}"
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
