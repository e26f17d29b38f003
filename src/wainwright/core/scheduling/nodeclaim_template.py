"""NodeClaim templates: NodePools compiled for one plan, in the order in which they are tried."""

from collections.abc import Mapping, Sequence
from copy import copy
from hashlib import sha256
from typing import TypeAlias

from wainwright.core.scheduling.compiled_requirements import (
    CompilationContext,
    CompiledRequirements,
    compile_requirements,
)
from wainwright.core.scheduling.daemonset_overhead import (
    DaemonSetOverhead,
    daemonset_overhead,
    types_running,
)
from wainwright.core.scheduling.limits import PoolLimits
from wainwright.core.scheduling.min_values import MinValues, MinValuesChecker, min_values_of
from wainwright.core.scheduling.pod_requirements import PoolCompatibility, SchedulingRequirements
from wainwright.core.scheduling.reservation_manager import PoolReservations, reserved_offerings
from wainwright.model.bitset import AmountTable, BitSet, ResourceIndex, union
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import WELL_KNOWN_LABELS
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import DaemonSet, HostPort
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool
from wainwright.model.taints import find_untolerated_taint

ThresholdCache: TypeAlias = dict[object, ResourceIndex]
"""By catalogue and what daemonsets take: the same for most pools, and long in the making."""


class NodeClaimTemplate:
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
        index: InstanceTypeIndex,
        daemonsets: Sequence[DaemonSet],
        *,
        gate: bool = True,
        rooms: ThresholdCache | None = None,
    ) -> None:
        self.number = number
        self.pool = pool
        self.index = index
        self.well_known = WELL_KNOWN_LABELS | index.keys
        self.limits = PoolLimits(pool, index)
        self.shelf = PoolReservations(index, 0, {})
        """The reservations that it may use, once somebody has counted them."""
        self._daemonsets = daemonsets
        self._closed: OfferingGroupSet = 0 if gate else reserved_offerings(index)
        """Where nobody buys: reservations, while their feature gate is closed."""
        self.overhead: DaemonSetOverhead = daemonset_overhead(pool, index, daemonsets, self._closed)
        self.room: ResourceIndex = _thresholds_after_daemonsets(
            index, self.overhead, {} if rooms is None else rooms
        )
        """What the types have once daemonsets took their share."""
        self.sizes: list[AmountTable] = []
        """The same by number of the resource."""
        self.diversity = MinValuesChecker(index)
        ground = CompilationContext(
            index, self.room.non_negative, reserved_offerings(index), self.well_known
        )
        self.base: CompiledRequirements = compile_requirements(ground, pool.node_requirements)
        self.minimums: MinValues = min_values_of(self.base.requirements)

    def twin(self) -> "NodeClaimTemplate":
        """The same pool for another plan that starts where this one has come to."""
        twin = copy(self)
        twin.limits = self.limits.copy()
        return twin

    def number_resources(self, names: Sequence[str]) -> None:
        self.sizes = [self.room.amounts(name) for name in names]

    def terms(self, ask: SchedulingRequirements) -> PoolCompatibility | None:
        """How the pool takes such pods; None if it cannot, be it by taint or by label."""
        if find_untolerated_taint(self.pool.taints, ask.tolerations) is not None:
            return None
        base = self.base
        if not base.requirements.is_compatible(ask.requirements, self.well_known):
            return None
        asked = self.decided_here(ask.requirements)
        found = base.joined(asked)
        if found is None:
            return None
        rows = found.rows
        if ask.ports:
            rows ^= rows & self.clashing(ask.ports)
        return PoolCompatibility(asked, found, rows, trivial=found is base)

    def clashing(self, ports: tuple[HostPort, ...]) -> BitSet:
        """The types on which a daemonset takes one of the ports."""
        return union(
            types_running(self.pool, self.index, daemonset, self._closed)
            for daemonset in self._daemonsets
            if any(port.conflicts_with(other) for port in ports for other in daemonset.ports)
        )

    def decided_here(self, asked: Requirements) -> Requirements:
        """What is asked of labels that the pool or the catalogue knows.

        Not having a label that nobody defines satisfies whoever can do without it. To remember
        the wish would make it look as if nodes of this pool had the label after all.
        """
        known = self.base.requirements
        foreign = {key for key in asked if key not in known and key not in self.well_known}
        return asked.without(foreign) if foreign else asked


def compile_templates(
    pools: Sequence[Pool],
    catalogs: Mapping[str, InstanceTypeIndex],
    daemonsets: Sequence[DaemonSet],
    *,
    gate: bool = True,
) -> list[NodeClaimTemplate]:
    """The pools that may launch something, highest weight first; `catalogs` is by pool.

    With the gate closed reservations are as if they were not there.
    """
    usable = [pool for pool in pools if pool.unusable is None and pool.name in catalogs]
    rooms: ThresholdCache = {}
    return [
        NodeClaimTemplate(number, pool, catalogs[pool.name], daemonsets, gate=gate, rooms=rooms)
        for number, pool in enumerate(sorted(usable, key=pool_order))
    ]


def pool_order(pool: Pool) -> tuple[int, str, str]:
    """Descending weight; among equals a hash of the name, so that no name is always first."""
    return -pool.weight, sha256(pool.name.encode()).hexdigest(), pool.name


def _thresholds_after_daemonsets(
    index: InstanceTypeIndex, taken: DaemonSetOverhead, known: ThresholdCache
) -> ResourceIndex:
    if not any(amounts for _, amounts in taken.groups):
        return index.allocatable_index
    key = (index, *((rows, tuple(amounts.items())) for rows, amounts in taken.groups))
    if key not in known:
        known[key] = index.index_with_overhead(taken.by_row(len(index.types)))
    return known[key]
