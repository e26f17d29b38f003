"""Topology groups: the pods that one constraint selects, counted by the domains where they are.

A group of a label counts by the label's values. Pods on a draft that has not decided on a value are
kept apart until somebody needs to know: then the draft is decided, and they are counted. A group of
the hostname counts by node and draft, and only how many are full matters.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from wainwright.model.bitset import BitSet
from wainwright.model.pod import AffinityTerm, TopologySpread
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Toleration

NO_COUNTS: Final[Mapping[int, int]] = {}


class ConstraintKind(Enum):
    SPREAD = auto()
    NEAR = auto()
    """Affinity: counts the pods to be near."""
    AWAY = auto()
    """Anti-affinity: counts the pods not to be near."""
    SHUNNED = auto()
    """Anti-affinity seen from the other side: counts those that do not want the pod near."""


ANTI_AFFINITY_KINDS: Final = frozenset({ConstraintKind.AWAY, ConstraintKind.SHUNNED})


class NodeFilter:
    """The nodes that count for a spread; None means that all do."""

    __slots__ = ("alternatives", "launchable", "reach", "takes", "tolerations")

    def __init__(
        self,
        alternatives: tuple[Requirements, ...] | None,
        tolerations: tuple[Toleration, ...] | None,
        reach: tuple[Requirements, ...] | None,
    ) -> None:
        self.alternatives = alternatives
        self.tolerations = tolerations
        self.reach = reach
        """Where the pod itself may go: new nodes elsewhere would never be made for it."""
        self.launchable: list[Any] | None = None
        """What pools could launch that counts, once somebody has worked it out."""
        self.takes: dict[Any, bool] = {}
        """Whether drafts count, by what they are narrowed to."""

    @property
    def trivial(self) -> bool:
        return self.alternatives is None and self.tolerations is None


AffinityTerms: TypeAlias = tuple[AffinityTerm, ...]


class TopologyGroup:
    """Common to both ways of counting."""

    __slots__ = (
        "alien",
        "filter",
        "key",
        "kind",
        "meaning",
        "nodes",
        "number",
        "roams",
        "spread",
        "version",
    )

    def __init__(self, kind: ConstraintKind, key: str, meaning: AffinityTerms, number: int) -> None:
        self.kind = kind
        self.key = key
        self.meaning = meaning
        """The pods it speaks of: those that all of these mean."""
        self.number = number
        self.alien = False
        """Of the shunned: whether some who shun them are not such pods themselves."""
        self.spread: TopologySpread | None = None
        self.filter: NodeFilter | None = None
        self.roams = False
        """Of a spread: whether it counts nodes where its pods cannot go."""
        self.nodes: BitSet = -1
        """The nodes of the cluster that count."""
        self.version = 0
        """Goes up when the counts change."""

    def speaks_of(self, namespace: str, labels: dict[str, str]) -> bool:
        return all(term.matches(namespace, labels) for term in self.meaning)

    def _copied(self, twin: "TopologyGroup") -> None:
        twin.spread, twin.filter, twin.nodes = self.spread, self.filter, self.nodes
        twin.roams = self.roams


class LabelGroup(TopologyGroup):
    """Counts by the values of a node label."""

    __slots__ = (
        "adrift",
        "counts",
        "domains",
        "doubtful",
        "launchable",
        "pending",
        "stamp",
        "stuck",
        "undecided",
    )

    def __init__(self, kind: ConstraintKind, key: str, meaning: AffinityTerms, number: int) -> None:
        super().__init__(kind, key, meaning, number)
        self.counts: dict[str, int] = {}
        self.pending: dict[int, int] = {}
        """Pods on drafts that have not settled on a value, by the number of the draft."""
        self.undecided: BitSet = 0
        """Those drafts."""
        self.doubtful: dict[int, int] = {}
        """Pods on drafts that may yet become something else than the nodes that count."""
        self.stuck: BitSet = 0
        """Those that cannot settle before their round is over."""
        self.domains: tuple[str, ...] = ()
        """The values over which pods are spread."""
        self.launchable: frozenset[str] = frozenset()
        """Those among them that a new node could have."""
        self.adrift: BitSet = 0
        """Drafts with which there may be a further value soon, where nobody is."""
        self.stamp: object = None

    def fork(self) -> "LabelGroup":
        """A copy to play with; only for a group without drafts."""
        twin = LabelGroup(self.kind, self.key, self.meaning, self.number)
        self._copied(twin)
        twin.counts, twin.domains = dict(self.counts), self.domains
        twin.launchable, twin.stamp = self.launchable, self.stamp
        return twin

    def add(self, value: str, count: int = 1) -> None:
        now = self.counts.get(value, 0) + count
        if now:
            self.counts[value] = now
        else:
            self.counts.pop(value, None)
        self.version += 1

    def postpone(self, draft: int) -> None:
        self.pending[draft] = self.pending.get(draft, 0) + 1
        self.undecided |= 1 << draft
        self.version += 1

    def settle(self, draft: int, value: str | None) -> None:
        """The draft has its value now, or will never have one."""
        count = self.pending.pop(draft)
        self.undecided &= ~(1 << draft)
        self.stuck &= ~(1 << draft)
        if value is not None:
            self.add(value, count)


class HostGroup(TopologyGroup):
    """Counts by node and by draft."""

    __slots__ = ("_before", "full", "full_nodes", "limit", "on_drafts", "on_nodes", "total")

    def __init__(
        self, kind: ConstraintKind, key: str, meaning: AffinityTerms, number: int, limit: int
    ) -> None:
        super().__init__(kind, key, meaning, number)
        self.limit = limit
        """From so many on a node or draft is among the full ones."""
        self.on_drafts: dict[int, int] = {}
        self.on_nodes: dict[int, int] = {}
        self._before: Mapping[int, int] = NO_COUNTS
        """Of a fork: what the group counted that it came from."""
        self.full: BitSet = 0
        self.full_nodes: BitSet = 0
        self.total = 0

    @property
    def anywhere(self) -> bool:
        return self.total > 0

    def fork(self) -> "HostGroup":
        """A copy to play with; only for a group that is no fork itself and has no drafts."""
        twin = HostGroup(self.kind, self.key, self.meaning, self.number, self.limit)
        self._copied(twin)
        twin._before, twin.full_nodes, twin.total = self.on_nodes, self.full_nodes, self.total
        return twin

    def forget(self) -> None:
        """One pod less, on a node that goes and will not be asked again."""
        self.total -= 1

    def add_draft(self, number: int) -> None:
        count = self.on_drafts[number] = self.on_drafts.get(number, 0) + 1
        self.total += 1
        if count == self.limit:
            self.full |= 1 << number
        if count == self.limit or self.total == 1:
            self.version += 1

    def add_node(self, number: int) -> None:
        known = self.on_nodes.get(number)
        count = self.on_nodes[number] = (
            self._before.get(number, 0) if known is None else known
        ) + 1
        self.total += 1
        if count == self.limit:
            self.full_nodes |= 1 << number
        if count == self.limit or self.total == 1:
            self.version += 1


AnyGroup: TypeAlias = LabelGroup | HostGroup


def domains_within_skew(group: LabelGroup, *, itself: bool) -> list[str]:
    """The values where one more pod keeps the skew, the emptiest first.

    `itself` tells whether the pod is one of those that are counted.
    """
    assert group.spread is not None
    counts = group.counts
    taken = [counts.get(value, 0) for value in group.domains]
    wanted = group.spread.min_domains
    few = bool(group.adrift) or (wanted is not None and len(taken) < wanted)
    lowest = 0 if few else min(taken, default=0)
    # Pods on drafts that cannot settle yet might be anywhere.
    anywhere = sum(group.pending.values()) if group.stuck else 0
    most = lowest + group.spread.max_skew - itself - anywhere
    pairs = zip(taken, group.domains, strict=True)
    return [value for count, value in sorted(pairs) if count <= most]


def counts_by_domain(group: LabelGroup) -> Mapping[str, int]:
    """For explanations: every domain with its count."""
    return {value: group.counts.get(value, 0) for value in group.domains} | group.counts
