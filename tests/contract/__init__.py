"""The contract suite: the emulator's API behaviour, with every client."""

import pytest

pytest.register_assert_rewrite(
    "tests.contract.cases",
    "tests.contract.client_checks",
    "tests.contract.cluster_cases",
    "tests.contract.component_cases",
)
