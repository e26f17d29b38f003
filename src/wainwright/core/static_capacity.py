"""Static NodePools: the nodes that they lack are launched whatever pods need, and take pods then.

They are planned first, by the same scheduler: each missing node stands for a pod that requests
nothing and keeps apart from the others. So limits, reservations and daemonsets count as for any
node. The plan for the pods of the cluster starts from a snapshot in which these nodes are in
flight.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.core.plan import plan
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    NODEPOOL,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.plan import (
    ExplainedPlan,
    PackingPolicy,
    Plan,
    PlannedNodeClaim,
    PlanOptions,
    RemainingOptions,
    ReservationUsage,
)
from wainwright.model.pod import AffinityTerm, Pod, PodConstraints, PodSelector, SelectorRequirement
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources, add_resources
from wainwright.model.snapshot import NODES_LIMIT, Pool, Snapshot
from wainwright.model.taints import Toleration, TolerationOperator

Catalogs = Mapping[str, InstanceTypeIndex]
CAPACITY_TYPES: Final = (ON_DEMAND, RESERVED, SPOT)
ANY_TAINT = Toleration(operator=TolerationOperator.EXISTS)


class StaticPoolState(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a static NodePool."""

    pool: str
    replicas: int
    running: int
    """Without those being deleted."""
    planned: int
    limit: int | None = None
    """limits.nodes, which counts nodes being deleted as well."""

    @property
    def missing(self) -> int:
        """What cannot be launched."""
        return max(0, self.replicas - self.running - self.planned)


class StaticCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that static NodePools lack."""

    snapshot: Snapshot
    """With these nodes in flight."""
    claims: tuple[PlannedNodeClaim, ...] = ()
    pools: tuple[StaticPoolState, ...] = ()

    def join(self, result: ExplainedPlan) -> ExplainedPlan:
        """The plan of the snapshot, with these nodes as claims of it and not as nodes there are."""
        if not self.claims:
            return result
        names = {claim.name for claim in self.claims}
        placed = {each.node: each.pods for each in result.placements}
        requests = {pod.key: {**pod.requests, PODS: 1} for pod in self.snapshot.pods}
        static = [_with_pods(claim, placed.get(claim.name, ()), requests) for claim in self.claims]
        return msgspec.structs.replace(
            result,
            claims=(*static, *result.claims),
            placements=tuple(each for each in result.placements if each.node not in names),
            reservations=_used_by(self.claims, result.reservations),
        )


def plan_static_capacity(
    snapshot: Snapshot, catalogs: Catalogs, options: PlanOptions
) -> StaticCapacity:
    """The nodes that static NodePools lack; none while the feature gate is off."""
    pools = [pool for pool in snapshot.pools if pool.keeps_replicas and pool.name in catalogs]
    if not options.static_capacity or not pools:
        return StaticCapacity(snapshot=snapshot)
    running = Counter(node.pool for node in snapshot.nodes if not node.deleting)
    pods = [pod for pool in pools for pod in _stand_ins(pool, running[pool.name])]
    made = _plan_nodes(snapshot, pools, pods, catalogs, options)
    claims = tuple(_without_stand_in(claim) for claim in made.claims)
    planned = Counter(claim.pool for claim in claims)
    return StaticCapacity(
        snapshot=_with_nodes(snapshot, claims, catalogs),
        claims=claims,
        pools=tuple(_pool_state(pool, running, planned) for pool in pools),
    )


def new_node_requests(
    snapshot: Snapshot, catalogs: Catalogs, options: PlanOptions, name: str
) -> Resources:
    """What DaemonSets need of one more node of the pool; nothing where none can be launched."""
    claims = plan_more_nodes(snapshot, catalogs, options, name, 1)
    return claims[0].requests if claims else {}


def plan_more_nodes(
    snapshot: Snapshot, catalogs: Catalogs, options: PlanOptions, name: str, count: int
) -> tuple[PlannedNodeClaim, ...]:
    """So many more nodes of the pool as limits leave room for, at most `count`."""
    if count <= 0:
        return ()
    running = Counter(node.pool for node in snapshot.nodes if not node.deleting)
    wanted = tuple(
        msgspec.structs.replace(pool, replicas=running[name] + count)
        for pool in snapshot.pools
        if pool.name == name
    )
    given = msgspec.structs.replace(snapshot, pools=wanted, pods=())
    return plan_static_capacity(given, catalogs, options).claims


def template_options(pool: Pool, index: InstanceTypeIndex) -> RemainingOptions:
    """All that the template allows, whether or not it is on offer."""
    requirements = pool.requirements
    types = index.iter_types(index.compatible_types(requirements))
    zones, capacity_types = (
        tuple(value for value in values if requirements.allowed(key).admits(value))
        for key, values in ((ZONE, index.zones), (CAPACITY_TYPE, CAPACITY_TYPES))
    )
    return RemainingOptions(
        instance_types=tuple(sorted(each.name for each in types)),
        zones=zones,
        capacity_types=capacity_types,
    )


def _pool_state(
    pool: Pool, running: Mapping[str | None, int], planned: Mapping[str, int]
) -> StaticPoolState:
    return StaticPoolState(
        pool=pool.name,
        replicas=pool.replicas or 0,
        running=running[pool.name],
        planned=planned[pool.name],
        limit=pool.limits.get(NODES_LIMIT),
    )


def _stand_ins(pool: Pool, running: int) -> Iterable[Pod]:
    """A pod for each missing node, which only a new node of the pool can take."""
    selector = PodSelector(
        match_expressions=(SelectorRequirement(key=NODEPOOL, values=frozenset({pool.name})),)
    )
    apart = PodConstraints(anti_affinity=(AffinityTerm(key=HOSTNAME, selector=selector),))
    for number in range(running, pool.replicas or 0):
        yield Pod(
            namespace=pool.name,
            name=f"{number:06}",
            labels={NODEPOOL: pool.name},
            alternatives=(Requirements.from_labels({NODEPOOL: pool.name}),),
            tolerations=(ANY_TAINT,),
            constraints=apart,
        )


def _plan_nodes(
    snapshot: Snapshot,
    pools: Iterable[Pool],
    pods: Iterable[Pod],
    catalogs: Catalogs,
    options: PlanOptions,
) -> Plan:
    # Nodes being deleted take no pods, and still count against limits and reservations.
    nodes = [msgspec.structs.replace(node, deleting=True, pods=()) for node in snapshot.nodes]
    only_static = msgspec.structs.replace(
        snapshot,
        pods=tuple(pods),
        nodes=tuple(nodes),
        pools=tuple(msgspec.structs.replace(pool, unusable=None) for pool in pools),
    )
    first_fit = msgspec.structs.replace(options, packing=PackingPolicy.FIRST_FIT)
    return plan(only_static, catalogs, first_fit)


def _without_stand_in(claim: PlannedNodeClaim) -> PlannedNodeClaim:
    requests = add_resources(claim.requests, {PODS: -len(claim.pods)})
    kept = {name: amount for name, amount in requests.items() if amount > 0}
    return msgspec.structs.replace(claim, pods=(), requests=kept)


def _with_nodes(
    snapshot: Snapshot, claims: tuple[PlannedNodeClaim, ...], catalogs: Catalogs
) -> Snapshot:
    from wainwright.core.disruption.cluster_changes import ClusterChanges  # few inputs need it

    nothing = Plan(claims=claims, placements=(), unplaced=(), reservations=())
    after = ClusterChanges(snapshot.pools, catalogs).after_plan(snapshot, nothing)
    changed = {pool.name: pool for pool in after.pools}
    static = {claim.pool for claim in claims}
    pools = [changed[pool.name] if pool.name in static else pool for pool in snapshot.pools]
    return msgspec.structs.replace(snapshot, nodes=after.nodes, pools=tuple(pools))


def _with_pods(
    claim: PlannedNodeClaim, pods: tuple[str, ...], requests: Mapping[str, dict[str, int]]
) -> PlannedNodeClaim:
    total = claim.requests
    for pod in pods:
        total = add_resources(total, requests[pod])
    return msgspec.structs.replace(claim, pods=pods, requests=total)


def _used_by(
    claims: Iterable[PlannedNodeClaim], reservations: Iterable[ReservationUsage]
) -> tuple[ReservationUsage, ...]:
    """What the claims use is used by this plan, not by claims of the input."""
    used = Counter(claim.launch.reservation_id for claim in claims)
    return tuple(
        msgspec.structs.replace(
            each,
            used=each.used + used[each.id],
            in_flight=max(0, each.in_flight - used[each.id]),
        )
        for each in reservations
    )
