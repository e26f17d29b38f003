"""A real kube-scheduler and kube-controller-manager do what the simulated ones are built to do."""

import pytest
from tests.contract.component_cases import CASES
from tests.support.control_plane import ControlPlane
from tests.support.tested_components import run_on_control_plane


@pytest.mark.parametrize("name", sorted(CASES))
def test_of_real_components(name: str, full_control_plane: ControlPlane) -> None:
    run_on_control_plane(full_control_plane, CASES[name])
