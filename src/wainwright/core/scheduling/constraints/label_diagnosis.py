"""Label diagnosis: of a label that leaves a pod and a NodePool nothing, which of the two requires
it, and the known value that was probably meant.
"""

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

import msgspec

from wainwright.model.bitset import BitSet
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.reasons import RequiredBy
from wainwright.model.requirements import Requirements, ValueSet

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


class LabelDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The label requirements of one alternative of a pod and of one pool, separate and combined."""

    index: InstanceTypeIndex
    pod: Requirements
    pool: Requirements
    combined: Requirements

    @property
    def keys(self) -> list[str]:
        """The labels that only the pool requires, before those of the pod."""
        return [*(key for key in self.combined if key not in self.pod), *self.pod]

    def only(self, key: str) -> Requirements:
        """What both require of one label."""
        return self.combined.only(key)

    def required_by(self, key: str, matching: Callable[[Requirements], BitSet]) -> RequiredBy:
        """Which requirement of the label leaves nothing by itself, or that only both do."""
        if key not in self.pod or (key in self.pool and not matching(self.pool.only(key))):
            return RequiredBy.POOL
        if key not in self.pool or not matching(self.pod.only(key)):
            return RequiredBy.POD
        return RequiredBy.BOTH

    def allowed_values(self, key: str, required_by: RequiredBy) -> ValueSet:
        requirements = {
            RequiredBy.POOL: self.pool,
            RequiredBy.POD: self.pod,
            RequiredBy.BOTH: self.combined,
        }
        return requirements[required_by].allowed(key)
