"""What many translations ask of an object's metadata: namespace, name, owners, timestamps."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import count

import msgspec

from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta, OwnerReference


def namespace_of(metadata: ObjectMeta) -> str:
    return metadata.namespace or "default"


def name_or_prefix(metadata: ObjectMeta) -> str:
    """The name, or how it begins where the API server is to choose the rest."""
    return metadata.name or metadata.generateName.rstrip("-.")


def has_owner_kind(metadata: ObjectMeta, kind: str) -> bool:
    return any(owner.kind == kind for owner in metadata.ownerReferences or ())


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The one owner that says it is in control."""
    owners: Iterable[OwnerReference] = metadata.ownerReferences or ()
    return next((owner for owner in owners if owner.controller), None)


def parse_timestamp(written: str | None) -> float | None:
    """Seconds since 1970; None where it is no moment."""
    if not written:
        return None
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    # Without an offset the answer would hang on where this machine stands.
    return moment.timestamp() if moment.tzinfo is not None else None


def assign_names(pods: Iterable[Pod]) -> list[Pod]:
    """The pods with a name each, numbered from 0 in the order given where they had none."""
    given = list(pods)
    if all(pod.metadata.name for pod in given):
        return given
    taken = {(namespace_of(pod.metadata), pod.metadata.name) for pod in given}
    numbers: dict[tuple[str, str], Iterator[int]] = defaultdict(count)
    made = []
    for pod in given:
        space, beginning = namespace_of(pod.metadata), pod.metadata.generateName
        name = pod.metadata.name
        while (space, name) in taken and not pod.metadata.name:
            name = f"{beginning}{next(numbers[space, beginning])}"
        made.append(pod if name == pod.metadata.name else _with_name(pod, name))
    return made


def _with_name(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))
