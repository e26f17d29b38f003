"""Random small inputs in which pools, pods, limits and reservations conflict; and some with many
pods, for which packing by cost pays off.
"""

from collections.abc import Mapping
from random import Random

import msgspec
from tests.support.model_builders import GIB

from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.plan import ClusterLimits, MinValuesPolicy, PlanOptions
from wainwright.model.pod import DaemonSet, Pod, UnsupportedFeature
from wainwright.model.requirements import RequirementEntry, Requirements, find_contradictions
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint, Toleration, TolerationOperator

ZONES = ("zone-a", "zone-b", "zone-c")
CAPACITY_TYPES = (SPOT, ON_DEMAND, RESERVED)
FAMILIES = ("c5", "m5", "r5", "g4")
CPUS = {"large": 2, "xlarge": 4, "2xlarge": 8, "metal": 16}
GPU = "nvidia.com/gpu"
TEAM = "example.com/team"  # a label that pools define
DISK = "example.com/disk"  # a label that some types have
RACK = "example.com/rack"  # a label that some offerings have
ABSENT = "example.com/nobody-has-it"
MIN_VALUES_KEYS = (
    (INSTANCE_TYPE,),
    (INSTANCE_TYPE,),
    (INSTANCE_FAMILY,),
    (ZONE,),
    (CAPACITY_TYPE,),
    (ARCH, "amd64", "arm64"),
    (DISK, "ssd", "none"),
)
"""Keys of minValues, with some values where a type may lack the label."""
TAINTS = (
    Taint(key=TEAM, value="x"),
    Taint(key="example.com/soft", effect=PREFER_NO_SCHEDULE),
)
STARTUP_TAINT = Taint(key="example.com/starting")
TOLERATIONS = (
    Toleration(key=TEAM, operator=TolerationOperator.EXISTS),
    Toleration(key="example.com/soft", operator=TolerationOperator.EXISTS),
)


MANY_POOLS = 60
"""More than the planner compares one by one, also where they have two weights."""


class PlannerInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a plan."""

    snapshot: Snapshot
    types: Mapping[str, tuple[InstanceType, ...]]
    """The instance types of each pool, by pool name."""
    options: PlanOptions

    @property
    def catalogs(self) -> dict[str, InstanceTypeIndex]:
        """Compiled; pools with the same types share one, as pools of one class do."""
        compiled = {id(types): InstanceTypeIndex(types) for types in self.types.values()}
        return {name: compiled[id(types)] for name, types in self.types.items()}


def random_input(seed: int) -> PlannerInput:
    """The same seed gives the same input."""
    return _InputMaker(Random(seed)).planner_input()


def random_reservation_queue(seed: int) -> PlannerInput:
    """An input in which many distinct pods wait for reserved instances."""
    maker = _InputMaker(Random(seed), scarce=True)
    made = maker.planner_input()
    pods = tuple(pod for group in range(60) for pod in maker.distinct(group))
    return msgspec.structs.replace(made, snapshot=msgspec.structs.replace(made.snapshot, pods=pods))


def evicted(snapshot: Snapshot) -> Snapshot:
    """Pods of nodes being deleted are to be scheduled: the slow planners expect them there."""
    return evict_from_deleting_nodes(snapshot).snapshot


def with_cluster_limits(planner_input: PlannerInput, seed: int) -> PlannerInput:
    """The same input with limits of the cluster, tight enough to matter, and nodes that count."""
    rng, old = Random(f"cluster {seed}"), planner_input.snapshot
    limits = ClusterLimits(
        cpu=rng.choice((0, 8, 16, 40)) * 1000 if rng.random() < 0.5 else None,
        memory=rng.choice((16, 64, 200)) * GIB if rng.random() < 0.3 else None,
        nodes=rng.randint(0, 6) if rng.random() < 0.4 else None,
        price_per_hour=rng.choice((0.0, 0.3, 0.8, 1.0, 2.5)) if rng.random() < 0.5 else None,
    )
    kinds = [(name, kind) for name, kinds in planner_input.types.items() for kind in kinds]
    nodes = tuple(_of_known_type(node, *rng.choice(kinds), rng) for node in old.nodes)
    options = msgspec.structs.replace(planner_input.options, cluster_limits=limits)
    snapshot = msgspec.structs.replace(old, nodes=nodes)
    return msgspec.structs.replace(planner_input, snapshot=snapshot, options=options)


def with_gpu_limits(planner_input: PlannerInput, seed: int) -> PlannerInput:
    """The same input with pools that may have few GPUs, and more pods that need one."""
    rng, old = Random(f"gpus {seed}"), planner_input.snapshot
    pools = tuple(
        msgspec.structs.replace(pool, limits={**pool.limits, GPU: rng.randint(0, 2)})
        if rng.random() < 0.7
        else pool
        for pool in old.pools
    )
    pods = tuple(
        msgspec.structs.replace(pod, requests={**pod.requests, GPU: 1})
        if rng.random() < 0.4
        else pod
        for pod in old.pods
    )
    snapshot = msgspec.structs.replace(old, pools=pools, pods=pods)
    return msgspec.structs.replace(planner_input, snapshot=snapshot)


def with_many_pools(planner_input: PlannerInput, seed: int) -> PlannerInput:
    """The same input with a dozen copies of every pool, most of them with limits of their own."""
    rng, old = Random(f"pools {seed}"), planner_input.snapshot
    pools, types = list(old.pools), dict(planner_input.types)
    for pool in old.pools:
        for number in range(MANY_POOLS // len(old.pools)):
            name = f"{pool.name}-{number}"
            limits = {"cpu": rng.choice((4, 8, 16)) * 1000} if rng.random() < 0.8 else pool.limits
            pools.append(msgspec.structs.replace(pool, name=name, limits=limits, in_use={}))
            types[name] = types[pool.name]
    snapshot = msgspec.structs.replace(old, pools=tuple(pools))
    return msgspec.structs.replace(planner_input, snapshot=snapshot, types=types)


def _of_known_type(node: Node, pool: str, kind: InstanceType, rng: Random) -> Node:
    """The node as one of the pool and the type, at a price that is mostly known."""
    labels = {**node.labels, INSTANCE_TYPE: kind.name}
    priced = [each for each in kind.offerings if each.zone and each.capacity_type]
    if priced:
        chosen = rng.choice(priced)
        labels |= {ZONE: chosen.zone or "", CAPACITY_TYPE: chosen.capacity_type or ""}
    return msgspec.structs.replace(node, pool=pool, labels=labels, capacity=dict(kind.capacity))


def shuffle_input(planner_input: PlannerInput, seed: int) -> PlannerInput:
    """The same input in another order."""
    rng, old = Random(seed), planner_input.snapshot
    snapshot = Snapshot(
        pods=tuple(rng.sample(old.pods, len(old.pods))),
        pools=tuple(rng.sample(old.pools, len(old.pools))),
        nodes=tuple(rng.sample(old.nodes, len(old.nodes))),
        daemonsets=tuple(rng.sample(old.daemonsets, len(old.daemonsets))),
    )
    types = {
        name: tuple(_shuffle_type(kind, rng) for kind in rng.sample(kinds, len(kinds)))
        for name, kinds in sorted(planner_input.types.items(), reverse=True)
    }
    return PlannerInput(snapshot=snapshot, types=types, options=planner_input.options)


def _shuffle_type(kind: InstanceType, rng: Random) -> InstanceType:
    offerings = tuple(rng.sample(kind.offerings, len(kind.offerings)))
    return msgspec.structs.replace(kind, offerings=offerings)


class _InputMaker:
    def __init__(self, rng: Random, *, scarce: bool = False) -> None:
        self.rng = rng
        self.zones = ZONES[: rng.randint(2, 3)]
        self.crowded = self.chance(40)
        """Whether most pods need a node each, so that reservations and limits matter."""
        self.scarce = scarce or self.chance(25)
        """Whether little but reserved capacity is available, and pools have minValues."""
        self.fees = self.rng.choice(((0.0,), (0.0,), (0.1,), (0.0, 0.1, 0.3)))
        """Fees of nodes in addition to their price; they may depend on the type."""
        self.types = self._types()
        self.everything = tuple(self.types)

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def planner_input(self) -> PlannerInput:
        pools = tuple(self._pool(name) for name in ("p", "q", "r")[: self.rng.randint(1, 3)])
        snapshot = Snapshot(
            pods=tuple(pod for group in range(self.rng.randint(1, 5)) for pod in self._pods(group)),
            pools=pools,
            nodes=tuple(self._node(number) for number in range(self.rng.choice((0, 0, 1, 2)))),
            daemonsets=tuple(self._daemonset(n) for n in range(self.rng.choice((0, 0, 1, 2)))),
        )
        options = PlanOptions(
            min_values_policy=MinValuesPolicy("BestEffort" if self.chance(25) else "Strict"),
            strict_weights=self.chance(20),
            capacity_reservations=not self.chance(5),
        )
        types = {pool.name: self._sold_to_pool() for pool in pools}
        return PlannerInput(snapshot=evicted(snapshot), types=types, options=options)

    def _types(self) -> list[InstanceType]:
        names = [(family, size) for family in FAMILIES for size in CPUS]
        chosen = self.rng.sample(names, self.rng.randint(3, 8))
        types = [self._type(*name) for name in chosen]
        for number in range(self.rng.choice((4, 5, 6) if self.scarce else (0, 1, 1, 2, 3, 4))):
            self._reserve(types, f"cr-{number}")
        return types

    def _type(self, family: str, size: str) -> InstanceType:
        cpus, name = CPUS[size], f"{family}.{size}"
        entries: list[RequirementEntry] = [
            (INSTANCE_FAMILY, "In", (family,), None),
            (INSTANCE_SIZE, "In", (size,), None),
            (INSTANCE_CPU, "In", (str(cpus),), None),
        ]
        entries += [(INSTANCE_TYPE, "In", (name,), None)] if self.chance(30) else []
        entries += [(ZONE, "In", self.zones, None)] if self.chance(5) else []
        entries += [(CAPACITY_TYPE, "In", CAPACITY_TYPES, None)] if self.chance(5) else []
        if self.chance(92):  # pods without requirements select no architecture
            several = self.chance(8)
            archs = ("amd64", "arm64") if several else (self.rng.choice(("amd64", "arm64")),)
            entries.append((ARCH, "In", archs, None))
        if self.chance(30):
            entries.append((DISK, "In", (self.rng.choice(("ssd", "none")),), None))
        capacity = {
            "cpu": cpus * 1000,
            "memory": cpus * self.rng.choice((2, 4, 8)) * GIB,
            "pods": self.rng.choice((2, 5, 20)),
        }
        return InstanceType(
            name=name,
            requirements=Requirements.from_entries(entries),
            capacity=capacity | ({GPU: 1} if family == "g4" else {}),
            overhead={"cpu": 100, "memory": GIB // 4},
            offerings=self._offerings(),
            fee=self.rng.choice(self.fees),
        )

    def _offerings(self) -> tuple[Offering, ...]:
        found = []
        for capacity_type in (SPOT, ON_DEMAND) if self.chance(95) else (None,):
            for zone in self.zones if self.chance(95) else (None,):
                labels: dict[str, str] = {} if zone is None else {ZONE: zone}
                labels |= {} if capacity_type is None else {CAPACITY_TYPE: capacity_type}
                labels |= {RACK: self.rng.choice(("1", "2"))} if self.chance(4) else {}
                if self.chance(15 if self.scarce else 75):
                    available = 0 if self.chance(15) else UNLIMITED
                    price = self.rng.choice((0.1, 0.2, 0.2, 0.3, 0.5, 0.9))
                    found.append(_offering(labels, price, available))
        return tuple(found)

    def _reserve(self, types: list[InstanceType], name: str) -> None:
        """Adds one reservation: mostly of one type, and now and then of two that share it."""
        zone, count = self.rng.choice(self.zones), self.rng.choice((0, 1, 1, 1, 2, 3))
        labels = {CAPACITY_TYPE: RESERVED} if self.chance(95) else {}
        labels |= {ZONE: zone} if self.chance(95) else {}
        labels |= {RESERVATION_ID: name} if self.chance(50) else {}
        for number in self.rng.sample(range(len(types)), 2 if self.chance(10) else 1):
            offering = _offering(labels, self.rng.choice((1e-7, 2e-7)), count, name)
            offerings = (*types[number].offerings, offering)
            types[number] = msgspec.structs.replace(types[number], offerings=offerings)

    def _sold_to_pool(self) -> tuple[InstanceType, ...]:
        """Mostly all types; else fewer, or without some of the reservations."""
        if self.chance(65):
            return self.everything
        if self.chance(50):
            return tuple(self.rng.sample(self.types, self.rng.randint(1, len(self.types))))
        unknown = f"cr-{self.rng.randrange(3)}"
        return tuple(
            msgspec.structs.replace(
                kind, offerings=tuple(o for o in kind.offerings if o.reservation_id != unknown)
            )
            for kind in self.types
        )

    def _entries(self, percent: int) -> list[RequirementEntry]:
        pick = self.rng.choice
        choices: list[RequirementEntry] = [
            (ARCH, "In", (pick(("amd64", "arm64")),), None),
            (ARCH, "NotIn", (pick(("amd64", "arm64")),), None),
            (ZONE, "In", tuple(self.rng.sample(self.zones, self.rng.randint(1, 2))), None),
            (ZONE, "NotIn", (pick(self.zones),), None),
            (CAPACITY_TYPE, "In", (pick(CAPACITY_TYPES),), None),
            (CAPACITY_TYPE, "In", tuple(self.rng.sample(CAPACITY_TYPES, 2)), None),
            (CAPACITY_TYPE, "NotIn", (pick((SPOT, SPOT, ON_DEMAND, RESERVED)),), None),
            (INSTANCE_FAMILY, "In", tuple(self.rng.sample(FAMILIES, 2)), None),
            (INSTANCE_SIZE, "NotIn", (pick(tuple(CPUS)),), None),
            (INSTANCE_CPU, pick(("Gt", "Lt", "Gte", "Lte")), (pick(("2", "4", "8")),), None),
            (INSTANCE_TYPE, "In", tuple(kind.name for kind in self.types if self.chance(30)), None),
        ]
        rare: list[RequirementEntry] = [
            (DISK, pick(("In", "NotIn")), ("ssd",), None),
            (RACK, pick(("In", "NotIn")), ("1",), None),
            (pick((DISK, ARCH)), pick(("DoesNotExist", "Exists")), (), None),
            (RESERVATION_ID, pick(("In", "NotIn")), ("cr-0",), None),
            (RESERVATION_ID, "DoesNotExist", (), None),
        ]
        chosen = [each for each in choices if self.chance(percent) and each[2]]
        return chosen + [each for each in rare if self.chance(percent // 3)]

    def _pool(self, name: str) -> Pool:
        entries = self._entries(5)
        while self.chance(40 if self.scarce else 25):
            key, *values = self.rng.choice(MIN_VALUES_KEYS)
            operator = "In" if values and self.chance(50) else "Exists"
            listed = tuple(values) if operator == "In" else ()
            entries.append((key, operator, listed, self.rng.randint(1, 4)))
        entries += [(TEAM, "In", ("x", "y"), None)] if self.chance(15) else []
        limits = {"cpu": self.rng.choice((0, 4, 8, 10, 16, 24)) * 1000} if self.chance(25) else {}
        limits |= {"memory": self.rng.choice((8, 16, 64)) * GIB} if self.chance(8) else {}
        limits |= {"nodes": self.rng.randint(0, 3)} if self.chance(20) else {}
        return Pool(
            name=name,
            weight=self.rng.choice((0, 0, 10, 10, 20)),
            requirements=_consistent_requirements(entries),
            labels={TEAM: "x"} if self.chance(10) else {},
            taints=tuple(taint for taint in TAINTS if self.chance(12)),
            startup_taints=(STARTUP_TAINT,) if self.chance(10) else (),
            limits=limits,
            in_use={"cpu": 4000, "memory": 8 * GIB, "nodes": 1} if self.chance(15) else {},
            unusable="static" if self.chance(3) else None,
        )

    def _node(self, number: int) -> Node:
        labels = {ARCH: "amd64", ZONE: self.rng.choice(self.zones), NODEPOOL: "p"}
        labels |= {CAPACITY_TYPE: self.rng.choice(CAPACITY_TYPES)} if self.chance(60) else {}
        running = tuple(
            Pod(
                namespace="system",
                name=f"running-{number}-{n}",
                requests={"cpu": 400},
                daemonset=self.chance(60),
            )
            for n in range(self.rng.choice((0, 0, 1, 2)))
        )
        return Node(
            name=f"node-{self.rng.randrange(100)}-{number}",
            labels=labels,
            taints=tuple(taint for taint in (*TAINTS, STARTUP_TAINT) if self.chance(12)),
            startup_taints=(STARTUP_TAINT,),
            allocatable={
                "cpu": self.rng.choice((1000, 2000, 5000)),
                "memory": self.rng.choice((2, 8)) * GIB,
                "pods": self.rng.choice((1, 4, 10)),
            },
            pods=running,
            managed=self.chance(80),
            initialized=self.chance(60),
            deleting=self.chance(10),
            launched=not self.chance(40),
            reservation_id=f"cr-{self.rng.randrange(3)}" if self.chance(50) else None,
        )

    def _daemonset(self, number: int) -> DaemonSet:
        asked = self._asked(8)
        return DaemonSet(
            namespace="system",
            name=f"agent-{number}",
            requests={"cpu": self.rng.choice((50, 400, 1000)), "memory": GIB // 8},
            alternatives=(asked, self._asked(8)) if self.chance(30) else (asked,),
            tolerations=tuple(each for each in TOLERATIONS if self.chance(50)),
        )

    def _asked(self, percent: int) -> Requirements:
        entries = self._entries(percent)
        entries += [(CAPACITY_TYPE, "NotIn", (RESERVED,), None)] if self.chance(12) else []
        entries += [(ZONE, "In", (self.rng.choice(self.zones),), None)] if self.chance(12) else []
        for operator in ("In", "NotIn", "Exists", "DoesNotExist"):
            if self.chance(2):
                values = ("x",) if operator.endswith("In") else ()
                entries.append((self.rng.choice((TEAM, TEAM, ABSENT)), operator, values, None))
        return _consistent_requirements(entries)

    def _pods(self, group: int) -> list[Pod]:
        large = (1500, 1900, 1900, 3900) if self.crowded else (100, 500, 900, 1500, 3000, 7000)
        requests = {
            "cpu": self.rng.choice(large),
            "memory": self.rng.choice((0, 1, 2, 3, 7)) * GIB // 2,
        }
        requests |= {GPU: 1} if self.chance(8) else {}
        asked = self._asked(3)
        alternatives = (asked, self._asked(12)) if self.chance(15) else (asked,)
        tolerations = tuple(each for each in TOLERATIONS if self.chance(50))
        return [
            Pod(
                namespace="default",
                name=f"pod-{group}-{number}",
                uid=str(self.rng.randrange(1000)),
                created=float(self.rng.randrange(3)) if self.chance(80) else None,
                requests=requests,
                alternatives=alternatives if self.chance(99) else (),
                tolerations=tolerations,
                unsupported=(UnsupportedFeature.RESOURCE_CLAIMS,) if self.chance(1) else (),
            )
            for number in range(self.rng.choice((1, 1, 2, 3, 5)))
        ]

    def distinct(self, group: int) -> list[Pod]:
        """One or more pods like those above, of a size that no other pod has."""
        requests = {
            "cpu": self.rng.randrange(50, 2500),
            "memory": self.rng.randrange(GIB // 16, 6 * GIB),
        }
        return [msgspec.structs.replace(pod, requests=requests) for pod in self._pods(group)]


def _consistent_requirements(entries: list[RequirementEntry]) -> Requirements:
    """None where they contradict themselves: the translation rejects such input."""
    return Requirements.from_entries([] if find_contradictions(entries) else entries)


def _offering(
    labels: Mapping[str, str], price: float, available: int, reservation: str | None = None
) -> Offering:
    return Offering(
        requirements=Requirements.from_labels(labels),
        price=price,
        available=available,
        reservation_id=reservation,
    )


LARGE_TYPE_MARKUP = 1.2  # the price goes with the cpus to this power
PRICE_NOISE = (0.8, 1.0, 1.25)


def random_packable_input(seed: int) -> PlannerInput:
    """The same seed gives the same input."""
    rng, planner_input = Random(seed), random_input(seed)
    pods = tuple(twin for pod in planner_input.snapshot.pods for twin in _similar_pods(pod, rng))
    shared = {id(kinds): kinds for kinds in planner_input.types.values()}
    priced = {
        each: tuple(_reprice_type(kind, seed) for kind in kinds) for each, kinds in shared.items()
    }
    return msgspec.structs.replace(
        planner_input,
        snapshot=msgspec.structs.replace(planner_input.snapshot, pods=pods),
        types={pool: priced[id(kinds)] for pool, kinds in planner_input.types.items()},
    )


def _similar_pods(pod: Pod, rng: Random) -> list[Pod]:
    """A few similar pods, smaller so that several share a node."""
    requests = {name: amount // 4 if amount > 1 else 1 for name, amount in pod.requests.items()}
    return [
        msgspec.structs.replace(pod, name=f"{pod.name}-{number}", requests=requests)
        for number in range(rng.randint(1, 8))
    ]


def _reprice_type(kind: InstanceType, seed: int) -> InstanceType:
    """Prices proportional to cpus; reserved offerings keep their price."""
    rng = Random(f"{seed} {kind.name}")  # a type costs the same in every pool
    factor = (kind.capacity["cpu"] / 2000) ** LARGE_TYPE_MARKUP
    offerings = tuple(
        each
        if each.reservation_id is not None
        else msgspec.structs.replace(each, price=factor * each.price * rng.choice(PRICE_NOISE))
        for each in kind.offerings
    )
    return msgspec.structs.replace(kind, offerings=offerings)
