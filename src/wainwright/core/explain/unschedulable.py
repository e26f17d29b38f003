"""Why pods of a finished plan are unschedulable: equal ones together, with the verdict of every
NodePool and, where wanted, a verified suggestion. Nodes of the plan count against the limits of
their pools.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, TypedDict

import msgspec

from wainwright.core.cluster_usage import remaining_cluster_limits
from wainwright.core.explain.fix_search import (
    ChangeSet,
    find_dropped_selectors,
    find_fixes,
    find_honored_taints,
    find_preferences,
)
from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.explain.pod_verdicts import (
    TOLERATE_EVERYTHING,
    PodVerdict,
    VerdictBuilder,
)
from wainwright.core.explain.suggested_changes import enlarge_reservations, generalize_changes
from wainwright.core.explain.suggestion_trials import (
    Replanner,
    TrialRunner,
    choose_suggestion,
    enlarge_reservation,
)
from wainwright.core.plan import SolvedPlan, prepare_snapshot, solve_by_cost, solve_with_fallbacks
from wainwright.core.scheduling.pod_classes import PodClass
from wainwright.core.scheduling.solver import Solution
from wainwright.model.instance_type import Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ON_DEMAND
from wainwright.model.plan import (
    ExplainedPlan,
    MinValuesPolicy,
    PackingPolicy,
    PlannedNodeClaim,
    PlanOptions,
    UnschedulableGroup,
)
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    LimitExceeded,
    OfferingsUnavailable,
    PoolReason,
    VolumeTopologyConflict,
)
from wainwright.model.resources import Resources, add_resources, resources_key
from wainwright.model.snapshot import NODES_LIMIT, Snapshot
from wainwright.model.suggestions import EnlargeReservation, VerifiedSuggestion

MAX_VERDICTS: Final = 20_000
"""On pools, of groups of equal pods: about a second's work."""
MAX_WRITTEN_VERDICTS: Final = 200_000
"""The same for every pod, as the plan is written."""
MIN_EXPLAINED_POOLS: Final = 10
MAX_CHANGED_CONSTRAINTS: Final = 50  # between pods, of a pod that can have thousands
ANY_POD: Final = Pod(namespace="", name="", tolerations=(TOLERATE_EVERYTHING,))
"""It asks for nothing."""


def snapshot_after_plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    claims: Sequence[PlannedNodeClaim],
) -> Snapshot:
    """The snapshot with the nodes of the plan counted as in use."""
    in_use: dict[str, Resources] = {pool.name: pool.in_use for pool in snapshot.pools}
    capacities = {
        name: {each.name: each.capacity for each in catalogs[name].types}
        for name in {claim.pool for claim in claims}
    }
    for claim in claims:
        usage = {**capacities[claim.pool][claim.launch.instance_type], NODES_LIMIT: 1}
        in_use[claim.pool] = add_resources(in_use[claim.pool], usage)
    pools = [msgspec.structs.replace(pool, in_use=in_use[pool.name]) for pool in snapshot.pools]
    return msgspec.structs.replace(snapshot, pools=tuple(pools))


def explain_unschedulable(
    solved: SolvedPlan, pods: Collection[str] | None = None, *, with_suggestions: bool = False
) -> tuple[UnschedulableGroup, ...]:
    """Why pods of the plan have no place, once for equal pods: all of them, or these.

    With suggestions, fixes are tried by planning again. That takes about as long as the plan
    itself, or a fraction of a second.
    """
    unplaced = set(solved.plan.unplaced)
    asked = unplaced if pods is None else unplaced.intersection(pods)
    if not asked:
        return ()
    replanner = _create_replanner(solved) if with_suggestions else None
    explained = [pod for pod in solved.snapshot.pods if pod.key in asked]
    return _UnschedulableExplainer(solved).verdicts(explained, replanner)


def pools_without_types(solved: SolvedPlan) -> dict[str, PoolReason]:
    """By name the NodePools that can launch no node at all now, whatever a pod asks for, and why:
    their requirements leave no instance type, or none that is available. Limits are another thing.
    """
    context = _funnel_context((), solved.solution.free_counts, solved.options)
    found: dict[str, PoolReason] = {}
    for template in solved.solution.state.templates:
        base = template.base
        if base.types & base.offered and not template.min_values:
            continue  # as almost always: there is nothing to look for
        reason = run_funnel(template, ANY_POD, context).reason
        if reason is not None and not isinstance(reason, LimitExceeded):
            found[template.pool.name] = reason
    return found


def explain_plan(solved: SolvedPlan, *, with_suggestions: bool = False) -> ExplainedPlan:
    """The plan, and why each of its unplaced pods has no place."""
    groups = explain_unschedulable(solved, with_suggestions=with_suggestions)
    return ExplainedPlan(**msgspec.structs.asdict(solved.plan), unschedulable=groups)


def _create_replanner(solved: SolvedPlan) -> Replanner:
    catalogs, options = solved.catalogs, solved.options

    def first_fit(snapshot: Snapshot, changes: ChangeSet) -> Solution:
        changed = enlarge_reservations(catalogs, changes)
        return solve_with_fallbacks(partial(prepare_snapshot, snapshot, changed, options))

    def by_cost(snapshot: Snapshot, changes: ChangeSet) -> Solution:
        changed = enlarge_reservations(catalogs, changes)
        return solve_by_cost(first_fit(snapshot, changes), snapshot, changed, options)[0]

    return Replanner(
        first_fit=first_fit, by_cost=by_cost if options.packing is PackingPolicy.COST else None
    )


def _explained_pools(groups: int, pods: int) -> int:
    """How many NodePools explain why they do not take a pod: all of them, within the budgets.

    Groups of pods times NodePools take time, and pods times NodePools memory: without a limit a
    thousand of each would take minutes and gigabytes, for reasons that nobody reads.
    """
    within = min(MAX_VERDICTS // max(groups, 1), MAX_WRITTEN_VERDICTS // max(pods, 1))
    return max(MIN_EXPLAINED_POOLS, within)


class Suggestions(TypedDict):
    """Fields of a group that are found by trials."""

    suggestion: VerifiedSuggestion | None
    alternative: VerifiedSuggestion | None


NO_SUGGESTION: Final = Suggestions(suggestion=None, alternative=None)


class _UnschedulableExplainer:
    """Explains the pods that a solution left without a place."""

    def __init__(self, solved: SolvedPlan) -> None:
        claims, self._snapshot, self._solution = (
            solved.plan.claims,
            solved.snapshot,
            solved.solution,
        )
        self._after_plan = snapshot_after_plan(solved.snapshot, solved.catalogs, claims)
        self._reserved_totals = {each.id: each.total for each in solved.snapshot.reservations}
        self._context = _funnel_context(claims, solved.solution.free_counts, solved.options)
        self._verdict_builder = VerdictBuilder(
            self._after_plan,
            solved.catalogs,
            self._context,
            solved.solution,
            remaining_cluster_limits(solved.snapshot, solved.catalogs, solved.options, claims),
        )

    def verdicts(
        self, pods: Iterable[Pod], replanner: Replanner | None
    ) -> tuple[UnschedulableGroup, ...]:
        """Why each has no place, once for equal pods; suggestions are tried with the replanner."""
        groups = list(self._group_equal_pods(pods))
        most_pools = _explained_pools(len(groups), sum(len(equal) for equal, _ in groups))
        verdicts = [self._verdict_builder.evaluate(*each, most_pools) for each in groups]
        suggestions = self._suggestions(verdicts, replanner) if replanner is not None else {}
        explained = [
            msgspec.structs.replace(each.verdict, **suggestions.get(id(each), NO_SUGGESTION))
            for each in verdicts
        ]
        return tuple(sorted(explained, key=lambda group: group.pods))

    def _group_equal_pods(self, pods: Iterable[Pod]) -> Iterator[tuple[list[Pod], PodClass | None]]:
        failed = self._solution.failed
        classes = {id(pod): batch.pod_class for batch in failed for pod in batch.pods}
        groups: dict[object, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: pod.key):  # the order of the input does not matter
            groups.setdefault(_pod_identity(pod, classes.get(id(pod))), []).append(pod)
        for group in groups.values():
            yield group, classes.get(id(group[0]))

    def _suggestions(
        self, verdicts: Sequence[PodVerdict], replanner: Replanner
    ) -> dict[int, Suggestions]:
        """By id of the verdict: one suggestion for all equal verdicts.

        Those with the most pods come first, as trials are limited.
        """
        trials = TrialRunner(self._snapshot, self._after_plan, self._solution, replanner)
        suggestions: dict[int, Suggestions] = {}
        for equal in _group_equal_verdicts(verdicts):
            pods = [pod for each in equal for pod in each.pods]
            fixes = (generalize_changes(changes, pods) for changes in self._fixes(equal[0]))
            found: Suggestions = {
                "suggestion": choose_suggestion(pods, equal[0].narrowed_pod, fixes, trials),
                "alternative": self._enlarged_reservation(equal[0], pods, trials),
            }
            if found["suggestion"] is None:
                found = {"suggestion": found["alternative"], "alternative": None}
            suggestions.update((id(each), found) for each in equal)
        return suggestions

    def _fixes(self, verdict: PodVerdict) -> Iterator[ChangeSet]:
        """Limits first; constraints between pods become preferences only where nothing else helps.

        Domains that only tainted NodePools have are no obstacle worth changing a pool for.
        """
        pod, topology = verdict.pods[0], verdict.topology[:MAX_CHANGED_CONSTRAINTS]
        if isinstance(verdict.verdict.reason, VolumeTopologyConflict):
            return find_dropped_selectors(pod)
        of_pools = find_fixes(verdict.narrowed_pod, verdict.rejections, self._context)
        honored = find_honored_taints(pod, topology, self._snapshot.pools)
        is_limit = verdict.rejections and isinstance(verdict.rejections[0][1], LimitExceeded)
        first = (of_pools, honored) if is_limit else (honored, of_pools)
        return chain(*first, find_preferences(pod, topology))

    def _enlarged_reservation(
        self, verdict: PodVerdict, pods: Sequence[Pod], trials: TrialRunner
    ) -> VerifiedSuggestion | None:
        """Where the nearest pool lacks nothing but instances of a capacity reservation."""
        for template, reason in verdict.rejections[:1]:
            if isinstance(reason, OfferingsUnavailable) and len(reason.reservations) == 1:
                offering = _on_demand_offering(template.index, reason.instance_type)
                change = EnlargeReservation(
                    reservation=reason.reservations[0],
                    by=len(pods),
                    pool=template.pool.name,
                    now=self._reserved_totals.get(reason.reservations[0]),
                    billed=None if offering is None else offering.price,
                    modelled_bill=offering is not None and offering.modelled,
                )
                return enlarge_reservation(change, pods, trials)
        return None


def _on_demand_offering(index: InstanceTypeIndex, instance_type: str) -> Offering | None:
    offerings = next(each.offerings for each in index.types if each.name == instance_type)
    on_demand = [each for each in offerings if each.capacity_type == ON_DEMAND]
    return min(on_demand, key=lambda each: each.price, default=None)


def _group_equal_verdicts(verdicts: Iterable[PodVerdict]) -> list[list[PodVerdict]]:
    groups: dict[object, list[PodVerdict]] = {}
    for each in verdicts:
        is_conflict = isinstance(each.verdict.reason, VolumeTopologyConflict)
        if each.rejections or each.topology or is_conflict:
            without_pods = msgspec.structs.replace(each.verdict, pods=())
            groups.setdefault(without_pods, []).append(each)
    return sorted(groups.values(), key=_most_pods_first)


def _most_pods_first(verdicts: Sequence[PodVerdict]) -> tuple[int, tuple[str, ...]]:
    return -sum(len(each.pods) for each in verdicts), min(each.verdict.pods for each in verdicts)


def _pod_identity(pod: Pod, pod_class: PodClass | None) -> object:
    if pod_class is not None:
        return pod_class.number
    requirements = (pod.alternatives, pod.tolerations, pod.unsupported, pod.contradictory)
    return (resources_key(pod.requests), *requirements, pod.volume_problem)


def _funnel_context(
    claims: Sequence[PlannedNodeClaim], available_counts: Mapping[str, int], options: PlanOptions
) -> FunnelContext:
    remaining_counts = dict(available_counts)
    users: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        name = claim.launch.reservation_id
        if name is not None:
            remaining_counts[name] -= 1
            users[name] = (*users.get(name, ()), claim.name)
    return FunnelContext(
        available_counts=remaining_counts,
        users=users,
        strict_min_values=options.min_values_policy is MinValuesPolicy.STRICT,
        reservations=options.capacity_reservations,
    )
