"""minValues: whether the instance types left to a draft are still as diverse as its NodePool
requires.

For each key a draft keeps just enough types to meet the count (witnesses). While those stay the
check is one AND; only if one of them is lost are others searched for. Without witnesses every pod
that joins a draft would count the values of all its types again.
"""

from typing import TypeAlias

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.model.bitset import BitSet
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.reasons import MinValuesUnsatisfied
from wainwright.model.requirements import Requirements

MinValues: TypeAlias = tuple[tuple[str, int], ...]
"""Key and the number of different values that the remaining types must have; sorted by key."""

Witnesses: TypeAlias = tuple[BitSet, ...]
"""For each key the types that meet the minimum, or 0 if it depends on offering groups."""


def min_values_of(requirements: Requirements) -> MinValues:
    return tuple(
        (key, requirement.min_values)
        for key, requirement in requirements.items()
        if requirement.min_values is not None
    )


class MinValuesChecker:
    """Checks minValues against one catalogue; caches checks of offering groups, the slowest."""

    __slots__ = ("_cache", "_index")

    def __init__(self, index: InstanceTypeIndex) -> None:
        self._index = index
        self._cache: dict[
            tuple[str, int, BitSet, OfferingGroupSet, CompiledRequirements], bool
        ] = {}

    def admits(
        self,
        min_values: MinValues,
        compiled: CompiledRequirements,
        types: BitSet,
        offering_groups: OfferingGroupSet,
    ) -> Witnesses | None:
        """The types that show that every minimum is met; None if one cannot be."""
        witnesses: list[BitSet] = []
        for key, count in min_values:
            witness_types = self._witnesses_of(key, count, compiled, types, offering_groups)
            if witness_types is None:
                return None
            witnesses.append(witness_types)
        return tuple(witnesses)

    def admits_fewer(
        self,
        min_values: MinValues,
        previous: Witnesses,
        compiled: CompiledRequirements,
        types: BitSet,
        offering_groups: OfferingGroupSet,
    ) -> Witnesses | None:
        """The same, if the requirements did not change and only types were lost."""
        if all(each and each & types == each for each in previous):
            return previous
        return self.admits(min_values, compiled, types, offering_groups)

    def lower_to_available(
        self,
        min_values: MinValues,
        compiled: CompiledRequirements,
        types: BitSet,
        offering_groups: OfferingGroupSet,
    ) -> MinValues:
        """The minimums, each lowered to the number of values that remain."""
        allowed = compiled.requirements.allowed
        return tuple(
            (
                key,
                min(
                    count,
                    len(self._index.remaining_values(key, types, offering_groups, allowed(key))),
                ),
            )
            for key, count in min_values
        )

    def unmet(
        self,
        min_values: MinValues,
        compiled: CompiledRequirements,
        types: BitSet,
        offering_groups: OfferingGroupSet,
    ) -> list[str]:
        """The keys whose minimum these types in these groups do not meet."""
        met = self.lower_to_available(min_values, compiled, types, offering_groups)
        return [
            key for (key, count), (_, found) in zip(min_values, met, strict=True) if found < count
        ]

    def why(
        self,
        min_values: MinValues,
        requirements: Requirements,
        types: BitSet,
        offering_groups: OfferingGroupSet,
    ) -> MinValuesUnsatisfied | None:
        """The first minimum that these types in these groups do not meet; None if all are met."""
        for key, count in min_values:
            allowed = requirements.allowed(key)
            values = self._index.remaining_values(key, types, offering_groups, allowed)
            if len(values) < count:
                return MinValuesUnsatisfied(
                    key=key, needed=count, found=len(values), values=tuple(values)
                )
        return None

    def _witnesses_of(
        self,
        key: str,
        count: int,
        compiled: CompiledRequirements,
        types: BitSet,
        offering_groups: OfferingGroupSet,
    ) -> BitSet | None:
        if count == 0:
            return 0
        if not self._index.varies_by_offering(key):
            return self._index.witnesses(key, count, types, compiled.requirements.allowed(key))
        key_of_query = (key, count, types, offering_groups, compiled)
        if key_of_query not in self._cache:
            # Bounds the memory of the cache.
            if len(self._cache) > 4096:
                self._cache.clear()
            allowed = compiled.requirements.allowed(key)
            self._cache[key_of_query] = self._index.has_values(
                key, count, types, offering_groups, allowed
            )
        return 0 if self._cache[key_of_query] else None
