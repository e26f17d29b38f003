"""Shortage: what is out of stock, and what a class can never launch."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wainwright.api.cloud import Cloud, Unavailable
from wainwright.catalogue.lots import Lot, Lots, ordered
from wainwright.catalogue.pattern import matches
from wainwright.catalogue.remarks import Remark, warning
from wainwright.model.labels import ZONE, ZONE_ID
from wainwright.model.requirements import Requirements


def out_of_stock(cloud: Cloud, lots: Lots, zones: Mapping[str, str]) -> tuple[Lots, list[Remark]]:
    """The lots with everything that the Cloud calls unavailable at a count of zero."""
    changed = dict(lots)
    remarks = []
    for index, entry in enumerate(cloud.spec.unavailable or []):
        hit = False
        for name in _named(entry, lots):
            after = tuple(_marked(changed[name], entry, zones))
            hit = hit or any(lot.available == 0 for lot in after if _meant(lot, entry))
            changed[name] = after if _labels(after) == _labels(changed[name]) else ordered(after)
        if not hit:
            remarks.append(_idle(cloud, index))
    return changed, remarks


def _labels(lots: tuple[Lot, ...]) -> list[Requirements]:
    return [lot.requirements for lot in lots]


def _named(entry: Unavailable, lots: Lots) -> list[str]:
    pattern = entry.instanceType
    if pattern is None:
        return list(lots)
    return [pattern] if pattern in lots else [name for name in lots if matches(pattern, name)]


def _marked(lots: Iterable[Lot], entry: Unavailable, zones: Mapping[str, str]) -> Iterator[Lot]:
    for lot in lots:
        for part in _in_zones(lot, entry, zones):
            yield empty(part) if _meant(part, entry) else part


def _in_zones(lot: Lot, entry: Unavailable, zones: Mapping[str, str]) -> list[Lot]:
    """A lot for any zone comes apart where only one of them is out of stock."""
    if entry.zone is None or lot.zone is not None or entry.zone not in zones:
        return [lot]
    if not _of_capacity_type(lot, entry):
        return [lot]
    return [_placed(lot, zone, identity) for zone, identity in zones.items()]


def _placed(lot: Lot, zone: str, identity: str) -> Lot:
    labels = {ZONE: zone, **({ZONE_ID: identity} if identity else {})}
    narrowed = lot.requirements.narrow(Requirements.from_labels(labels))
    return msgspec.structs.replace(lot, requirements=narrowed)


def _meant(lot: Lot, entry: Unavailable) -> bool:
    return entry.zone in (None, lot.zone) and _of_capacity_type(lot, entry)


def _of_capacity_type(lot: Lot, entry: Unavailable) -> bool:
    return entry.capacityType in (None, lot.capacity_type)


def empty(lot: Lot) -> Lot:
    return lot if lot.available == 0 else msgspec.structs.replace(lot, available=0)


def _idle(cloud: Cloud, index: int) -> Remark:
    path = ("spec", "unavailable", index)
    message = "there is no such offering, so that nothing is out of stock for it"
    return warning("Cloud", cloud.metadata.name, path, message)
