"""Whether a draft can take a pod, and what is left to it then: labels, resources, volumes,
offerings and minValues, in this order.
"""

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints import offerings, resource_fit
from wainwright.core.scheduling.constraints.volume_limits import Attachments, volumes_after
from wainwright.core.scheduling.drafts import Draft, DraftChange
from wainwright.core.scheduling.pod_classes import PodRequirements, PoolCompatibility
from wainwright.model.bitset import BitSet
from wainwright.model.requirements import Requirements


def try_fit(draft: Draft, pod_reqs: PodRequirements) -> DraftChange | None:
    """The draft's state with one more such pod; None, recorded for good, if it does not fit."""
    change = evaluate_fit(draft, pod_reqs)
    if change is None:
        compatibility = pod_reqs.scheduling.compatibility[draft.template.number]
        if compatibility is None or not draft.types & compatibility.types:
            pod_reqs.scheduling.rejected_by |= draft.bit
        else:
            pod_reqs.rejected_by |= draft.bit
    return change


def evaluate_fit(draft: Draft, pod_reqs: PodRequirements) -> DraftChange | None:
    """The same without recording it.

    Type sets are intersected first, as that is cheap and rules out most; requirements are combined
    only for the rest.
    """
    template = draft.template
    compatibility = pod_reqs.scheduling.compatibility[template.number]
    assert compatibility is not None, "candidates are drafts of compatible pools"
    types = draft.types & compatibility.types
    if types:
        tables = template.allocatable_tables
        types = resource_fit.admits_types(types, tables, pod_reqs.amounts, draft.totals)
        if types and pod_reqs.attachments:
            types = _with_volumes(draft, types, pod_reqs.attachments)
    change = _change_for(draft, compatibility, types) if types else None
    if change is None or not draft.min_values or _meets_min_values(draft, change):
        return change
    return None


def _with_volumes(draft: Draft, types: BitSet, wanted: Attachments) -> BitSet:
    """Those of the types that attach the volumes; none where the draft has too many with them."""
    for driver, count in volumes_after(wanted, draft.volumes):
        if count > draft.attach_limit(driver):
            return 0
    return draft.template.volume_limits.admits_types(types, wanted, draft.volumes)


def narrow_draft(draft: Draft, requirements: Requirements) -> DraftChange | None:
    """The draft's state with further requirements; None if that is not possible."""
    compiled = draft.compiled.combine(requirements)
    if compiled is None:
        return None
    change = DraftChange(draft, draft.types, compiled)
    is_launchable = offerings.admits_change(draft, change)
    return change if is_launchable and _meets_min_values(draft, change) else None


def _change_for(
    draft: Draft, compatibility: PoolCompatibility, types: BitSet
) -> DraftChange | None:
    compiled: CompiledRequirements | None = draft.compiled
    if not compatibility.is_implied:
        compiled = draft.compiled.combine(compatibility.requirements)
    if compiled is None:
        return None
    change = DraftChange(draft, types, compiled)
    return change if offerings.admits_change(draft, change) else None


def _meets_min_values(draft: Draft, change: DraftChange) -> bool:
    if not draft.min_values:
        return True
    offering_groups = change.compiled.offering_groups | change.held
    checker = draft.template.min_values_checker
    if change.compiled is draft.compiled:
        witnesses = checker.admits_fewer(
            draft.min_values, draft.witnesses, change.compiled, change.types, offering_groups
        )
    else:
        witnesses = checker.admits(draft.min_values, change.compiled, change.types, offering_groups)
    if witnesses is None:
        return False
    change.witnesses = witnesses
    return True
