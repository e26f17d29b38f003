"""One scenario run with several values: cost against evictions and waiting, so that an operator can
choose.

A run is dominated where another one is no worse in cost, evictions and waiting, and better in one
of them: nobody would choose it.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from wainwright.messages.formatting import format_count, join_first
from wainwright.model.simulation import (
    SIMULATION_API_VERSION,
    ExpectationResult,
    LawResult,
    SimulationResult,
    Totals,
)
from wainwright.report.simulation_lines import format_dollars, format_seconds

KIND: Final = "SimulationSweep"
SAME: Final = 1e-6
"""Dollars and seconds that make no difference."""


class SweptPath(msgspec.Struct, frozen=True, kw_only=True):
    """A value of `--sweep`, and what it takes."""

    path: str
    values: list[str]


class SweptRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; its timeline and series are what `--set` with the same values shows."""

    values: list[str]
    """In the order of the paths."""
    totals: Totals
    modelledPrices: bool = False
    """Whether a price that instances were billed at is an estimate."""
    saving: float
    """USD less than the first run costs."""
    expectations: list[ExpectationResult]
    laws: list[LawResult]
    warnings: list[str]
    dominatedBy: list[int]
    """Numbers of runs, from 0, that are no worse in anything and better in something; of those in
    which nothing failed, if there are any.
    """

    @property
    def is_success(self) -> bool:
        return _is_success(self)


def _is_success(run: SweptRun | SimulationResult) -> bool:
    expected = all(each.held is not False for each in run.expectations)
    return expected and all(law.held for law in run.laws)


class SimulationSweep(msgspec.Struct, frozen=True, kw_only=True):
    """What `wain simulate --sweep` prints as JSON."""

    apiVersion: str = SIMULATION_API_VERSION
    kind: str = KIND
    scenario: str
    seed: int
    start: str
    paths: list[SweptPath]
    runs: list[SweptRun]
    cheapest: int
    """Its number. Runs in which something failed are chosen only where all have failed."""
    fewestEvictions: int
    shortestWaiting: int

    @property
    def is_success(self) -> bool:
        return all(run.is_success for run in self.runs)


def sweep_of(
    results: Sequence[SimulationResult], values: Sequence[Sequence[str]], paths: list[SweptPath]
) -> SimulationSweep:
    """The runs in their order; there is at least one."""
    figures = [_figures(each.totals) for each in results]
    considered = [index for index, each in enumerate(results) if _is_success(each)] or range(
        len(results)
    )
    runs = [
        SweptRun(
            values=list(swept),
            totals=each.totals,
            modelledPrices=each.modelledPrices,
            saving=round(results[0].totals.cost - each.totals.cost, 9),
            expectations=each.expectations,
            laws=each.laws,
            warnings=each.warnings,
            dominatedBy=[
                number for number in considered if _dominates(figures[number], figures[index])
            ],
        )
        for index, (each, swept) in enumerate(zip(results, values, strict=True))
    ]
    return SimulationSweep(
        scenario=results[0].scenario,
        seed=results[0].seed,
        start=results[0].start,
        paths=paths,
        runs=runs,
        cheapest=_best(runs, (0, 1, 2)),
        fewestEvictions=_best(runs, (1, 0, 2)),
        shortestWaiting=_best(runs, (2, 0, 1)),
    )


def _figures(totals: Totals) -> tuple[float, float, float]:
    """What is weighed against each other: cost, evictions, waiting."""
    return totals.cost + totals.fees, totals.evictions, totals.pendingSeconds.total


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    is_no_worse = all(mine <= its + SAME for mine, its in pairs)
    return is_no_worse and any(mine < its - SAME for mine, its in pairs)


def _best(runs: Sequence[SweptRun], order: Sequence[int]) -> int:
    """By the first figure, then the others; the earlier one of equals."""
    numbers = [index for index, run in enumerate(runs) if run.is_success] or range(len(runs))

    def key(number: int) -> tuple[float, ...]:
        figures = _figures(runs[number].totals)
        return tuple(round(figures[each], 6) for each in order)

    return min(numbers, key=key)


# As lines


def run_label(sweep: SimulationSweep, number: int) -> str:
    """consolidationPolicy=WhenEmpty, minimumSaving=5%"""
    pairs = zip(_short_paths(sweep.paths), sweep.runs[number].values, strict=True)
    return ", ".join(f"{path}={value}" for path, value in pairs)


def _short_paths(paths: Sequence[SweptPath]) -> list[str]:
    """The last step where it is enough to tell them apart."""
    last = [each.path.rpartition(".")[2] for each in paths]
    return [
        short if last.count(short) == 1 else each.path
        for short, each in zip(last, paths, strict=True)
    ]


def sweep_answer(sweep: SimulationSweep) -> str:
    """Which is cheapest, which disturbs least, and which nobody would choose."""
    if all(_figures(run.totals) == _figures(sweep.runs[0].totals) for run in sweep.runs):
        return f"{sweep.scenario}: it makes no difference: {_summary(sweep.runs[0])} every time"
    parts = [_cheapest(sweep)]
    if sweep.fewestEvictions != sweep.cheapest:
        run = sweep.runs[sweep.fewestEvictions]
        parts.append(
            f"fewest evictions {run_label(sweep, sweep.fewestEvictions)} ({_summary(run)})"
        )
    left_out = [index for index in range(len(sweep.runs)) if _is_left_out(sweep, index)]
    if left_out:
        names = join_first((run_label(sweep, each) for each in left_out), 2)
        parts.append(f"not considered, as something failed: {names}")
    dominated = [index for index, run in enumerate(sweep.runs) if run.dominatedBy]
    if dominated:
        names = join_first((run_label(sweep, each) for each in dominated), 2)
        parts.append(f"never better: {names}")
    return f"{sweep.scenario}: {' · '.join(parts)}"


def _cheapest(sweep: SimulationSweep) -> str:
    label, run = run_label(sweep, sweep.cheapest), sweep.runs[sweep.cheapest]
    is_both = sweep.fewestEvictions == sweep.cheapest
    what = "cheapest with the fewest evictions" if is_both else "cheapest"
    return f"{what} {label} ({_summary(run)})"


def _is_left_out(sweep: SimulationSweep, number: int) -> bool:
    """Whether something failed in the run, and not in all of them."""
    return not sweep.runs[number].is_success and any(run.is_success for run in sweep.runs)


def _summary(run: SweptRun) -> str:
    totals = run.totals
    cost = format_dollars(totals.cost, modelled=run.modelledPrices)
    return f"{cost}, {format_count(totals.evictions, 'eviction')}"


BEST: Final = ("cheapest", "fewest evictions", "shortest waiting")
"""What is said of the best run, in the order of the figures."""
HEADINGS: Final = ("cost", "saving", "evictions", "waited", "95%", "launches", "disrupted")


def sweep_rows(sweep: SimulationSweep) -> list[tuple[str, ...]]:
    """A heading, then a row for each run: its values, its figures, what is to be said of it."""
    heading = (*_short_paths(sweep.paths), *HEADINGS, "")
    return [
        heading,
        *(
            (*run.values, *_cells(run), ", ".join(_notes(sweep, index)))
            for index, run in enumerate(sweep.runs)
        ),
    ]


def _cells(run: SweptRun) -> tuple[str, ...]:
    totals, modelled = run.totals, run.modelledPrices
    return (
        format_dollars(totals.cost, modelled=modelled),
        format_dollars(run.saving, modelled=modelled) if abs(run.saving) >= 0.005 else "=",
        f"{totals.evictions:,}",
        format_seconds(totals.pendingSeconds.total),
        format_seconds(totals.pendingSeconds.p95),
        f"{totals.launches:,}",
        f"{sum(totals.disruptions.values()):,}",
    )


def _notes(sweep: SimulationSweep, number: int) -> list[str]:
    run = sweep.runs[number]
    best = (sweep.cheapest, sweep.fewestEvictions, sweep.shortestWaiting)
    found = [
        name
        for figure, (name, index) in enumerate(zip(BEST, best, strict=True))
        if index == number and _makes_a_difference(sweep, figure)
    ]
    failed = sum(each.held is False for each in run.expectations)
    if failed:
        found.append(f"{format_count(failed, 'expectation')} failed")
    broken = sum(not law.held for law in run.laws)
    if broken:
        found.append(f"{format_count(broken, 'law')} broken")
    if run.dominatedBy:
        found.append("never better")
    return found


def _makes_a_difference(sweep: SimulationSweep, figure: int) -> bool:
    considered = (run for index, run in enumerate(sweep.runs) if not _is_left_out(sweep, index))
    return len({round(_figures(run.totals)[figure], 6) for run in considered}) > 1


def sweep_csv(sweep: SimulationSweep) -> str:
    """A row for each run, with the values under their paths."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(each.path for each in sweep.paths), *_csv_cells(sweep.runs[0])])
    for run in sweep.runs:
        writer.writerow([*run.values, *_csv_cells(run).values()])
    return text.getvalue()


def _csv_cells(run: SweptRun) -> Mapping[str, object]:
    totals = run.totals
    return {
        "cost": totals.cost,
        "fees": totals.fees,
        "saving": run.saving,
        "evictions": totals.evictions,
        "pendingSeconds.total": totals.pendingSeconds.total,
        "pendingSeconds.p95": totals.pendingSeconds.p95,
        "launches": totals.launches,
        "terminations": totals.terminations,
        "disruptions": sum(totals.disruptions.values()),
        "dominated": "true" if run.dominatedBy else "false",
        "held": "true" if run.is_success else "false",
    }
