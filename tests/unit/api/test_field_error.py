"""Which known word was meant by a misspelt one."""

import pytest

from wainwright.api.field_error import MAX_HINTED_WORDS, WordHints, closest_match

REGIONS = ["us-west-1", "us-west-2", "us-east-1", "us-east-2", "eu-west-1"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("us-esat-1", "us-east-1"),
        ("us-wset-2", "us-west-2"),
        ("US-EAST-2", "us-east-2"),
        ("us-east1", "us-east-1"),
        ("moon", ""),
        ("", ""),
    ],
)
def test_two_swapped_letters_count_as_one_mistake(typed: str, meant: str) -> None:
    assert closest_match(typed, REGIONS) == meant


def test_the_first_unknown_words_of_an_input_get_a_hint_and_the_same_word_gets_it_again() -> None:
    hints = WordHints(["m5.large"])
    words = [f"m5.larg{number}" for number in range(MAX_HINTED_WORDS + 1)]
    given = [hints.did_you_mean(word) for word in words]
    assert given == [*["did you mean m5.large?"] * MAX_HINTED_WORDS, ""]
    assert hints.did_you_mean(words[0]) == "did you mean m5.large?"
