"""A simulation as lines, CSV files and a comparison."""

import csv
import io
import json

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.make_simulation_schema import DOCS, SCHEMAS, schema_of
from tests.support.simulation_results import HOUR, simulation_result

from wainwright.messages.formatting import MODELLED_PRICES
from wainwright.model.simulation import (
    EndState,
    ExpectationResult,
    PodSeries,
    Series,
)
from wainwright.report.simulation_comparison import (
    SimulationComparison,
    compare_simulations,
    comparison_answer,
    comparison_rows,
)
from wainwright.report.simulation_csv import simulation_tables
from wainwright.report.simulation_lines import (
    WIDTH,
    answer,
    column_peaks,
    end_line,
    estimate_notes,
    findings,
    format_dollars,
    format_seconds,
    plot_lines,
    reservation_lines,
    total_rows,
)


class TestAnswer:
    @staticmethod
    def judged(*held: bool | None) -> str:
        expectations = [ExpectationResult(line=1, held=each) for each in held]
        return answer(simulation_result(expectations=expectations, laws=[]))

    def test_it_says_whether_everything_held_and_what_it_cost(self) -> None:
        assert self.judged(True, True) == "sale-day: all 2 expectations held · $12.35 in 24h"
        assert self.judged(True) == "sale-day: the expectation held · $12.35 in 24h"
        assert self.judged(False, True) == "sale-day: 1 of 2 expectations failed · $12.35 in 24h"
        assert self.judged(True, None).startswith("sale-day: the expectation held, 1 not judged")
        assert self.judged(None).startswith("sale-day: none of 1 expectation judged yet")
        assert self.judged() == "sale-day: nothing was expected · $12.35 in 24h"

    def test_a_broken_law_is_no_success(self) -> None:
        result = simulation_result(expectations=[])
        assert answer(result) == "sale-day: 1 law broken · $12.35 in 24h"
        assert not result.is_success


def test_broken_laws_come_before_expectations() -> None:
    assert [each.text for each in findings(simulation_result())] == [
        "✗ law limits at 2h1m: 13 nodes of 12 allowed",
        "✓ line 36: at the end: fine",
        "✗ line 38: at 2h: pods.pending is 50, expected at most 20",
        "– not judged, the simulation stopped before: line 40",
    ]


class TestPlot:
    def test_it_shows_nodes_pending_pods_and_dollars_over_time(self) -> None:
        assert plot_lines(simulation_result().series) == [
            "nodes            ████████████████                                             12",
            "                 ████████████████▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆",
            "          ▄▄▄▄▄▄▄████████████████████████████████▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆        0",
            "pending        ███                                                            50",
            "               ███              ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁                              0",
            "$/h              ████████████████                                            1.2",
            "                 ████████████████▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆",
            "          ▃▃▃▃▃▃▃████████████████████████████████▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅        0",
            "          0              6h             12h            18h            24h",
        ]

    def test_nothing_that_happened_is_a_flat_line(self) -> None:
        series = Series(
            at=[0.0, 90.0],
            nodes=[0, 0],
            pods=PodSeries(running=[0, 0], pending=[0, 0]),
            pricePerHour=[0.0, 0.0],
            reservations={},
        )
        assert plot_lines(series)[0].split() == ["nodes", "0"]
        assert plot_lines(series)[-1].split() == ["0", "30s", "1m", "1m30s"]

    @given(
        st.lists(st.tuples(st.integers(1, 400), st.integers(0, 9)), min_size=2, max_size=15),
        st.integers(1, 12),
    )
    def test_a_column_has_the_highest_value_of_its_time(
        self, steps: list[tuple[int, int]], width: int
    ) -> None:
        at = [float(sum(length for length, _ in steps[:index])) for index in range(len(steps))]
        values = [value for _, value in steps]
        peaks = column_peaks(at, values, width)
        assert max(peaks) == max(values)
        span = at[-1] / width
        for column, peak in enumerate(peaks):
            start, end = column * span, (column + 1) * span
            inside = [
                value
                for index, value in enumerate(values)
                if at[index] < end - 1e-6 and (index + 1 == len(at) or at[index + 1] > start + 1e-6)
            ]
            assert peak >= max(inside, default=0)

    def test_it_is_at_most_eighty_columns_wide(self) -> None:
        assert max(map(len, plot_lines(simulation_result().series))) <= WIDTH


def test_totals_are_sentences_that_fit_into_a_window() -> None:
    rows = dict(total_rows(simulation_result()))
    assert rows == {
        "cost": "$12.35, fees $0.50, $0.514/h on average, $0.170/h at the end",
        "nodes": "at most 12 at once, 2 at the end, 120.5 node hours",
        "launches": "14, 14 terminations, 1 launch failure, 2 interruptions",
        "pods": "10 running and 0 pending at the end, 9 evictions",
        "waiting": "half of the pods up to 46s, 95% up to 1m2s, the longest 2m10s",
        "disrupted": "Empty 10, interrupted 2",
        "AWS calls": "58 (DescribeInstances 40, CreateFleet 9, CreateTags 9)",
    }
    assert max(map(len, rows.values())) + 11 <= WIDTH


def test_half_of_the_pods_may_have_waited_for_nothing() -> None:
    waited = msgspec.structs.replace(simulation_result().totals.pendingSeconds, p50=0.02)
    totals = msgspec.structs.replace(simulation_result().totals, pendingSeconds=waited)
    text = dict(total_rows(simulation_result(totals=totals)))["waiting"]
    assert text == "half of the pods less than 1s, 95% up to 1m2s, the longest 2m10s"


def test_commands_that_saved_nothing_say_so() -> None:
    totals = msgspec.structs.replace(
        simulation_result().totals, commands=2, moves=1, savingsPerHour=-0.0002
    )
    text = dict(total_rows(simulation_result(totals=totals)))["saved"]
    assert text == "nothing by 2 commands of disruption, which moved 1 pod"


def test_calls_that_do_not_fit_are_counted_only() -> None:
    calls = {f"DescribeSomethingLong{number}": 10 - number for number in range(5)}
    totals = msgspec.structs.replace(simulation_result().totals, apiCalls=calls)
    text = dict(total_rows(simulation_result(totals=totals)))["AWS calls"]
    assert text == "40 (DescribeSomethingLong0 10, DescribeSomethingLong1 9, …)"


def test_each_reservation_has_a_line_on_what_it_was_worth() -> None:
    assert list(reservation_lines(simulation_result())) == [
        "cr-1: 33% of 72.0 h used, worth $2.04 on demand; $4.08 idle",
        "cr-2: 100% of 10.0 h used, worth $0.85 on demand",
        "cr-3: never active",
    ]


def test_pods_that_still_wait_are_named_with_their_reason() -> None:
    assert end_line(simulation_result()) == (
        "pending at the end: shop/big-0: no instance type has 900 CPUs"
    )
    assert end_line(simulation_result(end=EndState())) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (45, "45s"),
        (130, "2m10s"),
        (6 * HOUR, "6h"),
        (36 * HOUR, "36h"),
        (7261, "2h1m"),
    ],
)
def test_times_have_two_units_at_most(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


class TestCsv:
    def test_every_part_of_the_result_is_a_table(self) -> None:
        tables = simulation_tables(simulation_result())
        rows = {name: list(csv.DictReader(io.StringIO(text))) for name, text in tables.items()}
        assert [row["what"] for row in rows["timeline.csv"]] == [
            "launch",
            "event",
            "evict",
            "label",
        ]
        assert rows["timeline.csv"][3]["from"] == "reserved"
        assert rows["series.csv"][2]["pods.running"] == "60"
        assert rows["series.csv"][0]["reservations.cr-1.total"] == "3"
        assert {row["total"]: row["value"] for row in rows["totals.csv"]}[
            "pendingSeconds.p95"
        ] == "61.5"
        assert rows["nodes.csv"][0]["pods"] == "shop/web-0"
        assert [row["held"] for row in rows["expectations.csv"]] == ["true", "false", ""]

    def test_a_table_without_rows_has_its_header(self) -> None:
        tables = simulation_tables(simulation_result(end=EndState(), timeline=[]))
        assert tables["pending.csv"] == "pod,reason\n"
        assert tables["timeline.csv"] == "at,what,object,message\n"


class TestComparison:
    @staticmethod
    def compared(**changes: object) -> SimulationComparison:
        first = simulation_result()
        totals = msgspec.structs.replace(first.totals, **changes)
        return compare_simulations(first, simulation_result(totals=totals), ["spec.seed=3"])

    def test_the_difference_is_the_second_less_the_first(self) -> None:
        comparison = self.compared(cost=10.0, disruptions={"Empty": 8, "Drifted": 1})
        found = {each.total: each.difference for each in comparison.difference}
        assert found["cost"] == pytest.approx(-2.345)
        assert found["disruptions.Empty"] == -2
        assert found["disruptions.interrupted"] == -2
        assert found["disruptions.Drifted"] == 1
        assert found["reservations.cr-1.usedHours"] == 0
        rows = {row[0]: row[1:] for row in comparison_rows(comparison)}
        assert rows[""] == ("sale-day", "seed=3", "difference")
        assert rows["cost ($)"] == ("12.345", "10.000", "-2.345")
        assert rows["launches"] == ("14", "14", "=")
        assert rows["disruptions.Drifted"] == ("0", "1", "+1")

    def test_the_answer_says_which_is_cheaper(self) -> None:
        cheaper, dearer, same = (self.compared(cost=cost) for cost in (10.0, 24.69, 12.345))
        assert comparison_answer(cheaper) == "spec.seed=3 costs $2.35 (19%) less than sale-day"
        assert comparison_answer(dearer) == "spec.seed=3 costs $12.35 (100%) more than sale-day"
        assert comparison_answer(same) == "spec.seed=3 costs the same as sale-day: $12.35"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_committed_schemas_are_those_of_the_structs(name: str) -> None:
    """Else: .venv/bin/python scripts/make_simulation_schema.py"""
    assert json.loads((DOCS / name).read_text()) == schema_of(*SCHEMAS[name])


def test_results_are_valid_by_their_schemas() -> None:
    result = simulation_result()
    comparison = compare_simulations(result, result, ["spec.seed=3"])
    for value, name in zip((result, comparison), SCHEMAS, strict=False):
        schema = json.loads((DOCS / name).read_text())
        jsonschema.validate(json.loads(msgspec.json.encode(value)), schema)


def test_a_document_begins_with_what_it_is() -> None:
    document = json.loads(msgspec.json.encode(simulation_result()))
    assert document["timeline"][0]["what"] == "launch"
    assert list(document)[:6] == ["apiVersion", "kind", "scenario", "seed", "start", "finish"]


def test_estimates_are_marked_and_explained() -> None:
    result = msgspec.structs.replace(simulation_result(), modelledPrices=True)
    assert " · ~$" in answer(result)
    assert dict(total_rows(result))["cost"].startswith("~$")
    assert [line for line in reservation_lines(result) if "~$" not in line] == [
        "cr-3: never active"
    ]
    assert estimate_notes([False, True]) == [MODELLED_PRICES]
    assert estimate_notes([False]) == []
    assert format_dollars(0.0, modelled=True) == "$0.00"
