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
    return [packing_target(group, found.state.pool_selector) for group in found.classes.all]


def item_classes_of(found: Solution) -> list[ItemClass]:
    return list(dict.fromkeys(each.item_class for each in targets_of(found) if each is not None))


def names(template: NodeClaimTemplate, types: int) -> set[str]:
    return {template.index.types[type_number].name for type_number in iter_bits(types)}


def test_pods_are_packed_into_the_pools_with_the_highest_weight_that_take_them() -> None:
    light, heavy = Pool(name="light"), Pool(name="heavy", weight=50)
    closed = Pool(
        name="closed",
        weight=90,
        labels={TEAM: "x"},
        requirements=label_requirement(ZONE, "In", "z"),
    )
    found = solution(varied_pods(1), light, heavy, closed)
    assert [each and each.weight for each in targets_of(found)] == [50]
    allowed = allowed_offerings_of(item_classes_of(found)[0], found.state.templates, RESOURCES)
    launching = [t.pool.name for t in found.state.templates if allowed.types[t.number]]
    assert launching == ["heavy"]


@pytest.mark.parametrize(
    ("constraints", "alternatives", "types"),
    [
        (SPREAD, ANY_NODE_TERMS, instance_families()),
        (PodConstraints(ports=(HostPort(port=80),)), ANY_NODE_TERMS, instance_families()),
        (NO_CONSTRAINTS, (label_requirement(ZONE, "In", "nowhere"),), instance_families()),
        (NO_CONSTRAINTS, ANY_NODE_TERMS, instance_families(more={"c.2": [RESERVED_OFFERING]})),
    ],
    ids=["topology", "host port", "no pool", "reserved capacity"],
)
def test_constrained_pods_and_pods_with_reserved_capacity_are_not_packed(
    constraints: PodConstraints, alternatives: Sequence[Requirements], types: list[InstanceType]
) -> None:
    found = solution(
        varied_pods(1, constraints=constraints, alternatives=alternatives), types=types
    )
    assert targets_of(found) == [None]


def test_reserved_capacity_that_is_too_small_or_of_a_pool_with_less_weight_does_not_matter() -> (
    None
):
    types = instance_families(more={"c.2": [RESERVED_OFFERING]})
    assert targets_of(solution(varied_pods(1, scale=10), types=types)) != [None]
    heavy = Pool(name="heavy", weight=9, requirements=label_requirement(INSTANCE_FAMILY, "In", "r"))
    assert targets_of(solution(varied_pods(1), GENERAL, heavy, types=types)) != [None]


def test_types_beyond_the_limits_are_not_packed() -> None:
    found = solution(varied_pods(1), Pool(name="small", limits={"cpu": 40_000}))
    template = found.state.templates[0]
    allowed = allowed_offerings_of(item_classes_of(found)[0], [template], RESOURCES)
    assert "c.32" in names(template, allowed.types[0])
    assert "c.64" not in names(template, allowed.types[0])


def test_allowed_offerings_follow_zones_and_selectors() -> None:
    selective = label_requirement(ZONE, "In", "zone-b").narrow(
        label_requirement(INSTANCE_FAMILY, "In", "m")
    )
    found = solution(varied_pods(1, alternatives=(selective,)))
    template = found.state.templates[0]
    allowed = allowed_offerings_of(item_classes_of(found)[0], [template], RESOURCES)
    assert {name[0] for name in names(template, allowed.types[0])} == {"m"}
    offering_groups = [
        template.index.offering_groups[number] for number in iter_bits(allowed.offering_groups[0])
    ]
    assert {
        offering_group.requirements.single_value(ZONE) for offering_group in offering_groups
    } == {"zone-b"}


def test_only_types_with_enough_larger_ones_for_min_values_are_packed() -> None:
    """Five sizes are required: of the six only the two smallest have that many as large."""
    diverse = Pool(name="diverse", requirements=label_requirement(INSTANCE_SIZE, min_values=5))
    found = solution(varied_pods(1), diverse)
    template = found.state.templates[0]
    allowed = allowed_offerings_of(item_classes_of(found)[0], [template], RESOURCES)
    sizes = {int(name.partition(".")[2]) for name in names(template, allowed.types[0])}
    assert sizes == {2, 4}


def test_pods_with_different_values_of_a_label_that_the_pool_leaves_open_conflict() -> None:
    either = Pool(name="either", requirements=label_requirement(TEAM, "In", "x", "y"))
    waiting = [
        *varied_pods(1, "x", alternatives=(of("x"),)),
        *varied_pods(1, "y", alternatives=(of("y"),)),
        *varied_pods(1, "both", alternatives=(label_requirement(TEAM, "In", "x", "y"),)),
        *varied_pods(1, "any"),
    ]
    found = solution(waiting, either)
    item_classes = item_classes_of(found)
    required = [each.scheduling_reqs.requirements for each in item_classes]
    one, other = required.index(of("x")), required.index(of("y"))
    conflicts = conflicting_item_classes(item_classes, found.state.templates[0])
    assert conflicts[one] == 1 << other
    assert conflicts[other] == 1 << one
    assert sum(map(bool, conflicts)) == 2


def test_item_classes_with_the_most_pods_come_first() -> None:
    alternatives = [
        (label_requirement(ZONE, "In", zone),) for zone in ("zone-a", "zone-b", "zone-c")
    ]
    waiting = [
        pod
        for n, each in enumerate(alternatives)
        for pod in varied_pods(1, f"app-{n}", alternatives=each)
    ]
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
    """The packed nodes for all pods, none of which is placed yet."""
    index = InstanceTypeIndex(instance_families())
    snapshot = Snapshot(pods=tuple(waiting), pools=pools or (GENERAL,))
    catalogs = {pool.name: index for pool in snapshot.pools}
    found = solve_snapshot(snapshot, catalogs, options)
    targets = [
        (each, packing_target(each, found.state.pool_selector)) for each in found.classes.all
    ]
    queue = [PackablePods(own, each, list(own.pods)) for own, each in targets if each is not None]
    return pack_pods(queue, found.state.templates, found.classes.resources, work)


def members(found: Sequence[PackedNode]) -> Counter[str]:
    return Counter(pod.key for packed_node in found for pod, _ in packed_node.members)


def assert_held(found: Sequence[PackedNode]) -> None:
    for packed_node in found:
        total: Resources = {}
        for pod, _ in packed_node.members:
            total = add_resources(total, {**pod.requests, "pods": 1})
        assert fits(
            total,
            packed_node.bin_type.template.index.types[packed_node.bin_type.type_number].allocatable,
        )


def test_every_pod_is_on_one_packed_node_that_holds_it() -> None:
    waiting = varied_pods(80)
    found = packed_nodes(waiting)
    assert members(found) == Counter(pod.key for pod in waiting)
    assert_held(found)


def test_more_work_gives_cheaper_nodes() -> None:
    few, many = (packed_nodes(varied_pods(80), work=work) for work in (0, 300_000))
    assert sum(s.bin_type.price for s in many) < sum(s.bin_type.price for s in few)


def test_packed_nodes_are_ordered_by_pool_weight_and_then_by_rate() -> None:
    heavy = Pool(
        name="heavy", weight=10, requirements=label_requirement(INSTANCE_FAMILY, "In", "r")
    )
    selective = varied_pods(
        40, "picky", alternatives=(label_requirement(INSTANCE_FAMILY, "In", "c"),)
    )
    found = packed_nodes([*selective, *varied_pods(40)], GENERAL, heavy)
    ranks = [
        (-packed_node.bin_type.template.pool.weight, packed_node.rate) for packed_node in found
    ]
    assert ranks == sorted(ranks)
    assert {packed_node.bin_type.template.pool.name for packed_node in found} == {
        "heavy",
        "general",
    }


def test_many_item_types_are_packed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the time grows with their number, and not with its square."""
    monkeypatch.setattr(pod_packing, "MAX_ITEM_TYPES", 5)
    waiting = varied_pods(60)
    found = packed_nodes(waiting)
    assert members(found) == Counter(pod.key for pod in waiting)
    assert_held(found)


def test_item_classes_beyond_the_maximum_with_the_fewest_pods_are_not_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_packing, "MAX_PACKED_CLASSES", 2)
    zones = {"a": 30, "b": 20, "c": 10}
    waiting = [
        pod
        for name, count in zones.items()
        for pod in varied_pods(
            count, name, alternatives=(label_requirement(ZONE, "In", f"zone-{name}"),)
        )
    ]
    apps = {key.split("/")[1][0] for key in members(packed_nodes(waiting))}
    assert apps == {"a", "b"}


def test_pods_that_fit_no_bin_type_are_not_packed() -> None:
    """Types that are large enough would not satisfy minValues when full."""
    diverse = Pool(name="diverse", requirements=label_requirement(INSTANCE_SIZE, min_values=5))
    found = packed_nodes(
        [*varied_pods(12), *varied_pods(4, "large", scale=20)], diverse, options=LENIENT
    )
    assert len(members(found)) >= 12
    assert not [key for key in members(found) if "large" in key]
    assert_held(found)


def test_without_pods_or_bin_types_nothing_is_packed() -> None:
    assert packed_nodes([]) == []
    assert (
        packed_nodes(varied_pods(3, alternatives=(label_requirement(ARCH, "In", "arm64"),))) == []
    )
