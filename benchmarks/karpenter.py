"""`make bench-karpenter`: Karpenter's scheduler and our planner on the same pods, in one run.

Theirs is its solve alone, with one worker, which is its default, and with five, as in its own
benchmark: the time on the wall or that of the processor, whichever is less, and the faster of the
two settings counts. Ours is all of `plan`, by the processor: compiling the input, solving, and the
plan with its reasons. The catalogue is like that of its benchmark: 400 types of 1 to 400 cpus.
"""

import os
import platform
import sys
from collections.abc import Callable
from math import fsum
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
from tests.support.oracle import Answer, Oracle
from tests.support.tools import Missing

from benchmarks.bound import lower_bound
from benchmarks.diverse import diverse, manifest, wishful
from benchmarks.planner import GIB, measured
from wainwright.catalogue.document import document
from wainwright.core.plan import plan
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    DECIDED_BY_OFFERING,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    SPOT,
    WELL_KNOWN,
    ZONE,
)
from wainwright.model.plan import Plan
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Snapshot

TYPES: Final = 400
ZONES: Final = ("test-zone-1", "test-zone-2", "test-zone-3")
SIZES: Final = (1_000, 5_000, 20_000)
WISHFUL: Final = 4_000
WORKERS: Final = (1, 5)
POOL: Final = "general"
Make = Callable[[int, Random], list[Pod]]


class Load(NamedTuple):
    """What both are given."""

    name: str
    pods: int
    make: Make


LOADS: Final = (
    *(Load("the mix", count, diverse) for count in SIZES),
    Load("preferences", WISHFUL, lambda count, dice: wishful(count, dice, ZONES[0])),
)


def catalogue() -> tuple[InstanceType, ...]:
    """Types of n cpus, 2n GiB and 10n pods, each sold on demand and as spot in three zones."""
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


def question(pods: list[Pod], types: tuple[InstanceType, ...], workers: int) -> bytes:
    """The pods, the types and a pool without requirements, as the oracle reads them."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": POOL},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }
    sold = msgspec.json.decode(document("test", types))["instanceTypes"]
    asked: dict[str, Any] = {
        "objects": [pool, *map(manifest, pods)],
        "instanceTypes": sold,
        "wellKnownLabels": sorted(WELL_KNOWN),
        "offeringLabels": sorted(DECIDED_BY_OFFERING),
        "options": {
            "minValuesPolicy": "Strict",
            "preferencePolicy": "Respect",
            "reservedCapacity": True,
            "workers": workers,
            "brief": True,
        },
    }
    return msgspec.json.encode(asked)


def run(loads: tuple[Load, ...] = LOADS) -> None:
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; pods a second")
    print(
        f"{'pods':<22}{'theirs, 1 worker':>17}{'5 workers':>11}{'ours':>10}{'ratio':>8}"
        f"{'nodes':>14}{'USD/h':>20}{'at least':>10}"
    )
    try:
        with Oracle.start() as oracle:
            for load in loads:
                _report(oracle, load)
    except Missing as missing:
        sys.exit(str(missing))


def _report(oracle: Oracle, load: Load) -> None:
    types, pods = catalogue(), load.make(load.pods, Random(42))
    answers = [oracle.ask_bytes(question(pods, types, workers)) for workers in WORKERS]
    index = {POOL: TypeIndex(types)}
    snapshot = Snapshot(pods=tuple(pods), pools=(Pool(name=POOL),))
    made = plan(snapshot, index)
    taken = measured(lambda: plan(snapshot, index), 3)
    rates = [load.pods / min(answer.seconds, answer.processor) for answer in answers]
    ours = load.pods / taken
    best = answers[rates.index(max(rates))]
    speeds = f"{rates[0]:>17,.0f}{rates[1]:>11,.0f}{ours:>10,.0f}{ours / max(rates):>7.0f}x"
    least = lower_bound(pods, types)
    results = f"{_counts(best, made):>14}{_costs(best, made):>20}{least:>10,.2f}"
    print(f"{load.pods:>7,} {load.name:<14}{speeds}{results}", flush=True)
    if best.errors or made.unschedulable:
        print(f"        without a place: theirs {len(best.errors)}, ours {made.unscheduled}")


def _counts(theirs: Answer, ours: Plan) -> str:
    return f"{len(theirs.claims):,} / {len(ours.claims):,}"


def _costs(theirs: Answer, ours: Plan) -> str:
    paid = fsum(claim.cheapest for claim in theirs.claims)
    return f"{paid:,.2f} / {ours.price:,.2f}"


if __name__ == "__main__":
    wanted = {int(argument) for argument in sys.argv[1:]}
    run(tuple(load for load in LOADS if not wanted or load.pods in wanted))
