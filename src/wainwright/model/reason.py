"""Why a pod has no place. Data, so that it can be counted, compared and shown; text comes late."""

from typing import TypeAlias

import msgspec

from wainwright.model.pod import Feature
from wainwright.model.taints import Taint
from wainwright.model.values import ValueSet


class Reason(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all reasons; `kind` tells them apart on the wire."""


class Unsupported(Reason, frozen=True, kw_only=True, tag="Unsupported"):
    """The pod uses what the planner cannot honour yet."""

    features: tuple[Feature, ...]


class Contradictory(Reason, frozen=True, kw_only=True, tag="Contradictory"):
    """The pod asks of these labels what no node can have."""

    keys: tuple[str, ...]


class NoPools(Reason, frozen=True, kw_only=True, tag="NoPools"):
    """There is nothing that could launch a node."""


class NoPoolFits(Reason, frozen=True, kw_only=True, tag="NoPoolFits"):
    """Every pool has a reason of its own."""


class PoolUnusable(Reason, frozen=True, kw_only=True, tag="PoolUnusable"):
    why: str


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
    meant: str | None = None


class NothingBigEnough(Reason, frozen=True, kw_only=True, tag="NothingBigEnough"):
    """No type left has room; `best` is what the type that comes nearest offers."""

    resource: str
    needed: int
    best: int
    instance_type: str
    daemonsets: int = 0
    """How much of the resource daemonsets take on that type."""


class NothingOffered(Reason, frozen=True, kw_only=True, tag="NothingOffered"):
    """Types would do, but none can be bought now where pod and pool allow it."""

    instance_type: str
    reservations: tuple[str, ...] = ()
    """Reservations that would serve, but are used up."""


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


PoolReason: TypeAlias = (
    PoolUnusable
    | Untolerated
    | RestrictedLabel
    | LabelConflict
    | NoTypeMatches
    | NothingBigEnough
    | NothingOffered
    | TooFewValues
    | LimitReached
)
PodReason: TypeAlias = Unsupported | Contradictory | NoPools | NoPoolFits


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
