"""The table of objects of core kinds: verdict, places and messages of each."""

from collections import Counter

import pytest
from tests.support.builtin_rows import Expected, Row, rows

from wainwright.api.builtin import KINDS, Reader, check
from wainwright.api.fault import Fault, field_path


def told(faults: list[Fault]) -> list[Expected]:
    return [Expected(field_path(fault.path), fault.message) for fault in faults]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_an_object_is_judged_as_its_row_says(row: Row) -> None:
    found = check(row.object)
    assert told([fault for fault in found if not fault.warning]) == row.errors
    assert told([fault for fault in found if fault.warning]) == row.warnings


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_is_refused_exactly_when_it_lists_errors(row: Row) -> None:
    assert (row.verdict == "refused") == bool(row.errors)


def test_one_reader_says_the_same_of_all_rows_as_a_fresh_one_for_each() -> None:
    shared = Reader()
    for _ in range(2):  # the second time, everything is remembered
        assert [shared.read(row.object)[1] for row in rows()] == [
            check(row.object) for row in rows()
        ]


def test_every_error_says_what_was_found_and_what_was_expected() -> None:
    faults = [fault for row in rows() for fault in check(row.object) if not fault.warning]
    assert [fault for fault in faults if not fault.found or not fault.expected] == []


def test_the_table_has_good_and_bad_objects_of_every_kind() -> None:
    seen = Counter((row.object["kind"], row.verdict) for row in rows())
    wanted = {(kind, verdict) for _, kind in KINDS for verdict in ("accepted", "refused")}
    assert wanted - set(seen) == set()
    assert len(rows()) > 350


def test_no_two_rows_of_the_table_have_one_name() -> None:
    names = Counter((row.object["kind"], row.name) for row in rows())
    assert [name for name, count in names.items() if count > 1] == []
