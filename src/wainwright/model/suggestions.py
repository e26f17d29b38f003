"""Suggested fixes that would make pods schedulable, each verified before it is shown."""

from typing import TypeAlias

import msgspec

from wainwright.model.taints import Toleration


class Fix(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all fixes; `kind` tells them apart on the wire."""


class LowerRequest(Fix, frozen=True, kw_only=True, tag="LowerRequest"):
    """Ask for less of a resource."""

    resource: str
    now: int | None
    """None where those that fail alike ask for different amounts: who asks for more is meant."""
    to: int
    pool: str


class AddToleration(Fix, frozen=True, kw_only=True, tag="Tolerate"):
    """Let the pod tolerate the pool's taint."""

    toleration: Toleration
    pool: str


class DropPodRequirement(Fix, frozen=True, kw_only=True, tag="DropLabel"):
    """Ask nothing of this label; `meant` is the label that was probably meant instead."""

    key: str
    pool: str
    meant: str | None = None


class ChangePodRequirement(Fix, frozen=True, kw_only=True, tag="SelectValue"):
    """Select another value of the label, which was probably meant."""

    key: str
    now: str
    to: str
    pool: str


class DropPoolRequirement(Fix, frozen=True, kw_only=True, tag="DropRequirement"):
    """Ask nothing of this label in the pool."""

    key: str
    pool: str


class ChangePoolRequirement(Fix, frozen=True, kw_only=True, tag="RequireValue"):
    """Require another value of the label in the pool, which was probably meant."""

    key: str
    now: str
    to: str
    pool: str


class LowerMinValues(Fix, frozen=True, kw_only=True, tag="LowerMinValues"):
    """Be content with fewer values in the pool's requirement."""

    key: str
    now: int
    to: int
    pool: str


class RaiseLimit(Fix, frozen=True, kw_only=True, tag="RaiseLimit"):
    """Allow the pool to hold more."""

    resource: str
    now: int
    to: int
    pool: str


PodFix: TypeAlias = LowerRequest | AddToleration | DropPodRequirement | ChangePodRequirement
PoolFix: TypeAlias = DropPoolRequirement | ChangePoolRequirement | LowerMinValues | RaiseLimit
AnyFix: TypeAlias = PodFix | PoolFix


class VerifiedSuggestion(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that together serve pods that fail alike, and how that is known."""

    changes: tuple[AnyFix, ...]
    serves: int
    """How many of them have a place once everything is planned anew with the changes."""
    of: int
    """How many fail alike."""
    alone: bool = False
    """Whether it was tried for one of them only, with all else as the plan has left it."""
