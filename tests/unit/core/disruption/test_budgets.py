"""Disruption budgets: how many nodes may go."""

from datetime import UTC, datetime
from typing import Any

import pytest

from wainwright.core.disruption.budgets import (
    BudgetStatus,
    DisruptionReason,
    evaluate_budgets,
    next_change,
)
from wainwright.model.disruption import Condition, DisruptionBudget, NodePoolDisruption
from wainwright.model.snapshot import Node, Pool

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()  # a Tuesday
HOUR = 3600.0
EMPTY, DRIFTED = DisruptionReason.EMPTY, DisruptionReason.DRIFTED


def nodes(count: int, **fields: Any) -> list[Node]:
    return [Node(name=f"{fields}-{number}", pool="web", **fields) for number in range(count)]


def evaluate(
    *budgets: DisruptionBudget,
    of: list[Node],
    reason: DisruptionReason = EMPTY,
    now: float = NOON,
) -> BudgetStatus:
    pool = Pool(name="web", disruption=NodePoolDisruption(budgets=budgets))
    return evaluate_budgets(pool, of, reason, now)


def allowed(*budgets: DisruptionBudget, of: list[Node], now: float = NOON) -> int:
    return evaluate(*budgets, of=of, now=now).allowed


@pytest.mark.parametrize(
    ("written", "expected"),
    [("0", 0), ("3", 3), ("0%", 0), ("10%", 1), ("11%", 2), ("35%", 4), ("100%", 10), ("50", 50)],
)
def test_counts_and_percentages_which_are_rounded_up(written: str, expected: int) -> None:
    assert allowed(DisruptionBudget(nodes=written), of=nodes(10)) == expected


def test_the_strictest_counts() -> None:
    found = evaluate(DisruptionBudget(nodes="5"), DisruptionBudget(nodes="2"), of=nodes(10))
    assert (found.allowed, found.budget) == (2, DisruptionBudget(nodes="2"))


def test_without_a_budget_in_force_every_node_may_go() -> None:
    night = DisruptionBudget(nodes="0", schedule="0 22 * * *", duration=HOUR)
    assert allowed(of=nodes(4)) == 4
    assert allowed(night, of=nodes(4)) == 4


def test_without_a_budget_in_force_nodes_that_are_not_ready_may_go_too() -> None:
    unready = nodes(2, conditions={"Ready": Condition(status="False")})
    assert allowed(of=unready) == 2


def test_a_budget_for_other_reasons_does_not_count() -> None:
    drift_only = DisruptionBudget(nodes="0", reasons=("Drifted",))
    assert evaluate(drift_only, of=nodes(4), reason=EMPTY).allowed == 4
    assert evaluate(drift_only, of=nodes(4), reason=DRIFTED).allowed == 0


def test_nodes_that_are_going_or_not_ready_use_the_budget() -> None:
    unready = Node(name="u", pool="web", conditions={"Ready": Condition(status="Unknown")})
    members = [*nodes(7), *nodes(2, deleting=True), unready]
    assert allowed(DisruptionBudget(nodes="5"), of=members) == 2
    assert allowed(DisruptionBudget(nodes="2"), of=members) == 0


def test_nodes_that_never_came_up_and_foreign_nodes_are_not_in_the_total() -> None:
    members = [*nodes(4), *nodes(4, initialized=False, launched=False), *nodes(4, managed=False)]
    assert allowed(DisruptionBudget(nodes="50%"), of=members) == 2


@pytest.mark.parametrize(
    ("schedule", "hours", "active"),
    [
        ("0 9 * * mon-fri", 8, True),
        ("0 9 * * mon-fri", 4, True),
        ("0 9 * * mon-fri", 3, False),
        ("0 12 * * *", 1, True),
        ("1 12 * * *", 1, False),
        ("0 9 * * sat", 8, False),
        ("@daily", 48, True),
    ],
)
def test_a_schedule_holds_for_its_duration(schedule: str, hours: int, active: bool) -> None:
    budget = DisruptionBudget(nodes="0", schedule=schedule, duration=hours * HOUR)
    assert allowed(budget, of=nodes(4)) == (0 if active else 4)


@pytest.mark.parametrize(
    "broken",
    [
        DisruptionBudget(nodes="some", reasons=("Drifted",)),
        DisruptionBudget(nodes="4", schedule="no cron at all", duration=HOUR),
        DisruptionBudget(nodes="-1%", schedule="0 22 * * *", duration=HOUR),
    ],
)
def test_a_broken_budget_stops_the_pool_for_every_reason(broken: DisruptionBudget) -> None:
    found = evaluate(DisruptionBudget(nodes="4"), broken, of=nodes(4))
    assert found.allowed == 0
    assert found.invalid


@pytest.mark.parametrize(
    ("schedule", "hours", "hours_until"),
    [("0 9 * * *", 8, 5), ("0 22 * * *", 1, 10), ("0 * * * *", 0.5, 0.5)],
)
def test_the_next_change_is_the_end_of_the_window_or_its_beginning(
    schedule: str, hours: float, hours_until: float
) -> None:
    budget = DisruptionBudget(nodes="0", schedule=schedule, duration=hours * HOUR)
    assert next_change(budget, NOON) == NOON + hours_until * HOUR


def test_a_window_that_never_closes_does_not_change() -> None:
    assert next_change(DisruptionBudget(schedule="0 * * * *", duration=2 * HOUR), NOON) is None
    assert next_change(DisruptionBudget(), NOON) is None
