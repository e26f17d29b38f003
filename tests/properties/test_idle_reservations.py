"""Laws of idle reservations: whoever is kept off one is told what truly did it."""

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.kube_scheduler.binding import BoundCluster
from tests.support.kube_scheduler.filters import BoundNode, filter_failure
from tests.support.random_inputs.constrained import random_constrained_input, random_mixed_input
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.plan_checks import PlannedCase

from wainwright.core.explain.idle_reservations.utilization import (
    ReservationUtilization,
    reservation_utilization,
)
from wainwright.core.plan import plan
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, RESERVED
from wainwright.model.plan import Plan
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
    """What becomes of the slots of every reservation that is on offer, or of a single one."""
    if not case.options.capacity_reservations:
        return ()
    listed = tuple(
        ReservationState(id=use.id, total=use.total, available=use.available)
        for use in case.plan.reservations
        if only is None or use.id == only
    )
    snapshot = msgspec.structs.replace(case.snapshot, reservations=listed)
    return reservation_utilization(snapshot, case.world.catalogs, case.plan, case.options)


def places(case: PlannedCase) -> dict[str, CurrentPlacement]:
    """Where pods are that take no slot."""
    found = {pod.key: CurrentPlacement.NONE for pod in case.unplaced}
    for claim in case.plan.claims:
        if claim.launch.reservation_id is None:
            found |= dict.fromkeys(claim.pods, CurrentPlacement.NEW)
    for placement in case.plan.placements:
        found |= dict.fromkeys(placement.pods, CurrentPlacement.EXISTING)
    return found


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_every_free_slot_is_promised_used_or_idle(seed: int) -> None:
    for one in idle_reservations(PlannedCase(seed)):
        assert one.available == one.promised + one.used + one.idle


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_every_pod_without_a_slot_is_told_of_once_for_each_pool(seed: int) -> None:
    case = PlannedCase(seed)
    wanted = sorted(places(case))
    for one in idle_reservations(case):
        for pool in {kept.pool for kept in one.kept}:
            pods = [pod for kept in one.kept if kept.pool == pool for pod in kept.pods]
            assert sorted(pods) == wanted


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_what_is_said_of_a_pod_fits_where_it_is(seed: int) -> None:
    case = PlannedCase(seed)
    where = places(case)
    for one in idle_reservations(case):
        for kept in one.kept:
            assert {where[pod] for pod in kept.pods} == {kept.placement}
            assert is_true(case, kept), kept


@HALF_OF_EXAMPLES
@given(seed=SEEDS)
def test_what_is_said_of_a_reservation_is_said_whatever_others_there_are(seed: int) -> None:
    case = PlannedCase(seed)
    for one in idle_reservations(case):
        assert [one] == [each for each in idle_reservations(case, one.id) if each.id == one.id]


def is_true(case: PlannedCase, kept: PodsOffReservation) -> bool:
    """As far as a look at pods, pools, types and plan can tell."""
    pods = [case.pods[key] for key in kept.pods]
    match kept.reason:
        case OtherPoolUsed() | BlockedByOtherPods() | TopologyElsewhere() | NoCompatiblePool():
            return False  # there is always something that stopped it, and no pod minds another
        case ExistingNodeUsed():
            return kept.placement is CurrentPlacement.EXISTING
        case HigherWeightPoolUsed(pool=pool):
            weights = {each.name: each.weight for each in case.snapshot.pools}
            homes = {each.pool for each in case.plan.claims if set(each.pods) & set(kept.pods)}
            return homes == {pool} and weights[pool] > weights[kept.pool]
        case LimitExceeded(limit=limit, in_use=in_use, needed=needed):
            return in_use + needed > limit
        case _:
            return all(is_true_of(case, kept, pod) for pod in pods)


def is_true_of(case: PlannedCase, kept: PodsOffReservation, pod: Pod) -> bool:
    """Of reasons that are one pod's, or everybody's."""
    pool = next(each for each in case.snapshot.pools if each.name == kept.pool)
    match kept.reason:
        case ReservationTooSmall(resource=name, needed=needed, room=room, instance_type=kind):
            left = has(case, kept, kind, name) - kept.reason.daemonsets
            asked = {**pod.requests, "pods": 1}.get(name, 0)
            return asked >= needed > room == left >= 0
        case DaemonSetsExceedCapacity(resource=name, needed=needed, best=best, instance_type=kind):
            return needed > best == max(0, has(case, kept, kind, name))
        case UntoleratedTaint(taint=taint):
            tolerated = any(each.tolerates(taint) for each in pod.tolerations)
            return taint in pool.taints and not tolerated
        case LabelConflict(key=key, wanted=wanted, offered=offered):
            named = any(key in each for each in pod.alternatives)
            return named and (offered is None or (wanted & offered).is_empty)
        case PoolExcludesReservation(key=key, wanted=wanted, offered=offered):
            asked = key in pool.node_requirements
            return asked and (offered is None or (wanted & offered).is_empty)
        case _:
            return is_true_otherwise(kept, pool, pod)


def is_true_otherwise(kept: PodsOffReservation, pool: Pool, pod: Pod) -> bool:
    match kept.reason:
        case MinValuesUnsatisfied(needed=needed, found=found):
            return found < needed
        case PoolUnusable():
            return pool.unusable is not None
        case ReservationHostPortsTaken(ports=ports):
            return set(ports) == {each.port for each in pod.constraints.ports}
        case PreferredElsewhere():
            return bool(pod.constraints.preferred_nodes)
        case ReservationUnavailable():
            return kept.placement is not CurrentPlacement.EXISTING
        case _:
            return kept.placement is CurrentPlacement.NONE  # why it has no place at all


def has(case: PlannedCase, kept: PodsOffReservation, kind: str, resource: str) -> int:
    """What the type has before daemonsets take their share."""
    types = case.world.catalogs[kept.pool].types
    return next(each for each in types if each.name == kind).allocatable.get(resource, 0)


CONSTRAINED_SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller world
MANY = settings(max_examples=settings().max_examples * 4, phases=UNSHRUNK)
FREE = (Requirements(),)
ROOM = {"cpu": 10**9, "memory": 10**15, "pods": 10**6}


@MANY
@given(seed=CONSTRAINED_SEEDS)
def test_among_pods_that_mind_each_other(seed: int) -> None:
    assert_named_truly(random_constrained_input(seed))


@MANY
@given(seed=CONSTRAINED_SEEDS)
def test_among_pods_of_which_some_do(seed: int) -> None:
    assert_named_truly(random_mixed_input(seed))


@pytest.mark.parametrize("seed", [873])
def test_what_was_in_the_way_only_for_a_while_is_not_named(seed: int) -> None:
    """A new node that might have counted for the spread has become one that does not."""
    world = random_mixed_input(seed)
    found = [kept.reason for _, kept in kept_off_reservations(world, planned(world))]
    assert BlockedByOtherPods() in found
    assert not any(isinstance(each, OtherPoolUsed) for each in found)


def planned(world: PlannerInput) -> Plan:
    return plan(world.snapshot, world.catalogs, world.options, advise=False)


def kept_off_reservations(world: PlannerInput, made: Plan) -> list[tuple[str, PodsOffReservation]]:
    if not world.options.capacity_reservations:
        return []
    uses = made.reservations
    listed = tuple(ReservationState(id=u.id, total=u.total, available=u.available) for u in uses)
    snapshot = msgspec.structs.replace(world.snapshot, reservations=listed)
    found = reservation_utilization(snapshot, world.catalogs, made, world.options)
    return [(one.id, kept) for one in found for kept in one.kept]


def assert_named_truly(world: PlannerInput) -> None:
    made = planned(world)
    for name, kept in kept_off_reservations(world, made):
        assert not isinstance(kept.reason, OtherPoolUsed), kept
        if isinstance(kept.reason, TopologyElsewhere):
            for key in kept.pods:
                assert is_named_truly(world, made, name, kept, key), kept


def is_named_truly(
    world: PlannerInput, made: Plan, name: str, kept: PodsOffReservation, key: str
) -> bool:
    """Whether a kube-scheduler would keep the pod off a machine of the reservation.

    What the pod would only like, and places where no node is yet, it does not know.
    """
    cluster = BoundCluster(world, made)
    pod = next(each for each, _ in cluster.waiting if each.key == key)
    if is_beyond(pod):
        return True
    for other, host in cluster.waiting:
        if other is not pod:
            host.pods.append(other)
    slots = hosts(world, name, kept.pool)
    # Where the reservation is for several types, others may not suit the pod for other reasons.
    return any(filter_failure(anybody(pod), slot, [*cluster.hosts, slot]) for slot in slots)


def is_beyond(pod: Pod) -> bool:
    constraints = pod.constraints
    return bool(
        constraints.spreads or constraints.preferred_affinity or constraints.preferred_anti_affinity
    )


def anybody(pod: Pod) -> Pod:
    """The pod with nothing but what ties it to others."""
    constraints = msgspec.structs.replace(
        pod.constraints, ports=(), attachments=(), volume_topology=FREE
    )
    return msgspec.structs.replace(pod, requests={}, alternatives=FREE, constraints=constraints)


def hosts(world: PlannerInput, name: str, pool: str) -> list[BoundNode]:
    """New machines of the reservation, one for each type that it is for."""
    asked = next(each for each in world.snapshot.pools if each.name == pool).node_requirements
    return [
        BoundNode("new", labels(asked, kind, offer), (), dict(ROOM))
        for kind in world.catalogs[pool].types
        for offer in kind.offerings
        if offer.reservation_id == name
    ]


def labels(asked: Requirements, kind: InstanceType, offer: Offering) -> dict[str, str]:
    every = kind.requirements.narrow(offer.requirements).narrow(asked)
    known = {key: value for key in every if (value := every.single_value(key)) is not None}
    return {**known, CAPACITY_TYPE: RESERVED, HOSTNAME: "new"}
