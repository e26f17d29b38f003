"""Why other pods leave a pod no place: asked after the solve, once per class that failed."""

from collections.abc import Iterator

from wainwright.core.topology.bound import Bound
from wainwright.core.topology.groups import (
    AnyGroup,
    HostGroup,
    Kind,
    LabelGroup,
    counts_by_domain,
    spread_over,
)
from wainwright.model.reason import Count, Keeping, NotNear, TooNear, Uneven


def keeping(bound: Bound) -> tuple[Keeping, ...]:
    """Every constraint that rules out some place."""
    return tuple(_reasons(bound))


def _reasons(bound: Bound) -> Iterator[Keeping]:
    for group, itself in bound.spreads:
        found = _uneven(group, itself=itself)
        if len(found.left) < len(found.counts) or not found.counts:
            yield found
    for groups, itself in bound.near:
        if not itself or any(map(_places, groups)):
            yield from (NotNear(key=g.key, pods=_pods(g), left=_places(g)) for g in groups)
    yield from sorted(_too_near(bound), key=lambda found: (found.key, found.pods, found.theirs))


def _too_near(bound: Bound) -> Iterator[TooNear]:
    shunning: tuple[AnyGroup, ...] = (*bound.away, *bound.full)
    for group in shunning:
        taken = _places(group)
        if taken:
            theirs = group.kind is Kind.SHUNNED
            yield TooNear(key=group.key, pods=_pods(group), taken=taken, theirs=theirs)


def _uneven(group: LabelGroup, *, itself: bool) -> Uneven:
    assert group.spread is not None
    counts = counts_by_domain(group)
    return Uneven(
        key=group.key,
        max_skew=group.spread.max_skew,
        counts=tuple(Count(place=place, pods=counts[place]) for place in sorted(counts)),
        left=tuple(sorted(spread_over(group, itself=itself))),
        min_domains=group.spread.min_domains,
        by_default=group.spread.by_default,
    )


def _pods(group: AnyGroup) -> str:
    return ",".join(str(term.selector) for term in group.meaning)


def _places(group: AnyGroup) -> tuple[str, ...]:
    """The values with any of the pods; of nodes only how many there are."""
    if isinstance(group, HostGroup):
        count = group.full.bit_count() + group.full_nodes.bit_count()
        return (f"{count:,} {'node' if count == 1 else 'nodes'}",) if count else ()
    return tuple(sorted(value for value, count in group.counts.items() if count))
