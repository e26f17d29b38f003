"""Lots: offerings in the making, each with the history of its price."""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

import msgspec

from wainwright.model.instance_type import UNLIMITED, Offering
from wainwright.model.labels import CAPACITY_TYPE, RESERVED, ZONE
from wainwright.model.requirements import Requirements


class Layer(Enum):
    """Who set a price, from the bottom up; the value names the layer to people."""

    LIST = "list price"
    SPOT_MODEL = "spot model"
    CATALOG = "Catalog"
    CLOUD = "Cloud"
    OVERLAY = "NodeOverlay"
    INSTANCE_TYPE = "InstanceType"
    RESERVATION = "reservation"


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one layer did to a price."""

    layer: Layer
    source: str
    """The object that speaks: its name, or the id of a reservation."""
    before: float | None
    """None where nothing below had a price."""
    after: float | None
    how: str = ""
    """In words, where the numbers alone do not say it."""


class Lot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One way to buy an instance type, which counts as an offering once it has a price."""

    requirements: Requirements
    price: float | None
    available: int = UNLIMITED
    reservation_id: str | None = None
    steps: tuple[Step, ...] = ()
    """What was done to the price since the bottom layer; empty where nothing was."""

    @property
    def base(self) -> float | None:
        """The price that the bottom layer gave."""
        return self.steps[0].before if self.steps else self.price

    @property
    def zone(self) -> str | None:
        return _only(self.requirements, ZONE)

    @property
    def capacity_type(self) -> str | None:
        return _only(self.requirements, CAPACITY_TYPE)

    @property
    def reserved(self) -> bool:
        return self.reservation_id is not None or self.capacity_type == RESERVED

    def repriced(self, step: Step) -> "Lot":
        return msgspec.structs.replace(self, price=step.after, steps=(*self.steps, step))


@lru_cache(maxsize=4096)
def _only(requirements: Requirements, key: str) -> str | None:
    """Asked of every lot, and the same few sets of labels are on thousands of them."""
    return requirements.only(key)


Lots: TypeAlias = Mapping[str, tuple[Lot, ...]]
"""What there is to buy, by instance type."""


def offerings(lots: Iterable[Lot]) -> tuple[Offering, ...]:
    """The lots that have a price."""
    return tuple(
        Offering(
            requirements=lot.requirements,
            price=lot.price,
            available=lot.available,
            reservation_id=lot.reservation_id,
        )
        for lot in lots
        if lot.price is not None
    )


def ordered(lots: Iterable[Lot]) -> tuple[Lot, ...]:
    """By zone, then capacity type, then whatever else tells them apart."""
    return tuple(sorted(lots, key=_rank))


def resettled(lots: tuple[Lot, ...]) -> tuple[Lot, ...]:
    """Lots that were in order, in order again after prices and counts have changed."""
    apart = {(lot.requirements, lot.reservation_id) for lot in lots}
    return lots if len(apart) == len(lots) else ordered(lots)


def _rank(lot: Lot) -> tuple[str, str, list[tuple[str, list[str]]], str, float, int]:
    labels = [(key, sorted(found.allowed.values)) for key, found in lot.requirements.items()]
    price = -1.0 if lot.price is None else lot.price
    reservation = lot.reservation_id or ""
    return lot.zone or "", lot.capacity_type or "", labels, reservation, price, lot.available
