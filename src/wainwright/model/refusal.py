"""Why nodes of the cluster do not take a pod."""

from typing import Final, TypeAlias

import msgspec

from wainwright.model.preference import GivenUp
from wainwright.model.reason import Reason, Untolerated


class TooLittle(Reason, frozen=True, kw_only=True, tag="TooLittle"):
    """Nodes lack a resource; `short` is what the one that comes nearest lacks."""

    resource: str
    short: int
    node: str


class OtherLabels(Reason, frozen=True, kw_only=True, tag="OtherLabels"):
    """Nodes that the pod does not select; `key` is the first label that rules them out."""

    key: str


class PortTaken(Reason, frozen=True, kw_only=True, tag="PortTaken"):
    ports: tuple[int, ...]


class TooManyVolumes(Reason, frozen=True, kw_only=True, tag="TooManyVolumes"):
    driver: str


class OutOfBounds(Reason, frozen=True, kw_only=True, tag="OutOfBounds"):
    """Nodes where other pods, or where they are, leave it no place."""


class Leaving(Reason, frozen=True, kw_only=True, tag="Leaving"):
    """Nodes that are on their way out."""


class NotGivenUp(Reason, frozen=True, kw_only=True, tag="NotGivenUp"):
    """Nodes that would have taken it, had it given up what it would like and gets elsewhere."""

    node: str
    """One of them."""
    given_up: tuple[GivenUp, ...]


class Later(Reason, frozen=True, kw_only=True, tag="Later"):
    """Nodes that would have taken it by an alternative that comes after the one that counts."""

    node: str
    """One of them."""


NodeReason: TypeAlias = (
    Untolerated
    | OtherLabels
    | TooLittle
    | PortTaken
    | TooManyVolumes
    | OutOfBounds
    | Leaving
    | NotGivenUp
    | Later
)
WOULD_DO: Final = NotGivenUp, Later
"""Reasons that have nothing to do with the nodes."""


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that do not take the pod, for the first reason that each has."""

    nodes: int
    reason: NodeReason
