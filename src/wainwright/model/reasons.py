"""Why a pod has no place, why a node or a reservation is not used, which preferences were relaxed.

Reasons are data, so that they can be counted, compared and shown; text is made of them late.
`kind` tells them apart in JSON, and its values do not change when a class is renamed.
"""

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from wainwright.model.pod import AffinityTerm, TopologySpread, UnsupportedFeature
from wainwright.model.requirements import ValueSet
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
    """It goes where a taint asks it not to."""


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
    """Who asks of a label what cannot be had."""

    POD = "pod"
    POOL = "pool"
    BOTH = "both"
    """Each could be served, but not the two together."""


class UnsupportedFeatures(Reason, frozen=True, kw_only=True, tag="Unsupported"):
    """The pod uses what the planner cannot honour yet."""

    features: tuple[UnsupportedFeature, ...]


class ContradictoryRequirements(Reason, frozen=True, kw_only=True, tag="Contradictory"):
    """The pod asks of these labels what no node can have."""

    keys: tuple[str, ...]


class VolumeUnusable(Reason, frozen=True, kw_only=True, tag="VolumeUnusable"):
    """A volume of the pod cannot be had, whatever node it goes to."""

    claim: str
    why: str


class VolumeTopologyConflict(Reason, frozen=True, kw_only=True, tag="VolumesElsewhere"):
    """Where its volumes can be reached the pod does not want to be."""


class DomainCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the pods in question are in one place."""

    place: str
    pods: int


class TopologySpreadUnsatisfied(Reason, frozen=True, kw_only=True, tag="Uneven"):
    """A spread leaves only these places, or none."""

    key: str
    max_skew: int
    counts: tuple[DomainCount, ...]
    """Of every place that counts, in the order of names."""
    left: tuple[str, ...]
    min_domains: int | None = None
    by_default: bool = False
    """Whether the scheduler's configuration asks for it, not the pod."""


class PodAffinityUnsatisfied(Reason, frozen=True, kw_only=True, tag="NotNear"):
    """The pods that it has to be near are only in these places, or nowhere."""

    key: str
    pods: str
    """A selector, in words."""
    left: tuple[str, ...]


class PodAntiAffinityUnsatisfied(Reason, frozen=True, kw_only=True, tag="TooNear"):
    """Pods that it must keep away from, or that keep away from it, have taken these places."""

    key: str
    pods: str
    taken: tuple[str, ...]
    theirs: bool = False
    """Whether it is they who do not want it near."""


class TopologyUnsatisfied(Reason, frozen=True, kw_only=True, tag="Kept"):
    """Pools could launch a node for it, but not where other pods leave it a place."""

    by: tuple[
        "TopologySpreadUnsatisfied | PodAffinityUnsatisfied | PodAntiAffinityUnsatisfied", ...
    ]


class NoNodePools(Reason, frozen=True, kw_only=True, tag="NoPools"):
    """There is nothing that could launch a node."""


class NoCompatiblePool(Reason, frozen=True, kw_only=True, tag="NoPoolFits"):
    """Every pool has a reason of its own."""


class PoolUnusable(Reason, frozen=True, kw_only=True, tag="PoolUnusable"):
    why: str


class NoInstanceTypes(Reason, frozen=True, kw_only=True, tag="NothingToBuy"):
    """The pool has no catalogue."""


class LaunchesTakenByOtherPods(Reason, frozen=True, kw_only=True, tag="Promised"):
    """What the pool could launch is meant for other pods of the same plan."""


class UntoleratedTaint(Reason, frozen=True, kw_only=True, tag="Untolerated"):
    taint: Taint


class RestrictedLabel(Reason, frozen=True, kw_only=True, tag="RestrictedLabel"):
    """The pod selects a label that no pool may promise."""

    key: str


class LabelConflict(Reason, frozen=True, kw_only=True, tag="LabelConflict"):
    key: str
    wanted: ValueSet
    offered: ValueSet | None
    """None where the pool does not define the label at all."""
    meant: str | None = None
    """The label that was probably meant."""


class NoMatchingInstanceType(Reason, frozen=True, kw_only=True, tag="NoTypeMatches"):
    """No instance type has the labels; `key` is the one that ruled out the last of them."""

    key: str
    wanted: ValueSet
    asker: RequiredBy = RequiredBy.POD
    meant: str | None = None
    """The value that was probably meant."""


class NoMatchingOffering(Reason, frozen=True, kw_only=True, tag="NotOnOffer"):
    """Types would do, but nobody sells them where or how it is asked, sold out or not."""

    key: str
    wanted: ValueSet
    offered: ValueSet
    """The values with which they are sold."""
    instance_type: str
    """The cheapest of them."""
    asker: RequiredBy = RequiredBy.POD
    meant: str | None = None
    """The value that was probably meant."""


class ResourceShortage(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of which a type offers too little."""

    resource: str
    needed: int
    best: int


class InstanceTypesTooSmall(Reason, frozen=True, kw_only=True, tag="NothingBigEnough"):
    """No type left has room; `best` is what the type that comes nearest offers."""

    resource: str
    needed: int
    best: int
    instance_type: str
    daemonsets: int = 0
    """How much of the resource daemonsets take on that type."""
    beside: tuple[ResourceShortage, ...] = ()
    """What else that type has too little of."""


class DaemonSetsExceedCapacity(Reason, frozen=True, kw_only=True, tag="Overdrawn"):
    """No type left holds even what daemonsets want there, so that no pod fits, however small."""

    resource: str
    needed: int
    """By daemonsets, on the type that comes nearest."""
    best: int
    instance_type: str


class HostPortsTaken(Reason, frozen=True, kw_only=True, tag="PortsTaken"):
    """On every type with the labels a daemonset has one of the pod's ports."""

    ports: tuple[int, ...]
    """Those of the pod."""


class OfferingsUnavailable(Reason, frozen=True, kw_only=True, tag="NothingOffered"):
    """Types would do, but those sold where pod and pool allow it are all out of stock."""

    instance_type: str
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    """Where and how it would be sold, besides by reservation."""
    reservations: tuple[str, ...] = ()
    """Reservations that would serve, but are used up."""
    users: tuple[str, ...] = ()
    """Claims of the same plan that have their reserved instances."""


class MinValuesUnsatisfied(Reason, frozen=True, kw_only=True, tag="TooFewValues"):
    """The types left are not as diverse as the pool's minValues ask for."""

    key: str
    needed: int
    found: int


class LimitExceeded(Reason, frozen=True, kw_only=True, tag="LimitReached"):
    resource: str
    limit: int
    in_use: int
    needed: int
    """What the smallest type left would add."""
    instance_type: str


class NewNodeViolatesTopology(Reason, frozen=True, kw_only=True, tag="NewNodeWontDo"):
    """It could launch one, but the pod has to be where others are, or may not be near them."""


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


class Funnel(msgspec.Struct, frozen=True, kw_only=True):
    """How many instance types are left after each step."""

    types: int
    requirements: int
    resources: int
    offerings: int
    min_values: int
    limits: int


class NearestMiss(msgspec.Struct, frozen=True, kw_only=True):
    """What came closest: how much was needed of what, and the best there is."""

    what: str
    """A resource, a label, `minValues` of a label, or a limit."""
    needed: int | str
    best: int | str
    instance_type: str | None = None


class PoolVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why one pool launches no node for the pod."""

    pool: str
    reason: PoolReason
    funnel: Funnel
    nearest_miss: NearestMiss | None = None


class InsufficientResource(Reason, frozen=True, kw_only=True, tag="TooLittle"):
    """Nodes lack a resource; `short` is what the one that comes nearest lacks."""

    resource: str
    short: int
    node: str


class NodeAffinityMismatch(Reason, frozen=True, kw_only=True, tag="OtherLabels"):
    """Nodes that the pod does not select; `key` is the first label that rules them out."""

    key: str


class NodeHostPortsTaken(Reason, frozen=True, kw_only=True, tag="PortTaken"):
    ports: tuple[int, ...]


class VolumeLimitExceeded(Reason, frozen=True, kw_only=True, tag="TooManyVolumes"):
    driver: str


class NodeViolatesTopology(Reason, frozen=True, kw_only=True, tag="OutOfBounds"):
    """Nodes where other pods, or where they are, leave it no place."""


class NodeTerminating(Reason, frozen=True, kw_only=True, tag="Leaving"):
    """Nodes that are on their way out."""


class PreferencesNotRelaxed(Reason, frozen=True, kw_only=True, tag="NotGivenUp"):
    """Nodes that would have taken it, had it given up what it would like and gets elsewhere."""

    node: str
    """One of them."""
    given_up: tuple[RelaxedPreference, ...]


class LaterAlternative(Reason, frozen=True, kw_only=True, tag="Later"):
    """Nodes that would have taken it by an alternative that comes after the one that counts."""

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
"""Reasons that have nothing to do with the nodes."""


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that do not take the pod, for the first reason that each has."""

    nodes: int
    reason: NodeReason


class CurrentPlacement(StrEnum):
    """Where a pod is instead."""

    NONE = "none"
    """Nowhere: it has no place at all."""
    EXISTING = "existing"
    """On a node that stands, or on a claim under way."""
    NEW = "new"
    """On a new node that takes no reserved instance."""


class ReservationTooSmall(Reason, frozen=True, kw_only=True, tag="TooSmall"):
    """An instance of the reservation lacks room, be it because daemonsets take some of it."""

    resource: str
    needed: int
    """By the pod that asks for the least of it, where this is told of several."""
    room: int
    instance_type: str
    daemonsets: int = 0


class PoolExcludesReservation(Reason, frozen=True, kw_only=True, tag="PoolForbids"):
    """The pool's class selects the reservation, but its requirements rule it out for everybody."""

    key: str
    wanted: ValueSet
    offered: ValueSet | None


class ReservationHostPortsTaken(Reason, frozen=True, kw_only=True, tag="PortsTaken"):
    """Daemonsets have the ports on every such instance."""

    ports: tuple[int, ...]


class ReservationUnavailable(Reason, frozen=True, kw_only=True, tag="OutOfStock"):
    """The reservation has capacity, but the input says that the type cannot be had there."""

    instance_type: str


class ExistingNodeUsed(Reason, frozen=True, kw_only=True, tag="NodesFirst"):
    """There was room on a node that stands or is under way, and nothing was to be bought."""


class HigherWeightPoolUsed(Reason, frozen=True, kw_only=True, tag="HeavierPool"):
    """Another pool was asked first, and launched the node."""

    pool: str
    weight: int
    own: int
    """The weight of the pool that has the reserved instance."""


class PreferredElsewhere(Reason, frozen=True, kw_only=True, tag="Prefers"):
    """The pod would rather be elsewhere, and there it could be."""

    preference: PreferredNodeAffinity


class TopologyElsewhere(Reason, frozen=True, kw_only=True, tag="Tied"):
    """A spread, affinity or anti-affinity by these labels puts the pod elsewhere."""

    keys: tuple[str, ...]
    theirs: bool = False
    """Whether it is others who do not want it near."""


class BlockedByOtherPods(Reason, frozen=True, kw_only=True, tag="Crowded"):
    """When it was placed other pods were in the way, and they are no more: by what is not known."""


class OtherPoolUsed(Reason, frozen=True, kw_only=True, tag="Elsewhere"):
    """It went to a new node of this pool, and nothing says why not here."""

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
"""With the reasons of pools and pods as far as these say it."""


class PodsOffReservation(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that one pool did not bring into the reservation, for one reason."""

    pool: str
    place: CurrentPlacement
    reason: ReservationObstacle
    pods: tuple[str, ...]
