"""Packing by cost: percent above the lower bound of first-fit and of `--packing cost`."""

import gc
from collections.abc import Callable, Iterator
from random import Random
from time import process_time
from typing import Final

from benchmarks.planner import GIB, MIB, deployment_pods, plain_pods, pools, type_index
from benchmarks.workload_mix import mixed_pods
from wainwright.core.plan import plan
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_GENERATION,
    ON_DEMAND,
    SPOT,
)
from wainwright.model.plan import PackingPolicy, PackingResult, Plan, PlanOptions
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import Requirements, parse_requirement
from wainwright.model.snapshot import Pool, Snapshot

COST: Final = PlanOptions(packing=PackingPolicy.COST)
SEEDS: Final = (1, 2, 3)
TARGET_PERCENT: Final = 5.0  # percent above the bound that plain batches of 300 pods or more may be
TARGET_SECONDS: Final = 2.0
DAEMONSETS: Final = (
    DaemonSet(namespace="kube-system", name="agent", requests={"cpu": 150, "memory": 192 * MIB}),
)


def web_pods(count: int, rng: Random) -> list[Pod]:
    """No two of one size, most of them small."""
    return [
        _pod(number, 50 + rng.random() ** 2 * 2000, (64 + rng.random() ** 2 * 6000) * MIB)
        for number in range(count)
    ]


def bimodal_pods(count: int, rng: Random) -> list[Pod]:
    """Half of them need cpu, half of them memory."""
    return [_cpu_or_memory_pod(number, rng) for number in range(count)]


def _cpu_or_memory_pod(number: int, rng: Random) -> Pod:
    if rng.random() < 0.5:
        return _pod(number, rng.choice((1, 2, 3, 4)) * 1000, rng.choice((1, 2, 4)) * GIB // 4)
    return _pod(number, rng.choice((100, 200, 250, 500)), rng.choice((2, 4, 6, 8)) * GIB)


def large_pods(count: int, rng: Random) -> list[Pod]:
    """A handful on a large node."""
    cpus, sizes = (2, 3, 4, 6, 8, 12, 16), (4, 8, 12, 16, 24, 32, 48, 64)
    return [
        _pod(number, rng.choice(cpus) * 1000, rng.choice(sizes) * GIB) for number in range(count)
    ]


def sixty_deployments(count: int, rng: Random) -> list[Pod]:
    """Sixty deployments that ask for nothing but room."""
    sizes = [
        (
            rng.choice((100, 200, 250, 500, 750, 1000, 2000)),
            rng.choice((128, 256, 512, 1024, 3072)),
        )
        for _ in range(60)
    ]
    return [
        _pod(number, sizes[number % 60][0], sizes[number % 60][1] * MIB) for number in range(count)
    ]


def _pod(number: int, cpu: float, memory: float) -> Pod:
    requests = {"cpu": int(cpu), "memory": int(memory)}
    return Pod(namespace="default", name=f"pod-{number}", requests=requests)


Workload = Callable[[int, Random], list[Pod]]

PLAIN: Final[dict[str, tuple[Workload, int]]] = {
    "bench": (plain_pods, 1000),
    "web": (web_pods, 1000),
    "bimodal": (bimodal_pods, 1500),
    "big": (large_pods, 300),
    "sixty deployments": (sixty_deployments, 3000),
}
CONSTRAINED: Final[dict[str, tuple[Workload, int]]] = {
    "few": (plain_pods, 40),
    "with selectors": (deployment_pods, 2000),
    "that mind each other": (mixed_pods, 2000),
}


def pool(largest: int | None, *capacity_types: str) -> Pool:
    """Compute, general and memory types, up to so many cpus."""
    asked = [
        parse_requirement(INSTANCE_CATEGORY, "In", ("c", "m", "r")),
        parse_requirement(INSTANCE_GENERATION, "Gt", ("2",)),
        parse_requirement(CAPACITY_TYPE, "In", capacity_types),
    ]
    if largest is not None:
        asked.append(parse_requirement(INSTANCE_CPU, "Lt", (str(largest + 1),)))
    return Pool(name="general", requirements=Requirements(asked))


def run() -> None:
    print("packing by cost: percent above the lower bound (worst of three), and seconds")
    print(f"  {'pods':<34} {'first-fit':>9} {'by cost':>9} {'seconds':>9} {'nodes':>12}")
    for largest in (None, 32):
        for kinds in ((ON_DEMAND,), (ON_DEMAND, SPOT)):
            sizes = "all sizes" if largest is None else f"up to {largest} vCPU"
            target = f"target <= {TARGET_PERCENT:.0f} %, <= {TARGET_SECONDS:.0f} s"
            print(f"  {sizes}, {' or '.join(kinds)}; {target}")
            for name, (workload, count) in PLAIN.items():
                _report(f"{count:,} {name}", _planned(workload, count, pool(largest, *kinds)))
    print("  the pools of the other benchmarks, for which there is no target")
    for name, (workload, count) in CONSTRAINED.items():
        _report(f"{count:,} {name}", _planned(workload, count, *pools()))


def _planned(workload: Workload, count: int, *bought: Pool) -> Iterator[tuple[Plan, Plan, float]]:
    """By first-fit and by cost, and how long that took, for pods drawn with different seeds."""
    catalogs = {each.name: type_index(1_375) for each in bought}
    for seed in SEEDS:
        pods = tuple(workload(count, Random(seed)))
        snapshot = Snapshot(pods=pods, pools=bought, daemonsets=DAEMONSETS)
        first_fit = plan(snapshot, catalogs)
        gc.collect()
        gc.disable()
        start = process_time()
        packed = plan(snapshot, catalogs, COST)
        taken = process_time() - start
        gc.enable()
        yield first_fit, packed, taken


def _report(name: str, plans: Iterator[tuple[Plan, Plan, float]]) -> None:
    made = list(plans)
    results = [_packing(packed) for _, packed, _ in made]
    before = max(each.first_fit / each.lower_bound - 1 for each in results) * 100
    after = max(each.above_bound or 0.0 for each in results) * 100
    seconds = max(taken for _, _, taken in made)
    nodes = f"{len(made[0][0].claims)} -> {len(made[0][1].claims)}"
    print(f"  {name:<34} {before:>8.1f}% {after:>8.1f}% {seconds:>9.2f} {nodes:>12}")


def _packing(made: Plan) -> PackingResult:
    assert made.packing is not None
    return made.packing


if __name__ == "__main__":
    run()
