"""docs/security.md names every hostile object, with its outcome, and tests that exist."""

import re
from pathlib import Path

from tests.support.hostile_objects import ALL

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")


def test_every_hostile_object_is_a_row() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
    wanted = [(each.name, each.outcome.value) for each in ALL]
    assert sorted(row for row in rows if row[0] not in ("what", "---")) == sorted(wanted)


def test_the_tests_that_it_names_exist() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert len(named) > 8
    assert not [each for each in named if not (ROOT / each).is_file()]


def test_the_number_of_packages_is_that_of_the_lock_file() -> None:
    locked = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    assert f"{len(re.findall(r'^[a-z0-9-]+==', locked, re.MULTILINE))} packages" in PAGE
