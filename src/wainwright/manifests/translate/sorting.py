"""Which pods are to be placed, which stay where they are, and which are held back."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from wainwright.api.builtin.pod import Pod
from wainwright.manifests.expand import namespace
from wainwright.manifests.translate.budgets import Budgets
from wainwright.manifests.translate.pods import is_owned
from wainwright.manifests.translate.taints import tolerations
from wainwright.model.taints import DISRUPTED, untolerated

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""With a duration instead of true it only keeps a pod for that long."""


class Sorted:
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


class Sorter:
    """Tells pods apart; `deleting` names the nodes that give their pods away."""

    def __init__(
        self,
        deleting: AbstractSet[str],
        budgets: Budgets,
        stateful_sets: AbstractSet[tuple[str, str]],
    ) -> None:
        self._deleting = deleting
        self._budgets = budgets
        self._stateful_sets = stateful_sets
        """Namespace and name of those of the input, whose missing pods were made already."""

    def sort(self, pods: Iterable[Pod]) -> Sorted:
        found = Sorted()
        for pod in pods:
            if not is_done(pod):
                (self._bound if pod.spec.nodeName else self._unbound)(pod, found)
        return found

    def _unbound(self, pod: Pod, found: Sorted) -> None:
        if pod.metadata.deletionTimestamp or _is_tied_to_its_node(pod):
            return
        (found.gated if pod.spec.schedulingGates else found.placed).append(pod)

    def _bound(self, pod: Pod, found: Sorted) -> None:
        node = pod.spec.nodeName
        if node in self._deleting and self._moves(pod):
            if not self._is_kept(pod):
                found.placed.append(pod)
                return
            found.stuck.append(pod)
        found.staying.setdefault(node, []).append(pod)

    def _moves(self, pod: Pod) -> bool:
        if _is_tied_to_its_node(pod):
            return False
        return not pod.metadata.deletionTimestamp or self._comes_back(pod)

    def _is_kept(self, pod: Pod) -> bool:
        """Whether nobody may make it leave; one that is leaving already needs no leave."""
        if pod.metadata.deletionTimestamp:
            return False
        if (pod.metadata.annotations or {}).get(DO_NOT_DISRUPT) == "true":
            return True
        return self._budgets.forbid(pod) and not _outlives_its_node(pod)

    def _comes_back(self, pod: Pod) -> bool:
        """A StatefulSet makes a pod again under its name only when the old one is gone."""
        return any(
            owner.kind == "StatefulSet"
            and (namespace(pod.metadata), owner.name) not in self._stateful_sets
            for owner in pod.metadata.ownerReferences or ()
        )


def _outlives_its_node(pod: Pod) -> bool:
    """A pod that tolerates the node's end is not evicted: it stays until there is no node."""
    return untolerated([DISRUPTED], tolerations(pod.spec.tolerations)) is None


def is_done(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _is_tied_to_its_node(pod: Pod) -> bool:
    """DaemonSets count as overhead of their nodes; a kubelet's own pods go with it."""
    return is_owned(pod.metadata, "DaemonSet") or is_owned(pod.metadata, "Node")
