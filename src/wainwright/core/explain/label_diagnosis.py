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

MIN_SIMILARITY: Final = 0.9  # of the letters, in order; less is another word


def suggest_correction(wanted: ValueSet, known: Iterable[str]) -> tuple[str, str] | None:
    """The first of the values wanted that looks like a known one, with that one."""
    if wanted.open:
        return None
    there = tuple(known)
    for value in sorted(wanted.values):
        found = None if value in there else closest_spelling(value, there)
        if found is not None:
            return value, found
    return None


@lru_cache(maxsize=1024)
def closest_spelling(value: str, known: tuple[str, ...]) -> str | None:
    """Whose digits, beginning or end differ is another zone or type, and no slip of the pen."""
    ranked = sorted(
        (-_similarity(value, other), other) for other in known if _may_be_misspelling(value, other)
    )
    return ranked[0][1] if ranked and -ranked[0][0] >= MIN_SIMILARITY else None


def _may_be_misspelling(value: str, other: str) -> bool:
    one, two = _alphanumerics(value), _alphanumerics(other)
    ends = (one[:1], one[-1:]) == (two[:1], two[-1:])
    return bool(one) and ends and _digits(one) == _digits(two)


def _similarity(value: str, other: str) -> float:
    """Letters that only changed places are all there."""
    one, two = _alphanumerics(value), _alphanumerics(other)
    if sorted(one) == sorted(two):
        return 1.0
    return SequenceMatcher(None, one, two, autojunk=False).ratio()


def _alphanumerics(value: str) -> str:
    return "".join(filter(str.isalnum, value.lower()))


def _digits(value: str) -> str:
    return "".join(filter(str.isdigit, value))


class LabelDiagnosis:
    """What one alternative of a pod and one pool ask of labels, together and each for itself."""

    def __init__(
        self, template: NodeClaimTemplate, wanted: Requirements, both: Requirements
    ) -> None:
        self.index = template.index
        self.wanted = wanted
        self.pool = template.base.requirements
        self.both = both

    def unmatched(self) -> NoMatchingInstanceType:
        """The label that ruled out the last type."""
        rows, key = self.index.all_types, ""
        for key in self._keys():
            kept = rows & self.index.compatible_types(_only_key(self.both, key))
            if not kept:
                break
            rows = kept
        asker = self._asker(key, self.index.compatible_types)
        wanted = self._asked(key, asker)
        everywhere = (1 << len(self.index.offering_groups)) - 1
        known = self.index.remaining_values(key, self.index.all_types, everywhere)
        meant = suggest_correction(wanted, known)
        return NoMatchingInstanceType(
            key=key, wanted=wanted, required_by=asker, meant=meant and meant[1]
        )

    def unsold(
        self, rows: BitSet, *, reservations: bool
    ) -> NoMatchingOffering | OfferingsUnavailable:
        """Why none of the types can be bought: not sold there or so, or sold out."""
        listing = self._listing_groups(rows, reservations=reservations)
        admitted = listing & self.index.compatible_groups(self.both)
        found = None if admitted else self._excluding_label(listing)
        if found is None:
            return self._sold_out(rows, admitted)
        key, before = found
        asker = self._asker(key, lambda asked: listing & self.index.compatible_groups(asked))
        wanted, offered = self._asked(key, asker), self._values(key, before, rows)
        meant = suggest_correction(wanted, offered)
        return NoMatchingOffering(
            key=key,
            wanted=wanted,
            offered=one_of(offered),
            instance_type=next(self.index.iter_types(rows)).name,
            required_by=asker,
            meant=meant and meant[1],
        )

    def _listing_groups(self, rows: BitSet, *, reservations: bool) -> OfferingGroupSet:
        """The offering groups that have any of the types, in stock or not."""
        return union(
            1 << number
            for number, offering_group in enumerate(self.index.offering_groups)
            if offering_group.offered_types & rows
            and (reservations or offering_group.reservation_id is None)
        )

    def _excluding_label(self, listing: OfferingGroupSet) -> tuple[str, OfferingGroupSet] | None:
        """The label that rules out the last offering group, and the offering groups left before it.

        Preferably one that does so whatever else is asked.
        """
        keys = [key for key in self._keys() if self.index.varies_by_offering(key)]
        for key in keys:
            if not listing & self._admitting(key):
                return key, listing
        for key in keys:
            kept = listing & self._admitting(key)
            if not kept:
                return key, listing
            listing = kept
        return None

    def _admitting(self, key: str) -> OfferingGroupSet:
        return self.index.compatible_groups(_only_key(self.both, key))

    def _keys(self) -> list[str]:
        """The pool's labels before those of the pod."""
        return [*(key for key in self.both if key not in self.wanted), *self.wanted]

    def _asker(self, key: str, left: Callable[[Requirements], BitSet]) -> RequiredBy:
        """Whose requirement leaves nothing, be it alone."""
        if key not in self.wanted or (key in self.pool and not left(_only_key(self.pool, key))):
            return RequiredBy.POOL
        if key not in self.pool or not left(_only_key(self.wanted, key)):
            return RequiredBy.POD
        return RequiredBy.BOTH

    def _asked(self, key: str, asker: RequiredBy) -> ValueSet:
        asked = {
            RequiredBy.POOL: self.pool,
            RequiredBy.POD: self.wanted,
            RequiredBy.BOTH: self.both,
        }
        return asked[asker].allowed(key)

    def _values(self, key: str, offering_groups: OfferingGroupSet, rows: BitSet) -> list[str]:
        """The values with which the types are offered there, available or, if none is, at all."""
        there = list(self._markets(offering_groups))
        selling = [
            offering_group for offering_group in there if offering_group.available_types & rows
        ]
        return _label_values(key, selling or there)

    def _markets(self, offering_groups: OfferingGroupSet) -> Iterator[OfferingGroup]:
        return (self.index.offering_groups[number] for number in iter_bits(offering_groups))

    def _sold_out(self, rows: BitSet, admitted: OfferingGroupSet) -> OfferingsUnavailable:
        there = list(self._markets(admitted))
        usual = [
            offering_group for offering_group in there if offering_group.reservation_id is None
        ]
        reserved = {
            offering_group.reservation_id
            for offering_group in there
            if offering_group.reservation_id is not None
        }
        listed = rows & union(offering_group.offered_types for offering_group in there)
        return OfferingsUnavailable(
            instance_type=next(self.index.iter_types(listed or rows)).name,
            zones=tuple(_label_values(ZONE, usual)),
            capacity_types=tuple(_label_values(CAPACITY_TYPE, usual)),
            reservations=tuple(sorted(reserved)),
        )


def _only_key(requirements: Requirements, key: str) -> Requirements:
    return requirements.without(set(requirements) - {key})


def _label_values(key: str, offering_groups: list[OfferingGroup]) -> list[str]:
    allowed = [offering_group.requirements.allowed(key) for offering_group in offering_groups]
    return sorted({value for each in allowed if not each.open for value in each.values})
