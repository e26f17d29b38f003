"""Lots: pods that are alike, in groups that may be on the same machines."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wainwright.core.packing.gauge import Gauge
from wainwright.core.packing.linear import Supply
from wainwright.core.packing.machines import Amounts, Machine
from wainwright.core.packing.reachable import Sums, sums
from wainwright.core.wishes import Wish

GROUPS: Final = 16  # the demands that the linear program tells apart; the lightest are put together
DIGITS: Final = 4  # binary digits of an amount that decide to which machines it is too large


class Lot(NamedTuple):
    """So many pods of one size that one customer has."""

    amounts: Amounts
    pods: int
    customer: int


def amounts_of(wish: Wish, names: Sequence[str]) -> Amounts:
    """What it needs of each resource, in the order of their names; `names` has them by number."""
    asked = {names[column]: amount for column, amount in wish.amounts}
    return tuple(asked.get(name, 0) for name in sorted(names))


class Groups:
    """Lots that fit the same machines, together."""

    __slots__ = ("_count", "_lots", "demands", "of_lot", "takers")

    def __init__(
        self, lots: Sequence[Lot], machines: Sequence[Machine], gauge: Gauge, most: int = GROUPS
    ) -> None:
        self._lots = lots
        fitting = Fitting(machines, gauge)
        masks = [fitting.machines_for(lot) for lot in lots]
        if len(set(masks)) > most:
            masks = _of_customers(lots, masks)
        numbers, merged = _numbered(lots, masks, most)
        self.of_lot: list[int] = [numbers[mask] for mask in masks]
        self._count = len(merged)
        self.demands: list[list[int]] = self.demanded([lot.pods for lot in lots])
        self.takers: list[int] = [
            sum(1 << group for group, mask in enumerate(merged) if mask >> number & 1)
            for number in range(len(machines))
        ]
        """For each machine the groups of which at least some lot may be on it."""

    def demanded(self, left: Sequence[int]) -> list[list[int]]:
        """What the groups demand while so much of each lot is left."""
        found = [[0] * _width(self._lots) for _ in range(self._count)]
        for lot, group, pods in zip(self._lots, self.of_lot, left, strict=True):
            own = found[group]
            for resource, amount in enumerate(lot.amounts if pods else ()):
                own[resource] += amount * pods
        return found

    def supplies(self, machines: Sequence[Machine]) -> list[Supply]:
        """The machines that anybody can use, no larger than what can be used of them."""
        most = [max(column) for column in zip(*(each.room for each in machines), strict=True)]
        usable: dict[int, list[Sums]] = {}
        found = []
        for machine, takers in zip(machines, self.takers, strict=True):
            if takers and takers not in usable:
                usable[takers] = self._sums(takers, most)
            if takers:
                own = zip(usable[takers], machine.room, strict=True)
                room = tuple(each.most_within(amount) for each, amount in own)
                found.append(Supply(machine.price, room, takers))
        return found

    def _sums(self, takers: int, most: Sequence[int]) -> list[Sums]:
        lots = zip(self._lots, self.of_lot, strict=True)
        mine = [lot for lot, group in lots if takers >> group & 1]
        return sums([lot.amounts for lot in mine], [lot.pods for lot in mine], most)


class Fitting:
    """Which machines can take a lot; sizes that are nearly the same get the same answer.

    An amount is rounded down for the question: to take a machine for larger than it is makes a
    bound lower, never wrong.
    """

    def __init__(self, machines: Sequence[Machine], gauge: Gauge) -> None:
        self._gauge = gauge
        self._machines = [
            (1 << number, gauge.packed(machine.room), machine.takers)
            for number, machine in enumerate(machines)
        ]
        self._known: dict[tuple[int, Amounts], int] = {}

    def machines_for(self, lot: Lot) -> int:
        size = tuple(_rounded(amount) for amount in lot.amounts)
        found = self._known.get((lot.customer, size))
        if found is None:
            found = self._known[lot.customer, size] = self._find(lot.customer, size)
        return found

    def is_possible(self, lot: Lot) -> bool:
        """Whether any machine can take it, to the last byte."""
        asked, guard = self._gauge.packed(lot.amounts), self._gauge.guard
        return any(
            takers >> lot.customer & 1 and not room - asked & guard
            for _, room, takers in reversed(self._machines)  # the largest are the dearest
        )

    def _find(self, customer: int, size: Amounts) -> int:
        asked, guard = self._gauge.packed(size), self._gauge.guard
        return sum(
            bit
            for bit, room, takers in self._machines
            if takers >> customer & 1 and not room - asked & guard
        )


def _rounded(amount: int) -> int:
    digits = max(0, amount.bit_length() - DIGITS)
    return amount >> digits << digits


def _of_customers(lots: Sequence[Lot], masks: Sequence[int]) -> list[int]:
    """For each lot all machines that any lot of its customer fits."""
    found: dict[int, int] = {}
    for lot, mask in zip(lots, masks, strict=True):
        found[lot.customer] = found.get(lot.customer, 0) | mask
    return [found[lot.customer] for lot in lots]


def _numbered(
    lots: Sequence[Lot], masks: Sequence[int], most: int
) -> tuple[dict[int, int], list[int]]:
    """A number for every set of machines, and the sets by number; the lightest share the last."""
    totals = [sum(lot.amounts[r] * lot.pods for lot in lots) for r in range(_width(lots))]
    weights: dict[int, float] = {}
    for lot, mask in zip(lots, masks, strict=True):
        shares = [a * lot.pods / t for a, t in zip(lot.amounts, totals, strict=True) if t]
        weights[mask] = weights.get(mask, 0.0) + max(shares, default=0.0)
    heaviest = sorted(weights, key=lambda mask: (-weights[mask], mask))
    numbers = {mask: min(number, most - 1) for number, mask in enumerate(heaviest)}
    merged = [0] * min(most, len(heaviest))
    for mask, number in numbers.items():
        merged[number] |= mask
    return numbers, merged


def _width(lots: Sequence[Lot]) -> int:
    return len(lots[0].amounts) if lots else 0
