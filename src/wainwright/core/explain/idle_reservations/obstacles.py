"""Obstacles: the first check, in the order of the scheduler, by which a candidate pod cannot be
launched into a reservation through a NodePool.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.explain.idle_reservations.candidate_pods import CandidatePod
from wainwright.core.explain.instance_type_funnel import (
    available_offering_groups,
    check_min_values,
    daemonset_overcommit,
    exceeded_limits,
    limit_reached_reason,
)
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_requirements import SchedulingRequirements
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.labels import RESERVATION_ID
from wainwright.model.reasons import (
    BlockedByOtherPods,
    CurrentPlacement,
    ExistingNodeUsed,
    HigherWeightPoolUsed,
    LabelConflict,
    LimitExceeded,
    MinValuesUnsatisfied,
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
    UntoleratedTaint,
)
from wainwright.model.requirements import Requirements, ValueSet
from wainwright.model.resources import Resources, missing_resources, subtract_resources
from wainwright.model.taints import TOLERATE_PREFER_NO_SCHEDULE, find_untolerated_taint


class ReservedLaunch:
    """One NodePool and one instance type, launched into one reservation."""

    def __init__(self, template: NodeClaimTemplate, offering_group: int, row: int) -> None:
        self.template = template
        self.row = row
        self.instance_type = template.index.types[row]
        self._market = offering_group
        self._sold = template.index.offering_groups[offering_group]
        self._type_requirements = self.instance_type.requirements.narrow(self._sold.requirements)
        self.in_stock = bool(self._sold.available_types >> row & 1)
        self.barred = self._barred()
        """Why the pool itself does not allow it."""
        self.taken: Resources = template.overhead.of(row)
        """By daemonsets."""
        self.room = subtract_resources(self.instance_type.allocatable, self.taken)
        self.overdrawn = daemonset_overcommit(template, 1 << row)
        """Where daemonsets want more than there is; then nothing fits at all."""
        self.limit = self._limit()
        self._label_conflicts: dict[Requirements, LabelConflict | None] = {}

    @property
    def identity(self) -> object:
        """What sets it apart from launches into other reservations, but for their names."""
        sold = self._sold.requirements.without({RESERVATION_ID})
        return self.template.number, self.row, self.in_stock, sold

    def label_conflict(self, wanted: Requirements) -> LabelConflict | None:
        """Why its labels are not those that are wanted."""
        if wanted not in self._label_conflicts:
            self._label_conflicts[wanted] = self._label_conflict(wanted)
        return self._label_conflicts[wanted]

    def node_requirements(self, wanted: Requirements) -> Requirements:
        """What the labels of a node would be that is launched for who wants this."""
        pool = self.template.base.requirements
        return self._type_requirements.narrow(pool).narrow(self.template.decided_here(wanted))

    def is_known(self, wanted: Requirements) -> bool:
        """Whether the pool could give that with other instance types."""
        return self.template.base.requirements.is_compatible(wanted, self.template.well_known)

    def _barred(self) -> PoolExcludesReservation | None:
        wanted = self.template.base.requirements
        if self._is(wanted):
            return None
        key = self._failing(wanted, wanted)
        return PoolExcludesReservation(
            key=key, wanted=wanted.allowed(key), offered=self._value(key)
        )

    def _label_conflict(self, wanted: Requirements) -> LabelConflict | None:
        pool = self.template.base.requirements
        found = pool.find_conflict(wanted, self.template.well_known)
        if found is not None:
            return LabelConflict(key=found.key, wanted=found.wanted, offered=found.offered)
        asked = self.template.decided_here(wanted)
        both = pool.narrow(asked)
        if self._is(both):
            return None
        key = self._failing(asked, both)
        return LabelConflict(key=key, wanted=wanted.allowed(key), offered=self._value(key))

    def _is(self, wanted: Requirements) -> bool:
        index = self.template.index
        admitted = index.compatible_types(wanted) >> self.row & 1
        return bool(admitted and index.compatible_groups(wanted) >> self._market & 1)

    def _failing(self, keys: Iterable[str], wanted: Requirements) -> str:
        """The first of the labels that is not as it should be."""
        known = list(keys)
        each = (key for key in known if not self._is(wanted.without(set(wanted) - {key})))
        return next(each, known[0])

    def _value(self, key: str) -> ValueSet | None:
        """What its nodes have there; None where they lack the label."""
        return self._type_requirements[key].allowed if key in self._type_requirements else None

    def _limit(self) -> LimitExceeded | None:
        """The limit that one more node would break."""
        names = exceeded_limits(self.template, self.row)
        return limit_reached_reason(self.template, self.row, names[0]) if names else None


def find_reserved_launches(
    reservation: str, templates: Iterable[NodeClaimTemplate]
) -> Iterator[list[ReservedLaunch]]:
    """By pool, highest weight first, all types that the reservation is for."""
    for template in templates:
        found = [
            ReservedLaunch(template, number, row)
            for number, offering_group in enumerate(template.index.offering_groups)
            if offering_group.reservation_id == reservation
            for row in iter_bits(offering_group.offered_types)
        ]
        if found:
            yield found


class ObstacleContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan has come to."""

    free: Mapping[str, int]
    """Available capacity of each reservation."""
    weights: Mapping[str, int]
    """Of the pools, by name."""
    strict: bool
    """Whether minValues must be kept."""
    respects: bool
    """Whether preferences are."""


class ObstacleQuery(NamedTuple):
    """Why these pods were not launched into the reservation like this."""

    reserved_launch: ReservedLaunch
    candidate: CandidatePod
    context: ObstacleContext


ObstacleCheck: TypeAlias = Callable[[ObstacleQuery], ReservationObstacle | None]


def find_obstacle(
    reserved_launches: Sequence[ReservedLaunch], candidate: CandidatePod, context: ObstacleContext
) -> ReservationObstacle:
    """What stopped the pod with the launch with which it came furthest."""
    return max(
        (
            _first_obstacle(reserved_launch, candidate, context)
            for reserved_launch in reserved_launches
        ),
        key=lambda found: found[0],
    )[1]


def _first_obstacle(
    reserved_launch: ReservedLaunch, candidate: CandidatePod, context: ObstacleContext
) -> tuple[int, ReservationObstacle]:
    asked = ObstacleQuery(reserved_launch, candidate, context)
    for number, test in enumerate(OBSTACLE_CHECKS):
        found = test(asked)
        if found is not None:
            return number, found
    return len(OBSTACLE_CHECKS), _fallback_reason(asked)


def _check_pod(asked: ObstacleQuery) -> ReservationObstacle | None:
    """Whatever the pool, there is no place for such a pod."""
    failure = asked.candidate.failure
    if failure is None or (failure.pools and asked.candidate.wanted):
        return None
    return failure.reason


def _check_taints(asked: ObstacleQuery) -> ReservationObstacle | None:
    tolerations = asked.candidate.pod.tolerations
    if asked.candidate.failure is not None or PreferNoScheduleTaint() in asked.candidate.given_up:
        tolerations = (*tolerations, TOLERATE_PREFER_NO_SCHEDULE)
    taint = find_untolerated_taint(asked.reserved_launch.template.pool.taints, tolerations)
    return None if taint is None else UntoleratedTaint(taint=taint)


def _check_labels(asked: ObstacleQuery) -> ReservationObstacle | None:
    """None where any of the alternatives would do; else why the nearest of them would not."""
    if asked.reserved_launch.barred is not None:
        return asked.reserved_launch.barred
    conflicts = [
        (each, asked.reserved_launch.label_conflict(each)) for each in asked.candidate.wanted
    ]
    if any(found is None for _, found in conflicts):
        return None
    _, nearest = max(
        conflicts, key=lambda label_conflict: _alternative_rank(asked, label_conflict[0])
    )
    return nearest


def _alternative_rank(asked: ObstacleQuery, wanted: Requirements) -> tuple[bool, bool]:
    return asked.reserved_launch.is_known(wanted), wanted == asked.candidate.placed_by


def _matching_requirements(asked: ObstacleQuery) -> Requirements:
    """The first alternative that such a launch would match."""
    return next(
        each
        for each in asked.candidate.wanted
        if asked.reserved_launch.label_conflict(each) is None
    )


def _check_resources(asked: ObstacleQuery) -> ReservationObstacle | None:
    needs, room = asked.candidate.needs, asked.reserved_launch.room
    if asked.reserved_launch.overdrawn is not None:
        return asked.reserved_launch.overdrawn
    for name in missing_resources(needs, room):
        return ReservationTooSmall(
            resource=name,
            needed=needs.get(name, 0),
            room=room.get(name, 0),
            instance_type=asked.reserved_launch.instance_type.name,
            daemonsets=asked.reserved_launch.taken.get(name, 0),
        )
    return None


def _check_host_ports(asked: ObstacleQuery) -> ReservationObstacle | None:
    ports = asked.candidate.pod.constraints.ports
    if not ports:
        return None
    tolerations = (*asked.candidate.pod.tolerations, TOLERATE_PREFER_NO_SCHEDULE)
    terms = asked.reserved_launch.template.terms(
        SchedulingRequirements(_matching_requirements(asked), tolerations, ports)
    )
    if terms is None or terms.rows >> asked.reserved_launch.row & 1:
        return None
    return ReservationHostPortsTaken(ports=tuple(sorted({port.port for port in ports})))


def _check_availability(asked: ObstacleQuery) -> ReservationObstacle | None:
    return (
        None
        if asked.reserved_launch.in_stock
        else ReservationUnavailable(instance_type=asked.reserved_launch.instance_type.name)
    )


def _check_existing_nodes(asked: ObstacleQuery) -> ReservationObstacle | None:
    return ExistingNodeUsed() if asked.candidate.place is CurrentPlacement.EXISTING else None


def _check_pool_weight(asked: ObstacleQuery) -> ReservationObstacle | None:
    own = asked.reserved_launch.template.pool.weight
    weight = own if asked.candidate.pool is None else asked.context.weights[asked.candidate.pool]
    if asked.candidate.pool is None or weight <= own:
        return None
    return HigherWeightPoolUsed(pool=asked.candidate.pool, weight=weight, own=own)


def _check_min_values(asked: ObstacleQuery) -> ReservationObstacle | None:
    if not asked.context.strict or not asked.reserved_launch.template.minimums:
        return None
    return _too_few_values(asked, asked.reserved_launch.template.index.all_types)


def _check_limits(asked: ObstacleQuery) -> LimitExceeded | MinValuesUnsatisfied | None:
    if (
        asked.reserved_launch.limit is not None
        or not asked.context.strict
        or not asked.reserved_launch.template.minimums
    ):
        return asked.reserved_launch.limit
    return _too_few_values(asked, asked.reserved_launch.template.limits.allowed)


def _too_few_values(asked: ObstacleQuery, among: BitSet) -> MinValuesUnsatisfied | None:
    """Whether those of the types that hold the pod are less diverse than the pool asks for."""
    template, index = asked.reserved_launch.template, asked.reserved_launch.template.index
    wanted = template.base.requirements.narrow(template.decided_here(_matching_requirements(asked)))
    offering_groups = available_offering_groups(index, wanted, asked.context.free)
    rows = index.compatible_types(wanted) & template.room.fitting(asked.candidate.needs)
    return check_min_values(
        template, wanted, rows & index.available_in(offering_groups) & among, offering_groups
    )


def _check_preferences(asked: ObstacleQuery) -> ReservationObstacle | None:
    """The heaviest preference that it did not have to give up is as good as a requirement."""
    if not asked.context.respects or asked.candidate.failure is not None:
        return None
    for liked in asked.candidate.pod.constraints.preferred_nodes:
        told = PreferredNodeAffinity(requirements=str(liked.requirements), weight=liked.weight)
        if told not in asked.candidate.given_up:
            kept_off = asked.reserved_launch.label_conflict(liked.requirements) is not None
            return PreferredElsewhere(preference=told) if kept_off else None
    return None


def _check_topology(asked: ObstacleQuery) -> ReservationObstacle | None:
    if asked.candidate.failure is not None:
        reason = asked.candidate.failure.reason
        return reason if isinstance(reason, TopologyUnsatisfied) else None
    remaining_domains = asked.candidate.remaining_domains
    if remaining_domains is None:
        return None
    found = remaining_domains.against(
        asked.reserved_launch.node_requirements(_matching_requirements(asked))
    )
    return found or (BlockedByOtherPods() if remaining_domains.is_concerned else None)


def _fallback_reason(asked: ObstacleQuery) -> ReservationObstacle:
    """What the plan itself says."""
    if asked.candidate.failure is None:
        return OtherPoolUsed(pool=asked.candidate.pool or "")
    said = {verdict.pool: verdict.reason for verdict in asked.candidate.failure.pools}
    return said.get(asked.reserved_launch.template.pool.name, NoCompatiblePool())


OBSTACLE_CHECKS: Final[tuple[ObstacleCheck, ...]] = (
    _check_pod,
    _check_taints,
    _check_labels,
    _check_resources,
    _check_host_ports,
    _check_availability,
    _check_existing_nodes,
    _check_pool_weight,
    _check_min_values,
    _check_limits,
    _check_preferences,
    _check_topology,
)
"""In the order in which a pool is asked; who passes one is asked the next."""
