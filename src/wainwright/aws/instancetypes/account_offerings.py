"""What EC2 offers the account in its region: instance types, zones of each, and prices.

Made of the rows of DescribeInstanceTypes, DescribeInstanceTypeOfferings and
DescribeAvailabilityZones; of the built-in catalog until these are there.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import msgspec

from wainwright.aws.api.seam import Row
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
from wainwright.catalogue.offerings.built_in_offerings import BuiltInOfferings, spot_prices
from wainwright.catalogue.offerings.layered_offering import LayeredOffering, to_offerings
from wainwright.model.labels import ARCH, CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE, ZONE_ID
from wainwright.model.requirements import Requirement, Requirements, one_of

ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
BANDWIDTH_PATTERN: Final = re.compile(r"(?:(?P<cards>\d+)x )?(?P<figure>\d+(?:\.\d+)?) Gigabit")


def parse_instance_types(rows: Iterable[Row]) -> dict[str, InstanceTypeInfo]:
    """By name, in order. A row that lacks what every instance has is left out: one type that
    nobody understands must not hide all others."""
    found: dict[str, InstanceTypeInfo] = {}
    for row in rows:
        try:
            each = parse_instance_type(row)
        except (KeyError, IndexError, TypeError):
            continue
        found[each.name] = each
    return dict(sorted(found.items()))


def parse_instance_type(row: Row) -> InstanceTypeInfo:
    """KeyError, IndexError or TypeError where something is missing."""
    network, processor = row["NetworkInfo"], row["ProcessorInfo"]
    cards, storage = network["NetworkCards"], row.get("InstanceStorageInfo") or {}
    usages = row.get("SupportedUsageClasses") or ()
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
    """Only what is dedicated without asking counts."""
    if ebs.get("EbsOptimizedSupport") != "default":
        return None
    found: int | None = (ebs.get("EbsOptimizedInfo") or {}).get("MaximumBandwidthInMbps")
    return found


def _network_bandwidth(network: Mapping[str, Any]) -> int | None:
    """The figure that EC2 states for the whole instance, else what its cards carry at all times."""
    stated = network.get("NetworkPerformance") or ""
    figure = BANDWIDTH_PATTERN.fullmatch(stated)
    if figure:
        return int(Decimal(figure["figure"]) * 1000) * int(figure["cards"] or 1)
    baselines = [card.get("BaselineBandwidthInGbps") for card in network["NetworkCards"]]
    if not stated.startswith("Up to") or None in baselines:
        return None
    return int(sum(Decimal(str(each)) for each in baselines) * 1000)


def _branch_interfaces(name: str) -> int | None:
    """EC2 does not say it; the exceptions to the rule are in the built-in catalogue."""
    known = instance_type_info.built_in_instance_types().get(name)
    return None if known is None else known.branch_interfaces


def _gpu(row: Row) -> GpuInfo | None:
    kinds = (row.get("GpuInfo") or {}).get("Gpus") or []
    if len(kinds) != 1:
        return None
    (only,) = kinds
    # A type with a slice of a GPU counts no GPU of its own, but a pod still finds one to use.
    count = only.get("Count") or only.get("LogicalGpuCount") or 1
    memory = (only.get("MemoryInfo") or {}).get("SizeInMiB", 0)
    return GpuInfo(_label_value(only["Name"]), _label_value(only["Manufacturer"]), count, memory)


def _accelerator(row: Row) -> AcceleratorInfo | None:
    """Neuron devices are listed twice; the list of their own also has the cores."""
    for device in (row.get("NeuronInfo") or {}).get("NeuronDevices") or ():
        cores = (device.get("CoreInfo") or {}).get("Count", 0)
        return AcceleratorInfo(_label_value(device["Name"]), "aws", device["Count"], cores)
    for device in (row.get("InferenceAcceleratorInfo") or {}).get("Accelerators") or ():
        maker = _label_value(device["Manufacturer"])
        return AcceleratorInfo(_label_value(device["Name"]), maker, device["Count"], 0)
    return None


class RegionInstanceTypes(msgspec.Struct, frozen=True, kw_only=True):
    """Instance types, zones, and which types are offered in which zones."""

    machines: Mapping[str, InstanceTypeInfo]
    zones: Mapping[str, str]
    """Names with ids; an id is empty where nobody states it."""
    offered: Mapping[str, tuple[str, ...]]
    """Zones by type, both in order."""


def parse_region(
    types: Iterable[Row], offered: Iterable[Row], zones: Iterable[Row]
) -> RegionInstanceTypes:
    """What the three answers say together."""
    known = parse_instance_types(types)
    places: dict[str, set[str]] = {}
    for row in offered:
        if row["InstanceType"] in known:
            places.setdefault(row["InstanceType"], set()).add(row["Location"])
    ids = {row["ZoneName"]: row.get("ZoneId", "") for row in zones}
    met = {zone for each in places.values() for zone in each}
    return RegionInstanceTypes(
        machines=known,
        zones={zone: ids.get(zone, "") for zone in sorted(met | ids.keys())},
        offered={name: tuple(sorted(places[name])) for name in sorted(places)},
    )


def built_in_region(region: str) -> RegionInstanceTypes:
    """What the committed catalogue knows of the region; InvalidInputError where that is nothing."""
    found = regions.load_region(region)
    return RegionInstanceTypes(
        machines=instance_type_info.built_in_instance_types(),
        zones={zone.name: zone.id for zone in found.zones},
        offered={name: tuple(zone.name for zone in zones) for name, zones in found.offered.items()},
    )


class AccountOfferings:
    """A listing with its prices. It never changes; what is derived from it is made once."""

    def __init__(
        self, region: str, region_types: RegionInstanceTypes, prices: RegionPrices = NO_PRICES
    ) -> None:
        self.region = region
        self.region_types = region_types
        self.prices = prices
        self._bases: dict[tuple[str, ...], BuiltInOfferings] = {}
        self._described: dict[AmiFamilyTraits, Mapping[str, Requirements]] = {}

    def base(self, zones: tuple[str, ...]) -> BuiltInOfferings:
        """What is sold in these zones; types that are sold elsewhere only are not in it."""
        found = self._bases.get(zones)
        if found is None:
            found = self._bases[zones] = self._base(frozenset(zones))
        return found

    def described(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        """The labels of every type under an operating system."""
        found = self._described.get(traits)
        if found is None:
            found = self._described[traits] = _instance_type_requirements(self, traits)
        return found

    def on_demand(self, name: str) -> float | None:
        """As listed today, else as the built-in table has it."""
        listed = (self.prices.on_demand or {}).get(name)
        if listed is not None or self.region not in built_in_offerings.load_price_table().regions:
            return listed
        known = built_in_offerings.on_demand_list_price(name, self.region)
        return None if known is None else known.usd

    def spot(self, name: str, zones: tuple[str, ...]) -> Mapping[str, float]:
        """By zone, where it is sold as spot; a model of it where nobody knows the prices."""
        machine = self.region_types.machines[name]
        if not machine.spot:
            return {}
        known = self.prices.spot
        if known is not None:
            return {zone: known[name, zone] for zone in zones if (name, zone) in known}
        usual = self.on_demand(name)
        if usual is None:
            return {}
        return spot_prices(machine, region=self.region, zones=zones, on_demand=usual)

    @cached_property
    def _labels(self) -> Mapping[tuple[str, str], Requirements]:
        """Of what is bought in a zone in one way; one object for all types."""
        return {
            (zone, way): Requirements.from_labels(_offering_labels(zone, identity, way))
            for zone, identity in self.region_types.zones.items()
            for way in (ON_DEMAND, SPOT)
        }

    def _base(self, zones: frozenset[str]) -> BuiltInOfferings:
        lots: dict[str, tuple[LayeredOffering, ...]] = {}
        for name, offered in self.region_types.offered.items():
            here = tuple(zone for zone in offered if zone in zones)
            if here:
                lots[name] = self._lots(name, here)
        return BuiltInOfferings(
            offerings=lots, priced={name: to_offerings(each) for name, each in lots.items()}
        )

    def _lots(self, name: str, zones: tuple[str, ...]) -> tuple[LayeredOffering, ...]:
        """Without a price too: a later layer may have one."""
        usual, spot = self.on_demand(name), self.spot(name, zones)
        made: list[LayeredOffering] = []
        for zone in zones:
            made.append(LayeredOffering(requirements=self._labels[zone, ON_DEMAND], price=usual))
            if self.region_types.machines[name].spot:
                made.append(
                    LayeredOffering(requirements=self._labels[zone, SPOT], price=spot.get(zone))
                )
        return tuple(made)


def _offering_labels(zone: str, identity: str, way: str) -> dict[str, str]:
    return {CAPACITY_TYPE: way, ZONE: zone, **({ZONE_ID: identity} if identity else {})}


def _instance_type_requirements(
    account_offerings: AccountOfferings, traits: AmiFamilyTraits
) -> dict[str, Requirements]:
    kindred: dict[tuple[str | int, ...], list[Requirement]] = {}
    made = {}
    for name in account_offerings.region_types.offered:
        machine = account_offerings.region_types.machines[name]
        relation = family_key(machine)
        if relation not in kindred:
            kindred[relation] = _label_requirements(
                family_labels(machine, traits, account_offerings.region)
            )
        made[name] = Requirements([*kindred[relation], *_label_requirements(size_labels(machine))])
    return made


def _label_requirements(labels: Mapping[str, tuple[str, ...]]) -> list[Requirement]:
    """The word for an architecture that Kubernetes does not know is in brackets, which may not be
    in a label's value."""
    return [
        Requirement(
            key=key,
            allowed=one_of(value.strip("[]") for value in values)
            if key == ARCH
            else one_of(values),
        )
        for key, values in labels.items()
    ]
