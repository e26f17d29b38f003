"""The simulated processes of a cluster do what the real ones do."""

import pytest
from tests.contract.component_cases import CASES
from tests.support.tested_components import run_simulated


@pytest.mark.parametrize("name", sorted(CASES))
def test_of_simulated_components(name: str) -> None:
    run_simulated(CASES[name])
