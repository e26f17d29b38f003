"""Utilization of capacity reservations: what is used, in flight and idle, what idle capacity
costs, and what kept pods from using it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

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
    MinValuesPolicy,
    Plan,
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
    used: int
    on_demand_price: float | None
    """USD per hour of one instance on demand; None where nobody knows."""
    kept: tuple[PodsOffReservation, ...]

    @property
    def idle(self) -> int:
        """What is free, and neither promised to claims under way nor used by the plan."""
        return max(0, self.available - self.promised - self.used)


def reservation_utilization(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    plan: Plan,
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> tuple[ReservationUtilization, ...]:
    """Every reservation that can be used, with what kept pods off the capacity that stays idle."""
    stocktaking = _UtilizationReport(snapshot, catalogs, plan, options)
    return tuple(map(stocktaking.of, (each for each in snapshot.reservations if each.is_usable)))


class _UtilizationReport:
    """Everything that is asked of each reservation, found out once."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, InstanceTypeIndex],
        plan: Plan,
        options: PlanOptions,
    ) -> None:
        now = snapshot_after_plan(snapshot, catalogs, plan.claims)
        self.templates = compile_templates(now.pools, catalogs, snapshot.daemonsets)
        self.unusable = [
            (pool, catalogs[pool.name])
            for pool in sorted(snapshot.pools, key=pool_order)
            if pool.unusable is not None and pool.name in catalogs
        ]
        self.uses = {use.id: use for use in plan.reservations}
        self.context = ObstacleContext(
            free={use.id: use.remaining for use in plan.reservations},
            weights={pool.name: pool.weight for pool in snapshot.pools},
            strict=options.min_values_policy is MinValuesPolicy.STRICT,
            respects=options.preference_policy is PreferencePolicy.RESPECT,
        )
        planned_nodes = PlannedNodes(catalogs)
        topology = TopologyAfterPlan(snapshot, plan, planned_nodes, options.preference_policy)
        topology.count(self.templates, self.context.free)
        self.candidates = list(find_candidate_pods(snapshot, plan, planned_nodes, topology))
        asked = (*topology.keys, *chain.from_iterable(self._wanted(snapshot)))
        self.named = RESERVATION_ID in asked
        """Whether anybody asks for reservations by name."""
        self.kept: dict[object, tuple[PodsOffReservation, ...]] = {}

    def _wanted(self, snapshot: Snapshot) -> Iterator[Requirements]:
        yield from (pool.requirements for pool in snapshot.pools)
        for candidate in self.candidates:
            yield from candidate.wanted
            yield from (each.requirements for each in candidate.pod.constraints.preferred_nodes)

    def of(self, one: ReservationState) -> ReservationUtilization:
        use = self.uses.get(one.id) or ReservationUsage(
            id=one.id, total=one.total, available=one.available, used=0
        )
        found = list(find_reserved_launches(one.id, self.templates))
        return ReservationUtilization(
            id=one.id,
            instance_type=one.instance_type,
            zone=one.zone,
            total=one.total,
            available=one.available,
            promised=use.in_flight,
            used=use.used,
            on_demand_price=self._price(one.id),
            kept=self._cached_obstacles(one.id, found) if use.remaining else (),
        )

    def _cached_obstacles(
        self, name: str, found: Sequence[Sequence[ReservedLaunch]]
    ) -> tuple[PodsOffReservation, ...]:
        """Asked once of reservations that differ in nothing but their names."""
        closed = [
            pool
            for pool, index in self.unusable
            if any(
                offering_group.reservation_id == name for offering_group in index.offering_groups
            )
        ]
        reserved_launches = tuple(
            reserved_launch.identity for each in found for reserved_launch in each
        )
        key = (reserved_launches, tuple(pool.name for pool in closed), name if self.named else None)
        if key not in self.kept:
            self.kept[key] = tuple(self._kept(found, closed))
        return self.kept[key]

    def _kept(
        self, found: Iterable[Sequence[ReservedLaunch]], closed: Iterable[Pool]
    ) -> Iterator[PodsOffReservation]:
        """By pool: those without a place, then those on new nodes, then the others."""
        for each in found:
            yield from _group_by_obstacle(each[0].template.pool, self._obstacles(each))
        for pool in closed:
            reason = PoolUnusable(why=pool.unusable or "")
            yield from _group_by_obstacle(
                pool, ((candidate, reason) for candidate in self.candidates)
            )

    def _obstacles(
        self, found: Sequence[ReservedLaunch]
    ) -> Iterator[tuple[CandidatePod, ReservationObstacle]]:
        return (
            (candidate, find_obstacle(found, candidate, self.context))
            for candidate in self.candidates
        )

    def _price(self, name: str) -> float | None:
        indexes = (*(each.index for each in self.templates), *(each for _, each in self.unusable))
        return next(
            (_on_demand_price(*offer) for offer in _reserved_offerings(name, indexes)), None
        )


def _group_by_obstacle(
    pool: Pool, found: Iterable[tuple[CandidatePod, ReservationObstacle]]
) -> Iterator[PodsOffReservation]:
    groups: dict[
        tuple[CurrentPlacement, ReservationObstacle], tuple[ReservationObstacle, list[str]]
    ] = {}
    for candidate, reason in found:
        key = candidate.place, _without_size(reason)
        told, pods = groups.setdefault(key, (reason, []))
        pods += candidate.keys
        groups[key] = _nearer_obstacle(told, reason), pods
    for place in (CurrentPlacement.NONE, CurrentPlacement.NEW, CurrentPlacement.EXISTING):
        for (where, _), (reason, pods) in groups.items():
            if where is place:
                yield PodsOffReservation(
                    pool=pool.name, placement=place, reason=reason, pods=tuple(sorted(pods))
                )


def _without_size(reason: ReservationObstacle) -> ReservationObstacle:
    """Pods of many sizes for which a type is too small are told of together."""
    return (
        msgspec.structs.replace(reason, needed=0)
        if isinstance(reason, ReservationTooSmall)
        else reason
    )


def _nearer_obstacle(told: ReservationObstacle, reason: ReservationObstacle) -> ReservationObstacle:
    if isinstance(told, ReservationTooSmall) and isinstance(reason, ReservationTooSmall):
        return min(told, reason, key=lambda each: each.needed)
    return told


def _reserved_offerings(
    reservation: str, indexes: Iterable[InstanceTypeIndex]
) -> Iterator[tuple[InstanceType, Offering]]:
    for index in dict.fromkeys(indexes):
        for instance_type in index.types:
            for offering in instance_type.offerings:
                if offering.reservation_id == reservation:
                    yield instance_type, offering


def _on_demand_price(instance_type: InstanceType, reserved: Offering) -> float | None:
    prices = [
        offering.price
        for offering in instance_type.offerings
        if offering.capacity_type == ON_DEMAND and offering.zone in (None, reserved.zone)
    ]
    return min(prices, default=None)
