"""No law is broken in random worlds, whatever faults they have."""

import os

import pytest
from tests.support.random_inputs.scenarios import random_scenario

from wainwright.sim.simulation import SimulationOptions, simulate

WORLDS = int(os.environ.get("SIMULATED_WORLDS", "8"))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_faults_break_no_law(seed: int) -> None:
    result = simulate(random_scenario(seed), options=SimulationOptions(keep_timeline=False))

    assert [each for each in result.laws if not each.held] == []
