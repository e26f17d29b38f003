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
from wainwright.core.scheduling.constraints import node_affinity, taint_toleration
from wainwright.core.scheduling.constraints.host_ports import DaemonSetPorts
from wainwright.core.scheduling.constraints.limits import (
    ClusterLimits,
    HighestCosts,
    PoolLimits,
    highest_costs,
)
from wainwright.core.scheduling.constraints.min_values import (
    MinValues,
    MinValuesChecker,
    min_values_of,
)
from wainwright.core.scheduling.constraints.resource_fit import TypeResources
from wainwright.core.scheduling.constraints.volume_limits import (
    CATALOGUE_LIMITS,
    TypeVolumeLimits,
)
from wainwright.core.scheduling.daemonset_overhead import DaemonSetOverhead, daemonset_overhead
from wainwright.core.scheduling.pod_classes import PoolCompatibility, SchedulingRequirements
from wainwright.core.scheduling.reservation_manager import PoolReservations, reserved_offerings
from wainwright.model.bitset import AmountTable, ResourceIndex
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import well_known_labels
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import PRICE_LIMIT
from wainwright.model.pod import DaemonSet
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool

ThresholdCache: TypeAlias = dict[object, ResourceIndex]
"""By catalogue and daemonset overhead: equal for most pools, and slow to compute."""


class NodeClaimTemplate:
    """A NodePool with its catalogue: the starting point of every node of the pool."""

    __slots__ = (
        "allocatable",
        "allocatable_tables",
        "base",
        "daemonset_ports",
        "daemonsets",
        "disabled_groups",
        "index",
        "limits",
        "min_values",
        "min_values_checker",
        "number",
        "overhead",
        "pool",
        "pool_reservations",
        "volume_limits",
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
        threshold_cache: ThresholdCache | None = None,
    ) -> None:
        self.number = number
        self.index = index
        self.well_known = well_known_labels(index.keys)
        self.limits = PoolLimits(pool, index)
        self.pool_reservations = PoolReservations(index, 0, {})
        """The reservations that the pool may use; set when the reservation manager is created."""
        self.volume_limits = TypeVolumeLimits(index, CATALOGUE_LIMITS)
        """Set again when it is known what nodes of the cluster report."""
        # While their feature gate is off, no node is launched into reservations.
        self.disabled_groups: OfferingGroupSet = 0 if gate else reserved_offerings(index)
        self.daemonsets = daemonsets
        self.allocatable_tables: list[AmountTable] = []
        """The same as `allocatable`, by resource number."""
        self.min_values_checker = MinValuesChecker(index)
        self._compile_pool(pool, {} if threshold_cache is None else threshold_cache)

    def _compile_pool(self, pool: Pool, threshold_cache: ThresholdCache) -> None:
        index, disabled = self.index, self.disabled_groups
        self.pool = pool
        self.daemonset_ports = DaemonSetPorts(pool, index, self.daemonsets, disabled)
        self.overhead: DaemonSetOverhead = daemonset_overhead(
            pool, index, self.daemonsets, disabled
        )
        self.allocatable: ResourceIndex = _thresholds_after_daemonsets(
            index, self.overhead, threshold_cache
        )
        """Allocatable resources of the types after daemonset overhead."""
        context = CompilationContext(
            index, self.allocatable.non_negative, reserved_offerings(index), self.well_known
        )
        self.base: CompiledRequirements = compile_requirements(context, pool.node_requirements)
        self.min_values: MinValues = min_values_of(self.base.requirements)

    def with_pool(self, pool: Pool) -> "NodeClaimTemplate":
        """The template of the same pool with other requirements; what is left of its limits stays.

        DaemonSets may run on types that the pool excluded before.
        """
        clone = self.copy()
        clone._compile_pool(pool, {})
        return clone

    def copy(self, cluster_limits: ClusterLimits | None = None) -> "NodeClaimTemplate":
        """The same template for another plan that starts from this state: limits are copied."""
        clone = copy(self)
        clone.limits = self.limits.copy(cluster_limits)
        return clone

    def share_cluster_limits(self, cluster_limits: ClusterLimits) -> None:
        """Makes the limits of the cluster hold for the pool as well."""
        costs = HighestCosts()
        if PRICE_LIMIT in cluster_limits.limits:
            costs = highest_costs(self.index, self.base.offering_groups, self.base.reserved)
        self.limits.share_cluster_limits(cluster_limits, costs)

    def number_resources(self, names: Sequence[str]) -> None:
        self.allocatable_tables = [self.allocatable.amounts(name) for name in names]

    def compatibility(self, scheduling: SchedulingRequirements) -> PoolCompatibility | None:
        """How the pool can satisfy the requirements; None if taints or labels are incompatible."""
        if not taint_toleration.admits(self.pool.taints, scheduling.tolerations):
            return None
        base, wanted = self.base, scheduling.requirements
        if not node_affinity.admits_pool(wanted, base.requirements, self.well_known):
            return None
        known = self.known_requirements(wanted)
        compiled = base.combine(known)
        if compiled is None:
            return None
        types = compiled.types
        if scheduling.ports:
            types = self.daemonset_ports.admits_types(types, scheduling.ports)
        return PoolCompatibility(known, compiled, types, is_implied=compiled is base)

    @property
    def type_resources(self) -> TypeResources:
        """What pods may use on each type, for explanations."""
        return TypeResources(self.index, self.overhead, self.allocatable)

    def known_requirements(self, requirements: Requirements) -> Requirements:
        """The requirements on labels that the pool or the catalogue defines.

        A pod that accepts the absence of a label (NotIn, DoesNotExist) is satisfied if neither
        defines it. Adding such a requirement to the node would look as if nodes of this pool had
        the label.
        """
        defined = self.base.requirements
        unknown = {key for key in requirements if key not in defined and key not in self.well_known}
        return requirements.without(unknown) if unknown else requirements


def compile_templates(
    pools: Sequence[Pool],
    catalogs: Mapping[str, InstanceTypeIndex],
    daemonsets: Sequence[DaemonSet],
    *,
    gate: bool = True,
    cluster_limits: ClusterLimits | None = None,
) -> list[NodeClaimTemplate]:
    """The pools that can launch nodes, highest weight first; `catalogs` is by pool name.

    With `gate` off, capacity reservations are ignored.
    """
    usable = [pool for pool in pools if pool.unusable is None and pool.name in catalogs]
    threshold_cache: ThresholdCache = {}
    templates = [
        NodeClaimTemplate(
            number,
            pool,
            catalogs[pool.name],
            daemonsets,
            gate=gate,
            threshold_cache=threshold_cache,
        )
        for number, pool in enumerate(sorted(usable, key=pool_order))
    ]
    if cluster_limits is not None:
        for template in templates:
            template.share_cluster_limits(cluster_limits)
    return templates


def pool_order(pool: Pool) -> tuple[int, str, str]:
    """Descending weight; at equal weight a hash of the name, so that no name is always first."""
    return -pool.weight, sha256(pool.name.encode()).hexdigest(), pool.name


def _thresholds_after_daemonsets(
    index: InstanceTypeIndex, overhead: DaemonSetOverhead, cache: ThresholdCache
) -> ResourceIndex:
    if not any(amounts for _, amounts in overhead.groups):
        return index.allocatable_index
    key = (index, *((types, tuple(amounts.items())) for types, amounts in overhead.groups))
    if key not in cache:
        cache[key] = index.index_with_overhead(overhead.by_type(len(index.types)))
    return cache[key]
