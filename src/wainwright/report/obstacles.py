"""What kept pods off a reservation, as the rest of a sentence about them."""

from typing import TypeAlias

from wainwright.model.obstacle import (
    Crowded,
    Elsewhere,
    HeavierPool,
    NodesFirst,
    Obstacle,
    OutOfStock,
    PoolForbids,
    PortsTaken,
    Prefers,
    Tied,
    TooSmall,
)
from wainwright.model.reason import PodReason, PoolReason
from wainwright.model.resources import quantity_text
from wainwright.report import words

Choice: TypeAlias = NodesFirst | HeavierPool | Prefers | Tied | Crowded | Elsewhere


def obstacle(reason: Obstacle, pods: int = 1) -> str:
    """Why so many pods are not on machines of the reservation."""
    if isinstance(reason, PodReason):
        return words.pod(reason)
    if isinstance(reason, PoolReason):
        return words.pool(reason)
    match reason:
        case TooSmall():
            return _too_small(reason, pods)
        case PoolForbids(key=key, wanted=wanted, offered=offered):
            there = "machines there lack it" if offered is None else f"there it is {offered}"
            return f"the pool asks for {key} {wanted}, and {there}"
        case PortsTaken(ports=ports):
            return f"a daemonset takes port {', '.join(map(str, ports))} there"
        case OutOfStock(instance_type=kind):
            return f"{kind} cannot be bought there now"
        case _:
            return _choice(reason, pods)


def _choice(reason: Choice, pods: int) -> str:
    they, them = ("it", "it") if pods == 1 else ("they", "them")
    match reason:
        case NodesFirst():
            return "there was room on nodes of the input, which come before new ones"
        case HeavierPool(pool=pool, weight=weight, own=own):
            return f"{pool} was asked first, by its weight of {weight} over {own}"
        case Prefers(preference=preference):
            return f"{they} would rather be elsewhere: {words.preference(preference)}"
        case Tied(keys=keys, theirs=True):
            return f"pods that shun {them} are there, by {', '.join(keys)}"
        case Tied(keys=keys):
            return f"spread or affinity by {', '.join(keys)} puts {them} elsewhere"
        case Crowded():
            return f"other pods or spreads keep {them} off"
        case Elsewhere(pool=pool):
            return f"{they} went to {'a new node' if pods == 1 else 'new nodes'} of {pool}"


def _too_small(reason: TooSmall, pods: int) -> str:
    needed, room, taken = (
        quantity_text(reason.resource, amount)
        for amount in (reason.needed, reason.room, reason.daemonsets)
    )
    need = "needs" if pods == 1 else "need at least"
    beside = f" after {taken} for daemonsets" if reason.daemonsets else ""
    needs = f"{need} {needed} {reason.resource}"
    return f"{needs}, and {reason.instance_type} has room for {room}{beside}"
