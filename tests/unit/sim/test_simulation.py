"""A simulation as a whole: its end, its determinism, and the cluster that it leaves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.scripted_simulation import (
    POOL,
    A,
    ScriptedController,
    cloud,
    managed_node,
    play,
    pod,
    reservation,
    scenario,
)

from wainwright.api.catalog_documents import Cloud
from wainwright.api.kubernetes.workloads import Pod
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.model.simulation import SimulationResult
from wainwright.sim.default_processes import aws_controllers
from wainwright.sim.simulated_process import RunningController, SimulatedProcess
from wainwright.sim.simulation import SimulationOptions, simulate

RESERVED = {
    "karpenter.sh/capacity-type": "reserved",
    "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "app",
                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    }
                ]
            },
        },
    },
}
STORY: dict[str, Any] = {
    "duration": "2h",
    "machines": {"boot": ["25s", "45s"]},
    "events": [
        {"at": "20m", "restart": "controller"},
        {"at": "30m", "interrupt": {"share": 0.3}},
        {"at": "10m", "for": "5m", "fail": {"operation": "*", "share": 0.2}},
        {"at": "1h", "scale": {"name": "web", "namespace": "shop", "replicas": 0}},
    ],
    "expect": [
        {"at": "25m", "pods": {"running": 3, "pending": 0}},
        {"at": "end", "nodes": {"count": 0}},
    ],
}
STORY_POOL = {
    **POOL,
    "spec": {
        **POOL["spec"],
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
    },
}


def test_a_simulation_with_everything_in_it() -> None:
    result = simulate(scenario(DEPLOYMENT, STORY_POOL, **STORY))

    assert [each.message for each in result.expectations if not each.held] == []
    assert [each for each in result.laws if not each.held] == []
    assert result.totals.launches >= 2
    assert result.totals.launches == result.totals.terminations
    assert result.end.nodes == []
    moments = [each.at for each in result.timeline]
    assert moments == sorted(moments)


EAST = cloud(region="us-east-1", zones=["us-east-1a"], instanceTypes=["m5.large"])
STATED = [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.04}]
EAST_STATED = cloud(**EAST["spec"] | {"prices": STATED})


@pytest.mark.parametrize(
    ("capacity_type", "where", "event", "is_estimate"),
    [
        ("on-demand", EAST, [], False),
        ("spot", EAST, [], True),
        ("spot", EAST_STATED, [], False),
        ("on-demand", cloud(), [], True),
        ("on-demand", EAST, [{"at": "0s", "price": {"factor": 2}}], False),
        ("spot", EAST, [{"at": "0s", "price": {"factor": 2}}], True),
    ],
)
def test_a_simulation_says_whether_instances_were_billed_at_estimates(
    capacity_type: str, where: dict[str, Any], event: list[dict[str, Any]], is_estimate: bool
) -> None:
    only = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]}
    pool = {**POOL, "spec": {"template": {"spec": {"requirements": [only]}}}}
    result = simulate(scenario(DEPLOYMENT, pool, where, duration="3m", events=event))
    assert result.totals.launches
    assert result.modelledPrices is is_estimate


def test_the_same_scenario_and_seed_give_the_same_bytes_whatever_the_hash_seed(
    tmp_path: Path,
) -> None:
    """In processes of their own: the order of sets depends on the hash seed of the process."""
    spec = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Scenario"}
    story = {**spec, "metadata": {"name": "story"}, "spec": STORY}
    manifests = [story, DEPLOYMENT, STORY_POOL, cloud()]
    file = tmp_path / "story.yaml"
    file.write_text("\n---\n".join(map(json.dumps, manifests)), encoding="utf-8")
    program = (
        "import sys, msgspec\n"
        "from wainwright.sim.scenario_reader import read_scenario\n"
        "from wainwright.sim.simulation import simulate\n"
        "result = simulate(read_scenario(sys.argv[1]))\n"
        "sys.stdout.buffer.write(msgspec.json.encode(result))\n"
    )

    def run(hash_seed: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program, str(file)]
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    assert run("1") == run("2") != b""


QUIET_STORY: dict[str, Any] = {
    "duration": "50m",
    "machines": {"boot": ["25s", "45s"]},
    "events": [
        {"at": "10m", "restart": "controller"},
        {"at": "15m", "interrupt": {"share": 0.5}},
        {"at": "21m", "price": {"instanceType": "m5.*", "factor": 2}},
        {"at": "23m", "scale": {"name": "web", "namespace": "shop", "replicas": 7}},
        {"at": "30m", "kill": {"node": "*"}},
        {"at": "40m", "scale": {"name": "web", "namespace": "shop", "replicas": 0}},
    ],
}


def test_the_result_is_that_of_plain_polling() -> None:
    """All controllers, woken by every period and asking AWS each time, and woken only where
    something has changed: the same story, with fewer calls."""
    revisions = count()

    def plain(process: SimulatedProcess) -> RunningController:
        return aws_controllers(
            msgspec.structs.replace(process, feed=None, account_revision=lambda: next(revisions))
        )

    story = scenario(DEPLOYMENT, STORY_POOL, **QUIET_STORY)
    woken, polled = simulate(story), simulate(story, controllers=plain)
    calls = [sum(each.totals.apiCalls.values()) for each in (woken, polled)]
    assert calls[1] > calls[0]
    assert woken.totals.launches >= 4
    assert without_calls(woken) == without_calls(polled)


def without_calls(result: SimulationResult) -> SimulationResult:
    """Without the calls of AWS; what happens in one moment has no order."""
    totals = msgspec.structs.replace(result.totals, apiCalls={})
    timeline = sorted(result.timeline, key=lambda each: (each.at, msgspec.json.encode(each)))
    return msgspec.structs.replace(result, totals=totals, timeline=timeline)


def looks_at_prices(changes: Iterable[str], **settings: str) -> int:
    events = [{"at": each, "price": {"instanceType": "m5.*", "factor": 2}} for each in changes]
    result = simulate(scenario(duration="13h", settings=settings, events=events))
    return result.totals.apiCalls["DescribeSpotPriceHistory"]


def test_controllers_look_at_prices_as_often_as_the_scenario_says() -> None:
    changes = ("1h", "5h", "8h", "11h")
    assert looks_at_prices(changes) == 2
    assert looks_at_prices(changes, priceRefresh="3h") == 5


def test_prices_that_have_not_changed_are_not_looked_at_again() -> None:
    assert looks_at_prices(()) == 1
    assert looks_at_prices(("7h",), priceRefresh="3h") == 2  # at 9h, as it would have anyway


def lookups_of_subnets(*events: dict[str, Any], **spec: Any) -> int:
    result = simulate(scenario(DEPLOYMENT, duration="10h", events=list(events), **spec))
    return result.totals.apiCalls["DescribeSubnets"]


def test_classes_are_looked_up_again_only_once_the_account_has_changed() -> None:
    """Every minute for a while after a launch, and never because pods come and go."""
    scaled = [
        {"at": f"{hour}h", "scale": {"namespace": "shop", "name": "web", "replicas": 1 + hour % 2}}
        for hour in range(2, 9)
    ]
    quiet = lookups_of_subnets()
    assert quiet < 10
    assert lookups_of_subnets({"at": "5h", "addresses": {"zone": "us-west-2a", "free": 9}}) > 60
    assert lookups_of_subnets(*scaled) < 10 * len(scaled)


def test_a_class_that_could_not_be_looked_up_is_looked_up_every_minute() -> None:
    fault = {"operation": "DescribeSubnets", "share": 1}
    change = {"at": "5h", "addresses": {"zone": "us-west-2a", "free": 9}}
    assert lookups_of_subnets(change) < 200
    assert lookups_of_subnets(change, {"at": "5h", "fail": fault}) > 280


def test_a_world_in_which_calls_fail_for_ever_is_quiet_at_last() -> None:
    fault = {"operation": "DescribeSubnets", "share": 1}
    result = simulate(scenario(DEPLOYMENT, until="quiet", events=[{"at": "5m", "fail": fault}]))
    assert result.finish < "2026-01-01T02:00:00Z"


def test_another_seed_is_another_story() -> None:
    given = scenario(DEPLOYMENT, STORY_POOL, **STORY)

    first, second = (simulate(given, options=SimulationOptions(seed=seed)) for seed in (1, 2))

    assert (first.seed, second.seed) == (1, 2)
    assert first.timeline != second.timeline


def test_it_ends_after_its_duration() -> None:
    result = play(scenario(start="2026-11-27T00:00:00Z", duration="90m")).result

    assert (result.start, result.finish) == ("2026-11-27T00:00:00Z", "2026-11-27T01:30:00Z")
    assert result.series.at == [0.0, 5400.0]


def test_what_is_due_at_the_end_happens() -> None:
    event = {"at": "1h", "delete": {"kind": "Pod", "namespace": "default", "name": "a"}}

    result = play(scenario(pod("a"), events=[event])).result

    assert result.end.pending == []
    assert result.series.pods.pending == [1, 0]


def test_quiet_is_ten_minutes_after_the_last_change_and_the_last_moment_that_is_named() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(300)
        await controller.launch("default-a")
        await controller.wait_until(301)

    plain = play(scenario(until="quiet"), script).result
    later = play(
        scenario(until="quiet", expect=[{"at": "30m", "nodes": {"count": 1}}]), script
    ).result

    assert plain.finish == "2026-01-01T00:15:01Z"
    assert later.finish == "2026-01-01T00:40:00Z"


def test_a_cluster_with_a_node_that_offers_too_little_is_quiet_at_last() -> None:
    """Its warning is repeated every ten minutes."""
    too_little: dict[str, Any] = {"machines": {"less": {"cpu": "1"}}}
    result = simulate(scenario(DEPLOYMENT, until="quiet", **too_little))
    failed = [e for e in result.timeline if getattr(e, "reason", "") == "FailedConsistencyCheck"]
    assert failed
    assert result.finish < "2026-01-01T02:00:00Z"


def test_controllers_that_only_look_now_and_then_are_quiet() -> None:
    """With all of ours: the first look for unused instance profiles is due after half an hour."""
    assert simulate(scenario(until="quiet")).finish == "2026-01-01T00:10:00Z"


def test_a_world_that_never_rests_ends_after_thirty_days() -> None:
    async def script(controller: ScriptedController) -> None:
        number = 0
        while True:
            number += 1
            await controller.wait_until(number * 400)
            patch = {"metadata": {"labels": {"number": str(number)}}}
            await controller.cluster.patch(Pod, "a", patch, "default")

    manifests = (managed_node("n1"), pod("a", nodeName="n1"))
    result = play(scenario(*manifests, until="quiet"), script).result

    assert result.finish == "2026-01-31T00:00:00Z"


def test_until_stops_earlier_and_leaves_later_expectations_open() -> None:
    expect = [
        {"at": "10m", "nodes": {"count": 1}},
        {"at": "50m", "nodes": {"count": 7}},
        {"total": {"launches": 7}},
    ]

    result = play(scenario(managed_node("n1"), expect=expect), until=1800.0).result

    assert result.finish == "2026-01-01T00:30:00Z"
    assert [each.held for each in result.expectations] == [True, None, None]
    assert result.is_success


def test_expectations_see_the_state_after_everything_that_was_due() -> None:
    ending = reservation(endTime="2026-01-01T00:10:00Z")
    expect = [
        {"at": "599s", "reservations": {"cr-1": {"used": 1, "total": 2}}},
        {"at": "10m", "reservations": {"cr-1": {"used": 0, "total": 0}}},
        {"at": "10m", "pricePerHour": {"gt": 0.08}},
        {"during": ["0s", "9m"], "pricePerHour": {"lt": 0.001}},
    ]

    result = play(
        scenario(
            managed_node("n1", "c5.large", A, **RESERVED),
            cloud(capacityReservations=[ending]),
            expect=expect,
        )
    ).result

    assert [each.message for each in result.expectations if not each.held] == []


def test_waiting_is_seen_by_expectations() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(90)
        await controller.bind("a", "n1")

    manifests = (managed_node("n1"), pod("a"))
    expect = [
        {"during": ["0s", "30m"], "pendingFor": {"lte": "90s"}},
        {"during": ["0s", "30m"], "pendingFor": {"lte": "80s"}},
        {"during": ["2m", "30m"], "pendingFor": 0},
    ]

    result = play(scenario(*manifests, expect=expect), script).result

    assert [each.held for each in result.expectations] == [True, False, True]


def test_a_process_that_breaks_ends_the_simulation() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(60)
        raise RuntimeError("a mistake in a controller")

    with pytest.raises(RuntimeError, match="a mistake"):
        play(scenario(), script)


def test_offline_commands_read_the_cluster_that_is_left(tmp_path: Path) -> None:
    nodes = [managed_node(name, "c5.large", A, **RESERVED) for name in ("n1", "n2")]
    given = scenario(
        *nodes,
        pod("a", nodeName="n1"),
        pod("b"),
        cloud(capacityReservations=[reservation(total=5, available=2)]),
        events=[
            {"at": "10m", "unavailable": {"instanceType": "m5.*"}},
            {"at": "10m", "price": {"instanceType": "c5.large", "factor": 2}},
        ],
    )
    finished = play(given, until=1800.0)

    file = tmp_path / "state.json"
    file.write_bytes(msgspec.json.encode(finished.simulation.shell_state()))
    read = read_manifests([str(file)])

    names = {(type(each).__name__, each.metadata.name) for each in read.objects}  # type: ignore[attr-defined]
    assert {("Node", "n1"), ("NodeClaim", "n2"), ("Pod", "a"), ("Pod", "b")} <= names
    assert {("NodePool", "default"), ("EC2NodeClass", "default")} <= names
    cloud_now = read.cloud
    assert isinstance(cloud_now, Cloud)
    (reserved,) = cloud_now.spec.capacityReservations or []
    assert (reserved.total, reserved.available) == (5, 2)
    assert [each.instanceType for each in cloud_now.spec.unavailable or ()] == ["m5.*"]
    prices: dict[Any, float] = {
        (each.instanceType, each.zone, each.capacityType): each.price
        for each in cloud_now.spec.prices or ()
    }
    assert prices["c5.large", A, "on-demand"] == pytest.approx(0.17)
