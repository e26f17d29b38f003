"""Ports of the node that a pod or a DaemonSet takes."""

from typing import Any

import pytest
from tests.unit.manifests.translate.objects import Value, pod, thing, translated

from wainwright.model.attachments import HostPort


def container(*ports: Value, **fields: Any) -> Value:
    return {"name": "c", "ports": list(ports), **fields}


def port(**fields: Any) -> Value:
    return {"containerPort": 8080, **fields}


ROWS: dict[str, tuple[Value, tuple[HostPort, ...]]] = {
    "a port of the container": ({"containers": [container(port())]}, ()),
    "a port of the node": (
        {"containers": [container(port(hostPort=80))]},
        (HostPort(port=80, protocol="TCP", address="0.0.0.0"),),
    ),
    "one address and protocol": (
        {"containers": [container(port(hostPort=53, protocol="UDP", hostIP="10.0.0.1"))]},
        (HostPort(port=53, protocol="UDP", address="10.0.0.1"),),
    ),
    "an empty address": (
        {"containers": [container(port(hostPort=80, hostIP=""))]},
        (HostPort(port=80),),
    ),
    "the node's network": (
        {"hostNetwork": True, "containers": [container(port())]},
        (HostPort(port=8080),),
    ),
    "the node's network, with the port named": (
        {"hostNetwork": True, "containers": [container(port(hostPort=8080))]},
        (HostPort(port=8080),),
    ),
    "the node's network without ports": (
        {"hostNetwork": True, "containers": [{"name": "c"}]},
        (),
    ),
    "a sidecar": (
        {"initContainers": [container(port(hostPort=80), restartPolicy="Always")]},
        (HostPort(port=80),),
    ),
    "a container that is over before the others start": (
        {"initContainers": [container(port(hostPort=80))]},
        (),
    ),
    "several, in order, each once": (
        {
            "containers": [
                container(port(hostPort=443), port(hostPort=80)),
                container(port(hostPort=80), port(hostPort=80, protocol="UDP")),
            ]
        },
        (HostPort(port=80), HostPort(port=80, protocol="UDP"), HostPort(port=443)),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_pod_takes_ports(name: str) -> None:
    spec, expected = ROWS[name]
    [found] = translated(pod(spec=spec)).snapshot.pods
    assert found.bonds.ports == expected


@pytest.mark.parametrize("name", ROWS)
def test_a_daemonset_takes_them_on_every_node(name: str) -> None:
    spec, expected = ROWS[name]
    template = {"spec": {"containers": [{"name": "c"}], **spec}}
    agent = thing("apps/v1", "DaemonSet", "agent", spec={"template": template})
    [found] = translated(agent).snapshot.daemonsets
    assert found.ports == expected
