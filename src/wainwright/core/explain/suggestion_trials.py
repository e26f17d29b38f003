"""Trials of suggestions: everything is planned again with the changes, and a suggestion is given
only if it places some of the pods and no other pod loses its place.

Only a plan of the whole input proves that changes work, and that takes time: with many pods,
many pools, or many different failures the number of trials is limited.

Packing by cost takes far longer than first-fit, but never leaves out more pods. So first-fit is
tried first; where it leaves out only pods that no plan could place, that is proof enough.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain, islice
from math import fsum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.explain.fix_search import ChangeSet, applies_to_spec
from wainwright.core.explain.suggested_changes import apply_to_pod, apply_to_pool
from wainwright.core.launch.launch_choice import capacity_type_of, hourly_cost
from wainwright.core.scheduling.drafts import Draft
from wainwright.core.scheduling.solver import Solution
from wainwright.model.instance_type import ACCELERATOR_RESOURCES
from wainwright.model.labels import DEVICE_LABELS
from wainwright.model.pod import Pod
from wainwright.model.resources import Resources, add_resources, round_up, sort_resources
from wainwright.model.snapshot import NODES_LIMIT, Pool, Snapshot
from wainwright.model.suggestions import (
    AnyFix,
    DropPodRequirement,
    EnlargeReservation,
    PodFix,
    PreferConstraint,
    RaiseLimit,
    SuggestedLaunch,
    VerifiedSuggestion,
)

TRIAL_BUDGET: Final = 10_000  # pods that are planned again in all trials of one plan
MIN_TRIALS: Final = 2  # however many pods there are
MIN_COST_TRIALS: Final = 1  # by cost, if the plan itself was: each takes as long as the plan
COST_PER_TYPE: Final = 4  # time for one type of a pool when packing by cost, counted in pods
PLANS_PER_COST_TRIAL: Final = 5  # first-fit and the cost policies
COST_PER_PLAN: Final = 100  # time for a plan without pods, counted in pods
COST_PER_POOL: Final = 5  # time for compiling a pool, counted in pods
PODS_PER_POOL_CHECK: Final = 50  # checked against one pool in the time to place one
CONSTRAINTS_PER_POD: Final = 4  # constraints between pods that the time for a pod includes
COST_PER_CONSTRAINT: Final = 2  # time for each beyond these, counted in pods

SolveSnapshot: TypeAlias = Callable[[Snapshot, ChangeSet], Solution]
"""Solves a changed snapshot; changes of capacity reservations are made to the catalogues."""


class Replanner(NamedTuple):
    """How to plan a changed snapshot again."""

    first_fit: SolveSnapshot
    by_cost: SolveSnapshot | None = None
    """As the plan itself was made; None where that was first-fit."""


class TrialResult:
    """The part of a trial plan that decides on a suggestion."""

    def __init__(self, solution: Solution, *, is_final: bool = True) -> None:
        self.unschedulable = {pod.key for each in solution.failed for pod in each.pods}
        self.all_unplaced_impossible = solution.all_unplaced_impossible
        self.is_final = is_final
        """Whether the plan itself would be this one; else it may be cheaper, packed by cost."""
        self._drafts = solution.drafts

    @property
    def cost(self) -> float:
        """USD per hour of all new nodes, fees included."""
        return fsum(map(_hourly_cost, self._drafts))

    def nodes_beyond(self, other: "TrialResult") -> tuple[SuggestedLaunch, ...]:
        """The new nodes that the other plan does not have, equal ones together."""
        idle = {self._kind(draft) for draft in self._launched() if _has_idle_devices(draft)}
        return tuple(
            SuggestedLaunch(
                count=count,
                instance_type=name,
                capacity_type=capacity_type,
                unrequested_devices=(name, capacity_type) in idle,
            )
            for (name, capacity_type), count in sorted((self._kinds() - other._kinds()).items())
        )

    def nodes_with(self, pods: AbstractSet[str]) -> int:
        """How many new nodes have any of these pods."""
        return sum(any(pod.key in pods for pod in draft.pods) for draft in self._launched())

    def label_values(self, key: str, pods: AbstractSet[str]) -> list[str]:
        """The values of a label that the instance types of new nodes with these pods have."""
        found = {
            draft.template.index.types[draft.launch_choice.type_number].requirements.single_value(
                key
            )
            for draft in self._launched()
            if draft.launch_choice is not None and any(pod.key in pods for pod in draft.pods)
        }
        return sorted(filter(None, found))

    def _kinds(self) -> Counter[tuple[str, str]]:
        return Counter(map(self._kind, self._launched()))

    def _launched(self) -> Iterator[Draft]:
        return (draft for draft in self._drafts if draft.launch_choice is not None)

    @staticmethod
    def _kind(draft: Draft) -> tuple[str, str]:
        """Instance type and capacity type."""
        choice = draft.launch_choice
        assert choice is not None
        name = draft.template.index.types[choice.type_number].name
        return name, capacity_type_of(draft.launch_options, choice)

    def has_modelled_prices(self) -> bool:
        """Whether the price of any new node is an estimate."""
        choices = (draft.launch_choice for draft in self._drafts)
        return any(each is not None and each.offering.modelled for each in choices)

    def reserved_launches(self, reservation: str) -> int:
        """How many new nodes use an instance of the capacity reservation."""
        choices = (draft.launch_choice for draft in self._drafts)
        return sum(
            each is not None and each.offering.reservation_id == reservation for each in choices
        )

    def launched_capacity(self, pool: str) -> Resources:
        """The capacity of all nodes that one pool would launch, counted as limits do."""
        total: Resources = {}
        for draft in self._drafts:
            if draft.template.pool.name == pool and draft.launch_choice is not None:
                capacity = draft.template.index.types[draft.launch_choice.type_number].capacity
                total = add_resources(total, {**capacity, NODES_LIMIT: 1})
        return total


def _hourly_cost(draft: Draft) -> float:
    choice = draft.launch_choice
    if choice is None:
        return 0.0
    return hourly_cost(draft.template.index, choice.type_number, choice.offering)


def _has_idle_devices(draft: Draft) -> bool:
    """Whether it has GPUs or accelerators that none of its pods requests."""
    choice = draft.launch_choice
    if choice is None or not draft.template.index.accelerated >> choice.type_number & 1:
        return False
    return not any(ACCELERATOR_RESOURCES & pod.requests.keys() for pod in draft.pods)


class TrialRunner:
    """Plans of one input with changes, within a budget of time that is counted in pods.

    A count and not a clock: the same input gets the same suggestions on every computer.
    """

    def __init__(
        self, snapshot: Snapshot, after_plan: Snapshot, before: Solution, replanner: Replanner
    ) -> None:
        self._snapshot = snapshot
        self._after_plan = after_plan
        """The snapshot with the nodes of the plan counted as in use."""
        self.before = TrialResult(before)
        self._replanner = replanner
        self._constraints = len(before.classes.registry.groups)
        """Distinct ones between pods. One pod can have thousands, and each trial sets them up."""
        self._remaining_budget = max(TRIAL_BUDGET, MIN_TRIALS * self._plan_time(len(snapshot.pods)))
        self._remaining_cost_trials = max(
            _min_cost_trials(before), TRIAL_BUDGET // self._cost_plan_time(before)
        )
        self._first_fit_results: dict[Hashable, TrialResult] = {}
        """Plans that were made: several fixes have the same plan without limits."""
        self._results: dict[Hashable, TrialResult | None] = {}

    def run_trial(self, changes: ChangeSet, pods: Sequence[Pod]) -> TrialResult | None:
        """The plan of everything with the changes made to these pods, and to all others of their
        workloads: nobody can edit some replicas of a Deployment. None without budget left.
        """
        keys = self._changed_pod_keys(changes, pods)
        if (changes, keys) not in self._results:
            self._results[changes, keys] = self._run(changes, keys)
        return self._results[changes, keys]

    def _run(self, changes: ChangeSet, keys: frozenset[str]) -> TrialResult | None:
        first_fit = self._first_fit_trial(changes, keys, "")
        by_cost = self._replanner.by_cost
        if first_fit is None or by_cost is None or first_fit.all_unplaced_impossible:
            return first_fit
        if not self._remaining_cost_trials:
            return None
        self._remaining_cost_trials -= 1
        return TrialResult(by_cost(self._changed_snapshot(changes, keys, ""), changes))

    def _first_fit_trial(
        self, changes: ChangeSet, keys: frozenset[str], unlimited_pool: str
    ) -> TrialResult | None:
        create = partial(self._changed_snapshot, changes, keys, unlimited_pool)
        key = (changes, keys, unlimited_pool)
        return self._first_fit(key, len(self._snapshot.pods), create, changes)

    def with_sized_limits(self, changes: ChangeSet, pods: Sequence[Pod]) -> Iterator[ChangeSet]:
        """The changes, with limits raised by what the pods need, then by what all pods need."""
        raised = {change.pool for change in changes if isinstance(change, RaiseLimit)}
        if not raised:
            yield changes
            return
        pool = raised.pop()
        yield (self._sized_for_pods(changes, pods, pool) or changes) if len(pods) > 1 else changes
        for_all_pods = self._first_fit_trial(
            _without_raised_limits(changes), self._changed_pod_keys(changes, pods), pool
        )
        if for_all_pods is not None:
            yield _with_raised_limits(changes, _pool_by_name(self._snapshot, pool), for_all_pods)

    def lower_limits(self, changes: ChangeSet, trial: TrialResult) -> ChangeSet:
        """The changes, with limits raised only to what the pool uses in the trial."""
        return tuple(self._lower_limit(change, trial) for change in changes)

    def limits_by_requests(self, changes: ChangeSet, pods: Sequence[Pod]) -> ChangeSet:
        """The changes, with limits raised only to what is in use after the plan and what the pods
        request: a plan without limits may take larger nodes than they need.
        """
        return tuple(self._limit_by_requests(change, pods) for change in changes)

    def _limit_by_requests(self, change: AnyFix, pods: Sequence[Pod]) -> AnyFix:
        if not isinstance(change, RaiseLimit):
            return change
        requested = sum(pod.requests.get(change.resource, 0) for pod in pods)
        in_use = _pool_by_name(self._after_plan, change.pool).in_use.get(change.resource, 0)
        to = round_up(change.resource, in_use + requested)
        if not requested or not change.now < to < change.to:
            return change
        return msgspec.structs.replace(change, to=to)

    def _lower_limit(self, change: AnyFix, trial: TrialResult) -> AnyFix:
        if not isinstance(change, RaiseLimit):
            return change
        in_use = _pool_by_name(self._snapshot, change.pool).in_use
        used = add_resources(in_use, trial.launched_capacity(change.pool))
        to = round_up(change.resource, used.get(change.resource, 0))
        return msgspec.structs.replace(change, to=to) if change.now < to < change.to else change

    def _sized_for_pods(
        self, changes: ChangeSet, pods: Sequence[Pod], pool: str
    ) -> ChangeSet | None:
        """With limits raised by what the pods need on their own nodes, in addition to the plan."""
        key = (changes, frozenset(pod.key for pod in pods), None)
        create = partial(self._snapshot_of_pods, changes, pods, pool)
        trial = self._first_fit(key, len(pods), create, changes)
        if trial is None:
            return None
        return _with_raised_limits(changes, _pool_by_name(self._after_plan, pool), trial)

    def _snapshot_of_pods(
        self, changes: ChangeSet, pods: Sequence[Pod], unlimited_pool: str
    ) -> Snapshot:
        """These pods alone, without existing nodes."""
        changed = tuple(_apply_all_to_pod(pod, changes) for pod in pods)
        pools = tuple(
            _apply_all_to_pool(each, changes, unlimited_pool) for each in self._after_plan.pools
        )
        return msgspec.structs.replace(self._after_plan, pods=changed, pools=pools, nodes=())

    def _changed_snapshot(
        self, changes: ChangeSet, keys: frozenset[str], unlimited_pool: str
    ) -> Snapshot:
        pools = tuple(
            _apply_all_to_pool(each, changes, unlimited_pool) for each in self._snapshot.pools
        )
        pods = self._snapshot.pods
        if keys:
            pods = tuple(
                _apply_all_to_pod(pod, changes) if pod.key in keys else pod for pod in pods
            )
        changed = msgspec.structs.replace(self._snapshot, pods=pods, pools=pools)
        return _with_changed_running_pods(changed, changes, keys) if keys else changed

    def _changed_pod_keys(self, changes: ChangeSet, pods: Sequence[Pod]) -> frozenset[str]:
        """The pods that the changes are made to; none where only pools are changed."""
        if not any(isinstance(change, PodFix) for change in changes):
            return frozenset()
        return pods_of_same_workloads(self._snapshot, pods)

    def _first_fit(
        self, key: Hashable, pods: int, create: Callable[[], Snapshot], changes: ChangeSet
    ) -> TrialResult | None:
        """The plan of the snapshot, cached by the key; None where the budget is too small."""
        if key not in self._first_fit_results:
            if self._plan_time(pods) > self._remaining_budget:
                return None
            self._remaining_budget -= self._plan_time(pods)
            solution = self._replanner.first_fit(create(), changes)
            self._first_fit_results[key] = TrialResult(
                solution, is_final=self._replanner.by_cost is None
            )
        return self._first_fit_results[key]

    def _plan_time(self, pods: int) -> int:
        """Of first-fit, counted in pods."""
        return (
            COST_PER_PLAN
            + pods
            + COST_PER_CONSTRAINT * max(0, self._constraints - CONSTRAINTS_PER_POD * pods)
            + len(self._snapshot.pools) * (COST_PER_POOL + pods // PODS_PER_POOL_CHECK)
        )

    def _cost_plan_time(self, before: Solution) -> int:
        """Of packing by cost, counted in pods."""
        types = sum(len(template.index.types) for template in before.state.templates)
        plans = PLANS_PER_COST_TRIAL * self._plan_time(len(self._snapshot.pods))
        return plans + COST_PER_TYPE * types


def _min_cost_trials(before: Solution) -> int:
    """None where the plan launched, and so packed, nothing: a trial could take far longer."""
    return MIN_COST_TRIALS if before.drafts else 0


def pods_of_same_workloads(snapshot: Snapshot, pods: Sequence[Pod]) -> frozenset[str]:
    """These pods, and all pods, pending or running, of the workloads that they belong to."""
    workloads = {pod.workload for pod in pods} - {""}
    keys = {pod.key for pod in pods}
    if workloads:
        every = chain(snapshot.pods, *(node.pods for node in snapshot.nodes))
        keys.update(pod.key for pod in every if pod.eviction.owner and pod.workload in workloads)
    return frozenset(keys)


def _with_changed_running_pods(
    snapshot: Snapshot, changes: ChangeSet, keys: AbstractSet[str]
) -> Snapshot:
    """Their anti-affinity keeps no pods away; requests stay until they are replaced."""
    preferred = tuple(each for each in changes if isinstance(each, PreferConstraint))
    if not preferred:
        return snapshot
    nodes = tuple(
        msgspec.structs.replace(
            node,
            pods=tuple(
                _apply_all_to_pod(pod, preferred) if pod.key in keys else pod for pod in node.pods
            ),
        )
        if any(pod.key in keys for pod in node.pods)
        else node
        for node in snapshot.nodes
    )
    return msgspec.structs.replace(snapshot, nodes=nodes)


def _apply_all_to_pod(pod: Pod, changes: ChangeSet) -> Pod:
    for change in changes:
        pod = apply_to_pod(change, pod)
    return pod


def _apply_all_to_pool(pool: Pool, changes: ChangeSet, unlimited_pool: str) -> Pool:
    for change in changes:
        pool = apply_to_pool(change, pool)
    return msgspec.structs.replace(pool, limits={}) if pool.name == unlimited_pool else pool


def _without_raised_limits(changes: ChangeSet) -> ChangeSet:
    return tuple(change for change in changes if not isinstance(change, RaiseLimit))


def _with_raised_limits(changes: ChangeSet, pool: Pool, trial: TrialResult) -> ChangeSet:
    """The changes with every limit of the pool raised to its usage in the trial."""
    needed = add_resources(pool.in_use, trial.launched_capacity(pool.name))
    raised = [
        RaiseLimit(resource=name, now=limit, to=round_up(name, needed[name]), pool=pool.name)
        for name, limit in sort_resources(pool.limits).items()
        if needed.get(name, 0) > limit
    ]
    return (*_without_raised_limits(changes), *raised)


def _pool_by_name(snapshot: Snapshot, name: str) -> Pool:
    return next(pool for pool in snapshot.pools if pool.name == name)


MAX_TRIED_FIXES: Final = 5  # for pods with equal verdicts


def choose_suggestion(
    pods: Sequence[Pod], narrowed_pod: Pod, fixes: Iterator[ChangeSet], trials: TrialRunner
) -> VerifiedSuggestion | None:
    """The fix that places most of the pods, and leaves out no other; None where there is none.

    The fixes were found for `narrowed_pod`: the first of the pods, with what its volumes and
    topology constraints require as requirements of its own.
    """
    best: VerifiedSuggestion | None = None
    tried = False
    applicable = (fix for fix in fixes if applies_to_spec(fix, pods[0], narrowed_pod))
    first_fixes = islice(applicable, MAX_TRIED_FIXES)
    for fix in first_fixes:
        for changes in trials.with_sized_limits(fix, pods):
            trial = trials.run_trial(changes, pods)
            if trial is None:
                untried = chain([fix], first_fixes)
                return best if tried else _untried_suggestion(pods, untried)
            tried = True
            suggestion = _suggestion_from_trial(changes, pods, trial, trials.before)
            best = max(best, suggestion, key=_served_pods)
            if best is not None and best.serves == len(pods):
                return _with_lowest_limits(best, pods, trial, trials)
    return best


def _with_lowest_limits(
    suggestion: VerifiedSuggestion, pods: Sequence[Pod], trial: TrialResult, trials: TrialRunner
) -> VerifiedSuggestion:
    """The suggestion with limits raised no further than its plan uses, or than the pods request,
    if a trial allows that.

    Nodes of the plan without the change may be replaced, and so count no longer.
    """
    by_requests = trials.limits_by_requests(suggestion.changes, pods)
    suggestion, trial = _with_limits(by_requests, suggestion, pods, trial, trials)
    used = trials.lower_limits(suggestion.changes, trial)
    return _with_limits(used, suggestion, pods, trial, trials)[0]


def _with_limits(
    changes: ChangeSet,
    suggestion: VerifiedSuggestion,
    pods: Sequence[Pod],
    trial: TrialResult,
    trials: TrialRunner,
) -> tuple[VerifiedSuggestion, TrialResult]:
    """The suggestion with these lower limits and its trial; the old ones where that fails."""
    lower = None if changes == suggestion.changes else trials.run_trial(changes, pods)
    if lower is None:
        return suggestion, trial
    found = _suggestion_from_trial(changes, pods, lower, trials.before)
    if found is None or found.serves < len(pods):
        return suggestion, trial
    return found, lower


def enlarge_reservation(
    enough: EnlargeReservation, pods: Sequence[Pod], trials: TrialRunner
) -> VerifiedSuggestion | None:
    """The capacity reservation with as many more instances as the pods need; None if no use.

    `enough` has an instance for each of the pods.
    """
    trial = trials.run_trial((enough,), pods)
    if trial is None:
        return None
    before = trials.before.reserved_launches(enough.reservation)
    used = trial.reserved_launches(enough.reservation) - before
    if 0 < used < enough.by:  # several pods share a node
        enough = msgspec.structs.replace(enough, by=used)
        trial = trials.run_trial((enough,), pods)
    if trial is None or not used:
        return None
    return _suggestion_from_trial((enough,), pods, trial, trials.before)


def _suggestion_from_trial(
    changes: ChangeSet, pods: Sequence[Pod], trial: TrialResult, before: TrialResult
) -> VerifiedSuggestion | None:
    if not trial.unschedulable <= before.unschedulable:
        return None
    served = {pod.key for pod in pods if pod.key not in trial.unschedulable}
    if not served:
        return None
    return VerifiedSuggestion(
        changes=tuple(_name_devices(each, pods[0], trial, served) for each in changes),
        workloads=_changed_workloads(changes, pods),
        price_change=trial.cost - before.cost,
        total_price=trial.cost,
        at_most=not trial.is_final,
        modelled_price=trial.has_modelled_prices(),
        launches=trial.nodes_beyond(before),
        replaces=before.nodes_beyond(trial),
        planned_nodes=trial.nodes_with(served),
        serves=len(served),
        of=len(pods),
    )


def _name_devices(
    change: AnyFix, pod: Pod, trial: TrialResult | None, served: AbstractSet[str] = frozenset()
) -> AnyFix:
    """A pod is never moved onto another GPU without saying so."""
    if not isinstance(change, DropPodRequirement) or change.key not in DEVICE_LABELS:
        return change
    wanted = {
        value
        for terms in pod.alternatives
        if change.key in terms
        for value in terms.allowed(change.key).values
    }
    gets = [] if trial is None else trial.label_values(change.key, served)
    return msgspec.structs.replace(change, now=" or ".join(sorted(wanted)), gets=" or ".join(gets))


def _served_pods(suggestion: VerifiedSuggestion | None) -> int:
    return 0 if suggestion is None else suggestion.serves


def _untried_suggestion(
    pods: Sequence[Pod], fixes: Iterable[ChangeSet]
) -> VerifiedSuggestion | None:
    """The first fix; no plan of everything proves it."""
    fix = next(iter(fixes), None)
    if fix is None:
        return None
    workloads = _changed_workloads(fix, pods)
    return VerifiedSuggestion(
        changes=tuple(_name_devices(each, pods[0], None) for each in fix),
        workloads=workloads,
        serves=1,
        of=len(pods),
        alone=True,
    )


def _changed_workloads(changes: ChangeSet, pods: Sequence[Pod]) -> tuple[str, ...]:
    """What one edits to change the pods; none where only pools change, or nothing owns a pod."""
    if not any(isinstance(change, PodFix) for change in changes):
        return ()
    workloads = {pod.workload for pod in pods}
    return () if "" in workloads else tuple(sorted(workloads))
