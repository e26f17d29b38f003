"""Why a machine never becomes a node: one word for programs, one sentence for people."""

from enum import StrEnum

import msgspec


class Reason(StrEnum):
    DUD = "dud"
    """The machine never comes up, whatever it was told."""
    NOTHING = "nothing"
    """There is no user data."""
    UNREADABLE = "unreadable"
    """It cannot be decoded or parsed."""
    NO_BOOTSTRAP = "no-bootstrap"
    """Nothing in it makes a node join."""
    WRONG_IMAGE = "wrong-image"
    """It is written for another family of images."""
    NO_CLUSTER = "no-cluster"
    """It does not say which cluster to join, or not enough about it."""
    OTHER_CLUSTER = "other-cluster"
    """The cluster it names is not there, or not like that."""
    REFUSED = "refused"
    """The kubelet does not start with such settings."""
    UNREGISTERED = "unregistered"
    """The API server does not take such a node."""
    TOO_SMALL = "too-small"
    """More is reserved than the machine has."""


class NeverJoins(msgspec.Struct, frozen=True):
    reason: Reason
    detail: str


class Unbootable(Exception):
    """Raised while user data is read; whoever boots the machine turns it into a NeverJoins."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
