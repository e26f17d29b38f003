"""Loading: those who wait, in loads that their machines hold."""

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.support.model import asking
from tests.support.yards import GENERAL, fleet, pods

from wainwright.core.packing import loading
from wainwright.core.packing.homes import home
from wainwright.core.packing.loading import Seed, Waiting, seeds
from wainwright.core.plan import solved
from wainwright.model.index import TypeIndex
from wainwright.model.labels import ARCH, INSTANCE_FAMILY, INSTANCE_SIZE, ZONE
from wainwright.model.options import DEFAULT_OPTIONS, MinValuesPolicy, Options
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.resources import Resources, add, fits
from wainwright.model.snapshot import Snapshot

LOOKS = 20_000
LENIENT = Options(min_values_policy=MinValuesPolicy.BEST_EFFORT)


def loaded(
    waiting: Sequence[Pod], *pools: Pool, looks: int = LOOKS, options: Options = DEFAULT_OPTIONS
) -> list[Seed]:
    """The loads of pods that nobody has placed yet."""
    index = TypeIndex(fleet())
    snapshot = Snapshot(pods=tuple(waiting), pools=pools or (GENERAL,))
    catalogs = {pool.name: index for pool in snapshot.pools}
    found = solved(snapshot, catalogs, options)
    homes = [(group, home(group, found.placing.ladder)) for group in found.classes.all]
    queue = [Waiting(group, each, list(group.pods)) for group, each in homes if each is not None]
    return seeds(queue, found.placing.templates, found.classes.resources, looks)


def members(found: Sequence[Seed]) -> Counter[str]:
    return Counter(pod.key for seed in found for pod, _ in seed.members)


def assert_held(found: Sequence[Seed]) -> None:
    for seed in found:
        total: Resources = {}
        for pod, _ in seed.members:
            total = add(total, {**pod.requests, "pods": 1})
        assert fits(total, seed.machine.template.index.types[seed.machine.row].allocatable)


def test_everybody_is_in_one_load_that_its_machine_holds() -> None:
    waiting = pods(80)
    found = loaded(waiting)
    assert members(found) == Counter(pod.key for pod in waiting)
    assert_held(found)


def test_more_looks_give_cheaper_loads() -> None:
    few, many = (loaded(pods(80), looks=looks) for looks in (0, 300_000))
    assert sum(s.machine.price for s in many) < sum(s.machine.price for s in few)


def test_the_heaviest_pools_come_first_and_then_what_is_best_for_its_price() -> None:
    heavy = Pool(name="heavy", weight=10, requirements=asking(INSTANCE_FAMILY, "In", "r"))
    picky = pods(40, "picky", asks=(asking(INSTANCE_FAMILY, "In", "c"),))
    found = loaded([*picky, *pods(40)], GENERAL, heavy)
    ranks = [(-seed.machine.template.pool.weight, seed.rate) for seed in found]
    assert ranks == sorted(ranks)
    assert {seed.machine.template.pool.name for seed in found} == {"heavy", "general"}


def test_many_sizes_are_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the time goes with the number of them, and not with its square."""
    monkeypatch.setattr(loading, "TOGETHER", 5)
    waiting = pods(60)
    found = loaded(waiting)
    assert members(found) == Counter(pod.key for pod in waiting)
    assert_held(found)


def test_of_many_kinds_the_lightest_are_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "CUSTOMERS", 2)
    zones = {"a": 30, "b": 20, "c": 10}
    waiting = [
        pod
        for name, count in zones.items()
        for pod in pods(count, name, asks=(asking(ZONE, "In", f"zone-{name}"),))
    ]
    apps = {key.split("/")[1][0] for key in members(loaded(waiting))}
    assert apps == {"a", "b"}


def test_whom_no_machine_holds_is_left_out_of_loads() -> None:
    """What would be large enough leaves too little choice to be filled to the brim."""
    diverse = Pool(name="diverse", requirements=asking(INSTANCE_SIZE, min_values=5))
    found = loaded([*pods(12), *pods(4, "large", scale=20)], diverse, options=LENIENT)
    assert len(members(found)) >= 12
    assert not [key for key in members(found) if "large" in key]
    assert_held(found)


def test_nobody_waits_and_nothing_is_for_sale() -> None:
    assert loaded([]) == []
    assert loaded(pods(3, asks=(asking(ARCH, "In", "arm64"),))) == []
