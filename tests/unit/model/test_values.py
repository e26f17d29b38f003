"""What each operator admits, and what two of them admit together."""

import pytest

from wainwright.model.values import (
    ANYTHING,
    MAX_INTEGER,
    MIN_INTEGER,
    NOTHING,
    Operator,
    ValueSet,
    between,
    integer,
    none_of,
    one_of,
    value_set,
)


@pytest.mark.parametrize(
    ("operator", "values", "admitted", "refused"),
    [
        ("In", ("a", "b"), ["a", "b"], ["c", ""]),
        ("NotIn", ("a",), ["b", "", "7"], ["a"]),
        ("Exists", (), ["a", "", "7"], []),
        ("DoesNotExist", (), [], ["a", "", "7"]),
        ("Gt", ("5",), ["6", "100", "006"], ["5", "4", "a", "", "+6", "6.0", " 6", "٦"]),
        ("Lt", ("5",), ["4", "0", "-3"], ["5", "6", "a", ""]),
        ("Gte", ("5",), ["5", "6"], ["4", "a"]),
        ("Lte", ("5",), ["5", "-7"], ["6", "a"]),
    ],
)
def test_an_operator_admits_the_values_it_says(
    operator: str, values: tuple[str, ...], admitted: list[str], refused: list[str]
) -> None:
    found = value_set(operator, values)
    assert [value for value in admitted + refused if found.admits(value)] == admitted


@pytest.mark.parametrize(
    ("left", "right", "together"),
    [
        (one_of("ab"), one_of("bc"), one_of("b")),
        (one_of("ab"), one_of("cd"), NOTHING),
        (one_of("ab"), none_of("b"), one_of("a")),
        (one_of("a"), none_of("a"), NOTHING),
        (none_of("a"), none_of("b"), none_of("ab")),
        (one_of("a"), ANYTHING, one_of("a")),
        (none_of("a") & ANYTHING, ANYTHING, none_of("a") & ANYTHING),
        (none_of("a") & ANYTHING, none_of("b"), none_of("ab") & ANYTHING),
        (none_of("a") & ANYTHING, one_of("ab"), one_of("b")),
        (none_of("a") & ANYTHING, NOTHING, NOTHING),
        (none_of(["5"]) & ANYTHING, between(2, 8), none_of(["5"]) & between(2, 8)),
        (between(2, 8), ANYTHING, between(2, 8)),
        (one_of("a"), NOTHING, NOTHING),
        (none_of("a"), NOTHING, NOTHING),
        (ANYTHING, NOTHING, NOTHING),
        (between(2, None), NOTHING, NOTHING),
        (one_of(["1", "5", "9", "a"]), between(2, 8), one_of(["5"])),
        (between(2, None), between(None, 8), between(2, 8)),
        (between(2, 9), between(4, None), between(4, 9)),
        (between(5, None), between(None, 4), NOTHING),
        (between(5, None), between(None, 5), between(5, 5)),
    ],
)
def test_two_sets_together_admit_what_both_do(
    left: ValueSet, right: ValueSet, together: ValueSet
) -> None:
    assert left & right == together
    assert right & left == together


def test_a_finite_set_forgets_the_bounds_that_made_it() -> None:
    found = one_of(["1", "5"]) & between(2, 8)
    assert not found.bounded
    assert found & one_of(["5"]) == one_of(["5"])


def test_different_spellings_of_a_bound_are_the_same_set() -> None:
    assert value_set("Gt", ("5",)) == value_set("Gte", ("6",))
    assert value_set("Lt", ("5",)) == value_set("Lte", ("4",))
    assert value_set("Gt", ("5",)) & value_set("Gte", ("6",)) == between(6, None)


def test_nothing_is_greater_than_the_largest_integer() -> None:
    assert value_set("Gt", (str(MAX_INTEGER),)) == NOTHING
    assert value_set("Lt", (str(MIN_INTEGER),)) == NOTHING
    assert value_set("Gte", (str(MAX_INTEGER),)).admits(str(MAX_INTEGER))
    assert value_set("Gte", (str(MAX_INTEGER + 1),)) == NOTHING


def test_bounds_beyond_every_integer_admit_nothing() -> None:
    assert between(MAX_INTEGER + 1, 10**30) == NOTHING
    assert between(-(10**30), MIN_INTEGER - 1) == NOTHING
    assert not between(MAX_INTEGER, None).overlaps(between(None, -(10**30)))


@pytest.mark.parametrize("values", [(), ("a",), ("1", "2")])
def test_a_bound_that_is_not_one_integer_admits_nothing(values: tuple[str, ...]) -> None:
    assert value_set("Gt", values) == NOTHING


def test_in_of_no_values_admits_nothing_and_not_in_of_none_anything() -> None:
    assert value_set("In") == NOTHING
    assert value_set("NotIn") == ANYTHING


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="Near"):
        value_set("Near", ("a",))


@pytest.mark.parametrize(
    ("found", "operator"),
    [
        (one_of("a"), Operator.IN),
        (none_of("a"), Operator.NOT_IN),
        (none_of("a") & ANYTHING, Operator.EXISTS),
        (ANYTHING, Operator.EXISTS),
        (NOTHING, Operator.DOES_NOT_EXIST),
        (between(2, None), Operator.EXISTS),
        (between(None, 2), Operator.EXISTS),
        (between(2, 8) & none_of(["5"]), Operator.EXISTS),
    ],
)
def test_a_set_reports_the_operator_that_says_most_of_it(
    found: ValueSet, operator: Operator
) -> None:
    assert found.operator is operator
    assert found.admits_absence is (operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST))


def test_a_label_that_must_be_there_is_not_forgotten_when_some_values_are_ruled_out() -> None:
    there = none_of("a") & ANYTHING
    assert there != none_of("a")
    assert not there.admits_absence
    assert not there.agrees_with(NOTHING)
    assert there.agrees_with(none_of("b"))
    assert not (there & none_of("b")).admits_absence


def test_an_open_set_is_as_long_as_the_largest_integer_less_its_exclusions() -> None:
    assert ANYTHING.length == MAX_INTEGER
    assert none_of("ab").length == MAX_INTEGER - 2
    assert between(2, 8).length == MAX_INTEGER
    assert one_of("ab").length == 2
    assert NOTHING.length == 0


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (one_of("cab"), "a"),
        (NOTHING, ""),
        (ANYTHING, "0"),
        (none_of(["0", "1"]), "2"),
        (between(5, None), "5"),
        (between(None, 5), "0"),
        (between(None, -5), "-5"),
        (between(2, 3) & none_of(["2"]), "3"),
        (between(2, 3) & none_of(["2", "3"]), "02"),
        (between(-3, -3) & none_of(["-3"]), "-03"),
        (between(-(10**30), None), str(MIN_INTEGER)),
        (between(None, 10**30), "0"),
    ],
)
def test_any_gives_the_same_admitted_value_every_time(found: ValueSet, value: str) -> None:
    assert found.any() == value
    assert found.empty or found.admits(value)


def test_exclusions_that_the_bounds_refuse_anyway_are_forgotten() -> None:
    assert none_of(["a", "1", "5"]) & between(2, 8) == none_of(["5"]) & between(2, 8)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (one_of("ba"), "In [a b]"),
        (none_of("a"), "NotIn [a]"),
        (ANYTHING, "Exists"),
        (none_of("a") & ANYTHING, "Exists NotIn [a]"),
        (NOTHING, "DoesNotExist"),
        (between(2, 8), "Exists >=2 <=8"),
        (between(2, None), "Exists >=2"),
        (between(None, 8) & none_of(["5"]), "Exists NotIn [5] <=8"),
        (one_of("abcde"), "In [a b c d e]"),
        (one_of("abcdefgh"), "In [a b c d e and 3 others]"),
    ],
)
def test_a_set_prints_as_operator_values_and_bounds(found: ValueSet, text: str) -> None:
    assert str(found) == text


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (between(2, 8), (("Gte", ("2",)), ("Lte", ("8",)))),
        (between(2, 8) & none_of(["5"]), (("NotIn", ("5",)), ("Gte", ("2",)), ("Lte", ("8",)))),
        (ANYTHING, (("Exists", ()),)),
        (none_of("a"), (("NotIn", ("a",)),)),
        (none_of("a") & ANYTHING, (("NotIn", ("a",)), ("Exists", ()))),
        (NOTHING, (("DoesNotExist", ()),)),
        (one_of("ba"), (("In", ("a", "b")),)),
    ],
)
def test_a_set_comes_apart_into_operators(
    found: ValueSet, parts: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    assert found.parts() == parts


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("-12", -12),
        ("007", 7),
        ("+7", None),
        ("1_000", None),
        ("7.0", None),
        ("", None),
        ("٧", None),
        (str(MAX_INTEGER), MAX_INTEGER),
        (str(MAX_INTEGER + 1), None),
        ("9" * 5000, None),
    ],
)
def test_only_plain_decimal_numbers_of_64_bits_are_integers(text: str, number: int | None) -> None:
    assert integer(text) == number


def test_two_sets_agree_when_neither_needs_the_label() -> None:
    assert NOTHING.agrees_with(none_of("a"))
    assert none_of("a").agrees_with(NOTHING)
    assert NOTHING.agrees_with(NOTHING)
    assert not NOTHING.agrees_with(ANYTHING)
    assert not one_of("a").agrees_with(NOTHING)
    assert not NOTHING.agrees_with(between(2, 8) & none_of(["5"]))
