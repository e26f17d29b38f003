"""Suggested changes carried out: pods, NodePools, compiled NodePools and catalogues as they would
be after a change. `fix_search.py` finds the changes, `suggestion_trials.py` tries them.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.pod import AffinityTerm, Pod, PodConstraints, WeightedAffinityTerm
from wainwright.model.requirements import (
    ANY_VALUE,
    Requirement,
    Requirements,
    ValueSet,
    between,
    none_of,
    one_of,
    parse_integer,
)
from wainwright.model.snapshot import Pool
from wainwright.model.suggestions import (
    AddToleration,
    AllowPodValue,
    AllowPoolValue,
    AnyFix,
    ChangePodRequirement,
    ChangePoolRequirement,
    ConstraintKind,
    DropPodRequirement,
    DropPoolRequirement,
    EnlargeReservation,
    HonorTaints,
    LowerMinValues,
    LowerRequest,
    PoolFix,
    PreferConstraint,
    RaiseLimit,
)

PREFERENCE_WEIGHT = 100
"""Of what was required: the highest, so that it is relaxed last."""


def container_requests(pod: Pod, resource: str) -> int:
    """The requests of its containers, without the overhead of the runtime class."""
    return pod.requests.get(resource, 0) - (pod.overhead or {}).get(resource, 0)


def generalize_changes(changes: tuple[AnyFix, ...], pods: Sequence[Pod]) -> tuple[AnyFix, ...]:
    """Changes found for the first of the pods, worded so that they apply to the others as well."""
    return tuple(_generalize_change(change, pods) for change in changes)


def _generalize_change(change: AnyFix, pods: Sequence[Pod]) -> AnyFix:
    if not isinstance(change, LowerRequest):
        return change
    is_same = all(container_requests(pod, change.resource) == change.now for pod in pods)
    return change if is_same else msgspec.structs.replace(change, now=None)


def apply_to_pod(change: AnyFix, pod: Pod) -> Pod:
    """The pod after the change; the same pod where the change does not concern it."""
    match change:
        case LowerRequest(resource=resource, now=now, to=to):
            requested = container_requests(pod, resource)
            is_lowered = requested > to if now is None else requested == now
            if not is_lowered:
                return pod
            amount = pod.requests.get(resource, 0) - (requested - to)
            return _replace_in_pod(pod, requests={**pod.requests, resource: amount})
        case AddToleration(toleration=toleration):
            return _replace_in_pod(pod, tolerations=(*pod.tolerations, toleration))
        case DropPodRequirement(key=key, meant=meant):
            return _with_alternatives(
                pod, tuple(_rename_key(each, key, meant) for each in pod.alternatives)
            )
        case ChangePodRequirement(key=key, now=now, to=to):
            return _with_alternatives(
                pod, tuple(_replace_value(each, key, now, to) for each in pod.alternatives)
            )
        case AllowPodValue(key=key, now=now, value=value):
            return _with_alternatives(
                pod, tuple(_add_value(each, key, now, value) for each in pod.alternatives)
            )
        case HonorTaints() | PreferConstraint():
            return _replace_in_pod(pod, constraints=_change_constraints(change, pod.constraints))
        case _:
            return pod


def _change_constraints(
    change: HonorTaints | PreferConstraint, constraints: PodConstraints
) -> PodConstraints:
    if isinstance(change, HonorTaints):
        return _change_spreads(constraints, change.key, honor_taints=True)
    match change.constraint:
        case ConstraintKind.TOPOLOGY_SPREAD:
            return _change_spreads(constraints, change.key, required=False)
        case ConstraintKind.POD_AFFINITY:
            preferred = [each for each in constraints.affinity if each.key == change.key]
            return msgspec.structs.replace(
                constraints,
                affinity=tuple(each for each in constraints.affinity if each.key != change.key),
                preferred_affinity=_prefer(preferred) + constraints.preferred_affinity,
            )
        case ConstraintKind.POD_ANTI_AFFINITY:
            preferred = [each for each in constraints.anti_affinity if each.key == change.key]
            kept = tuple(each for each in constraints.anti_affinity if each.key != change.key)
            return msgspec.structs.replace(
                constraints,
                anti_affinity=kept,
                preferred_anti_affinity=_prefer(preferred) + constraints.preferred_anti_affinity,
            )


def _prefer(terms: Iterable[AffinityTerm]) -> tuple[WeightedAffinityTerm, ...]:
    return tuple(WeightedAffinityTerm(weight=PREFERENCE_WEIGHT, term=each) for each in terms)


def _change_spreads(constraints: PodConstraints, key: str, **changes: bool) -> PodConstraints:
    spreads = tuple(
        msgspec.structs.replace(each, **changes)
        if each.key == key and each.required and not each.by_default
        else each
        for each in constraints.spreads
    )
    return msgspec.structs.replace(constraints, spreads=spreads)


def _replace_in_pod(pod: Pod, **changes: object) -> Pod:
    return msgspec.structs.replace(pod, **changes)


def _with_alternatives(pod: Pod, alternatives: tuple[Requirements, ...]) -> Pod:
    return _replace_in_pod(pod, alternatives=tuple(dict.fromkeys(alternatives)))


def _rename_key(wanted: Requirements, key: str, meant: str | None) -> Requirements:
    rest = wanted.without({key})
    if meant is None or key not in wanted:
        return rest
    return rest.narrow(Requirements([msgspec.structs.replace(wanted[key], key=meant)]))


def _replace_value(wanted: Requirements, key: str, now: str, to: str) -> Requirements:
    if key not in wanted:
        return wanted
    return _with_values(wanted, key, _swap_value(wanted[key].allowed, now, to))


def _add_value(wanted: Requirements, key: str, now: str, value: str) -> Requirements:
    if key not in wanted or wanted[key].allowed != one_of([now]):
        return wanted
    return _with_values(wanted, key, one_of([now, value]))


def _with_values(wanted: Requirements, key: str, allowed: ValueSet) -> Requirements:
    changed = Requirement(key=key, allowed=allowed, min_values=wanted[key].min_values)
    return wanted.without({key}).narrow(Requirements([changed]))


def _swap_value(values: ValueSet, now: str, to: str) -> ValueSet:
    if values.open or now not in values.values:
        return values
    return one_of(values.values - {now} | {to})


def apply_to_pool(change: AnyFix, pool: Pool) -> Pool:
    """The pool after the change; the same pool where the change does not concern it."""
    if not isinstance(change, PoolFix) or change.pool != pool.name:
        return pool
    match change:
        case RaiseLimit(resource=resource, to=to):
            return msgspec.structs.replace(pool, limits={**pool.limits, resource: to})
        case DropPoolRequirement(key=key):
            return _with_requirements(
                pool, pool.requirements.without({key}), _without_label(pool.labels, key)
            )
        case ChangePoolRequirement(key=key, now=now, to=to):
            labels = {k: to if (k, v) == (key, now) else v for k, v in pool.labels.items()}
            return _with_requirements(pool, _replace_value(pool.requirements, key, now, to), labels)
        case AllowPoolValue(key=key, value=value):
            requirement = pool.requirements[key]
            allowed = admit_value(requirement.allowed, value)
            changed = msgspec.structs.replace(requirement, allowed=allowed)
            rest = pool.requirements.without({key})
            return _with_requirements(pool, Requirements([*rest.values(), changed]), pool.labels)
        case LowerMinValues(key=key, to=to):
            fewer = msgspec.structs.replace(pool.requirements[key], min_values=to)
            rest = pool.requirements.without({key})
            return _with_requirements(pool, Requirements([*rest.values(), fewer]), pool.labels)


def admit_value(values: ValueSet, value: str) -> ValueSet:
    """The set with one more value; bounds are moved as far as needed."""
    if values.admits(value):
        return values
    if not values.open:
        return one_of(values.values | {value})
    excluded = none_of(values.values - {value}) if values.values - {value} else ANY_VALUE
    number = parse_integer(value)
    if not values.is_bounded or number is None:
        return excluded
    lower = None if values.lower is None else min(values.lower, number)
    upper = None if values.upper is None else max(values.upper, number)
    return excluded & between(lower, upper)


def _without_label(labels: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != key}


def _with_requirements(pool: Pool, requirements: Requirements, labels: Mapping[str, str]) -> Pool:
    return msgspec.structs.replace(pool, requirements=requirements, labels=dict(labels))


def apply_to_template(change: AnyFix, template: NodeClaimTemplate) -> NodeClaimTemplate:
    """The compiled pool after the change.

    A copy shares all that the change does not concern: compiling the pool for each change would
    take most of the time of advice.
    """
    match change:
        case LowerMinValues(key=key, to=to):
            copy = template.copy()
            copy.min_values = tuple((k, to if k == key else n) for k, n in template.min_values)
            return copy
        case RaiseLimit(resource=resource, now=now, to=to):
            copy = template.copy()
            copy.limits.raise_limit(resource, to - now)
            return copy
        case DropPoolRequirement() | ChangePoolRequirement() | AllowPoolValue():
            return template.with_pool(apply_to_pool(change, template.pool))
        case _:
            return template


def enlarge_reservations(
    catalogs: Mapping[str, InstanceTypeIndex], changes: Iterable[AnyFix]
) -> Mapping[str, InstanceTypeIndex]:
    """The catalogues after the changes; NodePools that share one share the changed one."""
    added = {each.reservation: each.by for each in changes if isinstance(each, EnlargeReservation)}
    if not added:
        return catalogs
    changed = {id(each): each.with_more_reserved(added) for each in catalogs.values()}
    return {name: changed[id(each)] for name, each in catalogs.items()}
