"""The search for fixes: the fewest changes of a pod and a NodePool after which the pool would take
the pod, and changes of constraints between pods.

A change comes from the reason why the pool rejects the pod; where the changed pool has another
reason, the search goes on from there, up to a few changes at once. NodePools come in the order in
which they came nearest, and the changes for one reason in the order in which they keep what pod and
NodePool were meant to do: a limit is raised and a value allowed before a selector is dropped. The
effect of a change on other pods is not considered here: only a trial plan shows that.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.explain.instance_type_funnel import FunnelContext, FunnelResult, run_funnel
from wainwright.core.explain.pod_verdicts import PoolRejection
from wainwright.core.explain.suggested_changes import (
    admit_value,
    apply_to_pod,
    apply_to_template,
    container_requests,
)
from wainwright.core.scheduling.constraints.label_diagnosis import suggest_correction
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.model.bitset import BitSet
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    ON_DEMAND,
    OS,
    RESERVED,
    SPOT,
)
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    DaemonSetsExceedCapacity,
    InstanceTypesTooSmall,
    LabelConflict,
    LimitExceeded,
    MinValuesUnsatisfied,
    NoMatchingInstanceType,
    NoMatchingOffering,
    OfferingsUnavailable,
    PodAffinityUnsatisfied,
    PodAntiAffinityUnsatisfied,
    PoolReason,
    RequiredBy,
    RestrictedLabel,
    TooManyVolumes,
    TopologyReason,
    TopologySpreadUnsatisfied,
    UntoleratedTaint,
)
from wainwright.model.requirements import Requirement, Requirements, one_of
from wainwright.model.resources import round_down, round_up
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
    HonorTaints,
    LowerMinValues,
    LowerRequest,
    PodFix,
    PreferConstraint,
    RaiseLimit,
)
from wainwright.model.taints import Toleration, find_untolerated_taint

MAX_CHANGES: Final = 3  # at once; more than that is no useful advice
# Partial fixes followed further: their number would multiply with every change.
BEAM_WIDTH: Final = 8
MAX_WIDENED_POOLS: Final = 3  # the nearest, of which each requirement is tried without its values

ChangeSet: TypeAlias = tuple[AnyFix, ...]


class PartialFix(NamedTuple):
    """A pool and a pod after some changes, and why the pool still rejects the pod."""

    template: NodeClaimTemplate
    pod: Pod
    reason: PoolReason
    changes: ChangeSet = ()
    may_widen: bool = True
    """Whether values may be added to requirements of the pool, which takes long to try."""


def find_fixes(
    pod: Pod, rejections: Sequence[PoolRejection], context: FunnelContext
) -> Iterator[ChangeSet]:
    """Changes after which a pool takes the pod; the fewest first, then in the order of pools.

    A beam search, and lazy: the caller stops at the first fixes that work.
    """
    partial_fixes = [
        PartialFix(template, pod, reason, may_widen=number < MAX_WIDENED_POOLS)
        for number, (template, reason) in enumerate(rejections)
    ]
    for _ in range(MAX_CHANGES):
        extended: list[PartialFix] = []
        for partial_fix in partial_fixes:
            yield from _extend_fix(partial_fix, context, extended)
        partial_fixes = extended[:BEAM_WIDTH]


def _extend_fix(
    partial_fix: PartialFix, context: FunnelContext, extended: list[PartialFix]
) -> Iterator[ChangeSet]:
    """The fixes that one more change completes; the others are added to `extended`."""
    for step in _changes_for_reason(partial_fix, context):
        changes = step if isinstance(step, tuple) else (step,)
        if any(_have_same_target(each, other) for each in changes for other in partial_fix.changes):
            continue
        found = _raise_further_limits(_apply(partial_fix, changes, context), context)
        if isinstance(found, PartialFix):
            extended.append(found)
        else:
            yield found


def _apply(
    partial_fix: PartialFix, added: ChangeSet, context: FunnelContext
) -> "PartialFix | ChangeSet":
    template, pod = partial_fix.template, partial_fix.pod
    for change in added:
        template, pod = apply_to_template(change, template), apply_to_pod(change, pod)
    changes = (*partial_fix.changes, *added)
    reason = run_funnel(template, pod, context).reason
    if reason is None:
        return changes
    return PartialFix(template, pod, reason, changes, partial_fix.may_widen)


def _raise_further_limits(
    found: "PartialFix | ChangeSet", context: FunnelContext
) -> "PartialFix | ChangeSet":
    """Several limits of a pool are one change: a node exceeds cpu and memory together."""
    while isinstance(found, PartialFix) and isinstance(found.changes[-1], RaiseLimit):
        change = next(_changes_for_reason(found, context), None)
        if not isinstance(change, RaiseLimit) or any(
            _have_same_target(change, other) for other in found.changes
        ):
            break
        found = _apply(found, (change,), context)
    return found


def _have_same_target(one: AnyFix, other: AnyFix) -> bool:
    """Whether both change the same field: then the first change was not enough."""
    return type(one) is type(other) and _target(one) == _target(other)


def _target(change: AnyFix) -> object:
    match change:
        case AddToleration(toleration=toleration):
            return toleration
        case LowerRequest(resource=name) | RaiseLimit(resource=name):
            return name
        case AllowPoolValue(key=key, value=value) | AllowPodValue(key=key, value=value):
            return key, value
        case _:
            return getattr(change, "key", None)


def _changes_for_reason(
    partial_fix: PartialFix, context: FunnelContext
) -> Iterator[AnyFix | ChangeSet]:
    """Single changes, and such as make sense only together."""
    template, pod, reason = partial_fix.template, partial_fix.pod, partial_fix.reason
    pool = template.pool
    match reason:
        case InstanceTypesTooSmall():
            yield from _widenings(partial_fix, context)
            yield from _lower_request(reason, pod, pool.name)
        case DaemonSetsExceedCapacity() | TooManyVolumes():
            yield from _widenings(partial_fix, context)
        case UntoleratedTaint(taint=taint):
            toleration = Toleration(key=taint.key, value=taint.value, effect=taint.effect)
            yield AddToleration(toleration=toleration, pool=pool.name)
        case MinValuesUnsatisfied(key=key, needed=needed, found=found) if found:
            yield LowerMinValues(key=key, now=needed, to=found, pool=pool.name)
        case LimitExceeded(of_cluster=True):
            return  # not a matter of pools and pods
        case LimitExceeded(resource=resource, limit=limit, in_use=in_use, needed=needed):
            to = round_up(resource, in_use + needed)
            yield RaiseLimit(resource=resource, now=limit, to=to, pool=pool.name)
        case _:
            yield from _label_changes(partial_fix, context)


def _lower_request(reason: InstanceTypesTooSmall, pod: Pod, pool: str) -> Iterator[LowerRequest]:
    requested = container_requests(pod, reason.resource)
    lower = round_down(reason.resource, requested - (reason.needed - reason.best))
    if 0 < lower < requested:
        yield LowerRequest(resource=reason.resource, now=requested, to=lower, pool=pool)


def _label_changes(partial_fix: PartialFix, context: FunnelContext) -> Iterator[AnyFix | ChangeSet]:
    template, pod, reason = partial_fix.template, partial_fix.pod, partial_fix.reason
    name = template.pool.name
    match reason:
        case RestrictedLabel(key=key, meant=meant):
            yield from _rename_label(key, pod, name, meant)
            yield from _drop_label(key, pod, name)
        case LabelConflict(key=key, meant=meant):
            yield from _rename_label(key, pod, name, meant)
            yield from _correct_label(reason, name)
            yield from _widenings_or_pairs(partial_fix, context)
            yield from _drop_label(key, pod, name)
        case NoMatchingInstanceType() | NoMatchingOffering():
            yield from _value_changes(reason, partial_fix, context)
        case OfferingsUnavailable():
            yield from _widenings(partial_fix, context)
            yield from _on_demand_as_well(pod, name)
            for key in dict.fromkeys(key for wanted in pod.alternatives for key in wanted):
                if template.index.varies_by_offering(key):
                    yield from _drop_label(key, pod, name)
        case _:
            return


def _value_changes(
    reason: NoMatchingInstanceType | NoMatchingOffering,
    partial_fix: PartialFix,
    context: FunnelContext,
) -> Iterator[AnyFix | ChangeSet]:
    """The correct value, one more value, or no requirement at all, for whom it is required by."""
    pod, pool = partial_fix.pod, partial_fix.template.pool
    known = [reason.meant] if reason.meant else []
    correction = suggest_correction(reason.key, reason.wanted, known)
    if reason.required_by is not RequiredBy.POD and correction is not None:
        now, to = correction
        yield ChangePoolRequirement(key=reason.key, now=now, to=to, pool=pool.name)
    if reason.required_by is not RequiredBy.POOL and correction is not None:
        now, to = correction
        yield ChangePodRequirement(key=reason.key, now=now, to=to, pool=pool.name)
    yield from _widenings_or_pairs(partial_fix, context)
    if (
        reason.required_by is not RequiredBy.POD
        and reason.key not in IMAGE_LABELS
        and (reason.key in pool.requirements or reason.key in pool.labels)
    ):
        yield DropPoolRequirement(key=reason.key, pool=pool.name)
    if reason.required_by is not RequiredBy.POOL:
        yield from _drop_label(reason.key, pod, pool.name)


def _on_demand_as_well(pod: Pod, pool: str) -> Iterator[AllowPodValue]:
    """Of a pod that is to run on reserved capacity only. With on-demand alone, pods of the same
    workload would leave the instances of the reservation that they have.
    """
    only = {wanted.allowed(CAPACITY_TYPE) for wanted in pod.alternatives if CAPACITY_TYPE in wanted}
    if any(not each.open and each.values == {RESERVED} for each in only):
        yield AllowPodValue(key=CAPACITY_TYPE, now=RESERVED, value=ON_DEMAND, pool=pool)


def _correct_label(reason: LabelConflict, pool: str) -> Iterator[ChangePodRequirement]:
    """The value that the NodePool sets, where the pod selects a misspelling of it."""
    if reason.offered is None or reason.offered.open:
        return
    correction = suggest_correction(reason.key, reason.wanted, sorted(reason.offered.values))
    if correction is not None:
        yield ChangePodRequirement(key=reason.key, now=correction[0], to=correction[1], pool=pool)


def _rename_label(key: str, pod: Pod, pool: str, meant: str | None) -> Iterator[DropPodRequirement]:
    if meant is not None:
        yield from _drop_label(key, pod, pool, meant)


IMAGE_LABELS: Final = frozenset({ARCH, OS})
"""What container images are built for: without the requirement a pod would be scheduled on nodes on
which it cannot start."""


def _drop_label(
    key: str, pod: Pod, pool: str, meant: str | None = None
) -> Iterator[DropPodRequirement]:
    if key in IMAGE_LABELS and meant is None:
        return
    if any(key in wanted for wanted in pod.alternatives):
        yield DropPodRequirement(key=key, pool=pool, meant=meant)


# Values added to requirements of a NodePool


WIDENED_TOGETHER: Final = (ARCH, INSTANCE_CATEGORY, INSTANCE_FAMILY, INSTANCE_GENERATION)
"""Labels of which NodePools often require two that mean the same types: category g, family g5."""


def _widenings_or_pairs(
    partial_fix: PartialFix, context: FunnelContext
) -> Iterator[AnyFix | ChangeSet]:
    """One more value of a requirement; where that is not enough, of two that go together."""
    has_single = False
    for change in _widenings(partial_fix, context):
        has_single = has_single or change.key != CAPACITY_TYPE
        yield change
    if not has_single and partial_fix.may_widen:
        own = [key for key in WIDENED_TOGETHER if key in partial_fix.template.pool.requirements]
        for keys in combinations(own, 2):
            values = _values_beyond(partial_fix, keys, context)
            if values is not None:
                yield tuple(map(partial(_allow, partial_fix.template.pool), keys, values))


def _widenings(
    partial_fix: PartialFix, context: FunnelContext
) -> Iterator[AllowPoolValue | DropPoolRequirement]:
    """One more value of a requirement of the pool, with which it would take the pod.

    Each requirement is left out once to see whether it is the obstacle; of what the pool could
    launch then the cheapest decides on the value.
    """
    pool = partial_fix.template.pool
    if not partial_fix.may_widen:
        return
    for key in pool.requirements:
        if key == CAPACITY_TYPE:  # on-demand keeps more of what reserved capacity is for than spot
            allowed = pool.requirements.allowed(key)
            for value in (ON_DEMAND, SPOT):
                if not allowed.admits(value):
                    yield _allow(pool, key, value)
        elif key in partial_fix.template.well_known:
            values = _values_beyond(partial_fix, (key,), context)
            if values is not None:
                yield _allow(pool, key, values[0])


def _allow(pool: Pool, key: str, value: str) -> AllowPoolValue | DropPoolRequirement:
    """A value is added to In, and one is removed from NotIn, or all of it; bounds are moved."""
    now = pool.requirements.allowed(key)
    if not now.open:
        return AllowPoolValue(key=key, value=value, pool=pool.name)
    if not now.is_bounded and now.values <= {value}:
        return DropPoolRequirement(key=key, pool=pool.name)
    to = admit_value(now, value)
    return AllowPoolValue(key=key, value=value, pool=pool.name, now=now, to=to)


def _values_beyond(
    partial_fix: PartialFix, keys: tuple[str, ...], context: FunnelContext
) -> list[str] | None:
    """Values that the requirements do not allow, and with which the pool would take the pod."""
    template = partial_fix.template
    without = template
    for key in keys:
        without = _without_requirement(without, key, context)
    found = run_funnel(without, partial_fix.pod, context)
    if not found.types or not isinstance(found.reason, None | LimitExceeded | MinValuesUnsatisfied):
        return None
    values = _cheapest_values(without, found, keys, template)
    own = template.pool.requirements
    if any(
        value is None or own.allowed(key).admits(value)
        for key, value in zip(keys, values, strict=True)
    ):
        return None
    return [value for value in values if value is not None]


def _without_requirement(
    template: NodeClaimTemplate, key: str, context: FunnelContext
) -> NodeClaimTemplate:
    """Compiled once for a pool: hundreds of pod classes may fail alike."""
    cache = context.cache.without_requirement
    entry = (id(template.base), template.pool.name, key)
    if entry not in cache:
        change = DropPoolRequirement(key=key, pool=template.pool.name)
        cache[entry] = apply_to_template(change, template), template.base
    return cache[entry][0]


def _cheapest_values(
    template: NodeClaimTemplate,
    found: FunnelResult,
    keys: tuple[str, ...],
    before: NodeClaimTemplate,
) -> list[str | None]:
    """The values of the cheapest offering of a type like those that the pool allows now."""
    index = template.index
    types = _similar_types(found.types, before)
    cheapest = index.find_cheapest(types, found.groups)
    if cheapest is None:
        return [None] * len(keys)
    number, _, offering = cheapest
    of_type = index.types[number].requirements
    return [offering.requirements.single_value(key) or of_type.single_value(key) for key in keys]


KEPT_LABELS: Final = (ARCH, OS, INSTANCE_FAMILY, INSTANCE_CATEGORY)
"""What types of a NodePool have in common that another type should have too, first things first."""


def _similar_types(types: BitSet, template: NodeClaimTemplate) -> BitSet:
    """Those that have most in common with the types that the pool allows."""
    index, allowed = template.index, template.base.requirements
    exotic = index.metal | index.accelerated
    types = (types & ~exotic) or types
    groups = (1 << len(index.offering_groups)) - 1
    own = index.compatible_types(allowed)
    for key in KEPT_LABELS if own else ():
        values = one_of(index.remaining_values(key, own, groups))
        alike = types & index.compatible_types(Requirements([Requirement(key=key, allowed=values)]))
        types = alike or types
    return types


# Volumes, and constraints between pods


def find_dropped_selectors(pod: Pod) -> Iterator[ChangeSet]:
    """Requirements of the pod on labels that say where its volumes are, and say otherwise."""
    placed = {key for volume in pod.volumes for wanted in volume.topology for key in wanted}
    for key in sorted(placed):
        yield from ((change,) for change in _drop_label(key, pod, ""))


def find_honored_taints(
    pod: Pod, reasons: Iterable[TopologyReason], pools: Iterable[Pool]
) -> Iterator[ChangeSet]:
    """Spreads that could ignore the domains of NodePools whose taints the pod does not tolerate."""
    if not any(find_untolerated_taint(pool.taints, pod.tolerations) for pool in pools):
        return
    for reason in reasons:
        change = HonorTaints(key=reason.key)
        if isinstance(reason, TopologySpreadUnsatisfied) and apply_to_pod(change, pod) != pod:
            yield (change,)


def find_preferences(pod: Pod, reasons: Iterable[TopologyReason]) -> Iterator[ChangeSet]:
    """Constraints between pods that could be preferred instead of required; trials show which."""
    for reason in reasons:
        change = _preference(reason)
        if apply_to_pod(change, pod) != pod:
            yield (change,)


def _preference(reason: TopologyReason) -> PreferConstraint:
    match reason:
        case TopologySpreadUnsatisfied(key=key):
            return PreferConstraint(constraint=ConstraintKind.TOPOLOGY_SPREAD, key=key)
        case PodAffinityUnsatisfied(key=key, pods=pods):
            return PreferConstraint(constraint=ConstraintKind.POD_AFFINITY, key=key, pods=pods)
        case PodAntiAffinityUnsatisfied(key=key, pods=pods):
            kind = ConstraintKind.POD_ANTI_AFFINITY
            return PreferConstraint(constraint=kind, key=key, pods=pods)


def applies_to_spec(fix: ChangeSet, pod: Pod, narrowed_pod: Pod) -> bool:
    """Whether each change alters the pod as it is written, and nothing else requires what it drops.

    Fixes are found for `narrowed_pod`, which has what volumes and topology constraints require as
    requirements of its own.
    """
    return all(
        apply_to_pod(change, pod) != pod and not _is_required_elsewhere(change, pod, narrowed_pod)
        for change in fix
        if isinstance(change, PodFix)
    )


def _is_required_elsewhere(change: AnyFix, pod: Pod, narrowed_pod: Pod) -> bool:
    """Whether volumes or topology constraints narrow the label that the change is about."""
    if not isinstance(change, DropPodRequirement | ChangePodRequirement | AllowPodValue):
        return False
    return _requirements_by_key(pod, change.key) != _requirements_by_key(narrowed_pod, change.key)


def _requirements_by_key(pod: Pod, key: str) -> set[Requirement | None]:
    return {wanted.get(key) for wanted in pod.alternatives}
