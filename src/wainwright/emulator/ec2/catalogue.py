"""The catalogue of the emulated EC2: instance types, where they are offered, and the zones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.emulator.ec2.goods import Goods
from wainwright.emulator.ec2.typeinfo import described
from wainwright.emulator.filters import matching, one, yes
from wainwright.emulator.paging import page
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

Offering: TypeAlias = tuple[str, str]
"""An instance type and where it is offered."""
Zone: TypeAlias = tuple[str, str]
"""Its name and its id."""

PATHS: Final[Mapping[str, tuple[str, ...]]] = {
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

OFFERING_FIELDS: Final[Mapping[str, Callable[[Offering], Iterable[str]]]] = {
    "instance-type": lambda offering: offering[:1],
    "location": lambda offering: offering[1:],
}


class NoState(msgspec.Struct):
    """Of a part that remembers nothing."""


class Catalogue:
    """Answers from the goods alone; each type's entry is made once and kept as JSON."""

    name = "ec2"

    def __init__(self, world: World, goods: Goods) -> None:
        self.state: msgspec.Struct = NoState()
        self._world = world
        self._goods = goods

    def operations(self) -> Mapping[str, Handler]:
        return {
            "DescribeInstanceTypes": self.describe_types,
            "DescribeInstanceTypeOfferings": self.describe_offerings,
            "DescribeAvailabilityZones": self.describe_zones,
        }

    def describe_types(self, params: Params) -> Answer:
        names = matching(self._named(params), params.get("Filters"), self._fields)
        rows, token = page(names, params, most=100, whole=bool(params.get("InstanceTypes")))
        # Decoding what was encoded once gives fresh dicts far sooner than copying does.
        entries = b"[" + b",".join(self._encoded[name] for name in rows) + b"]"
        return {"InstanceTypes": msgspec.json.decode(entries), **token}

    def describe_offerings(self, params: Params) -> Answer:
        kind = params.get("LocationType") or "region"
        rows = matching(self._offerings(kind), params.get("Filters"), OFFERING_FIELDS)
        rows, token = page(rows, params, most=1000, whole=False)
        found = [
            {"InstanceType": name, "LocationType": kind, "Location": place} for name, place in rows
        ]
        return {"InstanceTypeOfferings": found, **token}

    def describe_zones(self, params: Params) -> Answer:
        wanted = _wanted(params, self._goods.zones)
        rows = matching(wanted.items(), params.get("Filters"), self._zone_fields())
        return {"AvailabilityZones": [self._zone(*row) for row in rows]}

    def _named(self, params: Params) -> Sequence[str]:
        asked = params.get("InstanceTypes")
        if not asked:
            return list(self._goods.machines)
        unknown = sorted(name for name in asked if name not in self._goods.machines)
        if unknown:
            raise AwsError(
                "InvalidInstanceType",
                f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
            )
        return sorted(set(asked))

    @cached_property
    def _described(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: described(machine) for name, machine in self._goods.machines.items()}

    @cached_property
    def _encoded(self) -> Mapping[str, bytes]:
        return {name: msgspec.json.encode(entry) for name, entry in self._described.items()}

    @cached_property
    def _fields(self) -> Mapping[str, Callable[[str], Iterable[str]]]:
        return {name: self._field(path) for name, path in PATHS.items()}

    def _field(self, path: tuple[str, ...]) -> Callable[[str], Iterable[str]]:
        return lambda name: _texts(self._described[name], path)

    def _offerings(self, kind: str) -> Iterable[Offering]:
        goods = self._goods
        if kind == "region":
            return [(name, goods.region) for name in goods.offered]
        if kind not in ("availability-zone", "availability-zone-id"):
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({kind}) for parameter locationType is invalid.",
            )
        places = goods.zones if kind.endswith("-id") else {zone: zone for zone in goods.zones}
        return [(name, places[zone]) for name, zones in goods.offered.items() for zone in zones]

    def _zone(self, name: str, identity: str) -> Answer:
        return {
            "ZoneName": name,
            "ZoneId": identity,
            "ZoneType": "availability-zone",
            "State": "available",
            "OptInStatus": "opt-in-not-required",
            "RegionName": self._goods.region,
            "GroupName": f"{self._goods.region}-zg-1",
            "NetworkBorderGroup": self._goods.region,
            "Messages": [],
        }

    def _zone_fields(self) -> Mapping[str, Callable[[Zone], Iterable[str]]]:
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

    def _zone_field(self, key: str) -> Callable[[Zone], Iterable[str]]:
        return lambda zone: one(self._zone(*zone)[key])


def _wanted(params: Params, zones: Mapping[str, str]) -> dict[str, str]:
    """The zones that are named, by name or by id; all where none is."""
    names, ids = params.get("ZoneNames") or [], params.get("ZoneIds") or []
    unknown = [each for each in names if each not in zones]
    unknown += [each for each in ids if each not in zones.values()]
    if unknown:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{unknown[0]}]")
    if not names and not ids:
        return dict(zones)
    return {name: each for name, each in zones.items() if name in names or each in ids}


def _texts(entry: Any, path: tuple[str, ...]) -> Iterable[str]:
    """What filters compare with: the values at the end of the path, as EC2 writes them."""
    for key in path:
        entry = entry.get(key) if entry is not None else None
    if entry is None:
        return ()
    if isinstance(entry, bool):
        return yes(entry)
    return entry if isinstance(entry, list) else (f"{entry}",)
