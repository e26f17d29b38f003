"""Makes a failing case smaller, by events, faults and objects, while the same law breaks."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec
from tests.chaos.random_cases import ChaosCase, Manifest
from tests.chaos.trial import TrialResult, run_case

from wainwright.errors import InvalidInputError

MOST_RUNS: Final = 200
MOST_SECONDS: Final = 120.0
NEEDED_KINDS: Final = ("EC2NodeClass", "NodePool", "Cloud")

Item = TypeVar("Item")
Run = Callable[[ChaosCase], TrialResult]


class ShrunkCase(msgspec.Struct, frozen=True, kw_only=True):
    case: ChaosCase
    trial: TrialResult
    runs: int


class _Shrinker:
    def __init__(self, case: ChaosCase, trial: TrialResult, run: Run, most_runs: int) -> None:
        self.case, self.trial, self._run, self._most = case, trial, run, most_runs
        self._law = trial.broken[0].law
        self.runs = 0
        self._until = time.monotonic() + MOST_SECONDS

    def accept(self, smaller: ChaosCase) -> bool:
        """Takes the smaller case over if it still fails in the same way."""
        if self.runs >= self._most or time.monotonic() > self._until:
            return False
        self.runs += 1
        try:
            trial = self._run(smaller)
        except InvalidInputError:
            return False  # an event is about an object that was left out
        if self._law not in trial.laws:
            return False
        self.case, self.trial = smaller, trial
        return True

    def reduce(self, items: Sequence[Item], without: Callable[[Sequence[Item]], ChaosCase]) -> None:
        """Delta debugging: leaves out parts of the items, large ones first."""
        kept, size = [*items], max(1, len(items))
        while size and kept:
            begin = 0
            while begin < len(kept):
                fewer = [*kept[:begin], *kept[begin + size :]]
                if self.accept(without(fewer)):
                    kept = fewer
                else:
                    begin += size
            size //= 2


def shrink_case(
    case: ChaosCase, trial: TrialResult, run: Run = run_case, most_runs: int = MOST_RUNS
) -> ShrunkCase:
    shrinker = _Shrinker(case, trial, run, most_runs)
    shrinker.reduce(
        case.events, lambda kept: msgspec.structs.replace(shrinker.case, events=tuple(kept))
    )
    shrinker.reduce(
        case.faults.clock_steps,
        lambda kept: _with_faults(shrinker.case, clock_steps=tuple(kept)),
    )
    # By now the faults that happen are named: which of them matter?
    names = [each.name for each in shrinker.trial.faults]
    shrinker.reduce(names, lambda kept: _with_faults(shrinker.case, only=frozenset(kept)))
    optional = [each for each in case.manifests if _is_optional(each)]
    shrinker.reduce(optional, lambda kept: _with_manifests(shrinker.case, kept))
    shrinker.reduce(
        shrinker.case.events,
        lambda kept: msgspec.structs.replace(shrinker.case, events=tuple(kept)),
    )
    return ShrunkCase(case=shrinker.case, trial=shrinker.trial, runs=shrinker.runs)


def _with_faults(case: ChaosCase, **changes: object) -> ChaosCase:
    return msgspec.structs.replace(case, faults=msgspec.structs.replace(case.faults, **changes))


def _with_manifests(case: ChaosCase, kept: Sequence[Manifest]) -> ChaosCase:
    manifests = [each for each in case.manifests if not _is_optional(each) or each in kept]
    return msgspec.structs.replace(case, manifests=tuple(manifests))


def _is_optional(manifest: Manifest) -> bool:
    return manifest["kind"] not in NEEDED_KINDS
