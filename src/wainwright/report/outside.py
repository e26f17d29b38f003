"""Pods of the input that no plan is for: gated, bound, finished, on their way out."""

from collections.abc import Mapping

from wainwright.api.builtin.pod import Pod
from wainwright.manifests.expand import expanded, namespace
from wainwright.manifests.translate.names import named
from wainwright.manifests.translate.sorting import is_done
from wainwright.manifests.world import World


def outside(world: World, planned: frozenset[str]) -> Mapping[str, Pod]:
    """Every pod of the input, by namespace and name, that is not among the planned ones."""
    found = {
        f"{namespace(pod.metadata)}/{pod.metadata.name}": pod
        for pod in named(expanded(world.objects))
    }
    return {key: pod for key, pod in found.items() if key not in planned}


def why(pod: Pod) -> str:
    """Why nobody looks for a place for it."""
    if is_done(pod):
        return f"it has finished ({pod.status.phase})"
    if pod.spec.nodeName:
        return f"it is on node {pod.spec.nodeName} already, and stays there"
    if pod.metadata.deletionTimestamp:
        return "it is being deleted"
    if pod.spec.schedulingGates:
        gates = ", ".join(gate.name for gate in pod.spec.schedulingGates)
        return f"it waits until its scheduling gates are taken off: {gates}"
    return "it belongs to a DaemonSet or to its node, and counts as what a node needs for itself"
