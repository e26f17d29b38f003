"""`wain run` beside a large cluster on a real API server: objects only, nobody schedules or runs
anything. `make bench ARGS=cluster_size`; CLUSTER_NODES=1000 for a smaller one (ten pods a node).
"""

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.integration.run_manifests import NODE_CLASS, NODE_POOL
from tests.support.control_plane import ApiClient, ControlPlane
from tests.support.running_operator import RunningOperator, TestedCluster

from benchmarks.cluster import Metrics, cpu_seconds, measure_on_control_plane, peak_mib
from benchmarks.measure import print_row
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit
from wainwright.kube.kubeconfig import load_address

NODES: Final = 5_000
PODS_PER_NODE: Final = 10
WRITERS: Final = 20
STEADY_SECONDS: Final = 60.0
CHANGING_SECONDS: Final = 30.0
SCRAPE_PERIOD: Final = 30.0
"""Seconds, as Prometheus operators usually have it."""
CHANGES_PER_MINUTE: Final = 10_000
WITHIN: Final = 600.0
RUN: Final = ("--provider", "emulator", "--cluster-name", "shop", "--emulator-kubelet", "false")
CAPACITY: Final = {"cpu": "16", "memory": "64Gi", "pods": "110"}

Document: TypeAlias = dict[str, Any]


def run() -> None:
    nodes = int(os.environ.get("CLUSTER_NODES", NODES))
    print(f"wain run beside {nodes:,} nodes and {nodes * PODS_PER_NODE:,} pods")
    measure_on_control_plane(partial(_measure, nodes))


async def _measure(nodes: int, plane: ControlPlane, folder: Path) -> None:
    address = load_address(kubeconfig=str(plane.kubeconfig), environment={})
    async with KubeClient.connect(address, limit=RequestLimit(qps=0)) as client:
        create_objects(plane, "/api/v1/nodes", map(_node, range(nodes)))
        pods = range(nodes * PODS_PER_NODE)
        create_objects(plane, "/api/v1/namespaces/default/pods", map(_pod, pods))
        cluster = TestedCluster(plane)
        cluster.apply("EC2NodeClass", NODE_CLASS)
        cluster.apply("NodePool", NODE_POOL)
        with RunningOperator(plane, folder, *RUN) as operator:
            await _until_synced(operator)
            print_row("own CPU until it is in sync", f"{cpu_seconds(operator.pid):.1f} s")
            print_row("memory", f"{peak_mib(operator.pid):.0f} MiB")
            await _steady(operator)
            await _changing(client, operator, nodes * PODS_PER_NODE)
            await _pending(client, plane)
            await asyncio.to_thread(operator.terminate)


async def _each(count: int, write: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await write(number)

    await asyncio.gather(*(work() for _ in range(WRITERS)))


async def _until_synced(operator: RunningOperator) -> None:
    started = time.monotonic()

    def is_synced() -> bool:
        metrics = Metrics(operator.get("metrics", "/metrics")[1])
        return metrics.total("karpenter_cluster_state_synced") >= 1

    while not await asyncio.to_thread(is_synced):
        if time.monotonic() - started > WITHIN:
            raise TimeoutError("it did not get in sync")
        await asyncio.sleep(0.2)
    print_row("in sync after", f"{time.monotonic() - started:.1f} s")


async def _steady(operator: RunningOperator) -> None:
    before, started = cpu_seconds(operator.pid), time.monotonic()
    scrapes: list[float] = []
    series = 0
    while time.monotonic() - started < STEADY_SECONDS:
        began = time.monotonic()
        text = (await asyncio.to_thread(operator.get, "metrics", "/metrics"))[1]
        scrapes.append(time.monotonic() - began)
        series = sum(not line.startswith("#") for line in text.splitlines())
        await asyncio.sleep(max(0.0, began + SCRAPE_PERIOD - time.monotonic()))
    share = (cpu_seconds(operator.pid) - before) / (time.monotonic() - started)
    label = f"CPU while nothing happens but a scrape every {SCRAPE_PERIOD:.0f} s"
    print_row(label, f"{share:.1%} of a core")
    print_row(f"a scrape of {series:,} series", f"{max(scrapes):.2f} s at most")


async def _changing(client: KubeClient, operator: RunningOperator, pods: int) -> None:
    before, started = cpu_seconds(operator.pid), time.monotonic()
    changes = int(CHANGES_PER_MINUTE * CHANGING_SECONDS / 60)

    async def change(number: int) -> None:
        due = started + number * 60 / CHANGES_PER_MINUTE
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        patch = {"metadata": {"labels": {"change": str(number)}}}
        await client.patch(Pod, f"pod-{number % pods}", patch, "default")

    await _each(changes, change)
    seconds = time.monotonic() - started
    share = (cpu_seconds(operator.pid) - before) / seconds
    metrics = Metrics(operator.get("metrics", "/metrics")[1])
    rate = changes * 60 / seconds
    print_row(f"CPU at {rate:,.0f} pod changes a minute", f"{share:.1%} of a core")
    print_row("event loop late by at most, p99", metrics.quantile(0.99))


async def _pending(client: KubeClient, plane: ControlPlane) -> None:
    """From the creation of a pod that fits no node until its NodeClaim is there."""
    started = time.monotonic()
    create_objects(plane, "/api/v1/namespaces/default/pods", iter([_large_pod()]))
    while not (await client.list(NodeClaim)).items:
        if time.monotonic() - started > WITHIN:
            raise TimeoutError("the pending pod got no NodeClaim")
        await asyncio.sleep(0.05)
    seconds = time.monotonic() - started
    print_row("a pending pod has its NodeClaim after", f"{seconds:.1f} s")


def create_objects(plane: ControlPlane, path: str, documents: Iterator[Document]) -> None:
    """From several threads, each with a connection of its own."""
    lock = threading.Lock()

    def work(client: ApiClient) -> None:
        while True:
            with lock:
                document = next(documents, None)
            if document is None:
                return client.close()
            reply = client.request("POST", path, body=json.dumps(document).encode())
            assert reply.status == HTTPStatus.CREATED, reply.message

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(work, [plane.new_client() for _ in range(WRITERS)]))


def _node(number: int) -> Document:
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": "a"}
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
    }


def _pod(number: int) -> Document:
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    container = {"name": "app", "image": "app:1", "resources": requests}
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": "web"}},
        "spec": {"containers": [container], "nodeName": f"node-{number // PODS_PER_NODE}"},
    }


def _large_pod() -> Document:
    """Larger than what the other pods leave of a node."""
    requests = {"requests": {"cpu": "15", "memory": "1Gi"}}
    container = {"name": "app", "image": "app:1", "resources": requests}
    return {
        "metadata": {"name": "pending", "namespace": "default"},
        "spec": {"containers": [container]},
    }
