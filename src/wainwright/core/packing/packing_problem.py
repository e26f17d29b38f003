"""The packing problem: item types (equal pods) with their demands, and the bin types for them.

Demands of item types that fit the same bin types are added up into a few groups: the linear
program has a row for each group and resource, and its time grows with the cube of the rows.
Nothing here changes while bins are filled.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wainwright.core.packing.bin_types import BinType, ItemClassSet
from wainwright.core.packing.linear_program import Supply
from wainwright.core.packing.resource_vectors import (
    ResourceVector,
    SubsetSums,
    VectorEncoder,
    subset_sums,
)
from wainwright.core.scheduling.pod_classes import PodRequirements

MAX_DEMAND_GROUPS: Final = 16  # in the linear program; the lightest demands are merged
SIGNIFICANT_BITS: Final = 4  # of an amount, where fitting bin types are looked up


class ItemType(NamedTuple):
    """Equal items: pods of one size and one item class."""

    amounts: ResourceVector
    pods: int
    item_class: int


def resource_vector(pod_reqs: PodRequirements, names: Sequence[str]) -> ResourceVector:
    """The requests in the order of resource names; `names` are the resources by their number."""
    requests = {names[column]: amount for column, amount in pod_reqs.amounts}
    return tuple(requests.get(name, 0) for name in sorted(names))


class DemandGroups:
    """Demands of item types that fit the same bin types, added up."""

    __slots__ = ("_count", "_items", "demands", "group_of_item", "usable_by")

    def __init__(
        self,
        items: Sequence[ItemType],
        bin_types: Sequence[BinType],
        encoder: VectorEncoder,
        max_groups: int = MAX_DEMAND_GROUPS,
    ) -> None:
        self._items = items
        fitting = FittingBinTypes(bin_types, encoder)
        masks = [fitting.bin_types_for(item) for item in items]
        if len(set(masks)) > max_groups:
            masks = _masks_by_item_class(items, masks)
        numbers, merged = _number_groups(items, masks, max_groups)
        self.group_of_item: list[int] = [numbers[mask] for mask in masks]
        self._count = len(merged)
        self.demands: list[list[int]] = self.demands_for([item.pods for item in items])
        self.usable_by: list[int] = [
            sum(1 << group for group, mask in enumerate(merged) if mask >> number & 1)
            for number in range(len(bin_types))
        ]
        """For each bin type the groups that have any item that fits, as bits."""

    def demands_for(self, remaining: Sequence[int]) -> list[list[int]]:
        """The demands by group and resource, where so many items of each type remain."""
        demands = [[0] * _resource_count(self._items) for _ in range(self._count)]
        for item, group, pods in zip(self._items, self.group_of_item, remaining, strict=True):
            own = demands[group]
            for resource, amount in enumerate(item.amounts if pods else ()):
                own[resource] += amount * pods
        return demands

    def supplies(self, bin_types: Sequence[BinType]) -> list[Supply]:
        """The bin types that any item fits, each no larger than what its items can use of it.

        Subset sums are worked out once for each set of groups: there are few sets, and many types.
        """
        largest = [max(column) for column in zip(*(each.room for each in bin_types), strict=True)]
        usable: dict[int, list[SubsetSums]] = {}
        supplies = []
        for bin_type, usable_by in zip(bin_types, self.usable_by, strict=True):
            if usable_by and usable_by not in usable:
                usable[usable_by] = self._sums(usable_by, largest)
            if usable_by:
                own = zip(usable[usable_by], bin_type.room, strict=True)
                room = tuple(each.largest_sum_within(amount) for each, amount in own)
                supplies.append(Supply(bin_type.price, room, usable_by))
        return supplies

    def _sums(self, usable_by: int, most: Sequence[int]) -> list[SubsetSums]:
        items = zip(self._items, self.group_of_item, strict=True)
        own_items = [item for item, group in items if usable_by >> group & 1]
        return subset_sums(
            [item.amounts for item in own_items], [item.pods for item in own_items], most
        )


class FittingBinTypes:
    """Which bin types an item fits, as bits.

    Amounts are rounded down to a few significant bits, so that items of nearly the same size share
    one look through the bin types. A bin type may be overrated by that, which makes a lower bound
    lower, never wrong; `fits_any` is exact.
    """

    def __init__(self, bin_types: Sequence[BinType], encoder: VectorEncoder) -> None:
        self._encoder = encoder
        self._bin_types = [
            (1 << number, encoder.encode(bin_type.room), bin_type.usable_by)
            for number, bin_type in enumerate(bin_types)
        ]
        self._cache: dict[tuple[int, ResourceVector], int] = {}

    def bin_types_for(self, item: ItemType) -> int:
        size = tuple(_round_down(amount) for amount in item.amounts)
        fitting = self._cache.get((item.item_class, size))
        if fitting is None:
            fitting = self._cache[item.item_class, size] = self._find(item.item_class, size)
        return fitting

    def fits_any(self, item: ItemType) -> bool:
        """Whether any bin type holds the item, without rounding."""
        needed, guard = self._encoder.encode(item.amounts), self._encoder.guard
        return any(
            usable_by >> item.item_class & 1 and not room - needed & guard
            for _, room, usable_by in reversed(
                self._bin_types
            )  # the most expensive first: the largest, which most items fit
        )

    def _find(self, item_class: int, size: ResourceVector) -> int:
        needed, guard = self._encoder.encode(size), self._encoder.guard
        return sum(
            bit
            for bit, room, usable_by in self._bin_types
            if usable_by >> item_class & 1 and not room - needed & guard
        )


def _round_down(amount: int) -> int:
    digits = max(0, amount.bit_length() - SIGNIFICANT_BITS)
    return amount >> digits << digits


def _masks_by_item_class(items: Sequence[ItemType], masks: Sequence[int]) -> list[int]:
    """For each item type all bin types that any item of its class fits."""
    by_class: dict[int, int] = {}
    for item, mask in zip(items, masks, strict=True):
        by_class[item.item_class] = by_class.get(item.item_class, 0) | mask
    return [by_class[item.item_class] for item in items]


def _number_groups(
    items: Sequence[ItemType], masks: Sequence[int], max_groups: int
) -> tuple[dict[int, int], list[int]]:
    """A group number for every set of bin types, and the sets by group.

    The smallest demands share the last group.
    """
    totals = [
        sum(item.amounts[r] * item.pods for item in items) for r in range(_resource_count(items))
    ]
    weights: dict[int, float] = {}
    for item, mask in zip(items, masks, strict=True):
        shares = [a * item.pods / t for a, t in zip(item.amounts, totals, strict=True) if t]
        weights[mask] = weights.get(mask, 0.0) + max(shares, default=0.0)
    heaviest = sorted(weights, key=lambda mask: (-weights[mask], mask))
    numbers = {mask: min(number, max_groups - 1) for number, mask in enumerate(heaviest)}
    merged = [0] * min(max_groups, len(heaviest))
    for mask, number in numbers.items():
        merged[number] |= mask
    return numbers, merged


def _resource_count(items: Sequence[ItemType]) -> int:
    return len(items[0].amounts) if items else 0


MIN_DEMAND_GROUPS: Final = 4  # even where all pods may be in the same bins


class FilledBin(NamedTuple):
    """A bin: its type, and how many items of which types are in it."""

    bin_type: int
    contents: tuple[tuple[int, int], ...]
    """Numbers of item types, and how many items of each."""
    price: float
    floor: float
    """The least that its items cost in any bins, by shadow prices."""
    item_classes: ItemClassSet


class PackingProblem:
    """Everything about items and bin types that does not change while bins are filled."""

    def __init__(
        self, items: Sequence[ItemType], bin_types: Sequence[BinType], encoder: VectorEncoder
    ) -> None:
        """`bin_types` are sorted by price; all amounts are encoded here, once."""
        self.items = items
        self.bin_types = bin_types
        self.encoder = encoder
        self.encoded_items = [encoder.encode(item.amounts) for item in items]
        self.item_fields = [encoder.fields_of(item.amounts) for item in items]
        self.encoded_rooms = [encoder.encode(bin_type.room) for bin_type in bin_types]
        self.class_bits: list[ItemClassSet] = [1 << item.item_class for item in items]
        item_classes = len({item.item_class for item in items})
        self.groups = DemandGroups(
            items, bin_types, encoder, max_groups=max(MIN_DEMAND_GROUPS, item_classes)
        )
        self.supplies = self.groups.supplies(bin_types)

    def cheapest_holding(self, used: int, item_classes: ItemClassSet) -> int:
        """The first, and so the cheapest, bin type that holds so much for these item classes."""
        guard = self.encoder.guard
        for number, room in enumerate(self.encoded_rooms):
            if not room - used & guard and not item_classes & ~self.bin_types[number].usable_by:
                return number
        raise AssertionError("the bin type that was filled is large enough")

    def fits(self, number: int, item: int) -> bool:
        """Whether an item of this type fits a bin of the type with this number."""
        is_usable = self.bin_types[number].usable_by & self.class_bits[item]
        return bool(is_usable) and self.encoder.fits(
            self.encoded_rooms[number], self.encoded_items[item]
        )
