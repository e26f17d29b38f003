"""Clusters that one contract suite runs on: the one in memory, and a real kube-apiserver."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any, Protocol

import msgspec
from tests.support.control_plane import ControlPlane

from wainwright.api.api_resources import resource_of
from wainwright.api.kinds import known_kinds
from wainwright.clock import VirtualClock
from wainwright.cluster import Cluster, ListAndWatch
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.client import KubeClient
from wainwright.sim.api_server import InMemoryApiServer

WATCH_SECONDS = 6
"""A real server sends a bookmark two seconds before it ends a watch."""

PAGE_SIZE = 5
"""So that most lists have several pages."""

Manifest = dict[str, Any]
_numbers = count(1)


class ClusterWithBinding(Cluster, ListAndWatch, Protocol):
    """The port, and the verb of a scheduler."""

    async def bind(self, name: str, namespace: str, node: str) -> None: ...


@dataclass(frozen=True)
class TestedCluster:
    """One cluster in one test, with names that no other test uses."""

    __test__ = False

    cluster: ClusterWithBinding
    namespace: str
    apply: Callable[[Manifest], Awaitable[None]]
    """Creates from a manifest, which can hold what our structs do not: a container's image."""

    def name(self, base: str) -> str:
        return f"{base}-{self.namespace}"


Case = Callable[[TestedCluster], Awaitable[None]]
CaseRunner = Callable[[Case], None]


def run_in_memory(case: Case) -> None:
    clock = VirtualClock()
    server = InMemoryApiServer(clock, bookmark_every=5)

    async def apply(manifest: Manifest) -> None:
        kind = known_kinds()[manifest["apiVersion"], manifest["kind"]].type
        await server.create(msgspec.convert(manifest, kind))

    async def main() -> None:
        tested = TestedCluster(server, f"test-{next(_numbers)}", apply)
        await apply(_namespace(tested.namespace))
        await case(tested)

    try:
        clock.run(main())
    finally:
        clock.close()


def run_on_api_server(plane: ControlPlane, case: Case) -> None:
    address = ApiServerAddress(url=plane.url, ca_file=str(plane.ca_file), token=plane.token)

    async def apply(manifest: Manifest) -> None:
        kind = known_kinds()[manifest["apiVersion"], manifest["kind"]].type
        path = resource_of(kind).path(manifest["metadata"].get("namespace", ""))
        reply = plane.request("POST", path, body=json.dumps(manifest).encode())
        assert reply.status == HTTPStatus.CREATED, reply.message

    async def main() -> None:
        tested_name = f"test-{next(_numbers)}"
        async with KubeClient.connect(
            address, watch_seconds=WATCH_SECONDS, page_size=PAGE_SIZE
        ) as client:
            await apply(_namespace(tested_name))
            await case(TestedCluster(client, tested_name, apply))

    asyncio.run(main())


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
