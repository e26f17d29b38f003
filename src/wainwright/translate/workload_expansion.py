"""Workloads expanded into pods: those that Kubernetes' controllers have not created yet."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count

import msgspec

from wainwright.api.kubernetes.storage import PersistentVolumeClaimVolumeSource, Volume
from wainwright.api.kubernetes.workloads import (
    Deployment,
    Job,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import ObjectMeta, OwnerReference, WireStruct
from wainwright.translate.object_metadata import name_or_prefix, namespace_of

Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job
OwnerKey = tuple[str, str, str]
"""Kind, namespace and name of an object's owner."""


def expand_workloads(objects: Iterable[WireStruct]) -> list[Pod]:
    """The pods of the input, then those that its workloads still lack, in input order."""
    all_objects = list(objects)
    pods = [item for item in all_objects if isinstance(item, Pod)]
    workloads = [item for item in all_objects if isinstance(item, Workload)]
    if not workloads:
        return pods
    owners = _workload_owners(workloads)
    pod_counts = Counter(_root_owner(pod.metadata, owners) for pod in pods if _is_active(pod))
    names = PodNames(pods)
    for workload in workloads:
        if _controlling_owner(workload.metadata) is None:
            missing = _desired_pods(workload) - pod_counts[_workload_key(workload)]
            pods.extend(_missing_pods(workload, missing, names))
    return pods


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


def _workload_owners(workloads: list[Workload]) -> dict[OwnerKey, OwnerKey]:
    """The owner of each workload that has one, as a Deployment of its ReplicaSet."""
    owned = ((_workload_key(key), _controlling_owner(key.metadata)) for key in workloads)
    return {key: owner for key, owner in owned if owner is not None}


def _root_owner(metadata: ObjectMeta, owners: dict[OwnerKey, OwnerKey]) -> OwnerKey | None:
    owner = _controlling_owner(metadata)
    return owners.get(owner, owner) if owner is not None else None


def _is_active(pod: Pod) -> bool:
    """Whether the pod counts as a replica: workloads replace finished and terminating pods."""
    return pod.status.phase not in ("Succeeded", "Failed") and not pod.metadata.deletionTimestamp


def _desired_pods(workload: Workload) -> int:
    if not isinstance(workload, Job):
        return 1 if workload.spec.replicas is None else workload.spec.replicas
    if workload.spec.suspend:
        return 0
    parallelism = 1 if workload.spec.parallelism is None else workload.spec.parallelism
    if workload.spec.completions is None:
        return 0 if workload.status.succeeded else parallelism
    return max(0, min(parallelism, workload.spec.completions - workload.status.succeeded))


def _missing_pods(workload: Workload, missing: int, names: PodNames) -> Iterator[Pod]:
    """The missing pods; one that replaces a terminating pod gets its claims, but not its name."""
    pod_names, claim_names = _free_names(workload, names.used), _free_names(workload, names.active)
    for _ in range(missing):
        yield _pod_from_template(
            workload, next(pod_names), _claim_volumes(workload, next(claim_names))
        )


def _free_names(workload: Workload, used_names: set[tuple[str, str]]) -> Iterator[str]:
    """Unused names for the workload's pods; each is marked as used."""
    namespace, prefix = namespace_of(workload.metadata), name_or_prefix(workload.metadata)
    for ordinal in count(_first_ordinal(workload)):
        name = f"{prefix}-{ordinal}"
        if (namespace, name) not in used_names:
            used_names.add((namespace, name))
            yield name


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
