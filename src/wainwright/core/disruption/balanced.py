"""The policy Balanced: a move must be worth what it disturbs, measured against the whole NodePool.

The share of the NodePool's price that a move saves, divided by the share of the NodePool's
disruption cost that it causes, must be at least 1/k.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Final

import msgspec

from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.disruption_input import BALANCED_K

BALANCED: Final = "Balanced"


class PoolTotals(msgspec.Struct, frozen=True):
    """Price and disruption cost of all nodes of a NodePool, whether or not they are candidates."""

    price: float = 0.0
    cost: float = 0.0


def pool_totals(candidates: Iterable[Candidate]) -> dict[str, PoolTotals]:
    """By NodePool; a price that is no number counts as none, so that it spoils no total."""
    totals: dict[str, PoolTotals] = defaultdict(PoolTotals)
    for each in candidates:
        name, price = each.node.pool or "", each.price if isfinite(each.price) else 0.0
        totals[name] = PoolTotals(totals[name].price + price, totals[name].cost + each.cost)
    return dict(totals)


class PoolScore(msgspec.Struct, frozen=True, kw_only=True):
    """How a move looks to a NodePool with this policy."""

    pool: str
    saved: float
    """The share of the NodePool's price."""
    disturbed: float
    """The share of its disruption cost."""

    @property
    def value(self) -> float:
        """Infinite where nothing is disturbed."""
        if self.saved <= 0:
            return 0.0
        return self.saved / self.disturbed if self.disturbed > 0 else inf


def is_balanced(
    candidates: Sequence[Candidate],
    saving: float,
    totals: Mapping[str, PoolTotals],
    k: float = BALANCED_K,
) -> bool:
    """Whether every NodePool with this policy approves; the others are not asked."""
    return all(each.value >= 1 / k for each in balanced_scores(candidates, saving, totals))


def balanced_scores(
    candidates: Sequence[Candidate], saving: float, totals: Mapping[str, PoolTotals]
) -> list[PoolScore]:
    """Of each NodePool with this policy. Its part of the saving is its candidates' share of the
    price.
    """
    price = sum(each.price for each in candidates)
    by_pool: dict[str, list[Candidate]] = defaultdict(list)
    for each in candidates:
        if each.pool is not None and each.pool.disruption.policy == BALANCED:
            by_pool[each.pool.name].append(each)
    return [
        PoolScore(
            pool=name,
            saved=_ratio(saving * _share(members, price), totals[name].price),
            disturbed=_ratio(sum(each.cost for each in members), totals[name].cost),
        )
        for name, members in by_pool.items()
    ]


def _share(members: Sequence[Candidate], price: float) -> float:
    return _ratio(sum(each.price for each in members), price)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
