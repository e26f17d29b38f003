"""Machines after their launch: listed, tagged, checked, terminated."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic

from tests.contract.doors import OverHttp, pages, refusal
from tests.contract.line import line
from tests.contract.lines.scene import (
    ALIVE,
    change,
    config,
    fleet,
    launched,
    machines,
    pool,
    reserve,
    subnets,
    template,
    unique,
)

OURS = [
    {"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]},
    {"Name": "tag-key", "Values": ["karpenter.k8s.aws/ec2nodeclass"]},
    {"Name": "tag:eks:eks-cluster-name", "Values": ["wain"]},
    ALIVE,
]
GONE = ("InvalidInstanceID.NotFound", 400)


@line("calls DescribeInstances by tag", "needs 4")
def two_filters_for_keys_and_what_the_client_reads(door: OverHttp) -> None:
    (identity,) = launched(door)
    (odd,) = launched(door)
    door.ask("ec2", "DeleteTags", Resources=[odd], Tags=[{"Key": "karpenter.k8s.aws/ec2nodeclass"}])
    groups = [
        group
        for page in pages(
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
    assert machine["SubnetId"] == subnets(door)["us-east-1a"]
    assert machine["NetworkInterfaces"][0]["InterfaceType"] == "interface"
    specification = machine["CapacityReservationSpecification"]
    assert specification["CapacityReservationPreference"] == "none"


@line("calls DescribeInstances by id", "needs 9")
def the_same_id_twice_with_a_filter(door: OverHttp) -> None:
    (identity,) = launched(door)
    twice = {"InstanceIds": [identity, identity], "Filters": [ALIVE]}
    assert [each["InstanceId"] for each in machines(door, **twice)] == [identity]
    (machine,) = machines(door, **twice)
    now = datetime.now(UTC)
    assert now - timedelta(minutes=1) < machine["LaunchTime"] <= now
    tags = {pair["Key"] for pair in machine["Tags"]}
    assert "karpenter.sh/nodepool" in tags
    wrong = {"InstanceIds": ["i-0123456789abcdef0"], "Filters": [ALIVE]}
    assert refusal(door, "ec2", "DescribeInstances", **wrong) == GONE


@line("calls DescribeInstances by id", "needs 9", alone=True)
def a_terminated_machine_leaves_by_filter_and_then_for_good(door: OverHttp) -> None:
    change(door, pace={"shutdown": {"median": 0}, "remembered": 0})
    (identity,) = launched(door)
    other = launched(door)
    door.ask("ec2", "TerminateInstances", InstanceIds=[identity])
    assert refusal(door, "ec2", "DescribeInstances", InstanceIds=[identity]) == GONE
    change(door, pace={"shutdown": {"median": 0}})
    door.ask("ec2", "TerminateInstances", InstanceIds=other)
    assert machines(door, InstanceIds=other, Filters=[ALIVE]) == []
    (shown,) = machines(door, InstanceIds=other)
    assert shown["State"]["Name"] == "terminated"


@line("calls CreateTags")
def tags_once_a_node_has_a_name(door: OverHttp) -> None:
    (identity,) = launched(door)
    name = unique("ip-192-168-0-1.ec2.internal")
    tags = [{"Key": "Name", "Value": name}, {"Key": "karpenter.sh/nodeclaim", "Value": "default-1"}]
    door.ask("ec2", "CreateTags", Resources=[identity], Tags=tags)
    wanted = [{"Name": "tag:Name", "Values": [name]}]
    assert [each["InstanceId"] for each in machines(door, Filters=wanted)] == [identity]
    missing = {"Resources": ["i-0123456789abcdef0"], "Tags": tags}
    assert refusal(door, "ec2", "CreateTags", **missing) == GONE


@line("calls TerminateInstances", "needs 10")
def what_is_terminated_is_shutting_down_and_gives_back_what_it_had(door: OverHttp) -> None:
    identity = reserve(door, 3)
    request = fleet(
        config(template(door, identity), [pool(door, "m5.large", "us-east-1a")]), number=3
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
    assert refusal(door, "ec2", "TerminateInstances", InstanceIds=wrong) == GONE


@line("calls DescribeInstanceStatus", "needs 4", alone=True)
def only_machines_that_something_is_wrong_with(door: OverHttp) -> None:
    change(door, pace={"boot": {"median": 0}})
    ill, bad, doomed, _ = (launched(door)[0] for _ in range(4))
    change(
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


@line("calls GetQueueUrl")
def the_address_of_the_queue(door: OverHttp) -> None:
    where = door.ask("sqs", "GetQueueUrl", QueueName="wain")["QueueUrl"]
    assert where.startswith(door.endpoint)
    assert where.endswith("/wain")


@line("calls ReceiveMessage", "calls DeleteMessage", "needs 11")
def a_long_poll_waits_and_wakes_up(door: OverHttp) -> None:
    where = door.ask("sqs", "CreateQueue", QueueName=unique("poll"))["QueueUrl"]
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


@line("calls interruptions", alone=True)
def the_messages_about_interruptions(door: OverHttp) -> None:
    change(door, pace={"boot": {"median": 0}})
    (spot,) = launched(door, spot=True)
    where = door.ask("sqs", "GetQueueUrl", QueueName="wain")["QueueUrl"]
    change(door, interruptions=[{"instance": spot, "kind": "spot"}])
    change(door, interruptions=[{"instance": spot, "kind": "rebalance"}])
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
