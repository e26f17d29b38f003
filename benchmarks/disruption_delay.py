"""How long a pod waits for its NodeClaim while `wain run` looks at every node of a large cluster
for disruption, and while disruption is paused. On a real API server; nodes are objects only, each
just full enough that nothing can be consolidated: every one of them is simulated in vain.

`make bench ARGS=disruption_delay`; DELAY_NODES=5000 for a larger one.
"""

import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from tests.integration.run_manifests import NODE_CLASS, NODE_POOL
from tests.support.control_plane import ApiClient, ControlPlane
from tests.support.running_operator import RunningOperator, TestedCluster

from benchmarks.cluster import RUN, instance_types, measure_on_control_plane, metrics_of
from benchmarks.measure import print_row
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.cluster import EventType
from wainwright.kube.client import KubeClient
from wainwright.kube.kubeconfig import load_address
from wainwright.model.instance_type import InstanceType
from wainwright.model.resources import format_quantity

NODES: Final = 1_000
PODS: Final = 10
WRITERS: Final = 10
WITHIN: Final = 300.0
TYPE: Final = "m5.large"
ZONE: Final = "us-east-1a"
SINCE: Final = "2026-01-01T00:00:00Z"
PASS_SECONDS: Final = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
PAUSE: Final = {"wainwright.dev/pause": "disruption"}
MERGE: Final = "application/merge-patch+json"
PODS_PATH: Final = "/api/v1/namespaces/default/pods"

Document = dict[str, Any]


def run() -> None:
    nodes = int(os.environ.get("DELAY_NODES", NODES))
    print(f"A pod's NodeClaim while {nodes:,} nodes are looked at for disruption")
    measure_on_control_plane(partial(_measure, nodes))


async def _measure(nodes: int, plane: ControlPlane, folder: Path) -> None:
    cluster = TestedCluster(plane)
    cluster.apply("EC2NodeClass", NODE_CLASS)
    cluster.apply("NodePool", _pool(PAUSE))
    instance_types()  # remembered from here on, before several threads ask for it
    _on_each(plane, range(nodes), _create_node)
    address = load_address(kubeconfig=str(plane.kubeconfig), environment={})
    async with KubeClient.connect(address) as client:
        with RunningOperator(plane, folder, *RUN) as operator:
            await asyncio.to_thread(cluster.wait_for, "readiness", lambda: operator.is_ready)
            await _compare(cluster, client, operator)


async def _compare(cluster: TestedCluster, client: KubeClient, operator: RunningOperator) -> None:
    await _seconds_to_claim(cluster, client, "first")  # the class has been resolved by then
    paused = [await _seconds_to_claim(cluster, client, f"paused-{each}") for each in range(PODS)]
    before = metrics_of(operator)
    cluster.patch("NodePool", "default", {"metadata": {"annotations": _none(PAUSE)}})
    busy = [await _seconds_to_claim(cluster, client, f"busy-{each}") for each in range(PODS)]
    after = metrics_of(operator)
    looks, seconds = (
        after.total(f"{PASS_SECONDS}_{each}") - before.total(f"{PASS_SECONDS}_{each}")
        for each in ("count", "sum")
    )
    print_row("disruption paused: claim created after", f"{statistics.median(paused):.2f} s")
    print_row("  at most", f"{max(paused):.2f} s")
    print_row("every node looked at: claim created after", f"{statistics.median(busy):.2f} s")
    print_row("  at most", f"{max(busy):.2f} s", "as without")
    print_row("  looks finished meanwhile", f"{looks:.0f}")
    print_row("  seconds of looks", f"{seconds:.1f} s")
    print_row("  load average of the machine", f"{os.getloadavg()[0]:.1f}")


def _pool(annotations: Document) -> Document:
    metadata = {"name": "default", "annotations": annotations}
    spec = {**NODE_POOL["spec"], "limits": {"cpu": "100000"}}
    return {**NODE_POOL, "metadata": metadata, "spec": spec}


def _none(keys: Iterable[str]) -> Document:
    return dict.fromkeys(keys)


async def _seconds_to_claim(cluster: TestedCluster, client: KubeClient, pod: str) -> float:
    """From the creation of a pod that no node has room for to its NodeClaim."""
    one = {"limit": "1"}
    listed = cluster.plane.request("GET", "/apis/karpenter.sh/v1/nodeclaims", query=one).json()
    version, began = listed["metadata"]["resourceVersion"], time.monotonic()
    _send(cluster.plane.client, "POST", PODS_PATH, _pod(pod, None))
    async with asyncio.timeout(WITHIN), aclosing(client.watch(NodeClaim, version)) as events:
        async for event in events:
            if event.type is EventType.ADDED:
                return time.monotonic() - began
    raise RuntimeError("the watch has ended")


def _on_each(plane: ControlPlane, numbers: range, write: Callable[[ApiClient, int], None]) -> None:
    def work(first: int) -> None:
        client = plane.new_client()
        for number in numbers[first::WRITERS]:
            write(client, number)
        client.close()

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(work, range(WRITERS)))


def _create_node(client: ApiClient, number: int) -> None:
    name, provider = f"node-{number}", f"aws:///{ZONE}/i-{number:017x}"
    uid = _send(client, "POST", "/apis/karpenter.sh/v1/nodeclaims", _claim(name))["metadata"]["uid"]
    status = {"status": {**_status(provider), "nodeName": name}}
    _send(client, "PATCH", f"/apis/karpenter.sh/v1/nodeclaims/{name}/status", status)
    _send(client, "POST", "/api/v1/nodes", _node(name, provider, uid))
    # Admission taints every new node; the controller that would remove it does not run.
    _send(client, "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    _send(client, "POST", PODS_PATH, _pod(f"pod-{number}", name))


def _send(client: ApiClient, method: str, path: str, body: Document) -> Document:
    content_type = MERGE if method == "PATCH" else "application/json"
    reply = client.request(method, path, body=json.dumps(body).encode(), content_type=content_type)
    assert reply.status in (HTTPStatus.OK, HTTPStatus.CREATED), reply.message
    found: Document = reply.json()
    return found


def _labels() -> dict[str, str]:
    return {
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.k8s.aws/instance-family": "m5",
        "node.kubernetes.io/instance-type": TYPE,
        "topology.kubernetes.io/zone": ZONE,
        "topology.kubernetes.io/region": ZONE[:-1],
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }


def _claim(name: str) -> Document:
    template = NODE_POOL["spec"]["template"]["spec"]
    requirements = [{**each, "values": [*each["values"]]} for each in template["requirements"]]
    spec = {"nodeClassRef": template["nodeClassRef"], "requirements": requirements}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": _labels(),
            "finalizers": ["karpenter.sh/termination"],
            "annotations": {"karpenter.k8s.aws/tagged": "true"},
        },
        "spec": {**spec, "expireAfter": "Never"},
    }


def _status(provider: str) -> Document:
    kinds = ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")
    conditions = [
        {"type": k, "status": "True", "reason": k, "message": "", "lastTransitionTime": SINCE}
        for k in kinds
    ]
    return {"providerID": provider, **_resources(), "conditions": conditions}


def _resources() -> Document:
    kind = _instance_type()
    return {
        "capacity": {name: format_quantity(name, kind.capacity[name]) for name in RESOURCES},
        "allocatable": {name: format_quantity(name, kind.allocatable[name]) for name in RESOURCES},
    }


RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")


def _instance_type() -> InstanceType:
    return next(each for each in instance_types() if each.name == TYPE)


def _node(name: str, provider: str, claim_uid: str) -> Document:
    marks = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    owner = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "name": name,
        "uid": claim_uid,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": name,
            "labels": {**_labels(), **marks, "kubernetes.io/hostname": name},
            "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [owner],
        },
        "spec": {"providerID": provider},
        "status": {**_resources(), "conditions": [ready]},
    }


def _pod(name: str, node: str | None) -> Document:
    """Two of them do not fit on a node."""
    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": "1200m", "memory": "1Gi"}},
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app", "uid": "app"}
    metadata = {"name": name, "labels": {"app": "app"}, "ownerReferences": [owner]}
    placed = {} if node is None else {"nodeName": node}
    return {"metadata": metadata, "spec": {"containers": [container], **placed}}
