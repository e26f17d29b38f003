"""Where pods want to be in relation to other pods: spread, affinity and anti-affinity."""

import msgspec

from wainwright.model.selector import Selector


class Spread(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A topology spread constraint; the values of matchLabelKeys are among the clauses already."""

    key: str
    selector: Selector
    max_skew: int = 1
    min_domains: int | None = None
    required: bool = True
    """DoNotSchedule; otherwise it is a preference (ScheduleAnyway)."""
    honor_affinity: bool = True
    """Whether nodes that the pod does not select are left out of account."""
    honor_taints: bool = False
    """Whether nodes that the pod does not tolerate are."""
    by_default: bool = False
    """Given by the scheduler's configuration to a pod that has none of its own."""


class Company(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A term of pod affinity or anti-affinity: these pods, and what counts as near."""

    key: str
    selector: Selector
    namespaces: frozenset[str] | None = None
    """None means all of them."""

    def means(self, namespace: str, labels: dict[str, str]) -> bool:
        inside = self.namespaces is None or namespace in self.namespaces
        return inside and self.selector.selects(labels)


class Preferred(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A term that should hold if it can; heavier ones count more."""

    weight: int
    term: Company
