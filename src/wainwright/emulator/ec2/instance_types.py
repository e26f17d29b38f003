"""Instance types as EC2 describes them, where they are offered, and the zones.

The rows of the catalogue do not hold everything that DescribeInstanceTypes returns. Left out: boot
modes, enclaves, single local disks (only their total size is known), peak versus baseline
bandwidth, memory of Neuron devices, FPGAs. Derived: threads per core from manufacturer and
generation, network cards from their number and interfaces, their bandwidth as equal shares of the
total, EBS throughput from bandwidth. Where EC2 describes network performance in words it is
Moderate here; EBS that is not optimized by default counts as not optimized.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.catalogue.instancetypes.instance_type_info import (
    AcceleratorInfo,
    GpuInfo,
    InstanceTypeInfo,
)
from wainwright.emulator.context import (
    AccountContext,
    EmptyState,
    OperationHandler,
    Params,
    Response,
)
from wainwright.emulator.describe_requests import (
    apply_filters,
    bool_value,
    optional_value,
    paginate,
)
from wainwright.emulator.ec2.region_offerings import RegionOfferings
from wainwright.errors import AwsError

MANUFACTURER_NAMES: Final = {"aws": "AWS", "amd": "AMD", "nvidia": "NVIDIA"}
CHIP_NAMES: Final = {
    "gaudi-hl-205": "Gaudi HL-205",
    "qualcomm-ai100": "Qualcomm AI100",
    "radeon-pro-v520": "Radeon Pro V520",
    "rtx-pro-4500": "RTX PRO 4500",
    "rtx-pro-server-6000": "RTX PRO Server 6000",
    "t4g": "T4g",
}
"""Chip names that are not simply the label in capitals."""

# fmt: off
PREVIOUS_GENERATION: Final = frozenset((
    "a1", "c1", "c3", "c4", "c5", "c6gn", "d2", "g5", "i2", "m1", "m2", "m3", "m4", "m5", "m6i",
    "r3", "r4", "r5", "r6i", "r7g", "r7gd", "t1",
))
"""Families that are not of the current generation."""
PARAVIRTUAL: Final = frozenset(("c1", "c3", "m1", "m2", "m3", "t1"))
WITHOUT_IPV6: Final = PARAVIRTUAL - {"c3"}
ENA_ON_XEN: Final = frozenset(("h1", "i3", "m4.16xlarge", "r4", "x1", "x1e"))
NO_CLUSTER_PLACEMENT: Final = frozenset(("t", "mac", "vt"))
"""Categories that cluster placement groups do not support."""
BURSTABLE: Final = frozenset(("t2", "t3", "t3a", "t4g"))
FRACTIONAL_GPU: Final = frozenset(("g6f", "gr6f"))
"""Families with a fraction of a GPU, which EC2 counts as 0."""
SINGLE_THREADED: Final = frozenset((
    "c1", "g7", "hpc6a", "hpc6id", "m1", "m2", "m3.medium", "t1", "t2", "u-6tb1.56xlarge",
))
"""In addition to those that follow from manufacturer and generation."""
SUPPORTS_I386: Final = frozenset((
    "c1.medium", "c3.large", "m1.medium", "m1.small", "t1.micro", "t2.medium", "t2.micro",
    "t2.nano", "t2.small",
))
# fmt: on


JsonObject: TypeAlias = dict[str, Any]

EC2_ARCHITECTURES: Final = {"amd64": "x86_64"}


def describe_instance_type(type_info: InstanceTypeInfo) -> JsonObject:
    """One entry of DescribeInstanceTypes."""
    xen = type_info.hypervisor == "xen"
    description: JsonObject = {
        "InstanceType": type_info.name,
        "CurrentGeneration": type_info.family not in PREVIOUS_GENERATION,
        "SupportedUsageClasses": _usage_classes(type_info),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": _virtualization_types(type_info),
        "BareMetal": type_info.is_bare_metal,
        "ProcessorInfo": _processor_info(type_info),
        "VCpuInfo": _vcpu_info(type_info),
        "MemoryInfo": {"SizeInMiB": type_info.memory_mib},
        "InstanceStorageSupported": type_info.local_storage_gb > 0,
        "EbsInfo": _ebs_info(type_info, "unsupported" if xen else "required"),
        "NetworkInfo": _network_info(type_info),
        "PlacementGroupInfo": {"SupportedStrategies": _placement_strategies(type_info)},
        "BurstablePerformanceSupported": type_info.family in BURSTABLE,
    }
    if type_info.hypervisor:
        description["Hypervisor"] = type_info.hypervisor
    if type_info.local_storage_gb:
        description["InstanceStorageInfo"] = _instance_storage_info(type_info)
    if type_info.gpu is not None:
        description["GpuInfo"] = _gpu_info(type_info.gpu, type_info.family in FRACTIONAL_GPU)
    if type_info.accelerator is not None:
        description |= _accelerator_info(type_info.accelerator, type_info.family)
    return description


def _usage_classes(type_info: InstanceTypeInfo) -> list[str]:
    block = ["capacity-block"] if type_info.capacity_block else []
    return [*block, *type_info.capacity_types]


def _virtualization_types(type_info: InstanceTypeInfo) -> list[str]:
    return ["hvm", "paravirtual"] if type_info.family in PARAVIRTUAL else ["hvm"]


def _processor_info(type_info: InstanceTypeInfo) -> JsonObject:
    architecture = type_info.architecture.strip("[]")
    architectures = EC2_ARCHITECTURES.get(architecture, architecture).split()
    older = ["i386"] if type_info.name in SUPPORTS_I386 else []
    info: JsonObject = {
        "SupportedArchitectures": [*older, *architectures],
        "Manufacturer": _manufacturer_name(type_info.cpu_manufacturer),
    }
    if type_info.clock_mhz:
        info["SustainedClockSpeedInGhz"] = type_info.clock_mhz / 1000
    return info


def _vcpu_info(type_info: InstanceTypeInfo) -> JsonObject:
    threads = _threads_per_core(type_info)
    return {
        "DefaultVCpus": type_info.vcpus,
        "DefaultCores": type_info.vcpus // threads,
        "DefaultThreadsPerCore": threads,
    }


def _threads_per_core(type_info: InstanceTypeInfo) -> int:
    if not SINGLE_THREADED.isdisjoint((type_info.family, type_info.name)):
        return 1
    if type_info.cpu_manufacturer == "amd":
        return 1 if (type_info.generation or 0) >= 7 else 2
    return 2 if type_info.cpu_manufacturer == "intel" or type_info.family == "mac2" else 1


def _instance_storage_info(type_info: InstanceTypeInfo) -> JsonObject:
    return {
        "TotalSizeInGB": type_info.local_storage_gb,
        "NvmeSupport": "required" if type_info.nvme else "unsupported",
    }


def _ebs_info(type_info: InstanceTypeInfo, nvme: str) -> JsonObject:
    info: JsonObject = {
        "EbsOptimizedSupport": "unsupported" if type_info.ebs_mbps is None else "default",
        "EncryptionSupport": "supported",
        "NvmeSupport": "supported" if type_info.family == "i3" else nvme,
        "MaximumEbsAttachments": type_info.ebs_attachments,
        "AttachmentLimitType": "dedicated" if type_info.dedicated_ebs_attachments else "shared",
    }
    if type_info.ebs_mbps is not None:
        info["EbsOptimizedInfo"] = {
            "MaximumBandwidthInMbps": type_info.ebs_mbps,
            "MaximumThroughputInMBps": type_info.ebs_mbps / 8,
        }
    return info


def _network_info(type_info: InstanceTypeInfo) -> JsonObject:
    ipv6 = type_info.family not in WITHOUT_IPV6
    performance = _network_performance(type_info)
    info: JsonObject = {
        "NetworkPerformance": performance,
        "MaximumNetworkInterfaces": type_info.all_network_interfaces,
        "MaximumNetworkCards": type_info.network_cards,
        "DefaultNetworkCardIndex": 0,
        "NetworkCards": _network_cards(type_info, performance),
        "Ipv4AddressesPerInterface": type_info.addresses_per_interface,
        "Ipv6AddressesPerInterface": type_info.addresses_per_interface if ipv6 else 0,
        "Ipv6Supported": ipv6,
        "EnaSupport": _ena_support(type_info),
        "EfaSupported": type_info.efa_interfaces > 0,
        "EncryptionInTransitSupported": type_info.encryption_in_transit,
    }
    if type_info.efa_interfaces:
        info["EfaInfo"] = {"MaximumEfaInterfaces": type_info.efa_interfaces}
    return info


def _network_performance(type_info: InstanceTypeInfo) -> str:
    if type_info.network_mbps is None:
        return "Moderate"
    return f"{type_info.network_mbps / 1000:g} Gigabit"


def _network_cards(type_info: InstanceTypeInfo, performance: str) -> list[JsonObject]:
    """The first card has the interfaces for pods; the others share the rest evenly."""
    other_cards = type_info.network_cards - 1
    other_interfaces = type_info.all_network_interfaces - type_info.network_interfaces
    share = (type_info.network_mbps or 0) // type_info.network_cards
    first_share = (type_info.network_mbps or 0) - share * other_cards
    return [
        _network_card(
            index,
            other_interfaces // other_cards if index else type_info.network_interfaces,
            performance if not other_cards else None,
            share if index else first_share,
        )
        for index in range(type_info.network_cards)
    ]


def _network_card(index: int, interfaces: int, performance: str | None, mbps: int) -> JsonObject:
    card: JsonObject = {"NetworkCardIndex": index, "MaximumNetworkInterfaces": interfaces}
    card["NetworkPerformance"] = performance or f"{mbps / 1000:g} Gigabit"
    if mbps:
        card["BaselineBandwidthInGbps"] = mbps / 1000
    return card


def _ena_support(type_info: InstanceTypeInfo) -> str:
    if type_info.hypervisor != "xen":
        return "required"
    supported = not ENA_ON_XEN.isdisjoint((type_info.family, type_info.name))
    return "supported" if supported else "unsupported"


def _placement_strategies(type_info: InstanceTypeInfo) -> list[str]:
    category = type_info.category or type_info.family.partition("-")[0]
    old = type_info.family in PARAVIRTUAL and type_info.family != "c3"
    no_cluster = old or type_info.is_flex or category in NO_CLUSTER_PLACEMENT
    return ["partition", "spread"] if no_cluster else ["cluster", "partition", "spread"]


def _gpu_info(gpu: GpuInfo, sliced: bool) -> JsonObject:
    entry = {
        "Name": _gpu_name(gpu.name),
        "Manufacturer": _manufacturer_name(gpu.manufacturer),
        "Count": 0 if sliced else gpu.count,
        "LogicalGpuCount": gpu.count,
        "MemoryInfo": {"SizeInMiB": gpu.memory_mib},
    }
    return {"Gpus": [entry], "TotalGpuMemoryInMiB": gpu.count * gpu.memory_mib}


def _accelerator_info(accelerator: AcceleratorInfo, family: str) -> JsonObject:
    """Inferentia chips are listed twice, as in EC2: as Neuron devices and as accelerators."""
    name, info = _accelerator_name(accelerator.name), {}
    if accelerator.neuron_cores:
        device = {"Name": name, "Count": accelerator.count}
        cores = {"CoreInfo": {"Count": accelerator.neuron_cores}}
        info["NeuronInfo"] = {"NeuronDevices": [device | cores]}
    if not accelerator.neuron_cores or family.startswith("inf"):
        maker = _manufacturer_name(accelerator.manufacturer)
        chip = {"Name": name, "Manufacturer": maker, "Count": accelerator.count}
        info["InferenceAcceleratorInfo"] = {"Accelerators": [chip]}
    return info


def _manufacturer_name(name: str, names: Mapping[str, str] = MANUFACTURER_NAMES) -> str:
    return names.get(name, name.capitalize())


def _gpu_name(name: str) -> str:
    """GPU names are in capitals, with exceptions."""
    return CHIP_NAMES.get(name, name.upper())


def _accelerator_name(name: str) -> str:
    return CHIP_NAMES.get(name, name.capitalize())


TypeLocation: TypeAlias = tuple[str, str]
"""An instance type and a location that offers it."""
ZoneNameAndId: TypeAlias = tuple[str, str]
"""Zone name and zone id."""

TYPE_FILTER_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "bare-metal": ("BareMetal",),
    "burstable-performance-supported": ("BurstablePerformanceSupported",),
    "current-generation": ("CurrentGeneration",),
    "ebs-info.ebs-optimized-info.maximum-bandwidth-in-mbps": (
        "EbsInfo",
        "EbsOptimizedInfo",
        "MaximumBandwidthInMbps",
    ),
    "ebs-info.ebs-optimized-support": ("EbsInfo", "EbsOptimizedSupport"),
    "ebs-info.encryption-support": ("EbsInfo", "EncryptionSupport"),
    "ebs-info.nvme-support": ("EbsInfo", "NvmeSupport"),
    "hypervisor": ("Hypervisor",),
    "instance-storage-info.nvme-support": ("InstanceStorageInfo", "NvmeSupport"),
    "instance-storage-info.total-size-in-gb": ("InstanceStorageInfo", "TotalSizeInGB"),
    "instance-storage-supported": ("InstanceStorageSupported",),
    "instance-type": ("InstanceType",),
    "memory-info.size-in-mib": ("MemoryInfo", "SizeInMiB"),
    "network-info.efa-info.maximum-efa-interfaces": (
        "NetworkInfo",
        "EfaInfo",
        "MaximumEfaInterfaces",
    ),
    "network-info.efa-supported": ("NetworkInfo", "EfaSupported"),
    "network-info.ena-support": ("NetworkInfo", "EnaSupport"),
    "network-info.encryption-in-transit-supported": ("NetworkInfo", "EncryptionInTransitSupported"),
    "network-info.ipv4-addresses-per-interface": ("NetworkInfo", "Ipv4AddressesPerInterface"),
    "network-info.ipv6-addresses-per-interface": ("NetworkInfo", "Ipv6AddressesPerInterface"),
    "network-info.ipv6-supported": ("NetworkInfo", "Ipv6Supported"),
    "network-info.maximum-network-cards": ("NetworkInfo", "MaximumNetworkCards"),
    "network-info.maximum-network-interfaces": ("NetworkInfo", "MaximumNetworkInterfaces"),
    "network-info.network-performance": ("NetworkInfo", "NetworkPerformance"),
    "processor-info.supported-architecture": ("ProcessorInfo", "SupportedArchitectures"),
    "processor-info.sustained-clock-speed-in-ghz": ("ProcessorInfo", "SustainedClockSpeedInGhz"),
    "supported-root-device-type": ("SupportedRootDeviceTypes",),
    "supported-usage-class": ("SupportedUsageClasses",),
    "supported-virtualization-type": ("SupportedVirtualizationTypes",),
    "vcpu-info.default-cores": ("VCpuInfo", "DefaultCores"),
    "vcpu-info.default-threads-per-core": ("VCpuInfo", "DefaultThreadsPerCore"),
    "vcpu-info.default-vcpus": ("VCpuInfo", "DefaultVCpus"),
}
"""Filters of DescribeInstanceTypes, with the path of the field in the response."""

OFFERING_FILTERS: Final[Mapping[str, Callable[[TypeLocation], Iterable[str]]]] = {
    "instance-type": lambda offering: offering[:1],
    "location": lambda offering: offering[1:],
}


class InstanceTypes:
    """Reads the region offerings only; each description is built once and cached as JSON."""

    name = "ec2"

    def __init__(self, context: AccountContext, region_offerings: RegionOfferings) -> None:
        self.state: msgspec.Struct = EmptyState()
        self._context = context
        self._region_offerings = region_offerings

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "DescribeInstanceTypes": self.describe_types,
            "DescribeInstanceTypeOfferings": self.describe_offerings,
            "DescribeAvailabilityZones": self.describe_zones,
        }

    def describe_types(self, params: Params) -> Response:
        names = apply_filters(
            self._requested_types(params), params.get("Filters"), self._filter_fields
        )
        rows, token = paginate(
            names, params, maximum=100, all_by_default=bool(params.get("InstanceTypes"))
        )
        # Each response needs its own dicts, as callers may change them: decoding cached JSON is
        # much faster than deepcopy.
        entries = b"[" + b",".join(self._encoded_descriptions[name] for name in rows) + b"]"
        return {"InstanceTypes": msgspec.json.decode(entries), **token}

    def describe_offerings(self, params: Params) -> Response:
        kind = params.get("LocationType") or "region"
        rows = apply_filters(self._offerings(kind), params.get("Filters"), OFFERING_FILTERS)
        rows, token = paginate(rows, params, maximum=1000, all_by_default=False)
        views = [
            {"InstanceType": name, "LocationType": kind, "Location": location}
            for name, location in rows
        ]
        return {"InstanceTypeOfferings": views, **token}

    def describe_zones(self, params: Params) -> Response:
        zones = _requested_zones(params, self._region_offerings.zones)
        rows = apply_filters(zones.items(), params.get("Filters"), self._zone_fields())
        return {"AvailabilityZones": [self._zone_view(*row) for row in rows]}

    def _requested_types(self, params: Params) -> Sequence[str]:
        requested = params.get("InstanceTypes")
        if not requested:
            return list(self._region_offerings.instance_types)
        unknown = sorted(
            name for name in requested if name not in self._region_offerings.instance_types
        )
        if unknown:
            raise AwsError(
                "InvalidInstanceType",
                f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
            )
        return sorted(set(requested))

    @cached_property
    def _descriptions(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            name: describe_instance_type(type_info)
            for name, type_info in self._region_offerings.instance_types.items()
        }

    @cached_property
    def _encoded_descriptions(self) -> Mapping[str, bytes]:
        return {name: msgspec.json.encode(entry) for name, entry in self._descriptions.items()}

    @cached_property
    def _filter_fields(self) -> Mapping[str, Callable[[str], Iterable[str]]]:
        return {name: self._filter_field(path) for name, path in TYPE_FILTER_PATHS.items()}

    def _filter_field(self, path: tuple[str, ...]) -> Callable[[str], Iterable[str]]:
        return lambda name: _filter_texts(self._descriptions[name], path)

    def _offerings(self, kind: str) -> Iterable[TypeLocation]:
        region_offerings = self._region_offerings
        if kind == "region":
            return [(name, region_offerings.region) for name in region_offerings.zones_by_type]
        if kind not in ("availability-zone", "availability-zone-id"):
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({kind}) for parameter locationType is invalid.",
            )
        locations = (
            region_offerings.zones
            if kind.endswith("-id")
            else {zone: zone for zone in region_offerings.zones}
        )
        return [
            (name, locations[zone])
            for name, zones in region_offerings.zones_by_type.items()
            for zone in zones
        ]

    def _zone_view(self, name: str, identity: str) -> Response:
        return {
            "ZoneName": name,
            "ZoneId": identity,
            "ZoneType": "availability-zone",
            "State": "available",
            "OptInStatus": "opt-in-not-required",
            "RegionName": self._region_offerings.region,
            "GroupName": f"{self._region_offerings.region}-zg-1",
            "NetworkBorderGroup": self._region_offerings.region,
            "Messages": [],
        }

    def _zone_fields(self) -> Mapping[str, Callable[[ZoneNameAndId], Iterable[str]]]:
        names = {
            "region-name": "RegionName",
            "zone-name": "ZoneName",
            "zone-id": "ZoneId",
            "zone-type": "ZoneType",
            "state": "State",
            "opt-in-status": "OptInStatus",
            "group-name": "GroupName",
        }
        return {name: self._zone_field(key) for name, key in names.items()}

    def _zone_field(self, key: str) -> Callable[[ZoneNameAndId], Iterable[str]]:
        return lambda zone: optional_value(self._zone_view(*zone)[key])


def _requested_zones(params: Params, zones: Mapping[str, str]) -> dict[str, str]:
    """The zones of the request, by name or id; all where it names none."""
    names, ids = params.get("ZoneNames") or [], params.get("ZoneIds") or []
    unknown = [each for each in names if each not in zones]
    unknown += [each for each in ids if each not in zones.values()]
    if unknown:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{unknown[0]}]")
    if not names and not ids:
        return dict(zones)
    return {name: each for name, each in zones.items() if name in names or each in ids}


def _filter_texts(entry: Any, path: tuple[str, ...]) -> Iterable[str]:
    """The values at the path, spelt as filters have them."""
    for key in path:
        entry = entry.get(key) if entry is not None else None
    if entry is None:
        return ()
    if isinstance(entry, bool):
        return bool_value(entry)
    return entry if isinstance(entry, list) else (f"{entry}",)
