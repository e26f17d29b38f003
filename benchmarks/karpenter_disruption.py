"""One look at a cluster in which nothing is left to do, by Karpenter's disruption methods and ours.

Every node is full, of the cheapest type for its pods, so that all nodes are simulated and none can
go: what both do every ten seconds in a cluster at rest that has changed.
"""

import sys
from collections.abc import Iterable
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
from tests.oracle.client import Oracle, OracleOutOfTime
from tests.oracle.disruption.clusters import launch_node, willing_pool
from tests.oracle.disruption.runs import disruption_question
from tests.oracle.random_catalog import Manifest
from tests.oracle.random_cluster import RandomCluster
from tests.oracle.runs import prepare_cluster
from tests.support.processes import MissingTool

from benchmarks.planner import processor_seconds
from wainwright.core.disruption.disruption_input import DisruptionInput
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.model.instance_type import UNLIMITED
from wainwright.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, ZONE, ZONE_ID
from wainwright.model.plan import (
    PlannedLaunch,
    PlannedNodeClaim,
    PlanOptions,
    RemainingOptions,
)
from wainwright.model.requirements import NO_REQUIREMENTS

SIZES: Final = (500, 1_000)
LIMIT: Final = 600
"""Seconds of processor time that Karpenter's methods get for a size. At 1,000 nodes they took more
than 2,000, without coming to an end; the row then says what is certain."""
POOL: Final = "general"
TYPES: Final = 40
ZONES: Final = {"test-1a": "t1-az1", "test-1b": "t1-az2", "test-1c": "t1-az3"}
CPUS: Final = 4
PODS: Final = 13


def run(sizes: Iterable[int] = SIZES, limit: int = LIMIT) -> None:
    print(f"disruption, nothing left to do: CPU seconds of one look, theirs for {limit} at most")
    print(
        f"{'nodes':>7}{'pods':>8}{'theirs, multi-node':>20}{'single-node':>13}{'simulations/s':>15}"
        f"{'ours':>9}{'simulations/s':>15}{'ratio':>10}"
    )
    try:
        for size in sizes:
            _report(size, limit)
    except MissingTool as missing:
        sys.exit(str(missing))


def _report(size: int, limit: int) -> None:
    cluster = full_cluster(size)
    ready = prepare_cluster(cluster)
    given = DisruptionInput(
        snapshot=ready.snapshot,
        catalogs={name: built.index for name, built in ready.catalogs.items()},
    )
    assert DisruptionPass(given).find_command() is None
    ours = processor_seconds(lambda: DisruptionPass(given).find_command(), 3)
    theirs = _karpenter(cluster, size, limit)
    print(
        f"{size:>7,}{size * PODS:>8,}{theirs.columns}{ours:>9.2f}{size / ours:>15,.0f}"
        f"{f'{theirs.more_than}{theirs.seconds / ours:,.0f}x':>10}",
        flush=True,
    )


class _Theirs(NamedTuple):
    columns: str
    seconds: float
    more_than: str = ""


def _karpenter(cluster: RandomCluster, size: int, limit: int) -> _Theirs:
    """By a process of its own: the time that it may take is counted from its start."""
    with Oracle.start(processor_seconds=limit) as oracle:
        try:
            answer = oracle.schedule_json(msgspec.json.encode(disruption_question(cluster)))
        except OracleOutOfTime:
            return _Theirs(f"{f'> {limit} in all':>48}", limit, "> ")
    assert answer.command is None
    taken = {each.method: each.processor for each in answer.passes}
    multi, single = taken["multi-node"], taken["single-node"]
    return _Theirs(f"{multi:>20.1f}{single:>13.1f}{size / single:>15.1f}", sum(taken.values()))


def full_cluster(size: int) -> RandomCluster:
    """Nodes of four cpus with thirteen pods each, which nearly fill them."""
    rng = Random(size)
    cluster = RandomCluster(
        profile="bench",
        seed=size,
        objects=(_pool(),),
        types=tuple(_type(number) for number in range(1, TYPES + 1)),
        options=PlanOptions(),
    )
    objects: list[Manifest] = list(cluster.objects)
    for number in range(size):
        name, zone = f"n{number:05}", rng.choice(tuple(ZONES))
        launched = launch_node(cluster, _claim(name, zone), name)
        objects += [*launched.objects[-2:], *_pods(name, rng)]
    return msgspec.structs.replace(cluster, objects=tuple(objects))


def _pods(node: str, rng: Random) -> list[Manifest]:
    """3,770 of 3,926 thousandths of a cpu, in different portions; no pod fits elsewhere."""
    half = [rng.randrange(0, 90, 10) for _ in range(PODS // 2)]
    sizes = [290, *(290 + each for each in half), *(290 - each for each in half)]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{node}-{number}",
                "namespace": "default",
                "uid": f"{node}-{number}",
                "labels": {"app": f"app-{number % 5}"},
                "creationTimestamp": "2025-12-31T00:00:00Z",
            },
            "spec": {"nodeName": node, "containers": [_container(cpu)]},
            "status": {"phase": "Running"},
        }
        for number, cpu in enumerate(sizes)
    ]


def _container(cpu: int) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}m", "memory": "256Mi"}
    return {"name": "main", "image": "app:1", "resources": {"requests": requests}}


def _claim(name: str, zone: str) -> PlannedNodeClaim:
    return PlannedNodeClaim(
        name=name,
        pool=POOL,
        round=1,
        requirements=NO_REQUIREMENTS,
        choices=RemainingOptions(instance_types=(), zones=(), capacity_types=()),
        launch=PlannedLaunch(
            instance_type=f"type-{CPUS}", zone=zone, capacity_type=ON_DEMAND, price=0.0
        ),
        fees=0.0,
        requests={},
        pods=(),
    )


def _pool() -> Manifest:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"metadata": {"labels": {}}, "spec": {"nodeClassRef": reference, "requirements": []}}
    return willing_pool(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": POOL},
            "spec": {"template": template},
        }
    )


def _type(cpus: int) -> Manifest:
    """Of n cpus, 4n GiB and 29 pods, on demand in three zones, at a price by the cpu."""
    labels = {ARCH: "amd64", OS: "linux", INSTANCE_TYPE: f"type-{cpus}"}
    return {
        "name": f"type-{cpus}",
        "requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in labels.items()
        ],
        "capacity": {
            "cpu": str(cpus),
            "memory": f"{4 * cpus}Gi",
            "pods": "29",
            "ephemeral-storage": "20Gi",
        },
        "overhead": {"cpu": f"{70 + cpus}m", "memory": "300Mi"},
        "offerings": [
            {
                "labels": {CAPACITY_TYPE: ON_DEMAND, ZONE: zone, ZONE_ID: zone_id},
                "price": round(0.05 * cpus, 4),
                "available": UNLIMITED,
                "reservationID": None,
            }
            for zone, zone_id in ZONES.items()
        ],
    }
