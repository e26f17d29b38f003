"""Pods without a place: alike ones together, with every pool's verdict and a fix that was tried."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from wainwright.core.fixes import fix
from wainwright.core.funnel import State, descent
from wainwright.core.refusals import refusals
from wainwright.core.solve import Solution
from wainwright.core.templates import Template, rank
from wainwright.core.topology.why import keeping
from wainwright.core.wishes import PodClass
from wainwright.model.index import TypeIndex
from wainwright.model.options import MinValuesPolicy, Options
from wainwright.model.plan import PlannedClaim, Unschedulable
from wainwright.model.pod import Pod
from wainwright.model.pool import NODES, Pool
from wainwright.model.reason import (
    Contradictory,
    Funnel,
    Keeping,
    Kept,
    LabelConflict,
    LimitReached,
    NearestMiss,
    NewNodeWontDo,
    NodeVerdict,
    NoPoolFits,
    NoPools,
    NothingBigEnough,
    NothingOffered,
    NoTypeMatches,
    PodReason,
    PoolReason,
    PoolUnusable,
    PoolVerdict,
    TooFewValues,
    Unsupported,
    VolumesElsewhere,
    VolumeUnusable,
)
from wainwright.model.resources import Resources, add, signature
from wainwright.model.snapshot import Snapshot
from wainwright.model.values import ValueSet

NO_TYPES = Funnel(types=0, requirements=0, resources=0, offerings=0, min_values=0, limits=0)


def unplaced(
    pods: Iterable[Pod],
    snapshot: Snapshot,
    catalogs: Mapping[str, TypeIndex],
    claims: Sequence[PlannedClaim],
    solution: Solution,
    options: Options,
) -> tuple[Unschedulable, ...]:
    """Why each of the pods has no place, once for all that are alike."""
    classes = {id(pod): run.group for run in solution.rounds.failed for pod in run.pods}
    groups: dict[object, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(_looks(pod, classes.get(id(pod))), []).append(pod)
    if not groups:
        return ()
    filled, state = _filled(snapshot, catalogs, claims), _state(claims, solution.free, options)
    judge = _Judge(filled, catalogs, state, solution)
    found = [judge.judged(group, classes.get(id(group[0]))) for group in groups.values()]
    return tuple(sorted(found, key=lambda one: one.pods))


def _looks(pod: Pod, group: PodClass | None) -> object:
    if group is not None:
        return group.number
    asked = (pod.alternatives, pod.tolerations, pod.unsupported, pod.contradictory)
    return (signature(pod.requests), *asked, pod.volume_problem)


def _state(claims: Sequence[PlannedClaim], free: Mapping[str, int], options: Options) -> State:
    left = dict(free)
    users: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        name = claim.launch.reservation_id
        if name is not None:
            left[name] -= 1
            users[name] = (*users.get(name, ()), claim.name)
    return State(
        free=left,
        users=users,
        strict=options.min_values_policy is MinValuesPolicy.STRICT,
        reservations=options.capacity_reservations,
    )


def _filled(
    snapshot: Snapshot, catalogs: Mapping[str, TypeIndex], claims: Sequence[PlannedClaim]
) -> Snapshot:
    """The snapshot with the machines of the plan counted as in use."""
    in_use: dict[str, Resources] = {pool.name: pool.in_use for pool in snapshot.pools}
    capacities = {
        name: {kind.name: kind.capacity for kind in catalogs[name].types}
        for name in {claim.pool for claim in claims}
    }
    for claim in claims:
        taken = {**capacities[claim.pool][claim.launch.instance_type], NODES: 1}
        in_use[claim.pool] = add(in_use[claim.pool], taken)
    pools = [msgspec.structs.replace(pool, in_use=in_use[pool.name]) for pool in snapshot.pools]
    return msgspec.structs.replace(snapshot, pools=tuple(pools))


class _Judge:
    """The pools, asked once more by those who found no place."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, TypeIndex],
        state: State,
        solution: Solution,
    ) -> None:
        self.state = state
        self.solution = solution
        self.pools = sorted(snapshot.pools, key=rank)
        self.templates = {
            pool.name: Template(
                number, pool, catalogs[pool.name], snapshot.daemonsets, gate=state.reservations
            )
            for number, pool in enumerate(self.pools)
            if pool.unusable is None and pool.name in catalogs
        }

    def judged(self, pods: Sequence[Pod], group: PodClass | None) -> Unschedulable:
        pod, keys = pods[0], tuple(sorted(each.key for each in pods))
        reason = self._outright(pod)
        if reason is None and group is not None and not group.stages:
            reason = VolumesElsewhere()
        if reason is not None:
            return Unschedulable(pods=keys, reason=reason)
        kept = self._kept(group) if group is not None else ()
        bounded = self._bounded(pod, group) if group is not None else pod
        verdicts = [self._verdict(pool, bounded, tied=bool(kept)) for pool in self.pools]
        refused = [
            (self.templates[one.pool], one.reason) for one in verdicts if one.pool in self.templates
        ]
        return Unschedulable(
            pods=keys,
            reason=Kept(by=kept) if kept else NoPoolFits() if self.pools else NoPools(),
            pools=tuple(sorted(verdicts, key=lambda one: one.pool)),
            suggestion=None if kept else fix(bounded, refused, self.state),
            nodes=self._nodes(group),
        )

    def _nodes(self, group: PodClass | None) -> tuple[NodeVerdict, ...]:
        if group is None:
            return ()
        return refusals(self.solution.placing, group, self.solution.classes.resources)

    def _kept(self, group: PodClass) -> tuple[Keeping, ...]:
        stage = group.stages[-1] if group.stages else None
        return keeping(stage.bound) if stage is not None and stage.bound is not None else ()

    def _bounded(self, pod: Pod, group: PodClass) -> Pod:
        """The pod as if it asked for the places that others leave it, as pools are asked."""
        stage = group.stages[-1]
        places = tuple(wish.ask.requirements for wish in stage.wishes)
        topology = self.solution.placing.topology
        if stage.bound is not None and topology is not None:
            limits = topology.restriction(stage.bound)
            options = limits.options if limits is not None and not limits.near_a_node else []
            places = tuple(dict.fromkeys(p.narrow(o) for p in places for o in options)) or places
        return msgspec.structs.replace(
            pod, alternatives=places, tolerations=stage.wishes[0].ask.tolerations
        )

    def _outright(self, pod: Pod) -> PodReason | None:
        if pod.unsupported:
            return Unsupported(features=pod.unsupported)
        if pod.volume_problem is not None:
            return VolumeUnusable(claim=pod.volume_problem.claim, why=pod.volume_problem.why)
        if not pod.alternatives:
            return Contradictory(keys=pod.contradictory)
        return None

    def _verdict(self, pool: Pool, pod: Pod, *, tied: bool) -> PoolVerdict:
        template = self.templates.get(pool.name)
        if template is None:
            why = pool.unusable or "there is nothing that it could buy"
            return PoolVerdict(pool=pool.name, reason=PoolUnusable(why=why), funnel=NO_TYPES)
        found = descent(template, pod, self.state)
        promised = PoolUnusable(why="what it could buy is promised to other pods")
        reason = found.reason or (NewNodeWontDo() if tied else promised)
        return PoolVerdict(
            pool=pool.name, reason=reason, funnel=found.funnel, nearest_miss=_miss(reason)
        )


def _miss(reason: PoolReason) -> NearestMiss | None:
    """What was needed, and the best that there is."""
    match reason:
        case NothingBigEnough(resource=what, needed=needed, best=best, instance_type=kind):
            return NearestMiss(what=what, needed=needed, best=best, instance_type=kind)
        case TooFewValues(key=key, needed=needed, found=found):
            return NearestMiss(what=f"minValues of {key}", needed=str(needed), best=str(found))
        case LimitReached(resource=what, limit=limit, in_use=used, needed=more):
            return NearestMiss(
                what=what, needed=used + more, best=limit, instance_type=reason.instance_type
            )
        case LabelConflict(key=key, wanted=wanted, offered=offered):
            return NearestMiss(what=key, needed=str(wanted), best=_said(offered))
        case NoTypeMatches(key=key, wanted=wanted):
            return NearestMiss(what=key, needed=str(wanted), best="no type")
        case NothingOffered(instance_type=kind):
            return NearestMiss(what="offering", needed="1", best="0", instance_type=kind)
        case _:
            return None


def _said(offered: ValueSet | None) -> str:
    return "nothing" if offered is None else str(offered)
