"""Several runs of one scenario in one table."""

import csv
import io

import jsonschema
import msgspec
from hypothesis import given
from hypothesis import strategies as st
from scripts.make_simulation_schema import SCHEMAS, schema_of
from tests.support.simulation_results import simulation_result

from wainwright.model.simulation import (
    ExpectationResult,
    PendingSeconds,
    SimulationResult,
    Totals,
)
from wainwright.report.simulation_sweep import (
    SimulationSweep,
    SweptPath,
    run_label,
    sweep_answer,
    sweep_csv,
    sweep_of,
    sweep_rows,
)


def run(cost: float, evictions: int, waited: float = 0.0, *, held: bool = True) -> SimulationResult:
    totals = Totals(
        cost=cost, evictions=evictions, pendingSeconds=PendingSeconds(total=waited), launches=3
    )
    expectations = [ExpectationResult(line=1, held=held)]
    return simulation_result(totals=totals, expectations=expectations, laws=[])


def sweep(*results: SimulationResult) -> SimulationSweep:
    values = [f"{index}%" for index in range(len(results))]
    paths = [SweptPath(path="spec.settings.minimumSaving", values=values)]
    return sweep_of(results, [[each] for each in values], paths)


def test_the_answer_names_the_cheapest_and_the_calmest_and_what_nobody_would_choose() -> None:
    found = sweep(run(10.0, 50), run(12.0, 8), run(13.0, 20))
    assert sweep_answer(found) == (
        "sale-day: cheapest minimumSaving=0% ($10.00, 50 evictions) · fewest evictions "
        "minimumSaving=1% ($12.00, 8 evictions) · never better: minimumSaving=2%"
    )
    assert [each.dominatedBy for each in found.runs] == [[], [], [1]]
    assert [each.saving for each in found.runs] == [0.0, -2.0, -3.0]


def test_one_run_may_be_best_in_everything() -> None:
    assert sweep_answer(sweep(run(10.0, 5), run(12.0, 8))) == (
        "sale-day: cheapest with the fewest evictions minimumSaving=0% ($10.00, 5 evictions) · "
        "never better: minimumSaving=1%"
    )


def test_runs_that_wait_less_are_not_dominated() -> None:
    found = sweep(run(10.0, 5, 60.0), run(12.0, 8, 30.0))
    assert [each.dominatedBy for each in found.runs] == [[], []]
    assert (found.cheapest, found.shortestWaiting) == (0, 1)


def test_a_run_in_which_something_failed_is_not_recommended() -> None:
    found = sweep(run(10.0, 5, held=False), run(12.0, 8))
    assert (found.cheapest, found.is_success) == (1, False)
    assert sweep_rows(found)[1][-1] == "1 expectation failed"
    assert sweep_answer(found) == (
        "sale-day: cheapest with the fewest evictions minimumSaving=1% ($12.00, 8 evictions) · "
        "not considered, as something failed: minimumSaving=0%"
    )
    assert sweep(run(10.0, 5, held=False), run(12.0, 8, held=False)).cheapest == 0


def test_a_row_has_the_values_and_the_figures() -> None:
    heading, first, second = sweep_rows(sweep(run(10.0, 5, 90.0), run(9.5, 8, 90.0)))
    assert heading[:4] == ("minimumSaving", "cost", "saving", "evictions")
    assert first[:5] == ("0%", "$10.00", "=", "5", "1m30s")
    assert second[:5] == ("1%", "$9.50", "$0.50", "8", "1m30s")
    assert second[-1] == "cheapest", "both wait equally long"


def test_paths_that_end_alike_are_written_in_full() -> None:
    paths = [
        SweptPath(path=f"NodePool/{name}:spec.weight", values=["1", "2"]) for name in ("a", "b")
    ]
    found = sweep_of([run(1.0, 1), run(2.0, 2)], [["1", "1"], ["1", "2"]], paths)
    assert run_label(found, 1) == "NodePool/a:spec.weight=1, NodePool/b:spec.weight=2"


def test_the_csv_file_has_a_row_for_each_run() -> None:
    rows = list(csv.DictReader(io.StringIO(sweep_csv(sweep(run(10.0, 5), run(12.0, 8))))))
    assert [row["spec.settings.minimumSaving"] for row in rows] == ["0%", "1%"]
    assert [(row["evictions"], row["dominated"]) for row in rows] == [("5", "false"), ("8", "true")]


def test_json_is_valid_by_its_schema() -> None:
    struct, description = SCHEMAS["simulation-sweep.schema.json"]
    found = sweep(run(10.0, 5), run(12.0, 8))
    jsonschema.validate(msgspec.to_builtins(found), schema_of(struct, description))


RUNS = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@given(st.lists(RUNS, min_size=1, max_size=6))
def test_what_is_recommended_is_never_dominated(figures: list[tuple[int, int, int]]) -> None:
    found = sweep(*(run(float(cost), evicted, float(waited)) for cost, evicted, waited in figures))
    best = {found.cheapest, found.fewestEvictions, found.shortestWaiting}
    assert all(not found.runs[number].dominatedBy for number in best)
    assert found.runs[found.cheapest].totals.cost == min(each[0] for each in figures)
