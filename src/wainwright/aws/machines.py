"""Machines: rows of DescribeInstanceTypes as the catalogue knows instance types."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from wainwright.aws.wire import Row
from wainwright.catalogue import builtin
from wainwright.catalogue.machine import Accelerator, Gpu, Machine

ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
GIGABIT: Final = re.compile(r"(?:(?P<cards>\d+)x )?(?P<figure>\d+(?:\.\d+)?) Gigabit")


def machines(rows: Iterable[Row]) -> dict[str, Machine]:
    """By name, in order. A row that lacks what every machine has is left out: one type that
    nobody understands must not hide all others."""
    found: dict[str, Machine] = {}
    for row in rows:
        try:
            each = machine(row)
        except (KeyError, IndexError, TypeError):
            continue
        found[each.name] = each
    return dict(sorted(found.items()))


def machine(row: Row) -> Machine:
    """KeyError, IndexError or TypeError where something is missing."""
    network, processor = row["NetworkInfo"], row["ProcessorInfo"]
    cards, storage = network["NetworkCards"], row.get("InstanceStorageInfo") or {}
    usages = row.get("SupportedUsageClasses") or ()
    return Machine(
        name=row["InstanceType"],
        vcpus=row["VCpuInfo"]["DefaultVCpus"],
        memory_mib=row["MemoryInfo"]["SizeInMiB"],
        architecture=_architecture(processor["SupportedArchitectures"]),
        cpu_manufacturer=_label(processor.get("Manufacturer") or "unknown"),
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
        ebs_mbps=_ebs(row.get("EbsInfo") or {}),
        network_mbps=_bandwidth(network),
        local_storage_gb=storage.get("TotalSizeInGB", 0),
        nvme=storage.get("NvmeSupport") == "required",
        efa_interfaces=(network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0),
        branch_interfaces=_branches(row["InstanceType"]),
        capacity_block="capacity-block" in usages,
        gpu=_gpu(row),
        accelerator=_accelerator(row),
    )


def _architecture(supported: Iterable[str]) -> str:
    known = [ARCHITECTURES[each] for each in supported if each in ARCHITECTURES]
    return known[0] if known else f"[{' '.join(supported)}]"


def _label(text: str) -> str:
    return text.lower().replace(" ", "-")


def _ebs(ebs: Mapping[str, Any]) -> int | None:
    """Only what is dedicated without asking counts."""
    if ebs.get("EbsOptimizedSupport") != "default":
        return None
    found: int | None = (ebs.get("EbsOptimizedInfo") or {}).get("MaximumBandwidthInMbps")
    return found


def _bandwidth(network: Mapping[str, Any]) -> int | None:
    """The figure that EC2 states for the whole machine, else what its cards carry at all times."""
    stated = network.get("NetworkPerformance") or ""
    figure = GIGABIT.fullmatch(stated)
    if figure:
        return int(Decimal(figure["figure"]) * 1000) * int(figure["cards"] or 1)
    baselines = [card.get("BaselineBandwidthInGbps") for card in network["NetworkCards"]]
    if not stated.startswith("Up to") or None in baselines:
        return None
    return int(sum(Decimal(str(each)) for each in baselines) * 1000)


def _branches(name: str) -> int | None:
    """EC2 does not say it; the exceptions to the rule are in the built-in catalogue."""
    known = builtin.machines().get(name)
    return None if known is None else known.branch_interfaces


def _gpu(row: Row) -> Gpu | None:
    kinds = (row.get("GpuInfo") or {}).get("Gpus") or []
    if len(kinds) != 1:
        return None
    (only,) = kinds
    # A type with a slice of a GPU counts no GPU of its own, but a pod still finds one to use.
    count = only.get("Count") or only.get("LogicalGpuCount") or 1
    memory = (only.get("MemoryInfo") or {}).get("SizeInMiB", 0)
    return Gpu(_label(only["Name"]), _label(only["Manufacturer"]), count, memory)


def _accelerator(row: Row) -> Accelerator | None:
    """Neuron devices are listed twice; the list of their own also has the cores."""
    for device in (row.get("NeuronInfo") or {}).get("NeuronDevices") or ():
        cores = (device.get("CoreInfo") or {}).get("Count", 0)
        return Accelerator(_label(device["Name"]), "aws", device["Count"], cores)
    for device in (row.get("InferenceAcceleratorInfo") or {}).get("Accelerators") or ():
        maker = _label(device["Manufacturer"])
        return Accelerator(_label(device["Name"]), maker, device["Count"], 0)
    return None
