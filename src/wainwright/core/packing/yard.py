"""The yard: lots to be packed and machines to be had."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wainwright.core.packing.gauge import Gauge
from wainwright.core.packing.lots import Groups, Lot
from wainwright.core.packing.machines import Customers, Machine

SIZES: Final = 4  # so many sizes of pods are told apart where all may be on the same machines


class Load(NamedTuple):
    """A machine, and how many pods of which lots are on it."""

    machine: int
    taken: tuple[tuple[int, int], ...]
    price: float
    floor: float
    """What its pods cost at least, wherever they are."""
    customers: Customers


class Yard:
    """Everything about lots and machines that does not change while they are packed."""

    def __init__(self, lots: Sequence[Lot], machines: Sequence[Machine], gauge: Gauge) -> None:
        """The cheapest machine comes first."""
        self.lots = lots
        self.machines = machines
        self.gauge = gauge
        self.packed = [gauge.packed(lot.amounts) for lot in lots]
        self.parts = [gauge.parts(lot.amounts) for lot in lots]
        self.rooms = [gauge.packed(machine.room) for machine in machines]
        self.bits: list[Customers] = [1 << lot.customer for lot in lots]
        customers = len({lot.customer for lot in lots})
        self.groups = Groups(lots, machines, gauge, most=max(SIZES, customers))
        self.supplies = self.groups.supplies(machines)

    def cheapest(self, used: int, customers: Customers) -> int:
        """The first machine that holds so much for these customers."""
        guard = self.gauge.guard
        for number, room in enumerate(self.rooms):
            if not room - used & guard and not customers & ~self.machines[number].takers:
                return number
        raise AssertionError("what was filled is large enough")

    def takes(self, number: int, lot: int) -> bool:
        mine = self.machines[number].takers & self.bits[lot]
        return bool(mine) and self.gauge.holds(self.rooms[number], self.packed[lot])
