"""The obvious way to solve a small linear program: look at every corner, in exact fractions."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import TypeAlias

from wainwright.core.packing.linear import Supply

Row: TypeAlias = tuple[list[int], Fraction]
"""Factors of the unknowns, and what their sum must not be above."""


def dearest(demands: Sequence[Sequence[int]], supplies: Sequence[Supply]) -> Fraction:
    """The most that the demands can be worth while no machine is worth more than it costs.

    That is also what it costs to cover them. There are as many unknowns as demands: a price for
    each group and resource. The machine may give every resource to any of its takers, so that
    there is a row for each way to deal them out.
    """
    unknowns = [(g, r) for g, own in enumerate(demands) for r, amount in enumerate(own) if amount]
    rows = [row for supply in supplies for row in _dealt_out(supply, unknowns)]
    rows += [
        ([-int(n == m) for m in range(len(unknowns))], Fraction(0)) for n in range(len(unknowns))
    ]
    worths = [
        sum(demands[g][r] * price for (g, r), price in zip(unknowns, corner, strict=True))
        for corner in _corners(rows, len(unknowns))
    ]
    return max(map(Fraction, worths))


def _dealt_out(supply: Supply, unknowns: Sequence[tuple[int, int]]) -> Iterator[Row]:
    """Nobody need get a resource: some groups want none of it."""
    groups = [g for g in range(supply.takers.bit_length()) if supply.takers >> g & 1]
    for chosen in product(groups, repeat=len(supply.room)):
        given = {(group, resource) for resource, group in enumerate(chosen)}
        factors = [supply.room[place[1]] if place in given else 0 for place in unknowns]
        yield factors, Fraction(supply.price)


def _corners(rows: Sequence[Row], size: int) -> Iterator[list[Fraction]]:
    """Where as many of the rows as there are unknowns are met exactly, and none is broken."""
    distinct = [row for n, row in enumerate(rows) if row not in rows[:n]]
    for chosen in combinations(distinct, size):
        corner = _solved(chosen)
        if corner is not None and all(
            _value(factors, corner) <= most for factors, most in distinct
        ):
            yield corner


def _value(factors: Sequence[int], corner: Sequence[Fraction]) -> Fraction:
    return sum((f * x for f, x in zip(factors, corner, strict=True) if f), Fraction(0))


def _solved(rows: Sequence[Row]) -> list[Fraction] | None:
    """By elimination; None where the rows do not meet in one point."""
    size = len(rows)
    lines = [[*map(Fraction, factors), most] for factors, most in rows]
    for column in range(size):
        pivot = next((n for n in range(column, size) if lines[n][column]), None)
        if pivot is None:
            return None
        lines[column], lines[pivot] = lines[pivot], lines[column]
        lines[column] = [entry / lines[column][column] for entry in lines[column]]
        for n in range(size):
            if n != column and lines[n][column]:
                share = lines[n][column]
                lines[n] = [a - share * b for a, b in zip(lines[n], lines[column], strict=True)]
    return [line[-1] for line in lines]
