"""Profiles of the property tests, quick by default, more thorough where nobody waits; which tests
stay together where several processes share the work (`make test`); and how long each suite took.
"""

import os
from pathlib import Path
from typing import Any, Final

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
CONTROL_PLANES: Final = (
    "operated_control_plane",
    "full_control_plane",
    "spare_control_plane",
    "control_plane",
)
"""Fixtures of `tests/integration`: the tests of one of them stay on one process, as every process
starts its own."""
MANY_SECONDS: Final = 60.0
"""A run that took less needs no summary."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(TESTS)
        if path.parts[0] != APART:
            item.add_marker(pytest.mark.xdist_group(_control_plane(item) or str(path)))


def _control_plane(item: pytest.Item) -> str | None:
    used = getattr(item, "fixturenames", ())
    return next((plane for plane in CONTROL_PLANES if plane in used), None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How long each suite took, added up over all processes."""
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                suite = _suite(report.nodeid)
                seconds[suite] = seconds.get(suite, 0.0) + report.duration
    ordered = sorted(seconds.items(), key=lambda each: -each[1])
    shown = ", ".join(f"{suite} {spent:.0f}" for suite, spent in ordered)
    if sum(seconds.values()) > MANY_SECONDS:
        terminalreporter.write_line(f"seconds by suite: {shown}")


def _suite(nodeid: str) -> str:
    """tests/unit/aws/test_x.py::test_y is of unit/aws."""
    folders = Path(nodeid.partition("::")[0]).parts[1:-1]
    return "/".join(folders[:2])
