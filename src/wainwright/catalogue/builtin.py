"""The built-in catalogue: every machine of the committed data file, by name."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import msgspec

from wainwright import data
from wainwright.catalogue.machine import Machine

FILE = "instance_types.json"


class MachineTable(msgspec.Struct, frozen=True, kw_only=True):
    """The data file. `columns` names the fields of a row, so that a stale file is noticed."""

    source: str
    columns: tuple[str, ...]
    machines: tuple[Machine, ...]
    """Sorted by name; a row ends where only defaults would follow."""


@cache
def table() -> MachineTable:
    return msgspec.json.decode(data.read(FILE), type=MachineTable)


@cache
def machines() -> Mapping[str, Machine]:
    """Every machine, in the order of names."""
    return MappingProxyType({machine.name: machine for machine in table().machines})
