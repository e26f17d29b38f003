"""Fixes that would give a pod its place, each tried before it is shown.

It is tried for one pod. Of several that fail alike it may not help all: a limit that was raised for
one more node is reached again with the next.
"""

from typing import TypeAlias

import msgspec

from wainwright.model.taints import Toleration


class Fix(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all fixes; `kind` tells them apart on the wire."""


class LowerRequest(Fix, frozen=True, kw_only=True, tag="LowerRequest"):
    """Ask for less of a resource."""

    resource: str
    now: int
    to: int
    pool: str


class Tolerate(Fix, frozen=True, kw_only=True, tag="Tolerate"):
    """Let the pod tolerate the pool's taint."""

    toleration: Toleration
    pool: str


class DropLabel(Fix, frozen=True, kw_only=True, tag="DropLabel"):
    """Ask nothing of this label; `meant` is the label that was probably meant instead."""

    key: str
    pool: str
    meant: str | None = None


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


Suggestion: TypeAlias = LowerRequest | Tolerate | DropLabel | LowerMinValues | RaiseLimit
