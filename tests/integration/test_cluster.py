"""A real API server, through our client, keeps the contract that the one in memory is built to."""

import pytest
from tests.contract.cluster_cases import CASES
from tests.support.control_plane import ControlPlane
from tests.support.tested_clusters import run_on_api_server


@pytest.mark.parametrize("name", sorted(CASES))
def test_on_a_kube_apiserver(name: str, api: ControlPlane) -> None:
    run_on_api_server(api, CASES[name])
