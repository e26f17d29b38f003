"""The judge: every pool's verdict on pods that found no place, and that of the nodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from wainwright.core.solve import Solution
from wainwright.core.templates import Template, compiled, rank
from wainwright.core.topology.why import keeping
from wainwright.core.why.asked import Asked
from wainwright.core.why.funnel import descent
from wainwright.core.why.refusals import leaving, refusals
from wainwright.core.why.state import State
from wainwright.core.wishes import PodClass
from wainwright.model.index import TypeIndex
from wainwright.model.plan import Unschedulable
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import (
    Contradictory,
    Funnel,
    Keeping,
    Kept,
    LabelConflict,
    LimitReached,
    NearestMiss,
    NewNodeWontDo,
    NoPoolFits,
    NoPools,
    NothingBigEnough,
    NothingOffered,
    NothingToBuy,
    NotOnOffer,
    NoTypeMatches,
    Overdrawn,
    PodReason,
    PoolReason,
    PoolUnusable,
    PoolVerdict,
    Promised,
    TooFewValues,
    Unsupported,
    VolumesElsewhere,
    VolumeUnusable,
)
from wainwright.model.refusal import NodeVerdict
from wainwright.model.snapshot import Snapshot
from wainwright.model.values import ValueSet

NO_TYPES = Funnel(types=0, requirements=0, resources=0, offerings=0, min_values=0, limits=0)

Refusal: TypeAlias = tuple[Template, PoolReason]
"""A pool, and why it does not take the pod."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that cannot be told apart, and why they have no place."""

    pods: tuple[Pod, ...]
    verdict: Unschedulable
    bounded: Pod
    """One of them, as if it asked for the places that others leave it."""
    refused: tuple[Refusal, ...] = ()
    """By the order of pools; none where a change of pod or pool would not help."""


class Judge:
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
        self._leaving = leaving(snapshot.nodes)
        gate = state.reservations
        usable = compiled(snapshot.pools, catalogs, snapshot.daemonsets, gate=gate)
        self.templates = {template.pool.name: template for template in usable}

    def judged(self, pods: Sequence[Pod], group: PodClass | None) -> Judged:
        pod, keys = pods[0], tuple(sorted(each.key for each in pods))
        reason = self._outright(pod)
        if reason is None and group is not None and not group.stages:
            reason = VolumesElsewhere()
        if reason is not None:
            verdict = Unschedulable(pods=keys, reason=reason)
            return Judged(pods=tuple(pods), verdict=verdict, bounded=pod)
        kept = self._kept(group) if group is not None else ()
        asked = self._asked(group) if group is not None else None
        bounded = asked.by(pod) if asked is not None else pod
        verdicts = [self._verdict(pool, bounded, tied=bool(kept)) for pool in self.pools]
        verdict = Unschedulable(
            pods=keys,
            reason=Kept(by=kept) if kept else NoPoolFits() if self.pools else NoPools(),
            pools=tuple(sorted(verdicts, key=lambda one: one.pool)),
            nodes=self._nodes(group, asked) if group is not None and asked is not None else (),
        )
        refused = () if kept else tuple(self._refused(verdicts))
        return Judged(pods=tuple(pods), verdict=verdict, bounded=bounded, refused=refused)

    def _refused(self, verdicts: Sequence[PoolVerdict]) -> Iterator[Refusal]:
        for one in verdicts:
            if one.pool in self.templates:
                yield self.templates[one.pool], one.reason

    def _nodes(self, group: PodClass, asked: Asked) -> tuple[NodeVerdict, ...]:
        resources = self.solution.classes.resources
        return refusals(self.solution.placing.nodes, group, asked, resources) + self._leaving

    def _kept(self, group: PodClass) -> tuple[Keeping, ...]:
        stage = group.stages[-1] if group.stages else None
        return keeping(stage.bound) if stage is not None and stage.bound is not None else ()

    def _asked(self, group: PodClass) -> Asked:
        """What its pods ask for at last, in any way: nothing came of it."""
        stage, topology = group.stages[-1], self.solution.placing.topology
        limits = None
        if stage.bound is not None and topology is not None:
            limits = topology.restriction(stage.bound)
        return Asked(stage=stage, wishes=stage.wishes, limits=limits)

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
            why = pool.unusable
            none = NothingToBuy() if why is None else PoolUnusable(why=why)
            return PoolVerdict(pool=pool.name, reason=none, funnel=NO_TYPES)
        found = descent(template, pod, self.state)
        reason = found.reason or (NewNodeWontDo() if tied else Promised())
        return PoolVerdict(
            pool=pool.name, reason=reason, funnel=found.funnel, nearest_miss=_miss(reason)
        )


def _miss(reason: PoolReason) -> NearestMiss | None:
    """What was needed, and the best that there is."""
    match reason:
        case (
            NothingBigEnough(resource=what, needed=needed, best=best)
            | Overdrawn(resource=what, needed=needed, best=best)
        ):
            kind = reason.instance_type
            return NearestMiss(what=what, needed=needed, best=best, instance_type=kind)
        case TooFewValues(key=key, needed=needed, found=found):
            return NearestMiss(what=f"minValues of {key}", needed=str(needed), best=str(found))
        case LimitReached(resource=what, limit=limit, in_use=used, needed=more):
            return NearestMiss(
                what=what, needed=used + more, best=limit, instance_type=reason.instance_type
            )
        case LabelConflict(key=key, wanted=wanted, offered=offered):
            return NearestMiss(what=key, needed=str(wanted), best=_said(offered))
        case NotOnOffer(key=key, wanted=wanted, offered=offered, instance_type=kind):
            there = _said(None if offered.empty else offered)
            return NearestMiss(what=key, needed=str(wanted), best=there, instance_type=kind)
        case NoTypeMatches(key=key, wanted=wanted):
            return NearestMiss(what=key, needed=str(wanted), best="no type")
        case NothingOffered(instance_type=kind):
            return NearestMiss(what="offering", needed="1", best="0", instance_type=kind)
        case _:
            return None


def _said(offered: ValueSet | None) -> str:
    return "nothing" if offered is None else str(offered)
