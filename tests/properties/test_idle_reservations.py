"""Laws of idle reservations: the obstacle reported for a pod is a true one."""

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.kube_scheduler.binding import BoundCluster
from tests.support.kube_scheduler.filters import BoundNode, filter_failure
from tests.support.model_builders import explained_plan
from tests.support.random_inputs.constrained import random_constrained_input, random_mixed_input
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.plan_checks import PlannedCase

from wainwright.core.explain.idle_reservations.utilization import (
    ReservationUtilization,
    reservation_utilization,
)
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, RESERVED
from wainwright.model.plan import ExplainedPlan
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    BlockedByOtherPods,
    CurrentPlacement,
    DaemonSetsExceedCapacity,
    ExistingNodeUsed,
    HigherWeightPoolUsed,
    LabelConflict,
    LimitExceeded,
    MinValuesUnsatisfied,
    NoCompatiblePool,
    OtherPoolUsed,
    PodsOffReservation,
    PoolExcludesReservation,
    PoolUnusable,
    PreferredElsewhere,
    ReservationHostPortsTaken,
    ReservationTooSmall,
    ReservationUnavailable,
    TopologyElsewhere,
    UntoleratedTaint,
)
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool, ReservationState

SEEDS = st.integers(min_value=1, max_value=1000)
HALF_OF_EXAMPLES = settings(max_examples=max(1, settings().max_examples // 2))


def idle_reservations(
    case: PlannedCase, only: str | None = None
) -> tuple[ReservationUtilization, ...]:
    """The utilization of every reservation that is offered, or of a single one."""
    if not case.options.capacity_reservations:
        return ()
    listed = tuple(
        ReservationState(id=use.id, total=use.total, available=use.available)
        for use in case.plan.reservations
        if only is None or use.id == only
    )
    snapshot = msgspec.structs.replace(case.snapshot, reservations=listed)
    return reservation_utilization(snapshot, case.planner_input.catalogs, case.plan, case.options)


def places(case: PlannedCase) -> dict[str, CurrentPlacement]:
    """Where pods are that use no reservation."""
    found = {pod.key: CurrentPlacement.NONE for pod in case.unplaced}
    for claim in case.plan.claims:
        if claim.launch.reservation_id is None:
            found |= dict.fromkeys(claim.pods, CurrentPlacement.NEW)
    for placement in case.plan.placements:
        found |= dict.fromkeys(placement.pods, CurrentPlacement.EXISTING)
    return found


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_every_available_instance_is_promised_used_or_idle(seed: int) -> None:
    for one in idle_reservations(PlannedCase(seed)):
        assert one.available == one.promised + one.used + one.idle


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_every_pod_without_a_reservation_has_one_obstacle_for_each_pool(seed: int) -> None:
    case = PlannedCase(seed)
    wanted = sorted(places(case))
    for one in idle_reservations(case):
        for pool in {obstacle.pool for obstacle in one.obstacles}:
            pods = [
                pod for obstacle in one.obstacles if obstacle.pool == pool for pod in obstacle.pods
            ]
            assert sorted(pods) == wanted


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_obstacles_are_true_and_match_the_placement_of_the_pod(seed: int) -> None:
    case = PlannedCase(seed)
    where = places(case)
    for one in idle_reservations(case):
        for obstacle in one.obstacles:
            assert {where[pod] for pod in obstacle.pods} == {obstacle.placement}
            assert is_true(case, obstacle), obstacle


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_the_utilization_of_a_reservation_does_not_depend_on_others(seed: int) -> None:
    case = PlannedCase(seed)
    for one in idle_reservations(case):
        assert [one] == [each for each in idle_reservations(case, one.id) if each.id == one.id]


def is_true(case: PlannedCase, obstacle: PodsOffReservation) -> bool:
    """As far as pods, pools, types and the plan show."""
    pods = [case.pods[key] for key in obstacle.pods]
    match obstacle.reason:
        case OtherPoolUsed() | BlockedByOtherPods() | TopologyElsewhere() | NoCompatiblePool():
            return False  # some check failed, and these pods have no topology constraints
        case ExistingNodeUsed():
            return obstacle.placement is CurrentPlacement.EXISTING
        case HigherWeightPoolUsed(pool=pool):
            weights = {each.name: each.weight for each in case.snapshot.pools}
            pools = {each.pool for each in case.plan.claims if set(each.pods) & set(obstacle.pods)}
            return pools == {pool} and weights[pool] > weights[obstacle.pool]
        case LimitExceeded(limit=limit, in_use=in_use, needed=needed):
            return in_use + needed > limit
        case _:
            return all(is_true_of(case, obstacle, pod) for pod in pods)


def is_true_of(case: PlannedCase, obstacle: PodsOffReservation, pod: Pod) -> bool:
    """For reasons that hold for each of the pods."""
    pool = next(each for each in case.snapshot.pools if each.name == obstacle.pool)
    match obstacle.reason:
        case ReservationTooSmall(resource=name, needed=needed, room=room, instance_type=kind):
            left = has(case, obstacle, kind, name) - obstacle.reason.daemonsets
            required = {**pod.requests, "pods": 1}.get(name, 0)
            return required >= needed > room == left >= 0
        case DaemonSetsExceedCapacity(resource=name, needed=needed, best=best, instance_type=kind):
            return needed > best == max(0, has(case, obstacle, kind, name))
        case UntoleratedTaint(taint=taint):
            tolerated = any(each.tolerates(taint) for each in pod.tolerations)
            return taint in pool.taints and not tolerated
        case LabelConflict(key=key, wanted=wanted, offered=offered):
            named = any(key in each for each in pod.alternatives)
            return named and (offered is None or (wanted & offered).is_empty)
        case PoolExcludesReservation(key=key, wanted=wanted, offered=offered):
            required = key in pool.node_requirements
            return required and (offered is None or (wanted & offered).is_empty)
        case _:
            return is_true_of_other_reason(obstacle, pool, pod)


def is_true_of_other_reason(obstacle: PodsOffReservation, pool: Pool, pod: Pod) -> bool:
    match obstacle.reason:
        case MinValuesUnsatisfied(needed=needed, found=found):
            return found < needed
        case PoolUnusable():
            return pool.unusable is not None
        case ReservationHostPortsTaken(ports=ports):
            return set(ports) == {each.port for each in pod.constraints.ports}
        case PreferredElsewhere():
            return bool(pod.constraints.preferred_nodes)
        case ReservationUnavailable():
            return obstacle.placement is not CurrentPlacement.EXISTING
        case _:
            return obstacle.placement is CurrentPlacement.NONE  # why it has no place at all


def has(case: PlannedCase, obstacle: PodsOffReservation, kind: str, resource: str) -> int:
    """What the type has allocatable, with the daemonset overhead."""
    types = case.planner_input.catalogs[obstacle.pool].types
    return next(each for each in types if each.name == kind).allocatable.get(resource, 0)


CONSTRAINED_SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
MANY = settings(max_examples=settings().max_examples * 4, phases=UNSHRUNK)
FREE = (Requirements(),)
ROOM = {"cpu": 10**9, "memory": 10**15, "pods": 10**6}


@MANY
@given(seed=CONSTRAINED_SEEDS)
def test_obstacles_are_true_among_pods_with_topology_constraints(seed: int) -> None:
    assert_obstacles_are_true(random_constrained_input(seed))


@MANY
@given(seed=CONSTRAINED_SEEDS)
def test_obstacles_are_true_where_some_pods_have_topology_constraints(seed: int) -> None:
    assert_obstacles_are_true(random_mixed_input(seed))


@pytest.mark.parametrize("seed", [873])
def test_a_constraint_that_held_only_during_planning_is_not_named(seed: int) -> None:
    """A new node that might have counted for the spread has become one that does not."""
    planner_input = random_mixed_input(seed)
    found = [obstacle.reason for _, obstacle in obstacles(planner_input, planned(planner_input))]
    assert BlockedByOtherPods() in found
    assert not any(isinstance(each, OtherPoolUsed) for each in found)


def planned(planner_input: PlannerInput) -> ExplainedPlan:
    return explained_plan(
        planner_input.snapshot,
        planner_input.catalogs,
        planner_input.options,
        with_suggestions=False,
    )


def obstacles(
    planner_input: PlannerInput, found_plan: ExplainedPlan
) -> list[tuple[str, PodsOffReservation]]:
    if not planner_input.options.capacity_reservations:
        return []
    uses = found_plan.reservations
    listed = tuple(ReservationState(id=u.id, total=u.total, available=u.available) for u in uses)
    snapshot = msgspec.structs.replace(planner_input.snapshot, reservations=listed)
    found = reservation_utilization(
        snapshot, planner_input.catalogs, found_plan, planner_input.options
    )
    return [(one.id, obstacle) for one in found for obstacle in one.obstacles]


def assert_obstacles_are_true(planner_input: PlannerInput) -> None:
    found_plan = planned(planner_input)
    for name, obstacle in obstacles(planner_input, found_plan):
        assert not isinstance(obstacle.reason, OtherPoolUsed), obstacle
        if isinstance(obstacle.reason, TopologyElsewhere):
            for key in obstacle.pods:
                assert is_true_obstacle(planner_input, found_plan, name, obstacle, key), obstacle


def is_true_obstacle(
    planner_input: PlannerInput,
    found_plan: ExplainedPlan,
    name: str,
    obstacle: PodsOffReservation,
    key: str,
) -> bool:
    """Whether the kube-scheduler would keep the pod off a node of the reservation.

    It ignores preferences, and domains that have no node yet.
    """
    cluster = BoundCluster(planner_input, found_plan)
    pod = next(each for each, _ in cluster.waiting if each.key == key)
    if is_not_checked(pod):
        return True
    for other, host in cluster.waiting:
        if other is not pod:
            host.pods.append(other)
    nodes = hosts(planner_input, name, obstacle.pool)
    # Where the reservation is for several types, others may not suit the pod for other reasons.
    return any(filter_failure(only_topology(pod), node, [*cluster.hosts, node]) for node in nodes)


def is_not_checked(pod: Pod) -> bool:
    constraints = pod.constraints
    return bool(
        constraints.spreads or constraints.preferred_affinity or constraints.preferred_anti_affinity
    )


def only_topology(pod: Pod) -> Pod:
    """The pod with nothing but its topology constraints."""
    constraints = msgspec.structs.replace(
        pod.constraints, ports=(), attachments=(), volume_topology=FREE
    )
    return msgspec.structs.replace(pod, requests={}, alternatives=FREE, constraints=constraints)


def hosts(planner_input: PlannerInput, name: str, pool: str) -> list[BoundNode]:
    """New nodes of the reservation, one for each of its types."""
    required = next(
        each for each in planner_input.snapshot.pools if each.name == pool
    ).node_requirements
    return [
        BoundNode("new", labels(required, kind, offer), (), dict(ROOM))
        for kind in planner_input.catalogs[pool].types
        for offer in kind.offerings
        if offer.reservation_id == name
    ]


def labels(required: Requirements, kind: InstanceType, offer: Offering) -> dict[str, str]:
    every = kind.requirements.narrow(offer.requirements).narrow(required)
    known = {key: value for key in every if (value := every.single_value(key)) is not None}
    return {**known, CAPACITY_TYPE: RESERVED, HOSTNAME: "new"}
