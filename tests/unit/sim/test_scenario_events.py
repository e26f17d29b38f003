"""Every verb of a scenario, carried out on objects, the account and the machines."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.scripted_simulation import (
    NODE_CLASS,
    POOL,
    A,
    B,
    FinishedSimulation,
    ScriptedController,
    cloud,
    managed_node,
    play,
    pod,
    reservation,
    scenario,
    values_at,
)

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Deployment, Pod
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import CapacityReservation
from wainwright.errors import AwsError, ServerUnavailableError
from wainwright.sim.simulation import NoComponents

RESERVED = {
    "karpenter.sh/capacity-type": "reserved",
    "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
}
SPOT = {"karpenter.sh/capacity-type": "spot"}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "app"}]},
        },
    },
}


def reserved(finished: FinishedSimulation, identity: str = "cr-1") -> CapacityReservation:
    return finished.simulation.world.account.services.reservations.state.reservations[identity]


# Objects


def test_apply_creates_objects_with_their_namespace() -> None:
    finished = play(scenario(events=[{"at": "1m", "apply": [WEB, pod("a", "other")]}]))

    api = finished.simulation.world.api
    assert api.peek(Deployment, "web", "shop") is not None
    assert api.peek(Pod, "a", "other") is not None
    assert [(each["at"], each["verb"]) for each in finished.entries("scenario")] == [
        (60.0, "apply")
    ]


def test_an_object_without_a_namespace_has_the_same_name_in_every_line_of_the_timeline() -> None:
    web = {**WEB, "metadata": {"name": "web"}}
    scale = {"name": "web", "replicas": 2}
    finished = play(scenario(events=[{"at": "1m", "apply": web}, {"at": "2m", "scale": scale}]))
    found = [(each["verb"], each["object"]) for each in finished.entries("scenario")]
    assert found == [("apply", "Deployment/default/web"), ("scale", "Deployment/default/web")]


def test_apply_of_what_exists_replaces_spec_labels_and_annotations_and_keeps_the_rest() -> None:
    before = {
        **POOL,
        "metadata": {"name": "default", "labels": {"old": "1"}, "annotations": {"a": "1"}},
        "spec": {
            "limits": {"cpu": "10", "memory": "10Gi"},
            "weight": 5,
            "template": {
                "spec": {"requirements": [], "taints": [{"key": "t", "effect": "NoSchedule"}]}
            },
        },
    }
    after = {
        **POOL,
        "metadata": {"name": "default", "labels": {"new": "1"}},
        "spec": {"limits": {"cpu": "20"}, "template": {"spec": {"requirements": []}}},
    }

    async def script(controller: ScriptedController) -> None:
        status = {"status": {"resources": {"cpu": "2"}}}
        await controller.cluster.patch_status(NodePool, "default", status)
        patch = {"metadata": {"finalizers": ["karpenter.sh/termination"]}}
        await controller.cluster.patch(NodePool, "default", patch)

    finished = play(scenario(before, events=[{"at": "1m", "apply": [after]}]), script)

    pool = finished.simulation.world.api.peek(NodePool, "default")
    assert pool is not None
    assert pool.metadata.labels == {"new": "1"}
    assert not pool.metadata.annotations
    assert pool.metadata.finalizers == ["karpenter.sh/termination"]
    assert pool.spec.limits == {"cpu": "20"}
    assert pool.spec.weight is None
    assert pool.spec.template.spec.taints is None
    assert pool.status is not None
    assert pool.status.resources == {"cpu": "2"}


def test_what_the_api_server_refuses_is_a_warning() -> None:
    changed = pod("a", nodeSelector={"disk": "ssd"})
    finished = play(scenario(pod("a"), events=[{"at": "1m", "apply": [changed]}]))

    (warning,) = finished.result.warnings
    assert "apply Pod/default/a" in warning
    assert "pod updates may not change fields" in warning


def test_a_new_class_finds_what_it_names() -> None:
    new = {
        **NODE_CLASS,
        "metadata": {"name": "other"},
        "spec": {
            **NODE_CLASS["spec"],
            "role": "other-role",
            "subnetSelectorTerms": [{"tags": {"team": "other"}}],
        },
    }
    finished = play(scenario(events=[{"at": "1m", "apply": [new]}]))

    account = finished.simulation.world.account
    filters = [{"Name": "tag:team", "Values": ["other"]}]
    assert len(account.answer("ec2", "DescribeSubnets", {"Filters": filters})["Subnets"]) == 3
    assert account.answer("iam", "GetRole", {"RoleName": "other-role"})


def test_delete_takes_globs_and_warns_where_nothing_is_meant() -> None:
    def deletion(name: str) -> dict[str, Any]:
        return {"delete": {"kind": "Pod", "namespace": "default", "name": name}}

    finished = play(
        scenario(
            pod("a-0"),
            pod("a-1"),
            pod("b"),
            events=[{"at": "1m", **deletion("a-*")}, {"at": "2m", **deletion("a-*")}],
        )
    )

    names = [each.metadata.name for each in finished.simulation.world.api.peek_all(Pod)]
    assert names == ["b"]
    (warning,) = finished.result.warnings
    assert "no Pod is called a-*" in warning


def test_scale_sets_replicas_and_a_curve_goes_step_by_step() -> None:
    seen: list[tuple[float, int | None]] = []

    async def script(controller: ScriptedController) -> None:
        for minute in range(16):
            await controller.wait_until(minute * 60 + 30)
            web = await controller.cluster.get(Deployment, "web", "shop")
            seen.append((minute, web.spec.replicas))

    events = [
        {"at": "1m", "scale": {"name": "web", "namespace": "shop", "replicas": 3}},
        {
            "at": "5m",
            "scale": {
                "name": "web",
                "namespace": "shop",
                "curve": [["0m", 10], ["4m", 20], ["6m", 5]],
            },
        },
    ]
    play(scenario(WEB, events=events), script)

    replicas = [count for _, count in seen]
    assert replicas[:5] == [1, 3, 3, 3, 3]
    assert replicas[5:13] == [10, 13, 15, 18, 20, 13, 5, 5]


def test_events_of_one_moment_happen_in_the_order_of_the_file() -> None:
    events = [
        {"at": "1m", "scale": {"name": "web", "namespace": "shop", "replicas": count}}
        for count in (5, 2, 7)
    ]
    finished = play(scenario(WEB, events=events))

    web = finished.simulation.world.api.peek(Deployment, "web", "shop")
    assert web is not None
    assert web.spec.replicas == 7


def test_conditions_are_set_on_the_nodes_that_are_meant() -> None:
    condition = {"node": "n*", "type": "Healthy", "status": "False"}
    finished = play(
        scenario(
            managed_node("n1"), managed_node("x1"), events=[{"at": "1m", "condition": condition}]
        )
    )

    def states(name: str) -> dict[str, str]:
        node = finished.simulation.world.api.peek(Node, name)
        assert node is not None
        return {each.type: each.status for each in node.status.conditions or ()}

    assert states("n1") == {"Ready": "True", "Healthy": "False"}
    assert states("x1") == {"Ready": "True"}


def test_writes_wait_for_the_api_server_in_their_order() -> None:
    refused: list[float] = []

    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(90)
        try:
            await controller.cluster.list(Pod)
        except ServerUnavailableError:
            refused.append(90)
        await controller.wait_until(130)
        await controller.cluster.list(Pod)

    events = [
        {"at": "1m", "for": "1m", "down": "apiserver"},
        {"at": "70s", "apply": [WEB]},
        {"at": "80s", "scale": {"name": "web", "namespace": "shop", "replicas": 4}},
    ]
    finished = play(scenario(events=events), script)

    web = finished.simulation.world.api.peek(Deployment, "web", "shop")
    assert web is not None
    assert web.spec.replicas == 4
    assert web.metadata.creationTimestamp == "2026-01-01T00:02:00Z"
    assert refused == [90]
    assert finished.result.warnings == []


# Reservations


def test_reservations_are_created_changed_and_cancelled() -> None:
    events = [
        {"at": "10m", "reservation": {"create": reservation("cr-2", total=4)}},
        {"at": "20m", "reservation": {"change": {"id": "cr-2", "total": 6, "tags": {"a": "b"}}}},
        {"at": "30m", "reservation": {"change": {"id": "cr-2", "available": 1}}},
        {"at": "40m", "reservation": {"cancel": "cr-2"}},
    ]
    finished = play(scenario(events=events))

    result = finished.result
    totals = result.series.reservations["cr-2"].total
    held = [values_at(result, totals, at) for at in (0, 600, 1200, 1800, 2400)]
    assert held == [0, 4, 6, 6, 0]
    assert reserved(finished, "cr-2").tags == {"a": "b"}
    (use,) = result.totals.reservations
    assert use.slotHours == pytest.approx((4 + 6 + 6) / 6)
    assert use.idleHours == pytest.approx((4 + 6 + 1) / 6)
    changes = [each["change"] for each in finished.entries("reservation")]
    assert changes == ["created", "changed", "changed", "cancelled"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"total": 1}, "2 instances run in it, more than 1"),
        ({"available": 2}, "2 are not free"),
    ],
)
def test_a_change_that_ec2_refuses_has_no_effect(change: dict[str, Any], problem: str) -> None:
    nodes = [managed_node(name, "c5.large", A, **RESERVED) for name in ("n1", "n2")]
    finished = play(
        scenario(
            *nodes,
            cloud(capacityReservations=[reservation(total=3)]),
            events=[{"at": "1m", "reservation": {"change": {"id": "cr-1", **change}}}],
        )
    )

    found = reserved(finished)
    assert (found.total, found.used, found.used_by_others) == (3, 2, 0)
    (warning,) = finished.result.warnings
    assert problem in warning


def test_groups_of_a_reservation_change() -> None:
    group = "arn:aws:resource-groups:us-west-2:111122223333:group/web"
    finished = play(
        scenario(
            cloud(capacityReservations=[reservation()]),
            events=[{"at": "1m", "reservation": {"change": {"id": "cr-1", "groups": [group]}}}],
        )
    )

    account = finished.simulation.world.account
    rows = account.answer("resource-groups", "ListGroupResources", {"Group": group})["Resources"]
    assert [each["Identifier"]["ResourceArn"].endswith("cr-1") for each in rows] == [True]


def test_a_reservation_begins_and_ends_by_itself() -> None:
    block = reservation(
        reservationType="capacity-block",
        startTime="2026-01-01T00:20:00Z",
        endTime="2026-01-01T00:50:00Z",
    )
    finished = play(scenario(cloud(capacityReservations=[block])))

    moments = [(each["at"], each["change"]) for each in finished.entries("reservation")]
    assert moments == [(1200.0, "begun"), (3000.0, "expired")]


# Stock, prices, addresses, images


def test_what_lasts_has_an_entry_at_its_end_too() -> None:
    lasting = [
        {"at": "1m", "for": "2m", "outage": {"zone": A}},
        {"at": "2m", "for": "2m", "unavailable": {"instanceType": "c5.*"}},
        {"at": "3m", "for": "2m", "price": {"capacityType": "spot", "factor": 2}},
        {"at": "4m", "throttle": {"operation": "CreateFleet", "share": 1}},
    ]
    entries = play(scenario(events=lasting)).entries("scenario")
    assert [(each["at"], each["message"]) for each in entries] == [
        (60.0, f"outage zone {A}"),
        (120.0, "unavailable instance type c5.*"),
        (180.0, f"over: outage zone {A}"),
        (180.0, "price capacity type spot, factor 2.0"),
        (240.0, "over: unavailable instance type c5.*"),
        (240.0, "throttle operation CreateFleet, share 1.0"),
        (300.0, "over: price capacity type spot, factor 2.0"),
    ]


def test_a_selector_reads_as_it_is_written() -> None:
    kill = {"at": "1m", "kill": {"node": {"pods": ["web-0", "default/web-1"]}}}
    events = [{"at": "0s", "apply": [pod("web-0"), pod("web-1")]}, kill]
    last = play(scenario(events=events)).entries("scenario")[-1]
    assert last["message"] == "kill pods default/web-0, default/web-1"


def test_expectations_stand_where_they_were_decided() -> None:
    expect: list[dict[str, Any]] = [
        {"at": "end", "nodes": {"count": 0}},
        {"at": "10m", "nodes": {"count": 0}},
        {"during": ["20m", "30m"], "nodes": {"count": 0}},
        {"during": ["20m", "30m"], "pods": {"pending": 0}},
        {"total": {"launches": 0}},
    ]
    events = [{"at": "25m", "apply": pod("web-0")}]
    finished = play(scenario(events=events, expect=expect))
    found = [(each["at"], each["held"]) for each in finished.entries("expectation")]
    assert found == [(600.0, True), (1500.0, False), (1800.0, True), (3600.0, True), (3600.0, True)]
    moments = [each.at for each in finished.result.timeline]
    assert moments == sorted(moments)


@pytest.mark.parametrize(
    "event",
    [
        {"unavailable": {"instanceType": "vt1.*", "zone": "us-west-2b"}},
        {"price": {"instanceType": "vt1.*", "zone": "us-west-2b", "factor": 2}},
    ],
)
def test_offerings_that_nobody_has_are_a_warning(event: dict[str, Any]) -> None:
    sold = cloud(instanceTypes=["c5.large", "vt1.3xlarge"])
    finished = play(scenario(sold, events=[{"at": "1m", **event}]))

    (warning,) = finished.result.warnings
    assert "EC2 has no such offering" in warning


def test_what_is_unavailable_cannot_be_launched_until_it_is_over() -> None:
    outcomes: list[str] = []

    async def script(controller: ScriptedController) -> None:
        for minute, zone in ((5, A), (15, A), (15, B), (45, A)):
            await controller.wait_until(minute * 60)
            try:
                await controller.start_instance(f"default-{minute}", zone=zone)
                outcomes.append("launched")
            except AwsError as error:
                outcomes.append(error.code)

    unavailable = {"instanceType": "m5.*", "zone": A, "capacityType": "on-demand"}
    play(scenario(events=[{"at": "10m", "for": "30m", "unavailable": unavailable}]), script)

    assert outcomes == ["launched", "InsufficientInstanceCapacity", "launched", "launched"]


def test_addresses_run_out() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(120)
        with pytest.raises(AwsError, match="free addresses"):
            await controller.start_instance("default-a")
        await controller.start_instance("default-b", zone=B)

    play(scenario(events=[{"at": "1m", "addresses": {"zone": A, "free": 0}}]), script)


def test_a_new_image_is_the_recommended_one() -> None:
    finished = play(scenario(events=[{"at": "1m", "image": {"alias": "al2023@latest"}}]))

    world = finished.simulation.world
    parameters = dict(world.account.services.ssm.all_parameters())
    ids = {value for name, value in parameters.items() if name.endswith("recommended/image_id")}
    images = world.account.services.images.state.images
    assert any(images[each].created > world.start for each in ids)


# Interruptions


def interruption_reasons(finished: FinishedSimulation) -> list[tuple[float, str, str]]:
    return [(each["at"], each["object"], each["reason"]) for each in finished.entries("terminate")]


def test_a_spot_instance_has_two_minutes() -> None:
    finished = play(
        scenario(
            managed_node("n1", **SPOT),
            managed_node("n2"),
            events=[{"at": "10m", "interrupt": {"capacityType": "spot", "share": 0.3}}],
        )
    )

    (notice,) = finished.entries("interrupt")
    assert (notice["at"], notice["object"], notice["claim"]) == (600.0, "Node/n1", "n1")
    assert interruption_reasons(finished) == [(721.0, "NodeClaim/n1", "interrupted")]
    assert finished.result.totals.interruptions == 1


def test_a_share_is_rounded_up_and_who_it_is_comes_from_the_seed() -> None:
    def noticed(seed: int) -> list[str]:
        nodes = [managed_node(f"n{number}", **SPOT) for number in range(10)]
        event = {"at": "10m", "interrupt": {"capacityType": "spot", "share": 0.31}}
        finished = play(scenario(*nodes, events=[event]), seed=seed)
        return [each["object"] for each in finished.entries("interrupt")]

    assert len(noticed(1)) == 4
    assert noticed(1) == noticed(1)
    assert len({tuple(noticed(seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ({"count": 1, "zone": B}, ["Node/n2"]),
        ({"node": "n3"}, ["Node/n3"]),
        ({"node": {"pods": ["default/a"]}}, ["Node/n1"]),
    ],
)
def test_notices_reach_those_that_are_meant(who: dict[str, Any], expected: list[str]) -> None:
    finished = play(
        scenario(
            managed_node("n1", **SPOT),
            managed_node("n2", zone=B, **SPOT),
            managed_node("n3"),
            pod("a", nodeName="n1"),
            events=[{"at": "10m", "interrupt": who}],
        )
    )

    assert [each["object"] for each in finished.entries("interrupt")] == expected


def test_a_notice_to_an_instance_that_is_not_spot_is_a_retirement() -> None:
    finished = play(
        scenario(managed_node("n1"), events=[{"at": "10m", "interrupt": {"node": "n1"}}])
    )

    assert interruption_reasons(finished) == [(721.0, "NodeClaim/n1", "interrupted")]


def test_nobody_to_interrupt_is_a_warning() -> None:
    finished = play(scenario(events=[{"at": "10m", "interrupt": {"count": 3}}]))

    (warning,) = finished.result.warnings
    assert "no instance is meant" in warning


def test_reclaimed_instances_of_a_reservation_belong_to_others_until_they_are_given_back() -> None:
    events = [
        {"at": "10m", "interrupt": {"reservationID": "cr-1"}},
        {"at": "30m", "reservation": {"change": {"id": "cr-1", "available": 2}}},
    ]
    nodes = [managed_node(name, "c5.large", A, **RESERVED) for name in ("n1", "n2")]
    entry = reservation(total=3, interruptible=True)
    frees: list[int] = []

    async def script(controller: ScriptedController) -> None:
        for minute in (5, 15, 35):
            await controller.wait_until(minute * 60)
            answer = await controller.process.aws.call("ec2", "DescribeCapacityReservations", {})
            frees.append(answer["CapacityReservations"][0]["AvailableInstanceCount"])

    finished = play(scenario(*nodes, cloud(capacityReservations=[entry]), events=events), script)

    assert frees == [1, 1, 2]
    assert len(finished.entries("terminate")) == 2


# Machines and processes


class RecordedControls(NoComponents):
    """Remembers what is done to machines."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def lose(self, instance_id: str) -> None:
        self.calls.append(("lose", instance_id))

    def recover(self, instance_id: str) -> None:
        self.calls.append(("recover", instance_id))

    def set_never_join(self, share: float) -> None:
        self.calls.append(("never join", share))

    def set_less(self, less: Mapping[str, str]) -> None:
        self.calls.append(("less", less))


def test_an_outage_takes_the_instances_of_a_zone_and_its_launches() -> None:
    controls, outcomes = RecordedControls(), list[str]()

    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(900)
        try:
            await controller.start_instance("default-a")
        except AwsError as error:
            outcomes.append(error.code)

    finished = play(
        scenario(
            managed_node("n1"),
            managed_node("n2", zone=B),
            events=[{"at": "10m", "for": "20m", "outage": {"zone": A}}],
        ),
        script,
        components=lambda *_: controls,
    )

    identity = next(each.instance for each in finished.result.end.nodes if each.name == "n1")
    assert controls.calls == [("lose", identity), ("recover", identity)]
    assert outcomes == ["InsufficientInstanceCapacity"]


def test_instances_that_never_join() -> None:
    controls = RecordedControls()
    spec: dict[str, Any] = {
        "machines": {"neverJoin": 0.1},
        "events": [{"at": "10m", "for": "20m", "neverJoin": {"share": 0.5}}],
    }
    play(scenario(**spec), components=lambda *_: controls)

    assert controls.calls == [("never join", 0.5), ("never join", 0.1)]


def test_instances_that_offer_less_than_the_catalogue_says() -> None:
    controls = RecordedControls()
    spec: dict[str, Any] = {
        "machines": {"less": {"cpu": "100m"}},
        "events": [{"at": "10m", "for": "20m", "less": {"cpu": "300m", "memory": "1Gi"}}],
    }
    finished = play(scenario(**spec), components=lambda *_: controls)

    assert controls.calls == [("less", {"cpu": "300m", "memory": "1Gi"}), ("less", {"cpu": "100m"})]
    texts = [each["message"] for each in finished.entries("scenario")]
    assert texts == [
        "instances offer less: cpu 300m, memory 1Gi",
        "over: instances offer less: cpu 300m, memory 1Gi",
    ]


def test_a_killed_instance_ends_without_notice() -> None:
    finished = play(
        scenario(
            managed_node("n1"),
            pod("a", nodeName="n1"),
            events=[
                {"at": "10m", "kill": {"node": "n1"}},
                {"at": "20m", "kill": {"node": "n9"}},
            ],
        )
    )

    result = finished.result
    assert finished.entries("interrupt") == []
    assert interruption_reasons(finished) == [(601.0, "NodeClaim/n1", "garbage_collected")]
    assert values_at(result, result.series.pods.running, 600) == 0
    assert ["no node is meant" in each for each in result.warnings] == [True]


def test_a_restarted_process_loses_its_memory_and_is_up_again_after_five_seconds() -> None:
    starts: list[float] = []

    async def script(controller: ScriptedController) -> None:
        starts.append(controller.process.clock.now() - controller.world.start)

    events = [
        {"at": "10m", "restart": "controller"},
        {"at": "20m", "restart": "controller"},
        {"at": "1203s", "restart": "controller"},
    ]
    finished = play(scenario(events=events), script)

    assert [round(each, 3) for each in starts] == [0.0, 605.0, 1208.0]
    assert finished.moments("restart") == [600.0, 605.0, 1200.0, 1203.0, 1208.0]


# Faults


async def describe(controller: ScriptedController, times: int) -> list[str]:
    outcomes: list[str] = []
    for _ in range(times):
        try:
            await controller.process.aws.call("ec2", "DescribeInstances", {})
            outcomes.append("")
        except AwsError as error:
            outcomes.append(error.code)
    return outcomes


def test_throttled_calls_are_refused_before_anything_is_done() -> None:
    outcomes: list[list[str]] = []

    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(60)
        outcomes.append(await describe(controller, 200))
        await controller.wait_until(300)
        outcomes.append(await describe(controller, 10))

    throttle = {"operation": "Describe*", "share": 0.5}
    play(scenario(events=[{"at": "1s", "for": "2m", "throttle": throttle}]), script)

    assert 60 < outcomes[0].count("RequestLimitExceeded") < 140
    assert outcomes[1] == [""] * 10


@pytest.mark.parametrize(
    ("kind", "code", "launched", "seconds"),
    [
        ("before", "InternalError", 0, 0),
        ("after", "InternalError", 1, 0),
        ("lost", "ConnectionClosed", 1, 60),
    ],
)
def test_a_call_fails_before_or_after_or_without_an_answer(
    kind: str, code: str, launched: int, seconds: float
) -> None:
    outcomes: list[tuple[str, float]] = []

    async def script(controller: ScriptedController) -> None:
        began = controller.process.clock.now()
        try:
            await controller.start_instance("default-a")
        except AwsError as error:
            outcomes.append((error.code, controller.process.clock.now() - began))

    fault = {"operation": "RunInstances", "share": 1, "kind": kind}
    finished = play(scenario(events=[{"at": "0s", "fail": fault}]), script)

    assert outcomes == [(code, seconds)]
    assert finished.result.totals.launches == launched
    assert [each["operation"] for each in finished.entries("fault")] == ["RunInstances"]


def test_faults_of_all_operations_do_not_reach_dry_runs() -> None:
    codes: list[str] = []

    async def script(controller: ScriptedController) -> None:
        for operation in ("DescribeInstances", "TerminateInstances"):
            params = {"DryRun": True, "InstanceIds": ["i-1"]}
            try:
                await controller.process.aws.call("ec2", operation, params)
            except AwsError as error:
                codes.append(error.code)

    events = [
        {"at": "0s", "fail": {"operation": "*", "share": 1}},
        {"at": "0s", "fail": {"operation": "Terminate*.DryRun", "share": 1, "code": "Oops"}},
    ]
    play(scenario(events=events), script)

    assert codes == ["DryRunOperation", "Oops"]


def test_a_fault_of_one_pool_leaves_the_others_alone() -> None:
    outcomes: list[str] = []

    async def script(controller: ScriptedController) -> None:
        for zone in (A, B):
            try:
                await controller.start_instance("default-a", zone=zone)
                outcomes.append("launched")
            except AwsError as error:
                outcomes.append(error.code)

    fault = {"operation": "CreateFleet", "share": 1, "zone": A, "code": "Unsupported"}
    play(scenario(events=[{"at": "0s", "fail": fault}]), script)

    assert outcomes == ["Unsupported", "launched"]


# Traces


def test_pods_of_a_trace_come_and_go_and_come_back_when_evicted() -> None:
    seen: list[list[str]] = []

    async def script(controller: ScriptedController) -> None:
        cluster = controller.cluster
        for at in (5, 15, 25, 35):
            await controller.wait_until(at)
            if at == 25:
                await cluster.evict("a", "default")
                await controller.wait_until(26)
            pods = await cluster.list(Pod)
            seen.append([each.metadata.name for each in pods.items])

    rows = "name,cpu,memory,gpu,created,deleted\na,1,1Gi,0,10,30\nb,2,2Gi,0,20,\n"
    finished = play(scenario(traces=[{"csv": "pods.csv"}], files={"pods.csv": rows}), script)

    assert seen == [[], ["a"], ["a", "b"], ["b"]]
    assert [each["object"] for each in finished.entries("evict")] == ["Pod/default/a"]
    (left,) = finished.simulation.world.api.peek_all(Pod)
    (container,) = left.spec.containers or []
    assert container.resources.requests == {"cpu": "2", "memory": "2Gi"}
