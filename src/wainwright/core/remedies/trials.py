"""Trials: everything planned anew with a change, to see whom it serves.

Only a plan of the whole input proves that a fix works. That is not for nothing: who has many pods,
many pools, or many pods that fail in ways of their own, gets only so many trials.

Packing by cost takes far longer than first-fit, but never leaves out more pods. So first-fit is
tried first, and where all whom it leaves out are hopeless that is proof enough.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.remedies.changes import changed_pod, changed_pool
from wainwright.core.remedies.fixes import Changes
from wainwright.core.solve import Solution
from wainwright.model.pod import Pod
from wainwright.model.pool import NODES, Pool
from wainwright.model.resources import Resources, add, ordered
from wainwright.model.snapshot import Snapshot
from wainwright.model.suggestion import OfPods, RaiseLimit

EFFORT: Final = 10_000  # pods that are planned anew in all trials of one plan
FEWEST: Final = 2  # trials that there are however many pods
PACKED: Final = 1  # trials packed by cost that there are if the plan itself was: each takes as long
TYPE: Final = 4  # what a type of a pool takes to pack by cost, counted in pods
BY_COST: Final = 5  # plans that are made to find the cheapest
START: Final = 100  # what a plan takes before its first pod, counted in pods
POOL: Final = 5  # what a pool takes to compile, counted in pods
ASKED: Final = 50  # pods for which to ask one pool takes as long as to place one of them

Solve: TypeAlias = Callable[[Snapshot], Solution]


class Again(NamedTuple):
    """Ways to plan anew."""

    quickly: Solve
    packed: Solve | None = None
    """As the plan itself was made, where that is not the quick way."""


class Trial:
    """What came of a plan that was made to see just that."""

    def __init__(self, solution: Solution) -> None:
        self.without_place = {pod.key for run in solution.rounds.failed for pod in run.pods}
        self.leaves_only_hopeless = solution.leaves_only_hopeless
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
        self, snapshot: Snapshot, filled: Snapshot, before: Solution, again: Again
    ) -> None:
        self._snapshot = snapshot
        self._filled = filled
        """With the machines of the plan as in use."""
        self.before = Trial(before)
        self._again = again
        self._effort = max(EFFORT, FEWEST * self._price(len(snapshot.pods)))
        self._packed_left = max(_fewest_packed(before), EFFORT // self._packed_price(before))
        self._known: dict[Hashable, Trial] = {}
        self._proofs: dict[Hashable, Trial | None] = {}

    def whole(self, changes: Changes, pods: Sequence[Pod]) -> Trial | None:
        """The plan of everything with the changes made to these pods; None without effort left."""
        keys = _concerned(changes, pods)
        if (changes, keys) not in self._proofs:
            self._proofs[changes, keys] = self._proof(changes, keys)
        return self._proofs[changes, keys]

    def _proof(self, changes: Changes, keys: frozenset[str]) -> Trial | None:
        quick = self._quick(changes, keys, "")
        if quick is None or self._again.packed is None or quick.leaves_only_hopeless:
            return quick
        if not self._packed_left:
            return None
        self._packed_left -= 1
        return Trial(self._again.packed(self._changed(changes, keys, "")))

    def _quick(self, changes: Changes, keys: frozenset[str], lifted: str) -> Trial | None:
        """A pool that is lifted has no limits."""
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
        everybody = self._quick(_unlimited(changes), _concerned(changes, pods), pool)
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
            self._known[key] = Trial(self._again.quickly(make()))
        return self._known[key]

    def _price(self, pods: int) -> int:
        return START + pods + len(self._snapshot.pools) * (POOL + pods // ASKED)

    def _packed_price(self, before: Solution) -> int:
        types = sum(len(template.index.types) for template in before.placing.templates)
        return BY_COST * self._price(len(self._snapshot.pods)) + TYPE * types


def _fewest_packed(before: Solution) -> int:
    """Where nothing was launched nothing was packed, and a trial might take far longer."""
    return PACKED if before.rounds.table.drafts else 0


def _concerned(changes: Changes, pods: Sequence[Pod]) -> frozenset[str]:
    """The pods that the changes are made to; none where only pools are changed."""
    own = any(isinstance(change, OfPods) for change in changes)
    return frozenset(pod.key for pod in pods) if own else frozenset()


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
