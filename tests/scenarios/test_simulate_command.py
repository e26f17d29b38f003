"""`wain simulate` from a file to its outputs, run as somebody at a terminal would."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import wain

SCENARIO = str(TESTS / "scenarios" / "simulation" / "thin-path.yaml")
DOCS = TESTS.parent / "docs"
SCHEMA = json.loads((DOCS / "simulation.schema.json").read_text())
COMPARISON_SCHEMA = json.loads((DOCS / "simulation-comparison.schema.json").read_text())
SWEEP_SCHEMA = json.loads((DOCS / "simulation-sweep.schema.json").read_text())


def run(command: str, *arguments: str) -> Result:
    result = CliRunner().invoke(wain, [command, *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    result = run("simulate", SCENARIO, "-q", "-o", "json")
    assert result.return_value == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_real_output_is_valid_by_the_schema(document: dict[str, Any]) -> None:
    jsonschema.validate(document, SCHEMA)
    assert document["scenario"] == "thin-path"
    assert (document["start"], document["finish"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:30:00Z",
    )
    assert all(each["held"] for each in [*document["expectations"], *document["laws"]])


SAME_WITH_EVERY_PYTHON = "89040cc353117c08400986f583eba83140afde5d6eb59ffb895f071b3567fb9b"
"""Of the JSON of the scenario: `make test-all` compares Python 3.11 to 3.13 by it. It changes
with what a simulation does or prints.
"""


def test_the_same_scenario_and_seed_give_the_same_bytes() -> None:
    program = "from wainwright.cli.main import main; main()"
    arguments = [sys.executable, "-c", program, "simulate", SCENARIO, "-q", "-o", "json"]
    outputs = [
        subprocess.run(
            arguments,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert hashlib.sha256(outputs[0]).hexdigest() == SAME_WITH_EVERY_PYTHON


def test_no_path_appears_in_it(document: dict[str, Any]) -> None:
    assert "thin-path.yaml" not in json.dumps(document)


def test_a_failed_expectation_is_exit_code_1_and_the_output_is_complete() -> None:
    result = run("simulate", SCENARIO, "-q", "-o", "json", "--set", "spec.expect[0].pods.running=3")
    found = json.loads(result.stdout)
    assert result.return_value == 1
    assert [each["held"] for each in found["expectations"]].count(False) == 1
    [failed] = [each for each in found["expectations"] if not each["held"]]
    assert failed["line"] == 11
    assert failed["found"] == {"pods": {"pending": 0, "running": 2}}
    assert failed["message"] == "at 9m: pods.running is 2, expected 3"
    jsonschema.validate(found, SCHEMA)


def test_until_stops_earlier_and_the_state_is_read_by_other_commands(tmp_path: Path) -> None:
    state, folder = tmp_path / "state.json", tmp_path / "csv"
    options = ("--until", "10m30s", "--shell-state", str(state), "--csv", str(folder))
    result = run("simulate", SCENARIO, "-q", *options)
    assert result.return_value == 0
    assert result.stdout.splitlines()[0].startswith(
        "thin-path: the expectation held, 7 not judged · "
    )
    plan = json.loads(run("plan", str(state), "-o", "json").stdout)
    assert (plan["summary"]["pods"], plan["unschedulable"]) == (5, [])
    assert plan["nodeClaims"] == []  # the node for the pods that wait is on its way
    with (folder / "expectations.csv").open() as opened:
        assert [row["held"] for row in csv.DictReader(opened)] == ["true"] + [""] * 7


def test_a_comparison_has_both_results_with_the_same_seed() -> None:
    change = "Deployment/shop/web:spec.replicas=4"
    arguments = ("--seed", "5", "-q", "-o", "json", "--compare", change)
    found = json.loads(run("simulate", SCENARIO, *arguments).stdout)
    assert (found["first"]["seed"], found["second"]["seed"]) == (5, 5)
    assert found["changes"] == [change]
    running = [found[side]["series"]["pods"]["running"] for side in ("first", "second")]
    assert max(running[0]) == max(running[1]) == 8
    assert 4 in running[1]
    assert 4 not in running[0]
    jsonschema.validate(found, COMPARISON_SCHEMA)
    totals = {each["total"]: each for each in found["difference"]}
    assert totals["cost"]["first"] == found["first"]["totals"]["cost"]
    assert totals["cost"]["second"] == found["second"]["totals"]["cost"]


def test_a_sweep_runs_every_combination_with_one_seed(tmp_path: Path) -> None:
    policies = "NodePool/default:spec.disruption.consolidateAfter=30s,5m"
    arguments = ("-q", "-o", "json", "--csv", str(tmp_path), "--sweep", policies)
    found = json.loads(run("simulate", SCENARIO, *arguments).stdout)
    jsonschema.validate(found, SWEEP_SCHEMA)
    assert [each["values"] for each in found["runs"]] == [["30s"], ["5m"]]
    early, late = (each["totals"]["cost"] for each in found["runs"])
    assert early < late
    assert (found["cheapest"], found["runs"][1]["dominatedBy"]) == (0, [0])
    assert len((tmp_path / "sweep.csv").read_text().splitlines()) == 3


def test_the_table_is_the_answer_a_plot_and_totals() -> None:
    lines = run("simulate", SCENARIO, "-q").stdout.splitlines()
    assert lines[0].startswith("thin-path: all 8 expectations held · ~$")
    assert any(line.startswith("nodes") and "█" in line for line in lines)
    assert any(line.startswith("cost  ") for line in lines)
    assert any(line.startswith("cr-1: 0% of 1.5 h used") for line in lines)
