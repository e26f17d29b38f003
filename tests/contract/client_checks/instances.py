"""Machines after their launch: listed, tagged, checked, terminated."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic

from tests.contract.client_checks.setup import (
    ALIVE,
    change_emulator,
    create_reservation,
    create_template,
    describe_instances,
    fleet_override,
    fleet_request,
    launch_instances,
    subnets_by_zone,
    template_config,
    unique_name,
)
from tests.contract.clients import HttpClient, expect_error, fetch_pages
from tests.contract.registry import client_check

OURS = [
    {"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]},
    {"Name": "tag-key", "Values": ["karpenter.k8s.aws/ec2nodeclass"]},
    {"Name": "tag:eks:eks-cluster-name", "Values": ["wain"]},
    ALIVE,
]
GONE = ("InvalidInstanceID.NotFound", 400)


@client_check("calls DescribeInstances by tag", "needs 4")
def two_filters_for_keys_and_what_the_client_reads(door: HttpClient) -> None:
    (identity,) = launch_instances(door)
    (odd,) = launch_instances(door)
    door.ask("ec2", "DeleteTags", Resources=[odd], Tags=[{"Key": "karpenter.k8s.aws/ec2nodeclass"}])
    groups = [
        group
        for page in fetch_pages(
            door, "ec2", "DescribeInstances", "Reservations", Filters=OURS, MaxResults=1000
        )
        for group in page
    ]
    found = {each["InstanceId"]: each for group in groups for each in group["Instances"]}
    assert odd not in found
    machine = found[identity]
    assert machine["State"]["Name"] in ("pending", "running")
    assert machine["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert machine["Placement"]["Tenancy"] == "default"
    assert machine["InstanceType"] == "m5.large"
    assert machine["SubnetId"] == subnets_by_zone(door)["us-east-1a"]
    assert machine["NetworkInterfaces"][0]["InterfaceType"] == "interface"
    specification = machine["CapacityReservationSpecification"]
    assert specification["CapacityReservationPreference"] == "none"


@client_check("calls DescribeInstances by id", "needs 9")
def the_same_id_twice_with_a_filter(door: HttpClient) -> None:
    (identity,) = launch_instances(door)
    twice = {"InstanceIds": [identity, identity], "Filters": [ALIVE]}
    assert [each["InstanceId"] for each in describe_instances(door, **twice)] == [identity]
    (machine,) = describe_instances(door, **twice)
    now = datetime.now(UTC)
    assert now - timedelta(minutes=1) < machine["LaunchTime"] <= now
    tags = {pair["Key"] for pair in machine["Tags"]}
    assert "karpenter.sh/nodepool" in tags
    wrong = {"InstanceIds": ["i-0123456789abcdef0"], "Filters": [ALIVE]}
    assert expect_error(door, "ec2", "DescribeInstances", **wrong) == GONE


@client_check("calls DescribeInstances by id", "needs 9", alone=True)
def a_terminated_machine_leaves_by_filter_and_then_for_good(door: HttpClient) -> None:
    change_emulator(door, pace={"shutdown": {"median": 0}, "remembered": 0})
    (identity,) = launch_instances(door)
    other = launch_instances(door)
    door.ask("ec2", "TerminateInstances", InstanceIds=[identity])
    assert expect_error(door, "ec2", "DescribeInstances", InstanceIds=[identity]) == GONE
    change_emulator(door, pace={"shutdown": {"median": 0}})
    door.ask("ec2", "TerminateInstances", InstanceIds=other)
    assert describe_instances(door, InstanceIds=other, Filters=[ALIVE]) == []
    (shown,) = describe_instances(door, InstanceIds=other)
    assert shown["State"]["Name"] == "terminated"


@client_check("calls CreateTags")
def tags_once_a_node_has_a_name(door: HttpClient) -> None:
    (identity,) = launch_instances(door)
    name = unique_name("ip-192-168-0-1.ec2.internal")
    tags = [{"Key": "Name", "Value": name}, {"Key": "karpenter.sh/nodeclaim", "Value": "default-1"}]
    door.ask("ec2", "CreateTags", Resources=[identity], Tags=tags)
    wanted = [{"Name": "tag:Name", "Values": [name]}]
    assert [each["InstanceId"] for each in describe_instances(door, Filters=wanted)] == [identity]
    missing = {"Resources": ["i-0123456789abcdef0"], "Tags": tags}
    assert expect_error(door, "ec2", "CreateTags", **missing) == GONE


@client_check("calls TerminateInstances", "needs 10")
def what_is_terminated_is_shutting_down_and_gives_back_what_it_had(door: HttpClient) -> None:
    identity = create_reservation(door, 3)
    request = fleet_request(
        template_config(
            create_template(door, identity), [fleet_override(door, "m5.large", "us-east-1a")]
        ),
        number=3,
    )
    (made,) = door.ask("ec2", "CreateFleet", **request)["Instances"]

    def free() -> int:
        (shown,) = door.ask(
            "ec2", "DescribeCapacityReservations", CapacityReservationIds=[identity]
        )["CapacityReservations"]
        return int(shown["AvailableInstanceCount"])

    assert free() == 0
    answer = door.ask("ec2", "TerminateInstances", InstanceIds=made["InstanceIds"])
    states = {
        each["InstanceId"]: each["CurrentState"]["Name"] for each in answer["TerminatingInstances"]
    }
    assert states == dict.fromkeys(made["InstanceIds"], "shutting-down")
    assert free() == 3
    wrong = ["i-0123456789abcdef0", made["InstanceIds"][0]]
    assert expect_error(door, "ec2", "TerminateInstances", InstanceIds=wrong) == GONE


@client_check("calls DescribeInstanceStatus", "needs 4", alone=True)
def only_machines_that_something_is_wrong_with(door: HttpClient) -> None:
    change_emulator(door, pace={"boot": {"median": 0}})
    ill, bad, doomed, _ = (launch_instances(door)[0] for _ in range(4))
    change_emulator(
        door,
        interruptions=[
            {"instance": ill, "kind": "instance-check"},
            {"instance": bad, "kind": "system-check"},
            {"instance": doomed, "kind": "instance-retirement", "seconds": 3600},
        ],
    )
    events = ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement"]
    for name, values, expected in (
        ("instance-status.status", ["impaired"], ill),
        ("system-status.status", ["impaired"], bad),
        ("event.code", [*events, "instance-stop"], doomed),
    ):
        wanted = [{"Name": name, "Values": values}]
        found = door.ask("ec2", "DescribeInstanceStatus", Filters=wanted)["InstanceStatuses"]
        assert [each["InstanceId"] for each in found] == [expected]
    (status,) = door.ask(
        "ec2",
        "DescribeInstanceStatus",
        Filters=[{"Name": "instance-status.status", "Values": ["impaired"]}],
    )["InstanceStatuses"]
    (detail,) = status["InstanceStatus"]["Details"]
    assert (detail["Name"], detail["Status"]) == ("reachability", "failed")
    assert detail["ImpairedSince"].tzinfo is not None
    assert status["SystemStatus"]["Status"] == "ok"
    assert status["AttachedEbsStatus"]["Status"] in ("ok", "not-applicable")


@client_check("calls GetQueueUrl")
def the_address_of_the_queue(door: HttpClient) -> None:
    where = door.ask("sqs", "GetQueueUrl", QueueName="wain")["QueueUrl"]
    assert where.startswith(door.endpoint)
    assert where.endswith("/wain")


@client_check("calls ReceiveMessage", "calls DeleteMessage", "needs 11")
def a_long_poll_waits_and_wakes_up(door: HttpClient) -> None:
    where = door.ask("sqs", "CreateQueue", QueueName=unique_name("poll"))["QueueUrl"]
    asked = {
        "QueueUrl": where,
        "WaitTimeSeconds": 20,
        "MaxNumberOfMessages": 10,
        "VisibilityTimeout": 20,
        "AttributeNames": ["SentTimestamp"],
        "MessageAttributeNames": ["All"],
    }
    with ThreadPoolExecutor(1) as threads:
        poll = threads.submit(door.ask, "sqs", "ReceiveMessage", **asked)
        begin = monotonic()
        door.ask("ec2", "DescribeAvailabilityZones")  # answered while the poll is held
        assert not poll.done()
        door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody="wake up")
        (got,) = poll.result(timeout=10)["Messages"]
    assert monotonic() - begin < 10
    assert got["Body"] == "wake up"
    assert door.ask("sqs", "ReceiveMessage", **{**asked, "WaitTimeSeconds": 0}) == {}
    door.ask("sqs", "DeleteMessage", QueueUrl=where, ReceiptHandle=got["ReceiptHandle"])
    begin = monotonic()
    assert door.ask("sqs", "ReceiveMessage", **{**asked, "WaitTimeSeconds": 1}) == {}
    assert monotonic() - begin >= 1


@client_check("calls interruptions", alone=True)
def the_messages_about_interruptions(door: HttpClient) -> None:
    change_emulator(door, pace={"boot": {"median": 0}})
    (spot,) = launch_instances(door, spot=True)
    where = door.ask("sqs", "GetQueueUrl", QueueName="wain")["QueueUrl"]
    change_emulator(door, interruptions=[{"instance": spot, "kind": "spot"}])
    change_emulator(door, interruptions=[{"instance": spot, "kind": "rebalance"}])
    bodies = []
    for _ in range(5):
        answer = door.ask("sqs", "ReceiveMessage", QueueUrl=where, MaxNumberOfMessages=10)
        bodies += [json.loads(each["Body"]) for each in answer.get("Messages", [])]
    said = {body["detail-type"]: body for body in bodies}
    warning = said["EC2 Spot Instance Interruption Warning"]
    assert warning["version"] == "0"
    assert warning["source"] == "aws.ec2"
    assert warning["detail"]["instance-id"] == spot
    assert warning["detail"]["instance-action"] == "terminate"
    assert said["EC2 Instance Rebalance Recommendation"]["detail"]["instance-id"] == spot
    started = said["EC2 Instance State-change Notification"]
    assert started["detail"]["state"] in ("pending", "running")
    assert all(one["time"] <= two["time"] for one, two in pairwise(bodies))
