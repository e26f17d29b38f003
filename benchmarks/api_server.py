"""The API server in memory: microseconds for each write, in a cluster of 50,000 pods."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from time import perf_counter
from typing import Final

from benchmarks.measure import print_row
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from wainwright.api.karpenter.shared_fields import ClaimRequirement, NodeClassRef
from wainwright.api.kubernetes.workloads import Container, Pod, PodSpec, ResourceRequirements
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock
from wainwright.sim.api_server import InMemoryApiServer

PODS: Final = 50_000
CLAIMS: Final = 1_000
NAMESPACE: Final = "default"
POD_SPEC: Final = PodSpec(
    containers=[Container(name="app", resources=ResourceRequirements(requests={"cpu": "1"}))]
)
RUNNING: Final = {
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
}
LAUNCHED: Final = {
    "status": {
        "providerID": "aws:///us-west-2a/i-0",
        "capacity": {"cpu": "4", "memory": "16Gi"},
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("Launched", "Registered", "Initialized")
        ],
    }
}

Write = Callable[[int], Awaitable[object]]


def run() -> None:
    print("API server in memory")
    clock = VirtualClock()
    try:
        clock.run(_measure(InMemoryApiServer(clock)))
    finally:
        clock.close()


async def _measure(server: InMemoryApiServer) -> None:
    watching = asyncio.create_task(_read_events(server, PODS))
    await _repeat(f"create {PODS:,} pods", PODS, lambda n: server.create(_pod(n)))
    started = perf_counter()
    await watching
    print_row(f"{PODS:,} events to a watch", f"{perf_counter() - started:.2f} s")
    await _repeat("bind a pod", PODS, lambda n: server.bind(f"pod-{n}", NAMESPACE, "node"))
    await _repeat(
        "a pod's status", PODS, lambda n: server.patch_status(Pod, f"pod-{n}", RUNNING, NAMESPACE)
    )
    started = perf_counter()
    await server.list(Pod)
    print_row(f"list {PODS:,} pods", f"{(perf_counter() - started) * 1000:.0f} ms")
    await _repeat(
        "create a NodeClaim of 60 types",
        CLAIMS,
        lambda n: server.create(_claim(n)),
        "",
    )
    await _repeat(
        "a NodeClaim's status",
        CLAIMS,
        lambda n: server.patch_status(NodeClaim, f"claim-{n}", LAUNCHED),
        "",
    )
    await _repeat("evict a pod", CLAIMS, lambda n: server.evict(f"pod-{n}", NAMESPACE))
    await _repeat(
        "delete a pod",
        PODS,
        lambda n: server.delete(Pod, f"pod-{n}", NAMESPACE, grace_period=0),
    )


async def _repeat(what: str, number: int, write: Write, target: str = "below 100 µs") -> None:
    started = perf_counter()
    for n in range(number):
        await write(n)
    print_row(what, f"{(perf_counter() - started) / number * 1e6:.0f} µs each", target)


async def _read_events(server: InMemoryApiServer, number: int) -> None:
    async with aclosing(server.watch(Pod, "0")) as events:
        for _ in range(number):
            await anext(events)


def _pod(number: int) -> Pod:
    metadata = ObjectMeta(
        name=f"pod-{number}", namespace=NAMESPACE, labels={"app": str(number % 100)}
    )
    return Pod(metadata=metadata, spec=POD_SPEC)


def _claim(number: int) -> NodeClaim:
    requirement = ClaimRequirement(
        key="node.kubernetes.io/instance-type",
        operator="In",
        values=[f"m5.{size}" for size in range(60)],
    )
    spec = NodeClaimSpec(
        nodeClassRef=NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default"),
        requirements=[requirement],
    )
    return NodeClaim(metadata=ObjectMeta(name=f"claim-{number}"), spec=spec)
