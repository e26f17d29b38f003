"""Carries disruption commands out: taint, launch the replacements, wait for them, then delete.

Nothing of it is kept but in memory and on the objects themselves. After a restart nodes that are
tainted for a command that nobody knows are set free again, and replacements of such commands that
are not up yet are deleted.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.clock import format_timestamp
from wainwright.cloud import NodePoolCatalog
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import (
    ConditionSet,
    is_initialized,
    write_claim_conditions,
)
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.disruption.consolidation_backoff import (
    ConsolidationBackoff,
    undone_annotation,
)
from wainwright.controllers.disruption.failed_starts import FailedStarts
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.node.disrupted_taint import taint_patch, untaint_patch
from wainwright.controllers.nodeclaim.claim_creation import ClaimCreator, SeenCreations
from wainwright.controllers.nodeclaim.claim_deletion import (
    TERMINATION_TIMESTAMP_ANNOTATION,
    TerminationMode,
    count_disrupted,
    drain_deadline,
)
from wainwright.controllers.runtime import DONE, Again, Key, Result, WorkQueue
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import Candidate, undone_consolidations
from wainwright.core.disruption.commands import Command
from wainwright.errors import KubernetesError, ObjectNotFoundError
from wainwright.messages.formatting import format_count, format_hourly
from wainwright.metrics import (
    DISRUPTION_DECISIONS,
    DISRUPTION_DECISIONS_BY_POOL,
    DISRUPTION_QUEUE_FAILURES,
)
from wainwright.model.disruption import FailedStart
from wainwright.model.snapshot import Node as ModelNode

LOG: Final = logging.getLogger(__name__)

MIN_TIMEOUT: Final = 600.0  # seconds
MAX_TIMEOUT: Final = 3600.0
TIMEOUT_PER_COMMAND: Final = 0.08
"""Seconds that each command in the queue adds: EC2 and the API server slow down together."""
NOT_MARKED: Final = "its taint, or the reason on its NodeClaim, could not be written"
NOT_CREATED: Final = "a replacement could not be created"
NOT_DELETED: Final = "NodeClaim {}, a replacement of an earlier command, could not be deleted"
NOT_FREED: Final = "the taint of an earlier command, or its reason, could not be removed"
REPLACES_ANNOTATION: Final = "wainwright.dev/replaces"
"""On a replacement: the claims of the nodes that it is launched for."""


class CommandInFlight(msgspec.Struct, kw_only=True):
    """A command that has been begun."""

    command: Command
    started: float
    candidates: tuple[str, ...]
    """Names of their NodeClaims."""
    nodes: tuple[str, ...]
    replacements: tuple[str, ...] = ()
    """Names of the NodeClaims created for it."""
    is_recorded: bool = False
    """Whether its removal was reported, which a deletion that is tried again does not repeat."""


class DisruptionQueue:
    name = "disruption.queue"

    def __init__(
        self, context: ControllerContext, creator: ClaimCreator, backoff: ConsolidationBackoff
    ) -> None:
        self._context, self._creator, self._backoff = context, creator, backoff
        self._cache, self._state = context.cache, context.state
        self._failed_starts = FailedStarts(context)
        self._left: dict[str, str] = {}
        """By node, what of an earlier command could not be cleaned up the last time."""
        self._commands: dict[Key, CommandInFlight] = {}
        self._by_replacement: dict[str, Key] = {}
        self._queue: WorkQueue | None = None
        self.removing: Callable[[Sequence[NodeClaim]], Awaitable[None]] = _ignore
        """Told before the nodes of a voluntary command are deleted."""
        self.removed: Callable[[Iterable[float]], None] = lambda _: None
        """Told when each node of a voluntary command was deleted."""
        self.left_marked: Callable[[], None] = lambda: None
        """Told when something of a command that was given up is left to `clean_up`."""
        self._last_number = 0
        limits = context.settings.plan_options.cluster_limits
        self._has_cluster_limits = bool(limits.amounts)
        """Then replacements of static NodePools are of the types that were planned: the template as
        it stands may become any."""

    def watch(self, queue: WorkQueue) -> None:
        self._queue = queue

        def changed_claim(change: Change[NodeClaim]) -> None:
            key = self._by_replacement.get(change.name)
            if key is not None:
                queue.add(key)

        self._cache.subscribe(NodeClaim, changed_claim)

    def seen_creations(self) -> SeenCreations:
        """For `start`: taken when the cluster is looked at."""
        return self._creator.creations.seen()

    @property
    def failed_starts(self) -> tuple[FailedStart, ...]:
        """Of the nodes of which no command is to be begun now; those that are still marked for an
        earlier one included.
        """
        return (*self._still_marked(), *self._failed_starts.current())

    def _still_marked(self) -> Iterator[FailedStart]:
        for name in sorted({*self._state.disrupted_nodes, *self._left}):
            node = self._cache.get(Node, name)
            if node is not None and (name in self._left or self._state.is_abandoned(node)):
                message = self._left.get(name, NOT_FREED)
                yield FailedStart(name=name, message=message, is_marked=True)

    @property
    def in_flight(self) -> list[CommandInFlight]:
        return [*self._commands.values()]

    # Beginning

    async def start(
        self, command: Command, catalogs: Mapping[str, NodePoolCatalog], seen: SeenCreations
    ) -> bool:
        """Begins to carry the command out; False if it was given up at once.

        `seen` is what was known of other NodeClaims when it was found. That is asked twice: before
        the taints, since a command that is outdated already should mark nothing, and after them,
        since others may have created NodeClaims while they were written.
        """
        if not self._is_current(command, seen):
            return False
        with self._state.keep_pods(each.name for each in command.candidates):
            marked = await self._mark_all(command)
            if len(marked) < len(command.candidates):
                if command.replacement_names or not marked:
                    await self._set_free(each.name for each in command.candidates)
                    return False
                command = msgspec.structs.replace(
                    command,
                    candidates=tuple(each for each in command.candidates if each.name in marked),
                )
            if not self._is_current(command, seen):
                await self._set_free(marked)
                return False
            replacements = await self._launch(command, catalogs)
        if replacements is None:
            return False
        self._add(command, replacements)
        await self._report_start(command, replacements)
        return True

    def _is_current(self, command: Command, seen: SeenCreations) -> bool:
        """Whether its replacements keep to the limits; else it is found again, or another is."""
        pools = _launching_pools(command)
        if not pools or self._creator.creations.is_current(seen, pools):
            return True
        LOG.info("NodeClaims were created meanwhile, so not now: %s", describe_command(command))
        return False

    def _add(self, command: Command, replacements: Iterable[NodeClaim]) -> None:
        assert self._queue is not None
        self._last_number += 1
        key = f"command-{self._last_number}"
        names = tuple(each.metadata.name for each in replacements)
        self._commands[key] = CommandInFlight(
            command=command,
            started=self._context.clock.now(),
            candidates=tuple(claim_name(each.node) for each in command.candidates),
            nodes=tuple(each.name for each in command.candidates),
            replacements=names,
        )
        self._by_replacement |= dict.fromkeys(names, key)
        self._failed_starts.begun(self._commands[key].nodes)
        self._state.take_nodes(self._commands[key].nodes)
        self._nominate(command)
        self._queue.add(key)

    def _nominate(self, command: Command) -> None:
        seconds = self._context.settings.nomination_seconds
        for placement in command.simulation.placements:
            self._state.nominate(placement.node, seconds)

    async def _mark_all(self, command: Command) -> list[str]:
        """The nodes that could be tainted, with the reason on their claims."""
        marked = []
        for candidate in command.candidates:
            try:
                await self._mark(candidate.name, command)
                marked.append(candidate.name)
            except KubernetesError as error:
                LOG.warning("node %s could not be tainted: %s", candidate.name, error)
                if not isinstance(error, ObjectNotFoundError):  # it is gone
                    self._could_not_begin(command, [candidate], 1, f"{NOT_MARKED} ({error})")
                await self._read_again(candidate.name)
        return marked

    def _could_not_begin(
        self, command: Command, candidates: Iterable[Candidate], failures: int, message: str
    ) -> None:
        for each in candidates:
            self._failed_starts.failed(each.name, message)
        labels = {"consolidation_type": command.method}
        self._context.metrics.add(DISRUPTION_QUEUE_FAILURES, failures, **labels)

    async def _read_again(self, name: str) -> None:
        """What was answered with an error may have been written: unseen, the node would be marked
        for nothing, and not be counted by budgets.
        """
        node = self._cache.get(Node, name)
        for each in [] if node is None else (node, *self._state.claims_of_node(node)):
            with suppress(KubernetesError):
                await self._cache.read(each)

    async def _mark(self, name: str, command: Command) -> None:
        node = self._cache.get(Node, name)
        if node is None:
            raise ObjectNotFoundError(f"there is no node {name}")
        node = await self._cache.update(node, taint_patch)
        for claim in self._state.claims_of_node(node):
            conditions = self._conditions(claim)
            conditions.set(condition.DISRUPTION_REASON, condition.TRUE, command.reason)
            await self._write(claim, conditions)

    async def _launch(
        self, command: Command, catalogs: Mapping[str, NodePoolCatalog]
    ) -> list[NodeClaim] | None:
        """None if one of them could not be created; then those that were are deleted again, and the
        nodes are set free. Where one cannot be deleted its nodes wait for `clean_up`.

        A command that ends its nodes first launches nothing: the pods are planned when they have
        lost their node.
        """
        creations = () if command.terminate_first else self._creations(command, catalogs)
        pools = _launching_pools(command)
        results = await self._creator.creations.create_all(pools, creations)
        created = [each for each in results if isinstance(each, NodeClaim)]
        failed = [each for each in results if isinstance(each, BaseException)]
        if not failed:
            return created
        is_undone = all([await self._take_back(claim) for claim in created])
        if not isinstance(failed[0], KubernetesError):
            raise failed[0]
        LOG.warning("replacements could not be created: %s", failed[0])
        message = f"{NOT_CREATED} ({failed[0]})"
        self._could_not_begin(command, command.candidates, len(failed), message)
        if is_undone:
            await self._set_free(each.name for each in command.candidates)
        return None

    def _creations(
        self, command: Command, catalogs: Mapping[str, NodePoolCatalog]
    ) -> Iterator[Awaitable[NodeClaim]]:
        reason = command.reason.lower()
        replaced = ",".join(claim_name(each.node) for each in command.candidates)
        annotations = {REPLACES_ANNOTATION: replaced}
        if command.reason is DisruptionReason.UNDERUTILIZED:
            undone = max(undone_consolidations(each.node) for each in command.candidates)
            annotations |= undone_annotation(undone)  # otherwise it would begin anew
        if any(each.is_static for each in command.candidates) and not self._has_cluster_limits:
            yield from self._static_creations(command, reason, annotations)
            return
        for claim in command.replacements:
            yield self._creator.create(
                claim, catalogs[claim.pool], reason=reason, annotations=annotations
            )

    def _static_creations(
        self, command: Command, reason: str, annotations: Mapping[str, str]
    ) -> Iterator[Awaitable[NodeClaim]]:
        """Claims of the template as it stands, whether or not it is on offer now."""
        requests = command.replacements[0].requests if command.replacements else {}
        for candidate in command.candidates:
            pool = self._cache.get(NodePool, candidate.node.pool or "")
            assert pool is not None, "candidates have a NodePool"
            yield self._creator.create_static(
                pool, requests, reason=reason, annotations=annotations
            )

    # Waiting, and the end

    async def reconcile(self, key: Key) -> Result:
        flight = self._commands.get(key)
        if flight is None:
            return DONE
        replacements = [self._cache.get(NodeClaim, name) for name in flight.replacements]
        if any(each is None or each.metadata.deletionTimestamp for each in replacements):
            return await self._roll_back(key, flight)
        waiting = [each for each in replacements if each is not None and not is_initialized(each)]
        left = flight.started + self._timeout() - self._context.clock.now()
        if not waiting:
            return await self._delete_candidates(key, flight)
        if left <= 0:
            return await self._roll_back(key, flight)
        await self._report_waiting(flight, waiting)
        return Again(left)

    def _timeout(self) -> float:
        seconds = TIMEOUT_PER_COMMAND * len(self._commands)
        return min(MAX_TIMEOUT, max(MIN_TIMEOUT, seconds))

    async def _delete_candidates(self, key: Key, flight: CommandInFlight) -> Result:
        """Each for itself: one that the API server refuses to delete keeps no other, and is tried
        again.
        """
        if not flight.is_recorded:
            flight.is_recorded = True
            await self._record_removal(flight)
        refused: list[KubernetesError] = []
        for claim in self._remaining(flight):
            await self._report_termination(claim, flight.command)
            try:
                await self._delete(claim, flight.command)
            except KubernetesError as error:
                LOG.warning("%s could not be deleted: %s", claim.metadata.name, error)
                refused.append(error)
        if refused:
            raise refused[0]
        self._forget(key, flight)
        return DONE

    async def _record_removal(self, flight: CommandInFlight) -> None:
        command = flight.command
        self._context.reports.command_carried_out(
            reason=command.reason,
            method=command.method,
            candidates=flight.candidates,
            replacements=flight.replacements,
            savings_per_hour=command.saving,
            has_modelled_prices=command.has_modelled_prices,
        )
        self._backoff.removing(command, flight.candidates)
        if command.reason is not DisruptionReason.UNHEALTHY:
            await self.removing([*self._remaining(flight)])

    def _remaining(self, flight: CommandInFlight) -> Iterator[NodeClaim]:
        """The NodeClaims of its nodes that are not deleted yet, as they are when they are asked
        for.
        """
        for name in flight.candidates:
            claim = self._cache.get(NodeClaim, name)
            if claim is not None and not claim.metadata.deletionTimestamp:
                yield claim

    async def _delete(self, claim: NodeClaim, command: Command) -> None:
        """With a deadline where the repair of its node bounds the drain: it may bring one that is
        there forward, never put it off.
        """
        bounds = {claim_name(each.node): each.drain_bound for each in command.candidates}
        bound, due = bounds.get(claim.metadata.name), drain_deadline(claim)
        mode = TerminationMode.GRACEFUL if bound is None else TerminationMode.FORCEFUL
        if bound is not None:
            deadline = self._context.clock.now() + bound
            if due is None or deadline < due:
                stamp = {TERMINATION_TIMESTAMP_ANNOTATION: format_timestamp(deadline)}
                claim = await self._cache.patch(claim, {"metadata": {"annotations": stamp}})
        await self._cache.delete(claim)
        if command.reason is not DisruptionReason.UNHEALTHY:
            self.removed([self._context.clock.now()])
        count_disrupted(self._context, claim, command.reason.lower(), mode)

    async def _roll_back(self, key: Key, flight: CommandInFlight) -> Result:
        """Takes back what was launched for the nodes and is not up, and then sets them free.

        Otherwise the next pass would launch another replacement beside it. What the API server
        refuses of that is left to `clean_up`.
        """
        is_undone = True
        for name in flight.replacements:
            claim = self._cache.get(NodeClaim, name)
            if claim is not None and not is_initialized(claim):
                is_undone &= await self._take_back(claim)
            if claim is None or not is_initialized(claim):
                self._context.metrics.add(
                    DISRUPTION_QUEUE_FAILURES, consolidation_type=flight.command.method
                )
        is_undone = is_undone and await self._set_free(flight.nodes)
        self._forget(key, flight)
        if not is_undone:
            self.left_marked()
        return DONE

    async def _take_back(self, claim: NodeClaim) -> bool:
        """Whether the replacement could be deleted."""
        try:
            await self._cache.delete(claim)
        except KubernetesError as error:
            LOG.warning("%s could not be deleted: %s", claim.metadata.name, error)
            return False
        return True

    def _forget(self, key: Key, flight: CommandInFlight) -> None:
        del self._commands[key]
        self._state.release_nodes(flight.nodes)
        for name in flight.replacements:
            self._by_replacement.pop(name, None)

    async def _set_free(self, names: Iterable[str]) -> bool:
        """Whether all of them could be: one that the API server refuses to change keeps no other,
        and is left to `clean_up`.
        """
        refused = []
        for name in names:
            try:
                await self._set_one_free(name)
            except KubernetesError as error:
                LOG.warning("node %s could not be set free: %s", name, error)
                refused.append(name)
        return not refused

    async def _set_one_free(self, name: str) -> None:
        """The taint goes last: while the API server is slow, budgets count the node by it."""
        node = self._cache.get(Node, name)
        if node is None:
            return
        for claim in self._state.claims_of_node(node):
            conditions = self._conditions(claim)
            conditions.clear(condition.DISRUPTION_REASON)
            await self._write(claim, conditions)
        if not node.metadata.deletionTimestamp:
            await self._cache.update(node, untaint_patch)

    async def clean_up(self) -> bool:
        """Deletes replacements that are not up of a command that no longer exists, and sets the
        nodes free that are marked for it: a process that was killed has left them. In this order,
        as both together may be more than limits allow: a node whose replacement cannot be deleted
        waits for it. False where something is left to the next time.
        """
        orphans = [
            claim
            for claim in [*self._cache.all(NodeClaim)]
            if self._is_orphaned(claim) and not await self._take_back(claim)
        ]
        self._left = self._waiting_for(orphans)
        for node in [*self._cache.all(Node)]:
            name = node.metadata.name
            is_next = name not in self._left and self._state.is_abandoned(node)
            if is_next and not await self._set_free([name]):
                self._left[name] = NOT_FREED
        return not self._left

    def _waiting_for(self, orphans: Iterable[NodeClaim]) -> dict[str, str]:
        """The nodes that they replace: they are not replaced again meanwhile."""
        return {
            node.metadata.name: NOT_DELETED.format(orphan.metadata.name)
            for orphan in orphans
            for name in _replaced_claims(orphan)
            if (claim := self._cache.get(NodeClaim, name)) is not None
            for node in self._state.nodes_of_claim(claim)
        }

    def _is_orphaned(self, claim: NodeClaim) -> bool:
        if (
            claim.metadata.deletionTimestamp
            or claim.metadata.name in self._by_replacement
            or is_initialized(claim)
        ):
            return False
        known = (self._cache.get(NodeClaim, name) for name in _replaced_claims(claim))
        return any(each is not None and not each.metadata.deletionTimestamp for each in known)

    # Reporting

    async def _report_start(self, command: Command, replacements: list[NodeClaim]) -> None:
        text = describe_command(command)
        LOG.info("%s: %s", command.method, text)
        labels = {
            "decision": _decision(command),
            "reason": command.reason.lower(),
            "consolidation_type": command.method,
        }
        self._context.metrics.add(DISRUPTION_DECISIONS, **labels)
        for pool in sorted({each.node.pool or "" for each in command.candidates}):
            self._context.metrics.add(DISRUPTION_DECISIONS_BY_POOL, nodepool=pool, **labels)
        for claim in replacements:
            await self._context.events.inform(claim, "DisruptionLaunching", text)

    async def _report_waiting(self, flight: CommandInFlight, waiting: list[NodeClaim]) -> None:
        text = f"Waiting on readiness to continue disruption: {describe_command(flight.command)}"
        for claim in waiting:
            await self._context.events.inform(claim, "DisruptionWaitingReadiness", text)

    async def _report_termination(self, claim: NodeClaim, command: Command) -> None:
        text = f"Disrupting {command.reason}: {describe_command(command)}"
        await self._context.events.inform(claim, "DisruptionTerminating", text)
        for node in self._state.nodes_of_claim(claim):
            await self._context.events.inform(node, "DisruptionTerminating", text)

    def _conditions(self, claim: NodeClaim) -> ConditionSet:
        return ConditionSet(
            (claim.status or NodeClaimStatus()).conditions,
            now=self._context.clock.now(),
            generation=claim.metadata.generation,
        )

    async def _write(self, claim: NodeClaim, conditions: ConditionSet) -> None:
        await write_claim_conditions(self._cache, claim, conditions)


def describe_command(command: Command) -> str:
    """replace: [node-1] -> [1 replacement] (savings: $0.23/h)"""
    hourly = partial(format_hourly, modelled=command.has_modelled_prices)
    nodes = ", ".join(each.name for each in command.candidates)
    saving = command.saving
    money = (
        f"(costs: {hourly(-saving)} more)"
        if saving < 0 and command.reason is DisruptionReason.DRIFTED
        else f"(savings: {hourly(max(0.0, saving))})"
    )
    if not command.replacement_names:
        return f"delete: [{nodes}] {money}"
    launched = format_count(len(command.replacement_names), "replacement")
    return f"replace: [{nodes}] -> [{launched}] {money}"


async def _ignore(_: Sequence[NodeClaim]) -> None: ...


def _replaced_claims(claim: NodeClaim) -> list[str]:
    """Names of those that it was launched for."""
    stated = (claim.metadata.annotations or {}).get(REPLACES_ANNOTATION)
    return stated.split(",") if stated else []


def _launching_pools(command: Command) -> set[str]:
    """The NodePools of its replacements."""
    if command.terminate_first:
        return set()
    static = {each.node.pool or "" for each in command.candidates if each.is_static}
    return static | {claim.pool for claim in command.replacements}


def _decision(command: Command) -> str:
    if command.terminate_first:
        return "terminate-first"
    return "replace" if command.replacement_names else "delete"


def claim_name(node: ModelNode) -> str:
    return "" if node.claim is None else node.claim.name
