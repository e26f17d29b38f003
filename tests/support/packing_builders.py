"""Builders for packing by cost: bin types, item types and instance families, with defaults."""

from collections.abc import Mapping, Sequence
from math import fsum

from tests.support.model_builders import GIB, instance_type, offering

from wainwright.core.packing.bin_types import BinType
from wainwright.core.packing.packing_problem import FilledBin, ItemType, PackingProblem
from wainwright.core.packing.resource_vectors import encoder_for
from wainwright.core.plan import plan
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    SPOT,
)
from wainwright.model.plan import PackingPolicy, PackingResult, Plan, PlanOptions
from wainwright.model.pod import ANY_NODE_TERMS, NO_CONSTRAINTS, DaemonSet, Pod, PodConstraints
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.taints import Toleration

GENERAL = Pool(name="general")
COST_OPTIONS = PlanOptions(packing=PackingPolicy.COST)
ZONES = ("zone-a", "zone-b", "zone-c")
MEMORY = {"c": 2, "m": 4, "r": 8}  # GiB for each cpu
CPUS = (2, 4, 8, 16, 32, 64)
LARGEST_TYPE_MARKUP = (
    1.3  # the largest type costs so much more per CPU: drafts that grow without a limit reach it
)


def template(*types: InstanceType, pool: Pool = GENERAL, number: int = 0) -> NodeClaimTemplate:
    return NodeClaimTemplate(number, pool, InstanceTypeIndex(types or (instance_type(),)), ())


EMPTY_TEMPLATE = template()


def bin_type(price: float, *room: int, usable_by: int = 1) -> BinType:
    return BinType(EMPTY_TEMPLATE, 0, price, room, usable_by)


def item_type(*amounts: int, pods: int = 1, item_class: int = 0) -> ItemType:
    return ItemType(amounts, pods, item_class)


def packing_problem(items: Sequence[ItemType], bin_types: Sequence[BinType]) -> PackingProblem:
    ordered = sorted(bin_types, key=lambda each: each.price)
    encoder = encoder_for([each.amounts for each in items], [each.room for each in ordered])
    return PackingProblem(items, ordered, encoder)


def assert_packed(problem: PackingProblem, filled_bins: Sequence[FilledBin]) -> None:
    """Every item is in one bin, each bin holds its items, and their classes may use its type."""
    remaining = [each.pods for each in problem.items]
    for filled_bin in filled_bins:
        used_type = problem.bin_types[filled_bin.bin_type]
        used = [0] * len(used_type.room)
        for number, count in filled_bin.contents:
            remaining[number] -= count
            for resource, amount in enumerate(problem.items[number].amounts):
                used[resource] += amount * count
            assert used_type.usable_by >> problem.items[number].item_class & 1
        assert all(mine <= room for mine, room in zip(used, used_type.room, strict=True))
        assert filled_bin.price == used_type.price
    assert remaining == [0] * len(remaining)


def total_price(filled_bins: Sequence[FilledBin]) -> float:
    return fsum(filled_bin.price for filled_bin in filled_bins)


def instance_families(
    *,
    zones: Sequence[str] = ZONES,
    price_factors: Mapping[str, float] | None = None,
    arch: str = "amd64",
    more: Mapping[str, Sequence[Offering]] | None = None,
) -> list[InstanceType]:
    """Three families of six sizes; `price_factors` are parts of the full price by capacity type."""
    price_factors = price_factors or {ON_DEMAND: 1.0, SPOT: 0.4}
    return [
        instance_type(
            name=f"{family}.{cpus}",
            labels={
                INSTANCE_TYPE: f"{family}.{cpus}",
                INSTANCE_FAMILY: family,
                INSTANCE_SIZE: str(cpus),
                ARCH: arch,
            },
            capacity={"cpu": cpus * 1000, "memory": cpus * gib * GIB, "pods": 110},
            offerings=(
                *(
                    offering(zone=zone, capacity_type=kind, price=part * full_price(family, cpus))
                    for zone in zones
                    for kind, part in price_factors.items()
                ),
                *(more or {}).get(f"{family}.{cpus}", ()),
            ),
        )
        for family, gib in MEMORY.items()
        for cpus in CPUS
    ]


def full_price(family: str, cpus: int) -> float:
    markup = LARGEST_TYPE_MARKUP if cpus == CPUS[-1] else 1.0
    return cpus * (0.03 + 0.004 * MEMORY[family]) * markup


def varied_pods(
    count: int,
    name: str = "web",
    *,
    alternatives: Sequence[Requirements] = ANY_NODE_TERMS,
    tolerations: tuple[Toleration, ...] = (),
    constraints: PodConstraints = NO_CONSTRAINTS,
    scale: int = 1,
) -> list[Pod]:
    """Pods of a dozen sizes, some CPU-heavy and some memory-heavy; labelled with their name."""
    return [
        Pod(
            namespace="shop",
            name=f"{name}-{number}",
            requests={
                "cpu": (250, 500, 700, 1500)[number % 4] * scale,
                "memory": (1, 3, 8)[number % 3] * GIB // 2 * scale,
            },
            alternatives=tuple(alternatives),
            tolerations=tolerations,
            labels={"app": name},
            constraints=constraints,
        )
        for number in range(count)
    ]


def plan_by_cost(
    waiting: Sequence[Pod],
    types: Sequence[InstanceType] | Mapping[str, Sequence[InstanceType]],
    *,
    pools: Sequence[Pool] = (GENERAL,),
    nodes: Sequence[Node] = (),
    daemonsets: Sequence[DaemonSet] = (),
    options: PlanOptions = COST_OPTIONS,
) -> Plan:
    """By cost by default; `types` are those of all pools, or by name of the pool."""
    by_pool = types if isinstance(types, Mapping) else {pool.name: types for pool in pools}
    snapshot = Snapshot(
        pods=tuple(waiting),
        pools=tuple(pools),
        nodes=tuple(nodes),
        daemonsets=tuple(daemonsets),
    )
    return plan(
        snapshot, {name: InstanceTypeIndex(each) for name, each in by_pool.items()}, options
    )


def packing_result(found_plan: Plan) -> PackingResult:
    assert found_plan.packing is not None
    return found_plan.packing
