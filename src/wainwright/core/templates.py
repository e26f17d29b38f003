"""Templates: pools compiled for one plan, in the order in which they are asked for new nodes."""

from collections.abc import Mapping, Sequence
from copy import copy
from hashlib import sha256
from typing import TypeAlias

from wainwright.core.answer import Terms
from wainwright.core.limits import Limits
from wainwright.core.minvalues import Diversity, Minimums, minimums
from wainwright.core.narrowing import Ground, Narrowing, narrowing
from wainwright.core.overhead import Overhead, overhead, running
from wainwright.core.reservations import Shelf, reserved_markets
from wainwright.core.wishes import Ask
from wainwright.model.attachments import HostPort
from wainwright.model.columns import Rows, union
from wainwright.model.index import TypeIndex
from wainwright.model.labels import WELL_KNOWN
from wainwright.model.markets import Markets
from wainwright.model.pod import DaemonSet
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.taints import untolerated
from wainwright.model.thresholds import Sizes, Thresholds

Rooms: TypeAlias = dict[object, Thresholds]
"""By catalogue and what daemonsets take: the same for most pools, and long in the making."""


class Template:
    """A pool with its catalogue: what every node of it starts from."""

    __slots__ = (
        "_closed",
        "_daemonsets",
        "base",
        "diversity",
        "index",
        "limits",
        "minimums",
        "number",
        "overhead",
        "pool",
        "room",
        "shelf",
        "sizes",
        "well_known",
    )

    def __init__(
        self,
        number: int,
        pool: Pool,
        index: TypeIndex,
        daemonsets: Sequence[DaemonSet],
        *,
        gate: bool = True,
        rooms: Rooms | None = None,
    ) -> None:
        self.number = number
        self.pool = pool
        self.index = index
        self.well_known = WELL_KNOWN | index.keys
        self.limits = Limits(pool, index)
        self.shelf = Shelf(index, 0, {})
        """The reservations that it may use, once somebody has counted them."""
        self._daemonsets = daemonsets
        self._closed: Markets = 0 if gate else reserved_markets(index)
        """Where nobody buys: reservations, while their feature gate is closed."""
        self.overhead: Overhead = overhead(pool, index, daemonsets, self._closed)
        self.room: Thresholds = _room(index, self.overhead, {} if rooms is None else rooms)
        """What the types have once daemonsets took their share."""
        self.sizes: list[Sizes] = []
        """The same by number of the resource."""
        self.diversity = Diversity(index)
        ground = Ground(index, self.room.solvent, reserved_markets(index), self.well_known)
        self.base: Narrowing = narrowing(ground, pool.node_requirements)
        self.minimums: Minimums = minimums(self.base.requirements)

    def twin(self) -> "Template":
        """The same pool for another plan that starts where this one has come to."""
        twin = copy(self)
        twin.limits = self.limits.copy()
        return twin

    def number_resources(self, names: Sequence[str]) -> None:
        self.sizes = [self.room.sizes(name) for name in names]

    def terms(self, ask: Ask) -> Terms | None:
        """How the pool takes such pods; None if it cannot, be it by taint or by label."""
        if untolerated(self.pool.taints, ask.tolerations) is not None:
            return None
        base = self.base
        if not base.requirements.compatible(ask.requirements, self.well_known):
            return None
        asked = self.decided_here(ask.requirements)
        found = base.joined(asked)
        if found is None:
            return None
        rows = found.rows
        if ask.ports:
            rows ^= rows & self.clashing(ask.ports)
        return Terms(asked, found, rows, trivial=found is base)

    def clashing(self, ports: tuple[HostPort, ...]) -> Rows:
        """The types on which a daemonset takes one of the ports."""
        return union(
            running(self.pool, self.index, daemonset, self._closed)
            for daemonset in self._daemonsets
            if any(port.clashes_with(other) for port in ports for other in daemonset.ports)
        )

    def decided_here(self, asked: Requirements) -> Requirements:
        """What is asked of labels that the pool or the catalogue knows.

        Not having a label that nobody defines satisfies whoever can do without it. To remember
        the wish would make it look as if nodes of this pool had the label after all.
        """
        known = self.base.requirements
        foreign = {key for key in asked if key not in known and key not in self.well_known}
        return asked.without(foreign) if foreign else asked


def compiled(
    pools: Sequence[Pool],
    catalogs: Mapping[str, TypeIndex],
    daemonsets: Sequence[DaemonSet],
    *,
    gate: bool = True,
) -> list[Template]:
    """The pools that may launch something, highest weight first; `catalogs` is by pool.

    With the gate closed reservations are as if they were not there.
    """
    usable = [pool for pool in pools if pool.unusable is None and pool.name in catalogs]
    rooms: Rooms = {}
    return [
        Template(number, pool, catalogs[pool.name], daemonsets, gate=gate, rooms=rooms)
        for number, pool in enumerate(sorted(usable, key=rank))
    ]


def rank(pool: Pool) -> tuple[int, str, str]:
    """Descending weight; among equals a hash of the name, so that no name is always first."""
    return -pool.weight, sha256(pool.name.encode()).hexdigest(), pool.name


def _room(index: TypeIndex, taken: Overhead, known: Rooms) -> Thresholds:
    if not any(amounts for _, amounts in taken.groups):
        return index.own_thresholds
    key = (index, *((rows, tuple(amounts.items())) for rows, amounts in taken.groups))
    if key not in known:
        known[key] = index.thresholds(taken.by_row(len(index.types)))
    return known[key]
