"""Quantities against exact fractions: law 8 of docs/internals/invariants.md."""

import contextlib
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.quantity import (
    MAX_BINARY,
    InvalidQuantity,
    Quantity,
    QuantityFormat,
    parse_quantity,
)

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}

digits = st.text("0123456789", min_size=1, max_size=12)
numbers = st.builds(
    lambda sign, whole, part: f"{sign}{whole}{part}",
    st.sampled_from(["", "+", "-"]),
    digits,
    st.one_of(st.just(""), st.builds(lambda tail: f".{tail}", digits)),
)
suffixes = st.one_of(
    st.sampled_from([*DECIMAL, *BINARY]),
    st.builds(lambda mark, power: f"{mark}{power}", st.sampled_from("eE"), st.integers(-12, 12)),
)
texts = st.builds(lambda number, suffix: number + suffix, numbers, suffixes)


def exact(text: str) -> Fraction:
    """What the text says, by arithmetic on fractions and nothing else."""
    for suffix in sorted((*BINARY, *(s for s in DECIMAL if s)), key=len, reverse=True):
        if text.endswith(suffix):
            base = Fraction(text.removesuffix(suffix))
            power = BINARY.get(suffix)
            return base * (1024**power if power else Fraction(10) ** DECIMAL[suffix])
    return Fraction(text)


def rounded(value: Fraction) -> int:
    """In billionths, away from zero."""
    nano = value * 10**9
    return ceil(nano) if nano >= 0 else -ceil(-nano)


@given(texts)
def test_a_quantity_is_its_exact_value_rounded_away_from_zero_to_billionths(text: str) -> None:
    limit = MAX_BINARY * 10**9 if text.endswith("i") else 10**60
    assert parse_quantity(text).nano == max(-limit, min(limit, rounded(exact(text))))


@given(texts, texts)
def test_sums_and_comparisons_are_those_of_the_exact_values(left: str, right: str) -> None:
    one, other = parse_quantity(left), parse_quantity(right)
    assert (one + other).nano == one.nano + other.nano
    assert (one - other).nano == one.nano - other.nano
    assert (one < other) == (one.nano < other.nano)
    assert (one == other) == (one.nano == other.nano)


@given(texts)
def test_printing_loses_nothing_and_is_stable(text: str) -> None:
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(st.integers(-(10**30), 10**30), st.sampled_from(QuantityFormat))
def test_every_amount_prints_to_something_that_reads_as_the_same(
    nano: int, form: QuantityFormat
) -> None:
    quantity = Quantity(nano, form)
    assert parse_quantity(str(quantity)).nano == nano


@given(st.text("0123456789.+-eEinumkKMGTPi ", max_size=8))
def test_a_text_is_read_or_refused_and_never_anything_else(text: str) -> None:
    with contextlib.suppress(InvalidQuantity):
        assert isinstance(parse_quantity(text).nano, int)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1e3", "1e3"),
        ("1000", "1k"),
        ("2Gi", "2Gi"),
        ("2048Mi", "2Gi"),
        ("1500M", "1500M"),
        ("100u", "100u"),
        ("1E", "1E"),
        ("1.5Gi", "1536Mi"),
        ("0.1Gi", "107374182400m"),
        ("1023", "1023"),
        ("1Ki", "1Ki"),
        ("0.0000000001", "1n"),
        ("16Ei", "9223372036854775807"),
        ("1000E", "1000E"),
        ("12e6", "12e6"),
        ("-1.5", "-1500m"),
        ("0Gi", "0"),
        ("+5", "5"),
    ],
)
def test_the_canonical_text_is_the_one_kubernetes_prints(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    "text", ["", " 1", "1 Gi", "ten", "1Gib", "0x10", "1,5", "1e", "--1", "1KI"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        parse_quantity(text)


def test_an_absurd_exponent_costs_nothing() -> None:
    assert parse_quantity("1E") < parse_quantity("1e999999999")
    assert parse_quantity("1e-999999999") == parse_quantity("1n")
