"""What EC2 says of instance types, independent of node class and region: the built-in table.

The table is a committed data file whose columns are the fields of InstanceTypeInfo in their
order; the file names its columns, so that a stale one is detected.
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
    """Category and generation, parsed from the name of the family."""
    match = FAMILY_NAME.fullmatch(family)
    return (match["category"], int(match["generation"])) if match else (None, None)


class GpuInfo(msgspec.Struct, frozen=True, array_like=True):
    """The GPUs of a type, all of one model."""

    name: str
    manufacturer: str
    count: int
    """GPUs that pods can request; a slice of a GPU counts as one."""
    memory_mib: int
    """Of one GPU."""


class AcceleratorInfo(msgspec.Struct, frozen=True, array_like=True):
    """Accelerators for training or inference that are not GPUs."""

    name: str
    manufacturer: str
    count: int
    neuron_cores: int
    """Of one device; zero where it is not a Neuron device."""


class InstanceTypeInfo(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """An instance type: one row of the data file, whose columns are these fields in this order."""

    name: str
    vcpus: int
    memory_mib: int
    architecture: str
    """The value of the arch label; in brackets where Kubernetes has none for it (Macs)."""
    cpu_manufacturer: str
    clock_mhz: int
    hypervisor: str
    """Empty on bare metal."""
    spot: bool
    encryption_in_transit: bool
    addresses_per_interface: int
    """IPv4."""
    network_interfaces: int
    """On the default network card, the only one with addresses for pods."""
    all_network_interfaces: int
    network_cards: int
    ebs_attachments: int = 27
    """How many EBS volumes EC2 attaches, with one network interface and all local disks."""
    dedicated_ebs_attachments: bool = False
    """Whether further network interfaces leave that number as it is."""
    ebs_mbps: int | None = None
    """None where EBS bandwidth is not dedicated by default."""
    network_mbps: int | None = None
    """None where EC2 only has a description ("Moderate")."""
    local_storage_gb: int = 0
    nvme: bool = False
    """Whether the local disks are NVMe."""
    efa_interfaces: int = 0
    branch_interfaces: int | None = None
    """Where the type does not follow the rule of `max_branch_enis`."""
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
        """The leading letters of the name; None where no number follows them (mac-m4)."""
        return parse_family_name(self.family)[0]

    @property
    def generation(self) -> int | None:
        return parse_family_name(self.family)[1]

    @property
    def is_bare_metal(self) -> bool:
        return not self.hypervisor

    @property
    def is_flex(self) -> bool:
        """Whether it is a flex type, whose CPUs are not always available in full."""
        return "-flex" in self.family

    @property
    def capacity_types(self) -> tuple[str, ...]:
        """The capacity types without a reservation."""
        return ("on-demand", "spot") if self.spot else ("on-demand",)


Value = TypeVar("Value")


class LazyMapping(Mapping[str, Value]):
    """A mapping with all keys from the start, whose values are built on first access, and once.

    A region has about 1,000 types, and most commands look at a few: saves building the others.
    """

    __slots__ = ("_build", "_names", "_values")

    def __init__(self, names: Collection[str], build: Callable[[str], Value]) -> None:
        self._names = names
        self._build = build
        self._values: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        value = self._values.get(name)
        if value is None:
            if name not in self._names:
                raise KeyError(name)
            value = self._values[name] = self._build(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


INSTANCE_TYPES_FILE = "instance_types.json"


class InstanceTypeTable(msgspec.Struct, frozen=True, kw_only=True):
    """The data file. `columns` names the fields of a row, so that a stale file is detected."""

    source: str
    columns: tuple[str, ...]
    instance_types: tuple[InstanceTypeInfo, ...]
    """Sorted by name; a row ends where only defaults would follow."""


@cache
def load_instance_type_table() -> InstanceTypeTable:
    return msgspec.json.decode(data.read_data_file(INSTANCE_TYPES_FILE), type=InstanceTypeTable)


@cache
def built_in_instance_types() -> Mapping[str, InstanceTypeInfo]:
    """Every instance type by name, in the order of names."""
    return MappingProxyType({each.name: each for each in load_instance_type_table().instance_types})
