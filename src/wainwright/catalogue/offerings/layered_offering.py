"""Layered offerings: offerings while the catalogue is put together, with the steps of their price.

Each layer (list price, Cloud, NodeOverlay, InstanceType object, reservation) adds a step; an
offering that no layer gives a price cannot be bought and does not reach the planner.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

import msgspec

from wainwright.model.instance_type import UNLIMITED, Offering
from wainwright.model.labels import CAPACITY_TYPE, RESERVED, ZONE
from wainwright.model.requirements import Requirements


class PriceLayer(Enum):
    """Who set a price, from the bottom up; the value names the layer to people."""

    LIST = "list price"
    SPOT_MODEL = "spot model"
    CATALOG = "Catalog"
    CLOUD = "Cloud"
    OVERLAY = "NodeOverlay"
    INSTANCE_TYPE = "InstanceType"
    RESERVATION = "reservation"


class PriceStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one layer did to a price."""

    layer: PriceLayer
    source: str
    """The object that speaks: its name, or the id of a reservation."""
    before: float | None
    """None where nothing below had a price."""
    after: float | None
    how: str = ""
    """In words, where the numbers alone do not say it."""


class LayeredOffering(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One way to buy an instance type, which counts as an offering once it has a price."""

    requirements: Requirements
    price: float | None
    available: int = UNLIMITED
    reservation_id: str | None = None
    steps: tuple[PriceStep, ...] = ()
    """What was done to the price since the bottom layer; empty where nothing was."""

    @property
    def base(self) -> float | None:
        """The price that the bottom layer gave."""
        return self.steps[0].before if self.steps else self.price

    @property
    def zone(self) -> str | None:
        return _single_value(self.requirements, ZONE)

    @property
    def capacity_type(self) -> str | None:
        return _single_value(self.requirements, CAPACITY_TYPE)

    @property
    def reserved(self) -> bool:
        return self.reservation_id is not None or self.capacity_type == RESERVED

    def repriced(self, step: PriceStep) -> "LayeredOffering":
        return msgspec.structs.replace(self, price=step.after, steps=(*self.steps, step))


@lru_cache(maxsize=4096)
def _single_value(requirements: Requirements, key: str) -> str | None:
    """Asked of every offering, and the same few sets of labels are on thousands of them."""
    return requirements.single_value(key)


LayeredOfferings: TypeAlias = Mapping[str, tuple[LayeredOffering, ...]]
"""What there is to buy, by instance type."""


def to_offerings(offerings: Iterable[LayeredOffering]) -> tuple[Offering, ...]:
    """The offerings that have a price."""
    return tuple(
        Offering(
            requirements=offering.requirements,
            price=offering.price,
            available=offering.available,
            reservation_id=offering.reservation_id,
        )
        for offering in offerings
        if offering.price is not None
    )


def sort_offerings(offerings: Iterable[LayeredOffering]) -> tuple[LayeredOffering, ...]:
    """By zone, then capacity type, then whatever else tells them apart."""
    return tuple(sorted(offerings, key=_offering_sort_key))


def restore_order(offerings: tuple[LayeredOffering, ...]) -> tuple[LayeredOffering, ...]:
    """Offerings that were in order, in order again after prices and counts have changed."""
    apart = {(offering.requirements, offering.reservation_id) for offering in offerings}
    return offerings if len(apart) == len(offerings) else sort_offerings(offerings)


def _offering_sort_key(
    offering: LayeredOffering,
) -> tuple[str, str, list[tuple[str, list[str]]], str, float, int]:
    labels = [(key, sorted(found.allowed.values)) for key, found in offering.requirements.items()]
    price = -1.0 if offering.price is None else offering.price
    reservation = offering.reservation_id or ""
    return (
        offering.zone or "",
        offering.capacity_type or "",
        labels,
        reservation,
        price,
        offering.available,
    )
