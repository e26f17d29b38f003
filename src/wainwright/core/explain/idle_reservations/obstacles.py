"""Obstacles: the first check, in the order of the scheduler, by which a candidate pod cannot be
launched into a reservation through a NodePool.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.explain.idle_reservations.candidate_pods import CandidatePod
from wainwright.core.scheduling.constraints import taint_toleration
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import SchedulingRequirements
from wainwright.model.bitset import iter_bits
from wainwright.model.labels import RESERVATION_ID
from wainwright.model.reasons import (
    BlockedByOtherPods,
    CurrentPlacement,
    ExistingNodeUsed,
    HigherWeightPoolUsed,
    LabelConflict,
    LimitExceeded,
    NoCompatiblePool,
    OtherPoolUsed,
    PoolExcludesReservation,
    PreferNoScheduleTaint,
    PreferredElsewhere,
    PreferredNodeAffinity,
    ReservationHostPortsTaken,
    ReservationObstacle,
    ReservationTooSmall,
    ReservationUnavailable,
    TopologyUnsatisfied,
)
from wainwright.model.requirements import Requirements, ValueSet
from wainwright.model.resources import Resources, missing_resources, subtract_resources
from wainwright.model.taints import TOLERATE_PREFER_NO_SCHEDULE


class ReservedLaunch:
    """One NodePool and one instance type, launched into one reservation."""

    def __init__(self, template: NodeClaimTemplate, offering_group: int, type_number: int) -> None:
        self.template = template
        self.type_number = type_number
        self.instance_type = template.index.types[type_number]
        self._group_number = offering_group
        self._group = template.index.offering_groups[offering_group]
        self._type_requirements = self.instance_type.requirements.narrow(self._group.requirements)
        self.is_available = bool(self._group.available_types >> type_number & 1)
        self.excluded_by_pool = self._excluded_by_pool()
        """Why the requirements of the pool do not allow it."""
        self.overhead: Resources = template.overhead.of(type_number)
        """Of daemonsets."""
        self.room = subtract_resources(self.instance_type.allocatable, self.overhead)
        self.overcommit = template.type_resources.daemonset_overcommit(1 << type_number)
        """Where daemonsets request more than there is; then no pod fits."""
        self.exceeded_limit = self._exceeded_limit()
        self._label_conflicts: dict[Requirements, LabelConflict | None] = {}

    @property
    def identity(self) -> object:
        """Equal for launches into reservations that differ only in their names."""
        offered = self._group.requirements.without({RESERVATION_ID})
        return self.template.number, self.type_number, self.is_available, offered

    def label_conflict(self, wanted: Requirements) -> LabelConflict | None:
        """Why the labels of its nodes do not match; cached, as many pods require the same."""
        if wanted not in self._label_conflicts:
            self._label_conflicts[wanted] = self._label_conflict(wanted)
        return self._label_conflicts[wanted]

    def node_requirements(self, wanted: Requirements) -> Requirements:
        """The labels of a node that is launched for a pod with these requirements."""
        pool = self.template.base.requirements
        return self._type_requirements.narrow(pool).narrow(self.template.known_requirements(wanted))

    def is_allowed_by_pool(self, wanted: Requirements) -> bool:
        """Whether the pool could satisfy the requirements with other instance types."""
        return self.template.base.requirements.is_compatible(wanted, self.template.well_known)

    def _excluded_by_pool(self) -> PoolExcludesReservation | None:
        wanted = self.template.base.requirements
        if self._satisfies(wanted):
            return None
        key = self._first_failing(wanted, wanted)
        return PoolExcludesReservation(
            key=key, wanted=wanted.allowed(key), offered=self._value(key)
        )

    def _label_conflict(self, wanted: Requirements) -> LabelConflict | None:
        pool = self.template.base.requirements
        conflict = pool.find_conflict(wanted, self.template.well_known)
        if conflict is not None:
            return LabelConflict(key=conflict.key, wanted=conflict.wanted, offered=conflict.offered)
        decided = self.template.known_requirements(wanted)
        combined = pool.narrow(decided)
        if self._satisfies(combined):
            return None
        key = self._first_failing(decided, combined)
        return LabelConflict(key=key, wanted=wanted.allowed(key), offered=self._value(key))

    def _satisfies(self, wanted: Requirements) -> bool:
        index = self.template.index
        is_compatible = index.compatible_types(wanted) >> self.type_number & 1
        return bool(is_compatible and index.compatible_groups(wanted) >> self._group_number & 1)

    def _first_failing(self, keys: Iterable[str], wanted: Requirements) -> str:
        """The first of the labels that does not match."""
        candidates = list(keys)
        failing = (
            key for key in candidates if not self._satisfies(wanted.without(set(wanted) - {key}))
        )
        return next(failing, candidates[0])

    def _value(self, key: str) -> ValueSet | None:
        """The values of the label on its nodes; None where they lack the label."""
        return self._type_requirements[key].allowed if key in self._type_requirements else None

    def _exceeded_limit(self) -> LimitExceeded | None:
        """The first limit that one more node would exceed."""
        limits, number = self.template.limits, self.type_number
        exceeded = limits.exceeded(number, reserved=True)
        if not exceeded:
            return None
        return limits.why(self.template.pool, number, exceeded[0], reserved=True)


def find_reserved_launches(
    reservation: str, templates: Iterable[NodeClaimTemplate]
) -> Iterator[list[ReservedLaunch]]:
    """By pool, highest weight first: the launches into the reservation with any of its types."""
    for template in templates:
        launches = [
            ReservedLaunch(template, number, type_number)
            for number, offering_group in enumerate(template.index.offering_groups)
            if offering_group.reservation_id == reservation
            for type_number in iter_bits(offering_group.offered_types)
        ]
        if launches:
            yield launches


class ObstacleContext(msgspec.Struct, frozen=True, kw_only=True):
    """The results and options of the plan that obstacles depend on."""

    weights: Mapping[str, int]
    """Of the pools, by name."""
    respect_preferences: bool
    """Whether preferences count until they are relaxed."""


class ObstacleQuery(NamedTuple):
    """Why was this candidate not placed by this launch into the reservation?"""

    reserved_launch: ReservedLaunch
    candidate: CandidatePod
    context: ObstacleContext


ObstacleCheck: TypeAlias = Callable[[ObstacleQuery], ReservationObstacle | None]


def find_obstacle(
    reserved_launches: Sequence[ReservedLaunch], candidate: CandidatePod, context: ObstacleContext
) -> ReservationObstacle:
    """The obstacle of the launch that passed most checks."""
    return max(
        (
            _first_obstacle(reserved_launch, candidate, context)
            for reserved_launch in reserved_launches
        ),
        key=lambda obstacle: obstacle[0],
    )[1]


def _first_obstacle(
    reserved_launch: ReservedLaunch, candidate: CandidatePod, context: ObstacleContext
) -> tuple[int, ReservationObstacle]:
    """The number of the first check that fails, and its reason."""
    query = ObstacleQuery(reserved_launch, candidate, context)
    for number, check in enumerate(OBSTACLE_CHECKS):
        obstacle = check(query)
        if obstacle is not None:
            return number, obstacle
    return len(OBSTACLE_CHECKS), _fallback_reason(query)


def _check_pod(query: ObstacleQuery) -> ReservationObstacle | None:
    """Whether the pod has no place whatever the pool."""
    failure = query.candidate.failure
    if failure is None or (failure.pools and query.candidate.alternatives):
        return None
    return failure.reason


def _check_taints(query: ObstacleQuery) -> ReservationObstacle | None:
    tolerations = query.candidate.pod.tolerations
    if query.candidate.failure is not None or PreferNoScheduleTaint() in query.candidate.given_up:
        tolerations = (*tolerations, TOLERATE_PREFER_NO_SCHEDULE)
    return taint_toleration.why(query.reserved_launch.template.pool.taints, tolerations)


def _check_labels(query: ObstacleQuery) -> ReservationObstacle | None:
    """None where any of the alternatives matches; else why the closest of them does not."""
    if query.reserved_launch.excluded_by_pool is not None:
        return query.reserved_launch.excluded_by_pool
    conflicts = [
        (each, query.reserved_launch.label_conflict(each)) for each in query.candidate.alternatives
    ]
    if any(conflict is None for _, conflict in conflicts):
        return None
    _, closest = max(conflicts, key=lambda conflict: _alternative_rank(query, conflict[0]))
    return closest


def _alternative_rank(query: ObstacleQuery, wanted: Requirements) -> tuple[bool, bool]:
    return query.reserved_launch.is_allowed_by_pool(wanted), wanted == query.candidate.placed_by


def _matching_requirements(query: ObstacleQuery) -> Requirements:
    """The first alternative that the launch satisfies."""
    return next(
        each
        for each in query.candidate.alternatives
        if query.reserved_launch.label_conflict(each) is None
    )


def _check_resources(query: ObstacleQuery) -> ReservationObstacle | None:
    requests, room = query.candidate.requests, query.reserved_launch.room
    if query.reserved_launch.overcommit is not None:
        return query.reserved_launch.overcommit
    for name in missing_resources(requests, room):
        return ReservationTooSmall(
            resource=name,
            needed=requests.get(name, 0),
            room=room.get(name, 0),
            instance_type=query.reserved_launch.instance_type.name,
            daemonsets=query.reserved_launch.overhead.get(name, 0),
        )
    return None


def _check_host_ports(query: ObstacleQuery) -> ReservationObstacle | None:
    ports = query.candidate.pod.constraints.ports
    if not ports:
        return None
    tolerations = (*query.candidate.pod.tolerations, TOLERATE_PREFER_NO_SCHEDULE)
    compatibility = query.reserved_launch.template.compatibility(
        SchedulingRequirements(_matching_requirements(query), tolerations, ports)
    )
    if compatibility is None or compatibility.types >> query.reserved_launch.type_number & 1:
        return None
    return ReservationHostPortsTaken(ports=tuple(sorted({port.port for port in ports})))


def _check_availability(query: ObstacleQuery) -> ReservationObstacle | None:
    return (
        None
        if query.reserved_launch.is_available
        else ReservationUnavailable(instance_type=query.reserved_launch.instance_type.name)
    )


def _check_existing_nodes(query: ObstacleQuery) -> ReservationObstacle | None:
    return ExistingNodeUsed() if query.candidate.placement is CurrentPlacement.EXISTING else None


def _check_pool_weight(query: ObstacleQuery) -> ReservationObstacle | None:
    own = query.reserved_launch.template.pool.weight
    weight = own if query.candidate.pool is None else query.context.weights[query.candidate.pool]
    if query.candidate.pool is None or weight <= own:
        return None
    return HigherWeightPoolUsed(pool=query.candidate.pool, weight=weight, own=own)


def _check_limits(query: ObstacleQuery) -> LimitExceeded | None:
    return query.reserved_launch.exceeded_limit


def _check_preferences(query: ObstacleQuery) -> ReservationObstacle | None:
    """The preference with the highest weight that was not relaxed counts like a requirement."""
    if not query.context.respect_preferences or query.candidate.failure is not None:
        return None
    for term in query.candidate.pod.constraints.preferred_nodes:
        preference = PreferredNodeAffinity(requirements=str(term.requirements), weight=term.weight)
        if preference not in query.candidate.given_up:
            is_violated = query.reserved_launch.label_conflict(term.requirements) is not None
            return PreferredElsewhere(preference=preference) if is_violated else None
    return None


def _check_topology(query: ObstacleQuery) -> ReservationObstacle | None:
    if query.candidate.failure is not None:
        reason = query.candidate.failure.reason
        return reason if isinstance(reason, TopologyUnsatisfied) else None
    remaining_domains = query.candidate.remaining_domains
    if remaining_domains is None:
        return None
    conflict = remaining_domains.conflict_with(
        query.reserved_launch.node_requirements(_matching_requirements(query))
    )
    return conflict or (BlockedByOtherPods() if remaining_domains.is_concerned else None)


def _fallback_reason(query: ObstacleQuery) -> ReservationObstacle:
    """The reason of the plan itself."""
    if query.candidate.failure is None:
        return OtherPoolUsed(pool=query.candidate.pool or "")
    reasons = {verdict.pool: verdict.reason for verdict in query.candidate.failure.pools}
    return reasons.get(query.reserved_launch.template.pool.name, NoCompatiblePool())


OBSTACLE_CHECKS: Final[tuple[ObstacleCheck, ...]] = (
    _check_pod,
    _check_taints,
    _check_labels,
    _check_resources,
    _check_host_ports,
    _check_availability,
    _check_existing_nodes,
    _check_pool_weight,
    _check_limits,
    _check_preferences,
    _check_topology,
)
"""In the order of the scheduler; the first check that fails gives the reason."""
