"""Clusters with all their processes, that one suite of cases runs on: the simulated one, and a real
kube-apiserver with kube-scheduler and kube-controller-manager.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from itertools import count
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.simulated_cluster import Manifest, SimulatedCluster, node, play, pod

from wainwright.api.api_resources import resource_of
from wainwright.api.kinds import known_kinds
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import Cluster
from wainwright.errors import ObjectNotFoundError
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.client import KubeClient

WITHIN_SECONDS = 20.0
SETTLED_SECONDS = 0.3
"""After which a real process that has something to do has done it."""
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
_numbers = count(1)

ComponentCase = Callable[["TestedComponents"], Awaitable[None]]


class TestedComponents:
    """One cluster in one test. Names of nodes are its own, as a real cluster is shared."""

    __test__ = False

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        apply: Callable[[Manifest], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._apply, self._sleep = apply, sleep
        self._nodes: list[str] = []
        self._workloads: list[tuple[type[Any], str]] = []

    def name(self, base: str) -> str:
        return f"{base}-{self.namespace}"

    async def node(self, base: str, **changes: Any) -> None:
        """A node that is Ready, and seen to be by everybody."""
        name = self.name(base)
        made = node(name, **changes)
        await self._apply(made)
        self._nodes.append(name)
        status = {"status": {**made["status"], "conditions": [READY]}}
        await self.cluster.patch_status(Node, name, status)
        await self.until(lambda: self._is_untainted(name))

    async def _is_untainted(self, name: str) -> bool:
        found = await self.cluster.get(Node, name)
        return not any(each.key.endswith("not-ready") for each in found.spec.taints or ())

    async def apply(self, manifest: Manifest) -> None:
        metadata = {**manifest["metadata"]}
        kind = known_kinds()[manifest["apiVersion"], manifest["kind"]].type
        if resource_of(kind).is_namespaced:
            metadata["namespace"] = self.namespace
            self._workloads.append((kind, metadata["name"]))
        await self._apply({**manifest, "metadata": metadata})

    async def place(self, name: str, **spec: Any) -> str:
        """Creates the pod and waits for the scheduler; the node's own name, or empty."""
        await self.apply(pod(name, **spec))
        await self.until(lambda: self._is_decided(name))
        found = await self.pod(name)
        return found.spec.nodeName.removesuffix(f"-{self.namespace}")

    async def _is_decided(self, name: str) -> bool:
        found = await self.pod(name)
        return bool(found.spec.nodeName) or any(
            each.reason == "Unschedulable" for each in found.status.conditions or ()
        )

    async def why_pending(self, name: str) -> str:
        found = await self.pod(name)
        return next(
            each.message for each in found.status.conditions or () if each.type == "PodScheduled"
        )

    async def pod(self, name: str) -> Pod:
        return await self.cluster.get(Pod, name, self.namespace)

    async def pods(self) -> list[Pod]:
        return list((await self.cluster.list(Pod, self.namespace)).items)

    async def run_pods(self) -> None:
        """Plays the kubelet: every pod on a node runs and is ready."""
        for each in await self.pods():
            if each.spec.nodeName and each.status.phase == "Pending":
                conditions = [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Ready", "status": "True"},
                ]
                status = {"status": {"phase": "Running", "conditions": conditions}}
                await self.cluster.patch_status(Pod, each.metadata.name, status, self.namespace)

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + WITHIN_SECONDS
        for _ in range(2_000):
            if await is_so():
                return
            await self._sleep(0.01)
            assert time.monotonic() < deadline, "waited in vain"
        raise AssertionError("waited in vain")

    async def settle(self) -> None:
        """Waits until nobody can be expected to do anything more."""
        await self._sleep(SETTLED_SECONDS)

    async def clean_up(self) -> None:
        """A pod or workload that is left over would take the room of the next case."""
        for kind, name in self._workloads:
            await _delete(self.cluster, kind, name, self.namespace)
        for each in await self.pods():
            await _delete(self.cluster, Pod, each.metadata.name, self.namespace)
        for name in self._nodes:
            await _delete(self.cluster, Node, name, "")


async def _delete(cluster: Cluster, kind: type[Any], name: str, namespace: str) -> None:
    try:
        await cluster.delete(kind, name, namespace, grace_period=0)
    except ObjectNotFoundError:
        return


def run_simulated(case: ComponentCase) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        namespace = f"test-{next(_numbers)}"
        await cluster.apply(_namespace(namespace))

        async def apply(manifest: Manifest) -> None:
            await cluster.apply(manifest)

        await case(TestedComponents(cluster.api, namespace, apply, cluster.clock.sleep))

    play(story)


def run_on_control_plane(plane: ControlPlane, case: ComponentCase) -> None:
    address = ApiServerAddress(url=plane.url, ca_file=str(plane.ca_file), token=plane.token)
    namespace = f"test-{next(_numbers)}"

    async def apply(manifest: Manifest) -> None:
        kind = known_kinds()[manifest["apiVersion"], manifest["kind"]].type
        path = resource_of(kind).path(manifest["metadata"].get("namespace", ""))
        reply = plane.request("POST", path, body=json.dumps(manifest).encode())
        assert reply.status == HTTPStatus.CREATED, reply.message

    async def main() -> None:
        async with KubeClient.connect(address) as client:
            await apply(_namespace(namespace))
            _wait_for_service_account(plane, namespace)
            tested = TestedComponents(client, namespace, apply, asyncio.sleep)
            try:
                await case(tested)
            finally:
                await tested.clean_up()

    asyncio.run(main())


def _wait_for_service_account(plane: ControlPlane, namespace: str) -> None:
    """Until there is one, every pod in the namespace is refused."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    deadline = time.monotonic() + WITHIN_SECONDS
    while plane.request("GET", path).status != HTTPStatus.OK:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
