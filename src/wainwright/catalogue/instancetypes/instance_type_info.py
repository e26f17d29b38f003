"""What EC2 says of instance types, before any node class or region has its say: the built-in table.

The table is a committed data file whose columns are the fields of InstanceTypeInfo in their
order; the file names its columns, so that a stale one is noticed.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from wainwright import data

FAMILY_NAME: Final = re.compile(r"(?P<category>[a-z]+)(?:-[0-9]+tb)?(?P<generation>[0-9]+).*")


@cache
def parse_family_name(family: str) -> tuple[str, int] | tuple[None, None]:
    """Category and generation, as the name of the family has them."""
    match = FAMILY_NAME.fullmatch(family)
    return (match["category"], int(match["generation"])) if match else (None, None)


class GpuInfo(msgspec.Struct, frozen=True, array_like=True):
    """The one kind of GPU that a type carries."""

    name: str
    manufacturer: str
    count: int
    """GPUs that a pod can ask for; a slice of a GPU counts as one."""
    memory_mib: int
    """Of one of them."""


class AcceleratorInfo(msgspec.Struct, frozen=True, array_like=True):
    """Chips for training or inference that are no GPUs."""

    name: str
    manufacturer: str
    count: int
    neuron_cores: int
    """Of one device; zero where the device is not of the Neuron kind."""


class InstanceTypeInfo(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
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
    gpu: GpuInfo | None = None
    accelerator: AcceleratorInfo | None = None

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        return self.name.partition(".")[2]

    @property
    def category(self) -> str | None:
        """The letters that open the name; None where no number follows them (mac-m4)."""
        return parse_family_name(self.family)[0]

    @property
    def generation(self) -> int | None:
        return parse_family_name(self.family)[1]

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


Value = TypeVar("Value")


class LazyMapping(Mapping[str, Value]):
    """Has all names from the start; what belongs to a name is made once, when it is asked for."""

    __slots__ = ("_made", "_make", "_names")

    def __init__(self, names: Collection[str], make: Callable[[str], Value]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        found = self._made.get(name)
        if found is None:
            if name not in self._names:
                raise KeyError(name)
            found = self._made[name] = self._make(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


INSTANCE_TYPES_FILE = "instance_types.json"


class InstanceTypeTable(msgspec.Struct, frozen=True, kw_only=True):
    """The data file. `columns` names the fields of a row, so that a stale file is noticed."""

    source: str
    columns: tuple[str, ...]
    machines: tuple[InstanceTypeInfo, ...]
    """Sorted by name; a row ends where only defaults would follow."""


@cache
def load_instance_type_table() -> InstanceTypeTable:
    return msgspec.json.decode(data.read_data_file(INSTANCE_TYPES_FILE), type=InstanceTypeTable)


@cache
def built_in_instance_types() -> Mapping[str, InstanceTypeInfo]:
    """Every instance, in the order of names."""
    return MappingProxyType(
        {machine.name: machine for machine in load_instance_type_table().machines}
    )
