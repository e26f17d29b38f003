"""What a pod requests of a node in all, counted as the scheduler counts it, and what nodes offer.

Containers run side by side, so their requests add up. Init containers run one after the other, each
beside the sidecars started before it, so the largest moment counts. With a container of 1 cpu, a
sidecar of 500m and, started after it, an init container of 2 cpu, the pod needs max(1.5, 2.5) = 2.5
cpu. Of a pod that was resized where it runs, the larger of requested and allocated counts.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.api.kubernetes.cluster import RuntimeClass, RuntimeClassScheduling
from wainwright.api.kubernetes.meta import QuantityValue, ResourceList, to_quantity
from wainwright.api.kubernetes.workloads import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
    Toleration,
)
from wainwright.model.resources import (
    CPU,
    HUGE_PAGES_PREFIX,
    MEMORY,
    add_resources,
    capacity_from_nano,
    max_resources,
    request_from_nano,
    sort_resources,
)


def translate_capacity(written: Mapping[str, QuantityValue] | None) -> dict[str, int]:
    """Capacities and limits: what is not whole does not count."""
    found = {
        name: capacity_from_nano(name, to_quantity(each).nano)
        for name, each in (written or {}).items()
    }
    return sort_resources(found)


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server adds to a pod that names its class."""

    overhead: ResourceList | None = None
    selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] = ()


DEFAULT_RUNTIME: Final = RuntimeSettings()


class RuntimeClasses:
    def __init__(self, classes: Iterable[RuntimeClass]) -> None:
        self._by_name = {each.metadata.name: _runtime_settings(each) for each in classes}

    def of(self, spec: PodSpec) -> RuntimeSettings:
        return self._by_name.get(spec.runtimeClassName or "", DEFAULT_RUNTIME)

    def unknown(self, spec: PodSpec) -> str | None:
        """The class that is not in the input, so that nobody knows what it costs."""
        name = spec.runtimeClassName
        known = not name or name in self._by_name or spec.overhead is not None
        return None if known else name


def _runtime_settings(written: RuntimeClass) -> RuntimeSettings:
    scheduling = written.scheduling or RuntimeClassScheduling()
    return RuntimeSettings(
        overhead=written.overhead.podFixed if written.overhead is not None else None,
        selector=scheduling.nodeSelector,
        tolerations=tuple(scheduling.tolerations or ()),
    )


SIDECAR_RESTART_POLICY: Final = "Always"
NANO_PER_MILLI: Final = 10**6

MilliAmounts = Mapping[str, int]
"""Amounts in thousandths, to which the API server rounds each of them up when it stores a pod."""


def pod_requests(spec: PodSpec, overhead: ResourceList | None = None) -> dict[str, int]:
    """Requests of the whole pod; `overhead` is its runtime's, where the spec states none."""
    together = _container_requests(spec)
    together = {**together, **_pod_level_requests(spec.resources, together)}
    return _round_up(add_resources(together, _to_milli(_overhead(spec, overhead))))


def pod_overhead(spec: PodSpec, overhead: ResourceList | None = None) -> dict[str, int] | None:
    """What of it nobody wrote as a request, as it is for the runtime; None where that is none."""
    return _round_up(_to_milli(_overhead(spec, overhead))) or None


def _overhead(spec: PodSpec, overhead: ResourceList | None) -> ResourceList | None:
    return overhead if spec.overhead is None else spec.overhead


def _round_up(amounts: MilliAmounts) -> dict[str, int]:
    whole = {name: request_from_nano(name, each * NANO_PER_MILLI) for name, each in amounts.items()}
    return sort_resources({name: each for name, each in whole.items() if each})


def _container_requests(spec: PodSpec) -> dict[str, int]:
    running = _sum(_requests_or_limits(container.resources) for container in spec.containers or ())
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.initContainers or ():
        own = _requests_or_limits(container.resources)
        moment = add_resources(sidecars, own)
        peak = max_resources(peak, moment)
        if is_sidecar(container):
            sidecars = moment
    return max_resources(add_resources(running, sidecars), peak)


def is_sidecar(container: Container) -> bool:
    """Of an init container: whether it runs as long as the pod does."""
    return container.restartPolicy == SIDECAR_RESTART_POLICY


def _pod_level_requests(
    stated: ResourceRequirements | None, containers: MilliAmounts
) -> dict[str, int]:
    """What is stated for the pod as a whole and stands in place of its containers' sum.

    A limit alone stands for a resource that no container names, and always for huge pages, of
    which nobody gets more than the limit.
    """
    if stated is None:
        return {}
    limits = {
        name: each
        for name, each in _to_milli(stated.limits).items()
        if name not in containers or name.startswith(HUGE_PAGES_PREFIX)
    }
    both = {**limits, **_to_milli(stated.requests)}
    return {name: each for name, each in both.items() if _is_pod_level_resource(name)}


def _is_pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def _requests_or_limits(resources: ResourceRequirements) -> dict[str, int]:
    """Limits count as requests where requests are absent."""
    return {**_to_milli(resources.limits), **_to_milli(resources.requests)}


def _to_milli(written: ResourceList | None) -> dict[str, int]:
    return {name: to_quantity(each).milli for name, each in (written or {}).items()}


def _sum(several: Iterable[MilliAmounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in several:
        total = add_resources(total, amounts)
    return total


RESIZE_PENDING: Final = "PodResizePending"
RESIZE_INFEASIBLE: Final = "Infeasible"


def spec_after_resize(pod: Pod) -> PodSpec:
    """The spec with requests as the node counts them; the very spec if nothing was resized."""
    spec, given = pod.spec, _container_statuses(pod)
    if not given:
        return spec
    # A wish that the node has refused for good no longer counts.
    refused = _is_resize_infeasible(pod)
    containers = [
        _resize_container(each, given.get(each.name), refused=refused)
        for each in spec.containers or ()
    ]
    starting = [
        _resize_container(each, given.get(each.name) if is_sidecar(each) else None, refused=refused)
        for each in spec.initContainers or ()
    ]
    if _is_unchanged(containers, spec.containers) and _is_unchanged(starting, spec.initContainers):
        return spec
    return msgspec.structs.replace(spec, containers=containers, initContainers=starting)


def _container_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    listed = [*(pod.status.containerStatuses or ()), *(pod.status.initContainerStatuses or ())]
    return {each.name: each for each in listed if each.resources is not None}


def _is_resize_infeasible(pod: Pod) -> bool:
    return any(
        condition.type == RESIZE_PENDING and condition.reason == RESIZE_INFEASIBLE
        for condition in pod.status.conditions or ()
    )


def _is_unchanged(made: list[Container], given: Iterable[Container] | None) -> bool:
    return all(new is old for new, old in zip(made, given or (), strict=True))


def _resize_container(
    container: Container, status: ContainerStatus | None, *, refused: bool
) -> Container:
    asked = container.resources.requests or {}
    if status is None or status.resources is None:
        return container
    actual, allocated = status.resources.requests or {}, status.allocatedResources or {}
    # Mostly all three are the same text, and then nothing needs to be read.
    if (actual == asked or not actual) and (allocated == asked or not allocated):
        return container
    counted = _maximum_requests(_maximum_requests({} if refused else asked, actual), allocated)
    resources = msgspec.structs.replace(container.resources, requests=counted)
    return msgspec.structs.replace(container, resources=resources)


def _maximum_requests(left: ResourceList, right: ResourceList) -> ResourceList:
    found = dict(left)
    for name, written in right.items():
        if name not in found or to_quantity(found[name]) < to_quantity(written):
            found[name] = written
    return found
