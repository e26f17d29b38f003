"""Fixes do what they say: in worlds where much gets in the way, made and planned anew."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace
from tests.support.randomworlds import World, random_world
from tests.support.tiedworlds import tied_world

from wainwright.core.plan import plan
from wainwright.core.remedies.changes import changed_pod, changed_pool
from wainwright.model.options import Packing
from wainwright.model.plan import Plan
from wainwright.model.suggestion import Advice

MAKERS = {"plain": random_world, "tied": tied_world}
SEEDS = range(1, 61)


def without_place(found: Plan) -> set[str]:
    return {key for group in found.unschedulable for key in group.pods}


def advised(found: Plan) -> Iterator[tuple[Advice, set[str]]]:
    """Every advice, with all pods for which it is printed in one block."""
    blocks: dict[object, tuple[Advice, set[str]]] = {}
    for group in found.unschedulable:
        if group.suggestion is not None:
            told = replace(group, pods=())
            blocks.setdefault(told, (group.suggestion, set()))[1].update(group.pods)
    yield from blocks.values()


def followed(world: World, advice: Advice, keys: set[str]) -> Plan:
    pods, pools = world.snapshot.pods, world.snapshot.pools
    for change in advice.changes:
        pods = tuple(changed_pod(change, pod) if pod.key in keys else pod for pod in pods)
        pools = tuple(changed_pool(change, pool) for pool in pools)
    changed = replace(world.snapshot, pods=pods, pools=pools)
    return plan(changed, world.catalogs, world.options, advise=False)


@pytest.mark.parametrize("packing", Packing)
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_law_29_a_fix_serves_as_many_as_it_says_and_nobody_loses_by_it(
    maker: Callable[[int], World], packing: Packing
) -> None:
    """Also where first-fit was proof enough of what is packed by cost."""
    tried = 0
    for seed in SEEDS:
        world = maker(seed)
        world = replace(world, options=replace(world.options, packing=packing))
        found = plan(world.snapshot, world.catalogs, world.options)
        for advice, keys in advised(found):
            left = without_place(followed(world, advice, keys))
            assert len(keys) == advice.of, (seed, advice)
            assert advice.alone or len(keys - left) == advice.serves > 0, (seed, advice)
            assert advice.alone or left <= without_place(found), (seed, advice)
            tried += not advice.alone
    assert tried > len(SEEDS) // 6
