"""Suggested changes: the fewest changes of a pod and a NodePool after which the pool would take
the pod, and pods, pools and templates with such changes made.

A change comes from the reason why the pool rejects the pod; where the changed pool has another
reason, the search goes on from there, up to a few changes at once. The effect of a change on
other pods is not considered here: only a trial plan shows that.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.explain.pod_verdicts import PoolRejection
from wainwright.core.scheduling.compiled_requirements import (
    CompilationContext,
    compile_requirements,
)
from wainwright.core.scheduling.constraints.label_diagnosis import suggest_correction
from wainwright.core.scheduling.constraints.min_values import min_values_of
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.reservation_manager import reserved_offerings
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    InstanceTypesTooSmall,
    LabelConflict,
    LimitExceeded,
    MinValuesUnsatisfied,
    NoMatchingInstanceType,
    NoMatchingOffering,
    OfferingsUnavailable,
    PoolReason,
    RequiredBy,
    RestrictedLabel,
    UntoleratedTaint,
)
from wainwright.model.requirements import Requirement, Requirements, ValueSet, one_of
from wainwright.model.snapshot import Pool
from wainwright.model.suggestions import (
    AddToleration,
    AnyFix,
    ChangePodRequirement,
    ChangePoolRequirement,
    DropPodRequirement,
    DropPoolRequirement,
    LowerMinValues,
    LowerRequest,
    PoolFix,
    RaiseLimit,
)
from wainwright.model.taints import Toleration


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
        case _:
            return pod


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
    requirement = wanted[key]
    allowed = _swap_value(requirement.allowed, now, to)
    changed = Requirement(key=key, allowed=allowed, min_values=requirement.min_values)
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
        case LowerMinValues(key=key, to=to):
            fewer = msgspec.structs.replace(pool.requirements[key], min_values=to)
            rest = pool.requirements.without({key})
            return _with_requirements(pool, Requirements([*rest.values(), fewer]), pool.labels)


def _without_label(labels: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != key}


def _with_requirements(pool: Pool, requirements: Requirements, labels: Mapping[str, str]) -> Pool:
    return msgspec.structs.replace(pool, requirements=requirements, labels=dict(labels))


def apply_to_template(change: AnyFix, template: NodeClaimTemplate) -> NodeClaimTemplate:
    """The compiled pool after the change.

    A copy shares all that the change does not concern, above all the daemonset overhead and the
    room of each type: compiling the pool for each change would take most of the time of advice.
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
        case DropPoolRequirement() | ChangePoolRequirement():
            return _recompile_template(template, apply_to_pool(change, template.pool))
        case _:
            return template


def _recompile_template(template: NodeClaimTemplate, pool: Pool) -> NodeClaimTemplate:
    index, copy = template.index, template.copy()
    context = CompilationContext(
        index, template.allocatable.non_negative, reserved_offerings(index), template.well_known
    )
    copy.pool, copy.base = pool, compile_requirements(context, pool.node_requirements)
    copy.min_values = min_values_of(copy.base.requirements)
    copy.daemonset_ports = template.daemonset_ports.with_pool(pool)
    return copy


MAX_CHANGES: Final = 3  # at once; more than that is no useful advice
# Partial fixes followed further: their number would multiply with every change.
BEAM_WIDTH: Final = 8

ChangeSet: TypeAlias = tuple[AnyFix, ...]


class PartialFix(NamedTuple):
    """A pool and a pod after some changes, and why the pool still rejects the pod."""

    template: NodeClaimTemplate
    pod: Pod
    reason: PoolReason
    changes: ChangeSet = ()


def find_fixes(
    pod: Pod, rejections: Sequence[PoolRejection], context: FunnelContext
) -> Iterator[ChangeSet]:
    """Changes after which a pool takes the pod; the fewest first, then in the order of pools.

    A beam search, and lazy: the caller stops at the first fixes that work.
    """
    partial_fixes = [PartialFix(template, pod, reason) for template, reason in rejections]
    for _ in range(MAX_CHANGES):
        extended: list[PartialFix] = []
        for partial_fix in partial_fixes:
            yield from _extend_fix(partial_fix, context, extended)
        partial_fixes = extended[:BEAM_WIDTH]


def _extend_fix(
    partial_fix: PartialFix, context: FunnelContext, extended: list[PartialFix]
) -> Iterator[ChangeSet]:
    """The fixes that one more change completes; the others are added to `extended`."""
    for change in _changes_for_reason(partial_fix.template, partial_fix.reason, partial_fix.pod):
        if any(_have_same_target(change, other) for other in partial_fix.changes):
            continue
        template = apply_to_template(change, partial_fix.template)
        pod = apply_to_pod(change, partial_fix.pod)
        changes = (*partial_fix.changes, change)
        reason = run_funnel(template, pod, context).reason
        if reason is None:
            yield changes
        else:
            extended.append(PartialFix(template, pod, reason, changes))


def _have_same_target(one: AnyFix, other: AnyFix) -> bool:
    """Whether both change the same field: then the first change was not enough."""
    return type(one) is type(other) and _target(one) == _target(other)


def _target(change: AnyFix) -> object:
    match change:
        case AddToleration(toleration=toleration):
            return toleration
        case LowerRequest(resource=name) | RaiseLimit(resource=name):
            return name
        case _:
            return change.key


def _changes_for_reason(
    template: NodeClaimTemplate, reason: PoolReason, pod: Pod
) -> Iterator[AnyFix]:
    pool = template.pool
    match reason:
        case InstanceTypesTooSmall():
            yield from _lower_request(reason, pod, pool.name)
        case UntoleratedTaint(taint=taint):
            toleration = Toleration(key=taint.key, value=taint.value, effect=taint.effect)
            yield AddToleration(toleration=toleration, pool=pool.name)
        case MinValuesUnsatisfied(key=key, needed=needed, found=found) if found:
            yield LowerMinValues(key=key, now=needed, to=found, pool=pool.name)
        case LimitExceeded(of_cluster=True):
            return  # not a matter of pools and pods
        case LimitExceeded(resource=resource, limit=limit, in_use=in_use, needed=needed):
            yield RaiseLimit(resource=resource, now=limit, to=in_use + needed, pool=pool.name)
        case _:
            yield from _label_changes(template, reason, pod)


def _lower_request(reason: InstanceTypesTooSmall, pod: Pod, pool: str) -> Iterator[LowerRequest]:
    requested = container_requests(pod, reason.resource)
    lower = requested - (reason.needed - reason.best)
    if 0 < lower < requested:
        yield LowerRequest(resource=reason.resource, now=requested, to=lower, pool=pool)


def _label_changes(template: NodeClaimTemplate, reason: PoolReason, pod: Pod) -> Iterator[AnyFix]:
    name = template.pool.name
    match reason:
        case RestrictedLabel(key=key):
            yield from _drop_label(key, pod, name)
        case LabelConflict(key=key, meant=meant):
            if meant is not None:
                yield from _drop_label(key, pod, name, meant)
            yield from _drop_label(key, pod, name)
        case NoMatchingInstanceType() | NoMatchingOffering():
            yield from _value_changes(reason, pod, template.pool)
        case OfferingsUnavailable():
            for key in dict.fromkeys(key for wanted in pod.alternatives for key in wanted):
                if template.index.varies_by_offering(key):
                    yield from _drop_label(key, pod, name)
        case _:
            return


def _value_changes(
    reason: NoMatchingInstanceType | NoMatchingOffering, pod: Pod, pool: Pool
) -> Iterator[AnyFix]:
    """The correct value, or no requirement at all, for the pool or the pod that requires it."""
    correction = suggest_correction(reason.wanted, [reason.meant] if reason.meant else [])
    if reason.required_by is not RequiredBy.POD:
        if correction is not None:
            now, to = correction
            yield ChangePoolRequirement(key=reason.key, now=now, to=to, pool=pool.name)
        if reason.key in pool.requirements or reason.key in pool.labels:
            yield DropPoolRequirement(key=reason.key, pool=pool.name)
    if reason.required_by is not RequiredBy.POOL:
        if correction is not None:
            now, to = correction
            yield ChangePodRequirement(key=reason.key, now=now, to=to, pool=pool.name)
        yield from _drop_label(reason.key, pod, pool.name)


def _drop_label(
    key: str, pod: Pod, pool: str, meant: str | None = None
) -> Iterator[DropPodRequirement]:
    if any(key in wanted for wanted in pod.alternatives):
        yield DropPodRequirement(key=key, pool=pool, meant=meant)
