"""Host ports: which nodes or drafts have which port in use, as bit sets."""

from collections.abc import Iterable, Sequence
from typing import Final

from wainwright.model.bitset import BitSet
from wainwright.model.pod import HostPort

WILDCARD_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})


def ports_conflict(one: HostPort, other: HostPort) -> bool:
    """Whether the two cannot be on one node; a wildcard conflicts with every address."""
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    is_wildcard = one.address in WILDCARD_ADDRESSES or other.address in WILDCARD_ADDRESSES
    return is_wildcard or one.address == other.address


class HostPortUsage:
    """The host ports in use by node or draft."""

    __slots__ = ("_base", "_used")

    def __init__(self, base: "HostPortUsage | None" = None) -> None:
        self._base = base
        """Of a fork: the usage that it adds to."""
        self._used: dict[tuple[int, str], dict[HostPort, BitSet]] = {}

    def fork(self) -> "HostPortUsage":
        return HostPortUsage(self)

    def add(self, hosts: BitSet, ports: Iterable[HostPort]) -> None:
        for port in ports:
            same = self._used.setdefault((port.port, port.protocol), {})
            same[port] = same.get(port, 0) | hosts

    def with_conflict(self, ports: Sequence[HostPort]) -> BitSet:
        """The nodes or drafts on which any of the ports conflicts with one in use."""
        conflicting = 0 if self._base is None else self._base.with_conflict(ports)
        for port in ports:
            for other, hosts in self._used.get((port.port, port.protocol), {}).items():
                if ports_conflict(port, other):
                    conflicting |= hosts
        return conflicting
