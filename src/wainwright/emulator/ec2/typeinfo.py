"""What EC2 says of an instance type: our row of the catalogue, spelt as DescribeInstanceTypes does.

Our rows do not hold everything that EC2 knows. What is left out: boot modes, enclaves, the disks
behind the sum of local storage, peak and baseline apart, memory of Neuron devices, FPGAs. What is
derived, and from what: threads per core from maker and generation, network cards from their number
and interfaces, their bandwidth as equal shares of the machine's, EBS throughput from bandwidth.
Where EC2 has only words for the network, our word is Moderate; EBS that is not optimized by default
counts as not optimized at all.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from wainwright.catalogue.machine import Accelerator, Gpu, Machine
from wainwright.emulator.ec2.families import (
    BURSTABLE,
    CHIPS,
    ENA_ON_XEN,
    MAKERS,
    PARAVIRTUAL,
    PREVIOUS,
    SINGLE_THREADED,
    SLICED,
    THIRTY_TWO_BITS,
    WITHOUT_CLUSTERS,
    WITHOUT_IPV6,
)

Json: TypeAlias = dict[str, Any]

ARCHITECTURES: Final = {"amd64": "x86_64"}


def described(machine: Machine) -> Json:
    """One entry of DescribeInstanceTypes."""
    xen = machine.hypervisor == "xen"
    found: Json = {
        "InstanceType": machine.name,
        "CurrentGeneration": machine.family not in PREVIOUS,
        "SupportedUsageClasses": _usage_classes(machine),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": _virtualization(machine),
        "BareMetal": machine.bare_metal,
        "ProcessorInfo": _processor(machine),
        "VCpuInfo": _cpus(machine),
        "MemoryInfo": {"SizeInMiB": machine.memory_mib},
        "InstanceStorageSupported": machine.local_storage_gb > 0,
        "EbsInfo": _ebs(machine, "unsupported" if xen else "required"),
        "NetworkInfo": _network(machine),
        "PlacementGroupInfo": {"SupportedStrategies": _strategies(machine)},
        "BurstablePerformanceSupported": machine.family in BURSTABLE,
    }
    if machine.hypervisor:
        found["Hypervisor"] = machine.hypervisor
    if machine.local_storage_gb:
        found["InstanceStorageInfo"] = _storage(machine)
    if machine.gpu is not None:
        found["GpuInfo"] = _gpus(machine.gpu, machine.family in SLICED)
    if machine.accelerator is not None:
        found |= _accelerators(machine.accelerator, machine.family)
    return found


def _usage_classes(machine: Machine) -> list[str]:
    block = ["capacity-block"] if machine.capacity_block else []
    return [*block, *machine.capacity_types]


def _virtualization(machine: Machine) -> list[str]:
    return ["hvm", "paravirtual"] if machine.family in PARAVIRTUAL else ["hvm"]


def _processor(machine: Machine) -> Json:
    architecture = machine.architecture.strip("[]")
    architectures = ARCHITECTURES.get(architecture, architecture).split()
    older = ["i386"] if machine.name in THIRTY_TWO_BITS else []
    found: Json = {
        "SupportedArchitectures": [*older, *architectures],
        "Manufacturer": _maker(machine.cpu_manufacturer),
    }
    if machine.clock_mhz:
        found["SustainedClockSpeedInGhz"] = machine.clock_mhz / 1000
    return found


def _cpus(machine: Machine) -> Json:
    threads = _threads(machine)
    return {
        "DefaultVCpus": machine.vcpus,
        "DefaultCores": machine.vcpus // threads,
        "DefaultThreadsPerCore": threads,
    }


def _threads(machine: Machine) -> int:
    if not SINGLE_THREADED.isdisjoint((machine.family, machine.name)):
        return 1
    if machine.cpu_manufacturer == "amd":
        return 1 if (machine.generation or 0) >= 7 else 2
    return 2 if machine.cpu_manufacturer == "intel" or machine.family == "mac2" else 1


def _storage(machine: Machine) -> Json:
    return {
        "TotalSizeInGB": machine.local_storage_gb,
        "NvmeSupport": "required" if machine.nvme else "unsupported",
    }


def _ebs(machine: Machine, nvme: str) -> Json:
    found: Json = {
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


def _network(machine: Machine) -> Json:
    ipv6 = machine.family not in WITHOUT_IPV6
    performance = _performance(machine)
    found: Json = {
        "NetworkPerformance": performance,
        "MaximumNetworkInterfaces": machine.all_network_interfaces,
        "MaximumNetworkCards": machine.network_cards,
        "DefaultNetworkCardIndex": 0,
        "NetworkCards": _cards(machine, performance),
        "Ipv4AddressesPerInterface": machine.addresses_per_interface,
        "Ipv6AddressesPerInterface": machine.addresses_per_interface if ipv6 else 0,
        "Ipv6Supported": ipv6,
        "EnaSupport": _ena(machine),
        "EfaSupported": machine.efa_interfaces > 0,
        "EncryptionInTransitSupported": machine.encryption_in_transit,
    }
    if machine.efa_interfaces:
        found["EfaInfo"] = {"MaximumEfaInterfaces": machine.efa_interfaces}
    return found


def _performance(machine: Machine) -> str:
    if machine.network_mbps is None:
        return "Moderate"
    return f"{machine.network_mbps / 1000:g} Gigabit"


def _cards(machine: Machine, performance: str) -> list[Json]:
    """The first has the interfaces that count; the others share what is left evenly."""
    others = machine.network_cards - 1
    rest = machine.all_network_interfaces - machine.network_interfaces
    share = (machine.network_mbps or 0) // machine.network_cards
    first = (machine.network_mbps or 0) - share * others
    return [
        _card(
            index,
            rest // others if index else machine.network_interfaces,
            performance if not others else None,
            share if index else first,
        )
        for index in range(machine.network_cards)
    ]


def _card(index: int, interfaces: int, performance: str | None, mbps: int) -> Json:
    found: Json = {"NetworkCardIndex": index, "MaximumNetworkInterfaces": interfaces}
    found["NetworkPerformance"] = performance or f"{mbps / 1000:g} Gigabit"
    if mbps:
        found["BaselineBandwidthInGbps"] = mbps / 1000
    return found


def _ena(machine: Machine) -> str:
    if machine.hypervisor != "xen":
        return "required"
    known = not ENA_ON_XEN.isdisjoint((machine.family, machine.name))
    return "supported" if known else "unsupported"


def _strategies(machine: Machine) -> list[str]:
    category = machine.category or machine.family.partition("-")[0]
    old = machine.family in PARAVIRTUAL and machine.family != "c3"
    scattered = old or machine.flex or category in WITHOUT_CLUSTERS
    return ["partition", "spread"] if scattered else ["cluster", "partition", "spread"]


def _gpus(gpu: Gpu, sliced: bool) -> Json:
    found = {
        "Name": _chip(gpu.name),
        "Manufacturer": _maker(gpu.manufacturer),
        "Count": 0 if sliced else gpu.count,
        "LogicalGpuCount": gpu.count,
        "MemoryInfo": {"SizeInMiB": gpu.memory_mib},
    }
    return {"Gpus": [found], "TotalGpuMemoryInMiB": gpu.count * gpu.memory_mib}


def _accelerators(accelerator: Accelerator, family: str) -> Json:
    """Inferentia chips are listed twice, as EC2 does: by their purpose and by their kind."""
    name, found = _named(accelerator.name), {}
    if accelerator.neuron_cores:
        device = {"Name": name, "Count": accelerator.count}
        cores = {"CoreInfo": {"Count": accelerator.neuron_cores}}
        found["NeuronInfo"] = {"NeuronDevices": [device | cores]}
    if not accelerator.neuron_cores or family.startswith("inf"):
        maker = _maker(accelerator.manufacturer)
        chip = {"Name": name, "Manufacturer": maker, "Count": accelerator.count}
        found["InferenceAcceleratorInfo"] = {"Accelerators": [chip]}
    return found


def _maker(name: str, known: Mapping[str, str] = MAKERS) -> str:
    return known.get(name, name.capitalize())


def _chip(name: str) -> str:
    """GPUs are named in capitals, but for those that are not."""
    return CHIPS.get(name, name.upper())


def _named(name: str) -> str:
    return CHIPS.get(name, name.capitalize())
