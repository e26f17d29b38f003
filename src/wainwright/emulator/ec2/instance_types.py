"""Instance types as EC2 describes them, where they are offered, and the zones.

Our rows of the catalogue, spelt as DescribeInstanceTypes does, do not hold everything that EC2
knows. What is left out: boot modes, enclaves, the disks behind the sum of local storage, peak and
baseline apart, memory of Neuron devices, FPGAs. What is derived, and from what: threads per core
from manufacturer and generation, network cards from their number and interfaces, their bandwidth as
equal shares of the whole, EBS throughput from bandwidth. Where EC2 has only words for the network,
our word is Moderate; EBS that is not optimized by default counts as not optimized at all.
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
"""Names of chips that are not simply their labels in capitals."""

# fmt: off
PREVIOUS_GENERATION: Final = frozenset((
    "a1", "c1", "c3", "c4", "c5", "c6gn", "d2", "g5", "i2", "m1", "m2", "m3", "m4", "m5", "m6i",
    "r3", "r4", "r5", "r6i", "r7g", "r7gd", "t1",
))
"""No longer of the current generation."""
PARAVIRTUAL: Final = frozenset(("c1", "c3", "m1", "m2", "m3", "t1"))
WITHOUT_IPV6: Final = PARAVIRTUAL - {"c3"}
ENA_ON_XEN: Final = frozenset(("h1", "i3", "m4.16xlarge", "r4", "x1", "x1e"))
NO_CLUSTER_PLACEMENT: Final = frozenset(("t", "mac", "vt"))
"""Categories that cluster placement groups do not take."""
BURSTABLE: Final = frozenset(("t2", "t3", "t3a", "t4g"))
FRACTIONAL_GPU: Final = frozenset(("g6f", "gr6f"))
"""With a slice of a GPU, which EC2 counts as none."""
SINGLE_THREADED: Final = frozenset((
    "c1", "g7", "hpc6a", "hpc6id", "m1", "m2", "m3.medium", "t1", "t2", "u-6tb1.56xlarge",
))
"""Beside those that are so by their maker and generation."""
SUPPORTS_I386: Final = frozenset((
    "c1.medium", "c3.large", "m1.medium", "m1.small", "t1.micro", "t2.medium", "t2.micro",
    "t2.nano", "t2.small",
))
# fmt: on


JsonObject: TypeAlias = dict[str, Any]

EC2_ARCHITECTURES: Final = {"amd64": "x86_64"}


def describe_instance_type(machine: InstanceTypeInfo) -> JsonObject:
    """One entry of DescribeInstanceTypes."""
    xen = machine.hypervisor == "xen"
    found: JsonObject = {
        "InstanceType": machine.name,
        "CurrentGeneration": machine.family not in PREVIOUS_GENERATION,
        "SupportedUsageClasses": _usage_classes(machine),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": _virtualization_types(machine),
        "BareMetal": machine.is_bare_metal,
        "ProcessorInfo": _processor_info(machine),
        "VCpuInfo": _vcpu_info(machine),
        "MemoryInfo": {"SizeInMiB": machine.memory_mib},
        "InstanceStorageSupported": machine.local_storage_gb > 0,
        "EbsInfo": _ebs_info(machine, "unsupported" if xen else "required"),
        "NetworkInfo": _network_info(machine),
        "PlacementGroupInfo": {"SupportedStrategies": _placement_strategies(machine)},
        "BurstablePerformanceSupported": machine.family in BURSTABLE,
    }
    if machine.hypervisor:
        found["Hypervisor"] = machine.hypervisor
    if machine.local_storage_gb:
        found["InstanceStorageInfo"] = _instance_storage_info(machine)
    if machine.gpu is not None:
        found["GpuInfo"] = _gpu_info(machine.gpu, machine.family in FRACTIONAL_GPU)
    if machine.accelerator is not None:
        found |= _accelerator_info(machine.accelerator, machine.family)
    return found


def _usage_classes(machine: InstanceTypeInfo) -> list[str]:
    block = ["capacity-block"] if machine.capacity_block else []
    return [*block, *machine.capacity_types]


def _virtualization_types(machine: InstanceTypeInfo) -> list[str]:
    return ["hvm", "paravirtual"] if machine.family in PARAVIRTUAL else ["hvm"]


def _processor_info(machine: InstanceTypeInfo) -> JsonObject:
    architecture = machine.architecture.strip("[]")
    architectures = EC2_ARCHITECTURES.get(architecture, architecture).split()
    older = ["i386"] if machine.name in SUPPORTS_I386 else []
    found: JsonObject = {
        "SupportedArchitectures": [*older, *architectures],
        "Manufacturer": _manufacturer_name(machine.cpu_manufacturer),
    }
    if machine.clock_mhz:
        found["SustainedClockSpeedInGhz"] = machine.clock_mhz / 1000
    return found


def _vcpu_info(machine: InstanceTypeInfo) -> JsonObject:
    threads = _threads_per_core(machine)
    return {
        "DefaultVCpus": machine.vcpus,
        "DefaultCores": machine.vcpus // threads,
        "DefaultThreadsPerCore": threads,
    }


def _threads_per_core(machine: InstanceTypeInfo) -> int:
    if not SINGLE_THREADED.isdisjoint((machine.family, machine.name)):
        return 1
    if machine.cpu_manufacturer == "amd":
        return 1 if (machine.generation or 0) >= 7 else 2
    return 2 if machine.cpu_manufacturer == "intel" or machine.family == "mac2" else 1


def _instance_storage_info(machine: InstanceTypeInfo) -> JsonObject:
    return {
        "TotalSizeInGB": machine.local_storage_gb,
        "NvmeSupport": "required" if machine.nvme else "unsupported",
    }


def _ebs_info(machine: InstanceTypeInfo, nvme: str) -> JsonObject:
    found: JsonObject = {
        "EbsOptimizedSupport": "unsupported" if machine.ebs_mbps is None else "default",
        "EncryptionSupport": "supported",
        "NvmeSupport": "supported" if machine.family == "i3" else nvme,
    }
    if machine.ebs_mbps is not None:
        found["EbsOptimizedInfo"] = {
            "MaximumBandwidthInMbps": machine.ebs_mbps,
            "MaximumThroughputInMBps": machine.ebs_mbps / 8,
        }
    return found


def _network_info(machine: InstanceTypeInfo) -> JsonObject:
    ipv6 = machine.family not in WITHOUT_IPV6
    performance = _network_performance(machine)
    found: JsonObject = {
        "NetworkPerformance": performance,
        "MaximumNetworkInterfaces": machine.all_network_interfaces,
        "MaximumNetworkCards": machine.network_cards,
        "DefaultNetworkCardIndex": 0,
        "NetworkCards": _network_cards(machine, performance),
        "Ipv4AddressesPerInterface": machine.addresses_per_interface,
        "Ipv6AddressesPerInterface": machine.addresses_per_interface if ipv6 else 0,
        "Ipv6Supported": ipv6,
        "EnaSupport": _ena_support(machine),
        "EfaSupported": machine.efa_interfaces > 0,
        "EncryptionInTransitSupported": machine.encryption_in_transit,
    }
    if machine.efa_interfaces:
        found["EfaInfo"] = {"MaximumEfaInterfaces": machine.efa_interfaces}
    return found


def _network_performance(machine: InstanceTypeInfo) -> str:
    if machine.network_mbps is None:
        return "Moderate"
    return f"{machine.network_mbps / 1000:g} Gigabit"


def _network_cards(machine: InstanceTypeInfo, performance: str) -> list[JsonObject]:
    """The first has the interfaces that count; the others share what is left evenly."""
    others = machine.network_cards - 1
    rest = machine.all_network_interfaces - machine.network_interfaces
    share = (machine.network_mbps or 0) // machine.network_cards
    first = (machine.network_mbps or 0) - share * others
    return [
        _network_card(
            index,
            rest // others if index else machine.network_interfaces,
            performance if not others else None,
            share if index else first,
        )
        for index in range(machine.network_cards)
    ]


def _network_card(index: int, interfaces: int, performance: str | None, mbps: int) -> JsonObject:
    found: JsonObject = {"NetworkCardIndex": index, "MaximumNetworkInterfaces": interfaces}
    found["NetworkPerformance"] = performance or f"{mbps / 1000:g} Gigabit"
    if mbps:
        found["BaselineBandwidthInGbps"] = mbps / 1000
    return found


def _ena_support(machine: InstanceTypeInfo) -> str:
    if machine.hypervisor != "xen":
        return "required"
    known = not ENA_ON_XEN.isdisjoint((machine.family, machine.name))
    return "supported" if known else "unsupported"


def _placement_strategies(machine: InstanceTypeInfo) -> list[str]:
    category = machine.category or machine.family.partition("-")[0]
    old = machine.family in PARAVIRTUAL and machine.family != "c3"
    scattered = old or machine.is_flex or category in NO_CLUSTER_PLACEMENT
    return ["partition", "spread"] if scattered else ["cluster", "partition", "spread"]


def _gpu_info(gpu: GpuInfo, sliced: bool) -> JsonObject:
    found = {
        "Name": _gpu_name(gpu.name),
        "Manufacturer": _manufacturer_name(gpu.manufacturer),
        "Count": 0 if sliced else gpu.count,
        "LogicalGpuCount": gpu.count,
        "MemoryInfo": {"SizeInMiB": gpu.memory_mib},
    }
    return {"Gpus": [found], "TotalGpuMemoryInMiB": gpu.count * gpu.memory_mib}


def _accelerator_info(accelerator: AcceleratorInfo, family: str) -> JsonObject:
    """Inferentia chips are listed twice, as EC2 does: by their purpose and by their kind."""
    name, found = _accelerator_name(accelerator.name), {}
    if accelerator.neuron_cores:
        device = {"Name": name, "Count": accelerator.count}
        cores = {"CoreInfo": {"Count": accelerator.neuron_cores}}
        found["NeuronInfo"] = {"NeuronDevices": [device | cores]}
    if not accelerator.neuron_cores or family.startswith("inf"):
        maker = _manufacturer_name(accelerator.manufacturer)
        chip = {"Name": name, "Manufacturer": maker, "Count": accelerator.count}
        found["InferenceAcceleratorInfo"] = {"Accelerators": [chip]}
    return found


def _manufacturer_name(name: str, known: Mapping[str, str] = MANUFACTURER_NAMES) -> str:
    return known.get(name, name.capitalize())


def _gpu_name(name: str) -> str:
    """GPUs are named in capitals, but for those that are not."""
    return CHIP_NAMES.get(name, name.upper())


def _accelerator_name(name: str) -> str:
    return CHIP_NAMES.get(name, name.capitalize())


TypeLocation: TypeAlias = tuple[str, str]
"""An instance type and where it is offered."""
ZoneNameAndId: TypeAlias = tuple[str, str]
"""Its name and its id."""

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
"""Filters of DescribeInstanceTypes, with where the answer has what they look at."""

OFFERING_FILTERS: Final[Mapping[str, Callable[[TypeLocation], Iterable[str]]]] = {
    "instance-type": lambda offering: offering[:1],
    "location": lambda offering: offering[1:],
}


class InstanceTypes:
    """Answers from the goods alone; each type's entry is made once and kept as JSON."""

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
        names = apply_filters(self._named(params), params.get("Filters"), self._fields)
        rows, token = paginate(names, params, maximum=100, whole=bool(params.get("InstanceTypes")))
        # Decoding what was encoded once gives fresh dicts far sooner than copying does.
        entries = b"[" + b",".join(self._encoded[name] for name in rows) + b"]"
        return {"InstanceTypes": msgspec.json.decode(entries), **token}

    def describe_offerings(self, params: Params) -> Response:
        kind = params.get("LocationType") or "region"
        rows = apply_filters(self._offerings(kind), params.get("Filters"), OFFERING_FILTERS)
        rows, token = paginate(rows, params, maximum=1000, whole=False)
        found = [
            {"InstanceType": name, "LocationType": kind, "Location": place} for name, place in rows
        ]
        return {"InstanceTypeOfferings": found, **token}

    def describe_zones(self, params: Params) -> Response:
        wanted = _requested_zones(params, self._region_offerings.zones)
        rows = apply_filters(wanted.items(), params.get("Filters"), self._zone_fields())
        return {"AvailabilityZones": [self._zone(*row) for row in rows]}

    def _named(self, params: Params) -> Sequence[str]:
        asked = params.get("InstanceTypes")
        if not asked:
            return list(self._region_offerings.machines)
        unknown = sorted(name for name in asked if name not in self._region_offerings.machines)
        if unknown:
            raise AwsError(
                "InvalidInstanceType",
                f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
            )
        return sorted(set(asked))

    @cached_property
    def _described(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            name: describe_instance_type(machine)
            for name, machine in self._region_offerings.machines.items()
        }

    @cached_property
    def _encoded(self) -> Mapping[str, bytes]:
        return {name: msgspec.json.encode(entry) for name, entry in self._described.items()}

    @cached_property
    def _fields(self) -> Mapping[str, Callable[[str], Iterable[str]]]:
        return {name: self._field(path) for name, path in TYPE_FILTER_PATHS.items()}

    def _field(self, path: tuple[str, ...]) -> Callable[[str], Iterable[str]]:
        return lambda name: _filter_texts(self._described[name], path)

    def _offerings(self, kind: str) -> Iterable[TypeLocation]:
        region_offerings = self._region_offerings
        if kind == "region":
            return [(name, region_offerings.region) for name in region_offerings.offered]
        if kind not in ("availability-zone", "availability-zone-id"):
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({kind}) for parameter locationType is invalid.",
            )
        places = (
            region_offerings.zones
            if kind.endswith("-id")
            else {zone: zone for zone in region_offerings.zones}
        )
        return [
            (name, places[zone])
            for name, zones in region_offerings.offered.items()
            for zone in zones
        ]

    def _zone(self, name: str, identity: str) -> Response:
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
        return lambda zone: optional_value(self._zone(*zone)[key])


def _requested_zones(params: Params, zones: Mapping[str, str]) -> dict[str, str]:
    """The zones that are named, by name or by id; all where none is."""
    names, ids = params.get("ZoneNames") or [], params.get("ZoneIds") or []
    unknown = [each for each in names if each not in zones]
    unknown += [each for each in ids if each not in zones.values()]
    if unknown:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{unknown[0]}]")
    if not names and not ids:
        return dict(zones)
    return {name: each for name, each in zones.items() if name in names or each in ids}


def _filter_texts(entry: Any, path: tuple[str, ...]) -> Iterable[str]:
    """What filters compare with: the values at the end of the path, as EC2 writes them."""
    for key in path:
        entry = entry.get(key) if entry is not None else None
    if entry is None:
        return ()
    if isinstance(entry, bool):
        return bool_value(entry)
    return entry if isinstance(entry, list) else (f"{entry}",)
