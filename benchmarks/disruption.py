"""Disruption: the time of a pass over a large cluster, and single-node simulations a second."""

import gc
import subprocess
import sys
from random import Random
from time import process_time
from typing import Any, Final

from msgspec.structs import replace

from benchmarks.measure import peak_memory_megabytes, print_row
from benchmarks.planner import MIB, type_index
from wainwright.core.disruption.cluster_changes import ClusterChanges
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.lookahead import find_sequence
from wainwright.core.plan import plan
from wainwright.core.removal_simulation import ClusterSimulator
from wainwright.model.disruption import DisruptionBudget, MinimumSaving, NodePoolDisruption
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_GENERATION,
    ON_DEMAND,
    ZONE,
)
from wainwright.model.pod import Pod, PodConstraints, TopologySpread, pod_selector
from wainwright.model.requirements import Requirements, parse_requirement
from wainwright.model.snapshot import Pool, Snapshot

SIZES: Final = (500, 2_000, 5_000)
LOOK_AHEAD_SIZES: Final = (20, 100, 500, 2_000)
PODS_PER_NODE: Final = 13
APPS: Final = 300
CHANGES: Final = 10
TYPES: Final = 400
NOW: Final = 1_800_000_000.0


def pool() -> Pool:
    return Pool(
        name="default",
        node_class="default",
        requirements=Requirements(
            [
                parse_requirement(INSTANCE_CATEGORY, "In", ("c", "m", "r")),
                parse_requirement(INSTANCE_GENERATION, "Gt", ("4",)),
                parse_requirement(CAPACITY_TYPE, "In", (ON_DEMAND,)),
                parse_requirement(INSTANCE_CPU, "In", ("4", "8")),
            ]
        ),
        disruption=NodePoolDisruption(budgets=(DisruptionBudget(nodes="10%"),)),
    )


def app_templates(rng: Random) -> list[Pod]:
    """A fifth are spread over zones, a tenth of these over nodes as well."""
    return [_app_template(number, rng) for number in range(APPS)]


def _app_template(number: int, rng: Random) -> Pod:
    labels = {"app": f"app-{number}"}
    spread = tuple(
        TopologySpread(key=key, max_skew=1, selector=pod_selector(labels))
        for key, share in ((ZONE, 5), (HOSTNAME, 50))
        if number % share == 0
    )
    requests = {
        "cpu": rng.choice((150, 300, 400, 750, 1000)),
        "memory": rng.choice((256, 512, 1024, 2048)) * MIB,
    }
    constraints = PodConstraints(spreads=spread) if spread else None
    template = Pod(namespace="shop", name="", requests=requests, labels=labels)
    return template if constraints is None else replace(template, constraints=constraints)


def cluster(count: int) -> Snapshot:
    """What a plan of the apps launches, a tenth of the pods gone since."""
    rng, index = Random(11), type_index(TYPES)
    templates = app_templates(rng)
    pods = {}
    for number in range(int(count * PODS_PER_NODE * 1.15)):
        chosen = templates[number % APPS]
        name = f"{chosen.labels['app']}-{number // APPS}"
        pods[f"shop/{name}"] = replace(chosen, name=name, uid=name)
    made = plan(Snapshot(pods=tuple(pods.values()), pools=(pool(),)), {"default": index})
    kept = tuple(pod for pod in pods.values() if rng.random() > 0.1)
    changes = ClusterChanges((pool(),), {"default": index})
    pending = Snapshot(pools=(pool(),), pods=kept, now=NOW)
    launched = changes.after_plan(pending, replace(made, claims=made.claims[:count]))
    nodes = tuple(replace(node, initialized=True) for node in launched.nodes)
    return replace(launched, nodes=nodes)


def with_changed_pods(snapshot: Snapshot, rng: Random) -> Snapshot:
    """Ten pods have gone since."""
    nodes = list(snapshot.nodes)
    for number in rng.sample(range(len(nodes)), k=CHANGES):
        nodes[number] = replace(nodes[number], pods=nodes[number].pods[1:])
    return replace(snapshot, nodes=tuple(nodes))


def measure(count: int) -> None:
    """Nothing saves enough, so that every node is looked at, and many sets of them."""
    snapshot, options = cluster(count), DisruptionOptions(minimum_saving=MinimumSaving(fraction=2))
    pods = sum(len(node.pods) for node in snapshot.nodes)
    print(f"  {len(snapshot.nodes):,} nodes, {pods:,} pods")
    catalogs = {"default": type_index(TYPES)}
    gc.collect()
    gc.disable()

    def timed(name: str, now: Snapshot, previous: DisruptionPass | None, target: str) -> Any:
        start = process_time()
        given = DisruptionInput(snapshot=now, catalogs=catalogs)
        current = DisruptionPass(given, options, previous)
        assert current.find_command() is None
        print_row(f"  {name}", f"{process_time() - start:.3f} s", target)
        return current

    first = timed("the first pass", snapshot, None, "target < 10 s")
    later = timed("unchanged", snapshot, first, "target < 0.05 s")
    timed("after ten changed pods", with_changed_pods(snapshot, Random(1)), later, "target < 0.5 s")
    _measure_simulations(snapshot, catalogs)
    print_row("  peak memory", f"{peak_memory_megabytes():.0f} MB")


def _measure_simulations(snapshot: Snapshot, catalogs: dict[str, InstanceTypeIndex]) -> None:
    simulator = ClusterSimulator(snapshot, catalogs)
    start = process_time()
    for node in snapshot.nodes:
        simulator.solve_without([node.name])
    rate = len(snapshot.nodes) / (process_time() - start)
    print_row("  single-node simulations", f"{rate:,.0f}/s", "target >= 2,000/s")


def measure_look_ahead(count: int) -> None:
    """Four of ten pods are gone, so that there is much to do."""
    snapshot, rng = cluster(count), Random(3)
    nodes = [
        replace(node, pods=tuple(pod for pod in node.pods if rng.random() > 0.4))
        for node in snapshot.nodes
    ]
    given = DisruptionInput(
        snapshot=replace(snapshot, nodes=tuple(nodes)), catalogs={"default": type_index(TYPES)}
    )
    start = process_time()
    first = DisruptionPass(given)
    first.find_command()
    once = process_time() - start
    found = find_sequence(first)
    compared = "all compared" if found.compared else "not all compared"
    commands = f"{len(found.commands)} commands, {compared}"
    print_row(f"  {count} nodes, one look", f"{once:.2f} s")
    print_row(f"  {count} nodes, looking ahead", f"{process_time() - start - once:.2f} s", commands)


def run() -> None:
    """Each size in a process of its own, so that memory is its own too."""
    print("disruption: a pass that finds nothing, seconds of processor time")
    for count in SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.disruption", str(count)], check=True)
    print("disruption: where there is much to do, seconds of processor time")
    for count in LOOK_AHEAD_SIZES:
        measure_look_ahead(count)


if __name__ == "__main__":
    measure(int(sys.argv[1]))
