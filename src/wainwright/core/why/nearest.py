"""Nearest misses: which of many types comes closest to what is asked of it."""

from itertools import islice
from typing import Final

from wainwright.core.templates import Template
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.reason import Overdrawn
from wainwright.model.resources import Resources
from wainwright.model.thresholds import Thresholds

STEPS: Final = 12  # halvings until the types left are about equally near
LOOKED_AT: Final = 32  # of those, when they are taken one by one


def nearest(rows: Rows, asked: Resources, room: Thresholds) -> Rows:
    """A few of the types, the nearest among them: those that hold the largest share of it."""
    low, high = 0.0, 1.0
    found = rows
    for _ in range(STEPS):
        share = (low + high) / 2
        part = {name: int(amount * share) for name, amount in asked.items()}
        holding = rows & room.holding(part)
        low, high = (share, high) if holding else (low, share)
        found = holding or found
    return found


def overdrawn(template: Template, rows: Rows) -> Overdrawn | None:
    """What daemonsets want of the nearest of the types; None where any of them has enough."""
    if rows & template.room.solvent:
        return None
    few = 0
    for group, taken in template.overhead.groups:
        few |= nearest(group & rows, taken, template.index.own_thresholds)
    debts = (_debt(template, row) for row in islice(row_numbers(few), LOOKED_AT))
    _, name, row = min(debts)
    return Overdrawn(
        resource=name,
        needed=template.overhead.of(row).get(name, 0),
        best=max(0, template.index.types[row].allocatable.get(name, 0)),
        instance_type=template.index.types[row].name,
    )


def _debt(template: Template, row: int) -> tuple[float, str, int]:
    """How many times as much as there is they want, of what they lack most."""
    has, taken = template.index.types[row].allocatable, template.overhead.of(row)
    short = [name for name in {**has, **taken} if has.get(name, 0) < taken.get(name, 0)]
    ratio, name = max((taken.get(name, 0) / max(has.get(name, 0), 0.001), name) for name in short)
    return ratio, name, row
