"""docs/internals/aws-rows.md has every row, and only existing tests."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/internals/aws-rows.md").read_text()
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
ROWS = {
    *("16", "17", "41", "42", "43", "44", "45", "46", "47", "48", "49", "50", "51", "52", "53"),
    *("54, 55", "56", "57", "58–63", "64", "000: 1", "000: 8"),
    *("002: 12", "002: 22", "002: 28", "002: 33"),
    *(f"AIT-{number}" for number in range(1, 15)),
    *(f"ALN-{number}" for number in range(1, 11)),
    *(f"ACR-{number}" for number in range(1, 7)),
    *(f"ALT-{number}" for number in range(1, 8)),
    *(f"ANC-{number}" for number in range(1, 10)),
}


def cells() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if row[0] != "row"]


@cache
def known_in(path: str) -> frozenset[str]:
    file = ROOT / path if path.startswith("tests/") else ROOT / "tests/unit" / path
    return frozenset(re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE))


def test_every_row_is_there() -> None:
    assert {row[0] for row in cells()} == ROWS


@pytest.mark.parametrize("row", cells(), ids=lambda row: str(row[0]))
def test_a_row_has_tests_that_exist_or_a_reason(row: list[str]) -> None:
    _, what, tests, reason = row
    named = NAMED.findall(tests)
    assert what
    assert named or reason
    assert [each for each in named if each[1] not in known_in(each[0])] == []


def test_every_test_of_a_row_is_on_the_page() -> None:
    """Those of the files that were written for the page."""
    named = {name for _, name in NAMED.findall(PAGE)}
    for file in ("reservations", "types", "launch", "upkeep"):
        assert known_in(f"aws/test_rows_{file}.py") <= named
