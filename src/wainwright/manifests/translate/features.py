"""What a pod uses that the planner cannot honour yet."""

from collections.abc import Callable
from typing import Final

from wainwright.api.builtin.affinity import PodAffinity
from wainwright.api.builtin.pod import Container, PodSpec
from wainwright.api.builtin.volume import Volume
from wainwright.manifests.translate.requests import is_sidecar
from wainwright.model.pod import Feature

SCHEDULED: Final = (
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "azureDisk",
    "cinder",
    "vsphereVolume",
    "portworxVolume",
)
"""Volumes that are bound to places, or of which a node takes only so many."""


def unsupported(spec: PodSpec) -> tuple[Feature, ...]:
    return tuple(feature for feature, is_used in USED.items() if is_used(spec))


def has_volumes(spec: PodSpec) -> bool:
    """Whether some volume has a say in where the pod goes."""
    return any(_is_scheduled(volume) for volume in spec.volumes or ())


def _is_scheduled(volume: Volume) -> bool:
    return any(getattr(volume, name) is not None for name in SCHEDULED)


def _spreads(spec: PodSpec) -> bool:
    return bool(spec.topologySpreadConstraints)


def _is_near_pods(spec: PodSpec) -> bool:
    return spec.affinity is not None and _has_terms(spec.affinity.podAffinity)


def _is_away_from_pods(spec: PodSpec) -> bool:
    return spec.affinity is not None and _has_terms(spec.affinity.podAntiAffinity)


def _has_terms(given: PodAffinity | None) -> bool:
    return given is not None and bool(
        given.requiredDuringSchedulingIgnoredDuringExecution
        or given.preferredDuringSchedulingIgnoredDuringExecution
    )


def _prefers_nodes(spec: PodSpec) -> bool:
    nodes = spec.affinity.nodeAffinity if spec.affinity is not None else None
    return nodes is not None and bool(nodes.preferredDuringSchedulingIgnoredDuringExecution)


def _takes_ports(spec: PodSpec) -> bool:
    """On the node's own network every port of a container is a port of the node."""
    lasting = [*(spec.containers or ()), *filter(is_sidecar, spec.initContainers or ())]
    return any(_takes_port(container, spec) for container in lasting)


def _takes_port(container: Container, spec: PodSpec) -> bool:
    return any(port.hostPort or spec.hostNetwork for port in container.ports or ())


def _claims_devices(spec: PodSpec) -> bool:
    return bool(spec.resourceClaims)


USED: Final[dict[Feature, Callable[[PodSpec], bool]]] = {
    Feature.TOPOLOGY_SPREAD: _spreads,
    Feature.POD_AFFINITY: _is_near_pods,
    Feature.POD_ANTI_AFFINITY: _is_away_from_pods,
    Feature.PREFERENCES: _prefers_nodes,
    Feature.VOLUMES: has_volumes,
    Feature.HOST_PORTS: _takes_ports,
    Feature.RESOURCE_CLAIMS: _claims_devices,
}
