"""Disruption budgets of NodePools: how many nodes may be disrupted now, for which reason."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from math import ceil
from typing import Final

import msgspec

from wainwright.core.disruption.candidates import Candidate, is_initialized, is_rebooting
from wainwright.core.disruption.cron import InvalidScheduleError, parse_schedule
from wainwright.model.disruption import DisruptionBudget
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.whole_numbers import parse_whole_number


class DisruptionReason(StrEnum):
    """The reasons that budgets distinguish."""

    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNDERUTILIZED = "Underutilized"
    UNHEALTHY = "Unhealthy"


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the budgets of a NodePool allow for one reason."""

    allowed: int
    """How many more nodes may be disrupted now."""
    budget: DisruptionBudget | None = None
    """The budget that is the strictest; None where none is in effect."""
    invalid: str = ""
    """Why a budget cannot be read: then nothing is allowed."""


def evaluate_budgets(
    pool: Pool, nodes: Iterable[Node], reason: DisruptionReason, now: float
) -> BudgetStatus:
    """`nodes` are all nodes of the NodePool.

    One budget that cannot be read stops the NodePool for every reason: to ignore it would disrupt
    more than its author wanted.
    """
    return _evaluate(pool, _count_nodes(nodes), reason, now)


class _NodeCounts(msgspec.Struct, frozen=True):
    """Of the nodes of a NodePool that count against budgets."""

    total: int
    leaving: int
    """Those that are being removed, or rebooted."""
    down: int
    """Those, and such as are not ready."""

    def disrupted(self, reason: DisruptionReason) -> int:
        """Repair is for nodes that are not ready: they do not use its own budget up."""
        return self.leaving if reason is DisruptionReason.UNHEALTHY else self.down


NO_NODES: Final = _NodeCounts(0, 0, 0)


def _count_nodes(nodes: Iterable[Node]) -> _NodeCounts:
    """In one pass: it is done for every NodePool at every look."""
    total = leaving = down = 0
    for node in nodes:
        rebooting = is_rebooting(node)
        if node.managed and (rebooting or is_initialized(node)):
            total += 1
            if rebooting or node.deleting:
                leaving += 1
                down += 1
            elif _is_unready(node):
                down += 1
    return _NodeCounts(total, leaving, down)


def _evaluate(
    pool: Pool, counts: _NodeCounts, reason: DisruptionReason, now: float
) -> BudgetStatus:
    status = BudgetStatus(allowed=counts.total)
    for budget in pool.disruption.budgets:
        try:
            allowed = _allowed_by(budget, counts.total, now)
        except ValueError as error:
            return BudgetStatus(allowed=0, budget=budget, invalid=str(error))
        applies = budget.reasons is None or reason in budget.reasons
        if allowed is not None and applies and (status.budget is None or allowed < status.allowed):
            status = BudgetStatus(allowed=allowed, budget=budget)
    if status.budget is None:
        return status  # without a budget in effect those that are down already do not count
    left = max(0, status.allowed - counts.disrupted(reason))
    return msgspec.structs.replace(status, allowed=left)


def is_active(budget: DisruptionBudget, now: float) -> bool:
    """Whether the budget is in effect; InvalidScheduleError if its schedule is none."""
    if budget.schedule is None or budget.duration is None:
        return True
    began = parse_schedule(budget.schedule).next_after(now - budget.duration)
    return began is not None and began <= now


def next_change(budget: DisruptionBudget, now: float) -> float | None:
    """When it begins or ceases to be in effect; None if never, or if it cannot be read."""
    if budget.schedule is None or budget.duration is None:
        return None
    try:
        schedule = parse_schedule(budget.schedule)
    except InvalidScheduleError:
        return None
    began = schedule.next_after(now - budget.duration)
    if began is None or began > now:
        return began
    return _end_of_activity(began, budget)


def _end_of_activity(began: float, budget: DisruptionBudget) -> float | None:
    """The end of the last of the overlapping periods; None where they go on for ever."""
    assert budget.schedule is not None
    assert budget.duration is not None
    schedule = parse_schedule(budget.schedule)
    for _ in range(1000):
        following = schedule.next_after(began)
        if following is None or following > began + budget.duration:
            return began + budget.duration
        began = following
    return None


def _is_unready(node: Node) -> bool:
    ready = node.conditions.get("Ready")
    return ready is not None and not ready.is_true


def _allowed_by(budget: DisruptionBudget, total: int, now: float) -> int | None:
    """The number of nodes, those disrupted already included; None where it is not in effect.

    The number is read first, so that a wrong one is noticed also outside the schedule.
    """
    allowed = _node_count(budget.nodes, total)
    return allowed if is_active(budget, now) else None


def _node_count(nodes: str, total: int) -> int:
    number = parse_whole_number(nodes.removesuffix("%"))
    if number is None:
        raise ValueError(f"{nodes!r} is neither a count nor a percentage")
    return ceil(number * total / 100) if nodes.endswith("%") else number


class BudgetCounter:
    """How many nodes of each NodePool the budgets still allow, by reason."""

    def __init__(self, snapshot: Snapshot, *, ignored: bool = False) -> None:
        members: dict[str, list[Node]] = defaultdict(list)
        for node in snapshot.nodes:
            members[node.pool or ""].append(node)
        self._sizes = Counter({name: len(nodes) for name, nodes in members.items()})
        self._counts = {name: _count_nodes(nodes) for name, nodes in members.items()}
        self._pools, self._now = snapshot.pools, snapshot.now or 0.0
        self._ignored = ignored
        self._status: dict[tuple[str, DisruptionReason], BudgetStatus] = {}

    def within(self, candidates: Iterable[Candidate], reason: DisruptionReason) -> list[Candidate]:
        """The first candidates of each NodePool, as many as its budgets allow together."""
        return [*self.iter_within(candidates, reason)]

    def iter_within(
        self, candidates: Iterable[Candidate], reason: DisruptionReason
    ) -> Iterator[Candidate]:
        """The same one by one: a search for a few looks at no more than these."""
        return self.iter_together((candidate, reason) for candidate in candidates)

    def iter_together(
        self, candidates: Iterable[tuple[Candidate, DisruptionReason]]
    ) -> Iterator[Candidate]:
        """The same of candidates with different reasons: a node that is disrupted counts against
        the budgets of every reason, whatever it was for.
        """
        taken: Counter[str] = Counter()
        for candidate, reason in candidates:
            name = candidate.node.pool or ""
            if taken[name] < self._allowed(candidate, reason):
                taken[name] += 1
                yield candidate

    def scheduled(self) -> list[int]:
        """What budgets with a schedule allow now: this changes with time alone."""
        return [
            self._evaluate(pool, reason).allowed
            for pool in self._pools
            if any(budget.schedule is not None for budget in pool.disruption.budgets)
            for reason in DisruptionReason
        ]

    def until(self, pool: Pool, reason: DisruptionReason) -> float | None:
        """When the budget that allows nothing begins or ceases to be in effect; None if never."""
        status = self._evaluate(pool, reason)
        return None if status.budget is None else next_change(status.budget, self._now)

    def changes(self) -> Iterator[float]:
        """When budgets with a schedule begin or end next."""
        for pool in self._pools:
            for budget in pool.disruption.budgets:
                moment = next_change(budget, self._now)
                if moment is not None:
                    yield moment

    def any_of(self, candidates: Iterable[Candidate], reason: DisruptionReason) -> list[Candidate]:
        """Those of NodePools whose budgets allow at least one."""
        return [each for each in candidates if self._allowed(each, reason) > 0]

    def allowed(self, pool: Pool, reason: DisruptionReason) -> int:
        key = (pool.name, reason)
        if key not in self._status:
            self._status[key] = self._evaluate(pool, reason)
        return self._status[key].allowed

    def _evaluate(self, pool: Pool, reason: DisruptionReason) -> BudgetStatus:
        counts = self._counts.get(pool.name, NO_NODES)
        return _evaluate(pool, counts, reason, self._now)

    def disrupted(self, pool: Pool, reason: DisruptionReason) -> int:
        """How many of its nodes count against budgets for that reason."""
        return self._counts.get(pool.name, NO_NODES).disrupted(reason)

    def _allowed(self, candidate: Candidate, reason: DisruptionReason) -> int:
        if self._ignored or candidate.pool is None:
            return self._sizes[candidate.node.pool or ""]
        return self.allowed(candidate.pool, reason)
