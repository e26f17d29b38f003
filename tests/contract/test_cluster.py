"""The API server in memory keeps the contract of the cluster port."""

import pytest
from tests.contract.cluster_cases import CASES
from tests.support.tested_clusters import run_in_memory


@pytest.mark.parametrize("name", sorted(CASES))
def test_in_memory(name: str) -> None:
    run_in_memory(CASES[name])
