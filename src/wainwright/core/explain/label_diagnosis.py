"""Label diagnosis: which label leaves a pod and a NodePool no instance type or offering, which of
the two requires it, and the known value that was probably meant.
"""

from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.offering_groups import OfferingGroup, OfferingGroupSet
from wainwright.model.reasons import (
    NoMatchingInstanceType,
    NoMatchingOffering,
    OfferingsUnavailable,
    RequiredBy,
)
from wainwright.model.requirements import Requirements, ValueSet, one_of

MIN_SIMILARITY: Final = 0.9  # of the letters, in order; less is another value, not a misspelling


def suggest_correction(wanted: ValueSet, known: Iterable[str]) -> tuple[str, str] | None:
    """The first required value that is a misspelling of a known one, and the known one."""
    if wanted.open:
        return None
    known_values = tuple(known)
    for value in sorted(wanted.values):
        correction = None if value in known_values else closest_spelling(value, known_values)
        if correction is not None:
            return value, correction
    return None


@lru_cache(maxsize=1024)
def closest_spelling(value: str, known: tuple[str, ...]) -> str | None:
    """The most similar known value, if it is similar enough to be meant.

    With other digits, or another first or last letter, it is another zone or type and no
    misspelling. Cached, as every pod with the same wrong value is compared with every known one.
    """
    ranked = sorted(
        (-_similarity(value, other), other) for other in known if _may_be_misspelling(value, other)
    )
    return ranked[0][1] if ranked and -ranked[0][0] >= MIN_SIMILARITY else None


def _may_be_misspelling(value: str, other: str) -> bool:
    one, two = _alphanumerics(value), _alphanumerics(other)
    ends = (one[:1], one[-1:]) == (two[:1], two[-1:])
    return bool(one) and ends and _digits(one) == _digits(two)


def _similarity(value: str, other: str) -> float:
    """1.0 where letters only changed places: a ratio by their order would rate that too low."""
    one, two = _alphanumerics(value), _alphanumerics(other)
    if sorted(one) == sorted(two):
        return 1.0
    return SequenceMatcher(None, one, two, autojunk=False).ratio()


def _alphanumerics(value: str) -> str:
    return "".join(filter(str.isalnum, value.lower()))


def _digits(value: str) -> str:
    return "".join(filter(str.isdigit, value))


class LabelDiagnosis:
    """The label requirements of one alternative of a pod and of one pool, separate and combined."""

    def __init__(
        self, template: NodeClaimTemplate, pod: Requirements, combined: Requirements
    ) -> None:
        self.index = template.index
        self.pod = pod
        self.pool = template.base.requirements
        self.combined = combined

    def no_matching_type(self) -> NoMatchingInstanceType:
        """The label that rules out the last type."""
        types, key = self.index.all_types, ""
        for key in self._keys():
            kept = types & self.index.compatible_types(_only_key(self.combined, key))
            if not kept:
                break
            types = kept
        required_by = self._required_by(key, self.index.compatible_types)
        wanted = self._allowed_values(key, required_by)
        all_groups = (1 << len(self.index.offering_groups)) - 1
        known = self.index.remaining_values(key, self.index.all_types, all_groups)
        correction = suggest_correction(wanted, known)
        return NoMatchingInstanceType(
            key=key, wanted=wanted, required_by=required_by, meant=correction and correction[1]
        )

    def no_offering(
        self, types: BitSet, *, reservations: bool
    ) -> NoMatchingOffering | OfferingsUnavailable:
        """Why none of the types can be launched: no offering matches, or none is available."""
        offering = self._groups_offering(types, reservations=reservations)
        compatible = offering & self.index.compatible_groups(self.combined)
        excluded = None if compatible else self._excluding_label(offering)
        if excluded is None:
            return self._unavailable(types, compatible)
        key, before = excluded
        required_by = self._required_by(
            key, lambda requirements: offering & self.index.compatible_groups(requirements)
        )
        wanted = self._allowed_values(key, required_by)
        offered = self._offered_values(key, before, types)
        correction = suggest_correction(wanted, offered)
        return NoMatchingOffering(
            key=key,
            wanted=wanted,
            offered=one_of(offered),
            instance_type=next(self.index.iter_types(types)).name,
            required_by=required_by,
            meant=correction and correction[1],
        )

    def _groups_offering(self, types: BitSet, *, reservations: bool) -> OfferingGroupSet:
        """The offering groups that have any of the types, available or not."""
        return union(
            1 << number
            for number, group in enumerate(self.index.offering_groups)
            if group.offered_types & types and (reservations or group.reservation_id is None)
        )

    def _excluding_label(self, groups: OfferingGroupSet) -> tuple[str, OfferingGroupSet] | None:
        """The label that rules out the last offering group, and the groups left before it.

        Preferably one that rules out all of them by itself.
        """
        keys = [key for key in self._keys() if self.index.varies_by_offering(key)]
        for key in keys:
            if not groups & self._compatible_groups(key):
                return key, groups
        for key in keys:
            kept = groups & self._compatible_groups(key)
            if not kept:
                return key, groups
            groups = kept
        return None

    def _compatible_groups(self, key: str) -> OfferingGroupSet:
        return self.index.compatible_groups(_only_key(self.combined, key))

    def _keys(self) -> list[str]:
        """The labels that only the pool requires, before those of the pod."""
        return [*(key for key in self.combined if key not in self.pod), *self.pod]

    def _required_by(self, key: str, matching: Callable[[Requirements], BitSet]) -> RequiredBy:
        """Which requirement of the label leaves nothing by itself, or that only both do."""
        if key not in self.pod or (key in self.pool and not matching(_only_key(self.pool, key))):
            return RequiredBy.POOL
        if key not in self.pool or not matching(_only_key(self.pod, key)):
            return RequiredBy.POD
        return RequiredBy.BOTH

    def _allowed_values(self, key: str, required_by: RequiredBy) -> ValueSet:
        requirements = {
            RequiredBy.POOL: self.pool,
            RequiredBy.POD: self.pod,
            RequiredBy.BOTH: self.combined,
        }
        return requirements[required_by].allowed(key)

    def _offered_values(self, key: str, groups: OfferingGroupSet, types: BitSet) -> list[str]:
        """The values with which the types are available there or, if none is, offered."""
        offering = list(self._iter_groups(groups))
        available = [group for group in offering if group.available_types & types]
        return _label_values(key, available or offering)

    def _iter_groups(self, groups: OfferingGroupSet) -> Iterator[OfferingGroup]:
        return (self.index.offering_groups[number] for number in iter_bits(groups))

    def _unavailable(self, types: BitSet, compatible: OfferingGroupSet) -> OfferingsUnavailable:
        groups = list(self._iter_groups(compatible))
        unreserved = [group for group in groups if group.reservation_id is None]
        reserved = {group.reservation_id for group in groups if group.reservation_id is not None}
        offered = types & union(group.offered_types for group in groups)
        return OfferingsUnavailable(
            instance_type=next(self.index.iter_types(offered or types)).name,
            zones=tuple(_label_values(ZONE, unreserved)),
            capacity_types=tuple(_label_values(CAPACITY_TYPE, unreserved)),
            reservations=tuple(sorted(reserved)),
        )


def _only_key(requirements: Requirements, key: str) -> Requirements:
    return requirements.without(set(requirements) - {key})


def _label_values(key: str, offering_groups: list[OfferingGroup]) -> list[str]:
    allowed = [group.requirements.allowed(key) for group in offering_groups]
    return sorted({value for each in allowed if not each.open for value in each.values})
