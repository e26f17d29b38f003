"""The entrance: registry, dry runs, throttling, faults, lost replies, the log, and waiting."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.emulated import Account, refusal

from wainwright.api.cloud import Cloud, CloudSpec
from wainwright.clock import VirtualClock
from wainwright.emulator.cloud import Call, EmulatedCloud
from wainwright.emulator.faults import Fault, When
from wainwright.emulator.settings import Settings
from wainwright.emulator.throttle import Limit

SPEC = CloudSpec(region="us-west-2", instanceTypes=["m5.large"])


def account(**settings: Any) -> Account:
    return Account(SPEC, settings=Settings(**settings))


@pytest.mark.parametrize(
    ("service", "operation"),
    [("ec2", "MakeTea"), ("ec2", "GetParameter"), ("teahouse", "MakeTea"), ("iam", "")],
)
def test_what_nobody_knows_is_an_invalid_action(service: str, operation: str) -> None:
    cloud = account().cloud
    assert refusal(lambda: cloud.answer(service, operation, {})) == ("InvalidAction", 400)


OPERATIONS = {
    "ec2": """CancelCapacityReservation CreateCapacityReservation CreateFleet CreateLaunchTemplate
        CreateSecurityGroup CreateSubnet CreateTags CreateVpc DeleteLaunchTemplate
        DescribeAvailabilityZones DescribeCapacityReservations DescribeImages
        DescribeInstanceAttribute DescribeInstanceStatus DescribeInstanceTypeOfferings
        DescribeInstanceTypes DescribeInstances DescribeLaunchTemplates DescribePlacementGroups
        DescribeSecurityGroups DescribeSpotPriceHistory DescribeSubnets DescribeTags DescribeVpcs
        ModifyCapacityReservation ModifyInstanceCapacityReservationAttributes RegisterImage
        RunInstances TerminateInstances""",
    "pricing": "GetProducts",
    "ssm": "GetParameter PutParameter",
    "eks": "CreateCluster DescribeCluster",
    "iam": """AddRoleToInstanceProfile CreateInstanceProfile CreateRole DeleteInstanceProfile
        GetInstanceProfile GetRole ListInstanceProfiles RemoveRoleFromInstanceProfile""",
    "sqs": "CreateQueue DeleteMessage GetQueueAttributes GetQueueUrl ReceiveMessage SendMessage",
}


@pytest.mark.parametrize("service", OPERATIONS)
def test_what_clients_need_is_there(service: str) -> None:
    cloud = account().cloud
    known = {
        operation
        for part in cloud.parts.all()
        if part.name == service
        for operation in part.operations()
    }
    assert set(OPERATIONS[service].split()) <= known


def test_no_two_parts_answer_the_same_operation() -> None:
    named = [
        (part.name, operation)
        for part in account().cloud.parts.all()
        for operation in part.operations()
    ]
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("DescribeInstanceTypes", {}),
        ("CreateVpc", {"CidrBlock": "10.0.0.0/16"}),
        ("CreateTags", {"Resources": ["vpc-1"], "Tags": [{"Key": "a", "Value": "b"}]}),
        ("CreateLaunchTemplate", {"LaunchTemplateName": "new", "LaunchTemplateData": {}}),
    ],
)
def test_a_dry_run_changes_nothing(operation: str, params: dict[str, Any]) -> None:
    world = account()
    before = world.cloud.save()
    assert world.refused(operation, DryRun=True, **params) == ("DryRunOperation", 412)
    assert world.cloud.save() == before


def test_nobody_is_throttled_unless_asked() -> None:
    world = account()
    for _ in range(500):
        world.cloud.answer("ec2", "DescribeVpcs", {})


def test_throttling_is_by_operation_and_time() -> None:
    world = account(throttling=(Limit(operation="Describe*", rate=1, burst=2),))
    for operation in ("DescribeVpcs", "DescribeSubnets"):
        world.ask(operation)
        world.ask(operation)
        assert world.refused(operation) == ("RequestLimitExceeded", 503)
    world.clock.time += 1
    world.ask("DescribeVpcs")
    assert world.refused("DescribeVpcs") == ("RequestLimitExceeded", 503)
    world.ask("CreateVpc", CidrBlock="10.0.0.0/16")


def test_a_fault_before_the_handler_lets_nothing_happen() -> None:
    fault = Fault(operation="CreateVpc", code="InternalError", status=500, times=1)
    world = account(faults=(fault,))
    assert world.refused("CreateVpc", CidrBlock="10.0.0.0/16") == ("InternalError", 500)
    assert len(world.ask("DescribeVpcs")["Vpcs"]) == 1
    world.ask("CreateVpc", CidrBlock="10.0.0.0/16")


def test_a_lost_reply_is_of_something_that_has_happened() -> None:
    world = account(faults=(Fault(operation="CreateVpc", when=When.AFTER, times=1),))
    assert world.refused("CreateVpc", CidrBlock="10.0.0.0/16")[1] == 0
    assert len(world.ask("DescribeVpcs")["Vpcs"]) == 2


def test_the_log_has_every_call_and_how_it_ended() -> None:
    world, seen = account(), list[Call]()
    world.cloud.on_call = seen.append
    world.ask("DescribeVpcs", MaxResults=5)
    world.refused("DescribeVpcs", VpcIds=["vpc-1"])
    assert [(call.operation, call.params) for call in seen] == [
        ("DescribeVpcs", {"MaxResults": 5}),
        ("DescribeVpcs", {"VpcIds": ["vpc-1"]}),
    ]
    assert seen[0].error is None
    assert seen[1].error is not None
    assert seen[1].error.code == "InvalidVpcID.NotFound"


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    made = VirtualClock()
    yield made
    made.close()


def emulated(clock: VirtualClock, **settings: Any) -> EmulatedCloud:
    return EmulatedCloud(Cloud(spec=SPEC), clock=clock, settings=Settings(**settings))


def test_the_seam_answers_as_the_entrance_does(clock: VirtualClock) -> None:
    cloud = emulated(clock)
    assert clock.run(cloud.call("ec2", "DescribeVpcs", {})) == cloud.answer(
        "ec2", "DescribeVpcs", {}
    )


def test_latency_passes_on_the_clock(clock: VirtualClock) -> None:
    cloud, before = emulated(clock, latency=0.25), clock.now()
    clock.run(cloud.call("ec2", "DescribeVpcs", {}))
    assert clock.now() - before == pytest.approx(0.25)


def receive(cloud: EmulatedCloud, seconds: int) -> Any:
    asked = {"QueueUrl": cloud.account.queue_url, "WaitTimeSeconds": seconds}
    return cloud.call("sqs", "ReceiveMessage", asked)


def test_a_long_poll_waits_its_time(clock: VirtualClock) -> None:
    cloud, before = emulated(clock), clock.now()
    assert clock.run(receive(cloud, 20)) == {}
    assert clock.now() - before == pytest.approx(20)


def test_a_long_poll_wakes_up_for_a_message(clock: VirtualClock) -> None:
    cloud, before = emulated(clock), clock.now()

    async def both() -> Any:
        waiting = asyncio.create_task(receive(cloud, 20))
        await clock.sleep(3)
        sent = {"QueueUrl": cloud.account.queue_url, "MessageBody": "hello"}
        await cloud.call("sqs", "SendMessage", sent)
        return await waiting

    (message,) = clock.run(both())["Messages"]
    assert message["Body"] == "hello"
    assert clock.now() - before == pytest.approx(3)


def test_a_long_poll_is_logged_throttled_and_refused_as_any_call(clock: VirtualClock) -> None:
    limits = (Limit(service="sqs", rate=0.001, burst=1),)
    cloud, seen = emulated(clock, throttling=limits), list[Call]()
    cloud.on_call = seen.append
    clock.run(receive(cloud, 1))
    with pytest.raises(Exception, match="Throttling"):
        clock.run(receive(cloud, 1))
    assert [call.error and call.error.code for call in seen] == [None, "ThrottlingException"]


def test_the_same_seed_gives_the_same_world() -> None:
    worlds = [Account(SPEC, seed=seed).cloud.save() for seed in (1, 1, 2)]
    assert worlds[0] == worlds[1] != worlds[2]
