"""Subnets of a launch: in each zone the one with most free addresses, counting what is under way.

EC2 says once a minute how many addresses are free, and the network plugin of a new node takes many
more of them than the machine itself. So every launch is counted with what its smallest machine will
take, until EC2's own number has changed, or for five minutes at most. What was not launched after
all is taken back at once.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.aws.nodeclass.resolved import Subnet
from wainwright.aws.stock import Stock
from wainwright.clock import Clock

COUNTED: Final = 300.0  # seconds


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses that a launch will take, or has taken since EC2 last counted."""

    subnet: str
    amount: int
    at: float


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What one launch holds while it is under way."""

    number: int
    uses: tuple[Use, ...]
    each: int
    """Addresses of one machine."""


class Addresses:
    """Who takes how many; one for all classes, as they share subnets."""

    def __init__(self, clock: Clock, stock: Stock) -> None:
        self._clock = clock
        self._stock = stock
        self._held: dict[int, Hold] = {}
        self._holds = 0
        self._used: list[Use] = []
        self._seen: dict[str, int] = {}

    def usable(self, subnets: Iterable[Subnet]) -> list[Subnet]:
        """Those that have addresses as far as anybody knows."""
        return [each for each in subnets if each.free > 0 and not self._stock.full(each.id)]

    def choose(self, subnets: Iterable[Subnet]) -> dict[str, Subnet]:
        """By zone the subnet to launch in; a zone without any address is not there."""
        usable = self.usable(subnets)
        self._notice(usable)
        best: dict[str, Subnet] = {}
        for subnet in sorted(usable, key=lambda each: (-self.free(each), each.id)):
            best.setdefault(subnet.zone, subnet)
        return best

    def free(self, subnet: Subnet) -> int:
        """Below zero where more is under way than there is: EC2 may still have room for it."""
        oldest = self._clock.now() - COUNTED
        self._used = [use for use in self._used if use.at > oldest]
        under_way = [use for hold in self._held.values() for use in hold.uses]
        taken = sum(use.amount for use in [*self._used, *under_way] if use.subnet == subnet.id)
        return subnet.free - taken

    def hold(self, subnets: Iterable[Subnet], *, machines: int, each: int) -> Hold:
        """Any of them may get all the machines; `settle` must follow, whatever happens."""
        now, amount = self._clock.now(), machines * each
        uses = tuple(Use(subnet=one.id, amount=amount, at=now) for one in subnets)
        self._holds += 1
        hold = self._held[self._holds] = Hold(number=self._holds, uses=uses, each=each)
        return hold

    def settle(self, hold: Hold, launched: Mapping[str, int]) -> None:
        """Keeps what the machines take that were launched, by subnet, and lets go of the rest."""
        del self._held[hold.number]
        now = self._clock.now()
        self._used += [
            Use(subnet=subnet, amount=count * hold.each, at=now)
            for subnet, count in launched.items()
        ]

    def _notice(self, subnets: Iterable[Subnet]) -> None:
        """EC2 has counted anew where its number is another one."""
        for subnet in subnets:
            if self._seen.get(subnet.id, subnet.free) != subnet.free:
                self._used = [use for use in self._used if use.subnet != subnet.id]
            self._seen[subnet.id] = subnet.free
