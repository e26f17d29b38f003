"""The disruption controller of a simulated cluster: the status of PodDisruptionBudgets.

Each budget keeps the pods that it selects, and how many of them are healthy; a pod that changes
costs a look at the budgets of its namespace, whatever the number of pods.
"""

from collections.abc import Iterator
from typing import Any, Final

from wainwright.api.kubernetes.cluster import PodDisruptionBudget, PodDisruptionBudgetStatus
from wainwright.api.kubernetes.label_validation import selector_matches
from wainwright.api.kubernetes.workloads import (
    Deployment,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.controllers.runtime import Key
from wainwright.errors import ConflictError
from wainwright.sim.evictions import is_ready
from wainwright.sim.informers import (
    Informer,
    Informers,
    KeyedWorker,
    controller_of,
    key_of,
    split_key,
)
from wainwright.translate.object_metadata import parse_timestamp

DELETION_SECONDS: Final = 120.0
"""After which an eviction that was allowed is taken to have come to nothing."""
SCALED_KINDS: Final = (Deployment, ReplicaSet, ReplicationController, StatefulSet)

Owner = tuple[str, Key]


class _Budget:
    """The pods of one budget."""

    def __init__(self) -> None:
        self.healthy: dict[Key, bool] = {}
        """Every pod that it selects."""
        self.healthy_count = 0
        self.owners: dict[Owner, int] = {}

    def set_health(self, key: Key, is_healthy: bool | None) -> None:
        """None: the pod is not the budget's any longer."""
        self.healthy_count += bool(is_healthy) - bool(self.healthy.pop(key, None))
        if is_healthy is not None:
            self.healthy[key] = is_healthy


class DisruptionBudgets:
    def __init__(self, informers: Informers) -> None:
        self._cluster, self._clock = informers.cluster, informers.clock
        self._budgets = informers.of(PodDisruptionBudget)
        self._pods = informers.of(Pod)
        self._scaled: dict[str, Informer[Any]] = {
            kind.__name__: informers.of(kind) for kind in SCALED_KINDS
        }
        self._by_namespace: dict[str, dict[Key, _Budget]] = {}
        self._pods_by_namespace: dict[str, dict[Key, None]] = {}
        self._worker = KeyedWorker(self._clock, self._work)
        self._budgets.add_handler(self._budget_changed)
        self._pods.add_handler(self._pod_changed)
        for each in self._scaled.values():
            each.add_handler(self._workload_changed)

    @property
    def next_due(self) -> float | None:
        return self._worker.next_due

    async def run(self) -> None:
        await self._worker.run()

    # Changes

    def _budget_changed(
        self, before: PodDisruptionBudget | None, after: PodDisruptionBudget | None
    ) -> None:
        budget = after if after is not None else before
        assert budget is not None
        key, namespace = key_of(budget), budget.metadata.namespace
        budgets = self._by_namespace.setdefault(namespace, {})
        if after is None:
            budgets.pop(key, None)
            self._worker.forget(key)
            return
        if before is None or before.spec.selector != after.spec.selector:
            budgets[key] = self._selected(after)
        self._worker.add(key)

    def _selected(self, budget: PodDisruptionBudget) -> _Budget:
        made = _Budget()
        for key in self._pods_by_namespace.get(budget.metadata.namespace, ()):
            pod = self._pods.objects.get(key)
            if pod is not None and _covers(budget, pod):
                self._add(made, key, pod)
        return made

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after if after is not None else before
        assert pod is not None
        key, namespace = key_of(pod), pod.metadata.namespace
        in_namespace = self._pods_by_namespace.setdefault(namespace, {})
        if after is None:
            in_namespace.pop(key, None)
        else:
            in_namespace[key] = None
        for name, budget in self._by_namespace.get(namespace, {}).items():
            written = self._budgets.objects.get(name)
            if written is not None and self._count(budget, written, key, before, after):
                self._worker.add(name)

    def _count(
        self,
        budget: _Budget,
        written: PodDisruptionBudget,
        key: Key,
        before: Pod | None,
        after: Pod | None,
    ) -> bool:
        """Takes the change in; whether the status may differ for it."""
        was = budget.healthy.get(key)
        is_covered = after is not None and _covers(written, after)
        if was is not None and (not is_covered or before is None):
            self._remove(budget, key, before)
        if after is not None and is_covered:
            if was is None or before is None:
                self._add(budget, key, after)
            budget.set_health(key, _is_healthy(after))
        is_disrupted = key.rpartition("/")[2] in (written.status.disruptedPods or {})
        return budget.healthy.get(key) != was or is_disrupted

    def _add(self, budget: _Budget, key: Key, pod: Pod) -> None:
        budget.set_health(key, _is_healthy(pod))
        owner = controller_of(pod.metadata)
        if owner is not None:
            budget.owners[owner] = budget.owners.get(owner, 0) + 1

    def _remove(self, budget: _Budget, key: Key, pod: Pod | None) -> None:
        budget.set_health(key, None)
        owner = controller_of(pod.metadata) if pod is not None else None
        if owner is not None and owner in budget.owners:
            budget.owners[owner] -= 1
            if not budget.owners[owner]:
                del budget.owners[owner]

    def _workload_changed(self, before: Any, after: Any) -> None:
        if before is not None and after is not None and before.spec.replicas == after.spec.replicas:
            return
        namespace = (after or before).metadata.namespace
        for key in self._by_namespace.get(namespace, {}):
            self._worker.add(key)

    # Status

    async def _work(self, key: Key) -> None:
        written = self._budgets.objects.get(key)
        budget = self._by_namespace.get(split_key(key)[0], {}).get(key)
        if written is None or budget is None:
            return
        status = self._status(written, budget)
        for moment in _expiries(status):
            self._worker.add_at(key, moment)
        if status == written.status:
            return
        namespace, name = split_key(key)
        patch = {
            # An eviction may have been counted since: then this is told, and done again.
            "metadata": {"resourceVersion": written.metadata.resourceVersion},
            "status": {
                **{field: getattr(status, field) for field in status.__struct_fields__},
                "disruptedPods": _replacement(written.status.disruptedPods, status.disruptedPods),
            },
        }
        try:
            changed = await self._cluster.patch_status(PodDisruptionBudget, name, patch, namespace)
        except ConflictError:
            self._worker.add_at(key, self._clock.now() + 0.001)
            return
        self._budgets.observe(changed)

    def _status(self, written: PodDisruptionBudget, budget: _Budget) -> PodDisruptionBudgetStatus:
        disrupted = dict(self._still_disrupted(written, budget))
        leaving = (f"{written.metadata.namespace}/{name}" for name in disrupted)
        healthy = budget.healthy_count - sum(budget.healthy.get(key, False) for key in leaving)
        expected, desired = self._desired(written, budget)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        return PodDisruptionBudgetStatus(
            disruptionsAllowed=allowed,
            currentHealthy=healthy,
            desiredHealthy=desired,
            expectedPods=expected,
            observedGeneration=written.metadata.generation or 0,
            disruptedPods=disrupted or None,
        )

    def _still_disrupted(
        self, written: PodDisruptionBudget, budget: _Budget
    ) -> Iterator[tuple[str, str]]:
        """Pods whose eviction was allowed and has not begun yet."""
        for name, when in (written.status.disruptedPods or {}).items():
            key = f"{written.metadata.namespace}/{name}"
            pod = self._pods.objects.get(key)
            since = parse_timestamp(when) or 0.0
            is_waiting = pod is not None and pod.metadata.deletionTimestamp is None
            if (
                is_waiting
                and key in budget.healthy
                and (since + DELETION_SECONDS > self._clock.now())
            ):
                yield name, when

    def _desired(self, written: PodDisruptionBudget, budget: _Budget) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        spec = written.spec
        if spec.maxUnavailable is not None:
            expected = self._expected_scale(budget)
            return expected, max(0, expected - scaled(spec.maxUnavailable, expected))
        if spec.minAvailable is None:
            return 0, 0
        if isinstance(spec.minAvailable, int):
            return len(budget.healthy), spec.minAvailable
        expected = self._expected_scale(budget)
        return expected, scaled(spec.minAvailable, expected)

    def _expected_scale(self, budget: _Budget) -> int:
        """The replicas of all workloads that the pods belong to; others' pods do not count."""
        roots = {self._root(owner): None for owner in budget.owners}
        return sum(self._replicas(root) for root in roots)

    def _root(self, owner: Owner) -> Owner:
        kind, key = owner
        if kind == "ReplicaSet":
            found: Any = self._scaled[kind].objects.get(key)
            above = controller_of(found.metadata) if found is not None else None
            return owner if above is None else above
        return owner

    def _replicas(self, owner: Owner) -> int:
        kind, key = owner
        informer = self._scaled.get(kind)
        found: Any = informer.objects.get(key) if informer is not None else None
        if found is None:
            return 0
        return 1 if found.spec.replicas is None else int(found.spec.replicas)


def scaled(value: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    if isinstance(value, int):
        return value
    text = value.strip()
    if text.endswith("%"):
        return -(-int(text[:-1]) * total // 100)
    return int(text)


def _expiries(status: PodDisruptionBudgetStatus) -> Iterator[float]:
    for when in (status.disruptedPods or {}).values():
        yield (parse_timestamp(when) or 0.0) + DELETION_SECONDS


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return selector is not None and selector_matches(selector, pod.metadata.labels or {})


def _is_healthy(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is None and is_ready(pod)


def _replacement(
    before: dict[str, str] | None, after: dict[str, str] | None
) -> dict[str, str | None] | None:
    """The merge patch that turns one mapping into the other."""
    if not after:
        return None
    return {**dict.fromkeys(before or {}), **after}
