"""The managed nodes of a simulation, from their launch until their instance ends, and their prices.

A node is counted whether or not it has joined. Prices are asked when an instance starts and when
something changes them, and summed by price: thousands of nodes have few different prices.
"""

from collections.abc import Iterable
from math import fsum

import msgspec

from wainwright.emulator.ec2.instance.lifecycle import Instance
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.model.labels import NODEPOOL, ON_DEMAND, RESERVED, SPOT
from wainwright.sim.money import PriceBook, capacity_type_of


class BilledInstance(msgspec.Struct, kw_only=True):
    """An instance, and the objects that belong to it."""

    instance: Instance
    price: float | None = None
    is_price_modelled: bool = False
    fee: float = 0.0
    capacity_type: str = ""
    claim: str = ""
    """The name of its NodeClaim, once that has its provider id."""
    node: str = ""
    was_noticed: bool = False
    """Whether EC2 has announced its end."""
    was_killed: bool = False
    is_answering: bool = True

    @property
    def pool(self) -> str:
        return self.instance.tags.get(NODEPOOL, "")


class BilledInstances:
    def __init__(self, account: EmulatedAwsAccount, prices: PriceBook) -> None:
        self._account = account
        self._prices = prices
        self._instances: dict[str, BilledInstance] = {}
        self._by_price: dict[float, int] = {}
        self._by_fee: dict[float, int] = {}
        self.by_capacity_type = {RESERVED: 0, SPOT: 0, ON_DEMAND: 0}

    def __len__(self) -> int:
        return len(self._instances)

    def all(self) -> Iterable[BilledInstance]:
        """In the order of their launches."""
        return self._instances.values()

    def get(self, instance_id: str) -> BilledInstance | None:
        return self._instances.get(instance_id)

    @property
    def price_per_hour(self) -> float:
        return fsum(price * count for price, count in self._by_price.items())

    @property
    def fees_per_hour(self) -> float:
        return fsum(fee * count for fee, count in self._by_fee.items())

    def add(self, instance: Instance) -> BilledInstance:
        specification = self._account.services.instances.specification_of(instance)
        added = BilledInstance(instance=instance, fee=self._prices.fee_of(specification))
        self._instances[instance.id] = added
        self._count(added)
        return added

    def remove(self, instance_id: str) -> BilledInstance | None:
        removed = self._instances.pop(instance_id, None)
        if removed is not None:
            self._add_counts(removed, -1)
        return removed

    def refresh(self) -> None:
        """To be called when prices may have changed, or how instances are billed."""
        for each in self._instances.values():
            self._add_counts(each, -1)
            self._count(each)

    def _count(self, billed: BilledInstance) -> None:
        billed.price, billed.is_price_modelled = self._prices.price_of(billed.instance)
        billed.capacity_type = capacity_type_of(billed.instance)
        self._add_counts(billed, 1)

    def _add_counts(self, billed: BilledInstance, by: int) -> None:
        self.by_capacity_type[billed.capacity_type] += by
        for counts, amount in ((self._by_price, billed.price or 0.0), (self._by_fee, billed.fee)):
            count = counts.get(amount, 0) + by
            if count:
                counts[amount] = count
            else:
                del counts[amount]
