"""Whether a pod may be evicted, and where that leaves the pods of nodes that are being deleted."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from wainwright.model.disruption import PodDisruptionBudget
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node, Snapshot
from wainwright.model.taints import DISRUPTED_TAINT, find_untolerated_taint


class PodDisruptionBudgets:
    """The budgets of a cluster, by namespace: a pod is compared with those of its own only."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
        for budget in budgets:
            self._by_namespace[budget.namespace].append(budget)

    def of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that select the pod."""
        budgets = self._by_namespace.get(pod.namespace, ())
        return [budget for budget in budgets if budget.selects(pod)]

    def forbid_eviction(self, pod: Pod) -> bool:
        """Whether the pod can never be evicted, because of its budgets.

        Kubernetes evicts no pod that several budgets select: it cannot update them atomically.
        """
        selecting = self.of(pod)
        return len(selecting) > 1 or any(_forbids(budget, pod) for budget in selecting)


def _forbids(budget: PodDisruptionBudget, pod: Pod) -> bool:
    may_go_unready = budget.always_allows_unready and not pod.eviction.ready
    return budget.never_allows_eviction and not may_go_unready


def is_eviction_blocked(pod: Pod, budgets: PodDisruptionBudgets) -> bool:
    """Whether the pod may not be evicted; a terminating pod needs no eviction.

    A pod that tolerates the disruption taint is not evicted at all, and is gone with its node.
    """
    if pod.terminating:
        return False
    if pod.eviction.do_not_disrupt is True:
        return True
    return budgets.forbid_eviction(pod) and not _tolerates_disruption(pod)


def _tolerates_disruption(pod: Pod) -> bool:
    return find_untolerated_taint([DISRUPTED_TAINT], pod.tolerations) is None


class Evictions(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot in which the pods of nodes being deleted are among those to be scheduled."""

    snapshot: Snapshot
    blocked: tuple[Pod, ...] = ()
    """Pods of these nodes that may not be evicted: they stay where they are."""


def evict_from_deleting_nodes(snapshot: Snapshot) -> Evictions:
    """Moves the pods of nodes being deleted to the pending ones. Twice is as good as once."""
    if not any(node.deleting and node.pods for node in snapshot.nodes):
        return Evictions(snapshot=snapshot)
    budgets = PodDisruptionBudgets(snapshot.pod_disruption_budgets)
    evicted: list[Pod] = []
    blocked: list[Pod] = []
    nodes = tuple(
        _drain(node, budgets, evicted, blocked) if node.deleting else node
        for node in snapshot.nodes
    )
    pods = sorted([*snapshot.pods, *evicted], key=lambda pod: (pod.namespace, pod.name))
    drained = msgspec.structs.replace(snapshot, pods=tuple(pods), nodes=nodes)
    return Evictions(snapshot=drained, blocked=tuple(blocked))


def _drain(
    node: Node, budgets: PodDisruptionBudgets, evicted: list[Pod], blocked: list[Pod]
) -> Node:
    staying: list[Pod] = []
    for pod in node.pods:
        if not pod.is_rescheduled:
            staying.append(pod)
        elif is_eviction_blocked(pod, budgets):
            staying.append(pod)
            blocked.append(pod)
        else:
            evicted.append(
                msgspec.structs.replace(pod, terminating=False) if pod.terminating else pod
            )
    return msgspec.structs.replace(node, pods=tuple(staying))
