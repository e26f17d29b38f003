"""Builders for values of the model, with defaults for what a test does not need."""

from collections.abc import Mapping, Sequence

from wainwright.core.explain.unschedulable import explain_plan
from wainwright.core.plan import plan, solve_plan
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ON_DEMAND, ZONE
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    ExplainedPlan,
    Plan,
    PlanOptions,
    UnschedulableGroup,
)
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    NO_CONSTRAINTS,
    AffinityTerm,
    Pod,
    PodConstraints,
    TopologySpread,
    pod_selector,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot

GIB = 2**30


def label_requirement(
    key: str, operator: str = "Exists", *values: str, min_values: int | None = None
) -> Requirements:
    """Requirements on a single key; `narrow` combines several."""
    return Requirements.from_entries([(key, operator, values, min_values)])


def offering(
    *,
    zone: str | None = "zone-a",
    capacity_type: str | None = ON_DEMAND,
    price: float = 1.0,
    available: int = UNLIMITED,
    reservation_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Offering:
    """An offering; None leaves the zone or the capacity type open."""
    stated = {ZONE: zone, CAPACITY_TYPE: capacity_type, **(labels or {})}
    return Offering(
        requirements=Requirements.from_labels({k: v for k, v in stated.items() if v is not None}),
        price=price,
        available=available,
        reservation_id=reservation_id,
    )


def instance_type(
    *,
    name: str = "m5.large",
    capacity: Mapping[str, int] | None = None,
    overhead: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    requirements: Requirements = NO_REQUIREMENTS,
    offerings: tuple[Offering, ...] | None = None,
    fee: float = 0.0,
) -> InstanceType:
    """By default a type of 2 cpu and 8 GiB, offered on demand in one zone."""
    return InstanceType(
        name=name,
        requirements=Requirements.from_labels(labels or {}).narrow(requirements),
        capacity={"cpu": 2000, "memory": 8 * GIB, "pods": 29} if capacity is None else capacity,
        overhead=overhead or {},
        offerings=(offering(),) if offerings is None else offerings,
        fee=fee,
    )


ZONES = ("zone-a", "zone-b", "zone-c")
GENERAL = Pool(name="general")


def zonal_instance_type(
    name: str = "big",
    *,
    cpu: int = 16000,
    zones: Sequence[str] = ZONES,
    capacity_types: Sequence[str] = (ON_DEMAND,),
    price: float = 1.0,
) -> InstanceType:
    """A type offered in these zones and capacity types, on-demand at a higher price."""
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


def labelled_pods(
    count: int,
    app: str = "web",
    *,
    cpu: int = 100,
    constraints: PodConstraints = NO_CONSTRAINTS,
    alternatives: tuple[Requirements, ...] = ANY_NODE_TERMS,
    namespace: str = "shop",
) -> tuple[Pod, ...]:
    return tuple(
        Pod(
            namespace=namespace,
            name=f"{app}-{number}",
            labels={"app": app},
            requests={"cpu": cpu},
            constraints=constraints,
            alternatives=alternatives,
        )
        for number in range(count)
    )


def spread_constraint(
    key: str = ZONE, app: str = "web", max_skew: int = 1, **more: object
) -> PodConstraints:
    found = TopologySpread(key=key, selector=pod_selector({"app": app}), max_skew=max_skew, **more)  # type: ignore[arg-type]
    return PodConstraints(spreads=(found,))


def affinity_term(key: str = ZONE, app: str = "web") -> AffinityTerm:
    return AffinityTerm(
        key=key, selector=pod_selector({"app": app}), namespaces=frozenset({"shop"})
    )


def existing_node(name: str, zone: str | None, *running: Pod, cpu: int = 1000) -> Node:
    labels = {HOSTNAME: name} | ({} if zone is None else {ZONE: zone})
    return Node(name=name, labels=labels, allocatable={"cpu": cpu, "pods": 50}, pods=running)


def plan_pods(
    waiting: Sequence[Pod],
    *types: InstanceType,
    pools: Sequence[Pool] = (GENERAL,),
    nodes: Sequence[Node] = (),
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> Plan:
    index = InstanceTypeIndex(types or (zonal_instance_type(),))
    snapshot = Snapshot(pods=tuple(waiting), pools=tuple(pools), nodes=tuple(nodes))
    return plan(snapshot, {pool.name: index for pool in pools}, options)


def explained_plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
    *,
    with_suggestions: bool = True,
) -> ExplainedPlan:
    return explain_plan(solve_plan(snapshot, catalogs, options), with_suggestions=with_suggestions)


def explain_pods(
    waiting: Sequence[Pod],
    *types: InstanceType,
    pools: Sequence[Pool] = (GENERAL,),
    nodes: Sequence[Node] = (),
) -> tuple[UnschedulableGroup, ...]:
    """Why those of the pods have no place that have none."""
    index = InstanceTypeIndex(types or (zonal_instance_type(),))
    snapshot = Snapshot(pods=tuple(waiting), pools=tuple(pools), nodes=tuple(nodes))
    return explained_plan(snapshot, {pool.name: index for pool in pools}).unschedulable


def pods_by_zone(made: Plan) -> Mapping[str, int]:
    """The number of pods on the plan's claims by zone."""
    found: dict[str, int] = {}
    for claim in made.claims:
        zone = claim.launch.zone or ""
        found[zone] = found.get(zone, 0) + len(claim.pods)
    return dict(sorted(found.items()))
