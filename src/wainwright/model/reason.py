"""Why a pod has no place. Data, so that it can be counted, compared and shown; text comes late."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from wainwright.model.pod import Feature
from wainwright.model.taints import Taint
from wainwright.model.values import ValueSet


class Reason(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all reasons; `kind` tells them apart on the wire."""


class Asker(StrEnum):
    """Who asks of a label what cannot be had."""

    POD = "pod"
    POOL = "pool"
    BOTH = "both"
    """Each could be served, but not the two together."""


class Unsupported(Reason, frozen=True, kw_only=True, tag="Unsupported"):
    """The pod uses what the planner cannot honour yet."""

    features: tuple[Feature, ...]


class Contradictory(Reason, frozen=True, kw_only=True, tag="Contradictory"):
    """The pod asks of these labels what no node can have."""

    keys: tuple[str, ...]


class VolumeUnusable(Reason, frozen=True, kw_only=True, tag="VolumeUnusable"):
    """A volume of the pod cannot be had, whatever node it goes to."""

    claim: str
    why: str


class VolumesElsewhere(Reason, frozen=True, kw_only=True, tag="VolumesElsewhere"):
    """Where its volumes can be reached the pod does not want to be."""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the pods in question are in one place."""

    place: str
    pods: int


class Uneven(Reason, frozen=True, kw_only=True, tag="Uneven"):
    """A spread leaves only these places, or none."""

    key: str
    max_skew: int
    counts: tuple[Count, ...]
    """Of every place that counts, in the order of names."""
    left: tuple[str, ...]
    min_domains: int | None = None
    by_default: bool = False
    """Whether the scheduler's configuration asks for it, not the pod."""


class NotNear(Reason, frozen=True, kw_only=True, tag="NotNear"):
    """The pods that it has to be near are only in these places, or nowhere."""

    key: str
    pods: str
    """A selector, in words."""
    left: tuple[str, ...]


class TooNear(Reason, frozen=True, kw_only=True, tag="TooNear"):
    """Pods that it must keep away from, or that keep away from it, have taken these places."""

    key: str
    pods: str
    taken: tuple[str, ...]
    theirs: bool = False
    """Whether it is they who do not want it near."""


class Kept(Reason, frozen=True, kw_only=True, tag="Kept"):
    """Pools could launch a node for it, but not where other pods leave it a place."""

    by: tuple["Uneven | NotNear | TooNear", ...]


class NoPools(Reason, frozen=True, kw_only=True, tag="NoPools"):
    """There is nothing that could launch a node."""


class NoPoolFits(Reason, frozen=True, kw_only=True, tag="NoPoolFits"):
    """Every pool has a reason of its own."""


class PoolUnusable(Reason, frozen=True, kw_only=True, tag="PoolUnusable"):
    why: str


class NothingToBuy(Reason, frozen=True, kw_only=True, tag="NothingToBuy"):
    """The pool has no catalogue."""


class Promised(Reason, frozen=True, kw_only=True, tag="Promised"):
    """What the pool could launch is meant for other pods of the same plan."""


class Untolerated(Reason, frozen=True, kw_only=True, tag="Untolerated"):
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


class NoTypeMatches(Reason, frozen=True, kw_only=True, tag="NoTypeMatches"):
    """No instance type has the labels; `key` is the one that ruled out the last of them."""

    key: str
    wanted: ValueSet
    asker: Asker = Asker.POD
    meant: str | None = None
    """The value that was probably meant."""


class NotOnOffer(Reason, frozen=True, kw_only=True, tag="NotOnOffer"):
    """Types would do, but nobody sells them where or how it is asked, sold out or not."""

    key: str
    wanted: ValueSet
    offered: ValueSet
    """The values with which they are sold."""
    instance_type: str
    """The cheapest of them."""
    asker: Asker = Asker.POD
    meant: str | None = None
    """The value that was probably meant."""


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of which a type offers too little."""

    resource: str
    needed: int
    best: int


class NothingBigEnough(Reason, frozen=True, kw_only=True, tag="NothingBigEnough"):
    """No type left has room; `best` is what the type that comes nearest offers."""

    resource: str
    needed: int
    best: int
    instance_type: str
    daemonsets: int = 0
    """How much of the resource daemonsets take on that type."""
    beside: tuple[Shortage, ...] = ()
    """What else that type has too little of."""


class Overdrawn(Reason, frozen=True, kw_only=True, tag="Overdrawn"):
    """No type left holds even what daemonsets want there, so that no pod fits, however small."""

    resource: str
    needed: int
    """By daemonsets, on the type that comes nearest."""
    best: int
    instance_type: str


class PortsTaken(Reason, frozen=True, kw_only=True, tag="PortsTaken"):
    """On every type with the labels a daemonset has one of the pod's ports."""

    ports: tuple[int, ...]
    """Those of the pod."""


class NothingOffered(Reason, frozen=True, kw_only=True, tag="NothingOffered"):
    """Types would do, but those sold where pod and pool allow it are all out of stock."""

    instance_type: str
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    """Where and how it would be sold, besides by reservation."""
    reservations: tuple[str, ...] = ()
    """Reservations that would serve, but are used up."""
    users: tuple[str, ...] = ()
    """Claims of the same plan that have their slots."""


class TooFewValues(Reason, frozen=True, kw_only=True, tag="TooFewValues"):
    """The types left are not as diverse as the pool's minValues ask for."""

    key: str
    needed: int
    found: int


class LimitReached(Reason, frozen=True, kw_only=True, tag="LimitReached"):
    resource: str
    limit: int
    in_use: int
    needed: int
    """What the smallest type left would add."""
    instance_type: str


class NewNodeWontDo(Reason, frozen=True, kw_only=True, tag="NewNodeWontDo"):
    """It could launch one, but the pod has to be where others are, or may not be near them."""


PoolReason: TypeAlias = (
    PoolUnusable
    | NothingToBuy
    | Promised
    | NewNodeWontDo
    | Untolerated
    | RestrictedLabel
    | LabelConflict
    | NoTypeMatches
    | NotOnOffer
    | NothingBigEnough
    | Overdrawn
    | PortsTaken
    | NothingOffered
    | TooFewValues
    | LimitReached
)
Keeping: TypeAlias = Uneven | NotNear | TooNear
PodReason: TypeAlias = (
    Unsupported | Contradictory | VolumeUnusable | VolumesElsewhere | Kept | NoPools | NoPoolFits
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
