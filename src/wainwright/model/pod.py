"""Pods to be scheduled, with everything that decides on which nodes each of them fits.

Requests, node affinity and tolerations are on the pod itself; what ties it to other pods, to
volumes and to host ports (topology spread, pod affinity, attachments) is in its PodConstraints,
which most pods do not have. DaemonSets use resources of every node that their template fits.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.requirements import NO_REQUIREMENTS, Contradiction, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration

EBS_CSI_DRIVER: Final = "ebs.csi.aws.com"
POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label that a Deployment gives its ReplicaSets and their pods."""


class HostPort(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A volume of a CSI driver; pods that share it on one node attach it once."""

    driver: str
    volume: str
    """The id of the volume, unique for the driver."""


class SelectorRequirement(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One requirement of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str = "In"
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
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
    """A label selector: all expressions together; without any it selects every pod."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    """In the order of keys."""
    selects_nothing: bool = False
    """Set for a constraint that was written without a selector, which selects no pod."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        return not self.selects_nothing and all(
            each.matches(labels) for each in self.match_expressions
        )

    def __str__(self) -> str:
        """As kubectl writes it: app=web,tier in (a,b),!canary."""
        if self.selects_nothing:
            return "nobody"
        return ",".join(map(str, self.match_expressions)) or "any pod"

    @property
    def required_label(self) -> tuple[str, str] | None:
        """A label and value that every selected pod has; None where there is no such pair.

        Selectors are indexed by it, so that a pod is compared only with those of its own labels.
        """
        for requirement in self.match_expressions:
            if requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.key, next(iter(requirement.values))
        return None


ALL_PODS: Final = PodSelector()
NO_PODS: Final = PodSelector(selects_nothing=True)


def pod_selector(labels: Mapping[str, str]) -> PodSelector:
    """The selector of pods that have all of these labels."""
    return PodSelector(
        match_expressions=tuple(
            SelectorRequirement(key=k, values=frozenset({labels[k]})) for k in sorted(labels)
        )
    )


class TopologySpread(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A topology spread constraint; the selector includes the values of matchLabelKeys."""

    key: str
    selector: PodSelector
    max_skew: int = 1
    min_domains: int | None = None
    required: bool = True
    """DoNotSchedule; otherwise it is a preference (ScheduleAnyway)."""
    honor_affinity: bool = True
    """Whether nodes that do not match the node affinity of the pod are ignored (Honor)."""
    honor_taints: bool = False
    """Whether nodes with taints that the pod does not tolerate are ignored (Honor)."""
    by_default: bool = False
    """Whether it comes from the scheduler's configuration, for a pod without constraints."""


class AffinityTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A term of pod affinity or anti-affinity: the selected pods, and the topology key."""

    key: str
    selector: PodSelector
    namespaces: frozenset[str] | None = None
    """None means all of them."""

    def matches(self, namespace: str, labels: dict[str, str]) -> bool:
        in_namespace = self.namespaces is None or namespace in self.namespaces
        return in_namespace and self.selector.selects(labels)


class WeightedAffinityTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A preferred term; those of higher weight are relaxed later."""

    weight: int
    term: AffinityTerm


ANY_NODE_TERMS: Final = (NO_REQUIREMENTS,)
"""The alternatives of a pod that requires no label of its node."""


class UnsupportedFeature(StrEnum):
    """Features that the planner does not support; the value is the end of a sentence."""

    RESOURCE_CLAIMS = "resource claims"


class PreferredNodeTerm(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A preferred node affinity term; those of higher weight are relaxed later."""

    weight: int
    requirements: Requirements


class PodConstraints(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Constraints of a pod by other pods, host ports and volumes, and preferences; mostly none."""

    spreads: tuple[TopologySpread, ...] = ()
    """In the order of the manifest, preferences (ScheduleAnyway) included."""
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    """This and the next two: highest weight first, equal weights in the order of the manifest."""
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_nodes: tuple[PreferredNodeTerm, ...] = ()
    ports: tuple[HostPort, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    """Volumes that count against the attach limits of nodes."""
    volume_topology: tuple[Requirements, ...] = ANY_NODE_TERMS
    """Where its volumes are accessible: one of these must match, and is never relaxed."""


NO_CONSTRAINTS: Final = PodConstraints()


class VolumeProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a volume keeps the pod from being scheduled on any node."""

    claim: str
    """The name of the PersistentVolumeClaim, or of the volume where it has none."""
    why: str
    is_apart: bool = False
    """Whether only the pod's other volumes keep it from being reached."""


class PodVolume(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A volume of a pod that can be reached from some nodes only."""

    claim: str
    """The name of the PersistentVolumeClaim."""
    volume: str = ""
    """The name of the PersistentVolume; empty as long as the claim is not bound."""
    storage_class: str = ""
    """Of an unbound claim, whose allowedTopologies decide."""
    topology: tuple[Requirements, ...] = ANY_NODE_TERMS


class EvictionFacts(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What decides whether and when a pod may be evicted; pods of one workload mostly share it."""

    owner: str = ""
    """Kind and name of its controller, as ReplicaSet/web; empty without one."""
    static: bool = False
    """Whether the kubelet of its node runs it from a file: it ends with the node."""
    recreated: bool = False
    """Whether it is terminating, and its StatefulSet will create it again under its name."""
    do_not_disrupt: bool | float = False
    """The annotation do-not-disrupt; a number limits it to these seconds from the pod's start."""
    deletion_cost: float = 0.0
    """The annotation pod-deletion-cost: of equal nodes those with cheaper pods go first."""
    disruption_cost: float | None = None
    """The annotation karpenter.sh/disruption-cost, which counts before it."""
    ready: bool = True
    """False only where its status says so."""
    started: float | None = None
    """Seconds since 1970."""


NO_EVICTION_FACTS: Final = EvictionFacts()


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod, with everything that decides on which nodes it fits."""

    namespace: str
    name: str
    uid: str = ""
    created: float | None = None
    """Seconds since 1970; None sorts as the youngest."""
    requests: Resources = msgspec.field(default_factory=dict)
    """Init containers, sidecars and overhead included; the planner adds `pods: 1`."""
    overhead: Resources | None = None
    """The part of the requests that its RuntimeClass adds; None where it adds nothing."""
    alternatives: tuple[Requirements, ...] = ANY_NODE_TERMS
    """Node selector with one required node affinity term each; one must match.

    They are tried in order. Terms that contradict themselves are left out; without any the pod
    fits no node.
    """
    contradictory: tuple[Contradiction, ...] = ()
    """Labels in which the terms that are left out contradict themselves."""
    tolerations: tuple[Toleration, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int = 0
    daemonset: bool = False
    """Whether a DaemonSet owns it."""
    constraints: PodConstraints = NO_CONSTRAINTS
    volume_problem: VolumeProblem | None = None
    volumes: tuple[PodVolume, ...] = ()
    """The volumes behind `constraints.volume_topology`, for explanations."""
    terminating: bool = False
    """Being deleted: it still uses resources, but does not count in topology spread."""
    unsupported: tuple[UnsupportedFeature, ...] = ()
    """A pod that uses any of these is unschedulable, rather than scheduled wrongly."""
    eviction: EvictionFacts = NO_EVICTION_FACTS
    virtual: bool = False
    """Whether it only stands for room that a capacity buffer keeps: any pod may take that."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def workload(self) -> str:
        """Deployment shop/web: what one edits to change the pod; empty where nothing owns it.

        A ReplicaSet of a Deployment has its name, and the hash of the template after it.
        """
        if not self.eviction.owner:
            return ""
        kind, _, name = self.eviction.owner.partition("/")
        ending = f"-{self.labels.get(POD_TEMPLATE_HASH, '')}"
        if kind == "ReplicaSet" and len(ending) > 1 and name.endswith(ending):
            kind, name = "Deployment", name.removesuffix(ending)
        return f"{kind} {self.namespace}/{name}"

    @property
    def is_rescheduled(self) -> bool:
        """Whether the pod will be created again elsewhere once its node is gone.

        DaemonSet pods and static pods end with their node. A terminating pod is gone in any case,
        and only a StatefulSet creates another one in its place.
        """
        if self.daemonset or self.eviction.static:
            return False
        return not self.terminating or self.eviction.recreated


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet: one pod on every node that its template fits."""

    namespace: str
    name: str
    requests: Resources = msgspec.field(default_factory=dict)
    alternatives: tuple[Requirements, ...] = ANY_NODE_TERMS
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
