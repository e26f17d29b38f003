"""Drifted nodes of static NodePools: each is replaced by a node of the template as it is now.

A static NodePool keeps its number of nodes, so that replacements come first and count against
limits.nodes beside the nodes that they replace. What pods need does not matter for them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.cluster_changes import Catalogs, ClusterChanges
from wainwright.core.disruption.commands import Command, DisruptionOptions, Method
from wainwright.core.removal_simulation import ClusterSimulator, RemovalSimulation
from wainwright.core.static_capacity import plan_static_capacity
from wainwright.model.plan import Plan, PlannedNodeClaim
from wainwright.model.snapshot import NODES_LIMIT, Pool, Snapshot


class StaticDriftReplacer:
    def __init__(self, snapshot: Snapshot, catalogs: Catalogs, options: DisruptionOptions) -> None:
        self._snapshot, self._catalogs, self._options = snapshot, catalogs, options

    def replace(self, drifted: Sequence[Candidate]) -> Command | None:
        """As many nodes of one NodePool as its limit leaves room for; `drifted` are within the
        budgets, the earliest drift first.
        """
        pools = {each.pool.name: each.pool for each in drifted if each.pool is not None}
        for pool in pools.values():
            own = [each for each in drifted if each.node.pool == pool.name][: self._room(pool)]
            claims = self._plan(pool, len(own)) if own else ()
            if claims:
                return self._command(own[: len(claims)], claims)
        return None

    def _room(self, pool: Pool) -> int:
        """How many nodes may stand beside those there are; none while there are too many."""
        members = [node for node in self._snapshot.nodes if node.pool == pool.name]
        running = sum(not node.deleting for node in members)
        if pool.replicas is None or running > pool.replicas:
            return 0
        limit = pool.limits.get(NODES_LIMIT)
        return self._options.max_nodes if limit is None else max(0, limit - len(members))

    def _plan(self, pool: Pool, count: int) -> tuple[PlannedNodeClaim, ...]:
        """Nodes of the template, as if so many replicas were missing."""
        running = Counter(node.pool for node in self._snapshot.nodes if not node.deleting)
        wanted = msgspec.structs.replace(pool, replicas=running[pool.name] + count)
        snapshot = msgspec.structs.replace(self._snapshot, pools=(wanted,), pods=())
        return plan_static_capacity(snapshot, self._catalogs, self._options.plan).claims

    def _command(
        self, candidates: Sequence[Candidate], claims: tuple[PlannedNodeClaim, ...]
    ) -> Command:
        """Pods go wherever there is room once the new nodes are there."""
        planned = Plan(claims=claims, placements=(), unplaced=(), reservations=())
        changes = ClusterChanges(self._snapshot.pools, self._catalogs)
        snapshot = changes.after_plan(self._snapshot, planned)
        simulator = ClusterSimulator(snapshot, self._catalogs, self._options.plan)
        simulation = simulator.remove_nodes([each.name for each in candidates])
        placed = {each.node: each.pods for each in simulation.placements}
        return Command(
            method=Method.STATIC_DRIFT,
            reason=DisruptionReason.DRIFTED,
            candidates=tuple(candidates),
            replacements=tuple(_with_pods(claim, placed) for claim in claims),
            simulation=_without(simulation, {claim.name for claim in claims}),
        )


def _with_pods(claim: PlannedNodeClaim, placed: Mapping[str, tuple[str, ...]]) -> PlannedNodeClaim:
    return msgspec.structs.replace(claim, pods=placed.get(claim.name, ()))


def _without(simulation: RemovalSimulation, names: set[str]) -> RemovalSimulation:
    """The pods on new nodes are those of the claims; nodes of other pools are not launched."""
    return RemovalSimulation(
        placements=tuple(each for each in simulation.placements if each.node not in names),
        unplaced=simulation.unplaced,
    )
