"""Random small worlds: pods, pools, nodes, types and reservations that get in each other's way."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
from tests.support.model import GIB

from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.node import Node
from wainwright.model.options import MinValuesPolicy, Options
from wainwright.model.pod import ANYWHERE, DaemonSet, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Entry, Requirements
from wainwright.model.snapshot import Snapshot
from wainwright.model.taints import Taint, Toleration, TolerationOperator

ZONES = ("a", "b")
TEAM = "example.com/team"
TAINT = Taint(key=TEAM, value="x")
STARTUP = Taint(key="example.com/starting")
TOLERATION = Toleration(key=TEAM, operator=TolerationOperator.EXISTS)
SHAPES = (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("metal", 8))
PRICES = (0.1, 0.2, 0.2, 0.4, 0.8)


class World(msgspec.Struct, frozen=True, kw_only=True):
    snapshot: Snapshot
    types: Mapping[str, Sequence[InstanceType]]
    """By pool."""
    options: Options


def world(seed: int) -> World:
    """The same seed gives the same world; every third is mostly about reservations."""
    return Maker(Random(seed), reserving=seed % 3 == 0).world()


def crowd(seed: int) -> World:
    """A world about reservations with many pods of as many sizes, on types that hold several."""
    maker = Maker(Random(seed), reserving=True)
    made = maker.world()
    return msgspec.structs.replace(
        made, snapshot=msgspec.structs.replace(made.snapshot, pods=maker.distinct(90))
    )


class Maker:
    def __init__(self, dice: Random, *, reserving: bool) -> None:
        self.dice = dice
        self.reserving = reserving
        self.types = self._types()

    def chance(self, percent: int) -> bool:
        return self.dice.randrange(100) < percent

    def world(self) -> World:
        pools = tuple(self._pool(name) for name in ("p", "q", "r")[: self.dice.randint(1, 3)])
        nodes = tuple(self._node(number) for number in range(self.dice.choice((0, 0, 0, 1, 3))))
        daemons = tuple(self._daemonset(n) for n in range(self.dice.choice((0, 0, 1, 2))))
        snapshot = Snapshot(pods=self._pods(), pools=pools, nodes=nodes, daemonsets=daemons)
        policy = MinValuesPolicy.BEST_EFFORT if self.chance(20) else MinValuesPolicy.STRICT
        options = Options(
            min_values_policy=policy,
            strict_weights=self.chance(15),
            capacity_reservations=not self.chance(4),
        )
        return World(
            snapshot=snapshot,
            types={pool.name: self._of_pool() for pool in pools},
            options=options,
        )

    def _of_pool(self) -> list[InstanceType]:
        if self.chance(75):
            return self.types
        return self.dice.sample(self.types, self.dice.randint(1, len(self.types)))

    def _types(self) -> list[InstanceType]:
        names = [(family, *shape) for family in ("c5", "m5", "g4") for shape in SHAPES]
        chosen = self.dice.sample(names, self.dice.randint(1, 5))
        types = {f"{f}.{s}": self._type(f, s, cpus) for f, s, cpus in sorted(chosen)}
        for number in range(self.dice.choice((2, 3, 5, 6) if self.reserving else (0, 0, 1, 2))):
            self._reserve(types, f"cr-{number}")
        return list(types.values())

    def _type(self, family: str, size: str, cpus: int) -> InstanceType:
        labels: dict[str, str] = {
            INSTANCE_TYPE: f"{family}.{size}",
            INSTANCE_FAMILY: family,
            INSTANCE_SIZE: size,
            INSTANCE_CPU: str(cpus),
        }
        if not self.chance(10):
            labels[ARCH] = self.dice.choice(("amd64", "amd64", "arm64"))
        capacity = {
            "cpu": cpus * 1000,
            "memory": cpus * self.dice.choice((2, 4)) * GIB,
            "pods": self.dice.choice((3, 10, 20)),
        }
        if family == "g4":
            capacity["nvidia.com/gpu"] = 1
        return InstanceType(
            name=f"{family}.{size}",
            requirements=Requirements.from_labels(labels),
            capacity=capacity,
            overhead={"cpu": 100, "memory": GIB // 4},
            offerings=tuple(self._offerings()),
        )

    def _offerings(self) -> list[Offering]:
        return [
            _offering(
                {CAPACITY_TYPE: kind, ZONE: zone},
                price=self.dice.choice(PRICES),
                available=0 if self.chance(15) else UNLIMITED,
            )
            for kind in (SPOT, ON_DEMAND)
            for zone in (ZONES if not self.chance(5) else (None,))
            if not self.chance(20)
        ]

    def _reserve(self, types: dict[str, InstanceType], name: str) -> None:
        chosen = self.dice.choice(sorted(types))
        zone, count = self.dice.choice(ZONES), self.dice.choice((0, 1, 1, 2, 3))
        for kind in [chosen, self.dice.choice(sorted(types))][: 2 if self.chance(8) else 1]:
            made = _offering(
                {CAPACITY_TYPE: RESERVED, ZONE: zone},
                price=self.dice.choice((1e-7, 2e-7)),
                available=count,
                reservation_id=name,
            )
            if all(each.reservation_id != name for each in types[kind].offerings):
                offerings = (*types[kind].offerings, made)
                types[kind] = msgspec.structs.replace(types[kind], offerings=offerings)

    def _requirements(self, percent: int) -> list[Entry]:
        """A few requirements that types, offerings or pools can meet, or not."""
        choices: list[Entry] = [
            (ARCH, "In", (self.dice.choice(("amd64", "arm64")),), None),
            (ARCH, "NotIn", ("arm64",), None),
            (ZONE, "In", (self.dice.choice(ZONES),), None),
            (ZONE, "NotIn", (self.dice.choice(ZONES),), None),
            (CAPACITY_TYPE, "In", tuple(self.dice.sample((SPOT, ON_DEMAND, RESERVED), 2)), None),
            (CAPACITY_TYPE, "In", (self.dice.choice((SPOT, ON_DEMAND, RESERVED)),), None),
            (CAPACITY_TYPE, "NotIn", (SPOT,), None),
            (INSTANCE_FAMILY, "In", tuple(self.dice.sample(("c5", "m5", "g4"), 2)), None),
            (INSTANCE_SIZE, "NotIn", ("metal",), None),
            (INSTANCE_CPU, "Lt", ("8",), None),
            (INSTANCE_TYPE, "In", (self.dice.choice(self.types).name,), None),
        ]
        return [
            each for each in choices if self.chance(percent // 2 if self.reserving else percent)
        ]

    def _pool(self, name: str) -> Pool:
        entries = self._requirements(6)
        if self.chance(25):
            key = self.dice.choice((INSTANCE_TYPE, INSTANCE_FAMILY, ZONE, CAPACITY_TYPE))
            entries.append((key, "Exists", (), self.dice.randint(1, 3)))
        if self.chance(15):
            entries.append((TEAM, "In", ("x", "y"), None))
        limits: dict[str, int] = {}
        if self.chance(30):
            limits["cpu"] = self.dice.choice((0, 2, 4, 8, 10, 12, 24)) * 1000
        if self.chance(20):
            limits["nodes"] = self.dice.randint(0, 3)
        return Pool(
            name=name,
            weight=self.dice.choice((0, 0, 10, 10, 20)),
            requirements=Requirements.from_entries(entries),
            labels={TEAM: "x"} if self.chance(10) else {},
            taints=(TAINT,) if self.chance(20) else (),
            limits=limits,
            in_use={"cpu": 2000, "nodes": 1} if self.chance(15) else {},
            unusable="static" if self.chance(4) else None,
        )

    def _node(self, number: int) -> Node:
        labels = {ARCH: "amd64", ZONE: self.dice.choice(ZONES), NODEPOOL: "p"}
        running = Pod(
            namespace="d", name=f"run-{number}", requests={"cpu": 500}, daemonset=self.chance(50)
        )
        ids = [each.reservation_id for kind in self.types for each in kind.offerings]
        reserved = sorted({name for name in ids if name is not None})
        return Node(
            name=f"node-{self.dice.randrange(100)}-{number}",
            labels=labels,
            taints=tuple(taint for taint in (TAINT, STARTUP) if self.chance(15)),
            startup_taints=(STARTUP,),
            allocatable={
                "cpu": self.dice.choice((1000, 3000, 6000)),
                "memory": self.dice.choice((2, 8)) * GIB,
                "pods": self.dice.choice((1, 4, 10)),
            },
            pods=(running,) if self.chance(40) else (),
            initialized=self.chance(60),
            deleting=self.chance(10),
            launched=not self.chance(30),
            reservation_id=self.dice.choice(reserved) if reserved and self.chance(50) else None,
        )

    def _daemonset(self, number: int) -> DaemonSet:
        some = self.chance(50)
        return DaemonSet(
            namespace="kube-system",
            name=f"agent-{number}",
            requests={"cpu": self.dice.choice((50, 400)), "memory": GIB // 8},
            alternatives=(self._asked(12), self._asked(12)) if some else ANYWHERE,
            tolerations=(TOLERATION,) if self.chance(60) else (),
        )

    def _asked(self, percent: int) -> Requirements:
        entries = self._requirements(percent)
        if self.chance(8):
            entries.append((TEAM, self.dice.choice(("In", "NotIn", "In")), ("x",), None))
        if self.chance(4):
            entries.append((TEAM, "DoesNotExist", (), None))
        return Requirements.from_entries(entries)

    def distinct(self, count: int) -> tuple[Pod, ...]:
        asks = [(self._asked(3),) for _ in range(3)]
        return tuple(
            Pod(
                namespace="default",
                name=f"pod-{number}",
                requests={
                    "cpu": self.dice.randrange(50, 1500),
                    "memory": self.dice.randrange(GIB // 16, 3 * GIB),
                },
                alternatives=self.dice.choice(asks),
                tolerations=(TOLERATION,),
            )
            for number in range(count)
        )

    def _pods(self) -> tuple[Pod, ...]:
        found: list[Pod] = []
        for group in range(self.dice.randint(1, 5)):
            requests: dict[str, Any] = {
                "cpu": self.dice.choice((100, 500, 900, 1500, 1900, 3000, 7000)),
                "memory": self.dice.choice((0, 1, 2, 3, 7)) * GIB // 2,
            }
            if self.chance(10):
                requests["nvidia.com/gpu"] = 1
            asked = self._asked(4)
            alternatives = (asked, self._asked(10)) if self.chance(15) else (asked,)
            tolerations = (TOLERATION,) if self.chance(40) else ()
            found += [
                Pod(
                    namespace="default",
                    name=f"pod-{group}-{number}",
                    uid=str(self.dice.randrange(1000)),
                    created=float(self.dice.randrange(3)) if self.chance(80) else None,
                    requests=requests,
                    alternatives=alternatives,
                    tolerations=tolerations,
                )
                for number in range(self.dice.choice((1, 1, 2, 3, 6)))
            ]
        return tuple(found)


def _offering(labels: Mapping[str, str | None], **more: Any) -> Offering:
    stated = {key: value for key, value in labels.items() if value is not None}
    return Offering(requirements=Requirements.from_labels(stated), **more)
