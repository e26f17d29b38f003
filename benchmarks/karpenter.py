"""`make bench-karpenter`: Karpenter's scheduler and our planner on the same pods, in one run.

Needs Go. Costs are shown beside a lower bound by volume alone, whatever the packing.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from math import fsum
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
from tests.oracle.client import Oracle, OracleAnswer
from tests.support.processes import MissingTool

from benchmarks import karpenter_cluster, karpenter_disruption
from benchmarks.planner import GIB, processor_seconds
from benchmarks.workload_mix import manifest, mixed_pods, preferring_pods
from wainwright.catalogue.catalog_document import format_catalog
from wainwright.core.plan import plan
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    OFFERING_LABELS,
    ON_DEMAND,
    OS,
    SPOT,
    WELL_KNOWN_LABELS,
    ZONE,
)
from wainwright.model.plan import Plan
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool, Snapshot

RESOURCES: Final = ("cpu", "memory", "pods")
STEPS: Final = 25
GOLDEN_RATIO: Final = 0.618


def lower_bound(pods: Iterable[Pod], types: Iterable[InstanceType]) -> float:
    """USD per hour."""
    needed = [0.0, 0.0, 0.0]
    for pod in pods:
        for number, name in enumerate(RESOURCES):
            needed[number] += 1 if name == "pods" else pod.requests.get(name, 0)
    sold = [
        (
            [kind.allocatable.get(name, 0) for name in RESOURCES],
            min(each.price for each in kind.offerings if each.available),
        )
        for kind in types
        if any(each.available for each in kind.offerings)
    ]
    return _maximize(lambda one: _maximize(lambda two: _value_at_prices(needed, sold, (one, two))))


def _value_at_prices(
    needed: Sequence[float], sold: Sequence[tuple[list[int], float]], shares: tuple[float, float]
) -> float:
    """The worth of the pods at fair prices of which the resources have these shares."""
    first = shares[0]
    second = (1 - first) * shares[1]
    weights = (first, second, 1 - first - second)
    # Scaled by what is needed, so that a share says how much of the worth a resource makes up.
    prices = [weight / most if most else 0.0 for weight, most in zip(weights, needed, strict=True)]
    return min(
        cost / worth
        for amounts, cost in sold
        if (worth := sum(p * a for p, a in zip(prices, amounts, strict=True)))
    )


def _maximize(of: Callable[[float], float]) -> float:
    """The most that a function with one summit has between 0 and 1."""
    low, high = 0.0, 1.0
    best = max(of(low), of(high))
    for _ in range(STEPS):
        left, right = high - GOLDEN_RATIO * (high - low), low + GOLDEN_RATIO * (high - low)
        at_left, at_right = of(left), of(right)
        best = max(best, at_left, at_right)
        low, high = (low, right) if at_left > at_right else (left, high)
    return best


TYPES: Final = 400
ZONES: Final = ("test-zone-1", "test-zone-2", "test-zone-3")
SIZES: Final = (1_000, 5_000, 20_000)
PREFERRING_PODS: Final = 4_000
WORKERS: Final = (1, 5)
POOL: Final = "general"
Make = Callable[[int, Random], list[Pod]]


class Workload(NamedTuple):
    """What both are given."""

    name: str
    pods: int
    make: Make


WORKLOADS: Final = (
    *(Workload("the mix", count, mixed_pods) for count in SIZES),
    Workload(
        "preferences", PREFERRING_PODS, lambda count, rng: preferring_pods(count, rng, ZONES[0])
    ),
)


def instance_types() -> tuple[InstanceType, ...]:
    """Types of n cpus, 2n GiB and 10n pods, each offered on demand and as spot in three zones."""
    return tuple(_type(number) for number in range(1, TYPES + 1))


def _type(number: int) -> InstanceType:
    price = 0.025 * number + 0.002 * number
    ways = [(zone, kind) for zone in ZONES for kind in (ON_DEMAND, SPOT)]
    return InstanceType(
        name=f"type-{number}",
        requirements=Requirements.from_labels(
            {INSTANCE_TYPE: f"type-{number}", ARCH: "amd64", OS: "linux"}
        ),
        capacity={"cpu": 1000 * number, "memory": 2 * GIB * number, "pods": 10 * number},
        overhead={"cpu": 100, "memory": GIB // 100},
        offerings=tuple(_offering(*way, price) for way in ways),
    )


def _offering(zone: str, kind: str, price: float) -> Offering:
    return Offering(
        requirements=Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: kind}),
        price=price * (0.7 if kind == SPOT else 1.0),
        available=UNLIMITED,
    )


def oracle_request(pods: list[Pod], types: tuple[InstanceType, ...], workers: int) -> bytes:
    """The pods, the types and a pool without requirements, as the oracle reads them."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": POOL},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }
    sold = msgspec.json.decode(format_catalog("test", types))["instanceTypes"]
    asked: dict[str, Any] = {
        "objects": [pool, *map(manifest, pods)],
        "instanceTypes": sold,
        "wellKnownLabels": sorted(WELL_KNOWN_LABELS),
        "offeringLabels": sorted(OFFERING_LABELS),
        "options": {
            "minValuesPolicy": "Strict",
            "preferencePolicy": "Respect",
            "reservedCapacity": True,
            "workers": workers,
            "brief": True,
        },
    }
    return msgspec.json.encode(asked)


def run(loads: tuple[Workload, ...] = WORKLOADS) -> None:
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; pods a second")
    print(
        f"{'pods':<22}{'theirs, 1 worker':>17}{'5 workers':>11}{'ours':>10}{'ratio':>8}"
        f"{'nodes':>14}{'USD/h':>20}{'at least':>10}"
    )
    try:
        with Oracle.start() as oracle:
            for load in loads:
                _report(oracle, load)
    except MissingTool as missing:
        sys.exit(str(missing))


def _report(oracle: Oracle, load: Workload) -> None:
    types, pods = instance_types(), load.make(load.pods, Random(42))
    answers = [oracle.schedule_json(oracle_request(pods, types, workers)) for workers in WORKERS]
    index = {POOL: InstanceTypeIndex(types)}
    snapshot = Snapshot(pods=tuple(pods), pools=(Pool(name=POOL),))
    made = plan(snapshot, index)
    taken = processor_seconds(lambda: plan(snapshot, index), 3)
    rates = [load.pods / min(answer.seconds, answer.processor) for answer in answers]
    ours = load.pods / taken
    best = answers[rates.index(max(rates))]
    speeds = f"{rates[0]:>17,.0f}{rates[1]:>11,.0f}{ours:>10,.0f}{ours / max(rates):>7.0f}x"
    least = lower_bound(pods, types)
    results = f"{_counts(best, made):>14}{_costs(best, made):>20}{least:>10,.2f}"
    print(f"{load.pods:>7,} {load.name:<14}{speeds}{results}", flush=True)
    if best.errors or made.unplaced:
        print(f"        without a place: theirs {len(best.errors)}, ours {made.unscheduled}")


def _counts(theirs: OracleAnswer, ours: Plan) -> str:
    return f"{len(theirs.claims):,} / {len(ours.claims):,}"


def _costs(theirs: OracleAnswer, ours: Plan) -> str:
    paid = fsum(claim.cheapest for claim in theirs.claims)
    return f"{paid:,.2f} / {ours.price:,.2f}"


if __name__ == "__main__":
    if sys.argv[1:] == ["cluster"]:
        karpenter_cluster.run()
        sys.exit()
    numbers = {int(argument) for argument in sys.argv[1:] if argument.isdecimal()}
    named = {argument for argument in sys.argv[1:] if not argument.isdecimal()}
    if numbers or not named:
        run(tuple(load for load in WORKLOADS if not numbers or load.pods in numbers))
    if not numbers:
        karpenter_disruption.run()
