"""Scenarios that read as stories: every file of `simulation/` runs, and what it expects holds."""

from pathlib import Path

import pytest
from tests.support.manifest_tables import TESTS

from wainwright.model.simulation import LaunchEntry, SimulationResult
from wainwright.sim.scenario_reader import read_scenario
from wainwright.sim.simulation import SimulationOptions, simulate

FOLDER = TESTS / "scenarios" / "simulation"
FILES = sorted(FOLDER.rglob("*.yaml"))
WITHOUT_TIMELINE = SimulationOptions(keep_timeline=False)


def failures(result: SimulationResult) -> list[str]:
    expectations = [
        f"line {each.line}: {each.message}" for each in result.expectations if not each.held
    ]
    laws = [f"law {law.law} at {law.at}: {law.message}" for law in result.laws if not law.held]
    return [*expectations, *laws]


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(FOLDER)) for file in FILES])
def test_what_is_expected_happens(file: Path) -> None:
    result = simulate(read_scenario(str(file)), options=WITHOUT_TIMELINE)
    assert failures(result) == []


@pytest.mark.parametrize(("min_values", "types"), [(30, 30), (3, 15)])
def test_spot_to_spot_requests_as_many_types_as_min_values_and_fifteen_at_least(
    min_values: int, types: int
) -> None:
    file = FOLDER / "design-documents" / f"spot-to-spot-with-min-values-{min_values}.yaml"
    result = simulate(read_scenario(str(file)))
    launches = [each for each in result.timeline if isinstance(each, LaunchEntry)]
    assert [each.types for each in launches][1:] == [types]
