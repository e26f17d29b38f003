"""What is recorded of a simulation: timeline, series, totals, prices."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.scripted_simulation import (
    POOL,
    A,
    B,
    FinishedSimulation,
    Manifest,
    ScriptedController,
    cloud,
    managed_node,
    play,
    pod,
    reservation,
    scenario,
    values_at,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import Cluster
from wainwright.model.simulation import PendingSeconds
from wainwright.sim.settings import HOUR

RESERVED = {
    "karpenter.sh/capacity-type": "reserved",
    "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
}
M5_LARGE, C5_LARGE = 0.096, 0.085  # on demand, in us-west-2


async def set_phase(cluster: Cluster, name: str, phase: str) -> None:
    await cluster.patch_status(Pod, name, {"status": {"phase": phase}}, "default")


# Nodes and money


def test_a_node_is_paid_from_its_launch_until_its_instance_ends() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(600)
        instance = await controller.launch("default-a")
        await controller.wait_until(700)
        await controller.join("node-a", instance)
        await controller.wait_until(600 + 1800)
        await controller.terminate(instance)

    finished = play(scenario(cloud(fees={"perNode": 0.02})), script)

    totals, series = finished.result.totals, finished.result.series
    assert totals.cost == pytest.approx(M5_LARGE * 1801 / HOUR)
    assert totals.fees == pytest.approx(0.02 * 1801 / HOUR)
    assert totals.nodeHours == pytest.approx(1801 / HOUR)
    assert (totals.launches, totals.terminations) == (1, 1)
    assert series.at == [0.0, 600.0, 2401.0, 3600.0]
    assert series.nodes == [0, 1, 0, 0]
    assert series.pricePerHour == [0.0, M5_LARGE, 0.0, 0.0]


def test_the_timeline_follows_an_instance() -> None:
    async def script(controller: ScriptedController) -> None:
        instance = await controller.launch("default-a")
        await controller.wait_until(40)
        await controller.join("node-a", instance)
        await controller.wait_until(100)
        await controller.terminate(instance)

    finished = play(scenario(), script)

    (launch,) = finished.entries("launch")
    instance = launch["instance"]
    assert launch == {
        "what": "launch",
        "at": 0.0,
        "object": "NodeClaim/default-a",
        "message": f"m5.large in {A}, on-demand",
        "instance": instance,
        "nodePool": "default",
        "instanceType": "m5.large",
        "zone": A,
        "capacityType": "on-demand",
        "reservationID": None,
        "pricePerHour": M5_LARGE,
        "types": 1,
        "templates": [None],
    }
    (join,) = finished.entries("join")
    (ready,) = finished.entries("ready")
    assert (join["at"], join["object"], join["claim"]) == (40.0, "Node/node-a", "default-a")
    assert (ready["at"], ready["object"], ready["claim"]) == (40.0, "Node/node-a", "default-a")
    (end,) = finished.entries("terminate")
    assert (end["at"], end["object"], end["instance"], end["reason"]) == (
        101.0,
        "NodeClaim/default-a",
        instance,
        "deleted",
    )


def test_nodes_at_the_start_are_no_launches_and_count_until_they_end() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(1799)
        answer = await controller.process.aws.call("ec2", "DescribeInstances", {})
        await controller.terminate(answer["Reservations"][0]["Instances"][0]["InstanceId"])

    finished = play(scenario(managed_node("n1"), managed_node("n2", "c5.large")), script)

    result = finished.result
    assert finished.entries("launch") == []
    assert result.series.nodes[0] == 2
    assert result.totals.launches - result.totals.terminations + 2 == len(result.end.nodes) == 1
    assert result.totals.cost == pytest.approx(M5_LARGE * 0.5 + C5_LARGE)
    assert [(each.name, each.claim, each.ready) for each in result.end.nodes] == [
        ("n2", "n2", True)
    ]


def test_an_instance_that_never_joined_has_no_name_in_the_end() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")

    (node,) = play(scenario(), script).result.end.nodes

    assert (node.name, node.claim, node.ready, node.pods) == (None, "default-a", False, [])


def test_a_launch_whose_answer_was_lost_is_in_the_timeline() -> None:
    async def script(controller: ScriptedController) -> None:
        with pytest.raises(Exception, match="no answer"):
            await controller.start_instance("default-a")

    fault = {"operation": "RunInstances", "share": 1, "kind": "lost"}
    finished = play(scenario(events=[{"at": "0s", "fail": fault}]), script)

    assert [each["object"] for each in finished.entries("launch")] == ["NodeClaim/default-a"]
    (entry,) = finished.entries("fault")
    assert (entry["operation"], entry["code"]) == ("RunInstances", "ConnectionClosed")


def test_spot_costs_what_the_market_says_and_follows_it() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a", spot=True, zone=B)

    price = {"capacityType": "spot", "zone": B, "factor": 2.5}
    prices = [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.04, "zone": B}]
    finished = play(
        scenario(cloud(prices=prices), events=[{"at": "30m", "for": "15m", "price": price}]),
        script,
    )

    result = finished.result
    held = [values_at(result, result.series.pricePerHour, at) for at in (600, 1900, 3000)]
    assert held == pytest.approx([0.04, 0.1, 0.04])
    assert result.totals.cost == pytest.approx(0.04 * 0.75 + 0.1 * 0.25)


def test_factors_are_of_the_price_at_the_start() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")

    events = [
        {"at": "10m", "price": {"instanceType": "m5.*", "factor": 2}},
        {"at": "20m", "price": {"instanceType": "m5.*", "factor": 3}},
    ]
    result = play(scenario(events=events), script).result

    held = [values_at(result, result.series.pricePerHour, at) for at in (0, 700, 1300)]
    assert held == pytest.approx([M5_LARGE, 2 * M5_LARGE, 3 * M5_LARGE])


def test_reserved_costs_next_to_nothing_and_on_demand_once_the_reservation_has_ended() -> None:
    ending = reservation(total=3, endTime="2026-01-01T00:30:00Z")
    finished = play(
        scenario(
            managed_node("n1", "c5.large", A, **RESERVED), cloud(capacityReservations=[ending])
        )
    )

    result = finished.result
    series, totals = result.series, result.totals
    assert values_at(result, series.pricePerHour, 1799) == pytest.approx(0.0, abs=1e-6)
    assert values_at(result, series.pricePerHour, 1800) == pytest.approx(C5_LARGE)
    assert [each.capacityType for each in result.end.nodes] == ["on-demand"]
    assert series.reservations["cr-1"].used == [1, 0, 0]
    assert series.reservations["cr-1"].total == [3, 0, 0]
    (use,) = totals.reservations
    assert (use.slotHours, use.usedHours, use.idleHours) == (1.5, 0.5, 1.0)
    assert use.idleCost == pytest.approx(C5_LARGE)
    (entry,) = finished.entries("reservation")
    assert (entry["at"], entry["object"], entry["change"]) == (
        1800.0,
        "CapacityReservation/cr-1",
        "expired",
    )


def test_what_others_use_of_a_reservation_is_neither_used_nor_idle() -> None:
    result = play(scenario(cloud(capacityReservations=[reservation(total=5, available=2)]))).result

    (use,) = result.totals.reservations
    assert (use.slotHours, use.usedHours, use.idleHours) == (5.0, 0.0, 2.0)


def test_an_instance_that_ec2_put_into_an_open_reservation_is_on_demand() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a", instance_type="c5.large")

    entry = reservation(instanceMatchCriteria="open")
    result = play(scenario(cloud(capacityReservations=[entry])), script).result

    (node,) = result.end.nodes
    assert (node.capacityType, node.reservationID, node.pricePerHour) == (
        "on-demand",
        None,
        C5_LARGE,
    )
    assert result.series.reservations["cr-1"].used[-1] == 1


def test_overlays_change_what_nodes_pay_at_once() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")

    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "discount"},
        "spec": {
            "requirements": [
                {
                    "key": "node.kubernetes.io/instance-type",
                    "operator": "In",
                    "values": ["m5.large"],
                }
            ],
            "priceAdjustment": "-50%",
        },
    }
    result = play(scenario(events=[{"at": "30m", "apply": [overlay]}]), script).result

    assert result.totals.cost == pytest.approx(M5_LARGE * 0.75)


class Life(msgspec.Struct, frozen=True):
    """When an instance is launched, how long it lives, and as what."""

    start: int
    length: int
    type: str
    spot: bool


LIVES = st.lists(
    st.builds(
        Life,
        st.integers(0, 3000),
        st.integers(1, 3000),
        st.sampled_from(["m5.large", "c5.large"]),
        st.booleans(),
    ),
    max_size=6,
)
FACTORS = st.lists(
    st.tuples(
        st.integers(0, 3000), st.sampled_from([None, 600]), st.sampled_from(["spot", "on-demand"])
    ),
    max_size=3,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lives=LIVES, factors=FACTORS)
def test_cost_is_what_a_slow_computation_from_the_timeline_makes(
    lives: list[Life], factors: list[tuple[int, int | None, str]]
) -> None:
    async def script(controller: ScriptedController) -> None:
        moments: list[tuple[int, int, Life]] = []
        for number, life in enumerate(lives):
            moments += [(life.start, number, life), (life.start + life.length, number, life)]
        running: dict[int, str] = {}
        for at, number, life in sorted(moments, key=lambda each: each[:2]):
            await controller.wait_until(at)
            if number in running:
                await controller.terminate(running[number])
            else:
                options = {"instance_type": life.type, "spot": life.spot}
                running[number] = await controller.launch(f"default-{number}", **options)

    events: list[Any] = [
        {
            "at": f"{at}s",
            "price": {"capacityType": capacity_type, "factor": 2 + number},
            **({} if length is None else {"for": f"{length}s"}),
        }
        for number, (at, length, capacity_type) in enumerate(factors)
        if length is None or at + length <= 3600
    ]
    finished = play(scenario(events=events), script, keep_all_points=True)

    assert finished.result.totals.cost == pytest.approx(_slow_cost(finished, events), abs=1e-6)
    series = finished.result.series
    steps = zip(series.at, series.at[1:], series.pricePerHour, strict=False)
    integral = sum((end - start) / HOUR * price for start, end, price in steps)
    assert finished.result.totals.cost == pytest.approx(integral, abs=1e-9)


def _slow_cost(finished: FinishedSimulation, events: list[Any]) -> float:
    """Second by second: what runs, at its first price times the factor in effect."""
    ends = {each["instance"]: each["at"] for each in finished.entries("terminate")}
    market = finished.simulation.world.account.region_offerings.prices
    total = 0.0
    for launch in finished.entries("launch"):
        key = (launch["instanceType"], launch["zone"], launch["capacityType"])
        end = ends.get(launch["instance"], 3600.0)
        moments = sorted(
            {launch["at"], end} | {at for at in _changes(events) if launch["at"] < at < end}
        )
        for start, stop in pairwise(moments):
            factor = _factor(events, launch["capacityType"], start)
            total += (stop - start) / HOUR * market[key] * factor
    return total


def _changes(events: list[Any]) -> set[float]:
    starts = {float(each["at"][:-1]) for each in events}
    return starts | {
        float(each["at"][:-1]) + float(each["for"][:-1]) for each in events if "for" in each
    }


def _factor(events: list[Any], capacity_type: str, at: float) -> float:
    """Of the events in effect the one that began last, in the order of the file at one moment."""
    found = 1.0
    for each in sorted(events, key=lambda event: float(event["at"][:-1])):
        start = float(each["at"][:-1])
        end = start + float(each["for"][:-1]) if "for" in each else 1e9
        if start <= at < end and each["price"]["capacityType"] == capacity_type:
            found = each["price"]["factor"]
    return found


# Pods


def test_pods_wait_from_their_creation_to_their_binding() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(30)
        await controller.bind("a", "n1")
        await controller.wait_until(90)
        await controller.bind("b", "n1")

    finished = play(
        scenario(managed_node("n1"), pod("a"), pod("b"), pod("c"), duration="10m"), script
    )

    result = finished.result
    assert result.totals.pendingSeconds == PendingSeconds(p50=90.0, p95=600.0, max=600.0, total=720)
    assert result.series.pods.pending == [3, 2, 1, 1]
    assert [each["object"] for each in finished.entries("bind")] == [
        "Pod/default/a",
        "Pod/default/b",
    ]
    assert [each.pod for each in result.end.pending] == ["default/c"]


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"},
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1"},
    ],
    ids=["DaemonSet", "static"],
)
def test_what_counts_as_pending_and_running(owner: dict[str, str]) -> None:
    gated = pod("gated", schedulingGates=[{"name": "quota"}])
    daemon = {**pod("daemon", nodeName="n1")}
    daemon["metadata"] = {**daemon["metadata"], "ownerReferences": [owner]}

    async def script(controller: ScriptedController) -> None:
        cluster = controller.cluster
        await controller.wait_until(60)
        await controller.bind("a", "n1")
        await controller.wait_until(62)
        await set_phase(cluster, "a", "Running")
        await controller.wait_until(120)
        await set_phase(cluster, "a", "Succeeded")

    finished = play(
        scenario(managed_node("n1"), pod("a"), gated, daemon, pod("b", nodeName="n1")), script
    )

    series = finished.result.series
    seen = dict(
        zip(series.at, zip(series.pods.pending, series.pods.running, strict=True), strict=True)
    )
    assert seen == {0.0: (1, 1), 60.0: (0, 1), 62.0: (0, 2), 120.0: (0, 1), 3600.0: (0, 1)}
    assert finished.result.totals.podHours == pytest.approx(1 + 58 / HOUR)
    assert finished.result.end.nodes[0].pods == ["default/b"]


def test_pods_of_an_instance_that_does_not_answer_do_not_run() -> None:
    events = [{"at": "10m", "for": "10m", "outage": {"zone": A}}]
    result = play(scenario(managed_node("n1"), pod("a", nodeName="n1"), events=events)).result

    held = [values_at(result, result.series.pods.running, at) for at in (0, 600, 1199, 1200)]
    assert held == [1, 0, 0, 1]


def test_evictions_are_entries_and_those_of_daemons_are_not_counted() -> None:
    daemon = {**pod("daemon", nodeName="n1")}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}
    daemon["metadata"] = {**daemon["metadata"], "ownerReferences": [owner]}

    async def script(controller: ScriptedController) -> None:
        cluster = controller.cluster
        await controller.wait_until(60)
        await cluster.evict("a", "default")
        await cluster.evict("a", "default")
        await cluster.evict("daemon", "default")
        await cluster.delete(Pod, "b", "default", grace_period=1)

    finished = play(
        scenario(managed_node("n1"), pod("a", nodeName="n1"), pod("b", nodeName="n1"), daemon),
        script,
    )

    seen = [
        (each["object"], each["node"], each["forced"], each["daemon"])
        for each in finished.entries("evict")
    ]
    assert seen == [
        ("Pod/default/a", "n1", False, False),
        ("Pod/default/daemon", "n1", False, True),
        ("Pod/default/b", "n1", True, False),
    ]
    assert finished.result.totals.evictions == 2


def test_deletions_by_others_are_no_evictions() -> None:
    deletion = {"kind": "Pod", "namespace": "default", "name": "a"}
    finished = play(scenario(pod("a"), events=[{"at": "1m", "delete": deletion}]))

    assert finished.entries("evict") == []
    assert finished.result.totals.evictions == 0


# Everything else


def test_events_conditions_and_labels_are_entries() -> None:
    async def script(controller: ScriptedController) -> None:
        cluster = controller.cluster
        await controller.launch("default-a")
        await controller.wait_until(60)
        event = {
            "metadata": {"name": "e1", "namespace": "default"},
            "involvedObject": {"kind": "NodeClaim", "name": "default-a"},
            "reason": "Drifted",
            "message": "the image is old",
            "type": "Normal",
        }
        await cluster.create(msgspec.convert(event, Event))
        patch = {"metadata": {"labels": {"karpenter.sh/capacity-type": "on-demand"}}}
        await cluster.patch(NodeClaim, "default-a", patch)
        condition = {
            "type": "Drifted",
            "status": "True",
            "reason": "AMIDrift",
            "lastTransitionTime": "2026-01-01T00:01:00Z",
        }
        await cluster.patch_status(NodeClaim, "default-a", {"status": {"conditions": [condition]}})

    finished = play(scenario(), script)

    (event,) = finished.entries("event")
    assert (event["object"], event["reason"]) == ("NodeClaim/default-a", "Drifted")
    (label,) = finished.entries("label")
    assert (label["key"], label["from"], label["to"]) == (
        "karpenter.sh/capacity-type",
        None,
        "on-demand",
    )
    conditions = [each for each in finished.entries("condition") if each["type"] == "Drifted"]
    assert [(each["object"], each["status"], each["reason"]) for each in conditions] == [
        ("NodeClaim/default-a", "True", "AMIDrift")
    ]


@pytest.mark.parametrize("reason", ["Empty", "Drifted", "Underutilized"])
def test_the_reason_of_an_end_is_that_of_the_command(reason: str) -> None:
    async def script(controller: ScriptedController) -> None:
        instance = await controller.launch("default-a")
        condition = {
            "type": "DisruptionReason",
            "status": "True",
            "reason": reason,
            "lastTransitionTime": "2026-01-01T00:01:00Z",
        }
        status = {"status": {"conditions": [condition]}}
        await controller.cluster.patch_status(NodeClaim, "default-a", status)
        controller.process.reports.command_carried_out(
            reason=reason,
            method="emptiness",
            candidates=["default-a"],
            replacements=[],
            savings_per_hour=0.096,
        )
        await controller.terminate(instance)

    finished = play(scenario(), script)

    assert [each["reason"] for each in finished.entries("terminate")] == [reason]
    assert finished.result.totals.disruptions == {reason: 1}
    (command,) = finished.entries("disrupt")
    assert (command["candidates"], command["savingsPerHour"]) == (["default-a"], 0.096)


def test_a_command_that_was_given_up_is_no_reason() -> None:
    async def script(controller: ScriptedController) -> None:
        instance = await controller.launch("default-a")
        condition = {
            "type": "DisruptionReason",
            "status": "True",
            "reason": "Drifted",
            "lastTransitionTime": "2026-01-01T00:01:00Z",
        }
        for conditions in ([condition], []):
            status = {"status": {"conditions": conditions}}
            await controller.cluster.patch_status(NodeClaim, "default-a", status)
        await controller.terminate(instance)

    assert play(scenario(), script).result.totals.disruptions == {"deleted": 1}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ("unhealthy", "unhealthy"),
        ("expired", "expired"),
        ("registration_timeout", "registration_timeout"),
        ("spot_interrupted", "interrupted"),
        ("scheduled_change", "interrupted"),
        ("capacity_block_expiring", "interrupted"),
        ("instance_unhealthy", "unhealthy"),
    ],
)
def test_the_reason_that_a_controller_reports_counts(reported: str, expected: str) -> None:
    async def script(controller: ScriptedController) -> None:
        instance = await controller.launch("default-a")
        controller.process.reports.claim_disrupted("default-a", reported)
        await controller.terminate(instance)

    assert play(scenario(), script).result.totals.disruptions == {expected: 1}


def test_an_instance_without_a_claim_is_garbage() -> None:
    async def script(controller: ScriptedController) -> None:
        instance = await controller.launch("default-a", create_claim=False)
        await controller.terminate(instance)

    assert play(scenario(), script).result.totals.disruptions == {"garbage_collected": 1}


def test_claims_that_ec2_would_not_sell_are_launch_failures() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.create_claim("default-a", "")
        await controller.create_claim("default-b", "")
        for name, reason in (
            ("default-a", "insufficient_capacity"),
            ("default-b", "nodeclass_not_ready"),
        ):
            controller.process.reports.claim_disrupted(name, reason)
            await controller.delete_claim(name)

    finished = play(scenario(), script)
    assert finished.result.totals.launchFailures == 1
    (entry,) = finished.entries("launchFailure")
    assert entry["object"].startswith("NodeClaim/")
    assert entry["nodePool"] == "default"


def test_calls_are_counted_by_operation_and_dry_runs_apart() -> None:
    async def script(controller: ScriptedController) -> None:
        call = controller.process.aws.call
        await call("ec2", "DescribeInstances", {})
        await call("ec2", "DescribeInstances", {})
        with pytest.raises(Exception, match="DryRun"):
            await call("ec2", "TerminateInstances", {"InstanceIds": ["i-1"], "DryRun": True})

    totals = play(scenario(), script).result.totals

    assert totals.apiCalls == {"DescribeInstances": 2, "TerminateInstances.DryRun": 1}


def test_series_are_thinned_and_begin_and_end_where_the_simulation_does() -> None:
    async def script(controller: ScriptedController) -> None:
        for number in range(2500):
            await controller.wait_until(number)
            phase = "Running" if number % 2 else "Pending"
            await set_phase(controller.cluster, "a", phase)

    manifests: list[Manifest] = [managed_node("n1"), pod("a", nodeName="n1")]
    thinned = play(scenario(*manifests), script).result
    full = play(scenario(*manifests), script, keep_all_points=True).result

    assert len(thinned.series.at) <= 2000 < len(full.series.at)
    for series in (thinned.series, full.series):
        assert (series.at[0], series.at[-1]) == (0.0, 3600.0)
        assert series.at == sorted(set(series.at))
    assert thinned.totals == full.totals


def test_the_timeline_is_not_kept_unless_it_is_wanted() -> None:
    async def script(controller: ScriptedController) -> None:
        instance = await controller.launch("default-a")
        await controller.terminate(instance)

    kept = play(scenario(POOL), script).result
    bare = play(scenario(POOL), script, keep_timeline=False).result

    assert bare.timeline == []
    assert json.loads(msgspec.json.encode(bare.totals)) == json.loads(
        msgspec.json.encode(kept.totals)
    )
