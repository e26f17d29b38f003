"""Where a pod wants to be: affinity to nodes, affinity to other pods, spread over places."""

from wainwright.api.builtin.part import Part
from wainwright.api.builtin.selection import LabelSelector, NodeSelector, NodeSelectorTerm


class PreferredSchedulingTerm(Part, frozen=True, kw_only=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Part, frozen=True, kw_only=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Part, frozen=True, kw_only=True):
    """Pods to be near, or not to be near, and what counts as near."""

    topologyKey: str = ""
    labelSelector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    mismatchLabelKeys: list[str] | None = None


class WeightedPodAffinityTerm(Part, frozen=True, kw_only=True):
    weight: int = 0
    podAffinityTerm: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Part, frozen=True, kw_only=True):
    """Affinity and anti-affinity have the same fields."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Part, frozen=True, kw_only=True):
    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class TopologySpreadConstraint(Part, frozen=True, kw_only=True):
    """How evenly pods are to be spread over the values of a node label."""

    maxSkew: int = 0
    topologyKey: str = ""
    whenUnsatisfiable: str = ""
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: list[str] | None = None
