"""Unschedulable pods of a plan: equal ones together, with every NodePool's verdict and a
suggestion that was tried. Nodes of the plan count against the limits of their pools.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from wainwright.core.explain.instance_type_funnel import FunnelContext
from wainwright.core.explain.pod_verdicts import PodVerdict, VerdictBuilder
from wainwright.core.explain.suggested_changes import find_fixes, generalize_changes
from wainwright.core.explain.suggestion_trials import Replanner, TrialRunner, choose_advice
from wainwright.core.scheduling.pod_requirements import PodClass
from wainwright.core.scheduling.solver import Solution
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import MinValuesPolicy, PlannedNodeClaim, PlanOptions, UnschedulableGroup
from wainwright.model.pod import Pod
from wainwright.model.resources import Resources, add_resources, resources_key
from wainwright.model.snapshot import NODES_LIMIT, Snapshot
from wainwright.model.suggestions import VerifiedSuggestion


def snapshot_after_plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    claims: Sequence[PlannedNodeClaim],
) -> Snapshot:
    """The snapshot with the nodes of the plan counted as in use."""
    in_use: dict[str, Resources] = {pool.name: pool.in_use for pool in snapshot.pools}
    capacities = {
        name: {kind.name: kind.capacity for kind in catalogs[name].types}
        for name in {claim.pool for claim in claims}
    }
    for claim in claims:
        taken = {**capacities[claim.pool][claim.launch.instance_type], NODES_LIMIT: 1}
        in_use[claim.pool] = add_resources(in_use[claim.pool], taken)
    pools = [msgspec.structs.replace(pool, in_use=in_use[pool.name]) for pool in snapshot.pools]
    return msgspec.structs.replace(snapshot, pools=tuple(pools))


class UnschedulableExplainer:
    """What is to be told of the pods that a solution left without a place."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, InstanceTypeIndex],
        options: PlanOptions,
        solution: Solution,
        claims: Sequence[PlannedNodeClaim],
    ) -> None:
        self._snapshot, self._solution = snapshot, solution
        self._filled = snapshot_after_plan(snapshot, catalogs, claims)
        self._state = _funnel_context(claims, solution.free_counts, options)
        self._verdict_builder = VerdictBuilder(self._filled, catalogs, self._state, solution)

    def verdicts(
        self, pods: Iterable[Pod], replanner: Replanner | None
    ) -> tuple[UnschedulableGroup, ...]:
        """Why each has no place, once for all that are alike; fixes are tried with `again`."""
        found = [self._verdict_builder.evaluate(*each) for each in self._alike(pods)]
        advised = self._advised(found, replanner) if replanner is not None else {}
        verdicts = [
            msgspec.structs.replace(each.verdict, suggestion=advised.get(id(each)))
            for each in found
        ]
        return tuple(sorted(verdicts, key=lambda one: one.pods))

    def _alike(self, pods: Iterable[Pod]) -> Iterator[tuple[list[Pod], PodClass | None]]:
        classes = {
            id(pod): run.pod_class for run in self._solution.rounds.failed for pod in run.pods
        }
        groups: dict[object, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: pod.key):  # so that their order does not matter
            groups.setdefault(_pod_identity(pod, classes.get(id(pod))), []).append(pod)
        for group in groups.values():
            yield group, classes.get(id(group[0]))

    def _advised(
        self, found: Sequence[PodVerdict], replanner: Replanner
    ) -> dict[int, VerifiedSuggestion | None]:
        """One advice for all that are told the same, those first of which there are most."""
        trials = TrialRunner(self._snapshot, self._filled, self._solution, replanner)
        advised: dict[int, VerifiedSuggestion | None] = {}
        for block in _group_equal_verdicts(found):
            pods = [pod for each in block for pod in each.pods]
            ways = find_fixes(block[0].narrowed_pod, block[0].refused, self._state)
            general = (generalize_changes(changes, pods) for changes in ways)
            given = choose_advice(pods, block[0].narrowed_pod, general, trials)
            advised.update((id(each), given) for each in block)
        return advised


def _group_equal_verdicts(found: Iterable[PodVerdict]) -> list[list[PodVerdict]]:
    blocks: dict[object, list[PodVerdict]] = {}
    for each in found:
        if each.refused:
            verdicts = msgspec.structs.replace(each.verdict, pods=())
            blocks.setdefault(verdicts, []).append(each)
    return sorted(blocks.values(), key=_most_pods_first)


def _most_pods_first(block: Sequence[PodVerdict]) -> tuple[int, tuple[str, ...]]:
    return -sum(len(each.pods) for each in block), min(each.verdict.pods for each in block)


def _pod_identity(pod: Pod, group: PodClass | None) -> object:
    if group is not None:
        return group.number
    asked = (pod.alternatives, pod.tolerations, pod.unsupported, pod.contradictory)
    return (resources_key(pod.requests), *asked, pod.volume_problem)


def _funnel_context(
    claims: Sequence[PlannedNodeClaim], free: Mapping[str, int], options: PlanOptions
) -> FunnelContext:
    left = dict(free)
    users: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        name = claim.launch.reservation_id
        if name is not None:
            left[name] -= 1
            users[name] = (*users.get(name, ()), claim.name)
    return FunnelContext(
        free=left,
        users=users,
        strict=options.min_values_policy is MinValuesPolicy.STRICT,
        reservations=options.capacity_reservations,
    )
