"""Containers of a pod: names, ports, what they ask for, and host ports that would collide."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.builtin import check_resources
from wainwright.api.builtin.check_metadata import A_LABEL_NAME, is_label_name
from wainwright.api.builtin.pod import Container, ContainerPort, PodSpec
from wainwright.api.builtin.wording import among, broken, missing, twice, wrong
from wainwright.api.fault import Fault, Path

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
RESTARTS: Final = ("Always", "OnFailure", "Never")
A_PORT: Final = "a port from 1 to 65535"

HostPort = tuple[str, str, int]


def containers(spec: PodSpec, path: Path, *, is_pod: bool) -> Iterator[Fault]:
    """All containers of a pod or of a template; only a pod's own have their defaults by now."""
    regular, initial = spec.containers or [], spec.initContainers or []
    if not regular:
        yield missing(
            (*path, "containers"), "a list of containers", "a pod needs at least one container"
        )
    names: set[str] = set()
    claims = {claim.name for claim in spec.resourceClaims or ()}
    for kind, group in (("containers", regular), ("initContainers", initial)):
        for index, container in enumerate(group):
            place = (*path, kind, index)
            yield from _name(container.name, names, place)
            yield from _container(container, place)
            yield from check_resources.claims(container.resources, claims, (*place, "resources"))
    yield from _host_ports(spec, path, is_pod=is_pod)


def _name(name: str, seen: set[str], path: Path) -> Iterator[Fault]:
    if not name:
        yield missing((*path, "name"), A_LABEL_NAME, "a container needs a name")
    elif not is_label_name(name):
        yield wrong((*path, "name"), name, A_LABEL_NAME)
    elif name in seen:
        yield twice((*path, "name"), name)
    seen.add(name)


def _container(container: Container, path: Path) -> Iterator[Fault]:
    yield from check_resources.requirements(container.resources, (*path, "resources"))
    for index, port in enumerate(container.ports or ()):
        yield from _port(port, (*path, "ports", index))
    if container.restartPolicy is not None and container.restartPolicy not in RESTARTS:
        yield among((*path, "restartPolicy"), container.restartPolicy, RESTARTS)


def _port(port: ContainerPort, path: Path) -> Iterator[Fault]:
    if not port.containerPort:
        yield missing((*path, "containerPort"), A_PORT)
    elif not 0 < port.containerPort < 65536:
        yield wrong((*path, "containerPort"), port.containerPort, A_PORT)
    if not 0 <= port.hostPort < 65536:
        yield wrong((*path, "hostPort"), port.hostPort, A_PORT)
    if port.protocol and port.protocol not in PROTOCOLS:
        yield among((*path, "protocol"), port.protocol, PROTOCOLS)


def _host_ports(spec: PodSpec, path: Path, *, is_pod: bool) -> Iterator[Fault]:
    """Containers share the host's ports; init containers run one after the other."""
    shared: set[HostPort] = set()
    for index, container in enumerate(spec.containers or ()):
        place = (*path, "containers", index, "ports")
        yield from _collisions(container, spec.hostNetwork and is_pod, shared, place)
        if spec.hostNetwork:
            yield from _own_ports(container, place)
    for index, container in enumerate(spec.initContainers or ()):
        place = (*path, "initContainers", index, "ports")
        yield from _collisions(container, spec.hostNetwork and is_pod, set(), place)


def _collisions(
    container: Container, on_host: bool, seen: set[HostPort], path: Path
) -> Iterator[Fault]:
    for index, port in enumerate(container.ports or ()):
        number = port.hostPort or (port.containerPort if on_host else 0)
        if not number:
            continue
        taken = (port.protocol or "TCP", port.hostIP, number)
        if taken in seen:
            field = "hostPort" if port.hostPort else "containerPort"
            message = "this port of the host is taken already by the same pod"
            yield broken((*path, index, field), number, message)
        seen.add(taken)


def _own_ports(container: Container, path: Path) -> Iterator[Fault]:
    for index, port in enumerate(container.ports or ()):
        if port.hostPort and port.hostPort != port.containerPort:
            message = "with hostNetwork a host port is the same as the container's port"
            yield broken((*path, index, "hostPort"), port.hostPort, message)
