"""Stock: the bottom layers: the built-in types or a Catalog, and what the Cloud leaves of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from wainwright.api.cloud import Catalog, Cloud
from wainwright.api.fault import did_you_mean
from wainwright.catalogue import offerings, prices, regions
from wainwright.catalogue.lots import Lot, Lots
from wainwright.catalogue.pattern import matches
from wainwright.catalogue.prices import Basis
from wainwright.catalogue.remarks import Refused, Remark, refusal, warning
from wainwright.catalogue.stated import Stated, stated
from wainwright.catalogue.supply import Supply
from wainwright.errors import BadInput
from wainwright.model.labels import ZONE_ID

DEFAULT_REGION: Final = "us-east-1"


class Stock(msgspec.Struct, frozen=True, kw_only=True):
    """What there is before anybody sets a price."""

    region: str
    zones: Mapping[str, str]
    """The zones in force with their ids; an id is empty where nobody states it."""
    all_zones: frozenset[str]
    """Those that the Cloud leaves out included."""
    lots: Lots
    stated: Mapping[str, Stated] | None
    """The types of a Catalog; None where the built-in ones are used."""
    remarks: tuple[Remark, ...] = ()


def stock(supply: Supply) -> Stock:
    """Refused where region, zones or types of the Cloud do not exist."""
    cloud = supply.cloud
    whole = _from_catalog(supply.catalog) if supply.catalog else _built_in(_region(supply), cloud)
    _same_region(supply, whole.region)
    if cloud is None:
        return whole
    zones = _zones(cloud, whole)
    lots, remarks = _chosen(cloud, whole.lots)
    if cloud.spec.zones is not None:
        lots = _sold_in(frozenset(zones), lots)
    if not lots:
        message = "none of the Cloud's instance types is sold in these zones"
        raise refusal("Cloud", cloud.metadata.name, ("spec", "zones"), message)
    said = (*whole.remarks, *remarks)
    return msgspec.structs.replace(whole, zones=zones, lots=lots, remarks=said)


def _region(supply: Supply) -> str:
    if supply.cloud is not None:
        return supply.cloud.spec.region
    return supply.region or DEFAULT_REGION


def _same_region(supply: Supply, region: str) -> None:
    cloud = supply.cloud
    if cloud is not None and cloud.spec.region != region:
        message = f"the Catalog is of {region}, the Cloud of {cloud.spec.region}"
        hint = "a Cloud on top of a Catalog has the Catalog's region"
        raise refusal("Cloud", cloud.metadata.name, ("spec", "region"), message, hint)
    if supply.region not in (None, region):
        said = "Cloud" if cloud is not None else "Catalog"
        raise BadInput(
            f"the region {supply.region} was asked for, but the {said} is of {region}",
            f"leave the region out, or use another {said}",
        )


def _built_in(name: str, cloud: Cloud | None) -> Stock:
    try:
        region = regions.region(name)
    except BadInput as error:
        if cloud is None:
            raise
        path = ("spec", "region")
        raise refusal("Cloud", cloud.metadata.name, path, error.message, error.hint) from error
    zones = {zone.name: zone.id for zone in region.zones}
    return Stock(
        region=name,
        zones=zones,
        all_zones=frozenset(zones),
        lots=offerings.base(name).lots,
        stated=None,
        remarks=_guessed(name, cloud),
    )


def _guessed(region: str, cloud: Cloud | None) -> tuple[Remark, ...]:
    known = prices.table().regions[region]
    if known.basis is not Basis.UNKNOWN:
        return ()
    message = f"no price of {region} is known: those of us-east-1 times {known.factor} are a guess"
    hint = "state the prices that matter in a Cloud, under spec.prices"
    if cloud is None:
        return (warning("region", region, (), message, hint),)
    return (warning("Cloud", cloud.metadata.name, ("spec", "region"), message, hint),)


def _from_catalog(catalog: Catalog) -> Stock:
    types = stated(catalog)
    lots = {name: each.lots for name, each in types.items()}
    zones = dict(sorted(_named_zones(lots.values())))
    return Stock(
        region=catalog.region, zones=zones, all_zones=frozenset(zones), lots=lots, stated=types
    )


def _named_zones(lots: Iterable[tuple[Lot, ...]]) -> Iterator[tuple[str, str]]:
    """An id that is stated once for a zone holds for all its offerings."""
    for each in lots:
        for lot in each:
            if lot.zone is not None:
                yield lot.zone, lot.requirements.only(ZONE_ID) or ""


def _zones(cloud: Cloud, whole: Stock) -> Mapping[str, str]:
    asked = cloud.spec.zones
    if asked is None or not whole.zones:
        return whole.zones
    wrong = [index for index, zone in enumerate(asked) if zone not in whole.zones]
    if wrong:
        raise Refused([_no_zone(cloud, index, asked[index], whole) for index in wrong])
    return {zone: whole.zones[zone] for zone in sorted(asked)}


def _no_zone(cloud: Cloud, index: int, zone: str, whole: Stock) -> Remark:
    message = f"{whole.region} has no zone {zone}"
    hint = f"its zones are {', '.join(whole.zones)}"
    return refusal("Cloud", cloud.metadata.name, ("spec", "zones", index), message, hint).remarks[0]


def _sold_in(zones: frozenset[str], lots: Lots) -> dict[str, tuple[Lot, ...]]:
    """What is sold in these zones; a lot that leaves the zone open stays.

    A type that is sold elsewhere only is not part of this cloud any more.
    """
    kept = {}
    for name, each in lots.items():
        here = tuple(lot for lot in each if lot.zone is None or lot.zone in zones)
        if here or not each:
            kept[name] = each if len(here) == len(each) else here
    return kept


def _chosen(cloud: Cloud, lots: Lots) -> tuple[Lots, list[Remark]]:
    """The types that the Cloud's patterns name."""
    patterns = cloud.spec.instanceTypes
    if patterns is None:
        return lots, []
    kept: set[str] = set()
    remarks = []
    for index, pattern in enumerate(patterns):
        found = {name for name in lots if matches(pattern, name)}
        kept |= found
        if not found:
            remarks.append(_no_type(cloud, index, pattern, list(lots)))
    if not kept:
        raise Refused(remarks)
    return {name: lots[name] for name in lots if name in kept}, remarks


def _no_type(cloud: Cloud, index: int, pattern: str, known: list[str]) -> Remark:
    path = ("spec", "instanceTypes", index)
    message = f"no instance type of {cloud.spec.region} is called {pattern}"
    hint = did_you_mean(pattern.strip("*"), known)
    return warning("Cloud", cloud.metadata.name, path, message, hint)
