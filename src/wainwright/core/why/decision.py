"""How a pod came to its new node, as data."""

import msgspec

from wainwright.model.reason import PoolReason
from wainwright.model.refusal import NodeVerdict


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool that comes earlier had to say; None where it would have opened a node."""

    pool: str
    weight: int
    reason: PoolReason | None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod came to its new node."""

    round: int
    """In which it was placed."""
    joined: tuple[str, ...]
    """The pods that the node was planned for already; none where it was opened for this one."""
    under_way: bool
    """Whether that was in an earlier round."""
    for_slot: bool
    """Whether it was opened because a slot of a reservation was free."""
    earlier: tuple[Word, ...]
    """The pools that are asked before the one of the node, in that order."""
    nodes: tuple[NodeVerdict, ...]
    """Why no node of the cluster took it, or would have only later."""
    tied: bool
    """Whether it minds where other pods are."""
    slots: bool
    """Whether there are reservations that it could use, so that it may have waited for one."""
    limits: bool
    """Whether a pool that would take it has limits, which count drafts at their worst at first."""
