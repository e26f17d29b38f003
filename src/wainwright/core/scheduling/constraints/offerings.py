"""Offerings: whether an instance type can be launched in a zone, as a capacity type, or into a
capacity reservation that has instances left.

The offerings that requirements admit are compiled once (`compiled_requirements.py`); instances of
reservations are counted in `reservation_manager.py`.
"""

from collections.abc import Mapping

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints.label_diagnosis import (
    LabelDiagnosis,
    suggest_correction,
)
from wainwright.core.scheduling.drafts import Draft, DraftChange
from wainwright.core.scheduling.reservation_manager import PoolReservations
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.offering_groups import OfferingGroup, OfferingGroupSet
from wainwright.model.reasons import NoMatchingOffering, OfferingsUnavailable
from wainwright.model.requirements import Requirements, one_of


def admits_types(
    types: BitSet,
    compiled: CompiledRequirements,
    pool_reservations: PoolReservations,
    held: OfferingGroupSet,
) -> BitSet:
    """The types that can be launched, as spot or on-demand or into one of the held groups."""
    offered = types & compiled.offered
    return offered | pool_reservations.available_in(held, types ^ offered)


def admits_change(draft: Draft, change: DraftChange) -> bool:
    """Whether the draft can still be launched; keeps the types that can, and what they hold."""
    if change.compiled is not draft.compiled and not _keep_offered_types(draft, change):
        return False
    kept = change.reserved_types & change.types
    if (
        draft.held
        and kept != draft.reserved_types
        and not _keeps_reserved_offering(draft, change, kept)
    ):
        return False
    return not draft.pinned_type or _matches_pinned_offering(draft, change)


def _keep_offered_types(draft: Draft, change: DraftChange) -> bool:
    """Keeps the types that are available under the new requirements."""
    change.types &= change.compiled.types
    change.held &= change.compiled.reserved
    if change.held != draft.held:
        change.reserved_types = draft.template.pool_reservations.available_in(
            change.held, draft.reserved_types
        )
    change.types &= change.compiled.offered | change.reserved_types
    return change.types != 0


def _keeps_reserved_offering(draft: Draft, change: DraftChange, kept: BitSet) -> bool:
    """A draft never gives up its last reserved offering; the pod opens another node instead."""
    if not kept:
        return False
    if kept != change.reserved_types:
        change.held = draft.template.pool_reservations.groups_still_offering(
            change.held, change.reserved_types, kept
        )
        change.reserved_types = kept
    return True


def _matches_pinned_offering(draft: Draft, change: DraftChange) -> bool:
    groups = change.compiled.offering_groups | change.held
    return bool(change.types & draft.pinned_type) and bool(groups & draft.pinned_group)


def available_groups(
    index: InstanceTypeIndex, requirements: Requirements, available_counts: Mapping[str, int]
) -> OfferingGroupSet:
    """The compatible offering groups, without reservations that have no available capacity."""
    groups = index.compatible_groups(requirements)
    for number in iter_bits(groups):
        name = index.offering_groups[number].reservation_id
        if name is not None and not available_counts.get(name):
            groups ^= 1 << number
    return groups


def why_no_offering(
    diagnosis: LabelDiagnosis, types: BitSet, *, reservations: bool
) -> NoMatchingOffering | OfferingsUnavailable:
    """Why none of the types can be launched: no offering matches, or none is available."""
    index = diagnosis.index
    offering = _groups_offering(index, types, reservations=reservations)
    compatible = offering & index.compatible_groups(diagnosis.combined)
    excluded = None if compatible else _excluding_label(diagnosis, offering)
    if excluded is None:
        return _unavailable(index, types, compatible)
    key, before = excluded
    required_by = diagnosis.required_by(
        key, lambda requirements: offering & index.compatible_groups(requirements)
    )
    wanted = diagnosis.allowed_values(key, required_by)
    offered = _offered_values(index, key, before, types)
    correction = suggest_correction(key, wanted, offered)
    return NoMatchingOffering(
        key=key,
        wanted=wanted,
        offered=one_of(offered),
        instance_type=next(index.iter_types(types)).name,
        required_by=required_by,
        meant=correction and correction[1],
        reservations=_only_reservations(index, before, types),
    )


def _groups_offering(
    index: InstanceTypeIndex, types: BitSet, *, reservations: bool
) -> OfferingGroupSet:
    """The offering groups that have any of the types, available or not."""
    return union(
        1 << number
        for number, group in enumerate(index.offering_groups)
        if group.offered_types & types and (reservations or group.reservation_id is None)
    )


def _excluding_label(
    diagnosis: LabelDiagnosis, groups: OfferingGroupSet
) -> tuple[str, OfferingGroupSet] | None:
    """The label that rules out the last offering group, and the groups left before it.

    Preferably one that rules out all of them by itself.
    """
    index = diagnosis.index
    keys = [key for key in diagnosis.keys if index.varies_by_offering(key)]
    for key in keys:
        if not groups & index.compatible_groups(diagnosis.only(key)):
            return key, groups
    for key in keys:
        kept = groups & index.compatible_groups(diagnosis.only(key))
        if not kept:
            return key, groups
        groups = kept
    return None


def _offered_values(
    index: InstanceTypeIndex, key: str, groups: OfferingGroupSet, types: BitSet
) -> list[str]:
    """The values with which the types are available there or, if none is, offered."""
    offering = _groups(index, groups)
    available = [group for group in offering if group.available_types & types]
    return _label_values(key, available or offering)


def _only_reservations(
    index: InstanceTypeIndex, groups: OfferingGroupSet, types: BitSet
) -> tuple[str, ...]:
    """The capacity reservations that the groups are; none where any is something else."""
    names = {
        group.reservation_id for group in _groups(index, groups) if group.offered_types & types
    }
    return () if None in names else tuple(sorted(filter(None, names)))


def _unavailable(
    index: InstanceTypeIndex, types: BitSet, compatible: OfferingGroupSet
) -> OfferingsUnavailable:
    groups = _groups(index, compatible)
    unreserved = [group for group in groups if group.reservation_id is None]
    reserved = {group.reservation_id for group in groups if group.reservation_id is not None}
    offered = types & union(group.offered_types for group in groups)
    return OfferingsUnavailable(
        instance_type=next(index.iter_types(offered or types)).name,
        zones=tuple(_label_values(ZONE, unreserved)),
        capacity_types=tuple(_label_values(CAPACITY_TYPE, unreserved)),
        reservations=tuple(sorted(reserved)),
    )


def _groups(index: InstanceTypeIndex, groups: OfferingGroupSet) -> list[OfferingGroup]:
    return [index.offering_groups[number] for number in iter_bits(groups)]


def _label_values(key: str, offering_groups: list[OfferingGroup]) -> list[str]:
    allowed = [group.requirements.allowed(key) for group in offering_groups]
    return sorted({value for each in allowed if not each.open for value in each.values})
