"""docs/rows.md: every row is there once, and what it names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "tests" / "scenarios"
ROWS = {"TNT": 6, "SCH": 29, "VOL": 8, "TOP": 19, "SEL": 10, "RSV": 9, "DMN": 5}
LINE = re.compile(r"^\| ([A-Z]{3}-\d+) \| (.+?) \| (.+) \|$")
TABLE = {
    found[1]: found[3]
    for line in (ROOT / "docs" / "rows.md").read_text(encoding="utf-8").splitlines()
    if (found := LINE.match(line))
}


def test_every_row_is_there_in_order() -> None:
    wanted = [f"{name}-{number}" for name, most in ROWS.items() for number in range(1, most + 1)]
    assert list(TABLE) == wanted


@pytest.mark.parametrize("row", TABLE)
def test_a_row_has_tests_that_exist_or_a_reason(row: str) -> None:
    named = re.findall(r"`([^`]+)`", TABLE[row])
    assert named or TABLE[row].startswith("not supported")
    for name in named:
        assert exists(name), name


def exists(name: str) -> bool:
    if name.startswith("planning/"):
        return any(STORIES.glob(f"{name}.yaml"))
    file, _, test = name.partition("::")
    found = ROOT / file
    return found.is_file() and f"def {test}" in found.read_text(encoding="utf-8")
