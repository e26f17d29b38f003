"""`wain run` on a real control plane: pods that wait at the start until the last one is bound, and
what is left when four fifths of them go.

The operator is a process of its own, with the emulated EC2 in it; kubelets are played here, so that
its CPU time is that of controllers and account. `make bench ARGS=cluster`; sizes by
CLUSTER_PODS=100,500.
"""

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.integration.run_manifests import NODE_CLASS, NODE_POOL, deployment
from tests.support.control_plane import ControlPlane
from tests.support.processes import MissingTool
from tests.support.running_operator import RunningOperator, TestedCluster

from benchmarks.measure import print_row
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import Lease, LeaseSpec
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import SystemClock, format_microseconds
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.errors import KubernetesError, ObjectNotFoundError
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit
from wainwright.kube.kubeconfig import load_address

SIZES: Final = (100, 500, 2_000, 5_000)
LEFT: Final = 5
"""One of so many pods stays."""
RUN: Final = (
    *("--provider", "emulator", "--cluster-name", "shop", "--emulator-boot", "1s"),
    *("--emulator-kubelet", "false"),
)
WITHIN: Final = 900.0
SETTLED_SECONDS: Final = 60.0
"""Without a change of any node or claim; a command is validated for 15 s."""
PLANS: Final = "karpenter_scheduler_scheduling_duration_seconds_count"
PRICE: Final = re.compile(r", \$([0-9.]+)/h, for ")


def run() -> None:
    print("wain run on a real control plane (etcd, kube-apiserver, kube-scheduler, …)")
    sizes = os.environ.get("CLUSTER_PODS")
    for pods in SIZES if sizes is None else map(int, sizes.split(",")):
        measure_on_control_plane(partial(_measure, pods), scheduler=True, controller_manager=True)


def measure_on_control_plane(
    measure: Callable[[ControlPlane, Path], Coroutine[Any, Any, None]], **components: bool
) -> None:
    """On a new one with our CRDs, and with a folder for what is written; where its programs cannot
    be built it says so.
    """
    try:
        plane = ControlPlane.start(**components)
    except MissingTool as missing:
        print(f"  left out: {missing}")
        return
    with plane, tempfile.TemporaryDirectory() as folder:
        for item in CUSTOM_RESOURCES:
            plane.apply_crd(custom_resource_definition(item))
        asyncio.run(measure(plane, Path(folder)))


async def _measure(pods: int, plane: ControlPlane, folder: Path) -> None:
    cluster = TestedCluster(plane)
    cluster.apply("EC2NodeClass", NODE_CLASS)
    pool = {**NODE_POOL, "spec": {**NODE_POOL["spec"], "limits": {"cpu": "100000"}}}
    cluster.apply("NodePool", pool)
    address = load_address(kubeconfig=str(plane.kubeconfig), environment={})
    async with KubeClient.connect(address, limit=RequestLimit(qps=0)) as client:
        kubelets = Kubelets(client)
        tasks = [asyncio.create_task(kubelets.run()), asyncio.create_task(kubelets.heartbeats())]
        try:
            cluster.apply("Deployment", without_spread(deployment(pods)))
            await kubelets.until("pods that wait", lambda: kubelets.pods == pods)
            with RunningOperator(plane, folder, *RUN) as operator:
                await _scale_up(kubelets, operator, pods)
                cluster.apply("Deployment", without_spread(deployment(pods // LEFT)))
                await _scale_down(kubelets, operator, pods // LEFT)
                await asyncio.to_thread(operator.terminate)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def without_spread(document: dict[str, Any]) -> dict[str, Any]:
    del document["spec"]["template"]["spec"]["topologySpreadConstraints"]
    return document


async def _scale_up(kubelets: "Kubelets", operator: RunningOperator, pods: int) -> None:
    started = time.time()
    await kubelets.until("bound pods", lambda: kubelets.bound == pods)
    bound = time.time() - started
    metrics = Metrics(operator.get("metrics", "/metrics")[1])
    print_row(f"{pods:,} pods: last claim created after", f"{kubelets.last_claim - started:.1f} s")
    print_row(f"{pods:,} pods: last pod bound after", f"{bound:.1f} s")
    print_row("  plans", f"{metrics.total(PLANS):.0f}")
    print_row("  own CPU", f"{cpu_seconds(operator.pid):.1f} s")
    print_row("  peak memory", f"{peak_mib(operator.pid):.0f} MiB")
    print_row("  requests to the API server", f"{metrics.total('client_go_request_total'):.0f}")
    print_row("  nodes", f"{kubelets.nodes}")
    price = sum(float(found[1]) for each in operator.messages() if (found := PRICE.search(each)))
    print_row("  price", f"${price:.2f}/h")
    print_row("  event loop late by at most, p99", metrics.quantile(0.99))


async def _scale_down(kubelets: "Kubelets", operator: RunningOperator, left: int) -> None:
    started, before = time.time(), cpu_seconds(operator.pid)
    requests = Metrics(operator.get("metrics", "/metrics")[1]).total("client_go_request_total")
    await kubelets.until("fewer pods", lambda: kubelets.pods == left)
    gone = time.time()
    await kubelets.until(
        "nothing that changes",
        lambda: (
            time.time() - max(kubelets.last_change, gone) > SETTLED_SECONDS
            and kubelets.bound == left
        ),
    )
    metrics = Metrics(operator.get("metrics", "/metrics")[1])
    settled = max(kubelets.last_change, gone) - started
    print_row(f"{left:,} pods left: settled after", f"{settled:.1f} s")
    print_row("  pods moved", f"{metrics.total('karpenter_pods_eviction_requests_total'):.0f}")
    print_row("  nodes", f"{kubelets.nodes}")
    print_row("  price", f"${metrics.total('karpenter_nodepools_cost_total'):.2f}/h")
    print_row("  own CPU", f"{cpu_seconds(operator.pid) - before:.1f} s")
    requests = metrics.total("client_go_request_total") - requests
    print_row("  requests to the API server", f"{requests:.0f}")


class Kubelets:
    """Keeps nodes alive and ends pods, and counts what there is."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._cache = InformerCache(client, SystemClock(), [Pod, Node, NodeClaim])
        self._changed = asyncio.Event()
        self._ending: set[asyncio.Task[None]] = set()
        self.bound = 0
        self.last_claim = self.last_change = time.time()
        self._cache.subscribe(Pod, self._pod_changed)
        self._cache.subscribe(NodeClaim, self._claim_changed)
        self._cache.subscribe(Node, self._node_changed)

    @property
    def pods(self) -> int:
        return len(self._cache.all(Pod))

    @property
    def nodes(self) -> int:
        return len(self._cache.all(Node))

    async def run(self) -> None:
        await self._cache.run()

    async def heartbeats(self) -> None:
        while True:
            now = format_microseconds(time.time())
            names = [node.metadata.name for node in self._cache.all(Node)]
            for name in names:
                await self._renew(name, now)
            await asyncio.sleep(10)

    async def _renew(self, name: str, now: str) -> None:
        try:
            patch = {"spec": {"renewTime": now}}
            await self._client.patch(Lease, name, patch, "kube-node-lease")
        except ObjectNotFoundError:
            metadata = ObjectMeta(name=name, namespace="kube-node-lease")
            spec = LeaseSpec(holderIdentity=name, leaseDurationSeconds=40, renewTime=now)
            await self._client.create(Lease(metadata=metadata, spec=spec))

    async def until(self, what: str, is_so: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(WITHIN):
                while not is_so():
                    self._changed.clear()
                    try:
                        async with asyncio.timeout(1):
                            await self._changed.wait()
                    except TimeoutError:
                        continue
        except TimeoutError:
            raise TimeoutError(f"waited {WITHIN:.0f} s for {what}") from None

    def _pod_changed(self, change: Change[Pod]) -> None:
        before, after = change.before, change.after
        self.bound += _is_bound(after) - _is_bound(before)
        if after is not None and after.metadata.deletionTimestamp and after.spec.nodeName:
            self._spawn(self._end_pod(after))
        self._changed.set()

    async def _end_pod(self, pod: Pod) -> None:
        try:
            metadata = pod.metadata
            await self._client.delete(Pod, metadata.name, metadata.namespace, grace_period=0)
        except KubernetesError:
            pass  # gone already

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        if change.before is None:
            self.last_claim = time.time()
        if change.before is None or change.after is None:
            self.last_change = time.time()
        self._changed.set()

    def _node_changed(self, change: Change[Node]) -> None:
        if change.before is None or change.after is None:
            self.last_change = time.time()
        if change.before is None and change.after is not None:
            now = format_microseconds(time.time())
            self._spawn(self._renew(change.after.metadata.name, now))
        self._changed.set()


def _is_bound(pod: Pod | None) -> int:
    return int(pod is not None and bool(pod.spec.nodeName))


class Metrics:
    """The text of /metrics."""

    def __init__(self, text: str) -> None:
        self._lines = [line.rpartition(" ") for line in text.splitlines() if line[:1] != "#"]

    def total(self, name: str) -> float:
        return sum(float(value) for key, _, value in self._lines if key.partition("{")[0] == name)

    def quantile(self, share: float) -> str:
        """The bucket of the loop's lag that it falls into."""
        name = "wainwright_event_loop_lag_seconds"
        count = self.total(f"{name}_count")
        for key, _, value in self._lines:
            bound = re.search(rf'{name}_bucket{{.*le="([^"]+)"', key)
            if bound is not None and float(value) >= share * count:
                return f"{bound[1]} s"
        return "unknown"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 0.0 if found is None else int(found[1]) / 1024
