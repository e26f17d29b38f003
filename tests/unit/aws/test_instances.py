"""Instances of the cluster: described and terminated in few calls, tagged, found as garbage."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.aws_account import ScriptedApi, run_in_virtual_time
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    ProviderScene,
    claim_requirements,
    node_claim,
    reservation_object,
    run_scene,
    running_instance,
)
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.aws.api.services import AwsResponse, Ec2, Params
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.instances import (
    BATCH_TAG,
    Ec2Instance,
    InstanceBatcher,
    InstanceProvider,
    parse_instance_id,
    provider_id,
    to_model_instance,
    without_awaited,
    without_claim,
)
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.clock import EPOCH, VirtualClock
from wainwright.errors import AwsError, InstanceNotFoundError
from wainwright.metrics import MetricsRegistry
from wainwright.model.labels import RESERVED, SPOT
from wainwright.model.node_claim import LaunchRecord

KNOWN = {f"i-{number}" for number in range(10)}


def row(identity: str) -> dict[str, Any]:
    return {
        "InstanceId": identity,
        "State": {"Name": "running"},
        "InstanceType": "m5.large",
        "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC),
        "Placement": {"AvailabilityZone": "us-east-1a"},
    }


def all_known(params: Params) -> list[str]:
    unknown = [each for each in params["InstanceIds"] if each not in KNOWN]
    if unknown:
        raise AwsError("InvalidInstanceID.NotFound", f"no {unknown}")
    return list(params["InstanceIds"])


def describe(params: Params) -> AwsResponse:
    return {"Reservations": [{"Instances": [row(each)]} for each in all_known(params)]}


def terminate(params: Params) -> AwsResponse:
    ended = [
        {"InstanceId": each, "CurrentState": {"Name": "shutting-down"}}
        for each in all_known(params)
    ]
    return {"TerminatingInstances": ended}


async def described(clock: VirtualClock, seam: ScriptedApi, *ids: str) -> list[Ec2Instance | None]:
    instance_batcher = InstanceBatcher(Ec2(seam), clock, MetricsRegistry())
    return await asyncio.gather(*(instance_batcher.describe(each) for each in ids))


async def terminated(clock: VirtualClock, seam: ScriptedApi, *ids: str) -> list[bool]:
    instance_batcher = InstanceBatcher(Ec2(seam), clock, MetricsRegistry())
    return await asyncio.gather(*(instance_batcher.terminate(each) for each in ids))


def test_descriptions_are_batched_and_each_id_is_requested_once() -> None:
    seam = ScriptedApi({"DescribeInstances": describe})
    found = run_in_virtual_time(lambda clock: described(clock, seam, "i-1", "i-2", "i-1"))
    assert [each and each.id for each in found] == ["i-1", "i-2", "i-1"]
    (asked,) = seam.calls_to("DescribeInstances")
    assert asked["InstanceIds"] == ["i-1", "i-2"]
    assert asked["Filters"][0]["Name"] == "instance-state-name"
    assert "MaxResults" not in asked


def test_an_unknown_id_does_not_fail_the_others() -> None:
    seam = ScriptedApi({"DescribeInstances": describe})
    found = run_in_virtual_time(lambda clock: described(clock, seam, "i-1", "i-none", "i-2"))
    assert [each and each.id for each in found] == ["i-1", None, "i-2"]
    assert len(seam.calls) == 4


def test_an_instance_missing_in_the_response_is_gone() -> None:
    seam = ScriptedApi({"DescribeInstances": {"Reservations": [{"Instances": [row("i-1")]}]}})
    found = run_in_virtual_time(lambda clock: described(clock, seam, "i-1", "i-2"))
    assert [each and each.id for each in found] == ["i-1", None]


def test_other_errors_are_raised() -> None:
    seam = ScriptedApi({"DescribeInstances": AwsError("InternalError", "broken", 500)})
    with pytest.raises(AwsError, match="InternalError"):
        run_in_virtual_time(lambda clock: described(clock, seam, "i-1", "i-2"))


def test_terminations_share_a_call() -> None:
    seam = ScriptedApi({"TerminateInstances": terminate})
    assert run_in_virtual_time(lambda clock: terminated(clock, seam, "i-1", "i-2")) == [True, True]
    assert len(seam.calls) == 1


def test_terminating_a_gone_instance_is_no_error() -> None:
    seam = ScriptedApi({"TerminateInstances": terminate})
    found = run_in_virtual_time(lambda clock: terminated(clock, seam, "i-1", "i-none"))
    assert found == [True, False]


def test_an_instance_left_running_is_terminated_again() -> None:
    running: AwsResponse = {
        "TerminatingInstances": [
            {"InstanceId": "i-1", "CurrentState": {"Name": "shutting-down"}},
            {"InstanceId": "i-2", "CurrentState": {"Name": "running"}},
        ]
    }
    seam = ScriptedApi({"TerminateInstances": [running, terminate]})
    assert run_in_virtual_time(lambda clock: terminated(clock, seam, "i-1", "i-2")) == [True, True]
    assert [params["InstanceIds"] for params in seam.calls_to("TerminateInstances")] == [
        ["i-1", "i-2"],
        ["i-2"],
    ]


def test_an_instance_that_is_gone_when_it_is_terminated_again_is_no_error() -> None:
    first: AwsResponse = {
        "TerminatingInstances": [{"InstanceId": "i-1", "CurrentState": {"Name": "shutting-down"}}]
    }
    gone = AwsError("InvalidInstanceID.NotFound", "gone", 400)
    seam = ScriptedApi({"TerminateInstances": [first, gone]})
    found = run_in_virtual_time(lambda clock: terminated(clock, seam, "i-1", "i-2"))
    assert found == [True, False]


def test_an_instance_that_does_not_terminate_is_an_error_for_its_caller() -> None:
    running: AwsResponse = {
        "TerminatingInstances": [{"InstanceId": "i-1", "CurrentState": {"Name": "running"}}]
    }
    seam = ScriptedApi({"TerminateInstances": running})
    with pytest.raises(AwsError, match="i-1 is not being terminated"):
        run_in_virtual_time(lambda clock: terminated(clock, seam, "i-1"))


ON_DEMAND = claim_requirements(capacity="on-demand")
MARK = LaunchRecord(token="t", batch="b", index=0, attempt=1, at=EPOCH)


def test_only_instances_of_this_cluster_are_listed() -> None:
    async def test(scene: ProviderScene) -> None:
        ours = await scene.launch(node_claim(1, ON_DEMAND), node_claim(2, ON_DEMAND))
        row = {"Key": "eks:eks-cluster-name", "Value": "another"}
        theirs = await scene.launch_one(node_claim(3, ON_DEMAND))
        scene.emulated.answer("ec2", "CreateTags", {"Resources": [theirs.id], "Tags": [row]})
        listed = await scene.cloud.instances()
        assert {each.id for each in listed} == {each.id for each in ours}
        assert {each.pool for each in listed} == {"web"}
        assert {each.node_class for each in listed} == {"default"}

    run_scene(test)


def test_a_gone_instance_is_not_found() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim(1, ON_DEMAND))
        assert (await scene.cloud.instance(found.id)).instance_type == found.instance_type
        await scene.cloud.terminate(found.id)
        await scene.cloud.terminate(found.id)  # it is terminating already
        await scene.clock.sleep(60)
        for gone in (found.id, "i-00000000000000000", "nonsense"):
            with pytest.raises(InstanceNotFoundError):
                await scene.cloud.instance(gone)
            with pytest.raises(InstanceNotFoundError):
                await scene.cloud.terminate(gone)
        assert not await scene.cloud.instances()

    run_scene(test)


def test_terminations_are_batched() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch(*(node_claim(number, ON_DEMAND) for number in range(1, 6)))
        await asyncio.gather(*(scene.cloud.terminate(each.id) for each in found))
        assert len(scene.seam.calls_to("TerminateInstances")) == 1
        assert not scene.running()

    run_scene(test)


def test_an_instance_is_tagged_once_its_node_has_joined() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim(1, ON_DEMAND))
        for _ in range(2):
            await scene.cloud.tag(found.id, node="ip-10-0-0-1", claim="web-1")
        (request,) = scene.seam.calls_to("CreateTags")
        assert {pair["Key"]: pair["Value"] for pair in request["Tags"]} == {
            "Name": "ip-10-0-0-1",
            "karpenter.sh/nodeclaim": "web-1",
        }
        assert (await scene.cloud.instance(found.id)).claim == "web-1"

    run_scene(test)


def test_a_name_tag_of_the_class_stays() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(tags={"Name": "ours"})
        found = await scene.launch_one(node_claim(1, ON_DEMAND))
        await scene.cloud.tag(found.id, node="ip-10-0-0-1", claim="web-1")
        (request,) = scene.seam.calls_to("CreateTags")
        assert [pair["Key"] for pair in request["Tags"]] == ["karpenter.sh/nodeclaim"]

    run_scene(test)


def test_tagging_is_limited_to_one_per_second() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch(*(node_claim(number, ON_DEMAND) for number in range(1, 5)))
        begun = scene.clock.now()
        await asyncio.gather(*(scene.cloud.tag(each.id, node="n", claim="c") for each in found))
        assert 3 <= scene.clock.now() - begun < 4

    run_scene(test)


def test_a_gone_instance_cannot_be_tagged() -> None:
    async def test(scene: ProviderScene) -> None:
        with pytest.raises(InstanceNotFoundError):
            await scene.cloud.tag("i-00000000000000000", node="n", claim="c")

    run_scene(test)


def test_instances_without_a_claim_are_garbage_after_half_a_minute() -> None:
    async def test(scene: ProviderScene) -> None:
        kept, lost = await scene.launch(node_claim(1, ON_DEMAND), node_claim(2, ON_DEMAND))
        del scene.store.claims["uid-2"]
        claims = list(scene.store.claims.values())
        for _ in range(2):  # half a minute since it was first seen, however old it is
            found = await scene.cloud.find_garbage(claims)
            assert (found.instances, found.is_complete) == ((), False)
            await scene.clock.sleep(29)
        await scene.clock.sleep(2)
        found = await scene.cloud.find_garbage(claims)
        assert ([each.id for each in found.instances], found.is_complete) == ([lost.id], True)
        await scene.cloud.terminate(lost.id)
        found = await scene.cloud.find_garbage(claims)
        assert (found.instances, found.is_complete) == ((), True)
        assert [each.id for each in scene.running()] == [kept.id]

    run_scene(test)


OURS = {BATCH_TAG: "b"}
CASES: list[tuple[str, dict[str, Any], dict[str, Any], set[str], bool]] = [
    ("nobody's", {}, {}, set(), True),
    ("owned", {}, {"instance": "i-1"}, set(), False),
    ("ending", {"state": "shutting-down"}, {}, set(), False),
    ("awaited by a claim", {"tags": OURS}, {"launch_record": MARK}, set(), False),
    (
        "the claim has another",
        {"tags": OURS},
        {"launch_record": MARK, "instance": "i-2"},
        set(),
        True,
    ),
    ("under way", {"tags": OURS}, {}, {"b"}, False),
    ("of another batch", {"tags": {BATCH_TAG: "c"}}, {"launch_record": MARK}, {"b"}, True),
]


@pytest.mark.parametrize(
    ("fields", "owner", "flying", "collected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_which_instances_are_garbage(
    fields: dict[str, Any], owner: dict[str, Any], flying: set[str], collected: bool
) -> None:
    claims = [node_claim(1, **owner)]
    unclaimed = without_claim([running_instance(**fields)], claims)
    found = without_awaited(unclaimed, claims, flying)
    assert bool(found) is collected


def test_the_model_instance_has_the_data_of_ec2() -> None:
    plain = to_model_instance(
        running_instance(zone_id="use1-az1", tags={"karpenter.sh/nodepool": "web"})
    )
    assert plain.provider_id == "aws:///us-east-1a/i-1"
    assert (plain.capacity_type, plain.pool) == ("on-demand", "web")
    assert plain.labels == {
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": "us-east-1a",
        "topology.k8s.aws/zone-id": "use1-az1",
        "karpenter.sh/capacity-type": "on-demand",
    }
    assert to_model_instance(running_instance(spot=True)).capacity_type == SPOT
    held = to_model_instance(running_instance(reservation_id="cr-1"))
    assert (held.capacity_type, held.reservation_id) == (RESERVED, "cr-1")
    assert held.labels["karpenter.k8s.aws/capacity-reservation-id"] == "cr-1"


def test_an_instance_in_an_open_reservation_is_on_demand() -> None:
    found = to_model_instance(
        running_instance(reservation_id="cr-1", reservation_preference="open")
    )
    assert (found.capacity_type, found.reservation_id) == ("on-demand", "")


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("aws:///us-east-1a/i-0123", "i-0123"),
        ("aws:///us-east-1a/subnet-1", ""),
        ("kwok://node-1", ""),
        ("", ""),
    ],
)
def test_the_id_within_a_provider_id(text: str, identity: str) -> None:
    assert parse_instance_id(text) == identity
    if identity:
        assert provider_id(running_instance(identity)) == text


def test_terminating_a_reserved_instance_frees_its_capacity() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        found = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        catalog = await scene.cloud.catalog("web")
        assert [each.available for each in catalog.reservations] == [1]
        await scene.cloud.terminate(found.id)
        catalog = await scene.cloud.catalog("web")
        assert [each.available for each in catalog.reservations] == [2]

    run_scene(test, reservation_object(1, 2))


@pytest.mark.parametrize(
    ("preference", "expected"), [("capacity-reservations-only", 2), ("open", 1)]
)
def test_only_instances_launched_into_a_reservation_are_given_back_to_it(
    preference: str, expected: int
) -> None:
    """One that EC2 put into an open reservation was never subtracted from its count."""
    specification = {"CapacityReservationPreference": preference}
    placed = {
        "CapacityReservationId": "cr-00000001",
        "CapacityReservationSpecification": specification,
    }
    instances = [{"Instances": [row("i-1") | placed]}]
    seam = ScriptedApi(
        {
            "DescribeInstances": lambda _: {"Reservations": instances},
            "TerminateInstances": terminate,
        }
    )

    async def main(clock: VirtualClock) -> int:
        availability = ReservationAvailability(clock)
        availability.record_counts([reservation_object(1, 2, available=1)], clock.now())
        await _instance_provider(seam, clock, availability).terminate("i-1")
        return availability.available_count("cr-00000001")

    assert run_in_virtual_time(main) == expected


def _instance_provider(
    seam: ScriptedApi,
    clock: VirtualClock,
    availability: ReservationAvailability,
    metrics: MetricsRegistry | None = None,
) -> InstanceProvider:
    registry = metrics or MetricsRegistry()
    batcher = InstanceBatcher(Ec2(seam), clock, registry)
    cluster = ClusterConfig(name="wain", region="us-east-1")
    return InstanceProvider(Ec2(seam), batcher, cluster, availability, clock, registry)


def test_an_instance_that_ec2_does_not_terminate_is_counted_by_zone_and_reason() -> None:
    metrics = MetricsRegistry()
    state = {"InstanceId": "i-1", "CurrentState": {"Name": "running"}}
    described: AwsResponse = {"Reservations": [{"Instances": [row("i-1")]}]}
    running: AwsResponse = {"TerminatingInstances": [state]}
    seam = ScriptedApi({"DescribeInstances": described, "TerminateInstances": running})

    async def main(clock: VirtualClock) -> None:
        availability = ReservationAvailability(clock)
        await _instance_provider(seam, clock, availability, metrics).terminate("i-1")

    with pytest.raises(AwsError):
        run_in_virtual_time(main)
    name = "karpenter_cloudprovider_instance_termination_failures_total"
    labels = {"capacity_type": "on-demand", "reason": "IncorrectInstanceState"}
    zone = row("i-1")["Placement"]["AvailabilityZone"]
    assert ScrapedMetrics(metrics).value(name, zone=zone, **labels) == 1
