"""Constrained pods: a mix of all, a thousand apps, preferences, node selectors, removals."""

import gc
import sys
from collections.abc import Callable, Sequence
from random import Random
from time import process_time
from typing import Final

from benchmarks.measure import print_row, run_in_process
from benchmarks.planner import (
    GIB,
    MIB,
    SIZES,
    TYPES,
    peak_megabytes,
    pools,
    processor_seconds,
    type_index,
)
from benchmarks.workload_mix import mixed_pods
from wainwright.core.plan import plan
from wainwright.core.removal_simulation import ClusterSimulator
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_CATEGORY,
    INSTANCE_TYPE,
    NODEPOOL,
    ZONE,
)
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.pod import (
    AffinityTerm,
    Pod,
    PodConstraints,
    TopologySpread,
    WeightedAffinityTerm,
    pod_selector,
)
from wainwright.model.requirements import Requirements, parse_requirement
from wainwright.model.snapshot import Node, Snapshot

APPS: Final = 1_000
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")


def distinct_mixed_pods(count: int, rng: Random) -> list[Pod]:
    """The mix, and no two pods of one size."""
    return mixed_pods(
        count,
        rng,
        lambda number: {
            "cpu": rng.randrange(50, 1500),
            "memory": rng.randrange(64 * MIB, 4 * GIB) // 4096 * 4096 + number,
        },
    )


def apps(count: int, rng: Random) -> list[Pod]:
    """A thousand apps, each spread over zones by its label; every pod has selectors of its own."""
    constraints = [_spread_app(f"app-{number}") for number in range(APPS)]
    return [
        Pod(
            namespace="default",
            name=f"pod-{number}",
            labels={"app": f"app-{number % APPS}"},
            requests=_size(rng),
            alternatives=(_selectors(rng),),
            constraints=constraints[number % APPS],
        )
        for number in range(count)
    ]


def _spread_app(name: str) -> PodConstraints:
    return PodConstraints(spreads=(TopologySpread(key=ZONE, selector=pod_selector({"app": name})),))


def _selectors(rng: Random) -> Requirements:
    choices = {
        "kubernetes.io/arch": ("amd64", "arm64"),
        CAPACITY_TYPE: ("spot", "on-demand"),
        ZONE: ZONES,
        INSTANCE_CATEGORY: ("c", "m", "r"),
        "karpenter.k8s.aws/instance-generation": ("5", "6", "7"),
    }
    chosen = rng.sample(sorted(choices), rng.randrange(0, 4))
    return Requirements(parse_requirement(key, "In", (rng.choice(choices[key]),)) for key in chosen)


def preferring_alone(count: int, rng: Random) -> list[Pod]:
    """Pods that would rather be alone, and near to nobody's zone: what they get is a node each."""
    alone = AffinityTerm(
        key=HOSTNAME, selector=pod_selector({"app": "shy"}), namespaces=frozenset({"default"})
    )
    elsewhere = AffinityTerm(
        key=ZONE, selector=pod_selector({"app": "nobody"}), namespaces=frozenset({"default"})
    )
    constraints = PodConstraints(
        preferred_affinity=(WeightedAffinityTerm(weight=50, term=elsewhere),),
        preferred_anti_affinity=(WeightedAffinityTerm(weight=10, term=alone),),
    )
    return [
        Pod(
            namespace="default",
            name=f"pod-{number}",
            labels={"app": "shy"},
            requests=_size(rng),
            constraints=constraints,
        )
        for number in range(count)
    ]


def own_types(count: int, rng: Random) -> list[Pod]:
    """Every pod names its own 25 instance types: nothing can be shared."""
    names = sorted(kind.name for kind in type_index(TYPES[-1]).types)
    return [
        Pod(
            namespace="default",
            name=f"pod-{number}",
            requests=_size(rng),
            alternatives=(
                Requirements(
                    [parse_requirement(INSTANCE_TYPE, "In", tuple(rng.sample(names, 25)))]
                ),
            ),
        )
        for number in range(count)
    ]


def _size(rng: Random) -> dict[str, int]:
    return {
        "cpu": rng.choice((100, 250, 500, 1000, 1500)),
        "memory": rng.choice((100, 256, 512, 1024, 2048, 4096)) * MIB,
    }


WORKLOADS: Final[dict[str, Callable[[int, Random], list[Pod]]]] = {
    "the mix": mixed_pods,
    "the mix, all distinct": distinct_mixed_pods,
    "1,000 apps with their own selectors": apps,
    "preferences": preferring_alone,
    "every pod its own 25 types": own_types,
}
TARGETS: Final = {
    ("the mix", 20_000): 30_000,
    ("the mix", 100_000): 25_000,
    ("the mix, all distinct", 100_000): 15_000,
    ("1,000 apps with their own selectors", 20_000): 5_000,
    ("preferences", 4_000): 10_000,
    ("every pod its own 25 types", 5_000): 100,
}


def planning_job(workload: str, pods: int, types: int) -> Callable[[], object]:
    compiled = type_index(types)
    snapshot = Snapshot(pods=tuple(WORKLOADS[workload](pods, Random(7))), pools=pools())
    catalogs = {pool.name: compiled for pool in pools()}
    return lambda: plan(snapshot, catalogs)


def run() -> None:
    print("pods that mind each other, one core: pods a second")
    for types in TYPES:
        _report_growth("the mix", SIZES, types)
    for workload, pods in list(TARGETS)[2:]:
        _report_growth(workload, (pods // 10, pods), TYPES[-1])
    sizes = str(SIZES[-1]), str(TYPES[-1])
    needed = run_in_process("benchmarks.constrained_pods", "the mix", *sizes, "memory")
    print_row(f"the mix, {SIZES[-1]:,} pods: peak memory", f"{needed:.0f} MB", "target < 300 MB")
    few, many = measure_removals(2_500), measure_removals()
    print_row("  a removal of the last against one of the first", f"x {many / few:.2f}")


def _report_growth(workload: str, sizes: Sequence[int], types: int) -> None:
    """Reports each size, and what becomes of a pod's time from the smallest to the largest."""
    each = [_report(workload, pods, types) / pods for pods in sizes]
    name = f"  a pod of {sizes[-1]:,} against one of {sizes[0]:,}"
    print_row(name, f"x {each[-1] / each[0]:.2f}")


def _report(workload: str, pods: int, types: int) -> float:
    seconds = run_in_process(
        "benchmarks.constrained_pods", workload, str(pods), str(types), "seconds"
    )
    target = TARGETS.get((workload, pods))
    wanted = f"target >= {target:,}/s" if target else ""
    print_row(f"{workload}, {pods:,} pods, {types:,} types", f"{pods / seconds:,.0f}/s", wanted)
    return seconds


def measure_removals(count: int = 25_000) -> float:
    """Each node taken away in turn: would its pods find a place elsewhere? Seconds for one."""
    snapshot = cluster(count)
    start = process_time()
    view = ClusterSimulator(snapshot, {pool.name: type_index(TYPES[0]) for pool in pools()})
    print_row(
        f"a view of {len(snapshot.nodes):,} nodes, compiled", f"{process_time() - start:.2f} s"
    )
    gc.collect()
    gc.disable()
    start = process_time()
    found = [view.remove_nodes([node.name]) for node in snapshot.nodes]
    rate = len(found) / (process_time() - start)
    gc.enable()
    wanted = "target >= 2,000/s" if len(found) >= 5_000 else ""
    print_row("  removals tried on it", f"{rate:,.0f}/s", wanted)
    return 1 / rate


def cluster(count: int) -> Snapshot:
    """What the mix comes to, a tenth of its pods gone since."""
    rng, compiled = Random(7), type_index(TYPES[0])
    pods = {pod.key: pod for pod in mixed_pods(count, rng)}
    catalogs = {pool.name: compiled for pool in pools()}
    made = plan(Snapshot(pods=tuple(pods.values()), pools=pools()), catalogs)
    types = {kind.name: kind for kind in compiled.types}
    nodes = []
    for claim in made.claims:
        kept = tuple(pods[name] for name in claim.pods if rng.random() > 0.1)
        kind = types[claim.launch.instance_type]
        labels = _labels(claim, kind.requirements)
        nodes.append(Node(name=claim.name, labels=labels, allocatable=kind.allocatable, pods=kept))
    return Snapshot(pools=pools(), nodes=tuple(nodes))


def _labels(claim: PlannedNodeClaim, described: Requirements) -> dict[str, str]:
    known = {key: value for key in described if (value := described.single_value(key)) is not None}
    return known | {
        HOSTNAME: claim.name,
        NODEPOOL: claim.pool,
        ZONE: claim.launch.zone or "",
        CAPACITY_TYPE: claim.launch.capacity_type,
    }


def _measure(workload: str, pods: int, types: int, what: str) -> None:
    """What another process wants to know: the seconds for a plan, or the memory."""
    job = planning_job(workload, pods, types)
    if what == "seconds":
        print(processor_seconds(job, 3 if pods > 10_000 else 5))
    else:
        job()
        print(peak_megabytes())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        run()
