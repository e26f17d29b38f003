"""Why topology constraints do not allow a domain: spread, pod affinity and anti-affinity, with the
pods that are counted there.
"""

from collections.abc import Iterator
from typing import Final

from wainwright.core.scheduling.topology.allowed_domains import domains_within_skew
from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    HostGroup,
    LabelGroup,
    TopologyKind,
    counts_by_domain,
)
from wainwright.model.bitset import BitSet
from wainwright.model.reasons import (
    DomainCount,
    PodAffinityUnsatisfied,
    PodAntiAffinityUnsatisfied,
    TopologyReason,
    TopologySpreadUnsatisfied,
)

MAX_NAMED_SELECTORS: Final = 10


def topology_reasons(constraints: TopologyConstraints, nodes: BitSet) -> tuple[TopologyReason, ...]:
    """Every topology constraint that rules out some domain, with the pods on these nodes."""
    return tuple(_iter_topology_reasons(constraints, nodes))


def _iter_topology_reasons(
    constraints: TopologyConstraints, nodes: BitSet
) -> Iterator[TopologyReason]:
    for group, counts_itself in constraints.spreads:
        reason = _spread_reason(group, counts_itself=counts_itself)
        if len(reason.allowed_domains) < len(reason.counts) or not reason.counts:
            yield reason
    for groups, counts_itself in constraints.affinity:
        if not counts_itself or any(_occupied_domains(group, nodes) for group in groups):
            selectors = _selectors_of(groups[0])  # all of them have the same terms
            yield from (
                PodAffinityUnsatisfied(
                    key=g.key, pods=selectors, allowed_domains=_occupied_domains(g, nodes)
                )
                for g in groups
            )
    yield from sorted(
        _anti_affinity_reasons(constraints, nodes),
        key=lambda each: (each.key, each.pods, each.theirs, each.taken),
    )


def _anti_affinity_reasons(
    constraints: TopologyConstraints, nodes: BitSet
) -> Iterator[PodAntiAffinityUnsatisfied]:
    groups: tuple[AnyGroup, ...] = (*constraints.anti_affinity, *constraints.host_groups)
    own = {(each.key, each.terms): each for each in groups if not _is_theirs(each)}
    for group in groups:
        occupied = _occupied_domains(group, nodes)
        if occupied and not (
            _is_theirs(group) and _covers(own.get((group.key, group.terms)), group, nodes)
        ):
            yield PodAntiAffinityUnsatisfied(
                key=group.key, pods=_selectors_of(group), taken=occupied, theirs=_is_theirs(group)
            )


def _is_theirs(group: AnyGroup) -> bool:
    return group.kind is TopologyKind.INVERSE_ANTI_AFFINITY


def _covers(own: AnyGroup | None, theirs: AnyGroup, nodes: BitSet) -> bool:
    """Whether what others keep the pod away from, it avoids by the same term of its own: once is
    enough to say. A simulation knows more owners of the term than there are in the cluster then,
    and would say it twice where a plan says it once.
    """
    if isinstance(own, HostGroup) and isinstance(theirs, HostGroup):
        further_nodes = theirs.full_nodes & nodes & ~own.full_nodes
        return not further_nodes and not theirs.full_drafts & ~own.full_drafts
    if own is None:
        return False
    return set(_occupied_domains(theirs, nodes)) <= set(_occupied_domains(own, nodes))


def _spread_reason(group: LabelGroup, *, counts_itself: bool) -> TopologySpreadUnsatisfied:
    assert group.spread is not None
    counts = counts_by_domain(group)
    return TopologySpreadUnsatisfied(
        key=group.key,
        max_skew=group.spread.max_skew,
        counts=tuple(DomainCount(domain=place, pods=counts[place]) for place in sorted(counts)),
        allowed_domains=tuple(sorted(domains_within_skew(group, itself=counts_itself))),
        min_domains=group.spread.min_domains,
        by_default=group.spread.by_default,
    )


def _selectors_of(group: AnyGroup) -> str:
    listed = ",".join(str(term.selector) for term in group.terms[:MAX_NAMED_SELECTORS])
    rest = len(group.terms) - MAX_NAMED_SELECTORS
    return f"{listed} and {rest:,} more" if rest > 0 else listed


def _occupied_domains(group: AnyGroup, nodes: BitSet) -> tuple[str, ...]:
    """The domains with any of the pods; for nodes only how many there are."""
    if isinstance(group, HostGroup):
        count = group.full_drafts.bit_count() + (group.full_nodes & nodes).bit_count()
        return (f"{count:,} {'node' if count == 1 else 'nodes'}",) if count else ()
    return tuple(sorted(value for value, count in group.counts.items() if count))
