"""Packing by cost: several ways to plan the same, and the cheapest that leaves nobody out.

First-fit is one of them, so that the outcome is never dearer and never has fewer pods placed.
"""

from collections.abc import Callable
from math import fsum
from typing import Final, TypeAlias

from wainwright.core.launch import cost
from wainwright.core.packing.bound import lower_bound
from wainwright.core.packing.thrifty import Recipe
from wainwright.core.solve import Manner, Solution
from wainwright.model.plan import PackingResult

RECIPES: Final = (
    Recipe(slack=0.02, dearer=1.25, fills=True),
    Recipe(slack=0.02, dearer=1.25, fills=False),
    Recipe(slack=0.1, dearer=1.25, fills=False),
    Recipe(slack=0.02, dearer=2.0, fills=False),
)

Solve: TypeAlias = Callable[[Manner], Solution]
"""Plans the same from the beginning, in this manner."""


def packed(first_fit: Solution, solve: Solve) -> tuple[Solution, PackingResult]:
    """The cheapest plan that was found, and what it came to."""
    best, price = first_fit, price_of(first_fit)
    before = price
    for recipe in RECIPES if first_fit.rounds.table.drafts else ():
        other = solve(Manner(recipe.placing, first_fit.placing.patient))
        asked = price_of(other)
        if asked <= before and _rank(other, asked) < _rank(best, price):
            best, price = other, asked
    result = PackingResult(first_fit=before, cost=price, lower_bound=lower_bound(best))
    return best, result


def price_of(solution: Solution) -> float:
    """USD per hour of all that would be launched, with fees."""
    return fsum(
        cost(draft.template.index, draft.buy.row, draft.buy.offering)
        for draft in solution.rounds.table.drafts
        if draft.buy is not None
    )


def _rank(solution: Solution, price: float) -> tuple[int, float]:
    return solution.left_out, price
