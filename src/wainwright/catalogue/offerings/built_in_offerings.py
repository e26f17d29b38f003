"""Built-in offerings: one per zone and capacity type of every instance type that a region offers.

On-demand prices are the list of us-east-1, within half a percent, times a rough factor for every
other region: one factor stands for all families, a few percent off for some.

Spot prices are a model, not a record; real ones come from an account or a Cloud. The ratio of
spot to on-demand price is log-normal around a median that depends on the hardware, the size and
the region, with a share each for the family, the type in its region, and the zone. Medians and
spreads are those of a public snapshot of 46,030 spot pools (August 2026). The draws are hashes of
names: the same offering has the same price in every run.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from hashlib import blake2b
from math import exp, sqrt
from struct import Struct
from typing import Final, TypeAlias

import msgspec

from wainwright import data
from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo, LazyMapping
from wainwright.catalogue.offerings.layered_offering import (
    BaseOfferings,
    LayeredOffering,
    PriceLayer,
    PriceStep,
    to_offerings,
)
from wainwright.catalogue.regions import Zone
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE, ZONE_ID
from wainwright.model.requirements import Requirements

PRICES_FILE = "prices.json"


class PriceFactorBasis(Enum):
    """The data that the price factor of a region is based on."""

    BASE = "base"
    MEDIAN = "median"
    ONE_FAMILY = "one-family"
    UNKNOWN = "unknown"


class RegionPriceFactor(msgspec.Struct, frozen=True, kw_only=True):
    factor: float
    basis: PriceFactorBasis


class PriceTable(msgspec.Struct, frozen=True, kw_only=True):
    """The data file of list prices; a type without a price is not in `types`."""

    source: str
    types: dict[str, float]
    own: frozenset[str]
    """Types with a list price of their own, not by the rule of their family."""
    regions: dict[str, RegionPriceFactor]


class OnDemandPrice(msgspec.Struct, frozen=True, kw_only=True):
    """USD per hour, and how it was computed."""

    usd: float
    list_usd: float
    """In us-east-1."""
    by_family: bool
    """Whether the list price follows the rule of the family."""
    factor: float
    basis: PriceFactorBasis

    @property
    def is_list_price(self) -> bool:
        """Whether AWS lists it; elsewhere it is estimated."""
        return self.basis is PriceFactorBasis.BASE


@cache
def load_price_table() -> PriceTable:
    return msgspec.json.decode(data.read_data_file(PRICES_FILE), type=PriceTable)


def on_demand_list_price(instance_type: str, region: str) -> OnDemandPrice | None:
    """The on-demand price of the type in the region; None where no price is known."""
    prices = load_price_table()
    listed = prices.types.get(instance_type)
    if listed is None:
        return None
    price_factor = prices.regions[region]
    return OnDemandPrice(
        usd=round(listed * price_factor.factor, 6),
        list_usd=listed,
        by_family=instance_type not in prices.own,
        factor=price_factor.factor,
        basis=price_factor.basis,
    )


FOUR_DRAWS: Final = Struct(">4H")
EIGHT_DRAWS: Final = Struct(">32H")
SQRT_3: Final = sqrt(3.0)  # the sum of four uniform draws has a variance of 1/3

MEDIAN_SPOT_RATIO: Final = 0.32
FLOOR, CEILING = 0.10, 0.95  # in the snapshot 2 % of pools cost as much as on-demand; ours never do
FAMILY_SPREAD, TYPE_SPREAD, ZONE_SPREAD = 0.26, 0.27, 0.22  # standard deviations of the logarithm
ZONE_SCALE: Final = ZONE_SPREAD * SQRT_3
UPWARD_DAMPING: Final = 0.7  # the long tail is on the cheap side

REGION_MEDIAN_SPOT_RATIOS: Final = {
    "ap-south-1": 0.27,
    "ap-southeast-1": 0.39,
    "eu-central-1": 0.375,
    "eu-north-1": 0.21,
    "eu-south-2": 0.13,
    "eu-west-1": 0.43,
    "us-east-1": 0.38,
    "us-east-2": 0.28,
    "us-west-2": 0.36,
}


def spot_prices(
    info: InstanceTypeInfo, *, region: str, zones: Iterable[str], on_demand: float
) -> dict[str, float]:
    """USD per hour in each zone of the region; always below the on-demand price."""
    median, draws = regional_median(info, region), SpotDraws(info, region)
    return {
        zone: round(on_demand * _clamped_ratio(median, draws.type + draws.zone(zone)), 6)
        for zone in zones
    }


def spot_price_ratio(info: InstanceTypeInfo, region: str, zone: str) -> float:
    """The share of the on-demand price that spot costs in the zone."""
    draws = SpotDraws(info, region)
    return _clamped_ratio(regional_median(info, region), draws.type + draws.zone(zone))


def _clamped_ratio(median: float, deviation: float) -> float:
    ratio = median * exp(deviation if deviation < 0 else deviation * UPWARD_DAMPING)
    return FLOOR if ratio < FLOOR else min(ratio, CEILING)


class SpotDraws:
    """How far the spot price of a type in a region is from its median, as logarithms.

    One hash gives all eight draws, which saves a hash per zone: seven for the letters that zones
    end in, the last for the type.
    """

    __slots__ = ("_parts", "type")

    def __init__(self, info: InstanceTypeInfo, region: str) -> None:
        digest = blake2b(f"{info.name} {region}".encode(), digest_size=64).digest()
        self._parts: tuple[int, ...] = EIGHT_DRAWS.unpack(digest)
        family = FAMILY_SPREAD * normal_draw(info.family)
        self.type = family + TYPE_SPREAD * _to_normal(sum(self._parts[7::8]))

    def zone(self, name: str) -> float:
        # Spelled out, without slicing, `sum` and a call: it runs for every spot offering.
        parts, draw = self._parts, ord(name[-1]) % 7
        total = parts[draw] + parts[draw + 8] + parts[draw + 16] + parts[draw + 24]
        return (total / 0x10000 - 2.0) * ZONE_SCALE


def regional_median(info: InstanceTypeInfo, region: str) -> float:
    known = REGION_MEDIAN_SPOT_RATIOS.get(region, MEDIAN_SPOT_RATIO)
    return hardware_median(info) * size_factor(info) * known / MEDIAN_SPOT_RATIO


def hardware_median(info: InstanceTypeInfo) -> float:
    """The median ratio of types with this hardware, over all sizes and regions."""
    if info.is_bare_metal:
        return 0.21
    if info.gpu is not None:
        return 0.35
    if info.category == "t":
        return 0.36
    return 0.38 if info.cpu_manufacturer == "amd" else MEDIAN_SPOT_RATIO


def size_factor(info: InstanceTypeInfo) -> float:
    """Small instances cost more than the median, large ones less."""
    if info.vcpus <= 4:
        return 0.35 / MEDIAN_SPOT_RATIO
    return 0.27 / MEDIAN_SPOT_RATIO if info.vcpus > 64 and not info.is_bare_metal else 1.0


@cache
def normal_draw(name: str) -> float:
    """A number that depends on the name alone, distributed about normally."""
    return _to_normal(sum(FOUR_DRAWS.unpack(blake2b(name.encode(), digest_size=8).digest())))


def _to_normal(total: int) -> float:
    """The sum of four uniform draws, scaled: nearly normal, and within ± 3.5."""
    return (total / 0x10000 - 2.0) * SQRT_3


BASIS_TEXT: Final = {
    PriceFactorBasis.MEDIAN: "the median over all families: a few percent off for some",
    PriceFactorBasis.ONE_FAMILY: "taken from one family: rough",
    PriceFactorBasis.UNKNOWN: "a guess: no price of this region is known",
}

ZoneOfferingLabels: TypeAlias = tuple[str, Requirements, Requirements]
"""A zone, with the labels of its on-demand and spot offerings."""


@cache
def load_built_in_offerings(region: str) -> BaseOfferings:
    """The built-in offerings of the region; computed once, as no class changes them."""
    infos = instance_type_info.built_in_instance_types()
    region_data = regions.load_region(region)
    zone_labels = {
        zone.name: (_zone_requirements(zone, ON_DEMAND), _zone_requirements(zone, SPOT))
        for zone in region_data.zones
    }

    def build(name: str) -> tuple[LayeredOffering, ...]:
        zones = [(zone.name, *zone_labels[zone.name]) for zone in region_data.offered[name]]
        return _offerings_of(infos[name], region, zones)

    offerings = LazyMapping(region_data.offered, build)
    return BaseOfferings(
        offerings=offerings,
        priced=LazyMapping(offerings, lambda name: to_offerings(offerings[name])),
    )


def _zone_requirements(zone: Zone, capacity_type: str) -> Requirements:
    """The labels of an offering in the zone; one object for all types."""
    return Requirements.from_labels(
        {CAPACITY_TYPE: capacity_type, ZONE: zone.name, ZONE_ID: zone.id}
    )


def _offerings_of(
    info: InstanceTypeInfo, region: str, zone_labels: Sequence[ZoneOfferingLabels]
) -> tuple[LayeredOffering, ...]:
    """The offerings of a type; one without a price has them too, as a later layer may set it."""
    list_price = on_demand_list_price(info.name, region)
    usd = None if list_price is None else list_price.usd
    spot: Mapping[str, float] = {}
    if usd is not None and info.spot:
        names = [zone for zone, _, _ in zone_labels]
        spot = spot_prices(info, region=region, zones=names, on_demand=usd)
    offerings = []
    is_list_price = list_price is not None and list_price.is_list_price
    for zone, on_demand, on_spot in zone_labels:
        offerings.append(
            LayeredOffering(requirements=on_demand, price=usd, modelled=not is_list_price)
        )
        if info.spot:
            price = spot.get(zone)
            offerings.append(LayeredOffering(requirements=on_spot, price=price, modelled=True))
    return tuple(offerings)


def base_price_step(name: str, region: str, offering: LayeredOffering) -> PriceStep:
    """The first price step of a built-in offering: the list price or the spot model."""
    list_price = on_demand_list_price(name, region)
    if list_price is None:
        how = "no price is known for this type"
        return PriceStep(
            layer=PriceLayer.LIST, source="us-east-1", before=None, after=None, how=how
        )
    if offering.capacity_type == SPOT and offering.zone is not None:
        ratio = spot_price_ratio(
            instance_type_info.built_in_instance_types()[name], region, offering.zone
        )
        how = f"a model: {ratio:.1%} of the on-demand price {list_price.usd}"
        return PriceStep(
            layer=PriceLayer.SPOT_MODEL,
            source=region,
            before=list_price.usd,
            after=offering.base_price,
            how=how,
        )
    how = _describe_basis(list_price)
    return PriceStep(
        layer=PriceLayer.LIST, source="us-east-1", before=None, after=offering.base_price, how=how
    )


def _describe_basis(price: OnDemandPrice) -> str:
    rule = "by the rule of its family" if price.by_family else "listed for the type itself"
    if price.basis is PriceFactorBasis.BASE:
        return f"{rule}, within 0.5 % of the list"
    return f"{price.list_usd} in us-east-1 ({rule}) × {price.factor}, {BASIS_TEXT[price.basis]}"
