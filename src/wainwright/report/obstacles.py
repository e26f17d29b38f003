"""What kept pods off a reservation, as the rest of a sentence about them."""

from wainwright.model.obstacle import (
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
            return _choice(reason)


def _choice(reason: NodesFirst | HeavierPool | Prefers | Tied | Elsewhere) -> str:
    match reason:
        case NodesFirst():
            return "there was room on nodes of the input, which come before new ones"
        case HeavierPool(pool=pool, weight=weight, own=own):
            return f"{pool} was asked first, by its weight of {weight} over {own}"
        case Prefers(preference=preference):
            return f"it would rather be elsewhere: {words.preference(preference)}"
        case Tied(keys=keys):
            return f"spread or affinity by {', '.join(keys)} puts it elsewhere"
        case Elsewhere(pool=pool):
            return f"it went to a new node of {pool}"


def _too_small(reason: TooSmall, pods: int) -> str:
    needed, room, taken = (
        quantity_text(reason.resource, amount)
        for amount in (reason.needed, reason.room, reason.daemonsets)
    )
    least = "at least " if pods > 1 else ""
    beside = f" after {taken} for daemonsets" if reason.daemonsets else ""
    needs = f"needs {least}{needed} {reason.resource}"
    return f"{needs}, and {reason.instance_type} has room for {room}{beside}"
