"""Disruption budgets of NodePools: how many nodes may be disrupted now, for which reason."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from math import ceil

import msgspec

from wainwright.core.disruption.candidates import Candidate, is_initialized, is_rebooting
from wainwright.core.disruption.cron import InvalidScheduleError, parse_schedule
from wainwright.model.disruption import DisruptionBudget
from wainwright.model.snapshot import Node, Pool, Snapshot


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
    members = [node for node in nodes if _counts(node)]
    disrupted = count_disrupted(members, reason)
    status = BudgetStatus(allowed=len(members))
    for budget in pool.disruption.budgets:
        try:
            allowed = _allowed_by(budget, len(members), now)
        except ValueError as error:
            return BudgetStatus(allowed=0, budget=budget, invalid=str(error))
        applies = budget.reasons is None or reason in budget.reasons
        if allowed is not None and applies and (status.budget is None or allowed < status.allowed):
            status = BudgetStatus(allowed=allowed, budget=budget)
    if status.budget is None:
        return status  # without a budget in effect those that are down already do not count
    return msgspec.structs.replace(status, allowed=max(0, status.allowed - disrupted))


def count_disrupted(nodes: Iterable[Node], reason: DisruptionReason) -> int:
    """How many of the nodes count against budgets for that reason."""
    return sum(_counts(node) and _is_disrupted(node, reason) for node in nodes)


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


def _counts(node: Node) -> bool:
    return node.managed and (is_initialized(node) or is_rebooting(node))


def _is_disrupted(node: Node, reason: DisruptionReason) -> bool:
    """Repair is for nodes that are not ready: they do not use its own budget up."""
    is_down = reason is not DisruptionReason.UNHEALTHY and _is_unready(node)
    return node.deleting or is_rebooting(node) or is_down


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
    number = nodes.removesuffix("%")
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"{nodes!r} is neither a count nor a percentage")
    return ceil(int(number) * total / 100) if nodes.endswith("%") else int(number)


class BudgetCounter:
    """How many nodes of each NodePool the budgets still allow, by reason."""

    def __init__(self, snapshot: Snapshot, *, ignored: bool = False) -> None:
        self._members: dict[str, list[Node]] = defaultdict(list)
        for node in snapshot.nodes:
            self._members[node.pool or ""].append(node)
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
        taken: Counter[str] = Counter()
        for candidate in candidates:
            name = candidate.node.pool or ""
            if taken[name] < self._allowed(candidate, reason):
                taken[name] += 1
                yield candidate

    def scheduled(self) -> list[int]:
        """What budgets with a schedule allow now: this changes with time alone."""
        return [
            evaluate_budgets(pool, self._members[pool.name], reason, self._now).allowed
            for pool in self._pools
            if any(budget.schedule is not None for budget in pool.disruption.budgets)
            for reason in DisruptionReason
        ]

    def until(self, pool: Pool, reason: DisruptionReason) -> float | None:
        """When the budget that allows nothing begins or ceases to be in effect; None if never."""
        status = evaluate_budgets(pool, self._members[pool.name], reason, self._now)
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
            members = self._members[pool.name]
            self._status[key] = evaluate_budgets(pool, members, reason, self._now)
        return self._status[key].allowed

    def disrupted(self, pool: Pool, reason: DisruptionReason) -> int:
        return count_disrupted(self._members[pool.name], reason)

    def _allowed(self, candidate: Candidate, reason: DisruptionReason) -> int:
        if self._ignored or candidate.pool is None:
            return len(self._members[candidate.node.pool or ""])
        return self.allowed(candidate.pool, reason)
