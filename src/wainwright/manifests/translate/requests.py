"""What a pod asks of a node in all, counted as the scheduler counts it.

Containers run side by side, so theirs add up. Init containers run one after the other, each beside
the sidecars started before it, so the largest moment counts. With a container of 1 cpu, a sidecar
of 500m and, started after it, an init container of 2 cpu, the pod needs max(1.5, 2.5) = 2.5 cpu.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.builtin.part import Resources, amount
from wainwright.api.builtin.pod import Container, PodSpec, ResourceRequirements
from wainwright.model.resources import CPU, HUGE_PAGES, MEMORY, add, maximum, ordered, requested

SIDECAR: Final = "Always"
MILLI: Final = 10**6

Milli = Mapping[str, int]
"""Amounts in thousandths, to which the API server rounds each of them up when it stores a pod."""


def effective(spec: PodSpec, overhead: Resources | None = None) -> dict[str, int]:
    """Requests of the whole pod; `overhead` is its runtime's, where the spec states none."""
    together = _of_containers(spec)
    together = {**together, **_of_pod(spec.resources, together)}
    return _whole(add(together, _milli(_extra(spec, overhead))))


def added(spec: PodSpec, overhead: Resources | None = None) -> dict[str, int] | None:
    """What of it nobody wrote as a request, as it is for the runtime; None where that is none."""
    return _whole(_milli(_extra(spec, overhead))) or None


def _extra(spec: PodSpec, overhead: Resources | None) -> Resources | None:
    return overhead if spec.overhead is None else spec.overhead


def _whole(amounts: Milli) -> dict[str, int]:
    whole = {name: requested(name, each * MILLI) for name, each in amounts.items()}
    return ordered({name: each for name, each in whole.items() if each})


def _of_containers(spec: PodSpec) -> dict[str, int]:
    running = _sum(_asked(container.resources) for container in spec.containers or ())
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.initContainers or ():
        own = _asked(container.resources)
        moment = add(sidecars, own)
        peak = maximum(peak, moment)
        if is_sidecar(container):
            sidecars = moment
    return maximum(add(running, sidecars), peak)


def is_sidecar(container: Container) -> bool:
    """Of an init container: whether it runs as long as the pod does."""
    return container.restartPolicy == SIDECAR


def _of_pod(stated: ResourceRequirements | None, containers: Milli) -> dict[str, int]:
    """What is stated for the pod as a whole and stands in place of its containers' sum.

    A limit alone stands for a resource that no container names, and always for huge pages, of
    which nobody gets more than the limit.
    """
    if stated is None:
        return {}
    limits = {
        name: each
        for name, each in _milli(stated.limits).items()
        if name not in containers or name.startswith(HUGE_PAGES)
    }
    both = {**limits, **_milli(stated.requests)}
    return {name: each for name, each in both.items() if _is_for_pods(name)}


def _is_for_pods(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)


def _asked(resources: ResourceRequirements) -> dict[str, int]:
    """Limits count as requests where requests are absent."""
    return {**_milli(resources.limits), **_milli(resources.requests)}


def _milli(written: Resources | None) -> dict[str, int]:
    return {name: amount(each).milli for name, each in (written or {}).items()}


def _sum(several: Iterable[Milli]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in several:
        total = add(total, amounts)
    return total
