"""Which pods are packed, from which NodePools, and which of them share a node."""

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.support.model_builders import label_requirement, offering
from tests.support.packing_builders import GENERAL, instance_families, varied_pods

from wainwright.core.packing import pod_packing
from wainwright.core.packing.pod_packing import (
    ItemClass,
    PackablePods,
    PackedNode,
    PackingTarget,
    allowed_offerings_of,
    conflicting_item_classes,
    largest_item_classes,
    pack_pods,
    packing_target,
)
from wainwright.core.plan import solve_snapshot
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.solver import Solution
from wainwright.model.bitset import iter_bits
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ARCH, INSTANCE_FAMILY, INSTANCE_SIZE, RESERVED, ZONE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, MinValuesPolicy, PlanOptions
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    NO_CONSTRAINTS,
    HostPort,
    Pod,
    PodConstraints,
    TopologySpread,
    pod_selector,
)
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, add_resources, fits
from wainwright.model.snapshot import Pool, Snapshot

TEAM = "example.com/team"
RESOURCES = ["cpu", "memory", "pods"]
SPREAD = PodConstraints(spreads=(TopologySpread(key=ZONE, selector=pod_selector({"app": "web"})),))
RESERVED_OFFERING = offering(
    capacity_type=RESERVED, price=1e-7, available=100, reservation_id="cr-1"
)


def of(team: str) -> Requirements:
    return label_requirement(TEAM, "In", team)


def solution(waiting: Sequence[Pod], *pools: Pool, types: Sequence[InstanceType] = ()) -> Solution:
    index = InstanceTypeIndex(types or instance_families())
    snapshot = Snapshot(pods=tuple(waiting), pools=pools or (GENERAL,))
    return solve_snapshot(
        snapshot, {pool.name: index for pool in pools or (GENERAL,)}, PlanOptions()
    )


def targets_of(found: Solution) -> list[PackingTarget | None]:
    return [packing_target(group, found.placement.pool_selector) for group in found.classes.all]


def item_classes_of(found: Solution) -> list[ItemClass]:
    return list(dict.fromkeys(each.item_class for each in targets_of(found) if each is not None))


def names(template: NodeClaimTemplate, rows: int) -> set[str]:
    return {template.index.types[row].name for row in iter_bits(rows)}


def test_pods_are_at_home_in_the_heaviest_pools_that_serve_them() -> None:
    light, heavy = Pool(name="light"), Pool(name="heavy", weight=50)
    closed = Pool(
        name="closed",
        weight=90,
        labels={TEAM: "x"},
        requirements=label_requirement(ZONE, "In", "z"),
    )
    found = solution(varied_pods(1), light, heavy, closed)
    assert [each and each.weight for each in targets_of(found)] == [50]
    mine = allowed_offerings_of(item_classes_of(found)[0], found.placement.templates, RESOURCES)
    bought = [t.pool.name for t in found.placement.templates if mine.rows[t.number]]
    assert bought == ["heavy"]


@pytest.mark.parametrize(
    ("constraints", "asks", "types"),
    [
        (SPREAD, ANY_NODE_TERMS, instance_families()),
        (PodConstraints(ports=(HostPort(port=80),)), ANY_NODE_TERMS, instance_families()),
        (NO_CONSTRAINTS, (label_requirement(ZONE, "In", "nowhere"),), instance_families()),
        (NO_CONSTRAINTS, ANY_NODE_TERMS, instance_families(more={"c.2": [RESERVED_OFFERING]})),
    ],
    ids=["tied", "port", "nobody serves them", "a slot comes first"],
)
def test_not_everybody_is_packed(
    constraints: PodConstraints, asks: Sequence[Requirements], types: list[InstanceType]
) -> None:
    found = solution(varied_pods(1, constraints=constraints, asks=asks), types=types)
    assert targets_of(found) == [None]


def test_a_slot_that_is_too_small_or_of_a_lighter_pool_keeps_nobody_from_being_packed() -> None:
    types = instance_families(more={"c.2": [RESERVED_OFFERING]})
    assert targets_of(solution(varied_pods(1, scale=10), types=types)) != [None]
    heavy = Pool(name="heavy", weight=9, requirements=label_requirement(INSTANCE_FAMILY, "In", "r"))
    assert targets_of(solution(varied_pods(1), GENERAL, heavy, types=types)) != [None]


def test_nothing_is_filled_that_limits_forbid() -> None:
    found = solution(varied_pods(1), Pool(name="small", limits={"cpu": 40_000}))
    template = found.placement.templates[0]
    mine = allowed_offerings_of(item_classes_of(found)[0], [template], RESOURCES)
    assert "c.32" in names(template, mine.rows[0])
    assert "c.64" not in names(template, mine.rows[0])


def test_zones_and_selectors_are_part_of_what_may_be_bought() -> None:
    picky = label_requirement(ZONE, "In", "zone-b").narrow(
        label_requirement(INSTANCE_FAMILY, "In", "m")
    )
    found = solution(varied_pods(1, asks=(picky,)))
    template = found.placement.templates[0]
    mine = allowed_offerings_of(item_classes_of(found)[0], [template], RESOURCES)
    assert {name[0] for name in names(template, mine.rows[0])} == {"m"}
    offering_groups = [
        template.index.offering_groups[number] for number in iter_bits(mine.offering_groups[0])
    ]
    assert {
        offering_group.requirements.single_value(ZONE) for offering_group in offering_groups
    } == {"zone-b"}


def test_only_what_leaves_enough_others_is_filled_to_the_brim() -> None:
    """Five sizes must be left: of the six the two smallest leave that many as large."""
    diverse = Pool(name="diverse", requirements=label_requirement(INSTANCE_SIZE, min_values=5))
    found = solution(varied_pods(1), diverse)
    template = found.placement.templates[0]
    mine = allowed_offerings_of(item_classes_of(found)[0], [template], RESOURCES)
    sizes = {int(name.partition(".")[2]) for name in names(template, mine.rows[0])}
    assert sizes == {2, 4}


def test_of_a_label_that_the_pool_decides_a_node_has_but_one_value() -> None:
    either = Pool(name="either", requirements=label_requirement(TEAM, "In", "x", "y"))
    waiting = [
        *varied_pods(1, "x", asks=(of("x"),)),
        *varied_pods(1, "y", asks=(of("y"),)),
        *varied_pods(1, "both", asks=(label_requirement(TEAM, "In", "x", "y"),)),
        *varied_pods(1, "any"),
    ]
    found = solution(waiting, either)
    asked = item_classes_of(found)
    wanted = [each.ask.requirements for each in asked]
    one, other = wanted.index(of("x")), wanted.index(of("y"))
    conflicts = conflicting_item_classes(asked, found.placement.templates[0])
    assert conflicts[one] == 1 << other
    assert conflicts[other] == 1 << one
    assert sum(map(bool, conflicts)) == 2


def test_those_with_the_most_pods_come_first() -> None:
    asks = [(label_requirement(ZONE, "In", zone),) for zone in ("zone-a", "zone-b", "zone-c")]
    waiting = [pod for n, each in enumerate(asks) for pod in varied_pods(1, f"app-{n}", asks=each)]
    found = [each for each in targets_of(solution(waiting)) if each is not None]
    first, second, third = found
    counted = largest_item_classes([(first, 3), (second, 9), (third, 3), (first, 1)], 2)
    assert counted == [second.item_class, first.item_class]
    assert largest_item_classes([(first, 3), (third, 3)], 9) == [first.item_class, third.item_class]


WORK = 20_000
LENIENT = PlanOptions(min_values_policy=MinValuesPolicy.BEST_EFFORT)


def packed_nodes(
    waiting: Sequence[Pod],
    *pools: Pool,
    work: int = WORK,
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> list[PackedNode]:
    """The loads of pods that nobody has placed yet."""
    index = InstanceTypeIndex(instance_families())
    snapshot = Snapshot(pods=tuple(waiting), pools=pools or (GENERAL,))
    catalogs = {pool.name: index for pool in snapshot.pools}
    found = solve_snapshot(snapshot, catalogs, options)
    targets = [
        (group, packing_target(group, found.placement.pool_selector)) for group in found.classes.all
    ]
    queue = [
        PackablePods(group, each, list(group.pods)) for group, each in targets if each is not None
    ]
    return pack_pods(queue, found.placement.templates, found.classes.resources, work)


def members(found: Sequence[PackedNode]) -> Counter[str]:
    return Counter(pod.key for packed_node in found for pod, _ in packed_node.members)


def assert_held(found: Sequence[PackedNode]) -> None:
    for packed_node in found:
        total: Resources = {}
        for pod, _ in packed_node.members:
            total = add_resources(total, {**pod.requests, "pods": 1})
        assert fits(
            total, packed_node.bin_type.template.index.types[packed_node.bin_type.row].allocatable
        )


def test_everybody_is_in_one_load_that_its_machine_holds() -> None:
    waiting = varied_pods(80)
    found = packed_nodes(waiting)
    assert members(found) == Counter(pod.key for pod in waiting)
    assert_held(found)


def test_more_looks_give_cheaper_loads() -> None:
    few, many = (packed_nodes(varied_pods(80), work=work) for work in (0, 300_000))
    assert sum(s.bin_type.price for s in many) < sum(s.bin_type.price for s in few)


def test_the_heaviest_pools_come_first_and_then_what_is_best_for_its_price() -> None:
    heavy = Pool(
        name="heavy", weight=10, requirements=label_requirement(INSTANCE_FAMILY, "In", "r")
    )
    picky = varied_pods(40, "picky", asks=(label_requirement(INSTANCE_FAMILY, "In", "c"),))
    found = packed_nodes([*picky, *varied_pods(40)], GENERAL, heavy)
    ranks = [
        (-packed_node.bin_type.template.pool.weight, packed_node.rate) for packed_node in found
    ]
    assert ranks == sorted(ranks)
    assert {packed_node.bin_type.template.pool.name for packed_node in found} == {
        "heavy",
        "general",
    }


def test_many_sizes_are_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the time goes with the number of them, and not with its square."""
    monkeypatch.setattr(pod_packing, "MAX_ITEM_TYPES", 5)
    waiting = varied_pods(60)
    found = packed_nodes(waiting)
    assert members(found) == Counter(pod.key for pod in waiting)
    assert_held(found)


def test_of_many_kinds_the_lightest_are_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_packing, "MAX_PACKED_CLASSES", 2)
    zones = {"a": 30, "b": 20, "c": 10}
    waiting = [
        pod
        for name, count in zones.items()
        for pod in varied_pods(count, name, asks=(label_requirement(ZONE, "In", f"zone-{name}"),))
    ]
    apps = {key.split("/")[1][0] for key in members(packed_nodes(waiting))}
    assert apps == {"a", "b"}


def test_whom_no_machine_holds_is_left_out_of_loads() -> None:
    """What would be large enough leaves too little choice to be filled to the brim."""
    diverse = Pool(name="diverse", requirements=label_requirement(INSTANCE_SIZE, min_values=5))
    found = packed_nodes(
        [*varied_pods(12), *varied_pods(4, "large", scale=20)], diverse, options=LENIENT
    )
    assert len(members(found)) >= 12
    assert not [key for key in members(found) if "large" in key]
    assert_held(found)


def test_nobody_waits_and_nothing_is_for_sale() -> None:
    assert packed_nodes([]) == []
    assert packed_nodes(varied_pods(3, asks=(label_requirement(ARCH, "In", "arm64"),))) == []
