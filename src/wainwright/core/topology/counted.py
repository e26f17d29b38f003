"""What a spread counts: nodes that drafts may become, and those that pools could launch."""

from collections.abc import Iterable, Iterator, Sequence

from wainwright.core.drafts import Draft
from wainwright.core.narrowing import Narrowing
from wainwright.core.reservations import Stock
from wainwright.core.templates import Template
from wainwright.core.topology.groups import Filter
from wainwright.model.columns import Rows
from wainwright.model.markets import Markets
from wainwright.model.pod import ANYWHERE
from wainwright.model.requirements import Requirements
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint, Toleration, untolerated


def launchable(
    templates: Sequence[Template], wanted: Filter
) -> Iterator[tuple[Narrowing, Template]]:
    """What pools could launch of the nodes that count, where the pod may go."""
    for template in templates:
        if not _tolerated(template, wanted):
            continue
        for each in wanted.reach or ANYWHERE:
            if template.base.requirements.compatible(each, template.well_known):
                narrowing = template.base.joined(template.decided_here(each))
                if narrowing is not None:
                    yield narrowing, template


def takes(wanted: Filter, draft: Draft) -> bool:
    return _tolerated(draft.template, wanted) and any(
        _may_be(draft, each) for each in wanted.alternatives or ANYWHERE
    )


def _may_be(draft: Draft, wanted: Requirements) -> bool:
    """Whether the draft can become such a node, or is one if it is settled what it becomes."""
    template = draft.template
    if not template.base.requirements.compatible(wanted, template.well_known):
        return False
    narrowing = draft.narrowing.joined(template.decided_here(wanted))
    if narrowing is None:
        return False
    if not draft.pinned:
        slots = template.shelf.sold_in(draft.held & narrowing.reserved, draft.reserved_rows)
        return bool(draft.rows & narrowing.rows & (narrowing.offered | slots))
    bought = (narrowing.markets | narrowing.reserved) & draft.pinned_market
    return bool(narrowing.rows & draft.pinned and bought)


def _tolerated(template: Template, wanted: Filter) -> bool:
    if wanted.tolerations is None:
        return True
    return admitted(template.pool.taints, wanted.tolerations)


def admitted(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether all taints that bind are tolerated."""
    binding = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE]
    return untolerated(binding, tolerations) is None


def launched_values(template: Template, narrowing: Narrowing, key: str, stock: Stock) -> list[str]:
    """The values of the label that nodes of the pool could have if they were launched now."""
    reserved = narrowing.reserved & template.shelf.of(stock.live)
    rows = narrowing.rows & template.limits.allowed_at_start
    return _values(template, narrowing, key, rows, reserved)


def possible_values(template: Template, narrowing: Narrowing, key: str) -> list[str]:
    """The same, whatever limits and reservations say."""
    reserved = narrowing.reserved & template.shelf.markets
    return _values(template, narrowing, key, narrowing.rows, reserved)


def _values(
    template: Template, narrowing: Narrowing, key: str, rows: Rows, reserved: Markets
) -> list[str]:
    index, allowed = template.index, narrowing.requirements.allowed(key)
    rows &= narrowing.offered | template.shelf.sold_in(reserved, rows)
    if not rows:
        return []
    if key in index.keys:
        return index.values_left(key, rows, narrowing.markets | reserved, allowed)
    return [] if allowed.open else sorted(allowed.values)
