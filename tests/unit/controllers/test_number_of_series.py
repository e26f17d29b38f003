"""How many series a scrape has: a Prometheus of a large cluster pays for each of them."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from tests.support.controlled_cluster import ControlledCluster, run_cluster

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.controllers.cluster_metrics import ClusterMetrics
from wainwright.controllers.condition_metrics import ConditionMetrics
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.events import EventRecorder
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import LiveState
from wainwright.controllers.manager import WATCHED_KINDS
from wainwright.controllers.nodeclaim.launch_log import NodeClaimLaunchLog
from wainwright.controllers.settings import ControllerSettings

SINCE = "2026-01-01T00:00:00Z"
CLAIM_CONDITIONS = ("Launched", "Registered", "Initialized", "Ready", "Consolidatable", "Drifted")
NODE_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
CAPACITY = {
    "cpu": "4",
    "memory": "16Gi",
    "ephemeral-storage": "20Gi",
    "pods": "58",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "attachable-volumes-aws-ebs": "25",
}


def conditions(names: Iterable[str], number: int) -> list[dict[str, str]]:
    since = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    return [
        {"type": each, "status": "True", "reason": each, "lastTransitionTime": since}
        for each in names
    ]


def node_with_its_claim(number: int, pods: int) -> list[WireStruct]:
    name, provider_id = f"node-{number:05}", f"aws:///us-east-1a/i-{number:017x}"
    labels = {
        "karpenter.sh/nodepool": "web",
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m5.xlarge",
        "karpenter.k8s.aws/instance-category": "m",
        "karpenter.k8s.aws/instance-family": "m5",
        "karpenter.k8s.aws/instance-size": "xlarge",
        "topology.kubernetes.io/region": "us-east-1",
        "topology.kubernetes.io/zone": "us-east-1a",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    allocatable = {**CAPACITY, "cpu": "3920m", "memory": "15Gi", "ephemeral-storage": "18Gi"}
    node = {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": SINCE},
        "spec": {"providerID": provider_id},
        "status": {
            "capacity": CAPACITY,
            "allocatable": allocatable,
            "conditions": conditions(NODE_CONDITIONS, number),
        },
    }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    claim = {
        "metadata": {"name": f"web-{number:05}", "labels": labels, "creationTimestamp": SINCE},
        "spec": {"nodeClassRef": reference, "requirements": []},
        "status": {
            "providerID": provider_id,
            "nodeName": name,
            "conditions": conditions(CLAIM_CONDITIONS, number),
        },
    }
    found: list[WireStruct] = [
        msgspec.convert(node, Node, strict=False),
        msgspec.convert(claim, NodeClaim, strict=False),
    ]
    return found + [_pod(f"{name}-{each}", name, is_daemon=each < 2) for each in range(pods)]


def _pod(name: str, node: str, *, is_daemon: bool) -> Pod:
    amounts = {"cpu": "100m", "memory": "128Mi"}
    resources = {"requests": amounts, "limits": amounts}
    kind = "DaemonSet" if is_daemon else "ReplicaSet"
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "1", "controller": True}
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    manifest = {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(manifest, Pod, strict=False)


async def fill(cluster: ControlledCluster, nodes: int, pods: int) -> None:
    """What a process that has listed such a cluster exports of it; no controller runs."""
    api, clock = cluster.api, cluster.clock
    for number in range(nodes):
        api.load(node_with_its_claim(number, pods))
    cache = InformerCache(api, clock, WATCHED_KINDS, "series")
    context = ControllerContext(
        cache=cache,
        state=LiveState(cache, clock),
        cloud=cluster.make_cloud(NodeClaimLaunchLog(api, cache)),
        clock=clock,
        events=EventRecorder(api, clock),
        metrics=cluster.metrics,
        settings=ControllerSettings(),
    )
    ClusterMetrics(context).register()
    ConditionMetrics(context).watch()
    watching = asyncio.create_task(cache.run())
    await cache.wait_until_listed()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def series_by_metric(nodes: int) -> Counter[str]:
    found = Counter[str]()

    async def story(cluster: ControlledCluster) -> None:
        await fill(cluster, nodes, pods=10)
        lines = cluster.metrics.exposition().splitlines()
        found.update(line.partition("{")[0] for line in lines if not line.startswith("#"))

    run_cluster(story)
    return found


def test_a_node_with_its_claim_and_pods_has_few_series() -> None:
    few, many = series_by_metric(10), series_by_metric(50)
    added = many.total() - few.total()
    assert added == 40 * 16, "16 for a node, none for a NodeClaim or a pod"
    assert all(each.startswith("karpenter_nodes_") for each in many - few)
    assert many.total() < 50 * 16 + 50


def test_a_scrape_of_two_hundred_nodes_takes_little_time() -> None:
    """A second scrape: the first reads the requests of every pod."""

    async def story(cluster: ControlledCluster) -> None:
        await fill(cluster, 200, pods=10)
        cluster.metrics.exposition()
        began = time.process_time()
        cluster.metrics.exposition()
        assert time.process_time() - began < 0.25, "about 0.04 s on a machine that is not busy"

    run_cluster(story)
