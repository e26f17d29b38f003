"""Disruption: nodes that are not needed any more are removed.

Every ten seconds the cluster is looked at. A command that saves money is carried out only if it
still holds fifteen seconds later: pods may have come in the meantime.
"""

from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.runtime import WHOLE_CLUSTER, Again, Key, Poll, Result, WorkQueue
from wainwright.core.disruption.commands import (
    Command,
    DisruptionInput,
    DisruptionOptions,
    Method,
)
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.metrics import NODECLAIMS_DISRUPTED
from wainwright.model.labels import CAPACITY_TYPE
from wainwright.model.snapshot import Node as ModelNode
from wainwright.model.taints import DISRUPTED_TAINT

PERIOD: Final = 10.0  # seconds between two looks
SYNC_POLL: Final = 1.0
VALIDATION_DELAY: Final = 15.0
"""Seconds after which a command that was found must be found again to be carried out."""


class Disruption:
    name = "disruption"

    def __init__(
        self,
        context: ControllerContext,
        declared: DeclaredObjectsTracker,
        methods: tuple[Method, ...] = (Method.EMPTINESS,),
    ) -> None:
        self._context, self._declared = context, declared
        self._cache, self._state = context.cache, context.state
        self._options = DisruptionOptions(
            plan=context.settings.plan_options,
            methods=methods,
            minimum_saving=context.settings.minimum_saving,
        )
        self._previous: DisruptionPass | None = None
        self._found: tuple[Command, float] | None = None
        """A command, and when it is to be validated."""

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        now = self._context.clock.now()
        if self._found is not None:
            command, due = self._found
            if now < due:
                return Again(due - now)
            return await self._validate(command)
        found = await self._find()
        if found is None:
            return Poll(PERIOD)
        self._found = found, now + VALIDATION_DELAY
        return Again(VALIDATION_DELAY)

    async def _find(self) -> Command | None:
        catalogs = await self._declared.catalogs()
        snapshot = self._state.snapshot(catalogs.values())
        pools = tuple(pool for pool in snapshot.pools if pool.name in catalogs)
        given = DisruptionInput(
            snapshot=msgspec.structs.replace(snapshot, pools=pools),
            catalogs={name: catalog.index for name, catalog in catalogs.items()},
            nominated=self._state.nominated(),
        )
        looked = DisruptionPass(given, self._options, self._previous)
        self._previous = looked
        return looked.find_command()

    async def _validate(self, command: Command) -> Result:
        """Carries out what is still found of the command."""
        self._found = None
        found = await self._find()
        if found is None:
            return Poll(PERIOD)
        names = {each.name for each in command.candidates}
        kept = tuple(each for each in found.candidates if each.name in names)
        if kept:
            await self._carry_out(msgspec.structs.replace(found, candidates=kept))
        return Again(PERIOD)

    async def _carry_out(self, command: Command) -> None:
        for candidate in command.candidates:
            await self._mark(candidate.name, command)
        for candidate in command.candidates:
            claim = self._cache.get(NodeClaim, _claim_name(candidate.node))
            if claim is not None:
                message = f"Disrupting NodeClaim: {command.reason}/Delete"
                await self._context.events.inform(claim, "DisruptionTerminating", message)
                await self._cache.delete(claim)
                self._count(claim, command)

    async def _mark(self, name: str, command: Command) -> None:
        """Keeps new pods off the node, and writes down why it goes."""
        node = self._cache.get(Node, name)
        if node is None:
            return
        taints = node.spec.taints or []
        if not any(taint.key == DISRUPTED_TAINT.key for taint in taints):
            added = Taint(key=DISRUPTED_TAINT.key, effect=DISRUPTED_TAINT.effect)
            spec = {"spec": {"taints": msgspec.to_builtins([*taints, added])}}
            node = await self._cache.patch(node, spec, any_version=False)
        for claim in self._state.claims_of_node(node):
            conditions = ConditionSet(
                (claim.status or NodeClaimStatus()).conditions,
                now=self._context.clock.now(),
                generation=claim.metadata.generation,
            )
            conditions.set(condition.DISRUPTION_REASON, condition.TRUE, command.reason)
            patch = conditions.patch()
            if patch is not None:
                await self._cache.patch_status(claim, patch)

    def _count(self, claim: NodeClaim, command: Command) -> None:
        labels = claim.metadata.labels or {}
        self._context.metrics.add(
            NODECLAIMS_DISRUPTED,
            reason=command.reason.lower(),
            nodepool=command.candidates[0].pool.name if command.candidates[0].pool else "",
            capacity_type=labels.get(CAPACITY_TYPE, ""),
        )


def _claim_name(node: ModelNode) -> str:
    return "" if node.claim is None else node.claim.name
