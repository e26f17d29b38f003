"""Laws of idle reservations: whoever is kept off one is told what did it."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import Case

from wainwright.core.idleness.idle import Idle, idle
from wainwright.model.obstacle import Elsewhere, HeavierPool, Kept, NodesFirst, Place
from wainwright.model.reason import LimitReached, NoPoolFits
from wainwright.model.snapshot import Reservation

SEEDS = st.integers(min_value=1, max_value=1000)
HALF = settings(max_examples=max(1, settings().max_examples // 2))


def stocktaking(case: Case) -> tuple[Idle, ...]:
    """What becomes of the slots of every reservation that is on offer."""
    if not case.options.capacity_reservations:
        return ()
    listed = tuple(
        Reservation(id=use.id, total=use.total, available=use.available)
        for use in case.plan.reservations
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


def is_true(case: Case, kept: Kept) -> bool:
    """As far as a look at the plan can tell."""
    match kept.reason:
        case Elsewhere() | NoPoolFits():
            return False  # there is always something that stopped it
        case NodesFirst():
            return kept.place is Place.EXISTING
        case HeavierPool(pool=pool):
            weights = {each.name: each.weight for each in case.snapshot.pools}
            homes = {each.pool for each in case.plan.claims if set(each.pods) & set(kept.pods)}
            return homes == {pool} and weights[pool] > weights[kept.pool]
        case LimitReached(limit=limit, in_use=in_use, needed=needed):
            return in_use + needed > limit
        case _:
            return True
