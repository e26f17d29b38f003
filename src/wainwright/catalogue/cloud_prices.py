"""Prices of the Cloud: what an account pays, in place of list and model."""

from typing import TypeAlias

from wainwright.api.cloud import Cloud, CloudPrice
from wainwright.api.fault import did_you_mean
from wainwright.catalogue.lots import Layer, Lot, Lots, Step
from wainwright.catalogue.remarks import Remark, warning

Named: TypeAlias = dict[tuple[str, str | None], int]
"""Capacity type and zone to the number of the entry that prices them."""


def priced(cloud: Cloud, lots: Lots) -> tuple[Lots, list[Remark]]:
    """The lots at the Cloud's prices, and what was said about lots that there are none of."""
    listed = cloud.spec.prices or []
    remarks: list[Remark] = []
    by_type: dict[str, Named] = {}
    for index, entry in enumerate(listed):
        same = by_type.setdefault(entry.instanceType, {})
        before = same.get((entry.capacityType, entry.zone))
        if before is not None:
            remarks.append(_again(cloud, index, before))
        same[entry.capacityType, entry.zone] = index
    changed = {}
    for name in sorted(by_type.keys() & lots.keys()):
        changed[name] = tuple(_repriced(lot, by_type[name], cloud, listed) for lot in lots[name])
    remarks += _idle(cloud, listed, lots)
    return ({**lots, **changed} if changed else lots), remarks


def _repriced(lot: Lot, named: Named, cloud: Cloud, listed: list[CloudPrice]) -> Lot:
    """The price of the zone goes before the price for all zones."""
    kind = lot.capacity_type or ""
    index = named.get((kind, lot.zone), named.get((kind, None)))
    if index is None or lot.reserved:
        return lot
    return lot.repriced(
        Step(
            layer=Layer.CLOUD,
            source=cloud.metadata.name,
            before=lot.price,
            after=listed[index].price,
            how=f"spec.prices[{index}]",
        )
    )


def _again(cloud: Cloud, index: int, before: int) -> Remark:
    message = f"prices the same as spec.prices[{before}], and replaces it"
    return warning("Cloud", cloud.metadata.name, ("spec", "prices", index), message)


def _idle(cloud: Cloud, listed: list[CloudPrice], lots: Lots) -> list[Remark]:
    found = []
    for index, entry in enumerate(listed):
        path = ("spec", "prices", index)
        name, where = entry.instanceType, f" in {entry.zone}" if entry.zone else ""
        if name not in lots:
            message, hint = f"there is no instance type {name}", did_you_mean(name, list(lots))
            found.append(warning("Cloud", cloud.metadata.name, path, message, hint))
        elif not any(_sold(lot, entry) for lot in lots[name]):
            message = f"{name} is not sold as {entry.capacityType}{where}"
            found.append(warning("Cloud", cloud.metadata.name, path, message))
    return found


def _sold(lot: Lot, entry: CloudPrice) -> bool:
    return lot.capacity_type == entry.capacityType and entry.zone in (None, lot.zone)
