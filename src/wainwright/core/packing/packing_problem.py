"""The packing problem: item types (equal pods) with their demands, and the bin types to be had.

Demands of item types that fit the same bin types are added up into a few groups, which is what
the linear program works with. Nothing here changes while bins are filled.
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
from wainwright.core.scheduling.pod_requirements import PodRequirements

MAX_DEMAND_GROUPS: Final = 16  # in the linear program; the lightest demands are merged
SIGNIFICANT_BITS: Final = 4  # of an amount, where fitting bin types are looked up


class ItemType(NamedTuple):
    """Equal items: pods of one size and one item class."""

    amounts: ResourceVector
    pods: int
    item_class: int


def resource_vector(wish: PodRequirements, names: Sequence[str]) -> ResourceVector:
    """What it needs of each resource, in the order of their names; `names` has them by number."""
    asked = {names[column]: amount for column, amount in wish.amounts}
    return tuple(asked.get(name, 0) for name in sorted(names))


class DemandGroups:
    """Demands of item types that fit the same bin types, added up."""

    __slots__ = ("_count", "_items", "demands", "group_of_item", "usable_by")

    def __init__(
        self,
        items: Sequence[ItemType],
        bin_types: Sequence[BinType],
        encoder: VectorEncoder,
        most: int = MAX_DEMAND_GROUPS,
    ) -> None:
        self._items = items
        fitting = FittingBinTypes(bin_types, encoder)
        masks = [fitting.bin_types_for(item) for item in items]
        if len(set(masks)) > most:
            masks = _masks_by_item_class(items, masks)
        numbers, merged = _number_groups(items, masks, most)
        self.group_of_item: list[int] = [numbers[mask] for mask in masks]
        self._count = len(merged)
        self.demands: list[list[int]] = self.demands_for([item.pods for item in items])
        self.usable_by: list[int] = [
            sum(1 << group for group, mask in enumerate(merged) if mask >> number & 1)
            for number in range(len(bin_types))
        ]
        """For each bin type the groups of which at least some items fit."""

    def demands_for(self, left: Sequence[int]) -> list[list[int]]:
        """What the groups demand while so much of each item type is left."""
        found = [[0] * _resource_count(self._items) for _ in range(self._count)]
        for item, group, pods in zip(self._items, self.group_of_item, left, strict=True):
            own = found[group]
            for resource, amount in enumerate(item.amounts if pods else ()):
                own[resource] += amount * pods
        return found

    def supplies(self, bin_types: Sequence[BinType]) -> list[Supply]:
        """The bin types that any item fits, no larger than what can be used of them."""
        most = [max(column) for column in zip(*(each.room for each in bin_types), strict=True)]
        usable: dict[int, list[SubsetSums]] = {}
        found = []
        for bin_type, usable_by in zip(bin_types, self.usable_by, strict=True):
            if usable_by and usable_by not in usable:
                usable[usable_by] = self._sums(usable_by, most)
            if usable_by:
                own = zip(usable[usable_by], bin_type.room, strict=True)
                room = tuple(each.largest_sum_within(amount) for each, amount in own)
                found.append(Supply(bin_type.price, room, usable_by))
        return found

    def _sums(self, usable_by: int, most: Sequence[int]) -> list[SubsetSums]:
        items = zip(self._items, self.group_of_item, strict=True)
        mine = [item for item, group in items if usable_by >> group & 1]
        return subset_sums([item.amounts for item in mine], [item.pods for item in mine], most)


class FittingBinTypes:
    """Which bin types an item fits; sizes that are nearly the same get the same answer.

    An amount is rounded down for the question: to overrate a bin type makes a
    bound lower, never wrong.
    """

    def __init__(self, bin_types: Sequence[BinType], encoder: VectorEncoder) -> None:
        self._encoder = encoder
        self._bin_types = [
            (1 << number, encoder.encoded(bin_type.room), bin_type.usable_by)
            for number, bin_type in enumerate(bin_types)
        ]
        self._known: dict[tuple[int, ResourceVector], int] = {}

    def bin_types_for(self, item: ItemType) -> int:
        size = tuple(_round_down(amount) for amount in item.amounts)
        found = self._known.get((item.item_class, size))
        if found is None:
            found = self._known[item.item_class, size] = self._find(item.item_class, size)
        return found

    def fits_any(self, item: ItemType) -> bool:
        """Whether any bin type can take it, to the last byte."""
        asked, guard = self._encoder.encoded(item.amounts), self._encoder.guard
        return any(
            usable_by >> item.item_class & 1 and not room - asked & guard
            for _, room, usable_by in reversed(self._bin_types)  # the largest are the dearest
        )

    def _find(self, item_class: int, size: ResourceVector) -> int:
        asked, guard = self._encoder.encoded(size), self._encoder.guard
        return sum(
            bit
            for bit, room, usable_by in self._bin_types
            if usable_by >> item_class & 1 and not room - asked & guard
        )


def _round_down(amount: int) -> int:
    digits = max(0, amount.bit_length() - SIGNIFICANT_BITS)
    return amount >> digits << digits


def _masks_by_item_class(items: Sequence[ItemType], masks: Sequence[int]) -> list[int]:
    """For each item type all bin types that any item of its class fits."""
    found: dict[int, int] = {}
    for item, mask in zip(items, masks, strict=True):
        found[item.item_class] = found.get(item.item_class, 0) | mask
    return [found[item.item_class] for item in items]


def _number_groups(
    items: Sequence[ItemType], masks: Sequence[int], most: int
) -> tuple[dict[int, int], list[int]]:
    """A number for every set of bin types, and the sets by number; the lightest share the last."""
    totals = [
        sum(item.amounts[r] * item.pods for item in items) for r in range(_resource_count(items))
    ]
    weights: dict[int, float] = {}
    for item, mask in zip(items, masks, strict=True):
        shares = [a * item.pods / t for a, t in zip(item.amounts, totals, strict=True) if t]
        weights[mask] = weights.get(mask, 0.0) + max(shares, default=0.0)
    heaviest = sorted(weights, key=lambda mask: (-weights[mask], mask))
    numbers = {mask: min(number, most - 1) for number, mask in enumerate(heaviest)}
    merged = [0] * min(most, len(heaviest))
    for mask, number in numbers.items():
        merged[number] |= mask
    return numbers, merged


def _resource_count(items: Sequence[ItemType]) -> int:
    return len(items[0].amounts) if items else 0


MIN_DEMAND_GROUPS: Final = 4  # even where all pods may be in the same bins


class FilledBin(NamedTuple):
    """A bin: its type, and how many items of which types are in it."""

    bin_type: int
    taken: tuple[tuple[int, int], ...]
    price: float
    floor: float
    """What its pods cost at least, wherever they are."""
    item_classes: ItemClassSet


class PackingProblem:
    """Everything about items and bin types that does not change while bins are filled."""

    def __init__(
        self, items: Sequence[ItemType], bin_types: Sequence[BinType], encoder: VectorEncoder
    ) -> None:
        """The cheapest bin type comes first."""
        self.items = items
        self.bin_types = bin_types
        self.encoder = encoder
        self.encoded = [encoder.encoded(item.amounts) for item in items]
        self.parts = [encoder.parts(item.amounts) for item in items]
        self.rooms = [encoder.encoded(bin_type.room) for bin_type in bin_types]
        self.bits: list[ItemClassSet] = [1 << item.item_class for item in items]
        item_classes = len({item.item_class for item in items})
        self.groups = DemandGroups(
            items, bin_types, encoder, most=max(MIN_DEMAND_GROUPS, item_classes)
        )
        self.supplies = self.groups.supplies(bin_types)

    def cheapest(self, used: int, item_classes: ItemClassSet) -> int:
        """The first bin type that holds so much for these item classes."""
        guard = self.encoder.guard
        for number, room in enumerate(self.rooms):
            if not room - used & guard and not item_classes & ~self.bin_types[number].usable_by:
                return number
        raise AssertionError("what was filled is large enough")

    def takes(self, number: int, item: int) -> bool:
        mine = self.bin_types[number].usable_by & self.bits[item]
        return bool(mine) and self.encoder.fits(self.rooms[number], self.encoded[item])
