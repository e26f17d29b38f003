"""Label diagnosis: of a label that leaves a pod and a NodePool nothing, which of the two requires
it, and the known value that was probably meant.
"""

from collections.abc import Callable, Iterable

import msgspec

from wainwright.model.bitset import BitSet
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.reasons import RequiredBy
from wainwright.model.requirements import Requirements, ValueSet
from wainwright.model.spelling import closest_spelling


def suggest_correction(key: str, wanted: ValueSet, known: Iterable[str]) -> tuple[str, str] | None:
    """The first required value that is a misspelling of a known one, and the known one."""
    if wanted.open:
        return None
    known_values = tuple(known)
    for value in sorted(wanted.values):
        correction = closest_spelling(key, value, known_values)
        if correction is not None:
            return value, correction
    return None


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
