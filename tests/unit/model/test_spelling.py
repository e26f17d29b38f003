"""Which known value was meant, found without comparing every known one."""

import pytest

from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.spelling import MAX_COMPARED, MAX_LETTERS, KnownSpellings, closest_spelling

TYPES = KnownSpellings(["m5.large", "m5.xlarge", "m5a.large", "m6id.metal", "m6idn.metal"])


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("m5.lagre", "m5.large"),
        ("M5_LARGE", "m5.large"),
        ("m5.larg", "m5.large"),
        ("m5.lareg", "m5.large"),
        ("m6id.meta", "m6id.metal"),
        ("m5.large", None),
        ("c5.large", None),
        ("m7.large", None),
        ("...", None),
        ("", None),
    ],
)
def test_a_misspelling_has_the_first_letter_and_digits_of_what_was_meant(
    value: str, meant: str | None
) -> None:
    assert closest_spelling(INSTANCE_TYPE, value, TYPES) == meant


def test_text_that_is_longer_than_any_name_is_no_misspelling() -> None:
    name = "a" * MAX_LETTERS
    assert closest_spelling("", f"{name[:-2]}A", KnownSpellings([name])) == name
    assert closest_spelling("", f"{name}a", KnownSpellings([name])) is None


def test_letters_that_changed_places_are_found_among_many_similar_names() -> None:
    names = [f"worker-pool-{chr(ord('a') + number % 26) * 2}x" for number in range(MAX_COMPARED)]
    known = KnownSpellings([*names, "worker-pool-zqx"])
    assert closest_spelling("", "wroker-pool-zqx", known) == "worker-pool-zqx"


def test_only_names_that_share_the_start_are_candidates() -> None:
    assert TYPES.count_candidates("m5.none") == 3
    assert TYPES.count_candidates("r5.none") == 0
