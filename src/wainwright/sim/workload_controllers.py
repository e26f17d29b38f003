"""The workload controllers of a simulated cluster: Deployments, StatefulSets, Jobs, DaemonSets …

Pods are named `<workload>-<n>` with the lowest number that no pod has, so that runs can be
compared. A Deployment owns its pods itself; ReplicaSets between them are understood where a
cluster was loaded with them, and not made. A pod that comes or goes costs the same in a workload
of any size.

A changed template replaces all pods at once, unless the workload states a strategy. Not there:
status (but a Job's), backoffLimit, ttlSecondsAfterFinished, Indexed jobs, progress deadlines.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from wainwright.api.kubernetes.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Volume,
)
from wainwright.api.kubernetes.workloads import (
    Affinity,
    DaemonSet,
    Deployment,
    Job,
    JobCondition,
    JobStatus,
    NodeAffinity,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    RollingUpdate,
    StatefulSet,
    Toleration,
    UpdateStrategy,
)
from wainwright.api.wire import ObjectMeta, OwnerReference
from wainwright.cluster import Preconditions
from wainwright.controllers.runtime import Key
from wainwright.errors import AlreadyExistsError, ConflictError, ObjectNotFoundError
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
from wainwright.sim.node_info import is_finished
from wainwright.sim.node_matching import (
    NAME_FIELD,
    NO_EXECUTE,
    NO_SCHEDULE,
    first_untolerated,
    matches_node_affinity,
    named_nodes,
    required_node_selector,
)

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
REVISION_LABEL: Final = "controller-revision-hash"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
PHASE_ORDER: Final = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}
DEFAULT_ROLLING: Final = RollingUpdate(maxSurge="25%", maxUnavailable="25%")
FIRST_REVISION: Final = ""
"""Of pods without a revision: they are of the template that the workload was first seen with."""

Owner: TypeAlias = tuple[str, Key]
"""Kind and key of a workload."""
Workload: TypeAlias = (
    Deployment | ReplicaSet | ReplicationController | StatefulSet | Job | DaemonSet
)


class PodTemplate(NamedTuple):
    """What all pods of one revision share, so that the API server sees that they do."""

    revision: str
    labels: dict[str, str]
    spec: PodSpec
    owner: OwnerReference
    annotations: dict[str, str] | None


class OwnedPods:
    """The pods of one owner."""

    def __init__(self) -> None:
        self.active: dict[str, dict[Key, None]] = {}
        """Neither finished nor being deleted, by revision."""
        self.leaving: dict[Key, None] = {}
        """Being deleted."""
        self.finished: dict[Key, None] = {}
        self.succeeded = 0
        self.failed = 0

    def put(self, key: Key, pod: Pod) -> None:
        if pod.metadata.deletionTimestamp is not None:
            self.leaving[key] = None
        elif is_finished(pod):
            self.finished[key] = None
        else:
            self.active.setdefault(_revision(pod), {})[key] = None

    def drop(self, key: Key, pod: Pod) -> None:
        self.leaving.pop(key, None)
        self.finished.pop(key, None)
        of_revision = self.active.get(_revision(pod))
        if of_revision is not None:
            of_revision.pop(key, None)
            if not of_revision:
                del self.active[_revision(pod)]

    @property
    def active_count(self) -> int:
        return sum(map(len, self.active.values()))

    def active_keys(self) -> list[Key]:
        return [key for keys in self.active.values() for key in keys]

    def all(self) -> Iterator[Key]:
        for keys in self.active.values():
            yield from keys
        yield from self.leaving
        yield from self.finished


def _revision(pod: Pod) -> str:
    labels = pod.metadata.labels or {}
    return labels.get(TEMPLATE_HASH_LABEL) or labels.get(REVISION_LABEL) or FIRST_REVISION


class PodNumbers:
    """Which numbers are taken in the names of pods, by namespace and the name before them."""

    def __init__(self) -> None:
        self._taken: dict[Key, set[int]] = {}
        self._lowest: dict[Key, int] = {}
        """No number below is free."""

    def take(self, pod_key: Key) -> None:
        prefix, number = _numbered(pod_key)
        if number is not None:
            self._taken.setdefault(prefix, set()).add(number)

    def free(self, pod_key: Key) -> None:
        prefix, number = _numbered(pod_key)
        if number is not None:
            self._taken.get(prefix, set()).discard(number)
            self._lowest[prefix] = min(self._lowest.get(prefix, 0), number)

    def lowest_free(self, prefix: Key) -> int:
        taken, number = self._taken.get(prefix, ()), self._lowest.get(prefix, 0)
        while number in taken:
            number += 1
        self._lowest[prefix] = number
        return number


def _numbered(pod_key: Key) -> tuple[Key, int | None]:
    prefix, _, number = pod_key.rpartition("-")
    return prefix, int(number) if number.isdecimal() else None


class WorkloadControllers:
    """All workload controllers; each workload is brought to what it should be, one at a time."""

    def __init__(self, informers: Informers) -> None:
        self._cluster, self._clock = informers.cluster, informers.clock
        self._pods, self._nodes = informers.of(Pod), informers.of(Node)
        self._claims = informers.of(PersistentVolumeClaim)
        self._numbers = PodNumbers()
        self._owned: dict[Owner, OwnedPods] = {}
        self._templates: dict[Owner, tuple[PodTemplateSpec, PodTemplate]] = {}
        self._first_revision: dict[Owner, str] = {}
        self._replica_sets_of: dict[Owner, dict[Key, None]] = {}
        self._worker = KeyedWorker(self._clock, self._work)
        self._daemons = DaemonPods(self, informers)
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
            self._templates.pop(owner, None)
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
            self._numbers.take(key)
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
            self._numbers.free(key)
        if owner is None:
            return
        pods = self._owned.get(owner)
        if pods is not None:
            pods.drop(key, pod)
        if is_gone:
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
        strategy = deployment.spec.strategy or UpdateStrategy()
        if not old:
            if strategy.type != "Recreate" or len(current) >= desired or not leaving:
                await self._scale(deployment, current, desired)
            return
        if strategy.type == "RollingUpdate":
            await self._roll(deployment, current, old, desired)
            return
        await self._delete_pods(old)
        if strategy.type != "Recreate":
            await self._scale(deployment, current, desired)

    def _is_settled(self, deployment: Deployment, desired: int) -> bool:
        """Whether all pods are there and of the template; without a look at each."""
        owner = (deployment.kind, key_of(deployment))
        active = self.owned_by(owner).active
        revision = self.template_of(deployment, TEMPLATE_HASH_LABEL).revision
        return (
            not self._replica_sets_of.get(owner)
            and active.keys() == {revision}
            and len(active[revision]) == desired
        )

    def _revisions(self, deployment: Deployment) -> tuple[list[Key], list[Key], bool]:
        """Pods of the template as it is, those of earlier ones, and whether such are leaving."""
        owner = (deployment.kind, key_of(deployment))
        revision = self.template_of(deployment, TEMPLATE_HASH_LABEL).revision
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
        return pod is not None and (_revision(pod) or first) != revision

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
            await self._create_pods(deployment, missing)
            total += missing
        ready = [key for key in old if self._is_ready(key)]
        new_ready = sum(map(self._is_ready, current))
        unready = [key for key in old if not self._is_ready(key)]
        room = total - (desired - unavailable) - (total - len(old) - new_ready)
        removed = unready[: max(0, room)]
        removed += self._deletion_order(ready)[: max(0, room - len(unready))]
        await self._delete_pods(removed)

    def _is_ready(self, key: Key) -> bool:
        pod = self._pods.objects.get(key)
        return pod is not None and is_ready(pod)

    async def _scale(self, workload: Workload, active: list[Key], desired: int) -> None:
        if len(active) < desired:
            await self._create_pods(workload, desired - len(active))
        elif len(active) > desired:
            await self._delete_pods(self._deletion_order(active)[: len(active) - desired])

    async def _create_pods(self, workload: Workload, number: int) -> None:
        template = self.template_of(workload, _hash_label(workload))
        namespace, name = workload.metadata.namespace, workload.metadata.name
        prefix = object_key(namespace, name)
        for _ in range(number):
            pod_name = f"{name}-{self._numbers.lowest_free(prefix)}"
            await self.create_pod(template, namespace, pod_name)

    async def create_pod(
        self,
        template: PodTemplate,
        namespace: str,
        name: str,
        *,
        spec: PodSpec | None = None,
        labels: dict[str, str] | None = None,
    ) -> None:
        metadata = ObjectMeta(
            name=name,
            namespace=namespace,
            labels=template.labels if labels is None else labels,
            annotations=template.annotations,
            ownerReferences=[template.owner],
        )
        pod = Pod(metadata=metadata, spec=template.spec if spec is None else spec)
        try:
            self._pods.observe(await self._cluster.create(pod))
        except AlreadyExistsError:
            self._numbers.take(object_key(namespace, name))  # somebody else's, not seen yet
            raise ConflictError(f"pod {name} already exists") from None

    async def create_numbered_pod(
        self, workload: Workload, template: PodTemplate, spec: PodSpec
    ) -> None:
        namespace, name = workload.metadata.namespace, workload.metadata.name
        number = self._numbers.lowest_free(object_key(namespace, name))
        await self.create_pod(template, namespace, f"{name}-{number}", spec=spec)

    async def _delete_pods(self, keys: list[Key]) -> None:
        for key in keys:
            await self.delete_pod(key)

    async def delete_pod(self, key: Key) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or pod.metadata.deletionTimestamp is not None:
            return
        namespace, name = split_key(key)
        try:
            await self._cluster.delete(
                Pod, name, namespace, preconditions=Preconditions(uid=pod.metadata.uid)
            )
        except (ConflictError, ObjectNotFoundError):
            return

    def _deletion_order(self, keys: list[Key]) -> list[Key]:
        """As the ReplicaSet controller: first those whose end costs least."""
        pods = {key: self._pods.objects[key] for key in keys if key in self._pods.objects}
        on_node: dict[str, int] = {}
        for pod in pods.values():
            on_node[pod.spec.nodeName] = on_node.get(pod.spec.nodeName, 0) + 1
        # Names last and backwards, so that the highest number goes first of equals.
        ordered = sorted(pods, key=_name_order, reverse=True)
        ordered.sort(key=lambda key: _deletion_age(pods[key]), reverse=True)
        ordered.sort(key=lambda key: _deletion_rank(pods[key], on_node[pods[key].spec.nodeName]))
        return ordered

    def template_of(self, workload: Workload, hash_label: str) -> PodTemplate:
        owner = (workload.kind, key_of(workload))
        template = workload.spec.template
        known = self._templates.get(owner)
        if known is not None and (known[0] is template or known[0] == template):
            return known[1]
        made = _pod_template(workload, template, hash_label)
        self._templates[owner] = (template, made)
        return made

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
            await self._delete_pods(surplus if is_parallel else surplus[:1])
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
                await self.delete_pod(key)
            if not is_parallel and (pod is None or not is_ready(pod)):
                # An old pod that cannot become ready must not keep its replacement away.
                return pod is not None and self._is_outdated(stateful_set, pod)
        return True

    def _is_outdated(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        revision = self.template_of(stateful_set, REVISION_LABEL).revision
        owner = (stateful_set.kind, key_of(stateful_set))
        return (_revision(pod) or self._first_revision.setdefault(owner, revision)) != revision

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
        await self._delete_pods(outdated)

    async def _create_ordinal(self, stateful_set: StatefulSet, key: Key) -> None:
        namespace, name = split_key(key)
        template = self.template_of(stateful_set, REVISION_LABEL)
        spec = await self._with_claims(stateful_set, template.spec, namespace, name)
        labels = {
            **template.labels,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
        }
        await self.create_pod(template, namespace, name, spec=spec, labels=labels)

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
        own = self.owned_by((job.kind, key_of(job)))
        succeeded = max(own.succeeded, job.status.succeeded)
        active = own.active_count
        is_complete = _is_complete(job) or _has_completed(job, succeeded, active)
        desired = _job_parallelism(job, succeeded, active)
        if job.metadata.deletionTimestamp is None and not is_complete and active != desired:
            await self._scale(job, own.active_keys(), desired)
        await self._write_job_status(job, own, succeeded, is_complete=is_complete)

    async def _write_job_status(
        self, job: Job, own: OwnedPods, succeeded: int, *, is_complete: bool
    ) -> None:
        conditions = [JobCondition(type="Complete", status="True")] if is_complete else None
        status = JobStatus(
            active=own.active_count,
            succeeded=succeeded,
            failed=max(own.failed, job.status.failed),
            conditions=job.status.conditions or conditions,
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


def _hash_label(workload: Workload) -> str:
    match workload:
        case Deployment():
            return TEMPLATE_HASH_LABEL
        case StatefulSet() | DaemonSet():
            return REVISION_LABEL
        case _:
            return ""


def _pod_template(workload: Workload, template: PodTemplateSpec, hash_label: str) -> PodTemplate:
    revision = sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]
    labels = dict(template.metadata.labels or {})
    if hash_label:
        labels[hash_label] = revision
    if isinstance(workload, Job):
        labels["batch.kubernetes.io/job-name"] = workload.metadata.name
    owner = OwnerReference(
        apiVersion=workload.apiVersion,
        kind=workload.kind,
        name=workload.metadata.name,
        uid=workload.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )
    return PodTemplate(revision, labels, template.spec, owner, template.metadata.annotations)


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


def _deletion_rank(pod: Pod, on_same_node: int) -> tuple[bool, int, bool, int, int]:
    annotations = pod.metadata.annotations or {}
    try:
        cost = int(annotations.get(DELETION_COST, "0"))
    except ValueError:
        cost = 0
    return (
        bool(pod.spec.nodeName),
        PHASE_ORDER.get(pod.status.phase, 2),
        is_ready(pod),
        cost,
        -on_same_node,
    )


def _deletion_age(pod: Pod) -> tuple[str, str]:
    """The youngest goes first: by when it became ready, then by its creation."""
    ready = next(
        (
            each.lastTransitionTime or ""
            for each in pod.status.conditions or ()
            if each.type == "Ready"
        ),
        "",
    )
    return ready, pod.metadata.creationTimestamp or ""


def _name_order(key: Key) -> tuple[Key, int]:
    prefix, number = _numbered(key)
    return prefix, -1 if number is None else number


def _ordinal(key: Key) -> int:
    return _name_order(key)[1]


def _is_complete(job: Job) -> bool:
    return any(
        each.type == "Complete" and each.status == "True" for each in job.status.conditions or ()
    )


def _has_completed(job: Job, succeeded: int, active: int) -> bool:
    if job.spec.completions is None:
        return succeeded > 0 and active == 0
    return succeeded >= job.spec.completions


def _job_parallelism(job: Job, succeeded: int, active: int) -> int:
    if job.spec.suspend:
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        # A work queue: once one has succeeded, nobody is started any more.
        return min(active, parallelism) if succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - succeeded))


def _daemon_toleration(key: str, effect: str) -> Toleration:
    return Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect)


DAEMON_TOLERATIONS: Final = (
    _daemon_toleration("not-ready", NO_EXECUTE),
    _daemon_toleration("unreachable", NO_EXECUTE),
    _daemon_toleration("disk-pressure", NO_SCHEDULE),
    _daemon_toleration("memory-pressure", NO_SCHEDULE),
    _daemon_toleration("pid-pressure", NO_SCHEDULE),
    _daemon_toleration("unschedulable", NO_SCHEDULE),
)
HOST_NETWORK_TOLERATION: Final = _daemon_toleration("network-unavailable", NO_SCHEDULE)
NODE_SEPARATOR: Final = "@"


class DaemonPods:
    """DaemonSets: one pod on each node that the template fits."""

    def __init__(self, workloads: WorkloadControllers, informers: Informers) -> None:
        self._workloads = workloads
        self._sets = informers.of(DaemonSet)
        self._nodes, self._pods = informers.of(Node), informers.of(Pod)
        self._worker = KeyedWorker(informers.clock, self._work)
        self._by_node: dict[tuple[Key, str], dict[Key, None]] = {}
        """The pods of a set for one node."""
        self._specs: dict[tuple[Key, str], tuple[str, PodSpec]] = {}
        self._first_revision: dict[Key, str] = {}
        self._sets.add_handler(self._set_changed)
        self._nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        await self._worker.run()

    def _set_changed(self, before: DaemonSet | None, after: DaemonSet | None) -> None:
        if after is None:
            if before is not None:
                self._first_revision.pop(key_of(before), None)
            return
        if before is None or before.spec is not after.spec:
            for node in self._nodes.objects:
                self._worker.add(f"{key_of(after)}{NODE_SEPARATOR}{node}")

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        node = after if after is not None else before
        assert node is not None
        is_same = (
            before is not None
            and after is not None
            and before.spec == after.spec
            and before.metadata.labels == after.metadata.labels
        )
        for key in self._sets.objects if not is_same else ():
            if after is None:
                self._specs.pop((key, node.metadata.name), None)
            self._worker.add(f"{key}{NODE_SEPARATOR}{node.metadata.name}")

    def pod_changed(self, set_key: Key, pod: Pod | None) -> None:
        if pod is None:
            return
        node = _target_node(pod)
        pods = self._by_node.setdefault((set_key, node), {})
        key = key_of(pod)
        current = self._pods.objects.get(key)
        if current is None:
            pods.pop(key, None)
            if not pods:
                del self._by_node[set_key, node]
        else:
            pods[key] = None
        if current is None or is_finished(current):
            self._worker.add(f"{set_key}{NODE_SEPARATOR}{node}")

    async def _work(self, work_key: str) -> None:
        set_key, _, node_name = work_key.partition(NODE_SEPARATOR)
        daemon_set = self._sets.objects.get(set_key)
        node = self._nodes.objects.get(node_name)
        if daemon_set is None or daemon_set.metadata.deletionTimestamp is not None:
            return
        pods = [
            (key, self._pods.objects[key])
            for key in self._by_node.get((set_key, node_name), ())
            if key in self._pods.objects
        ]
        template = self._workloads.template_of(daemon_set, REVISION_LABEL)
        if node is None or not _may_run(daemon_set, node, (NO_EXECUTE,)):
            await self._delete([key for key, _ in pods])
        elif not pods and _may_run(daemon_set, node, (NO_SCHEDULE, NO_EXECUTE)):
            spec = self._spec_for(set_key, template, node_name)
            await self._workloads.create_numbered_pod(daemon_set, template, spec)
        else:
            await self._replace(daemon_set, template, pods)

    async def _replace(
        self, daemon_set: DaemonSet, template: PodTemplate, pods: list[tuple[Key, Pod]]
    ) -> None:
        """Removes what has ended or is of an earlier template; the node is looked at again then."""
        strategy = daemon_set.spec.updateStrategy
        keeps_old = strategy is not None and strategy.type == "OnDelete"
        first = self._first_revision.setdefault(key_of(daemon_set), template.revision)
        await self._delete(
            [
                key
                for key, pod in pods
                if is_finished(pod)
                or (not keeps_old and (_revision(pod) or first) != template.revision)
            ]
        )

    async def _delete(self, keys: list[Key]) -> None:
        for key in keys:
            await self._workloads.delete_pod(key)

    def _spec_for(self, set_key: Key, template: PodTemplate, node: str) -> PodSpec:
        """The template for one node, made once: the API server knows a spec by its identity."""
        known = self._specs.get((set_key, node))
        if known is not None and known[0] == template.revision:
            return known[1]
        spec = daemon_spec(template.spec, node)
        self._specs[set_key, node] = (template.revision, spec)
        return spec


def _target_node(pod: Pod) -> str:
    return pod.spec.nodeName or next(iter(named_nodes(pod.spec) or ()), "")


def _may_run(daemon_set: DaemonSet, node: Node, effects: tuple[str, ...]) -> bool:
    spec = daemon_set.spec.template.spec
    labels = node.metadata.labels or {}
    if not matches_node_affinity(spec, labels, node.metadata.name):
        return False
    return first_untolerated(node.spec.taints, _daemon_tolerations(spec), effects) is None


def _daemon_tolerations(spec: PodSpec) -> list[Toleration]:
    network = [HOST_NETWORK_TOLERATION] if spec.hostNetwork else []
    return [*(spec.tolerations or ()), *DAEMON_TOLERATIONS, *network]


def daemon_spec(spec: PodSpec, node: str) -> PodSpec:
    """The template with what binds the pod to its node and keeps it there."""
    named = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=[node])
    required = required_node_selector(spec)
    terms = required.nodeSelectorTerms or [] if required is not None else [NodeSelectorTerm()]
    selector = NodeSelector(
        nodeSelectorTerms=[msgspec.structs.replace(term, matchFields=[named]) for term in terms]
    )
    affinity = spec.affinity or Affinity()
    node_affinity = msgspec.structs.replace(
        affinity.nodeAffinity or NodeAffinity(),
        requiredDuringSchedulingIgnoredDuringExecution=selector,
    )
    return msgspec.structs.replace(
        spec,
        affinity=msgspec.structs.replace(affinity, nodeAffinity=node_affinity),
        tolerations=_daemon_tolerations(spec),
    )
