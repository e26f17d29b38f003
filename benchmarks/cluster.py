"""`wain run` on a real control plane: pods that wait at the start until the last one is bound, and
what is left when four fifths of them go.

The operator is a process of its own, with the emulated EC2 in it; kubelets are played here, so that
its CPU time is that of controllers and account. `make bench ARGS=cluster`; sizes by
CLUSTER_PODS=100,500; the figures of 5,000 pods have targets. `make bench-karpenter ARGS=cluster`
does the same with Karpenter beside it.
"""

import asyncio
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tests.integration.run_manifests import NODE_CLASS, NODE_POOL, deployment
from tests.support.control_plane import ControlPlane
from tests.support.processes import MissingTool
from tests.support.running_operator import RunningOperator, TestedCluster

from benchmarks.measure import Targets, print_row
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import Lease, LeaseSpec
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import SystemClock, format_microseconds, format_timestamp
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.errors import KubernetesError, ObjectNotFoundError
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit
from wainwright.kube.kubeconfig import load_address
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, ZONE
from wainwright.offline import PlanSettings, prepare_input

TARGET_PODS: Final = 5_000
"""With so many the figures have targets."""
SIZES: Final = (100, 500, 2_000, TARGET_PODS)
CLAIM_SECONDS: Final = 5.0
PLANS_AT_MOST: Final = 2
CPU_SECONDS: Final = 10.0
LEFT: Final = 5
"""One of so many pods stays."""
RUN: Final = (
    *("--provider", "emulator", "--cluster-name", "shop", "--emulator-boot", "1s"),
    *("--emulator-kubelet", "false", "--packing", "cost"),
)
"""Packing by cost: first-fit, the default, has Karpenter's nodes and price."""
WITHIN: Final = 900.0
SETTLED_SECONDS: Final = 60.0
"""Without a change of any node or claim; a command is validated for 15 s."""
PLANS: Final = "karpenter_scheduler_scheduling_duration_seconds_count"
REQUESTS: Final = "client_go_request_total"
LOG_LINES: Final = 20
EVICTED: Final = "DisruptionTarget"
"""The condition of a pod that was evicted rather than deleted."""


class MeasuredProcess(Protocol):
    """An autoscaler at work."""

    log: Path

    @property
    def pid(self) -> int: ...

    def get(self, endpoint: str, path: str) -> tuple[int, str]: ...

    def terminate(self) -> object: ...


class Autoscaler(NamedTuple):
    """What is measured, and what it needs."""

    name: str
    crds: Callable[[], Iterable[Mapping[str, Any]]]
    node_class: tuple[str, Mapping[str, Any]]
    """Its kind, and the object."""
    node_pool: Mapping[str, Any]
    start: Callable[[ControlPlane, Path], AbstractContextManager[MeasuredProcess]]


class ScaleUp(NamedTuple):
    """Until the last pod is bound; seconds since the start of the process."""

    last_claim: float
    last_pod: float
    plans: float
    cpu: float
    mebibytes: float
    requests: float
    nodes: int
    price: float
    lag: str
    load: float
    """Average of the machine in the last minute."""


class ScaleDown(NamedTuple):
    """Until nodes and claims no longer change; seconds since most pods were deleted."""

    settled: float
    moved: int
    nodes: int
    price: float
    cpu: float
    requests: float
    load: float


def run() -> None:
    """SystemExit where a target is missed."""
    print("wain run on a real control plane (etcd, kube-apiserver, kube-scheduler, …)")
    targets = Targets()
    for pods in wanted_sizes(SIZES):
        measured = measure_autoscaler(OURS, pods)
        if measured is not None:
            _print_scale_up(pods, measured[0])
            _print_scale_down(pods // LEFT, measured[1])
            if pods == TARGET_PODS:
                check_scale_up(targets, measured[0])
    targets.check()


def wanted_sizes(default: Iterable[int]) -> Iterable[int]:
    sizes = os.environ.get("CLUSTER_PODS")
    return default if sizes is None else map(int, sizes.split(","))


def _our_crds() -> Iterable[Mapping[str, Any]]:
    return map(custom_resource_definition, CUSTOM_RESOURCES)


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
        for crd in _our_crds():
            plane.apply_crd(crd)
        asyncio.run(measure(plane, Path(folder)))


def measure_autoscaler(autoscaler: Autoscaler, pods: int) -> tuple[ScaleUp, ScaleDown] | None:
    """On a new control plane; None, which it says, where its programs cannot be built."""
    try:
        plane = ControlPlane.start(scheduler=True, controller_manager=True)
    except MissingTool as missing:
        print(f"  left out: {missing}")
        return None
    with plane, tempfile.TemporaryDirectory() as folder:
        for crd in autoscaler.crds():
            plane.apply_crd(crd)
        return asyncio.run(_measure(autoscaler, pods, plane, Path(folder)))


async def _measure(
    autoscaler: Autoscaler, pods: int, plane: ControlPlane, folder: Path
) -> tuple[ScaleUp, ScaleDown]:
    cluster = TestedCluster(plane)
    cluster.apply(*autoscaler.node_class)
    cluster.apply("NodePool", autoscaler.node_pool)
    address = load_address(kubeconfig=str(plane.kubeconfig), environment={})
    async with KubeClient.connect(address, limit=RequestLimit(qps=0)) as client:
        kubelets = Kubelets(client)
        tasks = [asyncio.create_task(kubelets.run()), asyncio.create_task(kubelets.heartbeats())]
        try:
            cluster.apply("Deployment", without_spread(deployment(pods)))
            await kubelets.until("pods that wait", lambda: kubelets.pods == pods)
            started = time.time()
            with autoscaler.start(plane, folder) as process:
                up = await _scale_up(kubelets, process, pods, started)
                cluster.apply("Deployment", without_spread(deployment(pods // LEFT)))
                down = await _scale_down(kubelets, process, pods // LEFT)
                await asyncio.to_thread(process.terminate)
                return up, down
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def without_spread(document: dict[str, Any]) -> dict[str, Any]:
    del document["spec"]["template"]["spec"]["topologySpreadConstraints"]
    return document


async def _scale_up(
    kubelets: "Kubelets", process: MeasuredProcess, pods: int, started: float
) -> ScaleUp:
    await kubelets.until("bound pods", lambda: kubelets.bound == pods)
    bound = time.time() - started
    metrics = metrics_of(process)
    return ScaleUp(
        last_claim=kubelets.last_claim - started,
        last_pod=bound,
        plans=metrics.total(PLANS),
        cpu=cpu_seconds(process.pid),
        mebibytes=peak_mib(process.pid),
        requests=metrics.total(REQUESTS),
        nodes=kubelets.nodes,
        price=kubelets.price,
        lag=metrics.quantile(0.99),
        load=os.getloadavg()[0],
    )


async def _scale_down(kubelets: "Kubelets", process: MeasuredProcess, left: int) -> ScaleDown:
    started, before = time.time(), cpu_seconds(process.pid)
    requests, moved = metrics_of(process).total(REQUESTS), kubelets.evicted
    await kubelets.until("fewer pods", lambda: kubelets.pods == left)
    gone = time.time()
    await kubelets.until(
        "nothing that changes",
        lambda: (
            time.time() - max(kubelets.last_change, gone) > SETTLED_SECONDS
            and kubelets.bound == left
        ),
    )
    if kubelets.last_change < started:
        print("  no node was replaced or removed, though few pods are left; the end of the log:")
        print(*process.log.read_text(encoding="utf-8").splitlines()[-LOG_LINES:], sep="\n")
    return ScaleDown(
        settled=max(kubelets.last_change, gone) - started,
        moved=kubelets.evicted - moved,
        nodes=kubelets.nodes,
        price=kubelets.price,
        cpu=cpu_seconds(process.pid) - before,
        requests=metrics_of(process).total(REQUESTS) - requests,
        load=os.getloadavg()[0],
    )


def metrics_of(process: MeasuredProcess) -> "Metrics":
    return Metrics(process.get("metrics", "/metrics")[1])


def check_scale_up(targets: Targets, up: ScaleUp) -> None:
    print(f"  targets at {TARGET_PODS:,} pods")
    targets.row("  last claim created after", up.last_claim, CLAIM_SECONDS, "s")
    targets.row("  plans", up.plans, PLANS_AT_MOST)
    targets.row("  own CPU", up.cpu, CPU_SECONDS, "s")


def _print_scale_up(pods: int, up: ScaleUp) -> None:
    print_row(f"{pods:,} pods: last claim created after", f"{up.last_claim:.1f} s")
    print_row(f"{pods:,} pods: last pod bound after", f"{up.last_pod:.1f} s")
    print_row("  plans", f"{up.plans:.0f}")
    print_row("  own CPU", f"{up.cpu:.1f} s")
    print_row("  peak memory", f"{up.mebibytes:.0f} MiB")
    print_row("  requests to the API server", f"{up.requests:.0f}")
    print_row("  nodes", f"{up.nodes}")
    print_row("  price", f"${up.price:.2f}/h")
    print_row("  event loop late by at most, p99", up.lag)
    print_row("  load average of the machine", f"{up.load:.1f}")


def _print_scale_down(left: int, down: ScaleDown) -> None:
    print_row(f"{left:,} pods left: settled after", f"{down.settled:.1f} s")
    print_row("  pods moved", f"{down.moved}")
    print_row("  nodes", f"{down.nodes}")
    print_row("  price", f"${down.price:.2f}/h")
    print_row("  own CPU", f"{down.cpu:.1f} s")
    print_row("  requests to the API server", f"{down.requests:.0f}")
    print_row("  load average of the machine", f"{down.load:.1f}")


def _limited_pool() -> dict[str, Any]:
    return {**NODE_POOL, "spec": {**NODE_POOL["spec"], "limits": {"cpu": "100000"}}}


OURS: Final = Autoscaler(
    name="Wainwright",
    crds=_our_crds,
    node_class=("EC2NodeClass", NODE_CLASS),
    node_pool=_limited_pool(),
    start=lambda plane, folder: RunningOperator(plane, folder, *RUN),
)


@cache
def instance_types() -> tuple[InstanceType, ...]:
    """What the NodePool may launch, with the prices that nodes are counted at."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pool.json"
        items = {"apiVersion": "v1", "kind": "List", "items": [NODE_POOL, NODE_CLASS]}
        file.write_text(json.dumps(items), encoding="utf-8")
        settings = PlanSettings(now=datetime.now(UTC), region=REGION)
        catalog = prepare_input(read_manifests([str(file)]), settings).catalogs["default"]
    return tuple(each for each in catalog.types if each.name.startswith(FAMILY))


REGION: Final = "us-east-1"
FAMILY: Final = "m5."


@cache
def on_demand_prices() -> Mapping[tuple[str, str], float]:
    """By instance type and zone."""
    return {
        (kind.name, offering.requirements.single_value(ZONE) or ""): offering.price
        for kind in instance_types()
        for offering in kind.offerings
        if offering.requirements.single_value(CAPACITY_TYPE) == ON_DEMAND
    }


class Kubelets:
    """Makes nodes Ready, keeps them alive and ends pods, and counts what there is."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._cache = InformerCache(client, SystemClock(), [Pod, Node, NodeClaim])
        self._changed = asyncio.Event()
        self._ending: set[asyncio.Task[None]] = set()
        self.bound = self.evicted = 0
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

    @property
    def price(self) -> float:
        """USD per hour, of all nodes."""
        labels = (node.metadata.labels or {} for node in self._cache.all(Node))
        prices = on_demand_prices()
        return sum(prices[each[INSTANCE_TYPE], each[ZONE]] for each in labels)

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
        self.evicted += _is_evicted(after) > _is_evicted(before)
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
            self._spawn(self._join(change.after.metadata.name))
        self._changed.set()

    async def _join(self, name: str) -> None:
        now = time.time()
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"conditions": [{**ready, "lastTransitionTime": format_timestamp(now)}]}
        await self._client.patch_status(Node, name, {"status": status})
        await self._renew(name, format_microseconds(now))


def _is_bound(pod: Pod | None) -> int:
    return int(pod is not None and bool(pod.spec.nodeName))


def _is_evicted(pod: Pod | None) -> bool:
    conditions = () if pod is None else pod.status.conditions or ()
    return any(each.type == EVICTED and each.status == "True" for each in conditions)


class Metrics:
    """The text of /metrics."""

    def __init__(self, text: str) -> None:
        self._lines = [line.rpartition(" ") for line in text.splitlines() if line[:1] != "#"]

    def total(self, name: str) -> float:
        return sum(float(value) for key, _, value in self._lines if key.partition("{")[0] == name)

    def quantile(self, share: float) -> str:
        """The bucket of the loop's lag that it falls into."""
        seconds = self.lag_quantile(share)
        return "unknown" if math.isnan(seconds) else f"{seconds:g} s"

    def lag_quantile(self, share: float) -> float:
        """Seconds, infinite beyond the last bucket; NaN where nothing was measured."""
        name = "wainwright_event_loop_lag_seconds"
        count = self.total(f"{name}_count")
        for key, _, value in self._lines:
            bound = re.search(rf'{name}_bucket{{.*le="([^"]+)"', key)
            if bound is not None and float(value) >= share * count:
                return float(bound[1])
        return math.nan


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 0.0 if found is None else int(found[1]) / 1024
