"""When a budget with a schedule lets something through that nothing but budgets holds back.

A cluster in which a node waits for the hours in which it may be disrupted is not at rest, and one
whose budgets come and go while nobody wants anything is.
"""

from typing import Final

import msgspec

from wainwright.core.disruption.budgets import BudgetCounter
from wainwright.core.disruption.disruption_pass import DisruptionPass

MAX_CHANGES: Final = 32
"""Beginnings and ends of budgets that are looked at: a schedule repeats itself long before."""


def next_release(looked: DisruptionPass) -> float | None:
    """The moment, in seconds since 1970; None where no schedule makes a difference."""
    if looked.find_command() is not None or _next_change(looked, looked.snapshot.now) is None:
        return None
    without = msgspec.structs.replace(looked.options, ignore_budgets=True)
    if DisruptionPass(looked.given, without).find_command() is None:
        return None
    now = looked.snapshot.now
    for _ in range(MAX_CHANGES):
        now = _next_change(looked, now)
        if now is None:
            return None
        if _at(looked, now).find_command() is not None:
            return now
    return None


def _next_change(looked: DisruptionPass, now: float | None) -> float | None:
    snapshot = msgspec.structs.replace(looked.given.snapshot, now=now)
    return min(BudgetCounter(snapshot).changes(), default=None)


def _at(looked: DisruptionPass, now: float) -> DisruptionPass:
    snapshot = msgspec.structs.replace(looked.given.snapshot, now=now)
    given = msgspec.structs.replace(looked.given, snapshot=snapshot)
    return DisruptionPass(given, looked.options)
