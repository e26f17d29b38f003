"""How late the event loop of `wain run` is while 10,000 pods are planned: of the plan alone, in a
thread as there, and of a process at work on a real API server, with its probes and its lease. An
idle loop beside that one shows what the machine adds.
"""

import asyncio
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from time import monotonic, process_time, sleep
from typing import Any, Final

from tests.integration.run_manifests import NODE_CLASS, NODE_POOL
from tests.support.control_plane import ControlPlane
from tests.support.running_operator import OUR_LEASE, RunningOperator, TestedCluster

from benchmarks.cluster import PLANS, RUN, Metrics, cpu_seconds, measure_on_control_plane
from benchmarks.cluster_size import create_objects
from benchmarks.measure import Targets, print_row
from benchmarks.planner import planning_job
from wainwright.controllers.context import compute_in_thread
from wainwright.translate.object_metadata import parse_timestamp

PODS: Final = 10_000
TYPES: Final = 1_000
POLL: Final = 0.02
TARGET_MS: Final = 250
PROBE_SECONDS: Final = 1
LEASE_SECONDS: Final = 10
WITHIN: Final = 900.0
PROBE_POLL: Final = 0.2


def run() -> None:
    """SystemExit where a target is missed."""
    print("Event loop while pods are planned")
    targets = Targets()
    for workload in ("deployments", "all distinct"):
        asyncio.run(_measure(workload, targets))
    measure_on_control_plane(partial(_measure_at_work, targets))
    targets.check()


async def _measure(workload: str, targets: Targets) -> None:
    job = planning_job(workload, PODS, TYPES)
    late: list[float] = []
    poll = asyncio.create_task(_note_lag(late))
    began = process_time()
    await compute_in_thread(job)
    seconds = process_time() - began
    poll.cancel()
    p99 = quantiles(late, n=100)[-1] * 1000
    print_row(f"{PODS:,} pods, {workload}: CPU of plan and loop", f"{seconds:.1f} s")
    targets.row("  late, p99", p99, TARGET_MS, "ms")
    print_row("  late, at most", f"{max(late) * 1000:.0f} ms")


async def _note_lag(late: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + POLL
        await asyncio.sleep(POLL)
        late.append(loop.time() - due)


async def _measure_at_work(targets: Targets, plane: ControlPlane, folder: Path) -> None:
    """Pods that wait at the start, each with requests of its own; nobody binds them."""
    cluster = TestedCluster(plane)
    cluster.apply("EC2NodeClass", NODE_CLASS)
    limits = {"limits": {"cpu": "100000"}}
    cluster.apply("NodePool", {**NODE_POOL, "spec": {**NODE_POOL["spec"], **limits}})
    create_objects(plane, "/api/v1/namespaces/default/pods", map(_pod, range(PODS)))
    late: list[float] = []
    with RunningOperator(plane, folder, *RUN) as operator:
        idle = asyncio.create_task(_note_lag(late))
        probes, renewals = await asyncio.to_thread(_probe_until_planned, operator, plane)
        idle.cancel()
        metrics = Metrics(operator.get("metrics", "/metrics")[1])
        print_row(f"{PODS:,} pods, a process at work: CPU", f"{cpu_seconds(operator.pid):.1f} s")
        targets.row("  late by at most, p99", metrics.lag_quantile(0.99) * 1000, TARGET_MS, "ms")
        print_row("  an idle loop beside it, p99", f"{quantiles(late, n=100)[-1] * 1000:.0f} ms")
        targets.row("  slowest answer of /healthz", max(probes), PROBE_SECONDS, "s")
        targets.row("  longest time without a renewal", _longest_gap(renewals), LEASE_SECONDS, "s")
        await asyncio.to_thread(operator.terminate)


def _probe_until_planned(
    operator: RunningOperator, plane: ControlPlane
) -> tuple[list[float], list[float]]:
    """Seconds that /healthz took each time, and the times of renewal that the lease has shown."""
    client, deadline = plane.new_client(), monotonic() + WITHIN
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{OUR_LEASE}"
    probes, renewals = list[float](), dict[float, None]()
    while not _has_planned(operator):
        if monotonic() > deadline:
            raise TimeoutError(f"waited {WITHIN:.0f} s for a plan")
        began = monotonic()
        if operator.get("health", "/healthz")[0]:
            probes.append(monotonic() - began)
        lease = client.request("GET", path).json()
        renewed = parse_timestamp(lease.get("spec", {}).get("renewTime"))
        renewals |= {} if renewed is None else {renewed: None}
        sleep(PROBE_POLL)
    client.close()
    return probes, [*renewals]


def _has_planned(operator: RunningOperator) -> bool:
    """Whether claims have been created for a plan."""
    metrics = Metrics(operator.get("metrics", "/metrics")[1])
    created = metrics.total("karpenter_nodeclaims_created_total")
    return metrics.total(PLANS) >= 1 and created > 0


def _longest_gap(moments: list[float]) -> float:
    return max((b - a for a, b in pairwise(moments)), default=0.0)


def _pod(number: int) -> dict[str, Any]:
    requests = {"cpu": f"{100 + number % 997}m", "memory": f"{128 + number}Mi"}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": "web"}},
        "spec": {"containers": [container]},
    }
