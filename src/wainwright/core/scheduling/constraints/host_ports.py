"""Host ports: which nodes or drafts have which port in use, as bit sets, and on which instance
types daemonsets will use it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.core.scheduling.daemonset_overhead import types_running
from wainwright.model.bitset import BitSet, union
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import DaemonSet, HostPort
from wainwright.model.reasons import HostPortsTaken, NodeHostPortsTaken
from wainwright.model.snapshot import Pool

WILDCARD_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})
Ports: TypeAlias = tuple[HostPort, ...]


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

    def admits(self, ports: Sequence[HostPort], among: BitSet) -> BitSet:
        """Those of the nodes or drafts on which no port in use conflicts with one of the ports."""
        left = among if self._base is None else self._base.admits(ports, among)
        for port in ports:
            for other, hosts in self._used.get((port.port, port.protocol), {}).items():
                if ports_conflict(port, other):
                    left ^= left & hosts
        return left

    def why(self, ports: Ports, among: BitSet) -> Iterator[NodeRejection]:
        numbers = tuple(sorted({port.port for port in ports}))
        yield among ^ self.admits(ports, among), NodeHostPortsTaken(ports=numbers)


class DaemonSetPorts:
    """The host ports that daemonsets will use on nodes of one NodePool."""

    __slots__ = ("_daemonsets", "_disabled_groups", "_index", "_pool")

    def __init__(
        self,
        pool: Pool,
        index: InstanceTypeIndex,
        daemonsets: Sequence[DaemonSet],
        disabled_groups: OfferingGroupSet,
    ) -> None:
        self._pool, self._index = pool, index
        self._daemonsets = [each for each in daemonsets if each.ports]
        self._disabled_groups = disabled_groups

    def admits_types(self, types: BitSet, ports: Ports) -> BitSet:
        """Those of the types on which no daemonset uses one of the ports."""
        taken = union(
            types_running(self._pool, self._index, daemonset, self._disabled_groups)
            for daemonset in self._daemonsets
            if any(ports_conflict(port, other) for port in ports for other in daemonset.ports)
        )
        return types ^ (types & taken)

    def why(self, ports: Ports, types: BitSet) -> HostPortsTaken:
        """The ports that are taken on any of the types."""
        taken = {port.port for port in ports if self.admits_types(types, (port,)) != types}
        return HostPortsTaken(ports=tuple(sorted(taken)))
