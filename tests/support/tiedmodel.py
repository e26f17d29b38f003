"""Builders for plans of pods that mind each other."""

from collections.abc import Mapping, Sequence

from tests.support.model import GIB, instance_type, offering

from wainwright.core.plan import plan
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import HOSTNAME, ON_DEMAND, ZONE
from wainwright.model.node import Node
from wainwright.model.options import DEFAULT_OPTIONS, Options
from wainwright.model.plan import Plan
from wainwright.model.pod import ANYWHERE, NO_BONDS, Bonds, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.selector import selector
from wainwright.model.snapshot import Snapshot
from wainwright.model.topology import Company, Spread

ZONES = ("zone-a", "zone-b", "zone-c")
GENERAL = Pool(name="general")


def machine(
    name: str = "big",
    *,
    cpu: int = 16000,
    zones: Sequence[str] = ZONES,
    capacity_types: Sequence[str] = (ON_DEMAND,),
    price: float = 1.0,
) -> InstanceType:
    """A type sold in these zones in these ways, dearer on demand."""
    return instance_type(
        name=name,
        capacity={"cpu": cpu, "memory": 64 * GIB, "pods": 50},
        offerings=tuple(
            offering(
                zone=zone,
                capacity_type=kind,
                price=price if kind == ON_DEMAND else price / 3,
            )
            for zone in zones
            for kind in capacity_types
        ),
    )


def pods(
    count: int,
    app: str = "web",
    *,
    cpu: int = 100,
    bonds: Bonds = NO_BONDS,
    alternatives: tuple[Requirements, ...] = ANYWHERE,
    namespace: str = "shop",
) -> tuple[Pod, ...]:
    return tuple(
        Pod(
            namespace=namespace,
            name=f"{app}-{number}",
            labels={"app": app},
            requests={"cpu": cpu},
            bonds=bonds,
            alternatives=alternatives,
        )
        for number in range(count)
    )


def spread(key: str = ZONE, app: str = "web", max_skew: int = 1, **more: object) -> Bonds:
    found = Spread(key=key, selector=selector({"app": app}), max_skew=max_skew, **more)  # type: ignore[arg-type]
    return Bonds(spreads=(found,))


def company(key: str = ZONE, app: str = "web") -> Company:
    return Company(key=key, selector=selector({"app": app}), namespaces=frozenset({"shop"}))


def standing(name: str, zone: str | None, *running: Pod, cpu: int = 1000) -> Node:
    labels = {HOSTNAME: name} | ({} if zone is None else {ZONE: zone})
    return Node(name=name, labels=labels, allocatable={"cpu": cpu, "pods": 50}, pods=running)


def planned(
    waiting: Sequence[Pod],
    *types: InstanceType,
    pools: Sequence[Pool] = (GENERAL,),
    nodes: Sequence[Node] = (),
    options: Options = DEFAULT_OPTIONS,
) -> Plan:
    index = TypeIndex(types or (machine(),))
    snapshot = Snapshot(pods=tuple(waiting), pools=tuple(pools), nodes=tuple(nodes))
    return plan(snapshot, {pool.name: index for pool in pools}, options)


def by_zone(made: Plan) -> Mapping[str, int]:
    """How many pods of the plan's claims are in which zone."""
    found: dict[str, int] = {}
    for claim in made.claims:
        zone = claim.launch.zone or ""
        found[zone] = found.get(zone, 0) + len(claim.pods)
    return dict(sorted(found.items()))
