"""What decided where a pod went: told of the very plan, in worlds where much gets in the way."""

from collections.abc import Callable, Iterator
from random import Random

import msgspec
import pytest
from tests.support.randomworlds import World, random_world
from tests.support.tiedworlds import tied_world

from wainwright.core.plan import plan
from wainwright.core.why.bargain import bargain
from wainwright.core.why.decided import decided
from wainwright.core.why.decision import Decision
from wainwright.model.plan import PlannedClaim
from wainwright.model.pod import Pod
from wainwright.model.reason import Promised

SEEDS = range(1, 41)
Maker = Callable[[int], World]


def with_terms(maker: Maker) -> Maker:
    """The same worlds, where many pods put up with one thing or another."""

    def made(seed: int) -> World:
        world, dice = maker(seed), Random(seed)
        known = [each for pod in world.snapshot.pods for each in pod.alternatives]
        known += [pool.requirements for pool in world.snapshot.pools]

        def changed(pod: Pod) -> Pod:
            terms = tuple(dice.choices(known, k=dice.randint(1, 3)))
            return msgspec.structs.replace(pod, alternatives=terms)

        pods = tuple(changed(pod) for pod in world.snapshot.pods)
        snapshot = msgspec.structs.replace(world.snapshot, pods=pods)
        return msgspec.structs.replace(world, snapshot=snapshot)

    return made


MAKERS: dict[str, Maker] = {
    "plain": random_world,
    "tied": tied_world,
    "plain-terms": with_terms(random_world),
    "tied-terms": with_terms(tied_world),
}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One pod on a new node, and how it got there."""

    seed: int
    world: World
    claim: PlannedClaim
    pod: str
    found: Decision


@pytest.fixture(scope="module", params=list(MAKERS.values()), ids=list(MAKERS))
def everybody(request: pytest.FixtureRequest) -> list[Told]:
    return [each for seed in SEEDS for each in told(seed, request.param(seed))]


def told(seed: int, world: World) -> Iterator[Told]:
    for claim in plan(world.snapshot, world.catalogs, world.options, advise=False).claims:
        for pod in claim.pods:
            found = decided(world.snapshot, world.catalogs, world.options, claim, pod)
            assert found is not None, (seed, pod)
            yield Told(seed=seed, world=world, claim=claim, pod=pod, found=found)


def test_of_a_claim_that_no_plan_has_it_is_not_made_up_what_decided() -> None:
    world = random_world(1)
    claim = plan(world.snapshot, world.catalogs, world.options).claims[0]
    other = msgspec.structs.replace(claim, pool="another")
    with pytest.raises(AssertionError, match="made once more, a plan is the same"):
        decided(world.snapshot, world.catalogs, world.options, other, claim.pods[0])


def test_each_node_was_opened_for_one_pod_and_joined_by_the_others_in_turn(
    everybody: list[Told],
) -> None:
    before: dict[tuple[int, str], list[int]] = {}
    for each in everybody:
        assert {*each.found.joined, each.pod} <= set(each.claim.pods), (each.seed, each.pod)
        assert each.pod not in each.found.joined
        assert each.found.round >= each.claim.round
        before.setdefault((each.seed, each.claim.name), []).append(len(each.found.joined))
    for node, numbers in before.items():
        assert sorted(numbers) == list(range(len(numbers))), node


def test_every_pool_that_was_passed_over_has_a_reason(everybody: list[Told]) -> None:
    for each in everybody:
        found, weights = each.found, {p.name: p.weight for p in each.world.snapshot.pools}
        heavier = {name for name in weights if weights[name] > weights[each.claim.pool]}
        reasons = {word.pool: word.reason for word in found.earlier}
        assert heavier <= set(reasons), (each.seed, each.pod)
        if not found.joined or each.world.options.strict_weights:
            assert all(reasons[name] for name in heavier), (each.seed, each.pod)
        if not (found.joined or found.tied or found.for_slot):
            assert all(reasons.values()), (each.seed, each.pod)


def test_no_pool_is_said_to_keep_for_others_what_it_could_buy(everybody: list[Told]) -> None:
    for each in everybody:
        reasons = [word.reason for word in each.found.earlier]
        assert not any(isinstance(reason, Promised) for reason in reasons), (each.seed, each.pod)


def test_every_node_of_the_cluster_has_a_reason(everybody: list[Told]) -> None:
    for each in everybody:
        told = sum(one.nodes for one in each.found.nodes)
        assert told == len(each.world.snapshot.nodes), (each.seed, each.pod)


def test_the_best_buy_is_what_is_bought(everybody: list[Told]) -> None:
    for each in everybody:
        claim, world = each.claim, each.world
        pool = next(pool for pool in world.snapshot.pools if pool.name == claim.pool)
        index = world.catalogs[claim.pool]
        offered = bargain(claim, pool, index)
        fee = next(kind.fee for kind in index.types if kind.name == claim.launch.instance_type)
        prices = [one for one in (offered.spot, offered.on_demand) if one is not None]
        if claim.launch.reservation_id is None:
            assert claim.launch.price + fee == pytest.approx(min(prices)), (each.seed, claim.name)
