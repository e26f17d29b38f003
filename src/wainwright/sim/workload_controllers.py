"""The workload controllers of a simulated cluster: Deployments, StatefulSets, Jobs, DaemonSets …

Pods are named `<workload>-<n>` with the lowest number that no pod has, so that runs can be
compared. A Deployment owns its pods itself; ReplicaSets between them are understood where a
cluster was loaded with them, and not made. A pod that comes or goes costs the same in a workload
of any size.

A changed template replaces all pods at once, unless the workload states a strategy. Not there:
status (but a Job's), the wait before a failed pod of a Job is made anew, Indexed jobs, progress
deadlines.
"""

from typing import Any, Final

import msgspec

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Volume,
)
from wainwright.api.kubernetes.workloads import (
    DaemonSet,
    Deployment,
    DeploymentStrategy,
    Job,
    JobCondition,
    JobStatus,
    Pod,
    PodSpec,
    ReplicaSet,
    ReplicationController,
    RollingUpdate,
    StatefulSet,
)
from wainwright.api.wire import ObjectMeta
from wainwright.cluster import Preconditions
from wainwright.controllers.runtime import Key
from wainwright.sim.daemon_sets import DaemonPods
from wainwright.sim.disruption_budgets import scaled
from wainwright.sim.evictions import is_ready
from wainwright.sim.informers import (
    Informer,
    Informers,
    KeyedWorker,
    controller_of,
    key_of,
    object_key,
    split_key,
)
from wainwright.sim.jobs import is_to_be_removed, plan_job
from wainwright.sim.node_info import is_finished
from wainwright.sim.owned_pods import (
    REVISION_LABEL,
    TEMPLATE_HASH_LABEL,
    OwnedPods,
    Owner,
    PodControl,
    Workload,
    name_order,
    revision_of,
)

DEFAULT_ROLLING: Final = RollingUpdate(maxSurge="25%", maxUnavailable="25%")


class WorkloadControllers:
    """All workload controllers; each workload is brought to what it should be, one at a time."""

    def __init__(self, informers: Informers) -> None:
        self._cluster, self._clock = informers.cluster, informers.clock
        self._pods, self._nodes = informers.of(Pod), informers.of(Node)
        self._claims = informers.of(PersistentVolumeClaim)
        self._control = PodControl(informers)
        self._owned: dict[Owner, OwnedPods] = {}
        self._first_revision: dict[Owner, str] = {}
        self._replica_sets_of: dict[Owner, dict[Key, None]] = {}
        self._worker = KeyedWorker(self._clock, self._work)
        self._daemons = DaemonPods(self._control, informers)
        self._replica_sets, self._jobs = informers.of(ReplicaSet), informers.of(Job)
        self._workloads: dict[str, Informer[Any]] = {}
        for kind in (Deployment, ReplicaSet, ReplicationController, StatefulSet, Job):
            self._workloads[kind.__name__] = informer = informers.of(kind)
            informer.add_handler(self._workload_changed)
        self._pods.add_handler(self._pod_changed)

    @property
    def next_due(self) -> float | None:
        return self._worker.next_due

    async def run(self) -> None:
        await self._worker.run()

    async def run_daemons(self) -> None:
        await self._daemons.run()

    # Changes

    def _workload_changed(self, before: Any, after: Any) -> None:
        workload = after if after is not None else before
        owner = (workload.kind, key_of(workload))
        if isinstance(workload, ReplicaSet):
            above = controller_of(workload.metadata)
            if above is not None:
                self._replica_sets_of.setdefault(above, {})[owner[1]] = None
                if after is None:
                    self._replica_sets_of[above].pop(owner[1], None)
                self._worker.add(_work_key(above))
                return
        if after is None:
            self._control.forget(owner)
            self._first_revision.pop(owner, None)
            self._drop_owner(owner)
        if before is None or after is None or before.spec is not after.spec:
            self._worker.add(_work_key(owner))

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None:
            self._leave(before, is_gone=after is None)
        if after is None:
            return
        key, owner = key_of(after), controller_of(after.metadata)
        if before is None:
            self._control.numbers.take(key)
        if owner is None:
            return
        pods = self._owned.setdefault(owner, OwnedPods())
        pods.put(key, after)
        if before is None or before.status.phase != after.status.phase:
            pods.succeeded += after.status.phase == "Succeeded"
            pods.failed += after.status.phase == "Failed"
        self._look_at(owner, before, after)

    def _leave(self, pod: Pod, *, is_gone: bool) -> None:
        key, owner = key_of(pod), controller_of(pod.metadata)
        if is_gone:
            self._control.numbers.free(key)
        if owner is None:
            return
        pods = self._owned.get(owner)
        if pods is not None:
            pods.drop(key, pod)
        if is_gone:
            # As the Job controller counts: a pod that goes before it has ended has failed, unless
            # the controller itself has deleted it.
            if pods is not None and not is_finished(pod):
                pods.failed += not self._control.has_deleted(pod)
            self._look_at(owner, pod, None)
            self._drop_owner(owner)

    def _drop_owner(self, owner: Owner) -> None:
        """Forgets a workload that is gone with all its pods."""
        kind, key = owner
        informer, pods = self._workloads.get(kind), self._owned.get(owner)
        is_there = informer is not None and key in informer.objects
        if pods is not None and not is_there and next(pods.all(), None) is None:
            del self._owned[owner]

    def _look_at(self, owner: Owner, before: Pod | None, after: Pod | None) -> None:
        kind, key = owner
        if kind == DaemonSet.__name__:
            self._daemons.pod_changed(key, after if after is not None else before)
            return
        if before is not None and after is not None and not _matters(before, after):
            return
        replica_set = self._replica_sets.objects.get(key) if kind == ReplicaSet.__name__ else None
        above = controller_of(replica_set.metadata) if replica_set is not None else None
        self._worker.add(_work_key(owner if above is None else above))

    def owned_by(self, owner: Owner) -> OwnedPods:
        return self._owned.get(owner) or OwnedPods()

    # Work

    async def _work(self, work_key: str) -> None:
        kind, _, key = work_key.partition("/")
        informer = self._workloads.get(kind)
        workload: Any = informer.objects.get(key) if informer is not None else None
        match workload:
            case Deployment():
                await self._sync_deployment(workload)
            case ReplicaSet() | ReplicationController():
                if controller_of(workload.metadata) is None:
                    await self._sync_replicas(workload)
            case StatefulSet():
                await self._sync_stateful_set(workload)
            case Job():
                await self._sync_job(workload)
            case _:
                pass

    async def _sync_replicas(self, workload: ReplicaSet | ReplicationController) -> None:
        """The template counts for new pods only."""
        if workload.metadata.deletionTimestamp is not None:
            return
        own = self.owned_by((workload.kind, key_of(workload)))
        desired = 1 if workload.spec.replicas is None else workload.spec.replicas
        if own.active_count != desired:
            await self._scale(workload, own.active_keys(), desired)

    async def _sync_deployment(self, deployment: Deployment) -> None:
        if deployment.metadata.deletionTimestamp is not None:
            return
        replicas = deployment.spec.replicas
        desired = 1 if replicas is None else replicas
        if self._is_settled(deployment, desired):
            return
        current, old, leaving = self._revisions(deployment)
        strategy = deployment.spec.strategy or DeploymentStrategy()
        if not old:
            if strategy.type != "Recreate" or len(current) >= desired or not leaving:
                await self._scale(deployment, current, desired)
            return
        if strategy.type == "RollingUpdate":
            await self._roll(deployment, current, old, desired)
            return
        await self._control.delete_pods(old)
        if strategy.type != "Recreate":
            await self._scale(deployment, current, desired)

    def _is_settled(self, deployment: Deployment, desired: int) -> bool:
        """Whether all pods are there and of the template; without a look at each."""
        owner = (deployment.kind, key_of(deployment))
        active = self.owned_by(owner).active
        revision = self._control.template_of(deployment, TEMPLATE_HASH_LABEL).revision
        return (
            not self._replica_sets_of.get(owner)
            and active.keys() == {revision}
            and len(active[revision]) == desired
        )

    def _revisions(self, deployment: Deployment) -> tuple[list[Key], list[Key], bool]:
        """Pods of the template as it is, those of earlier ones, and whether such are leaving."""
        owner = (deployment.kind, key_of(deployment))
        revision = self._control.template_of(deployment, TEMPLATE_HASH_LABEL).revision
        first = self._first_revision.setdefault(owner, revision)
        current: list[Key] = []
        old: list[Key] = []
        own = self.owned_by(owner)
        for of_pod, keys in own.active.items():
            is_current = (of_pod or first) == revision
            (current if is_current else old).extend(keys)
        leaving = list(own.leaving)
        for key in self._replica_sets_of.get(owner, ()):
            replica_set = self._replica_sets.objects.get(key)
            pods = self.owned_by((ReplicaSet.__name__, key))
            is_current = replica_set is not None and _is_same_template(replica_set, deployment)
            for keys in pods.active.values():
                (current if is_current else old).extend(keys)
            leaving.extend(pods.leaving)
        is_old_leaving = any(self._is_other_revision(key, revision, first) for key in leaving)
        return current, old, is_old_leaving

    def _is_other_revision(self, key: Key, revision: str, first: str) -> bool:
        pod = self._pods.objects.get(key)
        return pod is not None and (revision_of(pod) or first) != revision

    async def _roll(
        self, deployment: Deployment, current: list[Key], old: list[Key], desired: int
    ) -> None:
        """One step of a rolling update; the next follows when a pod has become ready or is gone."""
        strategy = deployment.spec.strategy
        rolling = (strategy.rollingUpdate if strategy is not None else None) or DEFAULT_ROLLING
        surge, unavailable = rolling_limits(rolling, desired)
        total = len(current) + len(old)
        missing = min(desired - len(current), desired + surge - total)
        if missing > 0:
            await self._control.create_pods(deployment, missing)
            total += missing
        ready = [key for key in old if self._control.is_ready(key)]
        new_ready = sum(map(self._control.is_ready, current))
        unready = [key for key in old if not self._control.is_ready(key)]
        room = total - (desired - unavailable) - (total - len(old) - new_ready)
        removed = unready[: max(0, room)]
        removed += self._control.deletion_order(ready)[: max(0, room - len(unready))]
        await self._control.delete_pods(removed)

    async def _scale(self, workload: Workload, active: list[Key], desired: int) -> None:
        if len(active) < desired:
            await self._control.create_pods(workload, desired - len(active))
        elif len(active) > desired:
            await self._control.delete_pods(
                self._control.deletion_order(active)[: len(active) - desired]
            )

    # StatefulSets

    async def _sync_stateful_set(self, stateful_set: StatefulSet) -> None:
        if stateful_set.metadata.deletionTimestamp is not None:
            return
        spec, key = stateful_set.spec, key_of(stateful_set)
        start = spec.ordinals.start if spec.ordinals is not None else 0
        desired = 1 if spec.replicas is None else spec.replicas
        wanted = [f"{key}-{number}" for number in range(start, start + desired)]
        is_parallel = spec.podManagementPolicy == "Parallel"
        if not await self._fill_ordinals(stateful_set, wanted, is_parallel=is_parallel):
            return
        own = self.owned_by((stateful_set.kind, key))
        surplus = sorted(set(own.all()) - set(wanted), key=_ordinal, reverse=True)
        if surplus:
            await self._control.delete_pods(surplus if is_parallel else surplus[:1])
            return
        await self._update_stateful_set(stateful_set, own)

    async def _fill_ordinals(
        self, stateful_set: StatefulSet, wanted: list[Key], *, is_parallel: bool
    ) -> bool:
        """Creates what is missing; whether everything before the last is ready, where it counts."""
        for key in wanted:
            pod = self._pods.objects.get(key)
            if pod is None:
                await self._create_ordinal(stateful_set, key)
            elif is_finished(pod):
                await self._control.delete_pod(key)
            if not is_parallel and (pod is None or not is_ready(pod)):
                # An old pod that cannot become ready must not keep its replacement away.
                return pod is not None and self._is_outdated(stateful_set, pod)
        return True

    def _is_outdated(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        revision = self._control.template_of(stateful_set, REVISION_LABEL).revision
        owner = (stateful_set.kind, key_of(stateful_set))
        return (revision_of(pod) or self._first_revision.setdefault(owner, revision)) != revision

    async def _update_stateful_set(self, stateful_set: StatefulSet, own: OwnedPods) -> None:
        strategy = stateful_set.spec.updateStrategy
        outdated = [
            key
            for keys in own.active.values()
            for key in keys
            if key in self._pods.objects
            and self._is_outdated(stateful_set, self._pods.objects[key])
        ]
        outdated.sort(key=_ordinal, reverse=True)
        if strategy is not None and strategy.type == "OnDelete":
            return
        if strategy is not None and strategy.type == "RollingUpdate":
            outdated = [] if own.leaving else outdated[:1]
        await self._control.delete_pods(outdated)

    async def _create_ordinal(self, stateful_set: StatefulSet, key: Key) -> None:
        namespace, name = split_key(key)
        template = self._control.template_of(stateful_set, REVISION_LABEL)
        spec = await self._with_claims(stateful_set, template.spec, namespace, name)
        labels = {
            **template.labels,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
        }
        await self._control.create_pod(template, namespace, name, spec=spec, labels=labels)

    async def _with_claims(
        self, stateful_set: StatefulSet, spec: PodSpec, namespace: str, pod: str
    ) -> PodSpec:
        """The spec with the pod's own claims, which are made where they do not exist."""
        templates = stateful_set.spec.volumeClaimTemplates or []
        if not templates:
            return spec
        volumes = {each.name: each for each in spec.volumes or ()}
        for each in templates:
            name = f"{each.metadata.name}-{pod}"
            source = PersistentVolumeClaimVolumeSource(claimName=name)
            volumes[each.metadata.name] = Volume(
                name=each.metadata.name, persistentVolumeClaim=source
            )
            if object_key(namespace, name) not in self._claims.objects:
                metadata = ObjectMeta(
                    name=name,
                    namespace=namespace,
                    labels=each.metadata.labels,
                    annotations=each.metadata.annotations,
                )
                claim = PersistentVolumeClaim(metadata=metadata, spec=each.spec)
                self._claims.observe(await self._cluster.create(claim))
        return msgspec.structs.replace(spec, volumes=list(volumes.values()))

    # Jobs

    async def _sync_job(self, job: Job) -> None:
        if job.metadata.deletionTimestamp is not None:
            return
        now, own = self._clock.now(), self.owned_by((job.kind, key_of(job)))
        namespace, name = split_key(key_of(job))
        if is_to_be_removed(job, now):
            preconditions = Preconditions(uid=job.metadata.uid)
            await self._cluster.delete(Job, name, namespace, preconditions=preconditions)
            return
        succeeded = max(own.succeeded, job.status.succeeded)
        failed = max(own.failed, job.status.failed)
        active = own.active_count
        planned = plan_job(job, succeeded=succeeded, failed=failed, active=active, now=now)
        if active != planned.desired:
            await self._scale(job, own.active_keys(), planned.desired)
        await self._write_job_status(job, own, planned.finished)
        if planned.due is not None:
            self._worker.add_at(_work_key((job.kind, key_of(job))), planned.due)

    async def _write_job_status(
        self, job: Job, own: OwnedPods, finished: JobCondition | None
    ) -> None:
        status = JobStatus(
            active=own.active_count,
            succeeded=max(own.succeeded, job.status.succeeded),
            failed=max(own.failed, job.status.failed),
            conditions=job.status.conditions or (None if finished is None else [finished]),
        )
        if status == job.status:
            return
        body = {"active": status.active, "succeeded": status.succeeded, "failed": status.failed}
        if status.conditions:
            body["conditions"] = msgspec.to_builtins(status.conditions)
        namespace, name = split_key(key_of(job))
        changed = await self._cluster.patch_status(Job, name, {"status": body}, namespace)
        self._jobs.observe(changed)


def _work_key(owner: Owner) -> str:
    kind, key = owner
    return f"{kind}/{key}"


def _matters(before: Pod, after: Pod) -> bool:
    """Whether the number of pods that are active or ready may have changed."""
    return (
        before.status.phase != after.status.phase
        or before.metadata.deletionTimestamp != after.metadata.deletionTimestamp
        or is_ready(before) != is_ready(after)
    )


def _is_same_template(replica_set: ReplicaSet, deployment: Deployment) -> bool:
    template, labels = (
        replica_set.spec.template,
        dict(replica_set.spec.template.metadata.labels or {}),
    )
    labels.pop(TEMPLATE_HASH_LABEL, None)
    metadata = msgspec.structs.replace(template.metadata, labels=labels or None)
    return msgspec.structs.replace(template, metadata=metadata) == deployment.spec.template


def rolling_limits(rolling: RollingUpdate, desired: int) -> tuple[int, int]:
    """How many pods more than desired there may be, and how many fewer available."""
    surge = scaled("25%" if rolling.maxSurge is None else rolling.maxSurge, desired)
    stated = "25%" if rolling.maxUnavailable is None else rolling.maxUnavailable
    if isinstance(stated, str) and stated.endswith("%"):
        unavailable = int(stated[:-1]) * desired // 100  # rounded down, the surge up
    else:
        unavailable = int(stated)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _ordinal(key: Key) -> int:
    return name_order(key)[1]
