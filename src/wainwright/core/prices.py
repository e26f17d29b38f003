"""Prices: what a node would cost if it was opened so, or changed so, and launched now."""

from collections.abc import Callable

import msgspec

from wainwright.core.drafts import Change, Draft
from wainwright.core.ladder import Step
from wainwright.core.launch import Left, choose, cost


def price(left: Left, free: Callable[[str], int]) -> float:
    """USD per hour with fees; `free` tells how many slots a reservation has left."""
    buy = choose(left, free)
    return cost(left.index, buy.row, buy.offering)


def left_to(step: Step) -> Left:
    """What a node that is opened so may be."""
    template, answer = step.template, step.answer
    assert answer.narrowing is not None
    return Left(
        index=template.index,
        rows=answer.rows,
        markets=answer.narrowing.markets,
        held=answer.held,
        slots=template.shelf.sold_in(answer.held, answer.rows),
        requirements=answer.narrowing.requirements,
        minimums=answer.minimums,
    )


def left_after(draft: Draft, change: Change) -> Left:
    """What the draft may be when it has changed."""
    return msgspec.structs.replace(
        draft.left,
        rows=change.rows,
        markets=change.narrowing.markets,
        held=change.held,
        slots=change.reserved_rows,
        requirements=change.narrowing.requirements,
    )
