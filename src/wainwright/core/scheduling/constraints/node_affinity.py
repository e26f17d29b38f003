"""Node affinity: node selectors, node affinity and volume topology of a pod against the labels of
existing nodes, of a NodePool and of its instance types.

The instance types that requirements admit are compiled once (`compiled_requirements.py`).
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.core.scheduling.constraints.label_diagnosis import (
    LabelDiagnosis,
    suggest_correction,
)
from wainwright.model.bitset import BitSet, LabelIndex, union
from wainwright.model.labels import is_restricted_for_pods, suggest_label
from wainwright.model.reasons import (
    ExcludedByPool,
    LabelConflict,
    NodeAffinityMismatch,
    NoMatchingInstanceType,
    RestrictedLabel,
)
from wainwright.model.requirements import Requirements, ValueSet
from wainwright.model.snapshot import Node


class NodeLabels:
    """The labels of existing nodes; nodes do not gain labels within a plan."""

    __slots__ = ("_by_key", "_everything")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._everything: BitSet = (1 << len(nodes)) - 1
        nodes_by_values: dict[str, dict[ValueSet, BitSet]] = {}
        for number, node in enumerate(nodes):
            for key, label in Requirements.from_labels(node.labels).items():
                same = nodes_by_values.setdefault(key, {})
                same[label.allowed] = same.get(label.allowed, 0) | 1 << number
        self._by_key = {
            key: LabelIndex(sets, absent=self._everything ^ union(sets.values()), undecided=0)
            for key, sets in nodes_by_values.items()
        }

    def admits(self, requirements: Requirements) -> BitSet:
        """The nodes whose labels satisfy all of the requirements."""
        matching = self._everything
        for key, requirement in requirements.items():
            label_index = self._by_key.get(key)
            if label_index is not None:
                matching &= label_index.matching(requirement.allowed)
            elif not requirement.allowed.admits_absence:
                return 0
        return matching

    def why(self, wanted: Requirements, among: BitSet) -> Iterator[NodeRejection]:
        """The first label of each node that does not match."""
        for key in wanted:
            if not among:
                return
            mismatched = among ^ (among & self.admits(wanted.only(key)))
            among ^= mismatched
            yield mismatched, NodeAffinityMismatch(key=key)


def admits_pool(wanted: Requirements, pool: Requirements, well_known: AbstractSet[str]) -> bool:
    """Whether nodes of the pool could have the labels."""
    return pool.is_compatible(wanted, well_known)


def why_not_pool(
    wanted: Requirements, pool: Requirements, well_known: AbstractSet[str]
) -> RestrictedLabel | LabelConflict | None:
    """The first label that nodes of the pool cannot have; None where they can have all."""
    restricted = [
        key
        for key, requirement in wanted.items()
        if is_restricted_for_pods(key) and not requirement.allowed.admits_absence
    ]
    if restricted:
        return RestrictedLabel(key=restricted[0], meant=suggest_label(restricted[0], well_known))
    conflict = pool.find_conflict(wanted, well_known)
    if conflict is None:
        return None
    meant = suggest_label(conflict.key, well_known) if conflict.offered is None else None
    return LabelConflict(
        key=conflict.key, wanted=conflict.wanted, offered=conflict.offered, meant=meant
    )


def why_no_type(diagnosis: LabelDiagnosis) -> NoMatchingInstanceType:
    """The label that rules out the last instance type of the catalogue."""
    index = diagnosis.index
    types, key = index.all_types, ""
    for key in diagnosis.keys:
        kept = types & index.compatible_types(diagnosis.only(key))
        if not kept:
            break
        types = kept
    required_by = diagnosis.required_by(key, index.compatible_types)
    wanted = diagnosis.allowed_values(key, required_by)
    correction = suggest_correction(key, wanted, index.all_values(key))
    return NoMatchingInstanceType(
        key=key,
        wanted=wanted,
        required_by=required_by,
        meant=correction and correction[1],
        excluded=_excluded_by_pool(diagnosis),
    )


def _excluded_by_pool(diagnosis: LabelDiagnosis) -> ExcludedByPool | None:
    """The requirement of the pool that excludes all types that the pod could use."""
    index, pool = diagnosis.index, diagnosis.pool
    types = index.compatible_types(diagnosis.pod)
    for key in pool if types else ():
        if not types & index.compatible_types(pool.only(key)):
            groups = (1 << len(index.offering_groups)) - 1
            values = tuple(index.remaining_values(key, types, groups))
            return ExcludedByPool(key=key, allowed=pool.allowed(key), values=values)
    return None
