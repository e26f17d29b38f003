"""Snapshot: everything that one decision may look at, besides the catalogues."""

import msgspec

from wainwright.model.node import Node
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.pool import Pool


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity reservation that some pool's class selects, for the summary of a plan."""

    id: str
    total: int
    available: int
    instance_type: str = ""
    zone: str = ""
    unusable: str | None = None
    """Why no pool can use it, although it is there; half a sentence."""

    @property
    def is_usable(self) -> bool:
        return self.unusable is None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster. The order of none of these matters."""

    pods: tuple[Pod, ...] = ()
    """To be placed, those of nodes being deleted included."""
    pools: tuple[Pool, ...] = ()
    nodes: tuple[Node, ...] = ()
    daemonsets: tuple[DaemonSet, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    claims: frozenset[str] = frozenset()
    """Names of the claims that there are, also of those that are known by their node's name."""

    @property
    def taken_names(self) -> frozenset[str]:
        """The names that no new claim may have."""
        return self.claims.union(node.name for node in self.nodes)
