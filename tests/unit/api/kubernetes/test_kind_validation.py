"""The table of objects of core kinds: verdict, places and messages of each."""

from collections import Counter

import pytest
from tests.support.core_kinds import CoreKindRow, ExpectedFault, core_kind_rows

from wainwright.api.field_error import FieldError, format_field_path
from wainwright.api.kubernetes.object_reader import (
    KUBERNETES_KINDS,
    ObjectReader,
    validate_kubernetes_object,
)


def as_expected_faults(field_errors: list[FieldError]) -> list[ExpectedFault]:
    return [
        ExpectedFault(format_field_path(field_error.path), field_error.message)
        for field_error in field_errors
    ]


@pytest.mark.parametrize("row", core_kind_rows(), ids=lambda row: row.name)
def test_an_object_is_judged_as_its_row_says(row: CoreKindRow) -> None:
    found = validate_kubernetes_object(row.object)
    assert (
        as_expected_faults([field_error for field_error in found if not field_error.warning])
        == row.errors
    )
    assert (
        as_expected_faults([field_error for field_error in found if field_error.warning])
        == row.warnings
    )


@pytest.mark.parametrize("row", core_kind_rows(), ids=lambda row: row.name)
def test_a_row_is_refused_exactly_when_it_lists_errors(row: CoreKindRow) -> None:
    assert (row.verdict == "refused") == bool(row.errors)


def test_one_reader_says_the_same_of_all_rows_as_a_fresh_one_for_each() -> None:
    shared = ObjectReader()
    for _ in range(2):  # the second time, everything is remembered
        assert [shared.read(row.object)[1] for row in core_kind_rows()] == [
            validate_kubernetes_object(row.object) for row in core_kind_rows()
        ]


def test_every_error_says_what_was_found_and_what_was_expected() -> None:
    field_errors = [
        field_error
        for row in core_kind_rows()
        for field_error in validate_kubernetes_object(row.object)
        if not field_error.warning
    ]
    assert [
        field_error
        for field_error in field_errors
        if not field_error.found or not field_error.expected
    ] == []


def test_the_table_has_good_and_bad_objects_of_every_kind() -> None:
    seen = Counter((row.object["kind"], row.verdict) for row in core_kind_rows())
    wanted = {
        (kind, verdict) for _, kind in KUBERNETES_KINDS for verdict in ("accepted", "refused")
    }
    assert wanted - set(seen) == set()
    assert len(core_kind_rows()) > 350


def test_no_two_rows_of_the_table_have_one_name() -> None:
    names = Counter((row.object["kind"], row.name) for row in core_kind_rows())
    assert [name for name, count in names.items() if count > 1] == []
