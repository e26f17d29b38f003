"""Pods resized where they run: the node keeps the larger of what was asked and what was given."""

from collections.abc import Iterable
from typing import Final

import msgspec

from wainwright.api.builtin.part import Resources, amount
from wainwright.api.builtin.pod import Container, ContainerStatus, Pod, PodSpec
from wainwright.manifests.translate.requests import is_sidecar

PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"


def as_given(pod: Pod) -> PodSpec:
    """The spec with requests as the node counts them; the very spec if nothing was resized."""
    spec, given = pod.spec, _given(pod)
    if not given:
        return spec
    # A wish that the node has refused for good no longer counts.
    refused = _is_refused(pod)
    containers = [
        _resized(each, given.get(each.name), refused=refused) for each in spec.containers or ()
    ]
    starting = [
        _resized(each, given.get(each.name) if is_sidecar(each) else None, refused=refused)
        for each in spec.initContainers or ()
    ]
    if _is_same(containers, spec.containers) and _is_same(starting, spec.initContainers):
        return spec
    return msgspec.structs.replace(spec, containers=containers, initContainers=starting)


def _given(pod: Pod) -> dict[str, ContainerStatus]:
    listed = [*(pod.status.containerStatuses or ()), *(pod.status.initContainerStatuses or ())]
    return {each.name: each for each in listed if each.resources is not None}


def _is_refused(pod: Pod) -> bool:
    return any(
        condition.type == PENDING and condition.reason == INFEASIBLE
        for condition in pod.status.conditions or ()
    )


def _is_same(made: list[Container], given: Iterable[Container] | None) -> bool:
    return all(new is old for new, old in zip(made, given or (), strict=True))


def _resized(container: Container, status: ContainerStatus | None, *, refused: bool) -> Container:
    asked = container.resources.requests or {}
    if status is None or status.resources is None:
        return container
    actual, allocated = status.resources.requests or {}, status.allocatedResources or {}
    # Mostly all three are the same text, and then nothing needs to be read.
    if (actual == asked or not actual) and (allocated == asked or not allocated):
        return container
    counted = _larger(_larger({} if refused else asked, actual), allocated)
    resources = msgspec.structs.replace(container.resources, requests=counted)
    return msgspec.structs.replace(container, resources=resources)


def _larger(left: Resources, right: Resources) -> Resources:
    found = dict(left)
    for name, written in right.items():
        if name not in found or amount(found[name]) < amount(written):
            found[name] = written
    return found
