"""The pods of workloads: which there are, how they are named, made, and chosen for deletion."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.api.kubernetes.workloads import (
    DaemonSet,
    Deployment,
    Job,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import ObjectMeta, OwnerReference
from wainwright.cluster import Preconditions
from wainwright.controllers.runtime import Key
from wainwright.errors import AlreadyExistsError, ConflictError, ObjectNotFoundError
from wainwright.sim.evictions import is_ready
from wainwright.sim.informers import (
    Informers,
    key_of,
    object_key,
    split_key,
)
from wainwright.sim.node_info import is_finished

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
REVISION_LABEL: Final = "controller-revision-hash"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
PHASE_ORDER: Final = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}
FIRST_REVISION: Final = ""
"""Of pods without a revision: they are of the template that the workload was first seen with."""

Owner: TypeAlias = tuple[str, Key]
"""Kind and key of a workload."""
Workload: TypeAlias = (
    Deployment | ReplicaSet | ReplicationController | StatefulSet | Job | DaemonSet
)
OWNER_KINDS: Final[dict[str, type[Workload]]] = {
    kind.__name__: kind
    for kind in (Deployment, ReplicaSet, ReplicationController, StatefulSet, Job, DaemonSet)
}


class OwnedPodTemplate(NamedTuple):
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
            self.active.setdefault(revision_of(pod), {})[key] = None

    def drop(self, key: Key, pod: Pod) -> None:
        self.leaving.pop(key, None)
        self.finished.pop(key, None)
        of_revision = self.active.get(revision_of(pod))
        if of_revision is not None:
            of_revision.pop(key, None)
            if not of_revision:
                del self.active[revision_of(pod)]

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


def revision_of(pod: Pod) -> str:
    labels = pod.metadata.labels or {}
    return labels.get(TEMPLATE_HASH_LABEL) or labels.get(REVISION_LABEL) or FIRST_REVISION


class PodNumbers:
    """Which numbers are taken in the names of pods, by namespace and the name before them."""

    def __init__(self) -> None:
        self._taken: dict[Key, set[int]] = {}
        self._lowest: dict[Key, int] = {}
        """No number below is free."""

    def take(self, pod_key: Key) -> None:
        prefix, number = split_number(pod_key)
        if number is not None:
            self._taken.setdefault(prefix, set()).add(number)

    def free(self, pod_key: Key) -> None:
        prefix, number = split_number(pod_key)
        if number is not None:
            self._taken.get(prefix, set()).discard(number)
            self._lowest[prefix] = min(self._lowest.get(prefix, 0), number)

    def lowest_free(self, prefix: Key) -> int:
        taken, number = self._taken.get(prefix, ()), self._lowest.get(prefix, 0)
        while number in taken:
            number += 1
        self._lowest[prefix] = number
        return number


def split_number(pod_key: Key) -> tuple[Key, int | None]:
    prefix, _, number = pod_key.rpartition("-")
    return prefix, int(number) if number.isdecimal() else None


class PodControl:
    """Creates and deletes the pods of workloads."""

    def __init__(self, informers: Informers) -> None:
        self._cluster, self._pods = informers.cluster, informers.of(Pod)
        self.numbers = PodNumbers()
        self._deleted: set[str] = set()
        """Uids of pods that were deleted here and are not gone yet."""
        self._templates: dict[Owner, tuple[PodTemplateSpec, OwnedPodTemplate]] = {}

    def forget(self, owner: Owner) -> None:
        self._templates.pop(owner, None)

    def template_of(self, workload: Workload, hash_label: str) -> OwnedPodTemplate:
        owner = (workload.kind, key_of(workload))
        template = workload.spec.template
        known = self._templates.get(owner)
        if known is not None and (known[0] is template or known[0] == template):
            return known[1]
        made = _pod_template(workload, template, hash_label)
        self._templates[owner] = (template, made)
        return made

    async def create_pods(self, workload: Workload, number: int) -> None:
        template = self.template_of(workload, _hash_label(workload))
        for _ in range(number):
            await self.create_numbered_pod(workload, template, template.spec)

    async def create_pod(
        self,
        template: OwnedPodTemplate,
        namespace: str,
        name: str,
        *,
        spec: PodSpec | None = None,
        labels: dict[str, str] | None = None,
    ) -> bool:
        """False where there is a pod of that name. For an owner that is gone nothing is created."""
        if await self._is_owner_gone(template.owner, namespace):
            return True
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
            self.numbers.take(object_key(namespace, name))  # somebody else's, not seen yet
            return False
        return True

    async def _is_owner_gone(self, owner: OwnerReference, namespace: str) -> bool:
        """Asks the API server, as an informer may be behind it: the pods of an owner that is gone
        are collected at once, and would be created again and again at the same moment.
        """
        try:
            found = await self._cluster.get(OWNER_KINDS[owner.kind], owner.name, namespace)
        except ObjectNotFoundError:
            return True
        return found.metadata.uid != owner.uid

    async def create_numbered_pod(
        self, workload: Workload, template: OwnedPodTemplate, spec: PodSpec
    ) -> None:
        """With the lowest number that no pod has."""
        namespace, name = workload.metadata.namespace, workload.metadata.name
        is_created = False
        while not is_created:
            number = self.numbers.lowest_free(object_key(namespace, name))
            is_created = await self.create_pod(template, namespace, f"{name}-{number}", spec=spec)

    async def delete_pods(self, keys: list[Key]) -> None:
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
        self._deleted.add(pod.metadata.uid)

    def has_deleted(self, pod: Pod) -> bool:
        """Whether a pod that is gone was deleted here; asked once."""
        is_deleted = pod.metadata.uid in self._deleted
        self._deleted.discard(pod.metadata.uid)
        return is_deleted

    def deletion_order(self, keys: list[Key]) -> list[Key]:
        """As the ReplicaSet controller: first those whose end costs least."""
        pods = {key: self._pods.objects[key] for key in keys if key in self._pods.objects}
        on_node: dict[str, int] = {}
        for pod in pods.values():
            on_node[pod.spec.nodeName] = on_node.get(pod.spec.nodeName, 0) + 1
        # Names last and backwards, so that the highest number goes first of equals.
        ordered = sorted(pods, key=name_order, reverse=True)
        ordered.sort(key=lambda key: _deletion_age(pods[key]), reverse=True)
        ordered.sort(key=lambda key: _deletion_rank(pods[key], on_node[pods[key].spec.nodeName]))
        return ordered

    def is_ready(self, key: Key) -> bool:
        pod = self._pods.objects.get(key)
        return pod is not None and is_ready(pod)


def _hash_label(workload: Workload) -> str:
    match workload:
        case Deployment():
            return TEMPLATE_HASH_LABEL
        case StatefulSet() | DaemonSet():
            return REVISION_LABEL
        case _:
            return ""


def _pod_template(
    workload: Workload, template: PodTemplateSpec, hash_label: str
) -> OwnedPodTemplate:
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
    return OwnedPodTemplate(revision, labels, template.spec, owner, template.metadata.annotations)


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


def name_order(key: Key) -> tuple[Key, int]:
    prefix, number = split_number(key)
    return prefix, -1 if number is None else number
