"""Utilization of capacity reservations: what is used, in flight and idle, what idle capacity
costs, and what kept pods from using it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from wainwright.core.cluster_usage import remaining_cluster_limits
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.explain.idle_reservations.candidate_pods import (
    CandidatePod,
    PlannedNodes,
    TopologyAfterPlan,
    find_candidate_pods,
)
from wainwright.core.explain.idle_reservations.obstacles import (
    ObstacleContext,
    ReservedLaunch,
    find_obstacle,
    find_reserved_launches,
)
from wainwright.core.explain.unschedulable import snapshot_after_plan
from wainwright.core.scheduling.nodeclaim_template import compile_templates, pool_order
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ON_DEMAND, RESERVATION_ID
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    ExplainedPlan,
    PlanOptions,
    PreferencePolicy,
    ReservationUsage,
)
from wainwright.model.reasons import (
    CurrentPlacement,
    PodsOffReservation,
    PoolUnusable,
    ReservationObstacle,
    ReservationTooSmall,
)
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool, ReservationState, Snapshot


class ReservationUtilization(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation, and how its capacity is used."""

    id: str
    instance_type: str
    zone: str
    total: int
    available: int
    promised: int
    """To claims that are in flight."""
    used: int
    """By claims of the plan."""
    on_demand_price: float | None
    modelled_price: bool
    """USD per hour of one instance on demand; None where it is not known."""
    obstacles: tuple[PodsOffReservation, ...]
    """What kept pods from using it; empty where nothing is idle."""

    @property
    def idle(self) -> int:
        """Available instances, neither promised to claims in flight nor used by the plan."""
        return max(0, self.available - self.promised - self.used)


def reservation_utilization(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    plan: ExplainedPlan,
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> tuple[ReservationUtilization, ...]:
    """Every reservation that can be used, with what kept pods from using its idle capacity."""
    snapshot = evict_from_deleting_nodes(snapshot).snapshot
    report = _UtilizationReport(snapshot, catalogs, plan, options)
    usable = (each for each in snapshot.reservations if each.is_usable)
    return tuple(map(report.utilization_of, usable))


class _UtilizationReport:
    """Everything that the utilization of each reservation depends on, worked out once."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, InstanceTypeIndex],
        plan: ExplainedPlan,
        options: PlanOptions,
    ) -> None:
        after_plan = snapshot_after_plan(snapshot, catalogs, plan.claims)
        self.templates = compile_templates(
            after_plan.pools,
            catalogs,
            snapshot.daemonsets,
            cluster_limits=remaining_cluster_limits(snapshot, catalogs, options, plan.claims),
        )
        self.unusable = [
            (pool, catalogs[pool.name])
            for pool in sorted(snapshot.pools, key=pool_order)
            if pool.unusable is not None and pool.name in catalogs
        ]
        self.usage = {usage.id: usage for usage in plan.reservations}
        self.context = ObstacleContext(
            weights={pool.name: pool.weight for pool in snapshot.pools},
            respect_preferences=options.preference_policy is PreferencePolicy.RESPECT,
        )
        planned_nodes = PlannedNodes(catalogs)
        topology = TopologyAfterPlan(snapshot, plan, planned_nodes, options.preference_policy)
        remaining_counts = {usage.id: usage.remaining for usage in plan.reservations}
        topology.count_pods(self.templates, remaining_counts)
        self.candidates = list(find_candidate_pods(snapshot, plan, planned_nodes, topology))
        required = (*topology.keys, *chain.from_iterable(self._requirements(snapshot)))
        self.has_required_ids = RESERVATION_ID in required
        """Whether a pool or pod requires reservations by their ids."""
        self.cache: dict[object, tuple[PodsOffReservation, ...]] = {}

    def _requirements(self, snapshot: Snapshot) -> Iterator[Requirements]:
        yield from (pool.requirements for pool in snapshot.pools)
        for candidate in self.candidates:
            yield from candidate.alternatives
            yield from (each.requirements for each in candidate.pod.constraints.preferred_nodes)

    def utilization_of(self, reservation: ReservationState) -> ReservationUtilization:
        usage = self.usage.get(reservation.id) or ReservationUsage(
            id=reservation.id,
            total=reservation.total,
            available=reservation.available,
            used=0,
        )
        on_demand = self._on_demand_offering(reservation.id)
        return ReservationUtilization(
            id=reservation.id,
            instance_type=reservation.instance_type,
            zone=reservation.zone,
            total=reservation.total,
            available=reservation.available,
            promised=usage.in_flight,
            used=usage.used,
            on_demand_price=None if on_demand is None else on_demand.price,
            modelled_price=on_demand is not None and on_demand.modelled,
            obstacles=self._cached_obstacles(reservation.id) if usage.remaining else (),
        )

    def _cached_obstacles(self, name: str) -> tuple[PodsOffReservation, ...]:
        """Worked out once for reservations that differ only in their names.

        Hundreds of equal reservations would otherwise each be checked against every candidate.
        """
        launches_by_pool = list(find_reserved_launches(name, self.templates))
        unusable_pools = [
            pool
            for pool, index in self.unusable
            if any(group.reservation_id == name for group in index.offering_groups)
        ]
        key = (
            tuple(launch.identity for launches in launches_by_pool for launch in launches),
            tuple(pool.name for pool in unusable_pools),
            name if self.has_required_ids else None,
        )
        if key not in self.cache:
            self.cache[key] = tuple(self._obstacles(launches_by_pool, unusable_pools))
        return self.cache[key]

    def _obstacles(
        self, launches_by_pool: Iterable[Sequence[ReservedLaunch]], unusable_pools: Iterable[Pool]
    ) -> Iterator[PodsOffReservation]:
        """By pool: pods without a place, then those on new nodes, then those on existing nodes."""
        for launches in launches_by_pool:
            obstacles = (
                (candidate, find_obstacle(launches, candidate, self.context))
                for candidate in self.candidates
            )
            yield from _group_by_obstacle(launches[0].template.pool, obstacles)
        for pool in unusable_pools:
            reason = PoolUnusable(why=pool.unusable or "")
            yield from _group_by_obstacle(
                pool, ((candidate, reason) for candidate in self.candidates)
            )

    def _on_demand_offering(self, name: str) -> Offering | None:
        indexes = (*(each.index for each in self.templates), *(each for _, each in self.unusable))
        return next(
            (_cheapest_on_demand(*offer) for offer in _reserved_offerings(name, indexes)), None
        )


def _group_by_obstacle(
    pool: Pool, obstacles: Iterable[tuple[CandidatePod, ReservationObstacle]]
) -> Iterator[PodsOffReservation]:
    groups: dict[
        tuple[CurrentPlacement, ReservationObstacle], tuple[ReservationObstacle, list[str]]
    ] = {}
    for candidate, reason in obstacles:
        key = candidate.placement, _without_size(reason)
        closest, pods = groups.setdefault(key, (reason, []))
        pods += candidate.keys
        groups[key] = _closer_obstacle(closest, reason), pods
    for placement in (CurrentPlacement.NONE, CurrentPlacement.NEW, CurrentPlacement.EXISTING):
        for (own, _), (reason, pods) in groups.items():
            if own is placement:
                yield PodsOffReservation(
                    pool=pool.name, placement=placement, reason=reason, pods=tuple(sorted(pods))
                )


def _without_size(reason: ReservationObstacle) -> ReservationObstacle:
    """Pods of different sizes that do not fit a type are one group."""
    return (
        msgspec.structs.replace(reason, needed=0)
        if isinstance(reason, ReservationTooSmall)
        else reason
    )


def _closer_obstacle(one: ReservationObstacle, other: ReservationObstacle) -> ReservationObstacle:
    """Of two pods that do not fit the one that lacks less."""
    if isinstance(one, ReservationTooSmall) and isinstance(other, ReservationTooSmall):
        return min(one, other, key=lambda each: each.needed)
    return one


def _reserved_offerings(
    reservation: str, indexes: Iterable[InstanceTypeIndex]
) -> Iterator[tuple[InstanceType, Offering]]:
    for index in dict.fromkeys(indexes):
        for instance_type in index.types:
            for offering in instance_type.offerings:
                if offering.reservation_id == reservation:
                    yield instance_type, offering


def _cheapest_on_demand(instance_type: InstanceType, reserved: Offering) -> Offering | None:
    on_demand = [
        offering
        for offering in instance_type.offerings
        if offering.capacity_type == ON_DEMAND and offering.zone in (None, reserved.zone)
    ]
    return min(on_demand, key=lambda each: each.price, default=None)
