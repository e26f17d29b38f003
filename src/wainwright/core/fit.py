"""Fit: whether a draft can take a pod, and what is left to it if it does."""

from bisect import bisect_left

from wainwright.core.answer import Terms
from wainwright.core.drafts import Change, Draft
from wainwright.core.narrowing import Narrowing
from wainwright.core.wishes import Wish
from wainwright.model.columns import Rows
from wainwright.model.requirements import Requirements


def fit(draft: Draft, wish: Wish) -> Change | None:
    """What becomes of the draft with one more such pod on it; None, for good, if it cannot be."""
    change = attempt(draft, wish)
    if change is None:
        terms = wish.ask.terms[draft.template.number]
        if terms is None or not draft.rows & terms.rows:
            wish.ask.rejected |= draft.bit
        else:
            wish.rejected |= draft.bit
    return change


def attempt(draft: Draft, wish: Wish) -> Change | None:
    """The same without remembering it.

    Sets are cut down first, as that is cheap and refuses most; requirements are put together only
    for what is left.
    """
    template = draft.template
    terms = wish.ask.terms[template.number]
    assert terms is not None, "the candidates of a wish are of pools that take it"
    rows = draft.rows & terms.rows
    totals, sizes = draft.totals, template.sizes
    for column, amount in wish.amounts if rows else ():
        amounts, having = sizes[column]
        rows &= having[bisect_left(amounts, totals[column] + amount)]
    change = _narrowed(draft, terms, rows) if rows else None
    return change if change is not None and _flexible(draft, change) else None


def restrict(draft: Draft, asked: Requirements) -> Change | None:
    """What becomes of the draft when more is required of it; None if that cannot be."""
    narrowing = draft.narrowing.joined(asked)
    if narrowing is None:
        return None
    change = Change(draft, draft.rows, narrowing)
    fine = _fine(draft, change)
    return change if fine and _flexible(draft, change) else None


def _narrowed(draft: Draft, terms: Terms, rows: Rows) -> Change | None:
    narrowing: Narrowing | None = draft.narrowing
    if not terms.trivial:
        narrowing = draft.narrowing.joined(terms.asked)
    if narrowing is None:
        return None
    change = Change(draft, rows, narrowing)
    return change if _fine(draft, change) else None


def _fine(draft: Draft, change: Change) -> bool:
    if change.narrowing is not draft.narrowing and not _sold(draft, change):
        return False
    kept = change.reserved_rows & change.rows
    if draft.held and kept != draft.reserved_rows and not _keeps_a_slot(draft, change, kept):
        return False
    return not draft.pinned or _as_pinned(draft, change)


def _sold(draft: Draft, change: Change) -> bool:
    """Leaves the types that can be bought under the new requirements."""
    change.rows &= change.narrowing.rows
    change.held &= change.narrowing.reserved
    if change.held != draft.held:
        change.reserved_rows = draft.template.shelf.sold_in(change.held, draft.reserved_rows)
    change.rows &= change.narrowing.offered | change.reserved_rows
    return change.rows != 0


def _keeps_a_slot(draft: Draft, change: Change, kept: Rows) -> bool:
    """A draft never gives up its last reserved offering; the pod opens another node instead."""
    if not kept:
        return False
    if kept != change.reserved_rows:
        change.held = draft.template.shelf.still(change.held, change.reserved_rows, kept)
        change.reserved_rows = kept
    return True


def _as_pinned(draft: Draft, change: Change) -> bool:
    bought = change.narrowing.markets | change.held
    return bool(change.rows & draft.pinned) and bool(bought & draft.pinned_market)


def _flexible(draft: Draft, change: Change) -> bool:
    if not draft.minimums:
        return True
    markets = change.narrowing.markets | change.held
    diversity = draft.template.diversity
    if change.narrowing is draft.narrowing:
        found = diversity.still(
            draft.minimums, draft.witnesses, change.narrowing, change.rows, markets
        )
    else:
        found = diversity.witnesses(draft.minimums, change.narrowing, change.rows, markets)
    if found is None:
        return False
    change.witnesses = found
    return True
