"""Disruption budgets that never let a pod go."""

from collections import defaultdict
from collections.abc import Iterable

from wainwright.api.builtin.check_labels import selects
from wainwright.api.builtin.pod import Pod
from wainwright.api.builtin.policy import PodDisruptionBudget
from wainwright.manifests.expand import namespace


class Budgets:
    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
        for budget in budgets:
            self._by_namespace[namespace(budget.metadata)].append(budget)

    def forbid(self, pod: Pod) -> bool:
        """Whether nobody can evict the pod, however long they wait.

        Kubernetes evicts no pod that two budgets cover, because it cannot ask both at once.
        """
        labels = pod.metadata.labels or {}
        found = [
            budget
            for budget in self._by_namespace.get(namespace(pod.metadata), ())
            if budget.spec.selector is not None and selects(budget.spec.selector, labels)
        ]
        return len(found) > 1 or any(_never_lets_go(budget, pod) for budget in found)


def _never_lets_go(budget: PodDisruptionBudget, pod: Pod) -> bool:
    spec = budget.spec
    if spec.unhealthyPodEvictionPolicy == "AlwaysAllow" and _is_unready(pod):
        return False
    return str(spec.maxUnavailable) in ("0", "0%") or spec.minAvailable == "100%"


def _is_unready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "False"
        for condition in pod.status.conditions or ()
    )
