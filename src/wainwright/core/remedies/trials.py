"""Trials: everything planned anew with a change, to see whom it serves.

Only a plan of the whole input proves that a fix works. That is not for nothing: who has many pods,
or many that fail in ways of their own, gets only so many trials.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec

from wainwright.core.remedies.changes import changed_pod, changed_pool
from wainwright.core.remedies.fixes import Changes
from wainwright.core.solve import Solution
from wainwright.model.options import Options, Packing
from wainwright.model.pod import Pod
from wainwright.model.pool import NODES, Pool
from wainwright.model.resources import Resources, add, ordered
from wainwright.model.snapshot import Snapshot
from wainwright.model.suggestion import OfPods, RaiseLimit

EFFORT: Final = 10_000  # pods that are planned anew in all trials of one plan
FEWEST: Final = 2  # trials that there are however many pods
START: Final = 100  # what a plan takes before its first pod, counted in pods
BY_COST: Final = 5  # plans that are made to find the cheapest

Solve: TypeAlias = Callable[[Snapshot], Solution]


class Trial:
    """What came of a plan that was made to see just that."""

    def __init__(self, solution: Solution) -> None:
        self.without_place = {pod.key for run in solution.rounds.failed for pod in run.pods}
        self._drafts = solution.rounds.table.drafts

    def bought(self, pool: str) -> Resources:
        """The capacity of all that one pool would launch."""
        total: Resources = {}
        for draft in self._drafts:
            if draft.template.pool.name == pool and draft.buy is not None:
                capacity = draft.template.index.types[draft.buy.row].capacity
                total = add(total, {**capacity, NODES: 1})
        return total


class Trials:
    """Plans of one input with changes, while there is effort left."""

    def __init__(
        self, snapshot: Snapshot, filled: Snapshot, before: Solution, solve: Solve, options: Options
    ) -> None:
        self._snapshot = snapshot
        self._filled = filled
        """With the machines of the plan as in use."""
        self.before = Trial(before)
        self._solve = solve
        self._dear = BY_COST if options.packing is Packing.COST else 1
        self._effort = max(EFFORT, FEWEST * self._price(len(snapshot.pods)))
        self._known: dict[Hashable, Trial] = {}

    def whole(self, changes: Changes, pods: Sequence[Pod], lifted: str = "") -> Trial | None:
        """The plan of everything with the changes made to these pods; None without effort left.

        A pool that is lifted has no limits.
        """
        concerned = pods if any(isinstance(change, OfPods) for change in changes) else ()
        keys = frozenset(pod.key for pod in concerned)
        make = partial(self._changed, changes, keys, lifted)
        return self._made((changes, keys, lifted), len(self._snapshot.pods), make)

    def sized(self, changes: Changes, pods: Sequence[Pod]) -> Iterator[Changes]:
        """The changes, with limits raised by what the pods need, then by what everybody needs."""
        raised = {change.pool for change in changes if isinstance(change, RaiseLimit)}
        if not raised:
            yield changes
            return
        pool = raised.pop()
        yield (self._for_these(changes, pods, pool) or changes) if len(pods) > 1 else changes
        everybody = self.whole(_unlimited(changes), pods, pool)
        if everybody is not None:
            yield _raised(changes, _pool(self._snapshot, pool), everybody)

    def _for_these(self, changes: Changes, pods: Sequence[Pod], pool: str) -> Changes | None:
        """By what the pods need on machines of their own, beside all that the plan launches."""
        key = (changes, frozenset(pod.key for pod in pods), None)
        found = self._made(key, len(pods), partial(self._alone, changes, pods, pool))
        return _raised(changes, _pool(self._filled, pool), found) if found is not None else None

    def _alone(self, changes: Changes, pods: Sequence[Pod], lifted: str) -> Snapshot:
        own = tuple(_changed(pod, changes) for pod in pods)
        pools = tuple(_pool_changed(each, changes, lifted) for each in self._filled.pools)
        return msgspec.structs.replace(self._filled, pods=own, pools=pools, nodes=())

    def _changed(self, changes: Changes, keys: frozenset[str], lifted: str) -> Snapshot:
        pools = tuple(_pool_changed(each, changes, lifted) for each in self._snapshot.pools)
        pods = self._snapshot.pods
        if keys:
            pods = tuple(_changed(pod, changes) if pod.key in keys else pod for pod in pods)
        return msgspec.structs.replace(self._snapshot, pods=pods, pools=pools)

    def _made(self, key: Hashable, pods: int, make: Callable[[], Snapshot]) -> Trial | None:
        if key not in self._known:
            if self._price(pods) > self._effort:
                return None
            self._effort -= self._price(pods)
            self._known[key] = Trial(self._solve(make()))
        return self._known[key]

    def _price(self, pods: int) -> int:
        return self._dear * (START + pods)


def _changed(pod: Pod, changes: Changes) -> Pod:
    for change in changes:
        pod = changed_pod(change, pod)
    return pod


def _pool_changed(pool: Pool, changes: Changes, lifted: str) -> Pool:
    for change in changes:
        pool = changed_pool(change, pool)
    return msgspec.structs.replace(pool, limits={}) if pool.name == lifted else pool


def _unlimited(changes: Changes) -> Changes:
    return tuple(change for change in changes if not isinstance(change, RaiseLimit))


def _raised(changes: Changes, pool: Pool, trial: Trial) -> Changes:
    """The changes with every limit of the pool raised to what it would have in the trial."""
    needed = add(pool.in_use, trial.bought(pool.name))
    raised = [
        RaiseLimit(resource=name, now=limit, to=needed[name], pool=pool.name)
        for name, limit in ordered(pool.limits).items()
        if needed.get(name, 0) > limit
    ]
    return (*_unlimited(changes), *raised)


def _pool(snapshot: Snapshot, name: str) -> Pool:
    return next(pool for pool in snapshot.pools if pool.name == name)
