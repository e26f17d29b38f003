"""Snapshots of a live cluster: ten pods a node, and what a few changes cost."""

from functools import partial
from typing import Any

from benchmarks.measure import median_seconds, print_row
from wainwright.api.kubernetes.object_reader import decode_object
from wainwright.api.wire import WireStruct
from wainwright.translate.cluster_state import ClusterState

SIZES, PODS_PER_NODE, CHANGES = (1_000, 5_000), 10, 10


def pod_object(number: int, node: str, revision: int = 0) -> WireStruct:
    app = f"app-{number % 100}"
    requests = {"cpu": f"{100 + number % 100}m", "memory": "128Mi"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app}
    value: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-{number}",
            "namespace": f"team-{number % 20}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "resourceVersion": str(revision),
            "labels": {"app": app},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:10Z"},
    }
    return decode_object(value)


def node_object(number: int, revision: int = 0) -> WireStruct:
    name, capacity = node_name(number), {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return decode_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "resourceVersion": str(revision),
                "labels": {
                    "karpenter.sh/nodepool": "default",
                    "karpenter.sh/initialized": "true",
                    "kubernetes.io/hostname": name,
                    "node.kubernetes.io/instance-type": "m5.2xlarge",
                    "topology.kubernetes.io/zone": f"us-west-2{'abc'[number % 3]}",
                },
            },
            "spec": {"providerID": f"aws:///us-west-2a/i-{number:017x}"},
            "status": {"capacity": capacity, "allocatable": capacity},
        }
    )


def node_name(number: int) -> str:
    return f"ip-10-0-{number // 250}-{number % 250}.us-west-2.compute.internal"


def filled_state(nodes: int) -> ClusterState:
    state = ClusterState()
    for number in range(nodes):
        state.apply(node_object(number))
    for number in range(nodes * PODS_PER_NODE):
        state.apply(pod_object(number, node_name(number % nodes)))
    return state


def run() -> None:
    for nodes in SIZES:
        _run_size(nodes)


def _run_size(size: int) -> None:
    print(f"snapshots of {size * PODS_PER_NODE:,} pods on {size:,} nodes")
    fresh = [filled_state(size) for _ in range(3)]
    print_row("the first", f"{1000 * median_seconds(lambda: fresh.pop().snapshot(), 3):.0f} ms")
    state = filled_state(size)
    state.snapshot()
    pods = [
        [pod_object(number, node_name(number + revision), revision) for number in range(CHANGES)]
        for revision in range(1, 22)
    ]
    nodes = [
        [node_object(number, revision) for number in range(CHANGES)] for revision in range(1, 22)
    ]
    for name, changes, target in (("pods", pods, "a few ms"), ("nodes", nodes, "a few ms")):
        took = median_seconds(partial(_apply_next, state, changes), 21)
        print_row(f"after {CHANGES} changed {name}", f"{1000 * took:.2f} ms", target)
    print_row("unchanged", f"{1000 * median_seconds(state.snapshot, 21):.3f} ms")


def _apply_next(state: ClusterState, changes: list[list[WireStruct]]) -> None:
    for item in changes.pop():
        state.apply(item)
    state.snapshot()


if __name__ == "__main__":
    run()
