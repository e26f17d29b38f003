"""Whether a pod may be evicted, and where that leaves the pods of nodes that are being deleted."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from wainwright.model.disruption import BlockingBudget, PodDisruptionBudget
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node, Snapshot
from wainwright.model.taints import DISRUPTED_TAINT, find_untolerated_taint
from wainwright.whole_numbers import MAX_DIGITS, parse_whole_number

_Anchor: TypeAlias = tuple[str, tuple[str, str] | None]
"""A namespace, and a label with its value; None for selectors that require no such pair."""
_NumberedBudget: TypeAlias = tuple[int, PodDisruptionBudget]
_BY_NUMBER: Final = itemgetter(0)


class PodDisruptionBudgets:
    """The budgets of a cluster, by namespace and a label that their pods have: a pod is compared
    with those of its own labels only, where thousands of workloads have a budget each.
    """

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_label: dict[_Anchor, list[_NumberedBudget]] = defaultdict(list)
        for number, budget in enumerate(budgets):
            anchor = budget.namespace, budget.selector.required_label
            self._by_label[anchor].append((number, budget))

    def of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that select the pod, in their order."""
        anchors = [(pod.namespace, label) for label in (None, *pod.labels.items())]
        found = [
            (number, budget)
            for anchor in anchors
            for number, budget in self._by_label.get(anchor, ())
            if budget.selects(pod)
        ]
        return [budget for _, budget in sorted(found, key=_BY_NUMBER)]

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


SHARED: Final = BlockingBudget(is_shared=True)


class EvictionAllowance:
    """Which PodDisruptionBudgets allow no eviction now.

    Their status says how many are allowed. Where there is none, as in manifests that were never
    applied, it is worked out from the pods of the snapshot.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._budgets = PodDisruptionBudgets(snapshot.pod_disruption_budgets)
        self._counted: dict[tuple[str, str], PodDisruptionBudget] = {}
        unknown = [
            each for each in snapshot.pod_disruption_budgets if each.disruptions_allowed is None
        ]
        if unknown:
            self._count(unknown, snapshot)

    def blocking(self, pod: Pod) -> list[tuple[PodDisruptionBudget, BlockingBudget]]:
        """The budgets because of which the pod cannot be evicted now, each with why.

        Several on one pod always block: Kubernetes cannot update them atomically.
        """
        selecting = self._budgets.of(pod)
        if len(selecting) > 1:
            return [(budget, SHARED) for budget in selecting]
        return [
            (budget, budget_shortfall(self.stated(budget)))
            for budget in selecting
            if not self._allows(budget, pod)
        ]

    def _allows(self, budget: PodDisruptionBudget, pod: Pod) -> bool:
        if budget.always_allows_unready and not pod.eviction.ready:
            return True
        return self.allowed(budget) > 0

    def allowed(self, budget: PodDisruptionBudget) -> int:
        """How many evictions it allows now."""
        return self.stated(budget).disruptions_allowed or 0

    def stated(self, budget: PodDisruptionBudget) -> PodDisruptionBudget:
        """The budget with what its status says, or would say."""
        return self._counted.get((budget.namespace, budget.name), budget)

    def _count(self, budgets: Iterable[PodDisruptionBudget], snapshot: Snapshot) -> None:
        running = [pod for node in snapshot.nodes for pod in node.pods]
        ready = (pod for pod in running if pod.eviction.ready and not pod.terminating)
        healthy = self._selected_by_each(ready)
        expected = self._selected_by_each([*running, *snapshot.pods])
        for budget in budgets:
            allowed = healthy[id(budget)] - desired_healthy(budget, expected[id(budget)])
            self._counted[budget.namespace, budget.name] = msgspec.structs.replace(
                budget,
                disruptions_allowed=max(0, allowed),
                healthy=healthy[id(budget)],
                expected=expected[id(budget)],
            )

    def _selected_by_each(self, pods: Iterable[Pod]) -> Counter[int]:
        """How many of the pods each budget selects, by its identity."""
        return Counter(id(budget) for pod in pods for budget in self._budgets.of(pod))


def with_stated_allowances(snapshot: Snapshot) -> Snapshot:
    """The cluster with budgets that all say how many evictions they allow.

    To be asked before pending pods are planned: on the nodes of a plan they would count as healthy.
    """
    budgets = snapshot.pod_disruption_budgets
    if all(each.disruptions_allowed is not None for each in budgets):
        return snapshot
    allowance = EvictionAllowance(snapshot)
    stated = tuple(map(allowance.stated, budgets))
    return msgspec.structs.replace(snapshot, pod_disruption_budgets=stated)


def desired_healthy(budget: PodDisruptionBudget, expected: int) -> int:
    """As the disruption controller of Kubernetes works it out; percentages are rounded up."""
    if budget.max_unavailable is not None:
        return max(0, expected - _scaled(budget.max_unavailable, expected))
    return _scaled(budget.min_available or 0, expected)


def _scaled(value: int | str, total: int) -> int:
    text = str(value)
    if not text.endswith("%"):
        return _whole_number(text)
    return -(-_whole_number(text.removesuffix("%")) * total // 100)


def _whole_number(text: str) -> int:
    """Of thousands of digits the first are enough: it is more than all pods."""
    return parse_whole_number(text[:MAX_DIGITS]) or 0


MAX_MORE_REPLICAS: Final = 100
"""Beyond the pods that there are; a budget that needs more is not mended by replicas."""


def budget_shortfall(budget: PodDisruptionBudget) -> BlockingBudget:
    """What the budget says, and the smallest changes after which it allows one eviction."""
    healthy, expected = budget.healthy, budget.expected
    is_maximum = budget.max_unavailable is not None
    value = budget.max_unavailable if is_maximum else budget.min_available
    if value is None or not healthy or not expected:
        return BlockingBudget()
    needed = desired_healthy(budget, expected) + 1
    more = range(expected + 1, expected + MAX_MORE_REPLICAS)
    enough = (count for count in more if desired_healthy(budget, count) < count)
    return BlockingBudget(
        field="maxUnavailable" if is_maximum else "minAvailable",
        value=value,
        healthy=healthy,
        expected=expected,
        allowing_value=expected - healthy + 1 if is_maximum else healthy - 1,
        healthy_needed=needed if healthy < needed <= expected else None,
        replicas_needed=next(enough, None) if needed > expected else None,
    )


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
