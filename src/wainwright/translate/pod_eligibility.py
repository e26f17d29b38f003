"""Classifies pods: to be scheduled, staying on their node, gated, or blocked from eviction."""

from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from wainwright.api.kubernetes.cluster import PodDisruptionBudget
from wainwright.api.kubernetes.label_validation import selector_matches
from wainwright.api.kubernetes.workloads import Pod
from wainwright.model.taints import DISRUPTED_TAINT, find_untolerated_taint
from wainwright.translate.object_metadata import has_owner_kind, namespace_of
from wainwright.translate.pods import is_terminal
from wainwright.translate.requirements import translate_tolerations


class DisruptionBudgets:
    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
        for budget in budgets:
            self._by_namespace[namespace_of(budget.metadata)].append(budget)

    def forbid_eviction(self, pod: Pod) -> bool:
        """Whether the pod can never be evicted, because of its disruption budgets.

        Kubernetes evicts no pod that several budgets select: it cannot update them atomically.
        """
        labels = pod.metadata.labels or {}
        matching_budgets = [
            budget
            for budget in self._by_namespace.get(namespace_of(pod.metadata), ())
            if budget.spec.selector is not None and selector_matches(budget.spec.selector, labels)
        ]
        return len(matching_budgets) > 1 or any(
            _never_allows_eviction(budget, pod) for budget in matching_budgets
        )


def _never_allows_eviction(budget: PodDisruptionBudget, pod: Pod) -> bool:
    spec = budget.spec
    if spec.unhealthyPodEvictionPolicy == "AlwaysAllow" and _is_unready(pod):
        return False
    return str(spec.maxUnavailable) in ("0", "0%") or spec.minAvailable == "100%"


def _is_unready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "False"
        for condition in pod.status.conditions or ()
    )


DO_NOT_DISRUPT_ANNOTATION: Final = "karpenter.sh/do-not-disrupt"
"""A duration instead of true blocks the eviction only for that long."""


class ClassifiedPods:
    """Pods by what happens to them; finished and terminating pods are in no group."""

    __slots__ = ("gated", "staying", "stuck", "to_schedule")

    def __init__(self) -> None:
        self.to_schedule: list[Pod] = []
        """Pods to find a node for."""
        self.gated: list[Pod] = []
        """Pods with scheduling gates."""
        self.stuck: list[Pod] = []
        """Pods on a node being deleted that cannot be evicted; they are also in `staying`."""
        self.staying: dict[str, list[Pod]] = {}
        """Bound pods by node name."""


class PodClassifier:
    """Classifies pods; `deleting` are the names of nodes being deleted."""

    def __init__(
        self,
        deleting: AbstractSet[str],
        budgets: DisruptionBudgets,
        stateful_sets: AbstractSet[tuple[str, str]],
    ) -> None:
        self._deleting = deleting
        self._budgets = budgets
        self._stateful_sets = stateful_sets
        """Namespace and name of those in the input, whose missing pods are expanded already."""

    def classify(self, pods: Iterable[Pod]) -> ClassifiedPods:
        classified = ClassifiedPods()
        for pod in pods:
            if not is_terminal(pod):
                (self._classify_bound if pod.spec.nodeName else self._classify_unbound)(
                    pod, classified
                )
        return classified

    def _classify_unbound(self, pod: Pod, classified: ClassifiedPods) -> None:
        if pod.metadata.deletionTimestamp or _is_node_overhead(pod):
            return
        (classified.gated if pod.spec.schedulingGates else classified.to_schedule).append(pod)

    def _classify_bound(self, pod: Pod, classified: ClassifiedPods) -> None:
        node = pod.spec.nodeName
        if node in self._deleting and self._is_rescheduled(pod):
            if not self._is_eviction_blocked(pod):
                classified.to_schedule.append(pod)
                return
            classified.stuck.append(pod)
        classified.staying.setdefault(node, []).append(pod)

    def _is_rescheduled(self, pod: Pod) -> bool:
        if _is_node_overhead(pod):
            return False
        return not pod.metadata.deletionTimestamp or self._is_recreated(pod)

    def _is_eviction_blocked(self, pod: Pod) -> bool:
        """Whether the pod may not be evicted; a terminating pod needs no eviction."""
        if pod.metadata.deletionTimestamp:
            return False
        if (pod.metadata.annotations or {}).get(DO_NOT_DISRUPT_ANNOTATION) == "true":
            return True
        return self._budgets.forbid_eviction(pod) and not _tolerates_disruption(pod)

    def _is_recreated(self, pod: Pod) -> bool:
        """Whether a StatefulSet outside the input will create the pod anew once it is gone."""
        return any(
            owner.kind == "StatefulSet"
            and (namespace_of(pod.metadata), owner.name) not in self._stateful_sets
            for owner in pod.metadata.ownerReferences or ()
        )


def _tolerates_disruption(pod: Pod) -> bool:
    """A pod that tolerates the disruption taint is not evicted: it stays until the node is gone."""
    return (
        find_untolerated_taint([DISRUPTED_TAINT], translate_tolerations(pod.spec.tolerations))
        is None
    )


def _is_node_overhead(pod: Pod) -> bool:
    """DaemonSet pods count as overhead of their node; static pods belong to their kubelet."""
    return has_owner_kind(pod.metadata, "DaemonSet") or has_owner_kind(pod.metadata, "Node")
