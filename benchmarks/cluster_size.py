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

from tests.support.control_plane import ApiClient, ControlPlane
from tests.support.running_operator import RunningOperator

from benchmarks.cluster import Metrics, cpu_seconds, measure_on_control_plane, peak_mib
from benchmarks.measure import print_row
from wainwright.api.kubernetes.workloads import Pod
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit
from wainwright.kube.kubeconfig import load_address

NODES: Final = 5_000
PODS_PER_NODE: Final = 10
WRITERS: Final = 20
STEADY_SECONDS: Final = 30.0
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
        with RunningOperator(plane, folder, *RUN) as operator:
            await _until_synced(operator)
            print_row("own CPU until it is in sync", f"{cpu_seconds(operator.pid):.1f} s")
            print_row("memory", f"{peak_mib(operator.pid):.0f} MiB")
            await _steady(operator)
            await _changing(client, operator, nodes * PODS_PER_NODE)
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
    before = cpu_seconds(operator.pid)
    await asyncio.sleep(STEADY_SECONDS)
    share = (cpu_seconds(operator.pid) - before) / STEADY_SECONDS
    print_row("CPU while nothing happens", f"{share:.1%} of a core")


async def _changing(client: KubeClient, operator: RunningOperator, pods: int) -> None:
    before, started = cpu_seconds(operator.pid), time.monotonic()
    changes = int(CHANGES_PER_MINUTE * STEADY_SECONDS / 60)

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
