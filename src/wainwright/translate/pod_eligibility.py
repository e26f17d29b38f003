"""Which pods are to be placed, which stay on their node, which are gated or kept by a budget."""

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

    def forbid(self, pod: Pod) -> bool:
        """Whether nobody can evict the pod, however long they wait.

        Kubernetes evicts no pod that two budgets cover, because it cannot ask both at once.
        """
        labels = pod.metadata.labels or {}
        found = [
            budget
            for budget in self._by_namespace.get(namespace_of(pod.metadata), ())
            if budget.spec.selector is not None and selector_matches(budget.spec.selector, labels)
        ]
        return len(found) > 1 or any(_never_allows_eviction(budget, pod) for budget in found)


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
"""With a duration instead of true it only keeps a pod for that long."""


class ClassifiedPods:
    """Every pod in one place at most; those that are done, or on their way out, in none."""

    __slots__ = ("gated", "placed", "staying", "stuck")

    def __init__(self) -> None:
        self.placed: list[Pod] = []
        """Those that the plan is for."""
        self.gated: list[Pod] = []
        """Those that wait for somebody to take their scheduling gates off."""
        self.stuck: list[Pod] = []
        """Those that should leave a node being deleted, but never will; they also stay."""
        self.staying: dict[str, list[Pod]] = {}
        """By the name of the node that they are bound to."""


class PodClassifier:
    """Tells pods apart; `deleting` names the nodes that give their pods away."""

    def __init__(
        self,
        deleting: AbstractSet[str],
        budgets: DisruptionBudgets,
        stateful_sets: AbstractSet[tuple[str, str]],
    ) -> None:
        self._deleting = deleting
        self._budgets = budgets
        self._stateful_sets = stateful_sets
        """Namespace and name of those of the input, whose missing pods were made already."""

    def sort(self, pods: Iterable[Pod]) -> ClassifiedPods:
        found = ClassifiedPods()
        for pod in pods:
            if not is_terminal(pod):
                (self._bound if pod.spec.nodeName else self._unbound)(pod, found)
        return found

    def _unbound(self, pod: Pod, found: ClassifiedPods) -> None:
        if pod.metadata.deletionTimestamp or _goes_with_its_node(pod):
            return
        (found.gated if pod.spec.schedulingGates else found.placed).append(pod)

    def _bound(self, pod: Pod, found: ClassifiedPods) -> None:
        node = pod.spec.nodeName
        if node in self._deleting and self._moves(pod):
            if not self._is_kept(pod):
                found.placed.append(pod)
                return
            found.stuck.append(pod)
        found.staying.setdefault(node, []).append(pod)

    def _moves(self, pod: Pod) -> bool:
        if _goes_with_its_node(pod):
            return False
        return not pod.metadata.deletionTimestamp or self._comes_back(pod)

    def _is_kept(self, pod: Pod) -> bool:
        """Whether nobody may make it leave; one that is leaving already needs no leave."""
        if pod.metadata.deletionTimestamp:
            return False
        if (pod.metadata.annotations or {}).get(DO_NOT_DISRUPT_ANNOTATION) == "true":
            return True
        return self._budgets.forbid(pod) and not _tolerates_disruption(pod)

    def _comes_back(self, pod: Pod) -> bool:
        """A StatefulSet makes a pod again under its name only when the old one is gone."""
        return any(
            owner.kind == "StatefulSet"
            and (namespace_of(pod.metadata), owner.name) not in self._stateful_sets
            for owner in pod.metadata.ownerReferences or ()
        )


def _tolerates_disruption(pod: Pod) -> bool:
    """A pod that tolerates the node's end is not evicted: it stays until there is no node."""
    return (
        find_untolerated_taint([DISRUPTED_TAINT], translate_tolerations(pod.spec.tolerations))
        is None
    )


def _goes_with_its_node(pod: Pod) -> bool:
    """DaemonSets count as overhead of their nodes; a kubelet's own pods go with it."""
    return has_owner_kind(pod.metadata, "DaemonSet") or has_owner_kind(pod.metadata, "Node")
