"""Helpers for object metadata: namespace, name, owners, timestamps."""

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
    """The name, or generateName's prefix where the API server chooses the rest."""
    return metadata.name or metadata.generateName.rstrip("-.")


def has_owner_kind(metadata: ObjectMeta, kind: str) -> bool:
    return any(owner.kind == kind for owner in metadata.ownerReferences or ())


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The owner that is the object's controller, if any."""
    owners: Iterable[OwnerReference] = metadata.ownerReferences or ()
    return next((owner for owner in owners if owner.controller), None)


def parse_timestamp(text: str | None) -> float | None:
    """Seconds since 1970; None where the text is no timestamp with a time zone."""
    if not text:
        return None
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    # Without an offset the result would depend on the local time zone.
    return timestamp.timestamp() if timestamp.tzinfo is not None else None


def assign_names(pods: Iterable[Pod]) -> list[Pod]:
    """The pods, each with a name: generateName numbered from 0 in input order where it has none."""
    all_pods = list(pods)
    if all(pod.metadata.name for pod in all_pods):  # the usual case, without a copy
        return all_pods
    used_names = {(namespace_of(pod.metadata), pod.metadata.name) for pod in all_pods}
    numbers: dict[tuple[str, str], Iterator[int]] = defaultdict(count)
    named_pods = []
    for pod in all_pods:
        namespace, prefix = namespace_of(pod.metadata), pod.metadata.generateName
        name = pod.metadata.name
        while (namespace, name) in used_names and not pod.metadata.name:
            name = f"{prefix}{next(numbers[namespace, prefix])}"
        named_pods.append(pod if name == pod.metadata.name else _with_name(pod, name))
    return named_pods


def _with_name(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))
