"""Pods resized where they run: the node keeps the larger of what was asked and what was given."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.api.builtin.part import Resources, amount
from wainwright.api.builtin.pod import Container, ContainerStatus, Pod, PodSpec
from wainwright.manifests.translate.requests import is_sidecar

PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"


def as_given(pod: Pod) -> PodSpec:
    """The spec with requests as the node counts them; the very spec if nothing was resized."""
    given = _given(pod)
    if not given:
        return pod.spec
    drop = _is_infeasible(pod)
    containers = [_resized(one, given.get(one.name), drop=drop) for one in _list(pod.spec)]
    sidecars = [
        _resized(one, given.get(one.name) if is_sidecar(one) else None, drop=drop)
        for one in pod.spec.initContainers or ()
    ]
    before = [*_list(pod.spec), *(pod.spec.initContainers or ())]
    if all(new is old for new, old in zip([*containers, *sidecars], before, strict=True)):
        return pod.spec
    return msgspec.structs.replace(pod.spec, containers=containers, initContainers=sidecars)


def _list(spec: PodSpec) -> list[Container]:
    return spec.containers or []


def _given(pod: Pod) -> dict[str, ContainerStatus]:
    statuses = (pod.status.containerStatuses, pod.status.initContainerStatuses)
    return {
        each.name: each
        for listed in statuses
        for each in listed or ()
        if each.resources is not None
    }


def _is_infeasible(pod: Pod) -> bool:
    """A wish that the node has refused for good no longer counts."""
    return any(
        condition.type == PENDING and condition.reason == INFEASIBLE
        for condition in pod.status.conditions or ()
    )


def _resized(container: Container, status: ContainerStatus | None, *, drop: bool) -> Container:
    asked = container.resources.requests or {}
    if status is None or status.resources is None:
        return container
    actual, allocated = status.resources.requests or {}, status.allocatedResources or {}
    # Mostly all three are the same text, and then nothing needs to be read.
    if (actual == asked or not actual) and (allocated == asked or not allocated):
        return container
    larger = _larger(_larger({} if drop else asked, actual), allocated)
    resources = msgspec.structs.replace(container.resources, requests=larger)
    return msgspec.structs.replace(container, resources=resources)


def _larger(left: Mapping[str, int | float | str], right: Resources) -> Resources:
    found = dict(left)
    for name, written in right.items():
        if name not in found or amount(found[name]) < amount(written):
            found[name] = written
    return found
