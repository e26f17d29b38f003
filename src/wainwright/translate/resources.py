"""Resource requests of pods, counted as the scheduler counts them, and capacities of nodes.

Containers run side by side, so their requests add up. Init containers run one after the other, each
with the sidecars started before it, so the peak counts. With a container of 1 cpu, a
sidecar of 500m and, started after it, an init container of 2 cpu, the pod needs max(1.5, 2.5) = 2.5
cpu. Of a pod that was resized where it runs, the larger of requested and allocated counts.
"""

from collections.abc import Callable, Iterable, Mapping
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


def translate_capacity(quantities: Mapping[str, QuantityValue] | None) -> dict[str, int]:
    """Capacities and limits, rounded down to whole units."""
    amounts = {
        name: capacity_from_nano(name, to_quantity(quantity).nano)
        for name, quantity in (quantities or {}).items()
    }
    return sort_resources(amounts)


def translate_requests(quantities: Mapping[str, QuantityValue] | None) -> dict[str, int]:
    """Requests, rounded up to whole units."""
    amounts = {
        name: request_from_nano(name, to_quantity(quantity).nano)
        for name, quantity in (quantities or {}).items()
    }
    return sort_resources(amounts)


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What admission adds to a pod with this RuntimeClass."""

    overhead: ResourceList | None = None
    selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] = ()


DEFAULT_RUNTIME: Final = RuntimeSettings()


class RuntimeClasses:
    def __init__(self, classes: Iterable[RuntimeClass]) -> None:
        self._by_name = {each.metadata.name: _runtime_settings(each) for each in classes}

    def lookup(self, spec: PodSpec) -> RuntimeSettings:
        return self._by_name.get(spec.runtimeClassName or "", DEFAULT_RUNTIME)

    def missing_class(self, spec: PodSpec) -> str | None:
        """The pod's RuntimeClass where it is not in the input, so that its overhead is unknown."""
        name = spec.runtimeClassName
        known = not name or name in self._by_name or spec.overhead is not None
        return None if known else name


def _runtime_settings(runtime_class: RuntimeClass) -> RuntimeSettings:
    scheduling = runtime_class.scheduling or RuntimeClassScheduling()
    return RuntimeSettings(
        overhead=runtime_class.overhead.podFixed if runtime_class.overhead is not None else None,
        selector=scheduling.nodeSelector,
        tolerations=tuple(scheduling.tolerations or ()),
    )


SIDECAR_RESTART_POLICY: Final = "Always"
NANO_PER_MILLI: Final = 10**6

MilliAmounts = Mapping[str, int]
"""Amounts in thousandths, to which the API server rounds each quantity of a pod up."""


def pod_requests(spec: PodSpec, overhead: ResourceList | None = None) -> dict[str, int]:
    """Requests of the whole pod; `overhead` is its runtime's, where the spec states none."""
    total = _container_requests(spec)
    total = {**total, **_pod_level_requests(spec.resources, total)}
    return _round_up(add_resources(total, _to_milli(_overhead(spec, overhead))))


def pod_limits(spec: PodSpec) -> dict[str, int]:
    """Limits of the whole pod, of the containers that have any; init containers count as in
    requests.
    """
    total = _container_amounts(spec, lambda resources: _to_milli(resources.limits))
    stated = {} if spec.resources is None else _to_milli(spec.resources.limits)
    return _round_up({**total, **stated})


def pod_overhead(spec: PodSpec, overhead: ResourceList | None = None) -> dict[str, int] | None:
    """The part of the requests that is runtime overhead; None where there is none."""
    return _round_up(_to_milli(_overhead(spec, overhead))) or None


def _overhead(spec: PodSpec, overhead: ResourceList | None) -> ResourceList | None:
    return overhead if spec.overhead is None else spec.overhead


def _round_up(amounts: MilliAmounts) -> dict[str, int]:
    rounded = {
        name: request_from_nano(name, each * NANO_PER_MILLI) for name, each in amounts.items()
    }
    return sort_resources({name: each for name, each in rounded.items() if each})


def _container_requests(spec: PodSpec) -> dict[str, int]:
    return _container_amounts(spec, _requests_or_limits)


def _container_amounts(
    spec: PodSpec, amounts_of: Callable[[ResourceRequirements], dict[str, int]]
) -> dict[str, int]:
    running = _sum(amounts_of(container.resources) for container in spec.containers or ())
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.initContainers or ():
        own = amounts_of(container.resources)
        at_once = add_resources(sidecars, own)
        peak = max_resources(peak, at_once)
        if is_sidecar(container):
            sidecars = at_once
    return max_resources(add_resources(running, sidecars), peak)


def is_sidecar(container: Container) -> bool:
    """Whether an init container is a sidecar, which runs as long as the pod does."""
    return container.restartPolicy == SIDECAR_RESTART_POLICY


def _pod_level_requests(
    stated: ResourceRequirements | None, containers: MilliAmounts
) -> dict[str, int]:
    """Pod-level requests, which replace the sum over the containers.

    A limit without a request counts for a resource that no container requests, and always for
    huge pages, whose request equals their limit.
    """
    if stated is None:
        return {}
    limits = {
        name: each
        for name, each in _to_milli(stated.limits).items()
        if name not in containers or name.startswith(HUGE_PAGES_PREFIX)
    }
    requests = {**limits, **_to_milli(stated.requests)}
    return {name: each for name, each in requests.items() if _is_pod_level_resource(name)}


def _is_pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def _requests_or_limits(resources: ResourceRequirements) -> dict[str, int]:
    """Limits count as requests where requests are absent."""
    return {**_to_milli(resources.limits), **_to_milli(resources.requests)}


def _to_milli(quantities: ResourceList | None) -> dict[str, int]:
    return {name: to_quantity(quantity).milli for name, quantity in (quantities or {}).items()}


def _sum(amount_maps: Iterable[MilliAmounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in amount_maps:
        total = add_resources(total, amounts)
    return total


RESIZE_PENDING: Final = "PodResizePending"
RESIZE_INFEASIBLE: Final = "Infeasible"


def spec_after_resize(pod: Pod) -> PodSpec:
    """The spec with requests as the node counts them; the same object if nothing was resized."""
    spec, statuses = pod.spec, _container_statuses(pod)
    if not statuses:
        return spec
    # A resize that the node has rejected as infeasible does not count.
    is_infeasible = _is_resize_infeasible(pod)
    containers = [
        _resize_container(each, statuses.get(each.name), is_infeasible=is_infeasible)
        for each in spec.containers or ()
    ]
    init_containers = [
        _resize_container(
            each, statuses.get(each.name) if is_sidecar(each) else None, is_infeasible=is_infeasible
        )
        for each in spec.initContainers or ()
    ]
    if _is_unchanged(containers, spec.containers) and _is_unchanged(
        init_containers, spec.initContainers
    ):
        return spec
    return msgspec.structs.replace(spec, containers=containers, initContainers=init_containers)


def _container_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    listed = [*(pod.status.containerStatuses or ()), *(pod.status.initContainerStatuses or ())]
    return {each.name: each for each in listed if each.resources is not None}


def _is_resize_infeasible(pod: Pod) -> bool:
    return any(
        condition.type == RESIZE_PENDING and condition.reason == RESIZE_INFEASIBLE
        for condition in pod.status.conditions or ()
    )


def _is_unchanged(resized: list[Container], original: Iterable[Container] | None) -> bool:
    return all(new is old for new, old in zip(resized, original or (), strict=True))


def _resize_container(
    container: Container, status: ContainerStatus | None, *, is_infeasible: bool
) -> Container:
    requested = container.resources.requests or {}
    if status is None or status.resources is None:
        return container
    actual, allocated = status.resources.requests or {}, status.allocatedResources or {}
    # Mostly all three are the same text: comparing it saves parsing every quantity.
    if (actual == requested or not actual) and (allocated == requested or not allocated):
        return container
    effective = _maximum_requests(
        _maximum_requests({} if is_infeasible else requested, actual), allocated
    )
    resources = msgspec.structs.replace(container.resources, requests=effective)
    return msgspec.structs.replace(container, resources=resources)


def _maximum_requests(left: ResourceList, right: ResourceList) -> ResourceList:
    maximum = dict(left)
    for name, quantity in right.items():
        if name not in maximum or to_quantity(maximum[name]) < to_quantity(quantity):
            maximum[name] = quantity
    return maximum
