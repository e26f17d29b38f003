"""Why pods do not use an idle capacity reservation, as the rest of a sentence."""

from typing import TypeAlias

from wainwright.messages import unschedulable
from wainwright.model.reasons import (
    BlockedByOtherPods,
    ExistingNodeUsed,
    HigherWeightPoolUsed,
    OtherPoolUsed,
    PodReason,
    PoolExcludesReservation,
    PoolReason,
    PreferredElsewhere,
    ReservationHostPortsTaken,
    ReservationObstacle,
    ReservationTooSmall,
    ReservationUnavailable,
    TopologyElsewhere,
)
from wainwright.model.resources import format_quantity

PlacementChoice: TypeAlias = (
    ExistingNodeUsed
    | HigherWeightPoolUsed
    | PreferredElsewhere
    | TopologyElsewhere
    | BlockedByOtherPods
    | OtherPoolUsed
)


def describe_obstacle(reason: ReservationObstacle, pods: int = 1) -> str:
    """Why this number of pods is not on instances of the reservation."""
    if isinstance(reason, PodReason):
        return unschedulable.describe_pod_reason(reason)
    if isinstance(reason, PoolReason):
        return unschedulable.describe_pool_reason(reason)
    match reason:
        case ReservationTooSmall():
            return _describe_too_small(reason, pods)
        case PoolExcludesReservation(key=key, wanted=wanted, offered=offered):
            offered_text = "machines there lack it" if offered is None else f"there it is {offered}"
            return f"the pool asks for {key} {wanted}, and {offered_text}"
        case ReservationHostPortsTaken(ports=ports):
            return f"a daemonset takes port {', '.join(map(str, ports))} there"
        case ReservationUnavailable(instance_type=name):
            return f"{name} cannot be bought there now"
        case _:
            return _describe_choice(reason, pods)


def _describe_choice(reason: PlacementChoice, pods: int) -> str:
    they, them = ("it", "it") if pods == 1 else ("they", "them")
    match reason:
        case ExistingNodeUsed():
            return "there was room on nodes of the input, which come before new ones"
        case HigherWeightPoolUsed(pool=pool, weight=weight, own=own):
            return f"{pool} was asked first, by its weight of {weight} over {own}"
        case PreferredElsewhere(preference=preference):
            return (
                f"{they} would rather be elsewhere: {unschedulable.describe_preference(preference)}"
            )
        case TopologyElsewhere(keys=keys, theirs=True):
            return f"pods with anti-affinity to {them} are there, by {', '.join(keys)}"
        case TopologyElsewhere(keys=keys):
            return f"spread or affinity by {', '.join(keys)} puts {them} elsewhere"
        case BlockedByOtherPods():
            return f"other pods or spreads keep {them} off"
        case OtherPoolUsed(pool=pool):
            return f"{they} went to {'a new node' if pods == 1 else 'new nodes'} of {pool}"


def _describe_too_small(reason: ReservationTooSmall, pods: int) -> str:
    needed, available, taken = (
        format_quantity(reason.resource, amount)
        for amount in (reason.needed, reason.room, reason.daemonsets)
    )
    need = "needs" if pods == 1 else "need at least"
    daemonset_note = f" after {taken} for daemonsets" if reason.daemonsets else ""
    needs = f"{need} {needed} {reason.resource}"
    return f"{needs}, and {reason.instance_type} has room for {available}{daemonset_note}"
