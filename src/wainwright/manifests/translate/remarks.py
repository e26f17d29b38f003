"""What a reader of the plan should know about pods and nodes that it treats in a special way."""

from collections.abc import Iterable, Iterator
from typing import Final

from wainwright.api.builtin.pod import Pod
from wainwright.manifests.expand import namespace
from wainwright.manifests.translate.defaults import Defaults
from wainwright.manifests.translate.machines import Machine
from wainwright.manifests.translate.runtimes import Runtimes
from wainwright.manifests.translate.sorting import Sorted

DEFAULT_SCHEDULER: Final = "default-scheduler"
NAMED: Final = 10  # enough to find them by; the rest is only counted


def remarks(
    found: Sorted, runtimes: Runtimes, defaults: Defaults, left_out: Iterable[Machine]
) -> Iterator[str]:
    if found.gated:
        yield f"not planned while scheduling gates hold them back: {_names(found.gated)}"
    if found.stuck:
        why = "not planned, as a disruption budget or annotation keeps them on a node being deleted"
        yield f"{why}: {_names(found.stuck)}"
    for scheduler, pods in _grouped((pod.spec.schedulerName, pod) for pod in found.placed):
        if scheduler != DEFAULT_SCHEDULER:
            yield f"planned as if {scheduler} would do as the default scheduler: {_names(pods)}"
    for runtime, pods in _grouped((runtimes.unknown(pod.spec), pod) for pod in found.placed):
        missing = f"runtime class {runtime} is not in the input, so its overhead is not counted"
        yield f"{missing}: {_names(pods)}"
    for owner, pods in _grouped((defaults.unknown(pod), pod) for pod in found.placed):
        missing = f"{owner} is not in the input, so its selector has no part in the default spread"
        yield f"{missing}: {_names(pods)}"
    for machine in left_out:
        yield (
            f"node {machine.name} is left out: it has no provider id or instance type yet, "
            f"and a claim of pool {machine.pool} stands for it"
        )


def _grouped(labelled: Iterable[tuple[str | None, Pod]]) -> list[tuple[str, list[Pod]]]:
    """Pods by what they name, in the order of names, without those that name nothing."""
    groups: dict[str, list[Pod]] = {}
    for label, pod in labelled:
        if label:
            groups.setdefault(label, []).append(pod)
    return sorted(groups.items())


def _names(pods: list[Pod]) -> str:
    names = sorted(f"{namespace(pod.metadata)}/{pod.metadata.name}" for pod in pods)
    others = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {others} more" if others > 0 else "")
