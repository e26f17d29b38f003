"""The contract suite: what the emulator promises, through every door."""

import pytest

pytest.register_assert_rewrite("tests.contract.cases", "tests.contract.client_checks")
