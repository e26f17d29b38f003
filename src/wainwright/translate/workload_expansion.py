"""Workloads expanded into pods: what Kubernetes' controllers would create and has not been yet."""

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
"""Kind, namespace and name of whoever made an object."""


def expand_workloads(objects: Iterable[WireStruct]) -> list[Pod]:
    """The pods of the input, then those that its workloads still lack, in the input's order."""
    given = list(objects)
    pods = [item for item in given if isinstance(item, Pod)]
    workloads = [item for item in given if isinstance(item, Workload)]
    if not workloads:
        return pods
    owners = _workload_owners(workloads)
    have = Counter(_root_owner(pod.metadata, owners) for pod in pods if _is_active(pod))
    names = PodNames(pods)
    for workload in workloads:
        if _controlling_owner(workload.metadata) is None:
            lacking = _desired_pods(workload) - have[_workload_key(workload)]
            pods.extend(_missing_pods(workload, lacking, names))
    return pods


class PodNames:
    """Namespace and name of the pods that are there, and of those that stay."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.taken: set[tuple[str, str]] = set()
        self.standing: set[tuple[str, str]] = set()
        for pod in pods:
            name = (namespace_of(pod.metadata), pod.metadata.name)
            self.taken.add(name)
            if _is_active(pod):
                self.standing.add(name)


def _workload_key(workload: Workload) -> OwnerKey:
    return workload.kind, namespace_of(workload.metadata), workload.metadata.name


def _controlling_owner(metadata: ObjectMeta) -> OwnerKey | None:
    for reference in metadata.ownerReferences or ():
        if reference.controller is not False:
            return reference.kind, namespace_of(metadata), reference.name
    return None


def _workload_owners(workloads: list[Workload]) -> dict[OwnerKey, OwnerKey]:
    """Who made which workload: a ReplicaSet belongs to its Deployment."""
    made = ((_workload_key(one), _controlling_owner(one.metadata)) for one in workloads)
    return {one: owner for one, owner in made if owner is not None}


def _root_owner(metadata: ObjectMeta, owners: dict[OwnerKey, OwnerKey]) -> OwnerKey | None:
    owner = _controlling_owner(metadata)
    return owners.get(owner, owner) if owner is not None else None


def _is_active(pod: Pod) -> bool:
    """A pod that is done, or on its way out, is one that its workload replaces."""
    return pod.status.phase not in ("Succeeded", "Failed") and not pod.metadata.deletionTimestamp


def _desired_pods(workload: Workload) -> int:
    if not isinstance(workload, Job):
        return 1 if workload.spec.replicas is None else workload.spec.replicas
    if workload.spec.suspend:
        return 0
    parallel = 1 if workload.spec.parallelism is None else workload.spec.parallelism
    if workload.spec.completions is None:
        return 0 if workload.status.succeeded else parallel
    return max(0, min(parallel, workload.spec.completions - workload.status.succeeded))


def _missing_pods(workload: Workload, lacking: int, names: PodNames) -> Iterator[Pod]:
    """A pod in place of one on its way out gets the claims of that, but not its name yet."""
    free, due = _free_names(workload, names.taken), _free_names(workload, names.standing)
    for _ in range(lacking):
        yield _pod_from_template(workload, next(free), _claim_volumes(workload, next(due)))


def _free_names(workload: Workload, known: set[tuple[str, str]]) -> Iterator[str]:
    """Names of its pods that are not known yet; each then is."""
    space, beginning = namespace_of(workload.metadata), name_or_prefix(workload.metadata)
    for number in count(_first_ordinal(workload)):
        name = f"{beginning}-{number}"
        if (space, name) not in known:
            known.add((space, name))
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
        kept = [one for one in spec.volumes or () if one.name not in {c.name for c in claims}]
        spec = msgspec.structs.replace(spec, volumes=[*kept, *claims])
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
