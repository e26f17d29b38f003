"""Machines: what EC2 says of an instance type, before any class or region has its say."""

import re
from functools import cache
from typing import Final

import msgspec

FAMILY: Final = re.compile(r"(?P<category>[a-z]+)(?:-[0-9]+tb)?(?P<generation>[0-9]+).*")


@cache
def naming(family: str) -> tuple[str, int] | tuple[None, None]:
    """Category and generation, as the name of the family has them."""
    match = FAMILY.fullmatch(family)
    return (match["category"], int(match["generation"])) if match else (None, None)


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    """The one kind of GPU that a type carries."""

    name: str
    manufacturer: str
    count: int
    """GPUs that a pod can ask for; a slice of a GPU counts as one."""
    memory_mib: int
    """Of one of them."""


class Accelerator(msgspec.Struct, frozen=True, array_like=True):
    """Chips for training or inference that are no GPUs."""

    name: str
    manufacturer: str
    count: int
    neuron_cores: int
    """Of one device; zero where the device is not of the Neuron kind."""


class Machine(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """An instance type: one row of the data file, whose columns are these fields in this order."""

    name: str
    vcpus: int
    memory_mib: int
    architecture: str
    """As the arch label spells it; in brackets where Kubernetes has no word for it (Macs)."""
    cpu_manufacturer: str
    clock_mhz: int
    hypervisor: str
    """Empty on bare metal."""
    spot: bool
    encryption_in_transit: bool
    addresses_per_interface: int
    """IPv4."""
    network_interfaces: int
    """On the default network card, the only one that gives addresses to pods."""
    all_network_interfaces: int
    network_cards: int
    ebs_mbps: int | None = None
    """None where EBS bandwidth is not dedicated by default."""
    network_mbps: int | None = None
    """None where EC2 only has words for it ("Moderate")."""
    local_storage_gb: int = 0
    nvme: bool = False
    """Whether the local disks are NVMe."""
    efa_interfaces: int = 0
    branch_interfaces: int | None = None
    """Where the type does not follow the rule of `branch`."""
    capacity_block: bool = False
    gpu: Gpu | None = None
    accelerator: Accelerator | None = None

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        return self.name.partition(".")[2]

    @property
    def category(self) -> str | None:
        """The letters that open the name; None where no number follows them (mac-m4)."""
        return naming(self.family)[0]

    @property
    def generation(self) -> int | None:
        return naming(self.family)[1]

    @property
    def bare_metal(self) -> bool:
        return not self.hypervisor

    @property
    def flex(self) -> bool:
        """Sold at less than the full use of its CPUs."""
        return "-flex" in self.family

    @property
    def capacity_types(self) -> tuple[str, ...]:
        """How it can be bought without a reservation."""
        return ("on-demand", "spot") if self.spot else ("on-demand",)
