"""Pods that need a place, with everything that decides where each of them can go.

Requests, node affinity and tolerations are on the pod itself; what ties it to other pods, to
volumes and to host ports (topology spread, pod affinity, attachments) is in its PodConstraints,
which most pods do not have. DaemonSets take room on every node that their template fits.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration

WILDCARD_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})


class HostPort(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"

    def conflicts_with(self, other: "HostPort") -> bool:
        """Whether both cannot be on one node; a wildcard address stands for every address."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        wild = self.address in WILDCARD_ADDRESSES or other.address in WILDCARD_ADDRESSES
        return wild or self.address == other.address


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A volume of a CSI driver; pods that share it on one node attach it once."""

    driver: str
    volume: str
    """What tells it apart from other volumes of the driver."""


class SelectorRequirement(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What one label must be: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str = "In"
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels

    def __str__(self) -> str:
        listed = ",".join(sorted(self.values))
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{self.key}={listed}"
            case "In":
                return f"{self.key} in ({listed})"
            case "NotIn":
                return f"{self.key} notin ({listed})"
            case "Exists":
                return self.key
            case _:
                return f"!{self.key}"


class PodSelector(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """All clauses together; without any it selects everybody."""

    clauses: tuple[SelectorRequirement, ...] = ()
    """In the order of keys."""
    nobody: bool = False
    """A constraint that was written without a selector speaks of nobody."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        return not self.nobody and all(clause.holds(labels) for clause in self.clauses)

    def __str__(self) -> str:
        """As kubectl writes it: app=web,tier in (a,b),!canary."""
        if self.nobody:
            return "nobody"
        return ",".join(map(str, self.clauses)) or "any pod"

    @property
    def anchor(self) -> tuple[str, str] | None:
        """A label and its value that whoever is selected has; None where there is no such pair."""
        for clause in self.clauses:
            if clause.operator == "In" and len(clause.values) == 1:
                return clause.key, next(iter(clause.values))
        return None


ALL_PODS: Final = PodSelector()
NO_PODS: Final = PodSelector(nobody=True)


def pod_selector(labels: Mapping[str, str]) -> PodSelector:
    """Those who have all of these labels."""
    return PodSelector(
        clauses=tuple(
            SelectorRequirement(key=k, values=frozenset({labels[k]})) for k in sorted(labels)
        )
    )


class TopologySpread(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A topology spread constraint; the values of matchLabelKeys are among the clauses already."""

    key: str
    selector: PodSelector
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


class AffinityTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A term of pod affinity or anti-affinity: these pods, and what counts as near."""

    key: str
    selector: PodSelector
    namespaces: frozenset[str] | None = None
    """None means all of them."""

    def means(self, namespace: str, labels: dict[str, str]) -> bool:
        inside = self.namespaces is None or namespace in self.namespaces
        return inside and self.selector.selects(labels)


class WeightedAffinityTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A term that should hold if it can; heavier ones count more."""

    weight: int
    term: AffinityTerm


ANY_NODE_TERMS: Final = (NO_REQUIREMENTS,)
"""The alternatives of a pod that asks nothing of a node's labels."""


class UnsupportedFeature(StrEnum):
    """What the planner cannot honour, in words that end a sentence about the pod."""

    RESOURCE_CLAIMS = "resource claims"


class PreferredNodeTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Nodes on which the pod would rather be; heavier ones count more."""

    weight: int
    requirements: Requirements


class PodConstraints(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What ties a pod to other pods, to volumes and to preferences; most pods have none."""

    spreads: tuple[TopologySpread, ...] = ()
    """As written, preferences (ScheduleAnyway) among them."""
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    """This and the next two: heaviest first, among equals as written."""
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_nodes: tuple[PreferredNodeTerm, ...] = ()
    ports: tuple[HostPort, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    """Volumes of which nodes take only so many."""
    volume_topology: tuple[Requirements, ...] = ANY_NODE_TERMS
    """Where its volumes can be reached: any of these will do, and none is ever given up."""


NO_CONSTRAINTS: Final = PodConstraints()


class VolumeProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a volume keeps the pod from being placed at all."""

    claim: str
    """The claim's name, or the volume's where it has no claim."""
    why: str


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod, with everything that decides where it can go."""

    namespace: str
    name: str
    uid: str = ""
    created: float | None = None
    """Seconds since 1970; None sorts as the youngest."""
    requests: Resources = msgspec.field(default_factory=dict)
    """Init containers, sidecars and overhead included; the planner adds `pods: 1`."""
    overhead: Resources | None = None
    """What its runtime adds to the requests that are written; None where it adds nothing."""
    alternatives: tuple[Requirements, ...] = ANY_NODE_TERMS
    """Node selector with one required node affinity term each: any will do, the first goes first.

    Terms that contradict themselves are left out; with none left the pod fits no node.
    """
    contradictory: tuple[str, ...] = ()
    """Labels of which the terms left out ask what no node can have."""
    tolerations: tuple[Toleration, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int = 0
    daemonset: bool = False
    """Whether a DaemonSet owns it."""
    constraints: PodConstraints = NO_CONSTRAINTS
    volume_problem: VolumeProblem | None = None
    terminating: bool = False
    """Being deleted: it still takes room, but is no longer counted when pods are spread."""
    unsupported: tuple[UnsupportedFeature, ...] = ()
    """A pod that uses any of these is refused rather than placed wrongly."""

    @property
    def key(self) -> str:
        """As plans and people write it."""
        return f"{self.namespace}/{self.name}"


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """One more pod on every node that its template fits."""

    namespace: str
    name: str
    requests: Resources = msgspec.field(default_factory=dict)
    alternatives: tuple[Requirements, ...] = ANY_NODE_TERMS
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
