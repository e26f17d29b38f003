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


def pod_eviction_cost(pod: Pod, *, managed_deletion_cost: bool = False) -> float:
    """1, raised or lowered by the pod's disruption cost, else its deletion cost, and its priority;
    at most 10 either way.

    A deletion cost that a controller manages (feature gate) says nothing about the pod.
    """
    facts = pod.eviction
    stated = facts.disruption_cost
    if stated is None:
        stated = 0.0 if managed_deletion_cost else facts.deletion_cost
    cost = 1.0 + stated / DELETION_COST_UNIT + pod.priority / PRIORITY_UNIT
    return max(-POD_COST_BOUND, min(POD_COST_BOUND, cost))


def evictions_cost(pods: Iterable[Pod], *, managed_deletion_cost: bool = False) -> float:
    """A pod that wants to be evicted does not make the eviction of others cheaper."""
    return sum(
        max(0.0, pod_eviction_cost(pod, managed_deletion_cost=managed_deletion_cost))
        for pod in pods
        if pod.is_rescheduled
    )


def remaining_lifetime(node: Node, now: float | None) -> float:
    """The share of its lifetime that is left, between 0 and 1; 1 where it does not expire."""
    claim = node.claim
    if claim is None or not claim.expire_after or claim.created is None or now is None:
        return 1.0
    return max(0.0, min(1.0, 1.0 - (now - claim.created) / claim.expire_after))


def disruption_cost(node: Node, now: float | None, *, managed_deletion_cost: bool = False) -> float:
    """A node that will soon expire has little to lose: its pods will have to move anyway."""
    evictions = evictions_cost(node.pods, managed_deletion_cost=managed_deletion_cost)
    return NODE_COST + evictions * remaining_lifetime(node, now)
