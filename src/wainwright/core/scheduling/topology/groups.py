"""Topology groups: the pods that one constraint selects, counted by topology domain.

A group of a label counts by the label's values. Pods on a draft that has not decided on a value are
kept apart until a count depends on it: then the draft decides, and they are counted. A group of the
hostname counts by node and draft, and only which of them are full matters.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from wainwright.model.bitset import BitSet
from wainwright.model.pod import AffinityTerm, TopologySpread
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Toleration

NO_COUNTS: Final[Mapping[int, int]] = {}


class TopologyKind(Enum):
    SPREAD = auto()
    AFFINITY = auto()
    """Counts the pods to be near."""
    ANTI_AFFINITY = auto()
    """Counts the pods to avoid."""
    INVERSE_ANTI_AFFINITY = auto()
    """Counts the pods whose anti-affinity selects the pod."""


ANTI_AFFINITY_KINDS: Final = frozenset(
    {TopologyKind.ANTI_AFFINITY, TopologyKind.INVERSE_ANTI_AFFINITY}
)


class NodeFilter:
    """The nodes that count for a spread (node affinity and taints policies); None counts all."""

    __slots__ = (
        "alternatives",
        "counts_cache",
        "is_trivial",
        "launchable",
        "reachable",
        "surely_counts_cache",
        "tolerations",
    )

    def __init__(
        self,
        alternatives: tuple[Requirements, ...] | None,
        tolerations: tuple[Toleration, ...] | None,
        reachable: tuple[Requirements, ...] | None,
    ) -> None:
        self.alternatives = alternatives
        self.tolerations = tolerations
        self.is_trivial = alternatives is None and tolerations is None
        """Whether it counts all nodes."""
        self.reachable = reachable
        """Where the pod itself may go: new nodes elsewhere would never be launched for it."""
        self.launchable: list[Any] | None = None
        """Cache: what pools could launch of the nodes that count. Groups share filters, so that the
        requirements of each NodePool are combined with a filter once, not once for each group.
        """
        self.counts_cache: dict[Any, bool] = {}
        """Cache: whether drafts count, by what they are narrowed to. Drafts are narrowed to a few
        sets of requirements; without it each pod compares the filter with every draft again.
        """
        self.surely_counts_cache: dict[Any, bool] = {}
        """Cache: whether drafts count whatever they become; the same, and a slower comparison."""


AffinityTerms: TypeAlias = tuple[AffinityTerm, ...]


class TopologyGroup:
    """Base of both ways of counting."""

    __slots__ = (
        "counts_unreachable",
        "filter",
        "has_unselected_owner",
        "key",
        "kind",
        "nodes",
        "number",
        "spread",
        "terms",
        "version",
    )

    def __init__(self, kind: TopologyKind, key: str, terms: AffinityTerms, number: int) -> None:
        self.kind = kind
        self.key = key
        self.terms = terms
        """The pods it counts: those that all terms select."""
        self.number = number
        self.has_unselected_owner = False
        """For inverse anti-affinity: whether some pod with the term is not selected by it."""
        self.spread: TopologySpread | None = None
        self.filter: NodeFilter | None = None
        self.counts_unreachable = False
        """For a spread: whether it counts nodes where its pods cannot go."""
        self.nodes: BitSet = -1
        """The existing nodes that count."""
        self.version = 0
        """Increases when the counts change."""

    def selects(self, namespace: str, labels: dict[str, str]) -> bool:
        return all(term.matches(namespace, labels) for term in self.terms)

    def _copy_to(self, clone: "TopologyGroup") -> None:
        clone.spread, clone.filter, clone.nodes = self.spread, self.filter, self.nodes
        clone.counts_unreachable = self.counts_unreachable
        clone.version = self.version  # versions of a fork go on where these stopped


class LabelGroup(TopologyGroup):
    """Counts by the values of a node label."""

    __slots__ = (
        "counts",
        "deferred_drafts",
        "domains",
        "domains_version",
        "launchable",
        "outside_drafts",
        "provisional_counts",
        "uncertain_counts",
        "undecided_counts",
        "undecided_drafts",
    )

    def __init__(self, kind: TopologyKind, key: str, terms: AffinityTerms, number: int) -> None:
        super().__init__(kind, key, terms, number)
        self.counts: dict[str, int] = {}
        self.undecided_counts: dict[int, int] = {}
        """Pods on drafts that have not decided on a value, by draft number."""
        self.undecided_drafts: BitSet = 0
        """The drafts of `undecided_counts`."""
        self.provisional_counts: dict[int, int] = {}
        """Pods on drafts that count now but could become nodes that do not, by draft number."""
        self.uncertain_counts: dict[str, int] = {}
        """Those of them in `counts`, by value, where the draft really has a choice: they take room
        in their domain, but do not raise the lowest count. If the draft became a node that does not
        count, pods elsewhere would be beyond the skew for the kube-scheduler."""
        self.deferred_drafts: BitSet = 0
        """Undecided drafts that cannot decide before their round is over."""
        self.domains: tuple[str, ...] = ()
        """The values over which pods are spread."""
        self.launchable: frozenset[str] = frozenset()
        """Those of them that a new node could have."""
        self.outside_drafts: BitSet = 0
        """Undecided drafts that could end up outside `domains`, as a further and empty domain."""
        self.domains_version: object = None

    def fork(self) -> "LabelGroup":
        """A copy for a simulation; only for a group without drafts."""
        clone = LabelGroup(self.kind, self.key, self.terms, self.number)
        self._copy_to(clone)
        clone.counts, clone.domains = dict(self.counts), self.domains
        clone.launchable, clone.domains_version = self.launchable, self.domains_version
        return clone

    def add(self, value: str, count: int = 1) -> None:
        total = self.counts.get(value, 0) + count
        if total:
            self.counts[value] = total
        else:
            self.counts.pop(value, None)
        self.version += 1

    def add_undecided(self, draft: int) -> None:
        self.undecided_counts[draft] = self.undecided_counts.get(draft, 0) + 1
        self.undecided_drafts |= 1 << draft
        self.version += 1

    def decide(self, draft: int, value: str | None) -> None:
        """The draft has decided on a value, or will have none."""
        count = self.undecided_counts.pop(draft)
        self.undecided_drafts &= ~(1 << draft)
        self.deferred_drafts &= ~(1 << draft)
        if value is not None:
            self.add(value, count)


class HostGroup(TopologyGroup):
    """Counts by node and by draft."""

    __slots__ = (
        "_base_counts",
        "draft_counts",
        "full_drafts",
        "full_nodes",
        "limit",
        "node_counts",
        "total",
    )

    def __init__(
        self, kind: TopologyKind, key: str, terms: AffinityTerms, number: int, limit: int
    ) -> None:
        super().__init__(kind, key, terms, number)
        self.limit = limit
        """With so many pods a node or draft is full."""
        self.draft_counts: dict[int, int] = {}
        """Where one pod does not make a draft full."""
        self.node_counts: dict[int, int] = {}
        self._base_counts: Mapping[int, int] = NO_COUNTS
        """For a fork: the counts of the original group; saves copying them for every simulation."""
        self.full_drafts: BitSet = 0
        self.full_nodes: BitSet = 0
        self.total = 0

    @property
    def has_pods(self) -> bool:
        return self.total > 0

    def fork(self) -> "HostGroup":
        """A copy for a simulation; only for an original group without drafts."""
        clone = HostGroup(self.kind, self.key, self.terms, self.number, self.limit)
        self._copy_to(clone)
        clone._base_counts, clone.full_nodes, clone.total = (
            self.node_counts,
            self.full_nodes,
            self.total,
        )
        return clone

    def remove_from_node(self, number: int) -> None:
        """One pod fewer on a node that stays; only for an original group."""
        count = self.node_counts[number] - 1
        if count:
            self.node_counts[number] = count
        else:
            del self.node_counts[number]
        self.total -= 1
        if count < self.limit:
            self.full_nodes &= ~(1 << number)
        self.version += 1

    def remove_one(self) -> None:
        """Removes one pod of a removed node, whose own count is not read again."""
        self.total -= 1

    def add_draft(self, number: int) -> None:
        if self.limit == 1:
            self.fill_draft(1 << number)
            return
        self.total += 1
        count = self.draft_counts[number] = self.draft_counts.get(number, 0) + 1
        if count == self.limit:
            self.full_drafts |= 1 << number
        if count == self.limit or self.total == 1:
            self.version += 1

    def fill_draft(self, bit: BitSet) -> None:
        """The same where one pod makes a draft full: thousands of pods that each keep apart from
        all others would take gigabytes if every group had a count for every draft.
        """
        self.total += 1
        if not self.full_drafts & bit:
            self.full_drafts |= bit
            self.version += 1

    def add_node(self, number: int) -> None:
        known = self.node_counts.get(number)
        count = self.node_counts[number] = (
            self._base_counts.get(number, 0) if known is None else known
        ) + 1
        self.total += 1
        if count == self.limit:
            self.full_nodes |= 1 << number
        if count == self.limit or self.total == 1:
            self.version += 1


AnyGroup: TypeAlias = LabelGroup | HostGroup


class DividedGroups:
    """Groups that count the same pod: by label those that count every node, those that are full
    with one pod on any node, by filter those that count some nodes, and the others.
    """

    __slots__ = ("all", "by_filter", "by_label", "others", "singles")

    def __init__(self, groups: tuple[AnyGroup, ...]) -> None:
        self.all = groups
        self.by_label: dict[str, list[LabelGroup]] = {}
        self.by_filter: dict[NodeFilter, list[AnyGroup]] = {}
        singles: list[HostGroup] = []
        others: list[AnyGroup] = []
        for group in groups:
            if group.filter is not None and not group.filter.is_trivial:
                self.by_filter.setdefault(group.filter, []).append(group)
            elif isinstance(group, LabelGroup):
                self.by_label.setdefault(group.key, []).append(group)
            elif group.limit == 1:
                singles.append(group)
            else:
                others.append(group)
        self.others = tuple(others)
        self.singles = tuple(singles)


def counts_by_domain(group: LabelGroup) -> Mapping[str, int]:
    """Every domain with its pod count; for explanations."""
    return {value: group.counts.get(value, 0) for value in group.domains} | group.counts
