"""Why a pod is unschedulable, why a node or a reservation is not used, what was relaxed.

Reasons are data, so that they can be counted, compared and shown; messages are made of them.
`kind` tells them apart in JSON, and its values do not change when a class is renamed.
"""

from collections.abc import Hashable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from wainwright.model.pod import AffinityTerm, PodVolume, TopologySpread, UnsupportedFeature
from wainwright.model.requirements import Contradiction, ValueSet
from wainwright.model.taints import Taint


class Preference(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all preferences; `kind` tells them apart on the wire."""


class PreferredPodAffinity(Preference, frozen=True, kw_only=True, tag="NearPods"):
    term: AffinityTerm
    weight: int


class PreferredPodAntiAffinity(Preference, frozen=True, kw_only=True, tag="AwayFromPods"):
    term: AffinityTerm
    weight: int


class PreferredNodeAffinity(Preference, frozen=True, kw_only=True, tag="OnNodes"):
    requirements: str
    weight: int


class PreferredTopologySpread(Preference, frozen=True, kw_only=True, tag="SpreadEvenly"):
    spread: TopologySpread


class PreferNoScheduleTaint(Preference, frozen=True, kw_only=True, tag="OnUntainted"):
    """The pod is scheduled on a node with a PreferNoSchedule taint."""


RelaxedPreference: TypeAlias = (
    PreferredPodAffinity
    | PreferredPodAntiAffinity
    | PreferredNodeAffinity
    | PreferredTopologySpread
    | PreferNoScheduleTaint
)


class Reason(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all reasons; `kind` tells them apart on the wire."""


class RequiredBy(StrEnum):
    """Whose requirement on a label cannot be met."""

    POD = "pod"
    POOL = "pool"
    BOTH = "both"
    """Each can be met, but not the two together."""


class UnsupportedFeatures(Reason, frozen=True, kw_only=True, tag="Unsupported"):
    """The pod uses features that the planner does not support."""

    features: tuple[UnsupportedFeature, ...]


class ContradictoryRequirements(Reason, frozen=True, kw_only=True, tag="Contradictory"):
    """The requirements of the pod on some labels contradict each other."""

    labels: tuple[Contradiction, ...]


class VolumeUnusable(Reason, frozen=True, kw_only=True, tag="VolumeUnusable"):
    """A volume of the pod cannot be used on any node."""

    claim: str
    why: str
    volumes: tuple[PodVolume, ...] = ()
    """All volumes of the pod that are in one place, where they are apart."""


class VolumeTopologyConflict(Reason, frozen=True, kw_only=True, tag="VolumesElsewhere"):
    """The node affinity of the pod excludes every node that can access its volumes."""

    volumes: tuple[PodVolume, ...] = ()


class DomainCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the selected pods are in one topology domain."""

    domain: str
    pods: int


class TopologySpreadUnsatisfied(Reason, frozen=True, kw_only=True, tag="Uneven"):
    """A topology spread constraint allows only these domains, or none."""

    key: str
    max_skew: int
    counts: tuple[DomainCount, ...]
    """Of every domain that counts, in the order of names."""
    allowed_domains: tuple[str, ...]
    min_domains: int | None = None
    by_default: bool = False
    """Whether the constraint is from the scheduler's configuration, not from the pod."""


class PodAffinityUnsatisfied(Reason, frozen=True, kw_only=True, tag="NotNear"):
    """The pods of its pod affinity are only in these domains, or in none."""

    key: str
    pods: str
    """The selector, as text."""
    allowed_domains: tuple[str, ...]


class PodAntiAffinityUnsatisfied(Reason, frozen=True, kw_only=True, tag="TooNear"):
    """Pod anti-affinity, of the pod or against the pod, excludes these domains."""

    key: str
    pods: str
    taken: tuple[str, ...]
    theirs: bool = False
    """Whether the anti-affinity is that of the other pods."""


class TopologyUnsatisfied(Reason, frozen=True, kw_only=True, tag="Kept"):
    """NodePools could launch a node for it, but in no domain that its constraints allow."""

    by: tuple[
        "TopologySpreadUnsatisfied | PodAffinityUnsatisfied | PodAntiAffinityUnsatisfied", ...
    ]


class NoNodePools(Reason, frozen=True, kw_only=True, tag="NoPools"):
    """There is no NodePool."""


class NoCompatiblePool(Reason, frozen=True, kw_only=True, tag="NoPoolFits"):
    """No NodePool is compatible; each has a reason of its own."""


class PoolUnusable(Reason, frozen=True, kw_only=True, tag="PoolUnusable"):
    why: str


class NoInstanceTypes(Reason, frozen=True, kw_only=True, tag="NothingToBuy"):
    """The NodePool has no instance types."""


class LaunchesTakenByOtherPods(Reason, frozen=True, kw_only=True, tag="Promised"):
    """What the NodePool could launch is used by other pods of the same plan."""


class UntoleratedTaint(Reason, frozen=True, kw_only=True, tag="Untolerated"):
    taint: Taint


class RestrictedLabel(Reason, frozen=True, kw_only=True, tag="RestrictedLabel"):
    """The pod selects a label that no NodePool may set."""

    key: str
    meant: str | None = None
    """The label that was probably intended."""


class LabelConflict(Reason, frozen=True, kw_only=True, tag="LabelConflict"):
    key: str
    wanted: ValueSet
    offered: ValueSet | None
    """None where the NodePool does not define the label at all."""
    meant: str | None = None
    """The label that was probably intended."""
    volume: PodVolume | None = None
    """The volume of the pod that requires the label, where one does."""
    by_topology: bool = False
    """Whether constraints between pods require it, and not the pod itself."""


class NoMatchingInstanceType(Reason, frozen=True, kw_only=True, tag="NoTypeMatches"):
    """No instance type has the labels; `key` is the one that ruled out the last of them."""

    key: str
    wanted: ValueSet
    required_by: RequiredBy = RequiredBy.POD
    meant: str | None = None
    """The value that was probably intended."""
    volume: PodVolume | None = None
    by_topology: bool = False
    excluded: "ExcludedByPool | None" = None
    """Set where the catalogue has such types and a requirement of the NodePool excludes them."""
    images: "NodeClassImages | None" = None
    """Set where the NodePool's node class has images of another operating system."""


class NodeClassImages(msgspec.Struct, frozen=True, kw_only=True):
    """A node class and the operating systems of its images."""

    node_class: str
    """EC2NodeClass default"""
    systems: tuple[str, ...]


class ExcludedByPool(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement of the NodePool that excludes the instance types that the pod needs."""

    key: str
    allowed: ValueSet
    """By the NodePool."""
    values: tuple[str, ...]
    """That the types have which the pod needs."""


class NoMatchingOffering(Reason, frozen=True, kw_only=True, tag="NotOnOffer"):
    """Types match, but none has an offering with the required labels, available or not."""

    key: str
    wanted: ValueSet
    offered: ValueSet
    """The values that their offerings have."""
    instance_type: str
    """The cheapest of them."""
    required_by: RequiredBy = RequiredBy.POD
    meant: str | None = None
    """The value that was probably intended."""
    volume: PodVolume | None = None
    by_topology: bool = False
    reservations: tuple[str, ...] = ()
    """Where only capacity reservations are left before the label: those with the values."""


class ResourceShortage(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of which a type has too little."""

    resource: str
    needed: int
    best: int


class InstanceTypesTooSmall(Reason, frozen=True, kw_only=True, tag="NothingBigEnough"):
    """No remaining type has room; `best` is the most that one has of the resource."""

    resource: str
    needed: int
    best: int
    instance_type: str
    daemonsets: int = 0
    """How much of the resource DaemonSets use on that type."""
    other_shortages: tuple[ResourceShortage, ...] = ()
    """Other resources of which there is too little: of any type, or of that type if `together`."""
    together: bool = False
    """Whether each resource alone is there on some type, but no type has all of them."""
    reserved: bool = False
    """Whether only types of capacity reservations count, as no other capacity is allowed."""


class DaemonSetsExceedCapacity(Reason, frozen=True, kw_only=True, tag="Overdrawn"):
    """No remaining type has room even for its DaemonSets, so that no pod fits, however small."""

    resource: str
    needed: int
    """By DaemonSets, on the type that comes nearest."""
    best: int
    """Allocatable there."""
    instance_type: str
    daemonsets: "tuple[DaemonSetRequest, ...]" = ()
    """Those that would run on that type and request the resource, the largest request first."""


class DaemonSetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a DaemonSet requests of one resource on every node that it runs on."""

    name: str
    """Namespace and name."""
    amount: int


class HostPortsTaken(Reason, frozen=True, kw_only=True, tag="PortsTaken"):
    """On every type with the labels a DaemonSet uses one of the pod's host ports."""

    ports: tuple[int, ...]
    """Those of the pod."""
    daemonsets: tuple[str, ...] = ()
    """That use them."""


class TooManyVolumes(Reason, frozen=True, kw_only=True, tag="TooManyVolumesForTypes"):
    """The pod has more volumes of a CSI driver than any of the types can attach."""

    driver: str
    needed: int
    best: int
    instance_type: str


class OfferingsUnavailable(Reason, frozen=True, kw_only=True, tag="NothingOffered"):
    """Types match, but all of their offerings that pod and NodePool allow are unavailable."""

    instance_type: str
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    """Zones and capacity types of these offerings, except reserved ones."""
    reservations: tuple[str, ...] = ()
    """Reservations that match, but have no available capacity."""
    users: tuple[str, ...] = ()
    """Claims of the same plan that use their capacity."""
    volume: PodVolume | None = None
    """The volume that keeps the pod in these zones, where one does."""


class MinValuesUnsatisfied(Reason, frozen=True, kw_only=True, tag="TooFewValues"):
    """The remaining types have fewer values than minValues of the NodePool requires."""

    key: str
    needed: int
    found: int
    values: tuple[str, ...] = ()
    """Those that are left, in order."""
    steps: "tuple[RemainingValues, ...]" = ()
    """What the NodePool allows, and every check after which fewer were left."""


class FunnelStep(StrEnum):
    """What leaves fewer instance types to a pod, in the order of the checks."""

    NODE_POOL = "nodePool"
    POD_REQUIREMENTS = "podRequirements"
    RESOURCES = "resources"
    OFFERINGS = "offerings"
    LIMITS = "limits"


class RemainingValues(msgspec.Struct, frozen=True, kw_only=True):
    """How many values of a label are left after a filter."""

    after: FunnelStep
    count: int


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that one more node would exceed."""

    resource: str
    limit: int
    in_use: int
    needed: int
    of_cluster: bool = False


class LimitExceeded(Reason, frozen=True, kw_only=True, tag="LimitReached"):
    resource: str
    limit: int
    in_use: int
    needed: int
    """What the smallest remaining type would add."""
    instance_type: str
    of_cluster: bool = False
    """Whether it is a limit of the whole cluster; else it is the NodePool's."""
    others: tuple[LimitUsage, ...] = ()
    """Further limits that the same node would exceed."""


class NewNodeViolatesTopology(Reason, frozen=True, kw_only=True, tag="NewNodeWontDo"):
    """The NodePool could launch a node, but pod affinity or anti-affinity excludes a new one."""


PoolReason: TypeAlias = (
    PoolUnusable
    | NoInstanceTypes
    | LaunchesTakenByOtherPods
    | NewNodeViolatesTopology
    | UntoleratedTaint
    | RestrictedLabel
    | LabelConflict
    | NoMatchingInstanceType
    | NoMatchingOffering
    | InstanceTypesTooSmall
    | DaemonSetsExceedCapacity
    | HostPortsTaken
    | TooManyVolumes
    | OfferingsUnavailable
    | MinValuesUnsatisfied
    | LimitExceeded
)
TopologyReason: TypeAlias = (
    TopologySpreadUnsatisfied | PodAffinityUnsatisfied | PodAntiAffinityUnsatisfied
)
PodReason: TypeAlias = (
    UnsupportedFeatures
    | ContradictoryRequirements
    | VolumeUnusable
    | VolumeTopologyConflict
    | TopologyUnsatisfied
    | NoNodePools
    | NoCompatiblePool
)


IDENTIFYING_FIELDS: Final = (
    "key",
    "wanted",
    "resource",
    "taint",
    "pods",
    "ports",
    "driver",
    "claim",
    "why",
    "features",
    "labels",
    "capacity_types",
    "reservations",
)


def cause_of(reason: PodReason | PoolReason | TopologyReason) -> Hashable:
    """What the reason is about, without amounts: a limit of 8 cpu and one of 4 are one cause."""
    if isinstance(reason, TopologyUnsatisfied):
        return type(reason), tuple(map(cause_of, reason.by))
    return type(reason), tuple(getattr(reason, name, None) for name in IDENTIFYING_FIELDS)


class Funnel(msgspec.Struct, frozen=True, kw_only=True):
    """How many instance types remain after each step."""

    types: int
    requirements: int
    resources: int
    offerings: int
    min_values: int
    limits: int


class NearestMiss(msgspec.Struct, frozen=True, kw_only=True):
    """The closest miss: what was needed, how much of it, and the best there is."""

    what: str
    """A resource, a label, `minValues` of a label, or a limit."""
    needed: int | str
    best: int | str
    instance_type: str | None = None


class PoolVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why one NodePool launches no node for the pod."""

    pool: str
    reason: PoolReason
    funnel: Funnel
    nearest_miss: NearestMiss | None = None
    is_only_taint: bool = False
    """Whether it would launch a node for the pod if that tolerated its taints."""


class InsufficientResource(Reason, frozen=True, kw_only=True, tag="TooLittle"):
    """Nodes lack a resource; `short` is what the one that comes nearest lacks."""

    resource: str
    short: int
    node: str


class NodeAffinityMismatch(Reason, frozen=True, kw_only=True, tag="OtherLabels"):
    """Nodes that do not match the node affinity; `key` is the first label that differs."""

    key: str


class NodeHostPortsTaken(Reason, frozen=True, kw_only=True, tag="PortTaken"):
    ports: tuple[int, ...]


class VolumeLimitExceeded(Reason, frozen=True, kw_only=True, tag="TooManyVolumes"):
    driver: str


class NodeViolatesTopology(Reason, frozen=True, kw_only=True, tag="OutOfBounds"):
    """Nodes that a topology constraint (spread, affinity, anti-affinity) excludes."""


class NodeTerminating(Reason, frozen=True, kw_only=True, tag="Leaving"):
    """Nodes that are being deleted."""


class PreferencesNotRelaxed(Reason, frozen=True, kw_only=True, tag="NotGivenUp"):
    """Nodes that fit only with preferences relaxed, which another node meets."""

    node: str
    """One of them."""
    preferences: tuple[RelaxedPreference, ...]


class LaterAlternative(Reason, frozen=True, kw_only=True, tag="Later"):
    """Nodes that fit only by a later node affinity term than the one that is used."""

    node: str
    """One of them."""


NodeReason: TypeAlias = (
    UntoleratedTaint
    | NodeAffinityMismatch
    | InsufficientResource
    | NodeHostPortsTaken
    | VolumeLimitExceeded
    | NodeViolatesTopology
    | NodeTerminating
    | PreferencesNotRelaxed
    | LaterAlternative
)
SUITABLE_NODE_REASONS: Final = PreferencesNotRelaxed, LaterAlternative
"""Reasons for nodes on which the pod could run."""


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes the pod does not fit for one reason; for each node the first counts."""

    nodes: int
    reason: NodeReason


class CurrentPlacement(StrEnum):
    """Where a pod is instead of in the reservation."""

    NONE = "none"
    """It is unschedulable."""
    EXISTING = "existing"
    """On an existing node, or on a NodeClaim in flight."""
    NEW = "new"
    """On a new node that uses no reserved instance."""


class ReservationTooSmall(Reason, frozen=True, kw_only=True, tag="TooSmall"):
    """An instance of the reservation lacks room, after its DaemonSets."""

    resource: str
    needed: int
    """By the pod with the smallest request, where the reason is that of several."""
    room: int
    instance_type: str
    daemonsets: int = 0


class PoolExcludesReservation(Reason, frozen=True, kw_only=True, tag="PoolForbids"):
    """The node class selects the reservation, but the NodePool's requirements exclude it."""

    key: str
    wanted: ValueSet
    offered: ValueSet | None


class ReservationHostPortsTaken(Reason, frozen=True, kw_only=True, tag="PortsTaken"):
    """DaemonSets use the host ports on every such instance."""

    ports: tuple[int, ...]


class ReservationUnavailable(Reason, frozen=True, kw_only=True, tag="OutOfStock"):
    """The reservation has capacity, but the offering is marked unavailable."""

    instance_type: str


class ExistingNodeUsed(Reason, frozen=True, kw_only=True, tag="NodesFirst"):
    """An existing node, or a NodeClaim in flight, had room, so that none was launched."""


class HigherWeightPoolUsed(Reason, frozen=True, kw_only=True, tag="HeavierPool"):
    """A NodePool of higher weight was tried first, and launched the node."""

    pool: str
    weight: int
    own: int
    """The weight of the NodePool that can use the reservation."""


class PreferredElsewhere(Reason, frozen=True, kw_only=True, tag="Prefers"):
    """A preferred node affinity term, which could be met, is for other nodes."""

    preference: PreferredNodeAffinity


class TopologyElsewhere(Reason, frozen=True, kw_only=True, tag="Tied"):
    """A spread, affinity or anti-affinity by these labels requires another domain."""

    keys: tuple[str, ...]
    theirs: bool = False
    """Whether the anti-affinity is that of other pods."""


class BlockedByOtherPods(Reason, frozen=True, kw_only=True, tag="Crowded"):
    """Other pods were in the way when it was placed, and no longer are; which is not known."""


class OtherPoolUsed(Reason, frozen=True, kw_only=True, tag="Elsewhere"):
    """It went to a new node of this NodePool, for no reason known here."""

    pool: str


ReservationReason: TypeAlias = (
    ReservationTooSmall
    | PoolExcludesReservation
    | ReservationHostPortsTaken
    | ReservationUnavailable
    | ExistingNodeUsed
    | HigherWeightPoolUsed
    | PreferredElsewhere
    | TopologyElsewhere
    | BlockedByOtherPods
    | OtherPoolUsed
)
ReservationObstacle: TypeAlias = ReservationReason | PoolReason | PodReason
"""Includes the reasons of NodePools and pods, where one of these applies."""


class PodsOffReservation(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that one NodePool did not schedule into the reservation, for one reason."""

    pool: str
    placement: CurrentPlacement
    reason: ReservationObstacle
    pods: tuple[str, ...]
