"""Suggested changes: the fewest changes of a pod and a NodePool after which the pool would take
the pod, and pods, pools and templates with such changes made.

A change comes from the reason why the pool refuses; where another reason is found behind it,
the search goes on from there, up to a few changes at once. What a change does to other pods
is not looked at here: only a trial plan shows that.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.explain.label_diagnosis import suggest_correction
from wainwright.core.explain.pod_verdicts import PoolRejection
from wainwright.core.scheduling.compiled_requirements import (
    CompilationContext,
    compile_requirements,
)
from wainwright.core.scheduling.min_values import min_values_of
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
    """What its containers ask for: the requests without what the runtime adds."""
    return pod.requests.get(resource, 0) - (pod.overhead or {}).get(resource, 0)


def generalize_changes(changes: tuple[AnyFix, ...], pods: Sequence[Pod]) -> tuple[AnyFix, ...]:
    """Changes made for the first of the pods, put so that the others can make them as well."""
    return tuple(_generalize_change(change, pods) for change in changes)


def _generalize_change(change: AnyFix, pods: Sequence[Pod]) -> AnyFix:
    if not isinstance(change, LowerRequest):
        return change
    alike = all(container_requests(pod, change.resource) == change.now for pod in pods)
    return change if alike else msgspec.structs.replace(change, now=None)


def apply_to_pod(change: AnyFix, pod: Pod) -> Pod:
    """The pod after the change; itself where the change is none of its own."""
    match change:
        case LowerRequest(resource=resource, now=now, to=to):
            asked = container_requests(pod, resource)
            lower = asked > to if now is None else asked == now
            amount = pod.requests.get(resource, 0) - (asked - to)
            return (
                _replace_in_pod(pod, requests={**pod.requests, resource: amount}) if lower else pod
            )
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
    asked = wanted[key]
    changed = Requirement(
        key=key, allowed=_swap_value(asked.allowed, now, to), min_values=asked.min_values
    )
    return wanted.without({key}).narrow(Requirements([changed]))


def _swap_value(values: ValueSet, now: str, to: str) -> ValueSet:
    if values.open or now not in values.values:
        return values
    return one_of(values.values - {now} | {to})


def apply_to_pool(change: AnyFix, pool: Pool) -> Pool:
    """The pool after the change; itself where the change is not about it."""
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
        case DropPoolRequirement() | ChangePoolRequirement():
            return _recompile_template(template, apply_to_pool(change, template.pool))
        case _:
            return template


def _recompile_template(template: NodeClaimTemplate, pool: Pool) -> NodeClaimTemplate:
    index, twin = template.index, template.twin()
    ground = CompilationContext(
        index, template.room.non_negative, reserved_offerings(index), template.well_known
    )
    twin.pool, twin.base = pool, compile_requirements(ground, pool.node_requirements)
    twin.minimums = min_values_of(twin.base.requirements)
    return twin


MAX_CHANGES: Final = 3  # changes at once; who needs more has to think again
BEAM_WIDTH: Final = 8  # that are followed further, of all that one change more opens

ChangeSet: TypeAlias = tuple[AnyFix, ...]


class PartialFix(NamedTuple):
    """A pool and a pod, changed so far, and what still stands between them."""

    template: NodeClaimTemplate
    pod: Pod
    reason: PoolReason
    made: ChangeSet = ()


def find_fixes(
    pod: Pod, refusals: Sequence[PoolRejection], state: FunnelContext
) -> Iterator[ChangeSet]:
    """Those after which a pool would take the pod; fewer changes first, then the order of pools."""
    partial_fixes = [PartialFix(template, pod, reason) for template, reason in refusals]
    for _ in range(MAX_CHANGES):
        extended: list[PartialFix] = []
        for partial_fix in partial_fixes:
            yield from _extend_fix(partial_fix, state, extended)
        partial_fixes = extended[:BEAM_WIDTH]


def _extend_fix(
    partial_fix: PartialFix, state: FunnelContext, extended: list[PartialFix]
) -> Iterator[ChangeSet]:
    for change in _changes_for_reason(partial_fix.template, partial_fix.reason, partial_fix.pod):
        if any(_change_same_thing(change, other) for other in partial_fix.made):
            continue
        template, pod = (
            apply_to_template(change, partial_fix.template),
            apply_to_pod(change, partial_fix.pod),
        )
        made, reason = (*partial_fix.made, change), run_funnel(template, pod, state).reason
        if reason is None:
            yield made
        else:
            extended.append(PartialFix(template, pod, reason, made))


def _change_same_thing(one: AnyFix, other: AnyFix) -> bool:
    """Whether both change the same thing: then the first change did not settle it."""
    return type(one) is type(other) and _changed_thing(one) == _changed_thing(other)


def _changed_thing(change: AnyFix) -> object:
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
        case LimitExceeded(resource=resource, limit=limit, in_use=in_use, needed=needed):
            yield RaiseLimit(resource=resource, now=limit, to=in_use + needed, pool=pool.name)
        case _:
            yield from _label_changes(template, reason, pod)


def _lower_request(reason: InstanceTypesTooSmall, pod: Pod, pool: str) -> Iterator[LowerRequest]:
    asked = container_requests(pod, reason.resource)
    lower = asked - (reason.needed - reason.best)
    if 0 < lower < asked:
        yield LowerRequest(resource=reason.resource, now=asked, to=lower, pool=pool)


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
    """The value that was meant, or none at all, by whoever asks for what is not there."""
    meant = suggest_correction(reason.wanted, [reason.meant] if reason.meant else [])
    if reason.required_by is not RequiredBy.POD:
        if meant is not None:
            yield ChangePoolRequirement(key=reason.key, now=meant[0], to=meant[1], pool=pool.name)
        if reason.key in pool.requirements or reason.key in pool.labels:
            yield DropPoolRequirement(key=reason.key, pool=pool.name)
    if reason.required_by is not RequiredBy.POOL:
        if meant is not None:
            yield ChangePodRequirement(key=reason.key, now=meant[0], to=meant[1], pool=pool.name)
        yield from _drop_label(reason.key, pod, pool.name)


def _drop_label(
    key: str, pod: Pod, pool: str, meant: str | None = None
) -> Iterator[DropPodRequirement]:
    if any(key in wanted for wanted in pod.alternatives):
        yield DropPodRequirement(key=key, pool=pool, meant=meant)
