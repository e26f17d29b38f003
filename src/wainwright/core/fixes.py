"""Fixes: what would give a pod its place, tried before it is suggested."""

from collections.abc import Iterator, Sequence

import msgspec

from wainwright.core.funnel import State, descent
from wainwright.core.templates import Template
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import (
    LabelConflict,
    LimitReached,
    NothingBigEnough,
    NoTypeMatches,
    PoolReason,
    TooFewValues,
    Untolerated,
)
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.suggestion import (
    DropLabel,
    LowerMinValues,
    LowerRequest,
    RaiseLimit,
    Suggestion,
    Tolerate,
)
from wainwright.model.taints import Toleration


def fix(
    pod: Pod,
    refusals: Sequence[tuple[Template, PoolReason]],
    daemonsets: Sequence[DaemonSet],
    state: State,
) -> Suggestion | None:
    """The first change, by the order of pools, after which a pool would take the pod."""
    for template, reason in refusals:
        for candidate in _candidates(template.pool, reason, pod):
            changed_pod, changed_pool = _changed(candidate, pod, template.pool)
            trial = Template(template.number, changed_pool, template.index, daemonsets)
            if descent(trial, changed_pod, state).reason is None:
                return candidate
    return None


def _candidates(pool: Pool, reason: PoolReason, pod: Pod) -> Iterator[Suggestion]:
    name = pool.name
    match reason:
        case NothingBigEnough(resource=resource, needed=needed, best=best):
            asked = pod.requests.get(resource, 0)
            lower = asked - (needed - best)
            if 0 < lower < asked:
                yield LowerRequest(resource=resource, now=asked, to=lower, pool=name)
        case Untolerated(taint=taint):
            toleration = Toleration(key=taint.key, value=taint.value, effect=taint.effect)
            yield Tolerate(toleration=toleration, pool=name)
        case LabelConflict(key=key, meant=meant) | NoTypeMatches(key=key, meant=meant):
            if any(key in wanted for wanted in pod.alternatives):
                yield DropLabel(key=key, pool=name, meant=meant)
        case TooFewValues(key=key, needed=needed, found=found) if found:
            yield LowerMinValues(key=key, now=needed, to=found, pool=name)
        case LimitReached(resource=resource, limit=limit, in_use=in_use, needed=needed):
            yield RaiseLimit(resource=resource, now=limit, to=in_use + needed, pool=name)
        case _:
            return


def _changed(candidate: Suggestion, pod: Pod, pool: Pool) -> tuple[Pod, Pool]:
    """The pod and the pool as they would be."""
    match candidate:
        case LowerRequest(resource=resource, to=to):
            requests = {**pod.requests, resource: to}
            return msgspec.structs.replace(pod, requests=requests), pool
        case Tolerate(toleration=toleration):
            tolerations = (*pod.tolerations, toleration)
            return msgspec.structs.replace(pod, tolerations=tolerations), pool
        case DropLabel(key=key):
            freed = tuple(wanted.without({key}) for wanted in pod.alternatives)
            return msgspec.structs.replace(pod, alternatives=freed), pool
        case LowerMinValues(key=key, to=to):
            return pod, msgspec.structs.replace(pool, requirements=_lowered(pool, key, to))
        case RaiseLimit(resource=resource, to=to):
            return pod, msgspec.structs.replace(pool, limits={**pool.limits, resource: to})


def _lowered(pool: Pool, key: str, to: int) -> Requirements:
    """The pool's requirements with a smaller minValues: narrowing could only raise it."""
    return Requirements(
        Requirement(
            key=name, allowed=each.allowed, min_values=to if name == key else each.min_values
        )
        for name, each in pool.requirements.items()
    )
