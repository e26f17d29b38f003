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
            offered_text = (
                "instances there lack it" if offered is None else f"there it is {offered}"
            )
            return f"the NodePool requires {key} {wanted}, and {offered_text}"
        case ReservationHostPortsTaken(ports=ports):
            return f"host port {', '.join(map(str, ports))} is in use by a DaemonSet there"
        case ReservationUnavailable(instance_type=name):
            return f"{name} has no capacity there now"
        case _:
            return _describe_choice(reason, pods)


def _describe_choice(reason: PlacementChoice, pods: int) -> str:
    they, them = ("it", "it") if pods == 1 else ("they", "them")
    match reason:
        case ExistingNodeUsed():
            return "existing nodes had room, and come before new ones"
        case HigherWeightPoolUsed(pool=pool, weight=weight, own=own):
            return f"NodePool {pool} comes first by weight ({weight} over {own})"
        case PreferredElsewhere(preference=preference):
            wanted = unschedulable.describe_preference(preference)
            return f"{they} would be elsewhere by preference: {wanted}"
        case TopologyElsewhere(keys=keys, theirs=True):
            return f"pods with anti-affinity to {them} are there, by {', '.join(keys)}"
        case TopologyElsewhere(keys=keys):
            return f"spread or affinity by {', '.join(keys)} places {them} elsewhere"
        case BlockedByOtherPods():
            return f"constraints with other pods exclude {them}"
        case OtherPoolUsed(pool=pool):
            return f"{they} went to {'a new node' if pods == 1 else 'new nodes'} of {pool}"


def _describe_too_small(reason: ReservationTooSmall, pods: int) -> str:
    needed, available, taken = (
        format_quantity(reason.resource, amount)
        for amount in (reason.needed, reason.room, reason.daemonsets)
    )
    need = "needs" if pods == 1 else "need at least"
    daemonset_note = f" after {taken} for DaemonSets" if reason.daemonsets else ""
    needs = f"{need} {needed} {reason.resource}"
    return f"{needs}, and {reason.instance_type} has room for {available}{daemonset_note}"
