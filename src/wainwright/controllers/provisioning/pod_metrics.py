"""Metrics of pods on their way: from their creation, and from the plan that has a place for them,
until they are bound and ready; and of the pods of the last plan.

Only pods that are not ready yet are remembered; a change of any other costs a look into a mapping.
How long pods have been waiting is computed when it is asked for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.metrics import (
    PENDING_PODS_BY_ZONE,
    POD_BOUND_SECONDS,
    POD_DECISION_SECONDS,
    POD_PROVISIONING_BOUND_SECONDS,
    POD_PROVISIONING_STARTUP_SECONDS,
    POD_PROVISIONING_UNBOUND_TIME,
    POD_PROVISIONING_UNSTARTED_TIME,
    POD_STARTUP_SECONDS,
    POD_UNBOUND_TIME,
    POD_UNDECIDED_TIME,
    POD_UNSTARTED_TIME,
    SCHEDULER_IGNORED,
    SCHEDULER_UNFINISHED_SECONDS,
    Metric,
    Sample,
)
from wainwright.model.labels import ZONE
from wainwright.model.pod import Pod as ModelPod
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.translate.pods import PodRole, is_terminal, pod_role


class _StartingPod:
    """Moments of a pod that has not been ready yet, in seconds since 1970."""

    __slots__ = ("created", "decided", "is_bound", "labels", "schedulable", "seen")

    def __init__(self, pod: Pod, created: float) -> None:
        self.labels = pod.metadata.name, pod.metadata.namespace
        self.created = created
        self.is_bound = bool(pod.spec.nodeName)
        self.seen: float | None = None
        """As pending: gates and a deletion keep it from being planned."""
        self.decided: float | None = None
        self.schedulable: float | None = None
        """The first plan that had a place for it."""

    def waiting_since(self) -> Iterator[tuple[Metric, float]]:
        yield POD_UNSTARTED_TIME, self.created
        if self.schedulable is not None:
            yield POD_PROVISIONING_UNSTARTED_TIME, self.schedulable
        if self.is_bound:
            return
        yield POD_UNBOUND_TIME, self.created
        if self.schedulable is not None:
            yield POD_PROVISIONING_UNBOUND_TIME, self.schedulable
        if self.seen is not None and self.decided is None:
            yield POD_UNDECIDED_TIME, self.seen


class PodMetrics:
    def __init__(self, context: ControllerContext) -> None:
        self._clock, self._metrics = context.clock, context.metrics
        self._starting: dict[str, _StartingPod] = {}
        """By uid."""
        self._planned: tuple[ModelPod, ...] = ()
        """Those that the last plan was made for."""
        self._planning_since: float | None = None
        context.metrics.add_collector(self._collect_plan)
        context.cache.subscribe(Pod, self._changed)
        if context.settings.cluster_state_observability:
            context.metrics.add_collector(self._collect)

    @contextmanager
    def planning(self, pods: tuple[ModelPod, ...]) -> Iterator[None]:
        """Meanwhile a plan is made for these pods."""
        self._planned, self._planning_since = pods, self._clock.now()
        try:
            yield
        finally:
            self._planning_since = None

    def nothing_pending(self) -> None:
        self._planned = ()

    def planned(self, pods: Iterable[ModelPod], unplaced: Iterable[str]) -> None:
        """A plan was made with these pods; the keys of those without a place in it."""
        now, without_place = self._clock.now(), frozenset(unplaced)
        for pod in pods:
            starting = self._starting.get(pod.uid)
            if starting is None:
                continue
            if starting.decided is None and starting.seen is not None:
                starting.decided = now
                self._metrics.observe(POD_DECISION_SECONDS, now - starting.seen)
            if starting.schedulable is None and pod.key not in without_place:
                starting.schedulable = now

    def _changed(self, change: Change[Pod]) -> None:
        pod, uid = change.after, change.object.metadata.uid
        if pod is None or is_terminal(pod):
            self._starting.pop(uid, None)
            return
        starting = self._starting.get(uid) or self._begin(change.before, pod)
        if starting is None:
            return
        if starting.seen is None and pod_role(pod) is PodRole.PENDING:
            starting.seen = self._clock.now()
        if pod.spec.nodeName and not starting.is_bound:
            self._bound(starting, pod)
        if (ready := self._since(pod, "Ready")) is not None:
            self._started(starting, ready)
            del self._starting[uid]

    def _begin(self, before: Pod | None, pod: Pod) -> _StartingPod | None:
        """None of a pod that was ready when it was first seen: it may have been for days."""
        if before is not None or self._since(pod, "Ready") is not None:
            return None
        created = parse_timestamp(pod.metadata.creationTimestamp) or self._clock.now()
        return self._starting.setdefault(pod.metadata.uid, _StartingPod(pod, created))

    def _bound(self, starting: _StartingPod, pod: Pod) -> None:
        starting.is_bound = True
        moment = self._since(pod, "PodScheduled") or self._clock.now()
        self._metrics.observe(POD_BOUND_SECONDS, max(0.0, moment - starting.created))
        if starting.schedulable is not None:
            taken = max(0.0, moment - starting.schedulable)
            self._metrics.observe(POD_PROVISIONING_BOUND_SECONDS, taken)

    def _started(self, starting: _StartingPod, moment: float) -> None:
        self._metrics.observe(POD_STARTUP_SECONDS, max(0.0, moment - starting.created))
        if starting.schedulable is not None:
            taken = max(0.0, moment - starting.schedulable)
            self._metrics.observe(POD_PROVISIONING_STARTUP_SECONDS, taken)

    def _since(self, pod: Pod, condition: str) -> float | None:
        """Since when the condition is true; now where it does not say."""
        for each in pod.status.conditions or ():
            if each.type == condition and each.status == "True":
                return parse_timestamp(each.lastTransitionTime) or self._clock.now()
        return None

    def _collect_plan(self) -> Iterator[Sample]:
        now = self._clock.now()
        pods = [pod for pod in self._planned if self._is_unbound(pod)]
        since = now if self._planning_since is None else self._planning_since
        yield SCHEDULER_UNFINISHED_SECONDS, (), now - since
        yield (
            SCHEDULER_IGNORED,
            (),
            sum(bool(pod.unsupported or pod.volume_problem) for pod in pods),
        )
        for zone, count in Counter(map(_effective_zone, pods)).items():
            yield PENDING_PODS_BY_ZONE, (zone,), count

    def _is_unbound(self, pod: ModelPod) -> bool:
        """Still: no plan follows one that has a place for every pod."""
        starting = self._starting.get(pod.uid)
        return starting is not None and not starting.is_bound

    def _collect(self) -> Iterator[Sample]:
        now = self._clock.now()
        for starting in [*self._starting.values()]:
            for metric, since in starting.waiting_since():
                yield metric, starting.labels, max(0.0, now - since)


def _effective_zone(pod: ModelPod) -> str:
    """The only zone that the pod and its volumes allow; flexible or none where it is not one."""
    sets = [
        alternative.allowed(ZONE) & volumes.allowed(ZONE)
        for alternative in pod.alternatives
        for volumes in pod.constraints.volume_topology
    ]
    if any(each.open for each in sets):
        return "flexible"
    zones = {zone for each in sets for zone in each.values}
    return "none" if not zones else "flexible" if len(zones) > 1 else zones.pop()
