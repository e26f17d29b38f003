"""`wain simulate` as somebody at a terminal, as far as nothing has to run."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.manifest_tables import TESTS
from tests.support.simulated_states import SimulatedState
from tests.support.simulation_results import simulation_result

from wainwright.cli.main import wain
from wainwright.cli.simulate import (
    ProgressLine,
    SimulateArguments,
    print_output,
    progress_line,
    simulation_options,
)
from wainwright.errors import UsageError
from wainwright.manifests.problems import InvalidInput
from wainwright.model.simulation import ExpectationResult
from wainwright.report.simulation_comparison import compare_simulations
from wainwright.report.simulation_sweep import SweptPath, sweep_of

EVERY_FIELD = str(TESTS / "scenarios" / "every-field" / "scenario.yaml")
REFUSED = TESTS / "scenarios" / "refused"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(wain, ["simulate", *arguments], standalone_mode=False)


def refusal(*arguments: str) -> UsageError:
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    return error


class TestCheck:
    def test_a_valid_scenario_is_described_and_not_run(self) -> None:
        result = run(EVERY_FIELD, "--check", "-q")
        assert result.return_value == 0
        assert result.stdout == (
            "sale-day: valid · 24h · 3 objects · 22 events · 8 expectations · 2 pods of traces\n"
        )

    def test_a_bad_one_is_refused_with_everything_that_is_wrong(self) -> None:
        error = run(str(REFUSED / "curve.yaml"), "--check").exception
        assert isinstance(error, InvalidInput)
        assert error.exit_code == 2
        assert len(error.report.errors) == 6

    def test_notes_about_files_are_printed_beside(self) -> None:
        result = run(EVERY_FIELD, "--check")
        assert "no nodeClassRef: the class default is used" in result.stderr

    def test_changes_are_judged_too(self) -> None:
        assert run(EVERY_FIELD, "--check", "--set", "spec.seed=3").return_value == 0
        error = run(EVERY_FIELD, "--check", "--set", "spec.sede=3").exception
        assert isinstance(error, InvalidInput)
        assert error.report.errors[0].path == "spec.sede"

    def test_both_sides_of_a_comparison_are_judged(self, tmp_path: Path) -> None:
        other = tmp_path / "other.yaml"
        other.write_text(
            "apiVersion: wainwright.dev/v1alpha1\nkind: Scenario\nmetadata: {name: other}\n"
            "spec: {until: quiet}\n"
        )
        result = run(EVERY_FIELD, "--check", "--compare", str(other))
        assert [line.split()[0] for line in result.stdout.splitlines()] == ["sale-day:", "other:"]
        changed = run(EVERY_FIELD, "--check", "--compare", "spec.duration=48h")
        assert [line.split(" · ")[1] for line in changed.stdout.splitlines()] == ["24h", "48h"]
        same = run(EVERY_FIELD, "--check", "--set", "spec.duration=30h", "--compare", "spec.seed=3")
        assert [line.split(" · ")[1] for line in same.stdout.splitlines()] == ["30h", "30h"]
        beside = run(EVERY_FIELD, "--check", "--compare", "--set", "spec.duration=30h")
        assert [line.split(" · ")[1] for line in beside.stdout.splitlines()] == ["24h", "30h"]


class TestOptions:
    def test_times_of_until_are_judged(self) -> None:
        assert run(EVERY_FIELD, "--check", "--until", "6h").return_value == 0
        assert refusal(EVERY_FIELD, "--check", "--until", "noon").message == (
            "--until: 'noon' is not a time since the start"
        )
        assert refusal(EVERY_FIELD, "--check", "--until", "25h").message == (
            "--until 25h is after the end, which is at 24h"
        )

    def test_a_comparison_needs_two_sides_and_has_no_single_state(self) -> None:
        assert refusal(EVERY_FIELD, "--compare").message == "--compare has nothing to compare with"
        both = refusal(EVERY_FIELD, "--compare", "spec.seed=1", "--shell-state", "out.json")
        assert both.message == "--compare has two states at the end"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--sweep", "spec.seed"], "--sweep spec.seed has no list of values"),
            (["--sweep", "spec.seed=1"], "--sweep spec.seed=1 does not name several values"),
            (["--sweep", "spec.seed=1,1"], "--sweep spec.seed=1,1 does not name several values"),
            (["--sweep", "spec.seed=1,"], "--sweep spec.seed=1, has no list of values"),
            (["--sweep", "spec.seed=1,2", "--compare", "spec.seed=3"],
             "--sweep and --compare exclude each other"),
            (["--sweep", "spec.seed=1,2", "--shell-state", "x"],
             "--sweep has a state at the end of each run"),
        ],
    )  # fmt: skip
    def test_a_sweep_needs_several_values_and_has_no_single_state(
        self, options: list[str], message: str
    ) -> None:
        assert refusal(EVERY_FIELD, "--check", *options).message == message

    def test_every_combination_of_a_sweep_is_judged(self) -> None:
        sweep = ("--sweep", "spec.duration=24h,48h", "--sweep", "spec.seed=1,2,3")
        result = run(EVERY_FIELD, "--check", "-q", *sweep)
        assert [line.split(" · ")[1] for line in result.stdout.splitlines()] == (
            ["24h"] * 3 + ["48h"] * 3
        )
        error = run(EVERY_FIELD, "--check", "--sweep", "spec.settings.packing=cheap,first-fit")
        assert isinstance(error.exception, InvalidInput)

    def test_a_missing_file_is_named(self) -> None:
        error = run("nowhere.yaml", "--check").exception
        assert isinstance(error, InvalidInput)
        assert error.report.errors[0].where == "nowhere.yaml"


def test_options_of_the_run_are_those_of_the_command_line() -> None:
    table = simulation_options(SimulateArguments(scenario="x"), None)
    assert not table.keep_timeline  # nobody asked for it
    assert not table.keep_all_points
    as_json = simulation_options(SimulateArguments(scenario="x", output="json", full=True), 60.0)
    assert as_json.keep_timeline
    assert as_json.keep_all_points
    assert as_json.until == 60.0
    assert simulation_options(SimulateArguments(scenario="x", csv_folder="y"), None).keep_timeline


class TestOutput:
    def test_the_table_begins_with_the_answer_and_is_plain_in_a_pipe(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        print_output(simulation_result(), "table")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == ("sale-day: 1 of 2 expectations failed and 1 law broken · $12.35 in 24h")
        assert lines[1] == "  ✗ law limits at 2h1m: 13 nodes of 12 allowed"
        assert "cost       $12.35, fees $0.50, $0.514/h on average, $0.170/h at the end" in lines
        assert lines[-1] == "cr-3: never active"
        assert not any("\x1b" in line for line in lines)
        assert max(map(len, lines)) <= 80

    def test_long_findings_go_on_in_the_next_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        message = "at 9m: " + ", ".join(f"reservations.cr-{n}.used is 3" for n in range(8))
        expectations = [ExpectationResult(line=3, held=True, message=message)]
        print_output(simulation_result(expectations=expectations, laws=[]), "table")
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        assert " ".join(" ".join(lines[1:6]).split()).startswith(f"✓ line 3: {message}")

    def test_a_comparison_has_both_answers_and_every_difference(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first = simulation_result()
        print_output(compare_simulations(first, simulation_result(laws=[]), []), "table")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "second sale-day costs the same as first sale-day: $12.35"
        assert lines[1].startswith("  first sale-day: ")
        assert "1 law broken" in lines[1]
        assert "law" not in lines[2]
        assert lines[4].split("  ")[-3:] == ["first sale-day", "second sale-day", "difference"]
        assert lines[-1].split() == ["laws", "broken", "1", "0", "-1"]

    def test_a_changed_scenario_goes_by_its_change(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first, changes = simulation_result(), ["spec.settings.minimumSaving=5%"]
        print_output(compare_simulations(first, first, changes), "table")
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].startswith("  sale-day: ")
        assert lines[2].startswith("  minimumSaving=5%: ")
        assert lines[4].split() == ["sale-day", "minimumSaving=5%", "difference"]

    def test_a_sweep_is_one_table_that_begins_with_the_answer(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        result = simulation_result(laws=[], expectations=[])
        paths = [SweptPath(path="spec.settings.minimumSaving", values=["0", "5%"])]
        print_output(sweep_of([result, result], [["0"], ["5%"]], paths), "table")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == ("sale-day: it makes no difference: $12.35, 9 evictions every time")
        assert lines[2].split()[:2] == ["minimumSaving", "cost"]
        assert [line.split()[0] for line in lines[3:]] == ["0", "5%"]

    def test_json_and_yaml_are_the_same_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_output(simulation_result(), "json")
        as_json = json.loads(capsys.readouterr().out)
        print_output(simulation_result(), "yaml")
        assert yaml.safe_load(capsys.readouterr().out) == as_json


def test_progress_is_shown_now_and_then() -> None:
    shown: list[str] = []
    line = ProgressLine("x", None, shown.append)
    for at in range(1000):
        line.observe(SimulatedState(at=float(at)))
    assert shown[0] == "x: 0s · 0 nodes · 0 running, 0 pending · $0.000/h"
    assert len(shown) < 1000


def test_the_progress_line_says_how_far_it_is_and_what_there_is() -> None:
    state = SimulatedState(
        at=22320.0, nodes=12, running_pods=1040, pending_pods=3, price_per_hour=0.43
    )
    assert progress_line("sale-day", state, 86400.0) == (
        "sale-day: 6h12m of 24h · 12 nodes · 1,040 running, 3 pending · $0.430/h"
    )
    assert progress_line("x", state, None).startswith("x: 6h12m · 12 nodes")
