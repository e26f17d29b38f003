"""Laws of idle reservations: whoever is kept off one is told what did it."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import Case

from wainwright.core.idleness.idle import Idle, idle
from wainwright.model.obstacle import (
    Crowded,
    Elsewhere,
    HeavierPool,
    KeptOff,
    NodesFirst,
    OutOfStock,
    Place,
    PoolForbids,
    PortsTaken,
    Prefers,
    Tied,
    TooSmall,
)
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import (
    LabelConflict,
    LimitReached,
    NoPoolFits,
    Overdrawn,
    PoolUnusable,
    TooFewValues,
    Untolerated,
)
from wainwright.model.snapshot import Reservation

SEEDS = st.integers(min_value=1, max_value=1000)
HALF = settings(max_examples=max(1, settings().max_examples // 2))


def stocktaking(case: Case, only: str | None = None) -> tuple[Idle, ...]:
    """What becomes of the slots of every reservation that is on offer, or of a single one."""
    if not case.options.capacity_reservations:
        return ()
    listed = tuple(
        Reservation(id=use.id, total=use.total, available=use.available)
        for use in case.plan.reservations
        if only is None or use.id == only
    )
    snapshot = msgspec.structs.replace(case.snapshot, reservations=listed)
    return idle(snapshot, case.world.catalogs, case.plan, case.options)


def places(case: Case) -> dict[str, Place]:
    """Where pods are that take no slot."""
    found = {pod.key: Place.NONE for pod in case.unplaced}
    for claim in case.plan.claims:
        if claim.launch.reservation_id is None:
            found |= dict.fromkeys(claim.pods, Place.NEW)
    for placement in case.plan.placements:
        found |= dict.fromkeys(placement.pods, Place.EXISTING)
    return found


@HALF
@given(seed=SEEDS)
def test_every_free_slot_is_promised_used_or_idle(seed: int) -> None:
    for one in stocktaking(Case(seed)):
        assert one.available == one.promised + one.used + one.idle


@HALF
@given(seed=SEEDS)
def test_every_pod_without_a_slot_is_told_of_once_for_each_pool(seed: int) -> None:
    case = Case(seed)
    wanted = sorted(places(case))
    for one in stocktaking(case):
        for pool in {kept.pool for kept in one.kept}:
            pods = [pod for kept in one.kept if kept.pool == pool for pod in kept.pods]
            assert sorted(pods) == wanted


@HALF
@given(seed=SEEDS)
def test_what_is_said_of_a_pod_fits_where_it_is(seed: int) -> None:
    case = Case(seed)
    where = places(case)
    for one in stocktaking(case):
        for kept in one.kept:
            assert {where[pod] for pod in kept.pods} == {kept.place}
            assert is_true(case, kept), kept


@HALF
@given(seed=SEEDS)
def test_what_is_said_of_a_reservation_is_said_whatever_others_there_are(seed: int) -> None:
    case = Case(seed)
    for one in stocktaking(case):
        assert [one] == [each for each in stocktaking(case, one.id) if each.id == one.id]


def is_true(case: Case, kept: KeptOff) -> bool:
    """As far as a look at pods, pools, types and plan can tell."""
    pods = [case.pods[key] for key in kept.pods]
    match kept.reason:
        case Elsewhere() | Crowded() | Tied() | NoPoolFits():
            return False  # there is always something that stopped it, and no pod minds another
        case NodesFirst():
            return kept.place is Place.EXISTING
        case HeavierPool(pool=pool):
            weights = {each.name: each.weight for each in case.snapshot.pools}
            homes = {each.pool for each in case.plan.claims if set(each.pods) & set(kept.pods)}
            return homes == {pool} and weights[pool] > weights[kept.pool]
        case LimitReached(limit=limit, in_use=in_use, needed=needed):
            return in_use + needed > limit
        case _:
            return all(is_true_of(case, kept, pod) for pod in pods)


def is_true_of(case: Case, kept: KeptOff, pod: Pod) -> bool:
    """Of reasons that are one pod's, or everybody's."""
    pool = next(each for each in case.snapshot.pools if each.name == kept.pool)
    match kept.reason:
        case TooSmall(resource=name, needed=needed, room=room, instance_type=kind):
            left = has(case, kept, kind, name) - kept.reason.daemonsets
            asked = {**pod.requests, "pods": 1}.get(name, 0)
            return asked >= needed > room == left >= 0
        case Overdrawn(resource=name, needed=needed, best=best, instance_type=kind):
            return needed > best == max(0, has(case, kept, kind, name))
        case Untolerated(taint=taint):
            tolerated = any(each.tolerates(taint) for each in pod.tolerations)
            return taint in pool.taints and not tolerated
        case LabelConflict(key=key, wanted=wanted, offered=offered):
            named = any(key in each for each in pod.alternatives)
            return named and (offered is None or (wanted & offered).empty)
        case PoolForbids(key=key, wanted=wanted, offered=offered):
            asked = key in pool.node_requirements
            return asked and (offered is None or (wanted & offered).empty)
        case _:
            return is_true_otherwise(kept, pool, pod)


def is_true_otherwise(kept: KeptOff, pool: Pool, pod: Pod) -> bool:
    match kept.reason:
        case TooFewValues(needed=needed, found=found):
            return found < needed
        case PoolUnusable():
            return pool.unusable is not None
        case PortsTaken(ports=ports):
            return set(ports) == {each.port for each in pod.bonds.ports}
        case Prefers():
            return bool(pod.bonds.preferred_nodes)
        case OutOfStock():
            return kept.place is not Place.EXISTING
        case _:
            return kept.place is Place.NONE  # why it has no place at all


def has(case: Case, kept: KeptOff, kind: str, resource: str) -> int:
    """What the type has before daemonsets take their share."""
    types = case.world.catalogs[kept.pool].types
    return next(each for each in types if each.name == kind).allocatable.get(resource, 0)
