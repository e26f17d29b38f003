"""Simulated days: the whole control loop on virtual time, and what share of it the planner takes.

make bench ARGS=simulate
make bench ARGS=simulate TRACE=pods.csv    # a workload trace in the columns of a scenario
"""

import gc
import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import msgspec

from benchmarks.measure import peak_memory_megabytes, print_row
from wainwright.controllers.disruption import disruption_controller
from wainwright.controllers.provisioning import provisioner
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.sim.scenario_reader import read_scenario
from wainwright.sim.simulation import Simulation, SimulationOptions

DAY: Final = 24 * 60  # minutes
WORKLOADS: Final = 20
SIZES: Final = (("500m", "1Gi"), ("500m", "2Gi"), ("1", "2Gi"), ("1", "4Gi"))
"""Of pods: 10,000 of them are on about 1,000 nodes."""

POOL: Final[dict[str, Any]] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [
                    {
                        "key": "karpenter.k8s.aws/instance-family",
                        "operator": "In",
                        "values": ["m5", "c5", "r5"],
                    },
                    {
                        "key": "karpenter.k8s.aws/instance-size",
                        "operator": "In",
                        "values": ["xlarge", "2xlarge"],
                    },
                ],
            }
        },
        "disruption": {"consolidateAfter": "5m", "budgets": [{"nodes": "100%"}]},
    },
}
CLASS: Final[dict[str, Any]] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "KarpenterNodeRole-bench",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "bench"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "bench"}}],
    },
}


def deployment(number: int, replicas: int) -> dict[str, Any]:
    name, (cpu, memory) = f"app-{number}", SIZES[number % len(SIZES)]
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }


def scale_events(pods: int, changes: int, rng: Random, day: int = 0) -> list[dict[str, Any]]:
    """Deployments grow and shrink around their size until so many pods have come or gone."""
    usual = pods // WORKLOADS
    sizes, events, done = [usual] * WORKLOADS, [], 0
    while done < changes:
        number = rng.randrange(WORKLOADS)
        wanted = round(usual * rng.uniform(0.7, 1.3))
        done += abs(wanted - sizes[number])
        sizes[number] = wanted
        events.append({"name": f"app-{number}", "replicas": wanted})
    step, begin = (DAY - 30) * 60 // len(events), 600 + day * DAY * 60
    return [{"at": f"{begin + step * place}s", "scale": each} for place, each in enumerate(events)]


def scenario_documents(pods: int, changes: int, policy: str, days: int = 1) -> list[dict[str, Any]]:
    """Every day the same changes."""
    each_day = (scale_events(pods, changes, Random(1), day) for day in range(days))
    events = [event for events in each_day for event in events]
    spec = {"duration": f"{24 * days}h", "seed": 1, "events": events}
    pool = msgspec.json.decode(msgspec.json.encode(POOL))
    pool["spec"]["disruption"]["consolidationPolicy"] = policy
    scenario = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "bench"},
        "spec": spec,
    }
    deployments = [deployment(number, pods // WORKLOADS) for number in range(WORKLOADS)]
    return [scenario, pool, CLASS, *deployments]


def trace_documents(trace: str) -> list[dict[str, Any]]:
    scenario = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "trace"},
        "spec": {"duration": "3650h", "seed": 1, "traces": [{"csv": trace}]},
    }
    pool = msgspec.json.decode(msgspec.json.encode(POOL))
    pool["spec"]["template"]["spec"]["requirements"] = []
    pool["spec"]["disruption"]["consolidationPolicy"] = "WhenEmpty"
    return [scenario, pool, CLASS]


class Stopwatch:
    """CPU seconds spent in some functions of a module, each second once: one of them may call
    another.
    """

    def __init__(self, clock: Callable[[], float] = process_time) -> None:
        self.seconds = 0.0
        self._clock, self._running = clock, False

    @contextmanager
    def _measured(self) -> Iterator[None]:
        if self._running:
            yield
            return
        self._running, start = True, self._clock()
        try:
            yield
        finally:
            self.seconds += self._clock() - start
            self._running = False

    def wrap(self, owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def timed(*args: Any, **more: Any) -> Any:
            with self._measured():
                return inner(*args, **more)

        setattr(owner, name, timed)

    def wrap_iterator(self, owner: Any, name: str) -> None:
        """Of a function that returns an iterator: the work is done by each `next`."""
        inner = getattr(owner, name)

        def timed(*args: Any, **more: Any) -> Iterator[Any]:
            slices = inner(*args, **more)
            while True:
                try:
                    with self._measured():
                        made = next(slices)
                except StopIteration:
                    return
                yield made

        setattr(owner, name, timed)


def write_scenario(documents: list[dict[str, Any]], folder: Path) -> str:
    path = folder / "scenario.json"
    path.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": documents}))
    return str(path)


def time_disruption(passes: Stopwatch) -> None:
    for name in ("__init__", "find_command", "confirm"):
        passes.wrap(DisruptionPass, name)
    passes.wrap_iterator(DisruptionPass, "prepare")
    passes.wrap(disruption_controller, "node_outcomes")


def simulate(documents: list[dict[str, Any]], folder: Path) -> None:
    path = write_scenario(documents, folder)
    planner, passes = Stopwatch(), Stopwatch()
    planner.wrap(provisioner, "solve_plan")
    time_disruption(passes)
    gc.collect()
    start = process_time()
    simulation = Simulation(read_scenario(path), options=SimulationOptions(keep_timeline=False))
    result = simulation.run()
    seconds = process_time() - start
    nodes, totals = max(result.series.nodes), result.totals
    broken = [law.law for law in result.laws if not law.held]
    print_row("CPU seconds", f"{seconds:.1f} s")
    print_row("at most nodes", f"{nodes:,}")
    print_row("launches, terminations", f"{totals.launches:,}, {totals.terminations:,}")
    print_row("pods bound", f"{len(simulation.recorder.pods.waits) / seconds:,.0f}/s")
    print_row("pod hours", f"{totals.podHours:,.0f}")
    print_row("share of the planner", f"{planner.seconds / seconds:.0%}")
    print_row("share of disruption", f"{passes.seconds / seconds:.0%}")
    print_row("memory", f"{peak_memory_megabytes():.0f} MB")
    print_row("laws", f"broken: {', '.join(broken)}" if broken else "all held")
    simulation.close()


CASES: Final = {
    "small": ("a day of 300 pods with 3,000 changes", "target < 10 s", 300, 3_000, "WhenEmpty"),
    "large": (
        "a day of 10,000 pods with 20,000 changes, WhenEmpty",
        "target < 120 s",
        10_000,
        20_000,
        "WhenEmpty",
    ),
    "consolidated": (
        "the same, WhenEmptyOrUnderutilized",
        "target < 600 s",
        10_000,
        20_000,
        "WhenEmptyOrUnderutilized",
    ),
}


MEMORY_DAYS: Final = (1, 4)


def memory_of_days(folder: Path) -> None:
    """What is kept after each number of days of one run. It has the last changes of each kind, for
    watches, 20,000 at most, which takes days to fill; `tests/unit/sim/test_memory.py` counts the
    rest, which does not grow.
    """
    pods, changes, policy = CASES["small"][2:]
    documents = scenario_documents(pods, changes, policy, max(MEMORY_DAYS))
    path = write_scenario(documents, folder)
    options = SimulationOptions(keep_timeline=False)
    tracemalloc.start()
    simulation = Simulation(read_scenario(path), options=options)
    simulation.begin()
    for days in MEMORY_DAYS:
        simulation.advance(days * DAY * 60 - 60)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        print_row(f"after {days} days", f"{kept / 1e6:.1f} MB")
    simulation.stop()
    simulation.close()


def run() -> None:
    """Each case in a process of its own: memory is that of the case."""
    trace = os.environ.get("TRACE")
    for name in [*CASES, "days", *(["trace"] if trace else [])]:
        run_in_process_printing(name)


def run_in_process_printing(name: str) -> None:
    import subprocess

    subprocess.run([sys.executable, "-m", "benchmarks.simulate", name], check=True)


def main(name: str) -> None:
    with TemporaryDirectory() as folder:
        if name == "trace":
            trace = str(Path(os.environ["TRACE"]).resolve())
            print(f"the trace {Path(trace).name} (target < 600 s, aim 120 s)")
            simulate(trace_documents(trace), Path(folder))
            return
        if name == "days":
            print("memory of days of 300 pods with 3,000 changes each (what watches keep may grow)")
            memory_of_days(Path(folder))
            return
        title, target, pods, changes, policy = CASES[name]
        print(f"{title} ({target})")
        simulate(scenario_documents(pods, changes, policy), Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
