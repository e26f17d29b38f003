"""Dice: always the same numbers, none of them out of range, and none of them a favourite."""

from collections import Counter

import pytest

from wainwright.core.packing.dice import Dice


def test_the_same_seed_gives_the_same_numbers() -> None:
    assert [Dice(7).below(1000) for _ in range(3)] == [Dice(7).below(1000)] * 3
    one, other = Dice(), Dice()
    assert [one.below(6) for _ in range(50)] == [other.below(6) for _ in range(50)]


def test_another_seed_gives_others() -> None:
    one, other = Dice(1), Dice(2)
    assert [one.below(100) for _ in range(20)] != [other.below(100) for _ in range(20)]


@pytest.mark.parametrize("sides", [1, 2, 6, 37])
def test_every_side_comes_up_about_as_often(sides: int) -> None:
    dice = Dice()
    counts = Counter(dice.below(sides) for _ in range(sides * 500))
    assert set(counts) == set(range(sides))
    assert max(counts.values()) < 1.3 * 500
    assert min(counts.values()) > 0.7 * 500


def test_a_unit_is_from_nought_to_less_than_one() -> None:
    dice = Dice()
    drawn = [dice.unit() for _ in range(2000)]
    assert all(0 <= each < 1 for each in drawn)
    assert 0.45 < sum(drawn) / len(drawn) < 0.55
