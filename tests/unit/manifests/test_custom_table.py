"""The table of manifests of our own kinds: verdict, place and message of each."""

from pathlib import Path

import pytest
from tests.support.table import Change, Expected, Row, changes, rows

from wainwright.api.fault import field_path
from wainwright.api.judge import judge
from wainwright.api.kinds import known
from wainwright.manifests.check import check
from wainwright.manifests.problem import Problem


@pytest.mark.parametrize("row", rows("custom"), ids=lambda row: row.name)
def test_a_manifest_is_judged_as_its_comments_say(row: Row, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(row.text, encoding="utf-8")
    report = check([str(file)]).report
    found = [*_found("error", report.errors), *_found("warning", report.warnings)]
    wanted = [
        Expected(e.line, e.word.removesuffix("(offline)"), e.path, e.message) for e in row.expected
    ]
    assert sorted(found) == sorted(wanted)


def _found(word: str, problems: list[Problem]) -> list[Expected]:
    return [Expected(p.line or 0, word, p.path, p.message) for p in problems]


def test_the_table_has_more_than_two_hundred_rows_good_and_bad() -> None:
    accepted = [row for row in rows("custom") if row.accepted]
    assert len(accepted) > 100
    assert len(rows("custom")) - len(accepted) > 100


@pytest.mark.parametrize("row", changes(), ids=lambda row: row.name)
def test_a_change_is_judged_against_what_was_there_before(row: Change) -> None:
    kind = known()[row.old["apiVersion"], row.old["kind"]]
    found = [
        {"path": field_path(fault.path), "message": fault.message}
        for fault in judge(kind, row.new, row.old)
        if not fault.warning
    ]
    assert found == row.errors
