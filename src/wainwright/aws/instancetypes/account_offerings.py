"""What EC2 offers the account in its region: instance types, their zones, and prices.

Built from DescribeInstanceTypes, DescribeInstanceTypeOfferings and DescribeAvailabilityZones; from
the built-in catalog until the first responses are there.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import msgspec

from wainwright.aws.api.services import Row
from wainwright.aws.instancetypes.pricing import NO_PRICES, RegionPrices
from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import (
    AcceleratorInfo,
    GpuInfo,
    InstanceTypeInfo,
)
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamilyTraits
from wainwright.catalogue.instancetypes.type_labels import family_key, family_labels, size_labels
from wainwright.catalogue.offerings import built_in_offerings
from wainwright.catalogue.offerings.built_in_offerings import OnDemandPrice, spot_prices
from wainwright.catalogue.offerings.layered_offering import (
    BaseOfferings,
    LayeredOffering,
    to_offerings,
)
from wainwright.model.labels import ARCH, CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE, ZONE_ID
from wainwright.model.requirements import Requirement, Requirements, one_of

ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
BANDWIDTH_PATTERN: Final = re.compile(r"(?:(?P<cards>\d+)x )?(?P<figure>\d+(?:\.\d+)?) Gigabit")


DEFAULT_EBS_ATTACHMENTS: Final = 27

OfferingKey = tuple[str, str, str]
"""Instance type, zone, capacity type."""


def parse_instance_types(rows: Iterable[Row]) -> dict[str, InstanceTypeInfo]:
    """By name, sorted. A row without required fields is skipped: one type that cannot be parsed
    must not hide all others."""
    infos: dict[str, InstanceTypeInfo] = {}
    for row in rows:
        try:
            info = parse_instance_type(row)
        except (KeyError, IndexError, TypeError):
            continue
        infos[info.name] = info
    return dict(sorted(infos.items()))


def parse_instance_type(row: Row) -> InstanceTypeInfo:
    """KeyError, IndexError or TypeError if a required field is missing."""
    network, processor = row["NetworkInfo"], row["ProcessorInfo"]
    cards, storage = network["NetworkCards"], row.get("InstanceStorageInfo") or {}
    usages = row.get("SupportedUsageClasses") or ()
    attachments, is_dedicated = _ebs_attachments(row)
    return InstanceTypeInfo(
        name=row["InstanceType"],
        vcpus=row["VCpuInfo"]["DefaultVCpus"],
        memory_mib=row["MemoryInfo"]["SizeInMiB"],
        architecture=_kubernetes_architecture(processor["SupportedArchitectures"]),
        cpu_manufacturer=_label_value(processor.get("Manufacturer") or "unknown"),
        clock_mhz=round(processor.get("SustainedClockSpeedInGhz", 0) * 1000),
        hypervisor=row.get("Hypervisor", ""),
        spot="spot" in usages,
        encryption_in_transit=bool(network.get("EncryptionInTransitSupported")),
        addresses_per_interface=network["Ipv4AddressesPerInterface"],
        network_interfaces=cards[network.get("DefaultNetworkCardIndex") or 0][
            "MaximumNetworkInterfaces"
        ],
        all_network_interfaces=network["MaximumNetworkInterfaces"],
        network_cards=network.get("MaximumNetworkCards") or len(cards),
        ebs_attachments=attachments,
        dedicated_ebs_attachments=is_dedicated,
        ebs_mbps=_ebs_bandwidth(row.get("EbsInfo") or {}),
        network_mbps=_network_bandwidth(network),
        local_storage_gb=storage.get("TotalSizeInGB", 0),
        nvme=storage.get("NvmeSupport") == "required",
        efa_interfaces=(network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0),
        branch_interfaces=_branch_interfaces(row["InstanceType"]),
        capacity_block="capacity-block" in usages,
        gpu=_gpu(row),
        accelerator=_accelerator(row),
    )


def _kubernetes_architecture(supported: Iterable[str]) -> str:
    known = [ARCHITECTURES[each] for each in supported if each in ARCHITECTURES]
    return known[0] if known else f"[{' '.join(supported)}]"


def _label_value(text: str) -> str:
    return text.lower().replace(" ", "-")


def _ebs_bandwidth(ebs: Mapping[str, Any]) -> int | None:
    """Only bandwidth that is dedicated by default counts."""
    if ebs.get("EbsOptimizedSupport") != "default":
        return None
    bandwidth: int | None = (ebs.get("EbsOptimizedInfo") or {}).get("MaximumBandwidthInMbps")
    return bandwidth


def _ebs_attachments(row: Row) -> tuple[int, bool]:
    """The limit, and whether it is dedicated; that of the built-in catalog where an endpoint does
    not return it, and of most types where that has none either."""
    ebs = row.get("EbsInfo") or {}
    stated: int | None = ebs.get("MaximumEbsAttachments")
    if stated is not None:
        return stated, ebs.get("AttachmentLimitType") == "dedicated"
    known = instance_type_info.built_in_instance_types().get(row["InstanceType"])
    if known is not None:
        return known.ebs_attachments, known.dedicated_ebs_attachments
    return DEFAULT_EBS_ATTACHMENTS, False


def _network_bandwidth(network: Mapping[str, Any]) -> int | None:
    """The bandwidth that EC2 states for the instance, else the sum of its cards' baselines."""
    stated = network.get("NetworkPerformance") or ""
    figure = BANDWIDTH_PATTERN.fullmatch(stated)
    if figure:
        return int(Decimal(figure["figure"]) * 1000) * int(figure["cards"] or 1)
    baselines = [card.get("BaselineBandwidthInGbps") for card in network["NetworkCards"]]
    if not stated.startswith("Up to") or None in baselines:
        return None
    return int(sum(Decimal(str(each)) for each in baselines) * 1000)


def _branch_interfaces(name: str) -> int | None:
    """EC2 does not return it; the built-in catalog has the types that differ from the rule."""
    known = instance_type_info.built_in_instance_types().get(name)
    return None if known is None else known.branch_interfaces


def _gpu(row: Row) -> GpuInfo | None:
    gpus = (row.get("GpuInfo") or {}).get("Gpus") or []
    if len(gpus) != 1:
        return None
    (gpu,) = gpus
    # A type with a fraction of a GPU has Count 0, but a pod can still request one GPU on it.
    count = gpu.get("Count") or gpu.get("LogicalGpuCount") or 1
    memory = (gpu.get("MemoryInfo") or {}).get("SizeInMiB", 0)
    return GpuInfo(_label_value(gpu["Name"]), _label_value(gpu["Manufacturer"]), count, memory)


def _accelerator(row: Row) -> AcceleratorInfo | None:
    """Neuron devices are listed twice; NeuronInfo also has the number of cores."""
    for device in (row.get("NeuronInfo") or {}).get("NeuronDevices") or ():
        cores = (device.get("CoreInfo") or {}).get("Count", 0)
        return AcceleratorInfo(_label_value(device["Name"]), "aws", device["Count"], cores)
    for device in (row.get("InferenceAcceleratorInfo") or {}).get("Accelerators") or ():
        manufacturer = _label_value(device["Manufacturer"])
        return AcceleratorInfo(_label_value(device["Name"]), manufacturer, device["Count"], 0)
    return None


class RegionInstanceTypes(msgspec.Struct, frozen=True, kw_only=True):
    """Instance types, zones, and which types are offered in which zones."""

    instance_types: Mapping[str, InstanceTypeInfo]
    zones: Mapping[str, str]
    """Ids by name; an id is empty if it is not known."""
    offered: Mapping[str, tuple[str, ...]]
    """Zones by instance type, both sorted."""


def parse_region(
    types: Iterable[Row], offered: Iterable[Row], zones: Iterable[Row]
) -> RegionInstanceTypes:
    """From the three responses."""
    infos = parse_instance_types(types)
    zones_by_type: dict[str, set[str]] = {}
    for row in offered:
        if row["InstanceType"] in infos:
            zones_by_type.setdefault(row["InstanceType"], set()).add(row["Location"])
    ids = {row["ZoneName"]: row.get("ZoneId", "") for row in zones}
    all_zones = {zone for each in zones_by_type.values() for zone in each}
    return RegionInstanceTypes(
        instance_types=infos,
        zones={zone: ids.get(zone, "") for zone in sorted(all_zones | ids.keys())},
        offered={name: tuple(sorted(zones_by_type[name])) for name in sorted(zones_by_type)},
    )


def built_in_region(region: str) -> RegionInstanceTypes:
    """From the built-in catalog; InvalidInputError if it does not have the region."""
    built_in = regions.load_region(region)
    return RegionInstanceTypes(
        instance_types=instance_type_info.built_in_instance_types(),
        zones={zone.name: zone.id for zone in built_in.zones},
        offered={
            name: tuple(zone.name for zone in zones) for name, zones in built_in.offered.items()
        },
    )


class AccountOfferings:
    """The instance types of a region with their prices. Immutable; derived values are cached.

    The caches save rebuilding all offerings for every class and at every change of a class.
    """

    def __init__(
        self,
        region: str,
        region_types: RegionInstanceTypes,
        prices: RegionPrices = NO_PRICES,
        modelled_prices: Collection[OfferingKey] = (),
    ) -> None:
        self.region = region
        self.region_types = region_types
        self.prices = prices
        self._modelled_prices = modelled_prices
        self._offerings: dict[tuple[str, ...], BaseOfferings] = {}
        self._type_requirements: dict[AmiFamilyTraits, Mapping[str, Requirements]] = {}

    def with_prices(self, prices: RegionPrices) -> "AccountOfferings":
        """The same types at other prices. Their labels are the same objects: indexes that are
        compiled of them are then reused, and not compared label by label."""
        repriced = AccountOfferings(self.region, self.region_types, prices, self._modelled_prices)
        repriced._type_requirements = self._type_requirements
        return repriced

    def offerings_in(self, zones: tuple[str, ...]) -> BaseOfferings:
        """The offerings in these zones; without types that are offered elsewhere only."""
        offerings = self._offerings.get(zones)
        if offerings is None:
            offerings = self._offerings[zones] = self._build_offerings(frozenset(zones))
        return offerings

    def type_requirements(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        """The labels of every instance type for an AMI family, as requirements."""
        requirements = self._type_requirements.get(traits)
        if requirements is None:
            requirements = _instance_type_requirements(self, traits)
            self._type_requirements[traits] = requirements
        return requirements

    def on_demand_price(self, name: str) -> float | None:
        """The current price, else that of the built-in table."""
        current = (self.prices.on_demand or {}).get(name)
        if current is not None:
            return current
        built_in = self._built_in_price(name)
        return None if built_in is None else built_in.usd

    def _built_in_price(self, name: str) -> OnDemandPrice | None:
        if self.region not in built_in_offerings.load_price_table().regions:
            return None
        return built_in_offerings.on_demand_list_price(name, self.region)

    def _is_on_demand_modelled(self, name: str) -> bool:
        """Whether the price is ours and no list price either."""
        if name in (self.prices.on_demand or {}):
            return False
        built_in = self._built_in_price(name)
        return built_in is not None and not built_in.is_list_price

    def spot_prices_by_zone(self, name: str, zones: tuple[str, ...]) -> Mapping[str, float]:
        """Spot prices of a type by zone; estimated if no prices are known."""
        info = self.region_types.instance_types[name]
        if not info.spot:
            return {}
        current = self.prices.spot
        if current is not None:
            return {zone: current[name, zone] for zone in zones if (name, zone) in current}
        on_demand = self.on_demand_price(name)
        if on_demand is None:
            return {}
        return spot_prices(info, region=self.region, zones=zones, on_demand=on_demand)

    @cached_property
    def _labels(self) -> Mapping[tuple[str, str], Requirements]:
        """Requirements by zone and capacity type; built once and shared by all types."""
        return {
            (zone, capacity_type): Requirements.from_labels(
                _offering_labels(zone, zone_id, capacity_type)
            )
            for zone, zone_id in self.region_types.zones.items()
            for capacity_type in (ON_DEMAND, SPOT)
        }

    def _build_offerings(self, zones: frozenset[str]) -> BaseOfferings:
        layered: dict[str, tuple[LayeredOffering, ...]] = {}
        for name, offered in self.region_types.offered.items():
            here = tuple(zone for zone in offered if zone in zones)
            if here:
                layered[name] = self._layered_offerings(name, here)
        return BaseOfferings(
            offerings=layered, priced={name: to_offerings(each) for name, each in layered.items()}
        )

    def _layered_offerings(self, name: str, zones: tuple[str, ...]) -> tuple[LayeredOffering, ...]:
        """Offerings without a price are included: a later layer may set one."""
        on_demand, spot = self.on_demand_price(name), self.spot_prices_by_zone(name, zones)
        modelled = {ON_DEMAND: self._is_on_demand_modelled(name), SPOT: self.prices.spot is None}
        has_spot = self.region_types.instance_types[name].spot
        return tuple(
            LayeredOffering(
                requirements=self._labels[zone, capacity_type],
                price=on_demand if capacity_type == ON_DEMAND else spot.get(zone),
                modelled=modelled[capacity_type]
                or (name, zone, capacity_type) in self._modelled_prices,
            )
            for zone in zones
            for capacity_type in ((ON_DEMAND, SPOT) if has_spot else (ON_DEMAND,))
        )


def _offering_labels(zone: str, zone_id: str, capacity_type: str) -> dict[str, str]:
    return {CAPACITY_TYPE: capacity_type, ZONE: zone, **({ZONE_ID: zone_id} if zone_id else {})}


def _instance_type_requirements(
    account_offerings: AccountOfferings, traits: AmiFamilyTraits
) -> dict[str, Requirements]:
    # Types of one family share most labels: these are converted once per family, not per type.
    by_family: dict[tuple[str | int, ...], list[Requirement]] = {}
    requirements = {}
    for name in account_offerings.region_types.offered:
        info = account_offerings.region_types.instance_types[name]
        key = family_key(info)
        if key not in by_family:
            by_family[key] = _label_requirements(
                family_labels(info, traits, account_offerings.region)
            )
        requirements[name] = Requirements(
            [*by_family[key], *_label_requirements(size_labels(info))]
        )
    return requirements


def _label_requirements(labels: Mapping[str, tuple[str, ...]]) -> list[Requirement]:
    """An architecture that Kubernetes does not have is written in brackets, which are not allowed
    in a label value."""
    return [
        Requirement(
            key=key,
            allowed=one_of(value.strip("[]") for value in values)
            if key == ARCH
            else one_of(values),
        )
        for key, values in labels.items()
    ]
