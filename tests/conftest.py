"""Profiles of the property tests, quick by default, more thorough where nobody waits; and which
tests stay together where several processes share the work (`make test`).
"""

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    derandomize=True,  # a landing is judged twice by the same examples; new ones are met at home
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

TESTS: Final = Path(__file__).parent
APART: Final = "properties"
"""Few tests that take long: each by itself, at the end, so that no process is idle meanwhile."""
SHARED_CONTROL_PLANES: Final = "integration"
"""All on one process: the others would start control planes of their own."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(TESTS)
        if path.parts[0] != APART:
            group = path.parts[0] if path.parts[0] == SHARED_CONTROL_PLANES else str(path)
            item.add_marker(pytest.mark.xdist_group(group))
