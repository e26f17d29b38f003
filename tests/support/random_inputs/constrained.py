"""Random small inputs with spread, affinity, anti-affinity, host ports, volumes, preferences."""

from random import Random
from typing import Final

import msgspec
from tests.support.model_builders import GIB, label_requirement
from tests.support.random_inputs.unconstrained import (
    TAINTS,
    TOLERATIONS,
    PlannerInput,
    evicted,
    random_input,
)

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
from wainwright.model.plan import MinValuesPolicy, PlanOptions, PreferencePolicy
from wainwright.model.pod import (
    ALL_PODS,
    ANY_NODE_TERMS,
    NO_PODS,
    AffinityTerm,
    DaemonSet,
    HostPort,
    Pod,
    PodConstraints,
    PodSelector,
    PreferredNodeTerm,
    SelectorRequirement,
    TopologySpread,
    VolumeAttachment,
    WeightedAffinityTerm,
    pod_selector,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot

RACK: Final = "example.com/row"
RACKS: Final = ("r1", "r2", "r3")
APPS: Final = ("web", "db", "job")
NAMESPACES: Final = ("shop", "data")
DRIVERS: Final = ("ebs.example.com", "nfs.example.com")
KEYS: Final = (ZONE, ZONE, ZONE, HOSTNAME, HOSTNAME, CAPACITY_TYPE, RACK)
ADDRESSES: Final = ("0.0.0.0", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::")
FEATURES: Final = (
    "spreads",
    "affinity",
    "anti_affinity",
    "preferred_affinity",
    "preferred_anti_affinity",
    "preferred_nodes",
    "ports",
    "attachments",
    "volume_topology",
)

PREFERENCES: Final = ("preferred_affinity", "preferred_anti_affinity", "preferred_nodes", "spreads")
"""Preferences in the order in which they are relaxed."""


class ConstrainedPodMaker:
    """Makes pods with some of the features; an input has only a few, so that pods share them."""

    def __init__(self, rng: Random, zones: tuple[str, ...]) -> None:
        self.rng = rng
        self.zones = zones
        self.features = [each for each in FEATURES if self.chance(25)] or ["spreads"]
        if len(set(self.features) & set(PREFERENCES)) == 1 and self.chance(50):
            self.features = [*dict.fromkeys([*self.features, *PREFERENCES])]
        self.large = self.chance(25)
        """Whether most pods need a node each."""
        self.volumes = 0

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def waiting(self, most: int) -> tuple[Pod, ...]:
        """Groups of equal pods, at most so many together."""
        found: list[Pod] = []
        for number in range(self.rng.randint(1, 4)):
            found += self._group(f"g{number}", self.rng.choice((1, 1, 2, 3, 4, 6)))
        return tuple(found[:most])

    def running(self, node: str, number: int) -> Pod:
        """A pod bound to a node, whatever its constraints are."""
        app = self.rng.choice(APPS)
        return Pod(
            namespace=self._namespace(),
            name=f"{app}-on-{node}-{number}",
            uid=str(self.rng.randrange(1000)),
            labels=self._labels(app),
            requests={"cpu": self.rng.choice((100, 400, 900)), "memory": GIB // 4},
            alternatives=self._alternatives(),
            tolerations=tuple(each for each in TOLERATIONS if self.chance(30)),
            constraints=self.constraints(app) if self.chance(60) else PodConstraints(),
            daemonset=self.chance(10),
            terminating=self.chance(15),
        )

    def _group(self, name: str, count: int) -> list[Pod]:
        app, namespace = self.rng.choice(APPS), self._namespace()
        labels, constraints = self._labels(app), self.constraints(app)
        requests = {"cpu": self._cpu(), "memory": self.rng.choice((1, 2, 4)) * GIB // 4}
        alternatives = self._alternatives()
        tolerations = tuple(each for each in TOLERATIONS if self.chance(30))
        return [
            Pod(
                namespace=namespace,
                name=f"{name}-{number}",
                uid=str(self.rng.randrange(1000)),
                created=float(self.rng.randrange(3)) if self.chance(50) else None,
                requests=requests,
                labels=labels,
                alternatives=alternatives,
                tolerations=tolerations,
                constraints=self._own(constraints),
            )
            for number in range(count)
        ]

    def _cpu(self) -> int:
        return self.rng.choice((1500, 1900, 3900) if self.large else (100, 400, 900, 1500))

    def _namespace(self) -> str:
        return NAMESPACES[self.chance(15)]

    def _labels(self, app: str) -> dict[str, str]:
        tier = {"tier": self.rng.choice(("front", "back"))} if self.chance(60) else {}
        return {"app": app} | tier

    def _alternatives(self) -> tuple[Requirements, ...]:
        if self.chance(75):
            return ANY_NODE_TERMS
        return (self._asked(), self._asked()) if self.chance(20) else (self._asked(),)

    def _asked(self) -> Requirements:
        zones = tuple(self.rng.sample(self.zones, self.rng.randint(1, len(self.zones))))
        asked = label_requirement(ZONE, "In", *zones) if self.chance(50) else NO_REQUIREMENTS
        if self.chance(25):
            asked = asked.narrow(
                label_requirement(CAPACITY_TYPE, "In", self.rng.choice((SPOT, ON_DEMAND)))
            )
        if self.chance(15):
            asked = asked.narrow(label_requirement(CAPACITY_TYPE, "NotIn", RESERVED))
        if self.chance(15):
            asked = asked.narrow(label_requirement(ARCH, "In", self.rng.choice(("amd64", "arm64"))))
        if self.chance(15):
            operator = self.rng.choice(("In", "NotIn", "Exists"))
            values = (self.rng.choice(RACKS),) if operator.endswith("In") else ()
            asked = asked.narrow(label_requirement(RACK, operator, *values))
        return asked

    def constraints(self, app: str) -> PodConstraints:
        """With some of the input's features, mostly one or two."""
        values = {name: getattr(self, f"_{name}")(app) for name in self.features if self.chance(60)}
        return PodConstraints(**values)

    def _own(self, constraints: PodConstraints) -> PodConstraints:
        """Pods of a group mostly have their own volumes, in random zones."""
        changed = constraints
        if constraints.attachments and self.chance(70):
            changed = msgspec.structs.replace(changed, attachments=self._attachments(""))
        if constraints.volume_topology != ANY_NODE_TERMS and self.chance(50):
            changed = msgspec.structs.replace(changed, volume_topology=self._volume_topology(""))
        return changed

    def _selector(self, app: str) -> PodSelector:
        pick = self.rng.randrange(100)
        if pick < 50:
            return pod_selector({"app": app})
        if pick < 75:
            return pod_selector({"app": self.rng.choice(APPS)})
        if pick < 85:
            return pod_selector({"tier": self.rng.choice(("front", "back"))})
        if pick < 92:
            return ALL_PODS
        if pick < 95:
            return NO_PODS
        operator = self.rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = frozenset({"front"} if operator.endswith("In") else ())
        return PodSelector(
            match_expressions=(SelectorRequirement(key="tier", operator=operator, values=values),)
        )

    def _spreads(self, app: str) -> tuple[TopologySpread, ...]:
        return tuple(self._spread(app) for _ in range(self.rng.choice((1, 1, 1, 2, 3))))

    def _spread(self, app: str) -> TopologySpread:
        return TopologySpread(
            key=self.rng.choice(KEYS),
            selector=self._selector(app),
            max_skew=self.rng.choice((1, 1, 1, 2, 3)),
            min_domains=self.rng.randint(1, 4) if self.chance(15) else None,
            required=self.chance(75),
            honor_affinity=self.chance(80),
            honor_taints=self.chance(35),
        )

    def _company(self, app: str) -> AffinityTerm:
        namespaces = self.rng.choice((None, frozenset({"shop"}), frozenset({"shop"})))
        both = frozenset(NAMESPACES) if self.chance(15) else namespaces
        return AffinityTerm(
            key=self.rng.choice(KEYS), selector=self._selector(app), namespaces=both
        )

    def _affinity(self, app: str) -> tuple[AffinityTerm, ...]:
        return tuple(self._company(app) for _ in range(self.rng.choice((1, 1, 1, 2))))

    _anti_affinity = _affinity

    def _preferred_affinity(self, app: str) -> tuple[WeightedAffinityTerm, ...]:
        weights = sorted((self.rng.choice((1, 10, 100)) for _ in range(2)), reverse=True)
        weights = weights[: self.rng.randint(1, 2)]
        return tuple(
            WeightedAffinityTerm(weight=weight, term=self._company(app)) for weight in weights
        )

    _preferred_anti_affinity = _preferred_affinity

    def _preferred_nodes(self, _: str) -> tuple[PreferredNodeTerm, ...]:
        weights = (100, 10)[: self.rng.randint(1, 2)]
        return tuple(PreferredNodeTerm(weight=each, requirements=self._asked()) for each in weights)

    def _ports(self, _: str) -> tuple[HostPort, ...]:
        count = self.rng.choice((1, 1, 2))
        return tuple(
            HostPort(
                port=self.rng.choice((80, 80, 81)),
                protocol=self.rng.choice(("TCP", "TCP", "UDP")),
                address=self.rng.choice(ADDRESSES),
            )
            for _ in range(count)
        )

    def _attachments(self, _: str) -> tuple[VolumeAttachment, ...]:
        self.volumes += 1
        numbers = [self.volumes * 10 + n for n in range(self.rng.randint(1, 2))]
        return tuple(
            VolumeAttachment(driver=self.rng.choice(DRIVERS), volume=f"vol-{number}")
            for number in numbers
        )

    def _volume_topology(self, _: str) -> tuple[Requirements, ...]:
        zones = self.rng.sample(self.zones, self.rng.randint(1, min(2, len(self.zones))))
        if self.chance(30):
            return (label_requirement(ZONE, "In", *zones),)
        return tuple(label_requirement(ZONE, "In", zone) for zone in zones)


ZONES = ("zone-a", "zone-b", "zone-c")
CPUS = (1, 2, 2, 4, 8)
STARTUP_TAINT = TAINTS[0]
VOLUMES = tuple(f"shared-{letter}" for letter in "abcdefgh")


def random_constrained_input(seed: int) -> PlannerInput:
    """Pending pods, and few nodes; the same seed gives the same input."""
    maker = _ConstrainedInputMaker(Random(seed))
    return maker.planner_input(nodes=maker.rng.choice((0, 0, 1, 2, 3, 4)), pods=12)


def random_running_cluster(seed: int) -> PlannerInput:
    """Nodes with bound pods, and no pending ones."""
    maker = _ConstrainedInputMaker(Random(seed))
    return maker.planner_input(nodes=maker.rng.randint(2, 6), pods=0)


def random_mixed_input(seed: int) -> PlannerInput:
    """An input of unconstrained pods, of which some get constraints."""
    rng, planner_input = Random(seed), random_input(seed)
    maker = ConstrainedPodMaker(rng, ZONES)
    constraints = [maker.constraints(app) for app in APPS]
    pods = tuple(_constrain_pod(pod, rng, constraints) for pod in planner_input.snapshot.pods)
    nodes = tuple(
        msgspec.structs.replace(
            node,
            labels={**node.labels, HOSTNAME: node.name},
            pods=tuple(_constrain_pod(pod, rng, constraints) for pod in node.pods),
        )
        for node in planner_input.snapshot.nodes
    )
    snapshot = msgspec.structs.replace(planner_input.snapshot, pods=pods, nodes=nodes)
    return msgspec.structs.replace(planner_input, snapshot=snapshot)


def with_attach_limits(planner_input: PlannerInput, seed: int) -> PlannerInput:
    """Types that attach one to three volumes of a driver, some without a known limit, and pods that
    have such volumes, some of them the same."""
    rng = Random(f"{seed} attach limits")
    limits = {
        kind.name: {DRIVERS[0]: rng.randint(1, 3)} if rng.randrange(100) < 80 else {}
        for kinds in planner_input.types.values()
        for kind in kinds
    }
    types = {
        pool: tuple(
            msgspec.structs.replace(kind, attach_limits=limits[kind.name]) for kind in kinds
        )
        for pool, kinds in planner_input.types.items()
    }
    pods = tuple(_with_volumes(pod, rng) for pod in planner_input.snapshot.pods)
    snapshot = msgspec.structs.replace(planner_input.snapshot, pods=pods)
    return msgspec.structs.replace(planner_input, types=types, snapshot=snapshot)


def _with_volumes(pod: Pod, rng: Random) -> Pod:
    names = rng.sample(VOLUMES, rng.choice((0, 1, 1, 2, 3)))
    if not names:
        return pod
    attachments = tuple(VolumeAttachment(driver=DRIVERS[0], volume=each) for each in sorted(names))
    constraints = msgspec.structs.replace(pod.constraints, attachments=attachments)
    return msgspec.structs.replace(pod, constraints=constraints)


def _constrain_pod(pod: Pod, rng: Random, constraints: list[PodConstraints]) -> Pod:
    number = rng.randrange(len(APPS))
    mine = constraints[number] if rng.randrange(100) < 60 else PodConstraints()
    return msgspec.structs.replace(
        pod, namespace="shop", labels={"app": APPS[number]}, constraints=mine
    )


class _ConstrainedInputMaker:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.zones = ZONES[: rng.choice((1, 2, 3, 3))]
        self.pods = ConstrainedPodMaker(rng, self.zones)
        self.dry = rng.choice(self.zones) if self.chance(10) else None
        """A zone without available capacity."""
        self.spot = rng.choice((0, 50, 100))
        """The percentage of offerings with spot capacity."""
        self.racks = self.chance(50)
        self.types = tuple(self._type(number) for number in range(rng.randint(1, 5)))

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def planner_input(self, *, nodes: int, pods: int) -> PlannerInput:
        pools = tuple(self._pool(name) for name in ("p", "q", "r")[: self.rng.choice((1, 1, 2, 3))])
        snapshot = Snapshot(
            pods=self.pods.waiting(pods) if pods else (),
            pools=pools,
            nodes=tuple(self._node(number) for number in range(nodes)),
            daemonsets=(self._daemonset(),) if self.chance(20) else (),
        )
        lenient, heedless = self.chance(15), self.chance(10)
        options = PlanOptions(
            min_values_policy=MinValuesPolicy.BEST_EFFORT if lenient else MinValuesPolicy.STRICT,
            preference_policy=PreferencePolicy.IGNORE if heedless else PreferencePolicy.RESPECT,
            strict_weights=self.chance(10),
        )
        return PlannerInput(
            snapshot=evicted(snapshot),
            types={pool.name: self._sold() for pool in pools},
            options=options,
        )

    def _sold(self) -> tuple[InstanceType, ...]:
        if self.chance(80):
            return self.types
        return tuple(self.rng.sample(self.types, self.rng.randint(1, len(self.types))))

    def _type(self, number: int) -> InstanceType:
        cpus = self.rng.choice(CPUS)
        name = f"{'abcde'[number]}.{cpus}"
        labels = {ARCH: self.rng.choice(("amd64", "amd64", "arm64")), INSTANCE_TYPE: name}
        return InstanceType(
            name=name,
            requirements=Requirements.from_labels(labels),
            capacity={
                "cpu": cpus * 1000,
                "memory": cpus * 4 * GIB,
                "pods": self.rng.choice((2, 5, 20)),
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
                price = cpus * self.rng.choice((0.1, 0.1, 0.11)) * (0.3 if kind == SPOT else 1)
                labels = {ZONE: zone, CAPACITY_TYPE: kind}
                if sold:
                    found.append(_offering(labels, price, 0 if dry else UNLIMITED))
        return found

    def _reserved(self) -> list[Offering]:
        if not self.chance(15):
            return []
        labels = {ZONE: self.rng.choice(self.zones), CAPACITY_TYPE: RESERVED}
        name = f"cr-{self.rng.randrange(2)}"
        return [_offering(labels, 1e-7, 2 if name == "cr-0" else 1, name)]

    def _pool(self, name: str) -> Pool:
        requirements = NO_REQUIREMENTS
        if self.chance(25):
            chosen = self.rng.sample(self.zones, self.rng.randint(1, len(self.zones)))
            requirements = requirements.narrow(label_requirement(ZONE, "In", *chosen))
        if self.chance(20):
            kind = self.rng.choice((SPOT, ON_DEMAND))
            requirements = requirements.narrow(
                label_requirement(CAPACITY_TYPE, "In", kind, RESERVED)
            )
        if self.racks and self.chance(60):
            racks = self.rng.sample(RACKS, self.rng.randint(1, 3))
            requirements = requirements.narrow(label_requirement(RACK, "In", *racks))
        if self.chance(15):
            key = self.rng.choice((ZONE, INSTANCE_TYPE, CAPACITY_TYPE))
            least = self.rng.randint(1, 3)
            requirements = requirements.narrow(label_requirement(key, "Exists", min_values=least))
        return Pool(
            name=name,
            weight=self.rng.choice((0, 0, 0, 10)),
            requirements=requirements,
            labels={RACK: self.rng.choice(RACKS)} if self.chance(8) else {},
            taints=tuple(taint for taint in TAINTS if self.chance(12)),
            limits=self._limits(),
        )

    def _limits(self) -> dict[str, int]:
        if self.chance(85):
            return {}
        return self.rng.choice(({"nodes": self.rng.randint(0, 3)}, {"cpu": 4000}, {"cpu": 10000}))

    def _node(self, number: int) -> Node:
        name = f"node-{number}"
        labels = {ARCH: "amd64", HOSTNAME: name, NODEPOOL: "p"}
        labels |= {ZONE: self.rng.choice(self.zones)} if self.chance(95) else {}
        labels |= {CAPACITY_TYPE: self.rng.choice((SPOT, ON_DEMAND))} if self.chance(90) else {}
        labels |= {RACK: self.rng.choice(RACKS)} if self.racks and self.chance(70) else {}
        return Node(
            name=name,
            labels=labels,
            taints=tuple(taint for taint in TAINTS if self.chance(20)),
            startup_taints=(STARTUP_TAINT,) if self.chance(20) else (),
            allocatable={
                "cpu": self.rng.choice((1000, 2000, 4000)),
                "memory": 8 * GIB,
                "pods": self.rng.choice((2, 5, 10)),
            },
            pods=self._running(name),
            managed=self.chance(80),
            initialized=self.chance(80),
            deleting=self.chance(4),
            attach_limits={DRIVERS[0]: self.rng.randint(1, 3)} if self.chance(40) else {},
        )

    def _running(self, node: str) -> tuple[Pod, ...]:
        count = self.rng.choice((0, 1, 1, 2, 3))
        return tuple(self.pods.running(node, number) for number in range(count))

    def _daemonset(self) -> DaemonSet:
        ports = (HostPort(port=80),) if self.chance(40) else ()
        wanted = (
            label_requirement(ZONE, "In", self.zones[0]) if self.chance(30) else NO_REQUIREMENTS
        )
        return DaemonSet(
            namespace="system",
            name="agent",
            requests={"cpu": self.rng.choice((50, 400))},
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
