"""What counts against the limits of the cluster: all managed nodes, standing and in flight, of
whatever NodePool, and the NodeClaims of a plan.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wainwright.core.scheduling.constraints.limits import ClusterLimits, price_units
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.plan import PRICE_LIMIT, PlannedNodeClaim, PlanOptions
from wainwright.model.resources import Resources
from wainwright.model.snapshot import NODES_LIMIT, Node, Snapshot, find_offering


class ClusterUsage(msgspec.Struct, frozen=True, kw_only=True):
    amounts: Resources
    """By the names of limits; of capacities, `nodes` and `pricePerHour` in whole units."""
    unpriced: tuple[str, ...]
    """Nodes whose price the catalogues do not know; they count as if they cost nothing."""


def remaining_cluster_limits(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    claims: Iterable[PlannedNodeClaim] = (),
) -> ClusterLimits | None:
    """What the nodes, and the claims of a plan, leave of the limits; None if there are none."""
    limits = options.cluster_limits.amounts
    if not limits:
        return None
    usage = dict(cluster_usage(snapshot, catalogs).amounts)
    types = _types_by_name(catalogs)
    for claim in claims:
        capacity = types[claim.pool][claim.launch.instance_type].capacity
        _add_node(usage, capacity, claim.launch.price + claim.fees)
    return ClusterLimits(limits, usage)


def cluster_usage(snapshot: Snapshot, catalogs: Mapping[str, InstanceTypeIndex]) -> ClusterUsage:
    """Of the managed nodes, and of NodePools that report nodes which the input does not have."""
    usage: dict[str, int] = {}
    unpriced = []
    types = _types_by_name(catalogs)
    nodes = [node for node in snapshot.nodes if node.managed]
    for node in nodes:
        price = _price(node, types)
        _add_node(usage, node.capacity, price or 0.0)
        unpriced += [] if price is not None else [node.name]
    for amounts in _reported_usage(snapshot, {node.pool for node in nodes}):
        for name, amount in amounts.items():
            usage[name] = usage.get(name, 0) + amount
    return ClusterUsage(amounts=usage, unpriced=tuple(sorted(unpriced)))


def _reported_usage(snapshot: Snapshot, with_nodes: set[str | None]) -> Iterator[Resources]:
    return (pool.in_use for pool in snapshot.pools if pool.name not in with_nodes)


def _add_node(usage: dict[str, int], capacity: Resources, price: float) -> None:
    for name, amount in {**capacity, NODES_LIMIT: 1, PRICE_LIMIT: price_units(price)}.items():
        usage[name] = usage.get(name, 0) + amount


def _price(node: Node, types: Mapping[str, Mapping[str, InstanceType]]) -> float | None:
    """USD per hour with fees; None if no catalogue of its pool has what it is paid by."""
    instance_type = types.get(node.pool or "", {}).get(node.labels.get(INSTANCE_TYPE, ""))
    if instance_type is None:
        return node.highest_price
    offering = find_offering(node, instance_type.offerings)
    return node.highest_price if offering is None else offering.price + instance_type.fee


def _types_by_name(
    catalogs: Mapping[str, InstanceTypeIndex],
) -> dict[str, dict[str, InstanceType]]:
    """By NodePool and name; pools mostly share one catalogue."""
    by_index = {id(index): {each.name: each for each in index.types} for index in catalogs.values()}
    return {pool: by_index[id(index)] for pool, index in catalogs.items()}
