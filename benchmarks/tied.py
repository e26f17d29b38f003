"""Pods that mind each other: a mix of all, a thousand apps, preferences, pickers, removals."""

import gc
import sys
from collections.abc import Callable, Sequence
from random import Random
from time import process_time
from typing import Final

from benchmarks.diverse import diverse
from benchmarks.measure import in_a_process, row
from benchmarks.planner import GIB, MIB, SIZES, TYPES, index, measured, peak, pools
from wainwright.core.plan import plan
from wainwright.core.view import View
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_CATEGORY,
    INSTANCE_TYPE,
    NODEPOOL,
    ZONE,
)
from wainwright.model.node import Node
from wainwright.model.plan import PlannedClaim
from wainwright.model.pod import Bonds, Pod
from wainwright.model.requirements import Requirements, requirement
from wainwright.model.selector import selector
from wainwright.model.snapshot import Snapshot
from wainwright.model.topology import Company, Preferred, Spread

APPS: Final = 1_000
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")


def distinct(count: int, dice: Random) -> list[Pod]:
    """The mix, and no two pods of one size."""
    return diverse(
        count,
        dice,
        lambda number: {
            "cpu": dice.randrange(50, 1500),
            "memory": dice.randrange(64 * MIB, 4 * GIB) // 4096 * 4096 + number,
        },
    )


def apps(count: int, dice: Random) -> list[Pod]:
    """A thousand apps, each spread over zones by its label; every pod has selectors of its own."""
    bonds = [_spread_app(f"app-{number}") for number in range(APPS)]
    return [
        Pod(
            namespace="default",
            name=f"pod-{number}",
            labels={"app": f"app-{number % APPS}"},
            requests=_size(dice),
            alternatives=(_selectors(dice),),
            bonds=bonds[number % APPS],
        )
        for number in range(count)
    ]


def _spread_app(name: str) -> Bonds:
    return Bonds(spreads=(Spread(key=ZONE, selector=selector({"app": name})),))


def _selectors(dice: Random) -> Requirements:
    choices = {
        "kubernetes.io/arch": ("amd64", "arm64"),
        CAPACITY_TYPE: ("spot", "on-demand"),
        ZONE: ZONES,
        INSTANCE_CATEGORY: ("c", "m", "r"),
        "karpenter.k8s.aws/instance-generation": ("5", "6", "7"),
    }
    chosen = dice.sample(sorted(choices), dice.randrange(0, 4))
    return Requirements(requirement(key, "In", (dice.choice(choices[key]),)) for key in chosen)


def preferring(count: int, dice: Random) -> list[Pod]:
    """Pods that would rather be alone, and near to nobody's zone: what they get is a node each."""
    alone = Company(
        key=HOSTNAME, selector=selector({"app": "shy"}), namespaces=frozenset({"default"})
    )
    elsewhere = Company(
        key=ZONE, selector=selector({"app": "nobody"}), namespaces=frozenset({"default"})
    )
    bonds = Bonds(
        preferred_affinity=(Preferred(weight=50, term=elsewhere),),
        preferred_anti_affinity=(Preferred(weight=10, term=alone),),
    )
    return [
        Pod(
            namespace="default",
            name=f"pod-{number}",
            labels={"app": "shy"},
            requests=_size(dice),
            bonds=bonds,
        )
        for number in range(count)
    ]


def picky(count: int, dice: Random) -> list[Pod]:
    """Every pod names its own 25 instance types: nothing can be shared."""
    names = sorted(kind.name for kind in index(TYPES[-1]).types)
    return [
        Pod(
            namespace="default",
            name=f"pod-{number}",
            requests=_size(dice),
            alternatives=(
                Requirements([requirement(INSTANCE_TYPE, "In", tuple(dice.sample(names, 25)))]),
            ),
        )
        for number in range(count)
    ]


def _size(dice: Random) -> dict[str, int]:
    return {
        "cpu": dice.choice((100, 250, 500, 1000, 1500)),
        "memory": dice.choice((100, 256, 512, 1024, 2048, 4096)) * MIB,
    }


WORKLOADS: Final[dict[str, Callable[[int, Random], list[Pod]]]] = {
    "the mix": diverse,
    "the mix, all distinct": distinct,
    "1,000 apps with their own selectors": apps,
    "preferences": preferring,
    "every pod its own 25 types": picky,
}
TARGETS: Final = {
    ("the mix", 20_000): 30_000,
    ("the mix", 100_000): 25_000,
    ("the mix, all distinct", 100_000): 15_000,
    ("1,000 apps with their own selectors", 20_000): 5_000,
    ("preferences", 4_000): 10_000,
    ("every pod its own 25 types", 5_000): 100,
}


def work(workload: str, pods: int, types: int) -> Callable[[], object]:
    compiled = index(types)
    snapshot = Snapshot(pods=tuple(WORKLOADS[workload](pods, Random(7))), pools=pools())
    catalogs = {pool.name: compiled for pool in pools()}
    return lambda: plan(snapshot, catalogs)


def run() -> None:
    print("pods that mind each other, one core: pods a second")
    for types in TYPES:
        _growing("the mix", SIZES, types)
    for workload, pods in list(TARGETS)[2:]:
        _growing(workload, (pods // 10, pods), TYPES[-1])
    sizes = str(SIZES[-1]), str(TYPES[-1])
    needed = in_a_process("benchmarks.tied", "the mix", *sizes, "memory")
    row(f"the mix, {SIZES[-1]:,} pods: peak memory", f"{needed:.0f} MB", "target < 300 MB")
    few, many = removals(2_500), removals()
    row("  a removal of the last against one of the first", f"x {many / few:.2f}")


def _growing(workload: str, sizes: Sequence[int], types: int) -> None:
    """Reports each size, and what becomes of a pod's time from the smallest to the largest."""
    each = [_report(workload, pods, types) / pods for pods in sizes]
    name = f"  a pod of {sizes[-1]:,} against one of {sizes[0]:,}"
    row(name, f"x {each[-1] / each[0]:.2f}")


def _report(workload: str, pods: int, types: int) -> float:
    seconds = in_a_process("benchmarks.tied", workload, str(pods), str(types), "seconds")
    target = TARGETS.get((workload, pods))
    wanted = f"target >= {target:,}/s" if target else ""
    row(f"{workload}, {pods:,} pods, {types:,} types", f"{pods / seconds:,.0f}/s", wanted)
    return seconds


def removals(count: int = 25_000) -> float:
    """Each node taken away in turn: would its pods find a place elsewhere? Seconds for one."""
    snapshot = cluster(count)
    start = process_time()
    view = View(snapshot, {pool.name: index(TYPES[0]) for pool in pools()})
    row(f"a view of {len(snapshot.nodes):,} nodes, compiled", f"{process_time() - start:.2f} s")
    gc.collect()
    gc.disable()
    start = process_time()
    found = [view.without([node.name]) for node in snapshot.nodes]
    rate = len(found) / (process_time() - start)
    gc.enable()
    wanted = "target >= 2,000/s" if len(found) >= 5_000 else ""
    row("  removals tried on it", f"{rate:,.0f}/s", wanted)
    return 1 / rate


def cluster(count: int) -> Snapshot:
    """What the mix comes to, a tenth of its pods gone since."""
    dice, compiled = Random(7), index(TYPES[0])
    pods = {pod.key: pod for pod in diverse(count, dice)}
    catalogs = {pool.name: compiled for pool in pools()}
    made = plan(Snapshot(pods=tuple(pods.values()), pools=pools()), catalogs)
    types = {kind.name: kind for kind in compiled.types}
    nodes = []
    for claim in made.claims:
        kept = tuple(pods[name] for name in claim.pods if dice.random() > 0.1)
        kind = types[claim.launch.instance_type]
        labels = _labels(claim, kind.requirements)
        nodes.append(Node(name=claim.name, labels=labels, allocatable=kind.allocatable, pods=kept))
    return Snapshot(pools=pools(), nodes=tuple(nodes))


def _labels(claim: PlannedClaim, described: Requirements) -> dict[str, str]:
    known = {key: value for key in described if (value := described.only(key)) is not None}
    return known | {
        HOSTNAME: claim.name,
        NODEPOOL: claim.pool,
        ZONE: claim.launch.zone or "",
        CAPACITY_TYPE: claim.launch.capacity_type,
    }


def _measure(workload: str, pods: int, types: int, what: str) -> None:
    """What another process wants to know: the seconds for a plan, or the memory."""
    job = work(workload, pods, types)
    if what == "seconds":
        print(measured(job, 3 if pods > 10_000 else 5))
    else:
        job()
        print(peak())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        run()
