"""The simulated components: how many pods a second they bind and run, on 1,000 nodes."""

import asyncio
from time import process_time
from typing import Final

from benchmarks.measure import print_row
from wainwright.api.kubernetes.cluster import Node, NodeCondition, NodeSpec, NodeStatus
from wainwright.api.kubernetes.meta import LabelSelector, TemplateObjectMeta
from wainwright.api.kubernetes.workloads import (
    Container,
    Deployment,
    DeploymentSpec,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.components import ClusterComponents

NODES: Final = 1_000
PODS: Final = 10_000
CHANGES: Final = 20_000
CHANGES_AT_ONCE: Final = 10
WORKLOADS: Final = 100
DAY: Final = 86_400.0
NAMESPACE: Final = "default"
RESOURCES: Final = {"cpu": "16", "memory": "64Gi", "pods": "110"}
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"


def run() -> None:
    print("Simulated components")
    _measure("pods", spread=False)
    _measure("pods spread over zones and nodes", spread=True)


def _measure(what: str, *, spread: bool) -> None:
    clock = VirtualClock()
    try:
        clock.run(_simulate(clock, what, spread=spread))
    finally:
        clock.close()


async def _simulate(clock: VirtualClock, what: str, *, spread: bool) -> None:
    api = InMemoryApiServer(clock)
    api.load(_node(number) for number in range(NODES))
    components = ClusterComponents(api, clock, EmulatedAwsAccount(clock=clock))
    running = asyncio.create_task(components.run())
    await clock.sleep(1)
    try:
        await _fill(api, clock, what, spread=spread)
        await _churn(api, clock)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _fill(api: InMemoryApiServer, clock: VirtualClock, what: str, *, spread: bool) -> None:
    started = process_time()
    for number in range(WORKLOADS):
        await api.create(_deployment(number, spread=spread))
    await clock.sleep(60)
    seconds = process_time() - started
    pods = (await api.list(Pod)).items
    running = sum(pod.status.phase == "Running" for pod in pods)
    assert running == PODS, f"{running} of {PODS} pods run"
    print_row(f"{PODS:,} {what}, made, bound and run", f"{PODS / seconds:,.0f} pods/s")


async def _churn(api: InMemoryApiServer, clock: VirtualClock) -> None:
    """Workloads grow and shrink in turn, all day."""
    started, steps = process_time(), CHANGES // CHANGES_AT_ONCE
    for step in range(steps):
        name = f"app-{step % WORKLOADS}"
        growth = CHANGES_AT_ONCE if step // WORKLOADS % 2 == 0 else 0
        replicas = PODS // WORKLOADS + growth
        await api.patch(Deployment, name, {"spec": {"replicas": replicas}}, NAMESPACE)
        await clock.sleep(DAY / steps)
    seconds = process_time() - started
    print_row(f"{CHANGES:,} pods come and go in a day", f"{seconds:.1f} s", "well below 20 s")


def _node(number: int) -> Node:
    name = f"node-{number}"
    return Node(
        metadata=ObjectMeta(name=name, labels={HOSTNAME: name, ZONE: f"zone-{number % 3}"}),
        spec=NodeSpec(),
        status=NodeStatus(
            capacity=dict(RESOURCES),
            allocatable=dict(RESOURCES),
            conditions=[NodeCondition(type="Ready", status="True")],
        ),
    )


def _deployment(number: int, *, spread: bool) -> Deployment:
    name = f"app-{number}"
    selector = LabelSelector(matchLabels={"app": name})
    constraints = [
        TopologySpreadConstraint(
            maxSkew=1,
            topologyKey=key,
            whenUnsatisfiable="DoNotSchedule",
            labelSelector=selector,
        )
        for key in (ZONE, HOSTNAME)
    ]
    requests = {"cpu": f"{500 + 10 * (number % 7)}m", "memory": "1Gi"}
    spec = PodSpec(
        containers=[Container(name="app", resources=ResourceRequirements(requests={**requests}))],
        topologySpreadConstraints=constraints if spread else None,
    )
    template = PodTemplateSpec(metadata=TemplateObjectMeta(labels={"app": name}), spec=spec)
    return Deployment(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=DeploymentSpec(replicas=PODS // WORKLOADS, selector=selector, template=template),
    )
