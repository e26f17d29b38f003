"""Ports of the node that a pod takes for itself."""

from collections.abc import Iterator

from wainwright.api.builtin.pod import Container, ContainerPort, PodSpec
from wainwright.manifests.translate.requests import is_sidecar
from wainwright.model.attachments import HostPort


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """In order, each once, so that pods that take the same ports are alike."""
    found = {_taken(port, spec) for each in _lasting(spec) for port in each.ports or ()}
    taken = [each for each in found if each.port]
    return tuple(sorted(taken, key=lambda each: (each.port, each.protocol, each.address)))


def _lasting(spec: PodSpec) -> Iterator[Container]:
    """Containers that run as long as the pod does."""
    yield from spec.containers or ()
    yield from filter(is_sidecar, spec.initContainers or ())


def _taken(port: ContainerPort, spec: PodSpec) -> HostPort:
    """On the node's own network a container's port is a port of the node."""
    number = port.hostPort or (port.containerPort if spec.hostNetwork else 0)
    return HostPort(port=number, protocol=port.protocol or "TCP", address=port.hostIP or "0.0.0.0")
