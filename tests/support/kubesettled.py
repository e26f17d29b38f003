"""The cluster that a plan ends with: its claims are nodes, and its pods run there."""

import msgspec
from tests.support.kubebinding import Cluster
from tests.support.randomworlds import World

from wainwright.model.node import Node
from wainwright.model.plan import Plan
from wainwright.model.pod import Pod


def settled(world: World, plan: Plan) -> World:
    """The same world, quiet: who found no place is gone."""
    cluster, old = Cluster(world, plan), {node.name: node for node in world.snapshot.nodes}
    received: dict[str, list[Pod]] = {host.name: [] for host in cluster.hosts}
    for pod, host in cluster.waiting:
        received[host.name].append(pod)
    kept = [old[name] for name in cluster.joined]
    nodes = [
        msgspec.structs.replace(node, pods=(*node.pods, *received[node.name])) for node in kept
    ]
    for claim, host in zip(plan.claims, cluster.coming, strict=True):
        kind = next(k for k in world.types[claim.pool] if k.name == claim.launch.instance_type)
        nodes.append(
            Node(
                name=host.name,
                labels=host.labels,
                taints=host.taints,
                allocatable=dict(kind.allocatable),
                pods=tuple(received[host.name]),
                pool=claim.pool,
                launched=False,
                reservation_id=claim.launch.reservation_id,
            )
        )
    snapshot = msgspec.structs.replace(world.snapshot, pods=(), nodes=tuple(nodes))
    return msgspec.structs.replace(world, snapshot=snapshot)
