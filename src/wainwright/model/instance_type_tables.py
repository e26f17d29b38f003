"""Labels and resources of instance types as bits, in one order of the types.

Of the offerings only the order of the types depends on them, as it is by cost. So an index of the
same types at other prices, counts or availability takes these tables over; where the order has
changed, all that does not depend on it.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from wainwright.model.bitset import BitSet, ResourceIndex, iter_bits, union
from wainwright.model.instance_type import InstanceType, accelerated_types, metal_types
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.requirements import Requirements, ValueSet, one_of
from wainwright.model.resources import Resources

TypeFacts: TypeAlias = tuple[Requirements, Resources, Resources]
"""Labels, capacity and overhead of one type."""


class InstanceTypeTables:
    """The types of one index; bit i stands for `names[i]`. Label tables are made when asked for."""

    __slots__ = (
        "_capacity_index",
        "accelerated",
        "allocatable",
        "allocatable_index",
        "facts",
        "label_keys",
        "metal",
        "name_order",
        "names",
    )

    def __init__(
        self, types: Sequence[InstanceType], previous: "InstanceTypeTables | None" = None
    ) -> None:
        """`previous` has the same types with the same facts, in another order."""
        self.names = [each.name for each in types]
        self.facts = list(map(_facts, types))
        self.name_order = sorted(range(len(types)), key=self.names.__getitem__)
        """The numbers of the types in the order of names."""
        if previous is None:
            self.label_keys = _label_keys(types)
            self.allocatable = _allocatable(types)
            self.metal: BitSet = metal_types(types)
            self.accelerated: BitSet = accelerated_types(types)
        else:
            numbers = previous.numbers()
            self.label_keys = previous.label_keys
            self.allocatable = [previous.allocatable[numbers[name]] for name in self.names]
            self.metal = self._reordered(previous, previous.metal)
            self.accelerated = self._reordered(previous, previous.accelerated)
        self.allocatable_index = ResourceIndex(self.allocatable)
        self._capacity_index: ResourceIndex | None = None

    def _reordered(self, previous: "InstanceTypeTables", types: BitSet) -> BitSet:
        numbers = self.numbers()
        return union(1 << numbers[previous.names[number]] for number in iter_bits(types))

    def numbers(self) -> Mapping[str, int]:
        """The numbers of the types by name."""
        return {name: number for number, name in enumerate(self.names)}

    @property
    def capacity_index(self) -> ResourceIndex:
        """The types by their capacity, which limits count; built on first use."""
        if self._capacity_index is None:  # only NodePools with limits need it
            self._capacity_index = ResourceIndex(capacity for _, capacity, _ in self.facts)
        return self._capacity_index

    def types_by_values(self, key: str) -> dict[ValueSet, BitSet]:
        """The types that have the label, by its values; every type has that of its name."""
        by_values: dict[ValueSet, BitSet] = {}
        bit = 1
        for name, (requirements, _, _) in zip(self.names, self.facts, strict=True):
            requirement = requirements.find(key)
            if requirement is not None:
                values = requirement.allowed
                by_values[values] = by_values.get(values, 0) | bit
            elif key == INSTANCE_TYPE:
                values = one_of([name])
                by_values[values] = by_values.get(values, 0) | bit
            bit <<= 1
        return by_values


def tables_of(
    types: Sequence[InstanceType], previous: InstanceTypeTables | None
) -> InstanceTypeTables:
    """The tables of these types; those of the previous index, or parts of them, where they fit."""
    if previous is None or len(previous.names) != len(types):
        return InstanceTypeTables(types)
    numbers = previous.numbers()
    found = [numbers.get(each.name) for each in types]
    for each, number in zip(types, found, strict=True):
        if number is None or not _has_facts(each, previous.facts[number]):
            return InstanceTypeTables(types)
    is_same_order = found == list(range(len(types)))
    return previous if is_same_order else InstanceTypeTables(types, previous)


def _facts(instance_type: InstanceType) -> TypeFacts:
    return instance_type.requirements, instance_type.capacity, instance_type.overhead


def _has_facts(instance_type: InstanceType, facts: TypeFacts) -> bool:
    requirements, capacity, overhead = facts
    # Identity first: the parts of a type that has not changed are nearly always the same objects,
    # and comparing all labels of all types takes as long as compiling them.
    return (
        instance_type.requirements is requirements
        and instance_type.capacity is capacity
        and instance_type.overhead is overhead
    ) or _facts(instance_type) == facts


def _allocatable(types: Sequence[InstanceType]) -> list[Resources]:
    """Types that share capacity and overhead share the result: two thirds are not computed."""
    shared: dict[tuple[int, int], Resources] = {}
    allocatable = []
    for each in types:
        key = id(each.capacity), id(each.overhead)
        if key not in shared:
            shared[key] = each.allocatable
        allocatable.append(shared[key])
    return allocatable


def _label_keys(types: Sequence[InstanceType]) -> frozenset[str]:
    """Every label that any of the types has."""
    keys = frozenset[str]().union(*(each.requirements for each in types))
    return keys | {INSTANCE_TYPE} if types else keys
