"""The cost of disrupting a node: what its evictions count, less the nearer its expiry is."""

from collections.abc import Iterable
from typing import Final

from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node

NODE_COST: Final = 1.0
"""Of every node: of two nodes without pods the more expensive one goes first."""
DELETION_COST_UNIT: Final = 2.0**27
PRIORITY_UNIT: Final = 2.0**25
POD_COST_BOUND: Final = 10.0


def pod_eviction_cost(pod: Pod) -> float:
    """1, raised or lowered by the pod's deletion cost and priority; at most 10 either way."""
    cost = 1.0 + pod.eviction.deletion_cost / DELETION_COST_UNIT + pod.priority / PRIORITY_UNIT
    return max(-POD_COST_BOUND, min(POD_COST_BOUND, cost))


def evictions_cost(pods: Iterable[Pod]) -> float:
    """A pod that wants to be evicted does not make the eviction of others cheaper."""
    return sum(max(0.0, pod_eviction_cost(pod)) for pod in pods if pod.is_rescheduled)


def remaining_lifetime(node: Node, now: float | None) -> float:
    """The share of its lifetime that is left, between 0 and 1; 1 where it does not expire."""
    claim = node.claim
    if claim is None or not claim.expire_after or claim.created is None or now is None:
        return 1.0
    return max(0.0, min(1.0, 1.0 - (now - claim.created) / claim.expire_after))


def disruption_cost(node: Node, now: float | None) -> float:
    """A node that will soon expire has little to lose: its pods will have to move anyway."""
    return NODE_COST + evictions_cost(node.pods) * remaining_lifetime(node, now)
