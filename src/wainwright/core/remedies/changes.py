"""Changes: pods and pools as they would be if a fix was made."""

from collections.abc import Mapping, Sequence

import msgspec

from wainwright.core.minvalues import minimums
from wainwright.core.narrowing import Ground, narrowing
from wainwright.core.reservations import reserved_markets
from wainwright.core.templates import Template
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.suggestion import (
    DropLabel,
    DropRequirement,
    LowerMinValues,
    LowerRequest,
    OfPools,
    RaiseLimit,
    RequireValue,
    SelectValue,
    Suggestion,
    Tolerate,
)
from wainwright.model.values import ValueSet, one_of


def written(pod: Pod, resource: str) -> int:
    """What its containers ask for: the requests without what the runtime adds."""
    return pod.requests.get(resource, 0) - (pod.overhead or {}).get(resource, 0)


def for_all(changes: tuple[Suggestion, ...], pods: Sequence[Pod]) -> tuple[Suggestion, ...]:
    """Changes made for the first of the pods, put so that the others can make them as well."""
    return tuple(_for_all(change, pods) for change in changes)


def _for_all(change: Suggestion, pods: Sequence[Pod]) -> Suggestion:
    if not isinstance(change, LowerRequest):
        return change
    alike = all(written(pod, change.resource) == change.now for pod in pods)
    return change if alike else msgspec.structs.replace(change, now=None)


def changed_pod(change: Suggestion, pod: Pod) -> Pod:
    """The pod after the change; itself where the change is none of its own."""
    match change:
        case LowerRequest(resource=resource, now=now, to=to):
            asked = written(pod, resource)
            lower = asked > to if now is None else asked == now
            amount = pod.requests.get(resource, 0) - (asked - to)
            return _with(pod, requests={**pod.requests, resource: amount}) if lower else pod
        case Tolerate(toleration=toleration):
            return _with(pod, tolerations=(*pod.tolerations, toleration))
        case DropLabel(key=key, meant=meant):
            return _asking(pod, tuple(_renamed(each, key, meant) for each in pod.alternatives))
        case SelectValue(key=key, now=now, to=to):
            return _asking(pod, tuple(_other(each, key, now, to) for each in pod.alternatives))
        case _:
            return pod


def _with(pod: Pod, **changes: object) -> Pod:
    return msgspec.structs.replace(pod, **changes)


def _asking(pod: Pod, alternatives: tuple[Requirements, ...]) -> Pod:
    return _with(pod, alternatives=tuple(dict.fromkeys(alternatives)))


def _renamed(wanted: Requirements, key: str, meant: str | None) -> Requirements:
    rest = wanted.without({key})
    if meant is None or key not in wanted:
        return rest
    return rest.narrow(Requirements([msgspec.structs.replace(wanted[key], key=meant)]))


def _other(wanted: Requirements, key: str, now: str, to: str) -> Requirements:
    if key not in wanted:
        return wanted
    asked = wanted[key]
    changed = Requirement(
        key=key, allowed=_swapped(asked.allowed, now, to), min_values=asked.min_values
    )
    return wanted.without({key}).narrow(Requirements([changed]))


def _swapped(values: ValueSet, now: str, to: str) -> ValueSet:
    if values.open or now not in values.values:
        return values
    return one_of(values.values - {now} | {to})


def changed_pool(change: Suggestion, pool: Pool) -> Pool:
    """The pool after the change; itself where the change is not about it."""
    if not isinstance(change, OfPools) or change.pool != pool.name:
        return pool
    match change:
        case RaiseLimit(resource=resource, to=to):
            return msgspec.structs.replace(pool, limits={**pool.limits, resource: to})
        case DropRequirement(key=key):
            return _requiring(pool, pool.requirements.without({key}), _without(pool.labels, key))
        case RequireValue(key=key, now=now, to=to):
            labels = {k: to if (k, v) == (key, now) else v for k, v in pool.labels.items()}
            return _requiring(pool, _other(pool.requirements, key, now, to), labels)
        case LowerMinValues(key=key, to=to):
            fewer = msgspec.structs.replace(pool.requirements[key], min_values=to)
            rest = pool.requirements.without({key})
            return _requiring(pool, Requirements([*rest.values(), fewer]), pool.labels)


def _without(labels: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != key}


def _requiring(pool: Pool, requirements: Requirements, labels: Mapping[str, str]) -> Pool:
    return msgspec.structs.replace(pool, requirements=requirements, labels=dict(labels))


def changed_template(change: Suggestion, template: Template) -> Template:
    """The same for the pool as it is compiled; what the change leaves alone is not done anew."""
    match change:
        case LowerMinValues(key=key, to=to):
            twin = template.twin()
            twin.minimums = tuple((k, to if k == key else n) for k, n in template.minimums)
            return twin
        case RaiseLimit(resource=resource, now=now, to=to):
            twin = template.twin()
            twin.limits.raised(resource, to - now)
            return twin
        case DropRequirement() | RequireValue():
            return _as_if(template, changed_pool(change, template.pool))
        case _:
            return template


def _as_if(template: Template, pool: Pool) -> Template:
    index, twin = template.index, template.twin()
    ground = Ground(index, template.room.solvent, reserved_markets(index), template.well_known)
    twin.pool, twin.base = pool, narrowing(ground, pool.node_requirements)
    twin.minimums = minimums(twin.base.requirements)
    return twin
