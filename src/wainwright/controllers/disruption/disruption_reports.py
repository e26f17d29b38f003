"""What people hear of disruption that does not happen: events on nodes and NodePools, and metrics.

A node gets an event when the reason for which it is kept becomes another one, and not at every
look. What passes by itself within minutes is no news.
"""

import logging
from collections.abc import Iterable
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.wire import WireStruct
from wainwright.controllers import conditions as condition
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.disruption.disruption_queue import describe_command
from wainwright.controllers.nodepool.registration_health import find_condition
from wainwright.core.disruption.balanced import (
    BALANCED,
    PoolScore,
    balanced_scores,
    pool_totals,
)
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import BlockerCode, Candidate, start_blocker
from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_input import Method
from wainwright.core.disruption.disruption_pass import DisruptionPass, FailedValidation
from wainwright.core.disruption.preview import Fate, NodeOutcome
from wainwright.core.disruption.repair import RepairBlock, UnhealthyNode
from wainwright.disruption_verdicts import verdict_facts
from wainwright.messages.disruption import describe_reason
from wainwright.metrics import (
    CONSOLIDATION_MOVES,
    CONSOLIDATION_SCORE,
    DISRUPTION_BREAKER_OPEN,
    DISRUPTION_ELIGIBLE_NODES,
    DISRUPTION_PAUSED,
    NODECLAIMS_UNHEALTHY,
    NODEPOOL_ALLOWED_DISRUPTIONS,
    NODEPOOL_CONSUMING_BUDGETS,
)
from wainwright.model.disruption import FailedStart
from wainwright.model.labels import CAPACITY_TYPE
from wainwright.translate.object_metadata import parse_timestamp

LOG: Final = logging.getLogger(__name__)

NEW_SECONDS: Final = 180.0
"""After its initialization, for which nothing is said about a node: pods still come to it, or a
cheaper arrangement is found, and a burst of nodes would be followed by two events for each."""
REPEAT_SECONDS: Final = 900.0
"""The same about the same object is not said again within this time."""
MAX_SCORE: Final = 100.0
"""Of a move that disrupts nothing: an infinite one would spoil the sum of all."""
BLOCKED_CODES: Final = frozenset(
    each.text
    for each in (
        BlockerCode.DO_NOT_DISRUPT_NODE,
        BlockerCode.CANNOT_BEGIN,
        BlockerCode.DO_NOT_DISRUPT_POD,
        BlockerCode.PDB,
    )
)
UNCONSOLIDATABLE_CODES: Final = frozenset(
    [
        *(each.value for each in Outcome),
        BlockerCode.POLICY.text,
        BlockerCode.UNKNOWN_PRICE.text,
        BlockerCode.CONSOLIDATION_BACKOFF.text,
    ]
)
CONSOLIDATION: Final = frozenset({Method.MULTI_NODE, Method.SINGLE_NODE})
REJECTIONS: Final = {
    FailedValidation.CANDIDATES: "a node is gone or blocked by now, or has got other pods",
    FailedValidation.BUDGET: "a budget, or the disruption breaker, does not allow it any more",
    FailedValidation.COMMAND: "it would save less, or need another replacement",
}
UNHEALTHY_TEXTS: Final = {
    RepairBlock.DO_NOT_REPAIR: "the node has the annotation karpenter.sh/do-not-repair",
    RepairBlock.TOO_MANY: "more than 20% of the nodes of the NodePool {pool} are unhealthy",
    RepairBlock.BLOCKED: "{blockers} {keep} it from being drained",
}


class DisruptionReports:
    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache = context, context.cache
        self._codes: dict[str, str] = {}
        """By node, what was said of it last."""
        self._rejected: set[str] = set()
        """Nodes whose score was what they were last kept for."""
        self.next_report: float | None = None
        """When the first of the nodes about which something is to be said is no longer new."""

    async def nodes_kept(self, outcomes: Iterable[NodeOutcome]) -> None:
        """Of a look that found nothing to do."""
        known, self._codes, self.next_report = self._codes, {}, None
        rejected, self._rejected = self._rejected, set()
        for outcome in outcomes:
            name, code = outcome.candidate.name, outcome.code
            is_said = code in BLOCKED_CODES or code in UNCONSOLIDATABLE_CODES
            is_news = is_said and known.get(name) != code
            is_reported = is_news and await self._node_kept(outcome)
            self._codes[name] = code if is_reported else known.get(name, "")
            is_rejected = code == Outcome.BALANCED_SCORE
            if is_rejected and name not in rejected:
                self._scored("rejected", outcome.candidate.node.pool or "")
            if is_rejected or (not is_said and name in rejected):
                self._rejected.add(name)

    async def _node_kept(self, outcome: NodeOutcome) -> bool:
        """False where it is left to a later look, because the node is new."""
        node = self._cache.get(Node, outcome.candidate.name)
        claims = [] if node is None else self._context.state.claims_of_node(node)
        due = max((_initialized_at(claim) + NEW_SECONDS for claim in claims), default=0.0)
        if due > self._context.clock.now():
            self.next_report = min(due, self.next_report or due)
            return False
        is_blocked = outcome.code in BLOCKED_CODES
        reason = "DisruptionBlocked" if is_blocked else "Unconsolidatable"
        text = describe_reason(verdict_facts(outcome))
        for about in [*([] if node is None else [node]), *claims]:
            await self._context.events.inform(about, reason, text, repeat=REPEAT_SECONDS)
        return True

    async def waiting_for_room(
        self, waiting: Iterable[Candidate], reason: DisruptionReason, max_nodes: int
    ) -> None:
        """Nodes that could go and wait, because a command takes no more of them."""
        entries: list[tuple[WireStruct, str]] = []
        for candidate in waiting:
            outcome = NodeOutcome(
                candidate=candidate, fate=Fate.KEPT, code=reason.lower(), max_nodes=max_nodes
            )
            text = describe_reason(verdict_facts(outcome))
            entries += [(about, text) for about in self._about_node(candidate.name)]
        await self._context.events.inform_each(entries, "DisruptionBlocked", repeat=REPEAT_SECONDS)

    async def cannot_begin(self, command: Command, failed: Iterable[FailedStart]) -> None:
        """Nodes of the command that could not be begun, and wait before it is tried again."""
        failures = {each.name: each for each in failed}
        entries: list[tuple[WireStruct, str]] = []
        for candidate in command.candidates:
            blocker = start_blocker(failures.get(candidate.name))
            if blocker is not None:
                outcome = NodeOutcome(
                    candidate=candidate,
                    fate=Fate.BLOCKED,
                    code=blocker.code.text,
                    blocker=blocker,
                )
                text = describe_reason(verdict_facts(outcome))
                entries += [(about, text) for about in self._about_node(candidate.name)]
        await self._context.events.inform_each(entries, "DisruptionBlocked", repeat=REPEAT_SECONDS)

    async def consolidation_found(self, command: Command, looked: DisruptionPass) -> None:
        """A command that is carried out if it still holds a little later, with the scores by which
        NodePools with the policy Balanced have approved it.
        """
        if command.method not in CONSOLIDATION:
            return
        text = f"Consolidation candidate: {describe_command(command)}"
        await self._about_candidates(command, "ConsolidationCandidate", text)
        totals, k = pool_totals(looked.candidates), looked.options.balanced_k
        for score in balanced_scores(command.candidates, command.saving, totals):
            self._scored("approved", score.pool, min(score.value, MAX_SCORE))
            await self._approved(command, score, k)

    def _scored(self, decision: str, pool: str, score: float | None = None) -> None:
        """Without a score where a search has kept only its result."""
        labels = {"decision": decision, "nodepool": pool, "policy": BALANCED}
        self._context.metrics.add(CONSOLIDATION_MOVES, **labels)
        if score is not None:
            self._context.metrics.observe(CONSOLIDATION_SCORE, score, **labels)

    async def _approved(self, command: Command, score: PoolScore, k: float) -> None:
        """On the node, or on the NodePool where the score is that of several nodes."""
        text = (
            f"score {score.value:.2f} >= threshold {1 / k:.2f} (k: {k:g}, "
            f"savings {score.saved:.1%}, disruption {score.disturbed:.1%})"
        )
        if command.method is Method.SINGLE_NODE:
            await self._about_candidates(command, "ConsolidationApproved", text)
        elif (pool := self._cache.get(NodePool, score.pool)) is not None:
            await self._context.events.inform(pool, "ConsolidationApproved", text)

    async def consolidation_rejected(self, command: Command, why: FailedValidation) -> None:
        """It did not hold any longer when it was to be carried out."""
        if command.method in CONSOLIDATION:
            text = f"Consolidation rejected: {describe_command(command)}; {REJECTIONS[why]}"
            await self._about_candidates(command, "ConsolidationRejected", text)

    async def _about_candidates(self, command: Command, reason: str, text: str) -> None:
        for candidate in command.candidates:
            for about in self._about_node(candidate.name):
                await self._context.events.inform(about, reason, text)

    def _about_node(self, name: str) -> list[Node | NodeClaim]:
        """The node and its claims."""
        node = self._cache.get(Node, name)
        return [] if node is None else [node, *self._context.state.claims_of_node(node)]

    async def pools(self, looked: DisruptionPass) -> None:
        """What their budgets allow, and whether somebody has paused them."""
        metrics, paused = self._context.metrics, looked.given.paused
        for reason, count in looked.eligible().items():
            metrics.set(DISRUPTION_ELIGIBLE_NODES, count, reason=reason.lower())
        for pool in looked.snapshot.pools:
            metrics.set(DISRUPTION_PAUSED, int(pool.name in paused), nodepool=pool.name)
            if pool.name in paused:
                problem = self._context.settings.pause_problem(pool)
                why = f" ({problem})" if problem else ""
                text = f"no voluntary disruption is begun: it is paused{why}"
                await self._about_pool(pool.name, "DisruptionBlocked", text)
            for reason, allowed in looked.allowed(pool).items():
                labels = {"nodepool": pool.name, "reason": reason.lower()}
                metrics.set(NODEPOOL_ALLOWED_DISRUPTIONS, allowed, **labels)
            for reason, disrupted in looked.disrupted(pool).items():
                labels = {"nodepool": pool.name, "reason": reason.lower()}
                metrics.set(NODEPOOL_CONSUMING_BUDGETS, disrupted, **labels)

    async def budgets(self, outcomes: Iterable[NodeOutcome]) -> None:
        pools = {
            outcome.blocker.name
            for outcome in outcomes
            if outcome.blocker is not None and outcome.blocker.code is BlockerCode.BUDGET
        }
        for pool in sorted(pools):
            text = "no disruption is allowed now by a blocking budget"
            await self._about_pool(pool, "DisruptionBlocked", text)

    async def breaker(self, held: Iterable[Candidate], *, is_open: bool) -> None:
        """`held`: nodes that would be disrupted but for it."""
        was_open = bool(self._context.metrics.value(DISRUPTION_BREAKER_OPEN))
        self._context.metrics.set(DISRUPTION_BREAKER_OPEN, int(is_open))
        if is_open != was_open:
            LOG.warning("the disruption breaker is %s", "open" if is_open else "closed again")
        text = "no further node is disrupted: too many were removed within a short time"
        for pool in sorted({each.node.pool or "" for each in held}):
            await self._about_pool(pool, "DisruptionBreakerOpen", text)

    async def repair_blocked(self, nodes: Iterable[UnhealthyNode]) -> None:
        for unhealthy in nodes:
            if unhealthy.block is not None:
                await self._repair_blocked(unhealthy, unhealthy.block)

    async def _repair_blocked(self, unhealthy: UnhealthyNode, block: RepairBlock) -> None:
        names = [f"{each.kind} {each.name}" for each in unhealthy.blockers]
        text = UNHEALTHY_TEXTS[block].format(
            pool=unhealthy.candidate.node.pool,
            blockers=", ".join(names),
            keep="keeps" if len(names) == 1 else "keep",
        )
        node = self._cache.get(Node, unhealthy.candidate.name)
        claims = [] if node is None else self._context.state.claims_of_node(node)
        pool = self._cache.get(NodePool, unhealthy.candidate.node.pool or "")
        for about in (node, *claims, pool if block is RepairBlock.TOO_MANY else None):
            if about is not None:
                await self._context.events.warn(
                    about, "NodeRepairBlocked", text, repeat=REPEAT_SECONDS
                )

    def repaired(self, unhealthy: Iterable[UnhealthyNode], command: Command) -> None:
        """Counts the nodes of a repair that has begun, by the condition that it is for."""
        names = {each.name for each in command.candidates}
        for each in unhealthy:
            node = each.candidate.node
            if node.name in names:
                self._context.metrics.add(
                    NODECLAIMS_UNHEALTHY,
                    condition=each.condition,
                    nodepool=node.pool or "",
                    capacity_type=node.labels.get(CAPACITY_TYPE, ""),
                    image_id="" if node.claim is None else node.claim.image,
                )

    async def _about_pool(self, name: str, reason: str, text: str) -> None:
        pool = self._cache.get(NodePool, name)
        if pool is not None:
            await self._context.events.warn(pool, reason, text, repeat=REPEAT_SECONDS)


def _initialized_at(claim: NodeClaim) -> float:
    found = find_condition(claim, condition.INITIALIZED)
    since = None if found is None else parse_timestamp(found.lastTransitionTime)
    return since or 0.0
