"""Layered offerings: offerings while the catalogue is built, with the steps of their price.

Each layer (list price, Cloud, NodeOverlay, InstanceType object, reservation) adds a step; an
offering that no layer gives a price cannot be launched and does not reach the planner.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeAlias

import msgspec

from wainwright.model.instance_type import UNLIMITED, Offering, single_label_value
from wainwright.model.labels import CAPACITY_TYPE, RESERVED, ZONE
from wainwright.model.requirements import Requirements


class PriceLayer(Enum):
    """The layers that set prices, from the bottom up; the value is the name in messages."""

    LIST = "list price"
    SPOT_MODEL = "spot model"
    CATALOG = "Catalog"
    CLOUD = "Cloud"
    OVERLAY = "NodeOverlay"
    INSTANCE_TYPE = "InstanceType"
    RESERVATION = "reservation"
    EXCLUDED = "excluded by"


class PriceStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The change of a price by one layer."""

    layer: PriceLayer
    source: str
    """The object that sets the price, the id of a reservation, or the label that excludes it."""
    before: float | None
    """None where no lower layer had a price."""
    after: float | None
    how: str = ""
    """How, as text, where the two prices alone do not explain it."""


class LayeredOffering(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One way to launch an instance type, which becomes an Offering if a layer gives it a price."""

    requirements: Requirements
    price: float | None
    available: int = UNLIMITED
    reservation_id: str | None = None
    steps: tuple[PriceStep, ...] = ()
    """The changes of the price since the bottom layer, if any."""
    modelled: bool = False
    """Whether the bottom layer's price is an estimate."""

    @property
    def base_price(self) -> float | None:
        """The price of the bottom layer."""
        return self.steps[0].before if self.steps else self.price

    @property
    def zone(self) -> str | None:
        return single_label_value(self.requirements, ZONE)

    @property
    def capacity_type(self) -> str | None:
        return single_label_value(self.requirements, CAPACITY_TYPE)

    @property
    def is_modelled(self) -> bool:
        """Whether the price is an estimate; an overlay that changes it by a share leaves it one."""
        stated = (PriceLayer.CLOUD, PriceLayer.INSTANCE_TYPE, PriceLayer.RESERVATION)
        return self.modelled and not any(step.layer in stated for step in self.steps)

    @property
    def is_reserved(self) -> bool:
        return self.reservation_id is not None or self.capacity_type == RESERVED

    @property
    def is_excluded(self) -> bool:
        """Whether no node of the class can be launched through it."""
        return bool(self.steps) and self.steps[-1].layer is PriceLayer.EXCLUDED

    def with_step(self, step: PriceStep) -> "LayeredOffering":
        return msgspec.structs.replace(self, price=step.after, steps=(*self.steps, step))

    def exclude(self, label: str, why: str) -> "LayeredOffering":
        """The offering without a price: it is never planned, and no price is compared with it."""
        return self.with_step(
            PriceStep(
                layer=PriceLayer.EXCLUDED, source=label, before=self.price, after=None, how=why
            )
        )


LayeredOfferings: TypeAlias = Mapping[str, tuple[LayeredOffering, ...]]
"""The offerings by instance type."""


class BaseOfferings(msgspec.Struct, frozen=True, kw_only=True):
    """The offerings of a source before any other layer; both mappings have the same keys."""

    offerings: LayeredOfferings
    priced: Mapping[str, tuple[Offering, ...]]
    """Those with a price, as the planner takes them: shared by all classes."""


def to_offerings(offerings: Iterable[LayeredOffering]) -> tuple[Offering, ...]:
    """The offerings that have a price."""
    return tuple(
        Offering(
            requirements=offering.requirements,
            price=offering.price,
            available=offering.available,
            reservation_id=offering.reservation_id,
            # Most offerings have no step: this saves a call for each of thousands.
            modelled=offering.is_modelled if offering.steps else offering.modelled,
        )
        for offering in offerings
        if offering.price is not None
    )


def sort_offerings(offerings: Iterable[LayeredOffering]) -> tuple[LayeredOffering, ...]:
    """By zone, then capacity type, then everything else in which they differ."""
    return tuple(sorted(offerings, key=_offering_sort_key))


def restore_order(offerings: tuple[LayeredOffering, ...]) -> tuple[LayeredOffering, ...]:
    """Offerings that were sorted before prices and counts have changed, sorted again.

    Price and count only order offerings with equal labels: without such a pair nothing is sorted.
    """
    distinct = {(offering.requirements, offering.reservation_id) for offering in offerings}
    return offerings if len(distinct) == len(offerings) else sort_offerings(offerings)


def _offering_sort_key(
    offering: LayeredOffering,
) -> tuple[str, str, list[tuple[str, list[str]]], str, float, int]:
    labels = [(key, sorted(each.allowed.values)) for key, each in offering.requirements.items()]
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
