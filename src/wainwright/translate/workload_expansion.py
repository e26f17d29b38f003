"""Workloads expanded into pods: those that Kubernetes' controllers have not created yet."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

import msgspec

from wainwright.api.kubernetes.storage import PersistentVolumeClaimVolumeSource, Volume
from wainwright.api.kubernetes.workloads import (
    Autoscaler,
    Deployment,
    Job,
    OwnedObject,
    Pod,
    PodSet,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import ObjectMeta, OwnerReference, WireStruct
from wainwright.errors import InvalidInputError
from wainwright.model.input_remarks import InputRemark, RemarkKind
from wainwright.translate.object_metadata import name_or_prefix, namespace_of

Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job | PodSet
OwnerKey = tuple[str, str, str]
"""Kind, namespace and name of an object's owner."""

POD_LIMIT: Final = 200_000
"""How many pods an input may have unless told otherwise: more is rather a mistyped number."""
MAX_OWNERS: Final = 8  # from a pod to what created it in the end; ends a cycle of owners


def expand_workloads(
    objects: Iterable[WireStruct], *, maximum: bool = False, limit: int | None = None
) -> list[Pod]:
    """The pods of the input, then those that its workloads still lack, in input order.

    With `maximum`, workloads that are scaled have as many replicas as they may. Raises
    InvalidInputError where there are more than `limit`, before any of them takes memory.
    """
    all_objects = list(objects)
    pods = [item for item in all_objects if isinstance(item, Pod)]
    missing = _missing_counts(all_objects, pods, maximum=maximum)
    if limit is not None:
        _check_pod_count(len(pods), missing, limit)
    names = PodNames(pods) if missing else PodNames(())
    for workload, number in missing:
        pods.extend(_missing_pods(workload, number, names))
    return pods


def check_pod_count(objects: Iterable[WireStruct], limit: int, *, maximum: bool = False) -> None:
    """Raises InvalidInputError where the objects come to more pods than that."""
    all_objects = list(objects)
    pods = [item for item in all_objects if isinstance(item, Pod)]
    _check_pod_count(len(pods), _missing_counts(all_objects, pods, maximum=maximum), limit)


class DeclaredPods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of objects, and those that workloads which nobody owns should have."""

    pods: int
    wanted: dict[OwnerKey, int]
    live: dict[OwnerKey, int]
    """How many of the pods count for a workload."""


def count_pods(objects: Iterable[WireStruct], *, named_pods: bool = False) -> DeclaredPods:
    """With `named_pods`, pods are counted by their names, as workloads of one replica."""
    all_objects = list(objects)
    pods = [item for item in all_objects if isinstance(item, Pod)]
    wanted, live = dict[OwnerKey, int](), dict[OwnerKey, int]()
    replica_counts = ReplicaCounts(all_objects)
    for workload, missing in _missing_counts(all_objects, pods, maximum=False):
        desired = replica_counts.desired_pods(workload)
        wanted[_workload_key(workload)] = desired
        live[_workload_key(workload)] = desired - missing
    if named_pods:
        wanted.update(
            {("Pod", namespace_of(each.metadata), each.metadata.name): 1 for each in pods}
        )
    return DeclaredPods(pods=0 if named_pods else len(pods), wanted=wanted, live=live)


def _missing_counts(
    objects: list[WireStruct], pods: list[Pod], *, maximum: bool
) -> list[tuple[Workload, int]]:
    """How many pods each workload that nobody owns still lacks."""
    workloads = [item for item in objects if isinstance(item, Workload)]
    if not workloads:
        return []
    live = _LivePods(pods, workloads, _object_owners(objects))
    replica_counts = ReplicaCounts(objects, maximum=maximum)
    return [
        (workload, live.missing(workload, replica_counts.desired_pods(workload)))
        for workload in workloads
        if _controlling_owner(workload.metadata) is None
    ]


def _check_pod_count(pods: int, missing: Iterable[tuple[Workload, int]], limit: int) -> None:
    numbers = [(max(0, number), workload) for workload, number in missing]
    total = pods + sum(number for number, _ in numbers)
    if total <= limit:
        return
    most, workload = max(numbers, key=lambda each: each[0], default=(0, None))
    largest = "" if workload is None else f", {most:,} of them of {_workload_text(workload)}"
    raise InvalidInputError(
        f"the input has {total:,} pods{largest}; at most {limit:,} are read",
        hint="is a number of replicas mistyped? --pod-limit raises the limit",
    )


def _workload_text(workload: Workload) -> str:
    namespace, name = namespace_of(workload.metadata), name_or_prefix(workload.metadata)
    return f"{workload.kind} {namespace}/{name}"


class ReplicaCounts:
    """How many pods workloads should have, with the autoscalers of the input."""

    def __init__(self, objects: Iterable[WireStruct], *, maximum: bool = False) -> None:
        self._maximum = maximum
        self._autoscalers = {
            (each.target_kind, namespace_of(each.metadata), each.target_name): each
            for each in objects
            if isinstance(each, Autoscaler)
        }

    def autoscaler_of(self, workload: Workload) -> Autoscaler | None:
        return self._autoscalers.get(_workload_key(workload)) if self._autoscalers else None

    def desired_pods(self, workload: Workload) -> int:
        if isinstance(workload, Job):
            return _job_pods(workload)
        replicas = self._replicas(workload, self.autoscaler_of(workload))
        if not isinstance(workload, PodSet):
            return replicas
        return 0 if workload.spec.suspended else replicas * workload.spec.pods_per_replica

    def _replicas(self, workload: Workload, autoscaler: Autoscaler | None) -> int:
        stated = stated_replicas(workload)
        if (
            self._maximum
            and autoscaler is not None
            and (stated != 0 or autoscaler.scales_from_zero)
        ):
            return autoscaler.maximum
        if stated is None:
            stated = _default_replicas(workload) if autoscaler is None else autoscaler.minimum
        if self._maximum and isinstance(workload, PodSet):
            return max(stated, workload.spec.maximum or 0)
        return stated


def stated_replicas(workload: Workload) -> int | None:
    return None if isinstance(workload, Job) else workload.spec.replicas


def _default_replicas(workload: Workload) -> int:
    return workload.spec.default_replicas if isinstance(workload, PodSet) else 1


def _job_pods(job: Job) -> int:
    if job.spec.suspend:
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return 0 if job.status.succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - job.status.succeeded))


def autoscaling_remarks(
    objects: Iterable[WireStruct], *, maximum: bool = False
) -> Iterator[InputRemark]:
    """Where the number of replicas is an autoscaler's, and where it would be another one."""
    all_objects = list(objects)
    counts = ReplicaCounts(all_objects, maximum=maximum)
    by_kind: dict[RemarkKind, dict[str, None]] = defaultdict(dict)
    scaled = set()
    for workload in all_objects:
        autoscaler = counts.autoscaler_of(workload) if isinstance(workload, Workload) else None
        if autoscaler is not None and isinstance(workload, Workload):
            scaled.add(id(autoscaler))
            kind, text = _autoscaling_remark(workload, autoscaler, maximum)
            if kind is not None:
                by_kind[kind][text] = None
    for each in all_objects:
        if isinstance(each, Autoscaler) and id(each) not in scaled:
            by_kind[RemarkKind.AUTOSCALER_WITHOUT_WORKLOAD][_autoscaler_text(each)] = None
    for kind, texts in by_kind.items():
        yield InputRemark(kind=kind, workloads=tuple(sorted(texts)))


def _autoscaling_remark(
    workload: Workload, autoscaler: Autoscaler, maximum: bool
) -> tuple[RemarkKind | None, str]:
    stated = stated_replicas(workload)
    name = _workload_text(workload)
    if maximum and (stated != 0 or autoscaler.scales_from_zero):
        return RemarkKind.MAXIMUM_REPLICAS, f"{name} ({autoscaler.maximum})"
    if stated is None:
        return RemarkKind.MINIMUM_REPLICAS, f"{name} ({autoscaler.minimum})"
    if 0 < stated < autoscaler.minimum:
        text = f"{name} ({stated}, at least {autoscaler.minimum})"
        return RemarkKind.FEWER_THAN_MINIMUM, text
    return None, ""


def _autoscaler_text(autoscaler: Autoscaler) -> str:
    namespace, name = namespace_of(autoscaler.metadata), name_or_prefix(autoscaler.metadata)
    target = f"{autoscaler.target_kind} {autoscaler.target_name}"
    return f"{autoscaler.kind} {namespace}/{name} ({target})"


class PodNames:
    """Namespace and name of all pods of the input, and of the active ones."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.used: set[tuple[str, str]] = set()
        self.active: set[tuple[str, str]] = set()
        for pod in pods:
            name = (namespace_of(pod.metadata), pod.metadata.name)
            self.used.add(name)
            if _is_active(pod):
                self.active.add(name)


def _workload_key(workload: Workload) -> OwnerKey:
    return workload.kind, namespace_of(workload.metadata), workload.metadata.name


def _controlling_owner(metadata: ObjectMeta) -> OwnerKey | None:
    for reference in metadata.ownerReferences or ():
        if reference.controller is not False:
            return reference.kind, namespace_of(metadata), reference.name
    return None


def _object_owners(objects: list[WireStruct]) -> dict[OwnerKey, OwnerKey]:
    """The owner of each object that has one, as a Deployment of its ReplicaSet."""
    # A driver of Spark owns its executors; without such kinds no pod is an owner.
    has_pod_sets = any(isinstance(item, PodSet) for item in objects)
    return {
        (item.kind, namespace_of(item.metadata), item.metadata.name): owner
        for item in objects
        if isinstance(item, Workload) or (has_pod_sets and isinstance(item, OwnedObject | Pod))
        if (owner := _controlling_owner(item.metadata)) is not None
    }


def _is_active(pod: Pod) -> bool:
    """Whether the pod counts as a replica: workloads replace finished and terminating pods."""
    return pod.status.phase not in ("Succeeded", "Failed") and not pod.metadata.deletionTimestamp


class _LivePods:
    """The active pods of the input, by what created them in the end."""

    def __init__(
        self,
        pods: Iterable[Pod],
        workloads: Iterable[Workload],
        owners: dict[OwnerKey, OwnerKey],
    ) -> None:
        self._sets: dict[OwnerKey, list[PodSet]] = defaultdict(list)
        for workload in workloads:
            if isinstance(workload, PodSet):
                self._sets[_workload_key(workload)].append(workload)
        self._names: dict[OwnerKey, list[str]] = defaultdict(list)
        for pod in pods:
            owner = _controlling_owner(pod.metadata)
            if owner is not None and _is_active(pod):
                self._names[_root_owner(owner, owners)].append(pod.metadata.name)

    def missing(self, workload: Workload, desired: int) -> int:
        """How many are not there yet.

        A pod counts for the set that its name tells, else for the first that lacks one.
        """
        key = _workload_key(workload)
        names = self._names.get(key)
        if not names:
            return desired
        if not isinstance(workload, PodSet):
            return desired - len(names)
        others = [each for each in self._sets[key] if each is not workload]
        may_be_own = [
            name
            for name in names
            if _is_of_set(name, workload) or not any(_is_of_set(name, each) for each in others)
        ]
        own = sorted(may_be_own, key=lambda name: not _is_of_set(name, workload))[:desired]
        taken = set(own)
        self._names[key] = [name for name in names if name not in taken]
        return desired - len(own)


def _root_owner(owner: OwnerKey, owners: dict[OwnerKey, OwnerKey]) -> OwnerKey:
    for _ in range(MAX_OWNERS):
        above = owners.get(owner)
        if above is None:
            break
        owner = above
    return owner


def _is_of_set(name: str, pod_set: PodSet) -> bool:
    """Whether the pod's name has that of the set in it, as operators name pods."""
    rest = name.removeprefix(pod_set.metadata.name)
    return (
        bool(pod_set.name) and re.search(rf"(^|-){re.escape(pod_set.name)}(-|$)", rest) is not None
    )


def _missing_pods(workload: Workload, missing: int, names: PodNames) -> Iterator[Pod]:
    """The missing pods; one that replaces a terminating pod gets its claims, but not its name."""
    pod_names, claim_names = _free_names(workload, names.used), _free_names(workload, names.active)
    for _ in range(missing):
        yield _pod_from_template(
            workload, next(pod_names), _claim_volumes(workload, next(claim_names))
        )


def _free_names(workload: Workload, used_names: set[tuple[str, str]]) -> Iterator[str]:
    """Unused names for the workload's pods; each is marked as used."""
    namespace, prefix = namespace_of(workload.metadata), _pod_prefix(workload)
    for ordinal in count(_first_ordinal(workload)):
        name = f"{prefix}-{ordinal}"
        if (namespace, name) not in used_names:
            used_names.add((namespace, name))
            yield name


def _pod_prefix(workload: Workload) -> str:
    name = name_or_prefix(workload.metadata)
    return f"{name}-{workload.name}" if isinstance(workload, PodSet) and workload.name else name


def _first_ordinal(workload: Workload) -> int:
    ordinals = workload.spec.ordinals if isinstance(workload, StatefulSet) else None
    return ordinals.start if ordinals is not None else 0


def _pod_from_template(workload: Workload, name: str, claims: list[Volume]) -> Pod:
    template = workload.spec.template
    owner = OwnerReference(
        apiVersion=workload.apiVersion,
        kind=workload.kind,
        name=name_or_prefix(workload.metadata),
        uid=workload.metadata.uid,
        controller=True,
    )
    metadata = ObjectMeta(
        name=name,
        namespace=namespace_of(workload.metadata),
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        ownerReferences=[owner],
    )
    spec = template.spec
    if claims:
        volumes = [
            volume
            for volume in spec.volumes or ()
            if volume.name not in {claim.name for claim in claims}
        ]
        spec = msgspec.structs.replace(spec, volumes=[*volumes, *claims])
    return Pod(metadata=metadata, spec=spec)


def _claim_volumes(workload: Workload, pod: str) -> list[Volume]:
    """The volumes that a StatefulSet's claim templates give each of its pods."""
    templates = workload.spec.volumeClaimTemplates if isinstance(workload, StatefulSet) else None
    return [
        Volume(
            name=template.metadata.name,
            persistentVolumeClaim=PersistentVolumeClaimVolumeSource(
                claimName=f"{template.metadata.name}-{pod}"
            ),
        )
        for template in templates or ()
    ]
