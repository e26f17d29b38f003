"""Which pods of a node that is being drained are evicted now, which are deleted, and what it waits
for. Pure: the pods and the time in, the next step out.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from wainwright.api.kubernetes.workloads import Pod
from wainwright.model.taints import DISRUPTED_TAINT, find_untolerated_taint
from wainwright.translate.disruption import DO_NOT_DISRUPT_ANNOTATION, parse_duration
from wainwright.translate.object_metadata import has_owner_kind, parse_timestamp
from wainwright.translate.pods import is_terminal
from wainwright.translate.requirements import translate_tolerations

CRITICAL_PRIORITY_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
DEFAULT_GRACE_PERIOD: Final = 30  # seconds
STUCK_SECONDS: Final = 60.0
"""A pod that is still there so long after it should have ended is not waited for."""
MIN_GRACE_PERIOD: Final = 1
"""Seconds: with 0 the pod would be removed from the API while it may still run."""


class DrainStep(msgspec.Struct, frozen=True, kw_only=True):
    evict: tuple[Pod, ...] = ()
    """Of the first tier that has any; the next tier begins when these are gone."""
    delete: tuple[Pod, ...] = ()
    """Their grace period no longer fits before the deadline."""
    waiting: tuple[Pod, ...] = ()
    """All pods that the drain waits for, these included."""
    next_due: float | None = None
    """When time alone changes the step; None where only the pods do."""

    @property
    def is_drained(self) -> bool:
        return not self.waiting


def drain_step(pods: Iterable[Pod], now: float, deadline: float | None) -> DrainStep:
    waiting = [pod for pod in pods if is_drainable(pod) and not is_stuck(pod, now)]
    overdue = [pod for pod in waiting if deadline is not None and is_overdue(pod, now, deadline)]
    names = {pod.metadata.uid for pod in overdue}
    evictable = [pod for pod in waiting if pod.metadata.uid not in names]
    return DrainStep(
        evict=tuple(_next_tier(evictable, now)),
        delete=tuple(overdue),
        waiting=tuple(waiting),
        next_due=min(
            (moment for pod in waiting for moment in _moments(pod, deadline) if moment > now),
            default=None,
        ),
    )


def is_drainable(pod: Pod) -> bool:
    """Whether the pod has to leave: others end with the node, or have ended."""
    return not is_terminal(pod) and not _ends_with_node(pod)


def is_left_alone(pod: Pod, now: float) -> bool:
    """Whether the drain waits neither for the pod nor for its volumes. Those of a pod that has
    finished are detached by themselves.
    """
    return _ends_with_node(pod) or is_stuck(pod, now)


def _ends_with_node(pod: Pod) -> bool:
    if has_owner_kind(pod.metadata, "Node"):
        return True
    tolerations = translate_tolerations(pod.spec.tolerations)
    return find_untolerated_taint([DISRUPTED_TAINT], tolerations) is None


def is_stuck(pod: Pod, now: float) -> bool:
    deleted = parse_timestamp(pod.metadata.deletionTimestamp)
    return deleted is not None and now > deleted + STUCK_SECONDS


def _next_tier(pods: Sequence[Pod], now: float) -> list[Pod]:
    """Pods of workloads before those of DaemonSets, critical ones last."""
    if not pods:
        return []
    first = min(map(_tier, pods))
    return [
        pod
        for pod in pods
        if _tier(pod) == first and not pod.metadata.deletionTimestamp and not is_protected(pod, now)
    ]


def _tier(pod: Pod) -> tuple[bool, bool]:
    is_critical = pod.spec.priorityClassName in CRITICAL_PRIORITY_CLASSES
    return is_critical, has_owner_kind(pod.metadata, "DaemonSet")


def is_protected(pod: Pod, now: float) -> bool:
    """Whether do-not-disrupt is in effect: always, or for a duration from the pod's start."""
    until = _protected_until(pod)
    return until is not None and now < until


def _protected_until(pod: Pod) -> float | None:
    value = (pod.metadata.annotations or {}).get(DO_NOT_DISRUPT_ANNOTATION, "")
    if value == "true":
        return float("inf")
    seconds = parse_duration(value)
    started = parse_timestamp(pod.status.startTime or pod.metadata.creationTimestamp)
    return None if seconds is None or started is None else started + seconds


def grace_period(pod: Pod) -> int:
    own = pod.spec.terminationGracePeriodSeconds
    return DEFAULT_GRACE_PERIOD if own is None else own


def is_overdue(pod: Pod, now: float, deadline: float) -> bool:
    """Whether it would not end by the deadline unless it is deleted now. Of a pod that is being
    deleted: unless its end is brought forward, which it can be to the next second at most.
    """
    ends = parse_timestamp(pod.metadata.deletionTimestamp)
    if ends is not None:
        return ends > max(deadline, now + MIN_GRACE_PERIOD)
    return now >= deadline - grace_period(pod)


def seconds_to(deadline: float, now: float) -> int:
    """The grace period of a pod that has to be gone by the deadline."""
    return max(MIN_GRACE_PERIOD, int(deadline - now))


def _moments(pod: Pod, deadline: float | None) -> Iterable[float]:
    deleted = parse_timestamp(pod.metadata.deletionTimestamp)
    if deleted is not None:
        yield deleted + STUCK_SECONDS + 1
        return
    if deadline is not None:
        yield deadline - grace_period(pod)
    until = _protected_until(pod)
    if until is not None and until != float("inf"):
        yield until
