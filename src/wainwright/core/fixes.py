"""Fixes: what would give a pod its place, tried before it is suggested."""

from collections.abc import Iterator, Sequence

import msgspec

from wainwright.core.funnel import State, descent
from wainwright.core.templates import Template
from wainwright.model.pod import Pod
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
from wainwright.model.requirements import Requirements
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
    pod: Pod, refusals: Sequence[tuple[Template, PoolReason]], state: State
) -> Suggestion | None:
    """The first change, by the order of pools, after which a pool would take the pod."""
    for template, reason in refusals:
        for candidate in _candidates(template.pool, reason, pod):
            changed = _changed_pod(candidate, pod)
            if descent(_changed_pool(candidate, template), changed, state).reason is None:
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
                yield from (
                    DropLabel(key=key, pool=name, meant=each)
                    for each in dict.fromkeys((meant, None))
                )
        case TooFewValues(key=key, needed=needed, found=found) if found:
            yield LowerMinValues(key=key, now=needed, to=found, pool=name)
        case LimitReached(resource=resource, limit=limit, in_use=in_use, needed=needed):
            yield RaiseLimit(resource=resource, now=limit, to=in_use + needed, pool=name)
        case _:
            return


def _changed_pod(candidate: Suggestion, pod: Pod) -> Pod:
    match candidate:
        case LowerRequest(resource=resource, to=to):
            return msgspec.structs.replace(pod, requests={**pod.requests, resource: to})
        case Tolerate(toleration=toleration):
            return msgspec.structs.replace(pod, tolerations=(*pod.tolerations, toleration))
        case DropLabel(key=key, meant=meant):
            freed = tuple(_renamed(wanted, key, meant) for wanted in pod.alternatives)
            return msgspec.structs.replace(pod, alternatives=freed)
        case _:
            return pod


def _renamed(wanted: Requirements, key: str, meant: str | None) -> Requirements:
    rest = wanted.without({key})
    if meant is None or key not in wanted:
        return rest
    return rest.narrow(Requirements([msgspec.structs.replace(wanted[key], key=meant)]))


def _changed_pool(candidate: Suggestion, template: Template) -> Template:
    """The pool as it would be; nothing that the change leaves alone is compiled anew."""
    twin = template.twin()
    match candidate:
        case LowerMinValues(key=key, to=to):
            twin.minimums = tuple((k, to if k == key else n) for k, n in template.minimums)
        case RaiseLimit(resource=resource, now=now, to=to):
            twin.limits.raised(resource, to - now)
        case _:
            return template
    return twin
