"""Nodes of static NodePools that have drifted or are broken: each is replaced by a node of the
template as it is now.

A static NodePool keeps its number of nodes, so that replacements come first and count against
limits.nodes beside the nodes that they replace. What pods need does not matter for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

import msgspec

from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.cluster_changes import Catalogs, ClusterChanges, unknown_node
from wainwright.core.disruption.commands import Command, UnavailableReplacement
from wainwright.core.disruption.disruption_input import DisruptionOptions, Method
from wainwright.core.plan import unused_names
from wainwright.core.removal_simulation import ClusterSimulator, RemovalSimulation
from wainwright.core.static_capacity import plan_more_nodes, template_options
from wainwright.model.plan import Plan, PlannedNodeClaim
from wainwright.model.snapshot import NODES_LIMIT, Pool, Snapshot

Replacement = TypeVar("Replacement", PlannedNodeClaim, UnavailableReplacement)


class StaticNodeReplacer:
    def __init__(self, snapshot: Snapshot, catalogs: Catalogs, options: DisruptionOptions) -> None:
        self._snapshot, self._catalogs, self._options = snapshot, catalogs, options

    def replace(self, chosen: Sequence[Candidate], *, terminate_first: bool) -> Command | None:
        """As many nodes of one NodePool as its limit leaves room for; `chosen` are within the
        budgets, the first to go first. Where the limit leaves none one may go before its
        replacement comes.
        """
        pools = {each.pool.name: each.pool for each in chosen if each.pool is not None}
        for pool in pools.values():
            own = [each for each in chosen if each.node.pool == pool.name]
            room = min(self._room(pool), self._options.max_nodes, len(own))
            command = self._replace_of_pool(pool, own[:room]) if room else None
            if command is not None:
                return command
            if not room and terminate_first and self._is_at_limit(pool):
                return _terminate_first(own[0])
        return None

    def _replace_of_pool(self, pool: Pool, own: Sequence[Candidate]) -> Command | None:
        options = self._options.plan
        claims = plan_more_nodes(self._snapshot, self._catalogs, options, pool.name, len(own))
        # What is not on offer is asked for all the same. Not under limits of the cluster: nobody
        # knows what it would add to them.
        lacking = [] if options.cluster_limits.amounts else own[len(claims) :]
        if not claims and not lacking:
            return None
        names = {claim.name for claim in claims} | self._snapshot.taken_names
        unavailable = self._unavailable(pool, lacking, names)
        return self._command([*own[: len(claims)], *lacking], claims, unavailable)

    def _unavailable(
        self, pool: Pool, candidates: Sequence[Candidate], taken: AbstractSet[str]
    ) -> tuple[UnavailableReplacement, ...]:
        if not candidates:
            return ()
        choices = template_options(pool, self._catalogs[pool.name])
        return tuple(
            UnavailableReplacement(node=unknown_node(each.node, pool, name), choices=choices)
            for each, name in zip(candidates, unused_names(pool.name, taken), strict=False)
        )

    def _room(self, pool: Pool) -> int:
        """How many nodes may stand beside those there are; none while there are too many."""
        members, running = self._members(pool)
        if pool.replicas is None or running > pool.replicas:
            return 0
        limit = pool.limits.get(NODES_LIMIT)
        return self._options.max_nodes if limit is None else max(0, limit - members)

    def _members(self, pool: Pool) -> tuple[int, int]:
        """All nodes, and those that stay."""
        members = [node for node in self._snapshot.nodes if node.pool == pool.name]
        return len(members), sum(not node.deleting for node in members)

    def _is_at_limit(self, pool: Pool) -> bool:
        """Whether every replica is there and none may stand beside them."""
        members, running = self._members(pool)
        limit = pool.limits.get(NODES_LIMIT)
        return running == pool.replicas and limit is not None and members >= limit

    def _command(
        self,
        candidates: Sequence[Candidate],
        claims: tuple[PlannedNodeClaim, ...],
        unavailable: tuple[UnavailableReplacement, ...],
    ) -> Command:
        """Pods go wherever there is room once the new nodes are there."""
        new_names = {claim.name for claim in claims} | {each.name for each in unavailable}
        simulator = ClusterSimulator(
            self._with_new_nodes(claims, unavailable), self._catalogs, self._options.plan
        )
        simulation = simulator.remove_nodes([each.name for each in candidates])
        placed = {each.node: each.pods for each in simulation.placements}
        return Command(
            method=Method.STATIC_DRIFT,
            reason=DisruptionReason.DRIFTED,
            candidates=tuple(candidates),
            replacements=tuple(_with_pods(claim, placed) for claim in claims),
            unavailable=tuple(_with_pods(each, placed) for each in unavailable),
            simulation=_without(simulation, new_names),
        )

    def _with_new_nodes(
        self,
        claims: tuple[PlannedNodeClaim, ...],
        unavailable: Iterable[UnavailableReplacement],
    ) -> Snapshot:
        planned = Plan(claims=claims, placements=(), unplaced=(), reservations=())
        changes = ClusterChanges(self._snapshot.pools, self._catalogs)
        snapshot = changes.after_plan(self._snapshot, planned)
        nodes = (*snapshot.nodes, *(each.node for each in unavailable))
        return msgspec.structs.replace(snapshot, nodes=nodes)


def _terminate_first(candidate: Candidate) -> Command:
    """What takes its place is launched when it is gone, as the NodePool then lacks a node."""
    return Command(
        method=Method.STATIC_DRIFT,
        reason=DisruptionReason.DRIFTED,
        candidates=(candidate,),
        terminate_first=True,
    )


def _with_pods(each: Replacement, placed: Mapping[str, tuple[str, ...]]) -> Replacement:
    return msgspec.structs.replace(each, pods=placed.get(each.name, ()))


def _without(simulation: RemovalSimulation, names: set[str]) -> RemovalSimulation:
    """The pods on new nodes are those of the claims; nodes of other pools are not launched."""
    return RemovalSimulation(
        placements=tuple(each for each in simulation.placements if each.node not in names),
        unplaced=simulation.unplaced,
    )
