"""Balanced: the saved share of a NodePool against the share that is disturbed."""

from math import nan
from typing import Any

import pytest
from tests.support.model_builders import offering

from wainwright.core.disruption.balanced import PoolTotals, is_balanced, pool_totals
from wainwright.core.disruption.candidates import Candidate
from wainwright.model.disruption import NodePoolDisruption
from wainwright.model.snapshot import Node, Pool

TOTALS = {"web": PoolTotals(58.08, 90.0), "batch": PoolTotals(10.0, 10.0)}


def candidate(
    name: str = "n1", *, price: float = 1.0, cost: float = 1.0, pool: str = "web", **fields: Any
) -> Candidate:
    policy = NodePoolDisruption(policy=fields.pop("policy", "Balanced"))
    return Candidate(
        node=Node(name=name, pool=pool),
        pool=Pool(name=pool, disruption=policy),
        offering=offering(price=price),
        cost=cost,
        pods=(),
        drift=None,
        blockers=(),
    )


@pytest.mark.parametrize(
    ("saving", "cost", "is_approved"),
    [(7.26, 4.0, True), (4.84, 5.0, True), (2.42, 9.0, False)],
)
def test_the_saved_share_is_compared_with_the_disturbed_share(
    saving: float, cost: float, is_approved: bool
) -> None:
    assert is_balanced([candidate(price=8.0, cost=cost)], saving, TOTALS) is is_approved


def test_in_a_uniform_pool_half_the_share_is_just_enough() -> None:
    totals = {"web": PoolTotals(48.40, 90.0)}
    assert is_balanced([candidate(price=4.84, cost=9.0)], 2.42, totals)


@pytest.mark.parametrize(("k", "is_approved"), [(1.0, False), (2.0, False), (3.0, True)])
def test_k_is_how_many_times_the_share_may_be_disturbed(k: float, is_approved: bool) -> None:
    members = [candidate(price=8.0, cost=9.0)]
    assert is_balanced(members, 2.42, TOTALS, k) is is_approved


def test_nothing_disturbed_is_always_worth_it_and_nothing_saved_never() -> None:
    assert is_balanced([candidate(cost=0.0)], 0.001, TOTALS)
    assert not is_balanced([candidate(cost=0.0)], 0.0, TOTALS)
    assert not is_balanced([candidate()], 1.0, {"web": PoolTotals(0.0, 90.0)})


def test_every_balanced_pool_of_a_command_must_approve_by_its_share_of_the_price() -> None:
    web = candidate("a", price=3.0, cost=1.0)
    batch = candidate("b", price=1.0, cost=8.0, pool="batch")
    assert not is_balanced([web, batch], 4.0, TOTALS)  # a fourth of it is the part of batch
    unasked = candidate("b", price=1.0, cost=8.0, pool="batch", policy="WhenEmptyOrUnderutilized")
    assert is_balanced([web, unasked], 4.0, TOTALS)


def test_totals_count_every_node_and_no_price_that_is_no_number() -> None:
    nodes = [candidate("a", price=1.5, cost=2.0), candidate("b", price=nan, cost=3.0)]
    assert pool_totals(nodes) == {"web": PoolTotals(1.5, 5.0)}
