"""Which evictions the PodDisruptionBudgets of a namespace allow, by the API server's rules."""

from collections.abc import Iterable
from typing import Final

import msgspec

from wainwright.api.kubernetes.cluster import PodDisruptionBudget, PodDisruptionBudgetStatus
from wainwright.api.kubernetes.label_validation import selector_matches
from wainwright.api.kubernetes.workloads import Pod, PodCondition
from wainwright.errors import EvictionBlockedError

BLOCKED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
UNOBSERVED_RETRY_SECONDS: Final = 10.0
FINISHED_PHASES: Final = ("Succeeded", "Failed")


def is_exempt(pod: Pod) -> bool:
    """Whether its eviction costs no availability, so that no budget is consulted."""
    phase = pod.status.phase
    is_deleting = pod.metadata.deletionTimestamp is not None
    return phase == "Pending" or phase in FINISHED_PHASES or is_deleting


def spent_budget(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> PodDisruptionBudget | None:
    """The budget that the eviction counts against; None if it counts against none.

    EvictionBlockedError if it is not allowed now.
    """
    if is_exempt(pod):
        return None
    covering = [budget for budget in budgets if _covers(budget, pod)]
    if len(covering) > 1:
        raise EvictionBlockedError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
    if not covering or _may_go_unready(pod, covering[0]):
        return None
    _require_allowed(covering[0])
    return covering[0]


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return selector is not None and selector_matches(selector, pod.metadata.labels or {})


def _may_go_unready(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """A pod that is not ready is not among those that the budget counts as healthy."""
    if is_ready(pod):
        return False
    if budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow":
        return True
    status = budget.status
    return status.currentHealthy >= status.desiredHealthy > 0


def is_ready(pod: Pod) -> bool:
    conditions = pod.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def _require_allowed(budget: PodDisruptionBudget) -> None:
    name, status = budget.metadata.name, budget.status
    if status.observedGeneration < (budget.metadata.generation or 0):
        message = f"{BLOCKED} The disruption budget {name} is still being processed by the server."
        raise EvictionBlockedError(message, retry_after=UNOBSERVED_RETRY_SECONDS)
    if not status.disruptionsAllowed or status.disruptionsAllowed < 0:
        raise EvictionBlockedError(f"{BLOCKED} The disruption budget {name} {_lack(status)}")


def _lack(status: PodDisruptionBudgetStatus) -> str:
    if status.currentHealthy > status.desiredHealthy:  # others were evicted and are still running
        return "does not allow evicting pods currently"
    needed, healthy = status.desiredHealthy, status.currentHealthy
    return f"needs {needed} healthy pods and has {healthy} currently"


def with_disruption(budget: PodDisruptionBudget, pod: str, now: str) -> PodDisruptionBudget:
    """The budget after one more eviction; its controller counts anew once it sees the pod go."""
    status = msgspec.structs.replace(
        budget.status,
        disruptionsAllowed=(budget.status.disruptionsAllowed or 0) - 1,
        disruptedPods={**(budget.status.disruptedPods or {}), pod: now},
    )
    return msgspec.structs.replace(budget, status=status)


def with_condition(pod: Pod, condition: PodCondition) -> Pod:
    """The pod with this condition in place of the one of its type."""
    others = [each for each in pod.status.conditions or () if each.type != condition.type]
    status = msgspec.structs.replace(pod.status, conditions=[*others, condition])
    return msgspec.structs.replace(pod, status=status)
