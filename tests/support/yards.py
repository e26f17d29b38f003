"""Builders for packing by cost: machines, lots and fleets, with defaults where nobody cares."""

from collections.abc import Mapping, Sequence
from math import fsum

from tests.support.model import GIB, instance_type, offering

from wainwright.core.packing.gauge import gauge_for
from wainwright.core.packing.lots import Lot
from wainwright.core.packing.machines import Machine
from wainwright.core.packing.yard import Load, Yard
from wainwright.core.plan import plan
from wainwright.core.templates import Template
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    ARCH,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    SPOT,
)
from wainwright.model.node import Node
from wainwright.model.options import Options, Packing
from wainwright.model.plan import PackingResult, Plan
from wainwright.model.pod import ANYWHERE, NO_BONDS, Bonds, DaemonSet, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Snapshot
from wainwright.model.taints import Toleration

GENERAL = Pool(name="general")
COST = Options(packing=Packing.COST)
ZONES = ("zone-a", "zone-b", "zone-c")
MEMORY = {"c": 2, "m": 4, "r": 8}  # GiB for each cpu
CPUS = (2, 4, 8, 16, 32, 64)
DEAR = 1.3  # the largest costs so much more for what it has: whoever grows without end gets there


def template(*types: InstanceType, pool: Pool = GENERAL, number: int = 0) -> Template:
    return Template(number, pool, TypeIndex(types or (instance_type(),)), ())


EMPTY = template()


def machine(price: float, *room: int, takers: int = 1) -> Machine:
    return Machine(EMPTY, 0, price, room, takers)


def lot(*amounts: int, pods: int = 1, customer: int = 0) -> Lot:
    return Lot(amounts, pods, customer)


def yard(lots: Sequence[Lot], machines: Sequence[Machine]) -> Yard:
    ordered = sorted(machines, key=lambda each: each.price)
    gauge = gauge_for([each.amounts for each in lots], [each.room for each in ordered])
    return Yard(lots, ordered, gauge)


def assert_packed(where: Yard, loads: Sequence[Load]) -> None:
    """Everybody is in one load, each load fits its machine, and all of them may be there."""
    left = [each.pods for each in where.lots]
    for load in loads:
        bought = where.machines[load.machine]
        used = [0] * len(bought.room)
        for number, count in load.taken:
            left[number] -= count
            for resource, amount in enumerate(where.lots[number].amounts):
                used[resource] += amount * count
            assert bought.takers >> where.lots[number].customer & 1
        assert all(mine <= room for mine, room in zip(used, bought.room, strict=True))
        assert load.price == bought.price
    assert left == [0] * len(left)


def price(loads: Sequence[Load]) -> float:
    return fsum(load.price for load in loads)


def fleet(
    *,
    zones: Sequence[str] = ZONES,
    sold: Mapping[str, float] | None = None,
    arch: str = "amd64",
    more: Mapping[str, Sequence[Offering]] | None = None,
) -> list[InstanceType]:
    """Three families of six sizes; `sold` tells the part of the full price by capacity type."""
    sold = sold or {ON_DEMAND: 1.0, SPOT: 0.4}
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
                    for kind, part in sold.items()
                ),
                *(more or {}).get(f"{family}.{cpus}", ()),
            ),
        )
        for family, gib in MEMORY.items()
        for cpus in CPUS
    ]


def full_price(family: str, cpus: int) -> float:
    dear = DEAR if cpus == CPUS[-1] else 1.0
    return cpus * (0.03 + 0.004 * MEMORY[family]) * dear


def pods(
    count: int,
    name: str = "web",
    *,
    asks: Sequence[Requirements] = ANYWHERE,
    tolerations: tuple[Toleration, ...] = (),
    bonds: Bonds = NO_BONDS,
    scale: int = 1,
) -> list[Pod]:
    """Of a dozen sizes, some heavy in cpu and some in memory; labelled with their name."""
    return [
        Pod(
            namespace="shop",
            name=f"{name}-{number}",
            requests={
                "cpu": (250, 500, 700, 1500)[number % 4] * scale,
                "memory": (1, 3, 8)[number % 3] * GIB // 2 * scale,
            },
            alternatives=tuple(asks),
            tolerations=tolerations,
            labels={"app": name},
            bonds=bonds,
        )
        for number in range(count)
    ]


def planned(
    waiting: Sequence[Pod],
    types: Sequence[InstanceType] | Mapping[str, Sequence[InstanceType]],
    *,
    pools: Sequence[Pool] = (GENERAL,),
    nodes: Sequence[Node] = (),
    daemonsets: Sequence[DaemonSet] = (),
    options: Options = COST,
) -> Plan:
    """By cost unless told otherwise; all pools buy the same unless it is told by pool."""
    by_pool = types if isinstance(types, Mapping) else {pool.name: types for pool in pools}
    snapshot = Snapshot(
        pods=tuple(waiting),
        pools=tuple(pools),
        nodes=tuple(nodes),
        daemonsets=tuple(daemonsets),
    )
    return plan(snapshot, {name: TypeIndex(each) for name, each in by_pool.items()}, options)


def packing(made: Plan) -> PackingResult:
    assert made.packing is not None
    return made.packing
