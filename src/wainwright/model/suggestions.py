"""Suggested fixes that would make pods schedulable, each verified before it is shown."""

from typing import TypeAlias

import msgspec

from wainwright.model.taints import Toleration


class Fix(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all fixes; `kind` tells them apart on the wire."""


class LowerRequest(Fix, frozen=True, kw_only=True, tag="LowerRequest"):
    """Lower the request for a resource."""

    resource: str
    now: int | None
    """None where the pods of the group request different amounts: the larger ones are lowered."""
    to: int
    pool: str


class AddToleration(Fix, frozen=True, kw_only=True, tag="Tolerate"):
    """Add a toleration of the NodePool's taint to the pod."""

    toleration: Toleration
    pool: str


class DropPodRequirement(Fix, frozen=True, kw_only=True, tag="DropLabel"):
    """Drop the requirement on this label; `meant` is the label that was probably intended."""

    key: str
    pool: str
    meant: str | None = None


class ChangePodRequirement(Fix, frozen=True, kw_only=True, tag="SelectValue"):
    """Select another value of the label, which was probably intended."""

    key: str
    now: str
    to: str
    pool: str


class DropPoolRequirement(Fix, frozen=True, kw_only=True, tag="DropRequirement"):
    """Drop the requirement on this label from the NodePool."""

    key: str
    pool: str


class ChangePoolRequirement(Fix, frozen=True, kw_only=True, tag="RequireValue"):
    """Require another value of the label in the NodePool, which was probably intended."""

    key: str
    now: str
    to: str
    pool: str


class LowerMinValues(Fix, frozen=True, kw_only=True, tag="LowerMinValues"):
    """Lower minValues of the NodePool's requirement."""

    key: str
    now: int
    to: int
    pool: str


class RaiseLimit(Fix, frozen=True, kw_only=True, tag="RaiseLimit"):
    """Raise a limit of the NodePool."""

    resource: str
    now: int
    to: int
    pool: str


PodFix: TypeAlias = LowerRequest | AddToleration | DropPodRequirement | ChangePodRequirement
PoolFix: TypeAlias = DropPoolRequirement | ChangePoolRequirement | LowerMinValues | RaiseLimit
AnyFix: TypeAlias = PodFix | PoolFix


class VerifiedSuggestion(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that together make pods of one group schedulable, and how that was verified."""

    changes: tuple[AnyFix, ...]
    serves: int
    """How many of the pods are scheduled when the plan is made again with the changes."""
    of: int
    """How many pods the group has."""
    alone: bool = False
    """Whether it was verified for one pod only, on the state after the plan."""
