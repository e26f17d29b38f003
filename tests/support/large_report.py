"""Reports as large as clusters get, made without a simulation."""

from wainwright.model.cluster_history import (
    ClusterHistory,
    NodeRecord,
    PodRecord,
    ReservationRecord,
)
from wainwright.report.visual.story import MomentUnit, PoolInfo, Report, Story, StoryKind

TYPES = {"m5.large": 2, "m5.xlarge": 4, "c5.2xlarge": 8, "m5.4xlarge": 16}
GIB = 2**30
HOUR = 3600.0


def large_report(nodes: int, pods_per_node: int) -> Report:
    """Nodes that come within the first hours; a tenth of them goes again."""
    records = [_node(number, nodes) for number in range(nodes)]
    pods = [
        _pod(node, number, place)
        for number, node in enumerate(records)
        for place in range(pods_per_node)
    ]
    reservation = ReservationRecord(
        id="cr-1", instanceType="m5.large", zone="us-west-2a", counts=[(0.0, 0, 50, 50)]
    )
    story = Story(
        kind=StoryKind.SIMULATION,
        name="large",
        answer=f"large: {nodes:,} nodes",
        unit=MomentUnit.SECONDS,
        start="2026-01-01T00:00:00Z",
        end=24 * HOUR,
        opensAt=8 * HOUR,
        pools=[PoolInfo(name="default"), PoolInfo(name="batch")],
        history=ClusterHistory(nodes=records, pods=pods, reservations=[reservation]),
    )
    return Report(stories=[story])


def _node(number: int, nodes: int) -> NodeRecord:
    name, cores = list(TYPES.items())[number % len(TYPES)]
    launched = number / nodes * 6 * HOUR
    return NodeRecord(
        id=f"i-{number:017x}",
        name=f"ip-10-{number >> 8 & 255}-{number & 255}.us-west-2.compute.internal",
        claim=f"default-{number}",
        pool="default" if number % 3 else "batch",
        instanceType=name,
        zone=f"us-west-2{'abc'[number % 3]}",
        capacityType=("spot", "on-demand")[number % 2],
        allocatable={"cpu": cores * 1000 - 80, "memory": cores * 4 * GIB, "pods": 110},
        launched=launched,
        joined=launched + 40,
        ready=[launched + 45],
        ended=12 * HOUR if number % 10 == 0 else None,
        prices=[(launched, cores * 0.024)],
    )


def _pod(node: NodeRecord, number: int, place: int) -> PodRecord:
    share = node.allocatable["cpu"] // 12
    return PodRecord(
        name=f"shop/web-{number}-{place}",
        owner=f"ReplicaSet/web-{place}",
        cpu=share,
        memory=node.allocatable["memory"] // 14,
        created=node.launched,
        bound=node.launched + 50,
        running=node.launched + 52,
        node=number,
        ended=node.ended,
    )
