"""Trials of suggestions: everything is planned again with the changes, and a suggestion is given
only if some of the pods gain by it and none loses its place.

Only a plan of the whole input proves that changes work, and that takes time: with many pods,
many pools, or many kinds of failure there are only so many trials.

Packing by cost takes far longer than first-fit, but never leaves out more pods. So first-fit is
tried first, and where it leaves out only pods that nothing could place that is proof enough.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.explain.suggested_changes import ChangeSet, apply_to_pod, apply_to_pool
from wainwright.core.scheduling.solver import Solution
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirement
from wainwright.model.resources import Resources, add_resources, sort_resources
from wainwright.model.snapshot import NODES_LIMIT, Pool, Snapshot
from wainwright.model.suggestions import (
    AnyFix,
    ChangePodRequirement,
    DropPodRequirement,
    PodFix,
    RaiseLimit,
    VerifiedSuggestion,
)

TRIAL_BUDGET: Final = 10_000  # pods that are planned anew in all trials of one plan
MIN_TRIALS: Final = 2  # trials that there are however many pods
MIN_COST_TRIALS: Final = 1  # by cost if the plan itself was: each takes as long
COST_PER_TYPE: Final = 4  # what a type of a pool takes to pack by cost, counted in pods
PLANS_PER_COST_TRIAL: Final = 5  # plans that are made to find the cheapest
COST_PER_PLAN: Final = 100  # what a plan takes before its first pod, counted in pods
COST_PER_POOL: Final = 5  # what a pool takes to compile, counted in pods
PODS_PER_POOL_CHECK: Final = 50  # checked against one pool in the time to place one

SolveSnapshot: TypeAlias = Callable[[Snapshot], Solution]


class Replanner(NamedTuple):
    """How to plan a changed snapshot again."""

    first_fit: SolveSnapshot
    packed: SolveSnapshot | None = None
    """As the plan itself was made, where that is not the quick way."""


class TrialResult:
    """What came of a plan that was made to see just that."""

    def __init__(self, solution: Solution) -> None:
        self.without_place = {pod.key for run in solution.rounds.failed for pod in run.pods}
        self.leaves_only_hopeless = solution.all_unplaced_impossible
        self._drafts = solution.rounds.table.drafts

    def launched_capacity(self, pool: str) -> Resources:
        """The capacity of all that one pool would launch."""
        total: Resources = {}
        for draft in self._drafts:
            if draft.template.pool.name == pool and draft.launch_choice is not None:
                capacity = draft.template.index.types[draft.launch_choice.type_number].capacity
                total = add_resources(total, {**capacity, NODES_LIMIT: 1})
        return total


class TrialRunner:
    """Plans of one input with changes, while there is effort left."""

    def __init__(
        self, snapshot: Snapshot, filled: Snapshot, before: Solution, replanner: Replanner
    ) -> None:
        self._snapshot = snapshot
        self._filled = filled
        """With the nodes of the plan as in use."""
        self.before = TrialResult(before)
        self._replanner = replanner
        self._effort = max(TRIAL_BUDGET, MIN_TRIALS * self._price(len(snapshot.pods)))
        self._packed_left = max(
            _min_cost_trials(before), TRIAL_BUDGET // self._packed_price(before)
        )
        self._known: dict[Hashable, TrialResult] = {}
        self._proofs: dict[Hashable, TrialResult | None] = {}

    def run_trial(self, changes: ChangeSet, pods: Sequence[Pod]) -> TrialResult | None:
        """The plan of everything with the changes made to these pods; None without effort left."""
        keys = _changed_pod_keys(changes, pods)
        if (changes, keys) not in self._proofs:
            self._proofs[changes, keys] = self._proof(changes, keys)
        return self._proofs[changes, keys]

    def _proof(self, changes: ChangeSet, keys: frozenset[str]) -> TrialResult | None:
        quick = self._quick(changes, keys, "")
        if quick is None or self._replanner.packed is None or quick.leaves_only_hopeless:
            return quick
        if not self._packed_left:
            return None
        self._packed_left -= 1
        return TrialResult(self._replanner.packed(self._changed(changes, keys, "")))

    def _quick(self, changes: ChangeSet, keys: frozenset[str], lifted: str) -> TrialResult | None:
        """A pool that is lifted has no limits."""
        make = partial(self._changed, changes, keys, lifted)
        return self._made((changes, keys, lifted), len(self._snapshot.pods), make)

    def with_sized_limits(self, changes: ChangeSet, pods: Sequence[Pod]) -> Iterator[ChangeSet]:
        """The changes, with limits raised by what the pods need, then by what everybody needs."""
        raised = {change.pool for change in changes if isinstance(change, RaiseLimit)}
        if not raised:
            yield changes
            return
        pool = raised.pop()
        yield (self._for_these(changes, pods, pool) or changes) if len(pods) > 1 else changes
        everybody = self._quick(
            _without_raised_limits(changes), _changed_pod_keys(changes, pods), pool
        )
        if everybody is not None:
            yield _with_raised_limits(changes, _pool_by_name(self._snapshot, pool), everybody)

    def _for_these(self, changes: ChangeSet, pods: Sequence[Pod], pool: str) -> ChangeSet | None:
        """By what the pods need on nodes of their own, beside all that the plan launches."""
        key = (changes, frozenset(pod.key for pod in pods), None)
        found = self._made(key, len(pods), partial(self._alone, changes, pods, pool))
        return (
            _with_raised_limits(changes, _pool_by_name(self._filled, pool), found)
            if found is not None
            else None
        )

    def _alone(self, changes: ChangeSet, pods: Sequence[Pod], lifted: str) -> Snapshot:
        own = tuple(_apply_all_to_pod(pod, changes) for pod in pods)
        pools = tuple(_apply_all_to_pool(each, changes, lifted) for each in self._filled.pools)
        return msgspec.structs.replace(self._filled, pods=own, pools=pools, nodes=())

    def _changed(self, changes: ChangeSet, keys: frozenset[str], lifted: str) -> Snapshot:
        pools = tuple(_apply_all_to_pool(each, changes, lifted) for each in self._snapshot.pools)
        pods = self._snapshot.pods
        if keys:
            pods = tuple(
                _apply_all_to_pod(pod, changes) if pod.key in keys else pod for pod in pods
            )
        return msgspec.structs.replace(self._snapshot, pods=pods, pools=pools)

    def _made(self, key: Hashable, pods: int, make: Callable[[], Snapshot]) -> TrialResult | None:
        if key not in self._known:
            if self._price(pods) > self._effort:
                return None
            self._effort -= self._price(pods)
            self._known[key] = TrialResult(self._replanner.first_fit(make()))
        return self._known[key]

    def _price(self, pods: int) -> int:
        return (
            COST_PER_PLAN
            + pods
            + len(self._snapshot.pools) * (COST_PER_POOL + pods // PODS_PER_POOL_CHECK)
        )

    def _packed_price(self, before: Solution) -> int:
        types = sum(len(template.index.types) for template in before.placement.templates)
        return PLANS_PER_COST_TRIAL * self._price(len(self._snapshot.pods)) + COST_PER_TYPE * types


def _min_cost_trials(before: Solution) -> int:
    """Where nothing was launched nothing was packed, and a trial might take far longer."""
    return MIN_COST_TRIALS if before.rounds.table.drafts else 0


def _changed_pod_keys(changes: ChangeSet, pods: Sequence[Pod]) -> frozenset[str]:
    """The pods that the changes are made to; none where only pools are changed."""
    own = any(isinstance(change, PodFix) for change in changes)
    return frozenset(pod.key for pod in pods) if own else frozenset()


def _apply_all_to_pod(pod: Pod, changes: ChangeSet) -> Pod:
    for change in changes:
        pod = apply_to_pod(change, pod)
    return pod


def _apply_all_to_pool(pool: Pool, changes: ChangeSet, lifted: str) -> Pool:
    for change in changes:
        pool = apply_to_pool(change, pool)
    return msgspec.structs.replace(pool, limits={}) if pool.name == lifted else pool


def _without_raised_limits(changes: ChangeSet) -> ChangeSet:
    return tuple(change for change in changes if not isinstance(change, RaiseLimit))


def _with_raised_limits(changes: ChangeSet, pool: Pool, trial: TrialResult) -> ChangeSet:
    """The changes with every limit of the pool raised to what it would have in the trial."""
    needed = add_resources(pool.in_use, trial.launched_capacity(pool.name))
    raised = [
        RaiseLimit(resource=name, now=limit, to=needed[name], pool=pool.name)
        for name, limit in sort_resources(pool.limits).items()
        if needed.get(name, 0) > limit
    ]
    return (*_without_raised_limits(changes), *raised)


def _pool_by_name(snapshot: Snapshot, name: str) -> Pool:
    return next(pool for pool in snapshot.pools if pool.name == name)


MAX_TRIED_FIXES: Final = 3  # fixes for pods that fail alike


def choose_advice(
    pods: Sequence[Pod], narrowed_pod: Pod, fixes: Iterator[ChangeSet], trials: TrialRunner
) -> VerifiedSuggestion | None:
    """A fix that some of the pods gain by and nobody loses by; None where none was found.

    The fixes were made for `bounded`: the first of the pods, as if it asked for all that its
    volumes and other pods ask of its place.
    """
    best: VerifiedSuggestion | None = None
    tried = False
    few = islice(fixes, MAX_TRIED_FIXES)
    for fix in few:
        for changes in trials.with_sized_limits(fix, pods):
            trial = trials.run_trial(changes, pods)
            if trial is None:
                return best if tried else _untried_advice(pods, narrowed_pod, chain([fix], few))
            tried = True
            best = max(
                best, _advice_from_trial(changes, pods, trial, trials.before), key=_served_pods
            )
            if _served_pods(best) == len(pods):
                return best
    return best


def _advice_from_trial(
    changes: ChangeSet, pods: Sequence[Pod], trial: TrialResult, before: TrialResult
) -> VerifiedSuggestion | None:
    if not trial.without_place <= before.without_place:
        return None
    served = sum(pod.key not in trial.without_place for pod in pods)
    return VerifiedSuggestion(changes=changes, serves=served, of=len(pods)) if served else None


def _served_pods(found: VerifiedSuggestion | None) -> int:
    return 0 if found is None else found.serves


def _untried_advice(
    pods: Sequence[Pod], narrowed_pod: Pod, fixes: Iterable[ChangeSet]
) -> VerifiedSuggestion | None:
    """The first that can be made to the pod as it is written: no plan of everything proves it."""
    for fix in fixes:
        if _is_applicable_to_pod(fix, pods[0], narrowed_pod):
            return VerifiedSuggestion(changes=fix, serves=1, of=len(pods), alone=True)
    return None


def _is_applicable_to_pod(fix: ChangeSet, pod: Pod, narrowed_pod: Pod) -> bool:
    """Whether each change alters the pod, and what it no longer asks for nobody else asks of it."""
    return all(
        apply_to_pod(change, pod) != pod and not _is_required_elsewhere(change, pod, narrowed_pod)
        for change in fix
        if isinstance(change, PodFix)
    )


def _is_required_elsewhere(change: AnyFix, pod: Pod, narrowed_pod: Pod) -> bool:
    if not isinstance(change, DropPodRequirement | ChangePodRequirement):
        return False
    return _requirements_by_key(pod, change.key) != _requirements_by_key(narrowed_pod, change.key)


def _requirements_by_key(pod: Pod, key: str) -> set[Requirement | None]:
    return {wanted.get(key) for wanted in pod.alternatives}
