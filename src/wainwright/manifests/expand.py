"""Workloads into pods: what the controllers of Kubernetes would create, and has not been yet."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count

import msgspec

from wainwright.api.builtin.pod import Pod
from wainwright.api.builtin.volume import ClaimVolume, Volume
from wainwright.api.builtin.workloads import (
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import Metadata, OwnerReference, Wire

Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job
Owner = tuple[str, str, str]
"""Kind, namespace and name of whoever made an object."""


def expanded(objects: Iterable[Wire]) -> list[Pod]:
    """The pods of the input, then those that its workloads still lack, in the input's order."""
    given = list(objects)
    pods = [item for item in given if isinstance(item, Pod)]
    workloads = [item for item in given if isinstance(item, Workload)]
    if not workloads:
        return pods
    owners = _owners(workloads)
    have = Counter(_root(pod.metadata, owners) for pod in pods if _counts(pod))
    names = Names(pods)
    for workload in workloads:
        if _owner(workload.metadata) is None:
            lacking = _wanted(workload) - have[_identity(workload)]
            pods.extend(_made(workload, lacking, names))
    return pods


class Names:
    """Namespace and name of the pods that are there, and of those that stay."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.taken: set[tuple[str, str]] = set()
        self.standing: set[tuple[str, str]] = set()
        for pod in pods:
            name = (namespace(pod.metadata), pod.metadata.name)
            self.taken.add(name)
            if _counts(pod):
                self.standing.add(name)


def namespace(metadata: Metadata) -> str:
    return metadata.namespace or "default"


def name_of(metadata: Metadata) -> str:
    """The name, or how it begins where the API server is to choose the rest."""
    return metadata.name or metadata.generateName.rstrip("-.")


def _identity(workload: Workload) -> Owner:
    return workload.kind, namespace(workload.metadata), workload.metadata.name


def _owner(metadata: Metadata) -> Owner | None:
    for reference in metadata.ownerReferences or ():
        if reference.controller is not False:
            return reference.kind, namespace(metadata), reference.name
    return None


def _owners(workloads: list[Workload]) -> dict[Owner, Owner]:
    """Who made which workload: a ReplicaSet belongs to its Deployment."""
    made = ((_identity(one), _owner(one.metadata)) for one in workloads)
    return {one: owner for one, owner in made if owner is not None}


def _root(metadata: Metadata, owners: dict[Owner, Owner]) -> Owner | None:
    owner = _owner(metadata)
    return owners.get(owner, owner) if owner is not None else None


def _counts(pod: Pod) -> bool:
    """A pod that is done, or on its way out, is one that its workload replaces."""
    return pod.status.phase not in ("Succeeded", "Failed") and not pod.metadata.deletionTimestamp


def _wanted(workload: Workload) -> int:
    if not isinstance(workload, Job):
        return 1 if workload.spec.replicas is None else workload.spec.replicas
    if workload.spec.suspend:
        return 0
    parallel = 1 if workload.spec.parallelism is None else workload.spec.parallelism
    if workload.spec.completions is None:
        return 0 if workload.status.succeeded else parallel
    return max(0, min(parallel, workload.spec.completions - workload.status.succeeded))


def _made(workload: Workload, lacking: int, names: Names) -> Iterator[Pod]:
    """A pod in place of one on its way out gets the claims of that, but not its name yet."""
    free, due = _numbered(workload, names.taken), _numbered(workload, names.standing)
    for _ in range(lacking):
        yield _pod(workload, next(free), _claims(workload, next(due)))


def _numbered(workload: Workload, known: set[tuple[str, str]]) -> Iterator[str]:
    """Names of its pods that are not known yet; each then is."""
    space, beginning = namespace(workload.metadata), name_of(workload.metadata)
    for number in count(_first(workload)):
        name = f"{beginning}-{number}"
        if (space, name) not in known:
            known.add((space, name))
            yield name


def _first(workload: Workload) -> int:
    ordinals = workload.spec.ordinals if isinstance(workload, StatefulSet) else None
    return ordinals.start if ordinals is not None else 0


def _pod(workload: Workload, name: str, claims: list[Volume]) -> Pod:
    template = workload.spec.template
    owner = OwnerReference(
        apiVersion=workload.apiVersion,
        kind=workload.kind,
        name=name_of(workload.metadata),
        uid=workload.metadata.uid,
        controller=True,
    )
    metadata = Metadata(
        name=name,
        namespace=namespace(workload.metadata),
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        ownerReferences=[owner],
    )
    spec = template.spec
    if claims:
        kept = [one for one in spec.volumes or () if one.name not in {c.name for c in claims}]
        spec = msgspec.structs.replace(spec, volumes=[*kept, *claims])
    return Pod(metadata=metadata, spec=spec)


def _claims(workload: Workload, pod: str) -> list[Volume]:
    """The volumes that a StatefulSet's claim templates give each of its pods."""
    templates = workload.spec.volumeClaimTemplates if isinstance(workload, StatefulSet) else None
    return [
        Volume(
            name=template.metadata.name,
            persistentVolumeClaim=ClaimVolume(claimName=f"{template.metadata.name}-{pod}"),
        )
        for template in templates or ()
    ]
