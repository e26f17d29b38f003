"""Repair that replaces first: unhealthy nodes go once their replacements are up, within budgets.

A node is unhealthy while a condition of it matches a policy, and due for repair once that has
lasted for longer than the policy tolerates. Of several that are due the most urgent goes first, one
a pass. If many nodes of a NodePool are unhealthy at once the cause is rarely in the nodes, and none
of them is touched.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.core.disruption.candidates import (
    CONSOLIDATION_CODES,
    POD_CODES,
    REBOOTING,
    Blocker,
    BlockerCode,
    Candidate,
)
from wainwright.model.disruption import RepairPolicy
from wainwright.model.snapshot import Node
from wainwright.model.taints import UNREGISTERED_TAINT

DO_NOT_REPAIR: Final = "karpenter.sh/do-not-repair"
MAX_UNHEALTHY_PERCENT: Final = 20
"""Of the nodes of a NodePool, rounded up."""
URGENCY_UNIT: Final = 1800.0
"""Seconds past toleration that count as much as one step of priority."""
MAX_PRIORITY: Final = 100
IGNORED_CODES: Final = CONSOLIDATION_CODES | {
    BlockerCode.NOMINATED,
    BlockerCode.DO_NOT_DISRUPT_NODE,
    BlockerCode.STATIC_POOL,
    BlockerCode.PAUSED,
    BlockerCode.CANNOT_BEGIN,
}
"""Blockers that keep nobody from repairing a broken node, or say so themselves."""


class RepairBlock(StrEnum):
    """Why a node that is due for repair is left alone; in the order in which they are looked at."""

    DO_NOT_REPAIR = "do-not-repair"
    TOO_MANY = "too-many-unhealthy"
    BLOCKED = "blocked"


class UnhealthyNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node with a condition that a policy matches, the most urgent of them."""

    candidate: Candidate
    condition: str
    due: float
    """When it has lasted for longer than is tolerated."""
    urgency: float
    drain_bound: float | None
    """Seconds; None where draining may take as long as it likes."""
    block: RepairBlock | None = None
    blockers: tuple[Blocker, ...] = ()

    @property
    def rank(self) -> tuple[float, float, str]:
        return -self.urgency, self.candidate.cost, self.candidate.name


def check_repair_policies(policies: Sequence[RepairPolicy]) -> None:
    """ValueError with what is wrong with them: a set that cannot be meant is not begun with."""
    for each in policies:
        if not 0 <= each.priority <= MAX_PRIORITY:
            raise ValueError(f"the priority of {_name(each)} is {each.priority}, not 0 to 100")
        try:
            re.compile(each.reason)
        except re.error as error:
            raise ValueError(
                f"the reason of {_name(each)} is not an expression: {error}"
            ) from error
    fallbacks = Counter(_key(each) for each in policies if not each.reason)
    for each in policies:
        found = fallbacks[_key(each)]
        if found != 1:
            raise ValueError(f"{_name(each)} has {found} policies without a reason, expected one")


def _key(policy: RepairPolicy) -> tuple[str, str]:
    return policy.condition, policy.status


def _name(policy: RepairPolicy) -> str:
    return f"{policy.condition}={policy.status}"


class RepairSearch:
    """All nodes are judged at one instant."""

    def __init__(
        self, policies: Sequence[RepairPolicy], candidates: Sequence[Candidate], now: float
    ) -> None:
        self._policies, self._now = policies, now
        priorities = sorted({each.priority for each in policies})
        self._ranks = {priority: rank for rank, priority in enumerate(priorities)}
        self._total = Counter(each.node.pool for each in candidates if each.node.joined)
        found = ((each, [*self._matches(each.node)]) for each in candidates)
        matching = [(each, matches) for each, matches in found if matches]
        self._unhealthy = Counter(each.node.pool for each, _ in matching)
        self.nodes = sorted(
            (self._judge(each, matches) for each, matches in matching), key=lambda each: each.rank
        )

    @property
    def due(self) -> list[UnhealthyNode]:
        """The most urgent first; those that are blocked included."""
        return [each for each in self.nodes if each.due <= self._now]

    @property
    def next_due(self) -> float | None:
        return min((each.due for each in self.nodes if each.due > self._now), default=None)

    def _matches(self, node: Node) -> Iterator[tuple[RepairPolicy, str, float]]:
        """Policy, condition, and when it is due.

        Policies for a reason silence the fallback, also while they still wait.
        """
        for kind, stated in node.conditions.items():
            matching = [
                each
                for each in self._policies
                if _key(each) == (kind, stated.status) and re.search(each.reason, stated.reason)
            ]
            specific = [each for each in matching if each.reason]
            for policy in specific or matching:
                yield policy, kind, _since(node, stated.since) + policy.toleration

    def _judge(
        self, candidate: Candidate, matches: Iterable[tuple[RepairPolicy, str, float]]
    ) -> UnhealthyNode:
        """By the most urgent of its conditions; one that is due goes before one that waits."""
        ranked = ((self._urgency(policy, due), policy, kind, due) for policy, kind, due in matches)
        urgency, policy, kind, due = max(ranked, key=lambda each: (each[3] <= self._now, each[0]))
        claim = candidate.node.claim
        bounds = (policy.drain_bound, claim.termination_grace_period if claim else None)
        bound = min((each for each in bounds if each is not None), default=None)
        blockers = tuple(_blockers(candidate, is_bounded=bound is not None))
        return UnhealthyNode(
            candidate=msgspec.structs.replace(candidate, drain_bound=bound),
            condition=kind,
            due=due,
            urgency=urgency,
            drain_bound=bound,
            block=self._block(candidate, blockers),
            blockers=blockers,
        )

    def _urgency(self, policy: RepairPolicy, due: float) -> float:
        return self._ranks[policy.priority] + (self._now - due) / URGENCY_UNIT

    def _block(self, candidate: Candidate, blockers: Sequence[Blocker]) -> RepairBlock | None:
        if candidate.node.annotations.get(DO_NOT_REPAIR) == "true":
            return RepairBlock.DO_NOT_REPAIR
        pool = candidate.node.pool
        if self._unhealthy[pool] > -(-MAX_UNHEALTHY_PERCENT * self._total[pool] // 100):
            return RepairBlock.TOO_MANY
        return RepairBlock.BLOCKED if blockers else None


def _blockers(candidate: Candidate, *, is_bounded: bool) -> Iterator[Blocker]:
    """A node that never came up is repaired too, if it has registered."""
    ignored = IGNORED_CODES | POD_CODES if is_bounded else IGNORED_CODES
    is_registered = candidate.node.joined and all(
        taint.key != UNREGISTERED_TAINT.key for taint in candidate.node.taints
    )
    for each in candidate.blockers:
        is_starting = each.code is BlockerCode.NOT_INITIALIZED and each.name != REBOOTING
        if each.code not in ignored and not (is_starting and is_registered):
            yield each


def _since(node: Node, transition: float | None) -> float:
    """Not before the node was there, nor before the end of its last reboot."""
    reboot = None if node.claim is None else node.claim.conditions.get(REBOOTING)
    ended = None if reboot is None or reboot.is_true else reboot.since
    return max(each or 0.0 for each in (transition, node.created, ended))
