"""Days of the same workload keep no more in memory than the first: what went is forgotten."""

import gc
import json
from pathlib import Path
from typing import Any

import msgspec
from tests.support.kept_objects import kept_objects
from tests.support.scripted_simulation import NODE_CLASS, POOL, cloud

from wainwright.api.kubernetes.workloads import Pod, PodSpec
from wainwright.api.wire import ObjectMeta
from wainwright.sim.pod_counts import PodCounts
from wainwright.sim.scenario_reader import read_scenario
from wainwright.sim.simulation import Simulation, SimulationOptions

DAY = 86_400.0
DAYS = 5
SIZES = ((2, 12), (6, 30), (10, 8), (14, 24), (20, 4))
"""At which hour of a day how many replicas."""
LAUNCHED_A_DAY = 10


def documents() -> list[dict[str, Any]]:
    events = [
        {"at": f"{day * 24 + hour}h", "scale": {"name": "web", "replicas": replicas}}
        for day in range(DAYS)
        for hour, replicas in SIZES
    ]
    labels, requests = {"app": "web"}, {"cpu": "900m", "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": requests}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    scenario = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "days"},
        "spec": {"duration": f"{DAYS * 24}h", "seed": 1, "events": events},
    }
    return [scenario, dict(POOL), dict(NODE_CLASS), dict(cloud()), deployment]


def test_four_days_keep_no_more_than_two(tmp_path: Path) -> None:
    """A single entry that stays for each node or pod would be some forty more by then."""
    path = tmp_path / "days.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": documents()}))
    simulation = Simulation(
        read_scenario(str(path)), options=SimulationOptions(keep_timeline=False)
    )
    kept = {}
    try:
        simulation.begin()
        for day in (2, 4):
            simulation.advance(day * DAY - 60)
            assert simulation.recorder.longest_wait >= 0  # reading it drops waits that have ended
            gc.collect()
            kept[day] = kept_objects(simulation), simulation.recorder.launches
    finally:
        simulation.stop()
        simulation.close()
    (before, launches), (after, launches_after) = kept[2], kept[4]
    assert launches_after - launches >= 2 * LAUNCHED_A_DAY
    more = {name: count - before[name] for name, count in after.items() if count > before[name]}
    assert {name: count for name, count in more.items() if count >= ALLOWED.get(name, 10)} == {}


ALLOWED = {"float": 60, "int": 60}
"""Numbers of the moment: what time it is, and versions of objects."""


def test_waits_that_ended_are_forgotten_although_the_longest_is_never_read() -> None:
    counts = PodCounts()
    for number in range(2000):
        pod = Pod(metadata=ObjectMeta(name=f"web-{number}", namespace="default"))
        bound = msgspec.structs.replace(pod, spec=PodSpec(nodeName="n1"))
        counts.change(pod, float(number), number)
        counts.change(bound, float(number), number + 5)
        counts.remove(bound, number + 10)
        if number % 7 == 0:
            waiting = msgspec.structs.replace(pod, metadata=ObjectMeta(name="waits"))
            counts.change(waiting, 1.0, number)
    assert kept_objects(counts)["PodKey"] < 200
    assert counts.longest_wait(3000) == 2999
