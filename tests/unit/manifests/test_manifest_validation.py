"""The table of manifests of our own kinds: verdict, place and message of each."""

from pathlib import Path

import pytest
from tests.support.manifest_tables import (
    ExpectedProblem,
    ManifestRow,
    ObjectChange,
    manifest_rows,
    object_changes,
)

from wainwright.api.field_error import format_field_path
from wainwright.api.kinds import known_kinds
from wainwright.api.validation.object_validation import validate_object
from wainwright.manifests.manifest_validation import validate_manifests
from wainwright.manifests.problems import Problem


@pytest.mark.parametrize("row", manifest_rows("custom"), ids=lambda row: row.name)
def test_a_manifest_is_judged_as_its_comments_say(row: ManifestRow, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(row.text, encoding="utf-8")
    report = validate_manifests([str(file)]).report
    found = [*_found("error", report.errors), *_found("warning", report.warnings)]
    wanted = [
        ExpectedProblem(e.line, e.word.removesuffix("(offline)"), e.path, e.message)
        for e in row.expected
    ]
    assert sorted(found) == sorted(wanted)


def _found(word: str, problems: list[Problem]) -> list[ExpectedProblem]:
    return [ExpectedProblem(p.line or 0, word, p.path, p.message) for p in problems]


def test_the_table_has_more_than_two_hundred_rows_good_and_bad() -> None:
    accepted = [row for row in manifest_rows("custom") if row.accepted]
    assert len(accepted) > 100
    assert len(manifest_rows("custom")) - len(accepted) > 100


@pytest.mark.parametrize("row", object_changes(), ids=lambda row: row.name)
def test_a_change_is_judged_against_what_was_there_before(row: ObjectChange) -> None:
    kind = known_kinds()[row.old["apiVersion"], row.old["kind"]]
    found = [
        {"path": format_field_path(field_error.path), "message": field_error.message}
        for field_error in validate_object(kind, row.new, row.old)
        if not field_error.warning
    ]
    assert found == row.errors


def test_the_first_name_of_the_match_criteria_is_pointed_to_the_present_one(tmp_path: Path) -> None:
    rows = {row.name: row for row in manifest_rows("custom")}
    file = tmp_path / "manifest.yaml"
    row = rows["nodeclass-reservations: the match criteria by their first name"]
    file.write_text(row.text, encoding="utf-8")
    [pointer] = [e for e in validate_manifests([str(file)]).report.errors if "type" in e.path]
    assert pointer.hint == "write instanceMatchCriteria: open or targeted"


def test_rules_do_not_run_on_values_of_the_wrong_type(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = {row.name: row for row in manifest_rows("custom")}
    text = rows["nodeclass-selectors: a class with an empty spec"].text
    file = tmp_path / "manifest.yaml"
    file.write_text(text.partition("spec:")[0] + "spec: {amiFamily: 7}\n", encoding="utf-8")
    errors = validate_manifests([str(file)]).report.errors
    assert "spec.amiFamily" in [error.path for error in errors]
    assert capfd.readouterr().err == ""
