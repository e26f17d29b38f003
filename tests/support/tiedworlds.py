"""Random small worlds whose pods mind each other: spread, company, ports, volumes, preferences.

Pools, types and nodes are plain enough that it is mostly the pods that get into each other's way.
"""

from random import Random

import msgspec
from tests.support.model import GIB, asking
from tests.support.randomworlds import TAINTS, World, random_world
from tests.support.tiedpods import APPS, DRIVERS, RACK, RACKS, PodMaker

from wainwright.model.attachments import HostPort
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.node import Node
from wainwright.model.options import MinValuesPolicy, Options, PreferencePolicy
from wainwright.model.pod import Bonds, DaemonSet, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Snapshot

ZONES = ("zone-a", "zone-b", "zone-c")
CPUS = (1, 2, 2, 4, 8)
STARTING = TAINTS[0]


def tied_world(seed: int) -> World:
    """Pods that wait, and few nodes; the same seed gives the same world."""
    maker = _Maker(Random(seed))
    return maker.world(nodes=maker.dice.choice((0, 0, 1, 2, 3, 4)), pods=12)


def tied_cluster(seed: int) -> World:
    """Nodes full of pods that have their place, and nobody who waits."""
    maker = _Maker(Random(seed))
    return maker.world(nodes=maker.dice.randint(2, 6), pods=0)


def mixed_world(seed: int) -> World:
    """A world of pods that do not mind each other, of whom some do after all."""
    dice, world = Random(seed), random_world(seed)
    maker = PodMaker(dice, ZONES)
    bonds = [maker.bonds(app) for app in APPS]
    pods = tuple(_tied(pod, dice, bonds) for pod in world.snapshot.pods)
    nodes = tuple(
        msgspec.structs.replace(
            node,
            labels={**node.labels, HOSTNAME: node.name},
            pods=tuple(_tied(pod, dice, bonds) for pod in node.pods),
        )
        for node in world.snapshot.nodes
    )
    snapshot = msgspec.structs.replace(world.snapshot, pods=pods, nodes=nodes)
    return msgspec.structs.replace(world, snapshot=snapshot)


def _tied(pod: Pod, dice: Random, bonds: list[Bonds]) -> Pod:
    number = dice.randrange(len(APPS))
    mine = bonds[number] if dice.randrange(100) < 60 else Bonds()
    return msgspec.structs.replace(pod, namespace="shop", labels={"app": APPS[number]}, bonds=mine)


class _Maker:
    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.zones = ZONES[: dice.choice((1, 2, 3, 3))]
        self.pods = PodMaker(dice, self.zones)
        self.dry = dice.choice(self.zones) if self.chance(10) else None
        """A zone that is out of stock."""
        self.spot = dice.choice((0, 50, 100))
        """In how many of a hundred markets there is spot capacity."""
        self.racks = self.chance(50)
        self.types = tuple(self._type(number) for number in range(dice.randint(1, 5)))

    def chance(self, percent: int) -> bool:
        return self.dice.randrange(100) < percent

    def world(self, *, nodes: int, pods: int) -> World:
        pools = tuple(
            self._pool(name) for name in ("p", "q", "r")[: self.dice.choice((1, 1, 2, 3))]
        )
        snapshot = Snapshot(
            pods=self.pods.waiting(pods) if pods else (),
            pools=pools,
            nodes=tuple(self._node(number) for number in range(nodes)),
            daemonsets=(self._daemonset(),) if self.chance(20) else (),
        )
        lenient, heedless = self.chance(15), self.chance(10)
        options = Options(
            min_values_policy=MinValuesPolicy.BEST_EFFORT if lenient else MinValuesPolicy.STRICT,
            preference_policy=PreferencePolicy.IGNORE if heedless else PreferencePolicy.RESPECT,
            strict_weights=self.chance(10),
        )
        return World(
            snapshot=snapshot, types={pool.name: self._sold() for pool in pools}, options=options
        )

    def _sold(self) -> tuple[InstanceType, ...]:
        if self.chance(80):
            return self.types
        return tuple(self.dice.sample(self.types, self.dice.randint(1, len(self.types))))

    def _type(self, number: int) -> InstanceType:
        cpus = self.dice.choice(CPUS)
        name = f"{'abcde'[number]}.{cpus}"
        labels = {ARCH: self.dice.choice(("amd64", "amd64", "arm64")), INSTANCE_TYPE: name}
        return InstanceType(
            name=name,
            requirements=Requirements.from_labels(labels),
            capacity={
                "cpu": cpus * 1000,
                "memory": cpus * 4 * GIB,
                "pods": self.dice.choice((2, 5, 20)),
            },
            overhead={"cpu": 50},
            offerings=(*self._offerings(cpus), *self._reserved()),
        )

    def _offerings(self, cpus: int) -> list[Offering]:
        found = []
        for zone in self.zones:
            for kind in (SPOT, ON_DEMAND):
                sold = self.chance(self.spot if kind == SPOT else 90)
                dry = zone == self.dry or self.chance(5)
                price = cpus * self.dice.choice((0.1, 0.1, 0.11)) * (0.3 if kind == SPOT else 1)
                labels = {ZONE: zone, CAPACITY_TYPE: kind}
                if sold:
                    found.append(_offering(labels, price, 0 if dry else UNLIMITED))
        return found

    def _reserved(self) -> list[Offering]:
        if not self.chance(15):
            return []
        labels = {ZONE: self.dice.choice(self.zones), CAPACITY_TYPE: RESERVED}
        name = f"cr-{self.dice.randrange(2)}"
        return [_offering(labels, 1e-7, 2 if name == "cr-0" else 1, name)]

    def _pool(self, name: str) -> Pool:
        requirements = NO_REQUIREMENTS
        if self.chance(25):
            chosen = self.dice.sample(self.zones, self.dice.randint(1, len(self.zones)))
            requirements = requirements.narrow(asking(ZONE, "In", *chosen))
        if self.chance(20):
            kind = self.dice.choice((SPOT, ON_DEMAND))
            requirements = requirements.narrow(asking(CAPACITY_TYPE, "In", kind, RESERVED))
        if self.racks and self.chance(60):
            racks = self.dice.sample(RACKS, self.dice.randint(1, 3))
            requirements = requirements.narrow(asking(RACK, "In", *racks))
        if self.chance(15):
            key = self.dice.choice((ZONE, INSTANCE_TYPE, CAPACITY_TYPE))
            least = self.dice.randint(1, 3)
            requirements = requirements.narrow(asking(key, "Exists", min_values=least))
        return Pool(
            name=name,
            weight=self.dice.choice((0, 0, 0, 10)),
            requirements=requirements,
            labels={RACK: self.dice.choice(RACKS)} if self.chance(8) else {},
            taints=tuple(taint for taint in TAINTS if self.chance(12)),
            limits=self._limits(),
        )

    def _limits(self) -> dict[str, int]:
        if self.chance(85):
            return {}
        return self.dice.choice(({"nodes": self.dice.randint(0, 3)}, {"cpu": 4000}, {"cpu": 10000}))

    def _node(self, number: int) -> Node:
        name = f"node-{number}"
        labels = {ARCH: "amd64", HOSTNAME: name, NODEPOOL: "p"}
        labels |= {ZONE: self.dice.choice(self.zones)} if self.chance(95) else {}
        labels |= {CAPACITY_TYPE: self.dice.choice((SPOT, ON_DEMAND))} if self.chance(90) else {}
        labels |= {RACK: self.dice.choice(RACKS)} if self.racks and self.chance(70) else {}
        return Node(
            name=name,
            labels=labels,
            taints=tuple(taint for taint in TAINTS if self.chance(20)),
            startup_taints=(STARTING,) if self.chance(20) else (),
            allocatable={
                "cpu": self.dice.choice((1000, 2000, 4000)),
                "memory": 8 * GIB,
                "pods": self.dice.choice((2, 5, 10)),
            },
            pods=self._running(name),
            managed=self.chance(80),
            initialized=self.chance(80),
            deleting=self.chance(4),
            attach_limits={DRIVERS[0]: self.dice.randint(1, 3)} if self.chance(40) else {},
        )

    def _running(self, node: str) -> tuple[Pod, ...]:
        count = self.dice.choice((0, 1, 1, 2, 3))
        return tuple(self.pods.running(node, number) for number in range(count))

    def _daemonset(self) -> DaemonSet:
        ports = (HostPort(port=80),) if self.chance(40) else ()
        wanted = asking(ZONE, "In", self.zones[0]) if self.chance(30) else NO_REQUIREMENTS
        return DaemonSet(
            namespace="system",
            name="agent",
            requests={"cpu": self.dice.choice((50, 400))},
            alternatives=(wanted,),
            ports=ports,
        )


def _offering(
    labels: dict[str, str], price: float, available: int, reservation: str | None = None
) -> Offering:
    return Offering(
        requirements=Requirements.from_labels(labels),
        price=price,
        available=available,
        reservation_id=reservation,
    )
