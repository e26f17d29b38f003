"""Host ports: which nodes or drafts have which port in use, as bit sets."""

from collections.abc import Iterable

from wainwright.model.bitset import BitSet
from wainwright.model.pod import HostPort


class HostPortUsage:
    """The host ports in use by node or draft."""

    __slots__ = ("_used",)

    def __init__(self) -> None:
        self._used: dict[tuple[int, str], dict[HostPort, BitSet]] = {}

    def add(self, hosts: BitSet, ports: Iterable[HostPort]) -> None:
        for port in ports:
            same = self._used.setdefault((port.port, port.protocol), {})
            same[port] = same.get(port, 0) | hosts

    def with_conflict(self, ports: Iterable[HostPort]) -> BitSet:
        """The nodes or drafts on which any of the ports conflicts with one in use."""
        conflicting = 0
        for port in ports:
            for other, hosts in self._used.get((port.port, port.protocol), {}).items():
                if port.conflicts_with(other):
                    conflicting |= hosts
        return conflicting
