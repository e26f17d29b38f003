"""Disruption: nodes that are empty, drifted or too expensive are removed or replaced.

Every ten seconds the cluster is looked at. A command that saves money is carried out only if it
still holds fifteen seconds later: pods may have come in the meantime. Drift is carried out at once,
and so is the repair of broken nodes.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from math import inf
from time import perf_counter
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.cloud import NodePoolCatalog
from wainwright.controllers import conditions as condition
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.disruption.disruption_breaker import VOLUNTARY, DisruptionBreaker
from wainwright.controllers.disruption.disruption_queue import CommandInFlight, DisruptionQueue
from wainwright.controllers.disruption.disruption_reports import DisruptionReports
from wainwright.controllers.disruption.removal_records import RemovalRecords
from wainwright.controllers.nodeclaim.claim_creation import SeenCreations
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodepool.registration_health import find_condition
from wainwright.controllers.runtime import WHOLE_CLUSTER, Again, Key, Poll, Result, WorkQueue
from wainwright.core.disruption.candidates import Blocker, BlockerCode, BlockerKind, Candidate
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import (
    VOLUNTARY_METHODS,
    DisruptionInput,
    DisruptionOptions,
    Method,
)
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.preview import Fate, NodeOutcome, node_outcomes
from wainwright.core.disruption.repair import check_repair_policies
from wainwright.core.disruption.scheduled_release import next_release
from wainwright.metrics import (
    DISRUPTION_EVALUATION_SECONDS,
    DISRUPTION_FAILED_VALIDATIONS,
    DISRUPTION_MAX_NODES_WAITING,
    DISRUPTION_TIMEOUTS,
)
from wainwright.model.disruption import Pause
from wainwright.translate.object_metadata import parse_timestamp

LOG: Final = logging.getLogger(__name__)
PERIOD: Final = 10.0  # seconds between two looks
SYNC_POLL: Final = 1.0
TIME_LIMIT: Final = 180.0
"""Seconds that a look may take: as in Karpenter, where single nodes have three minutes."""
VALIDATION_DELAY: Final = 15.0
"""Seconds after which a command must still hold to be carried out."""


class CurrentVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of nodes as things stand."""

    outcomes: tuple[NodeOutcome, ...] = ()
    """In the order of names."""
    in_flight: Mapping[str, tuple[str, ...]] = {}
    """By node that a command has taken, the NodeClaims that replace it."""
    looked_at: float | None = None
    """When the cluster was looked at last; None before the first time."""


class Disruption:
    name = "disruption"

    def __init__(
        self,
        context: ControllerContext,
        declared: DeclaredObjectsTracker,
        queue: DisruptionQueue,
    ) -> None:
        self._context, self._declared, self._queue = context, declared, queue
        self._state, settings = context.state, context.settings
        is_repaired = settings.node_repair and settings.replace_before_repair
        self._repair_policies = tuple(context.cloud.repair_policies()) if is_repaired else ()
        check_repair_policies(self._repair_policies)
        self._options = msgspec.structs.replace(
            settings.disruption_options,
            plan=settings.plan_options,
            methods=tuple(Method) if is_repaired else VOLUNTARY_METHODS,
        )
        self._breaker = DisruptionBreaker(settings.breaker)
        self._records = RemovalRecords(context.cache, context.clock, settings.breaker.window)
        queue.removing, queue.removed = self._record_removal, self._breaker.removed
        self._reports = DisruptionReports(context)
        self._previous: DisruptionPass | None = None
        self._found: tuple[Command, float] | None = None
        """A command, and when it is to be validated."""
        self._left_out: Method | None = None
        """A method whose command could not be begun: the next look uses the others. Where it has
        many such nodes they would have no turn before the first of these is tried again.
        """
        self._room = inf
        """How many nodes the breaker lets go."""
        self._pass_in_use = asyncio.Lock()
        """Looks and verdicts compute in another thread, on what the last look knows."""
        self._outcomes: list[NodeOutcome] = []
        self._judged: tuple[DisruptionPass, Command | None] | None = None
        """The look that the outcomes are of, and what was to be done then."""
        self._held = False
        """Whether the breaker holds back what would be done."""
        self._catalogs: Mapping[str, NodePoolCatalog] = {}
        self._seen: SeenCreations = {}
        """The NodeClaims that the last look knew of."""

    def watch(self, queue: WorkQueue) -> None:
        self._remember_removals()
        self._queue.left_marked = lambda: queue.add(WHOLE_CLUSTER)
        queue.add(WHOLE_CLUSTER)

    def _remember_removals(self) -> None:
        """Those of processes before this one: what they have written down, and what has not ended
        yet in any case.
        """
        if not self._breaker.is_off:
            under_way = (self._removed_at(claim) for claim in self._context.cache.all(NodeClaim))
            known = [each for each in under_way if each is not None]
            self._breaker.remember(known, self._records.all())

    def _removed_at(self, claim: NodeClaim) -> float | None:
        reason = find_condition(claim, condition.DISRUPTION_REASON)
        is_voluntary = reason is not None and reason.reason in VOLUNTARY
        return parse_timestamp(claim.metadata.deletionTimestamp) if is_voluntary else None

    async def _record_removal(self, claims: Sequence[NodeClaim]) -> None:
        if not self._breaker.is_off:
            await self._records.add(claims, self._breaker.nodes_before)

    @property
    def next_release(self) -> float | None:
        """When the schedule of a budget or the breaker lets a command through, or a broken node is
        to be repaired; costs a pass and more, so that only a simulation that seems quiet asks."""
        looked = self._previous
        if looked is None or self._found is not None:
            return None
        moments = looked.repairs.next_due, self._next_room, next_release(looked)
        return min((each for each in moments if each is not None), default=None)

    # What is known of every node

    @property
    def last_look(self) -> DisruptionPass | None:
        return self._previous

    async def verdicts(self) -> CurrentVerdicts:
        """Of every managed node that the last look saw: what becomes of it and why. Waits for a
        look that is under way; nothing is decided or begun by it.
        """
        async with self._pass_in_use:
            await self._judge()
        in_flight = {name: each for each in self._queue.in_flight for name in each.nodes}
        return CurrentVerdicts(
            outcomes=tuple(
                self._as_it_stands(each, in_flight.get(each.candidate.name))
                for each in self._outcomes
            ),
            in_flight={name: each.replacements for name, each in in_flight.items()},
            looked_at=None if self._previous is None else self._previous.snapshot.now,
        )

    async def _judge(self) -> None:
        looked, found = self._previous, None if self._found is None else self._found[0]
        if looked is None:
            return
        if self._judged is None or self._judged[0] is not looked or self._judged[1] is not found:
            self._outcomes = await self._context.compute(lambda: node_outcomes(looked, found))
            self._judged = looked, found

    def _as_it_stands(self, outcome: NodeOutcome, taken: CommandInFlight | None) -> NodeOutcome:
        """A node that a command has taken is on its way; one that waits for the breaker says so."""
        if taken is not None:
            fate = Fate.REPLACED if taken.replacements else Fate.REMOVED
            code = taken.command.reason.lower()
            return NodeOutcome(candidate=outcome.candidate, fate=fate, code=code)
        could_go = outcome.fate is Fate.KEPT and outcome.code in GOING
        is_cut = outcome.max_nodes is not None and self._is_narrowed(outcome.max_nodes)
        if not (could_go and (self._held or is_cut)):
            return outcome
        blocker = Blocker(
            code=BlockerCode.BREAKER,
            kind=BlockerKind.NODEPOOL,
            name=outcome.candidate.node.pool or "",
            until=self._breaker.next_change,
        )
        return msgspec.structs.replace(
            outcome, fate=Fate.BLOCKED, code=blocker.code.text, blocker=blocker, max_nodes=None
        )

    # Looking

    async def reconcile(self, _: Key) -> Result:
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        is_clean = await self._queue.clean_up()
        result = await self._go_on()
        is_at_rest = isinstance(result, Poll)
        return Again(PERIOD) if is_at_rest and not is_clean else result

    async def _go_on(self) -> Result:
        if self._found is not None:
            command, due = self._found
            left = due - self._context.clock.now()
            return Again(left) if left > 0 else await self._validate(command)
        return await self._look(self._next_options())

    def _next_options(self) -> DisruptionOptions:
        left_out, self._left_out = self._left_out, None
        if left_out is None:
            return self._options
        methods = tuple(each for each in self._options.methods if each is not left_out)
        return msgspec.structs.replace(self._options, methods=methods)

    async def _look(self, options: DisruptionOptions) -> Result:
        async with self._pass_in_use:
            looked = await self._pass(options)
            if not await self._prepare(looked):
                return Again(PERIOD)
            found = await self._context.compute(looked.find_command)
            waiting = await self._waiting_for_room(looked, found)
        if found is not None or self._had_all_methods(looked):
            self._context.metrics.set(DISRUPTION_MAX_NODES_WAITING, len(waiting))
        if found is not None:
            await self._reports.waiting_for_room(waiting, found.reason, looked.options.max_nodes)
        await self._reports.repair_blocked(looked.repairs.due)
        if await self._is_held(found) or found is None:
            return await self._rest(looked)
        self._context.recorder.command_found(
            looked.given, looked.options, found, tuple(self._context.cache.all(NodePool))
        )
        if found.method in IMMEDIATE:
            if await self._begin(found) and found.method is Method.REPAIR:
                self._reports.repaired(looked.repairs.due, found)
            return Again(PERIOD)
        self._found = found, self._context.clock.now() + VALIDATION_DELAY
        await self._reports.consolidation_found(found, looked)
        return Again(VALIDATION_DELAY)

    async def _begin(self, command: Command) -> bool:
        is_begun = await self._queue.start(command, self._catalogs, self._seen)
        names = {each.name for each in command.candidates}
        failed = [each for each in self._queue.failed_starts if each.name in names]
        await self._reports.cannot_begin(command, failed)
        if failed and not is_begun:
            self._left_out = command.method
        return is_begun

    async def _waiting_for_room(
        self, looked: DisruptionPass, found: Command | None
    ) -> list[Candidate]:
        """Nodes for which a command has no room; where the breaker leaves less, they are its."""
        if found is None or self._is_narrowed(looked.options.max_nodes):
            return []
        return await self._context.compute(lambda: looked.waiting_for_room(found))

    @property
    def _next_room(self) -> float | None:
        """When the breaker lets more nodes go at once than now, where that is fewer than else."""
        is_limited = self._room < self._options.max_nodes
        return self._breaker.next_change if is_limited else None

    def _is_narrowed(self, max_nodes: int) -> bool:
        """Whether it is what the breaker leaves of the setting."""
        return max_nodes < self._options.max_nodes

    async def _prepare(self, looked: DisruptionPass) -> bool:
        """Simulates every node, in slices: pods that come meanwhile are planned before the next.

        False if that took too long; what is known by then is kept, and the next look goes on from
        there.
        """
        clock, slices, is_done = self._context.clock, looked.prepare(), False
        began, measured = clock.now(), perf_counter()
        while not is_done and clock.now() - began < TIME_LIMIT:
            is_done = await self._context.compute(lambda: next(slices, True)) is not None
            await asyncio.sleep(0)
        self._context.metrics.observe(DISRUPTION_EVALUATION_SECONDS, perf_counter() - measured)
        if not is_done:
            LOG.warning(
                "disruption evaluation timed out after %d s; the next one continues from there",
                TIME_LIMIT,
            )
            self._context.metrics.add(DISRUPTION_TIMEOUTS, consolidation_type=Method.SINGLE_NODE)
        return is_done

    def _had_all_methods(self, looked: DisruptionPass) -> bool:
        return looked.options.methods == self._options.methods

    async def _rest(self, looked: DisruptionPass) -> Result:
        """A look that did not use all methods says nothing of why nodes are kept, and is no reason
        to rest: another method may take them.
        """
        if not self._had_all_methods(looked):
            return Again(PERIOD)
        due = self._reports.next_report
        if not looked.is_at_rest or (due is not None and due <= self._context.clock.now()):
            async with self._pass_in_use:
                outcomes = await self._context.compute(
                    lambda: node_outcomes(looked, looked.find_command(), savings=False)
                )
            await self._reports.nodes_kept(outcomes)
            await self._reports.budgets(outcomes)
        if looked.find_command() is None and not looked.is_complete:
            LOG.debug(
                "a look simulated %d removals again, and left others to the next",
                looked.options.max_repetitions,
            )
            return Again(PERIOD)  # also if nothing changes
        moments = (
            self._state.next_nomination_end,
            looked.next_change,
            self._context.cloud.next_catalog_change(),  # what had no capacity may be cheaper
            self._next_room,
            self._reports.next_report,
        )
        return Poll(PERIOD, min((each for each in moments if each is not None), default=None))

    async def _pass(self, options: DisruptionOptions) -> DisruptionPass:
        self._catalogs = catalogs = await self._declared.catalogs()
        await self._state.prepare_snapshot()
        self._seen = self._queue.seen_creations()
        snapshot = self._state.with_virtual_pods(self._state.snapshot(catalogs.values()))
        pools = tuple(pool for pool in snapshot.pools if pool.name in catalogs)
        pauses = self._context.settings.pauses
        given = DisruptionInput(
            snapshot=msgspec.structs.replace(snapshot, pools=pools),
            catalogs={name: catalog.index for name, catalog in catalogs.items()},
            nominated=self._state.nominated(),
            paused=frozenset(pool.name for pool in pools if pauses(pool, Pause.DISRUPTION)),
            repair_policies=self._repair_policies,
            failed_starts=self._queue.failed_starts,
        )
        plan = self._state.with_attach_limits(options.plan)
        if plan is not options.plan:
            options = msgspec.structs.replace(options, plan=plan)
        self._room = self._room_in_window(sum(node.managed for node in snapshot.nodes))
        if 0 < self._room < options.max_nodes:
            options = msgspec.structs.replace(options, max_nodes=int(self._room))
        previous = self._previous
        looked = await self._context.compute(lambda: DisruptionPass(given, options, previous))
        if looked.is_at_rest and self._judged == (previous, None):
            self._judged = looked, None  # nothing has changed: neither have the verdicts
        self._previous = looked
        if not looked.is_at_rest:
            await self._reports.pools(looked)
        return looked

    # The breaker

    def _room_in_window(self, nodes: int) -> float:
        if self._breaker.is_off:
            return inf
        now = self._context.clock.now()
        self._breaker.count_nodes(nodes, now)
        in_flight = sum(
            len(each.candidates)
            for each in self._queue.in_flight
            if each.command.reason in VOLUNTARY
        )
        return self._breaker.room(in_flight, now)

    async def _is_held(self, found: Command | None) -> bool:
        """Whether the breaker keeps the command from being begun."""
        is_open, is_voluntary = self._room < 1, found is not None and found.reason in VOLUNTARY
        self._held = is_open and is_voluntary
        if not self._breaker.is_off:
            held = found.candidates if found is not None and self._held else ()
            await self._reports.breaker(held, is_open=is_open)
        return self._held

    async def _validate(self, command: Command) -> Result:
        """Carries the command out if it still holds.

        Where one of several nodes does not, at least the single ones are looked at at once:
        otherwise a large set that never holds for long would keep all of them. Where none of them
        can go, the next look uses all methods again.
        """
        self._found = None
        async with self._pass_in_use:
            looked = await self._pass(self._options)
            confirmed = await self._context.compute(lambda: looked.confirm(command))
        if isinstance(confirmed, Command):
            if not await self._is_held(confirmed):
                await self._begin(confirmed)
            return Again(PERIOD)
        self._context.metrics.add(
            DISRUPTION_FAILED_VALIDATIONS, consolidation_type=command.method, reason=confirmed
        )
        await self._reports.consolidation_rejected(command, confirmed)
        if command.method is not Method.MULTI_NODE:
            return Again(PERIOD)
        single = msgspec.structs.replace(self._options, methods=(Method.SINGLE_NODE,))
        return await self._look(single)


IMMEDIATE: Final = frozenset({Method.REPAIR, Method.STATIC_DRIFT, Method.DRIFT})
"""Methods whose commands are not to be validated: what they are for does not pass by itself."""
GOING: Final = frozenset(each.lower() for each in VOLUNTARY)
"""Codes of nodes that a command would take."""
