"""Instances after their launch: listed, tagged, checked, terminated."""

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
def two_filters_for_keys_and_what_the_client_reads(client: HttpClient) -> None:
    (identity,) = launch_instances(client)
    (odd,) = launch_instances(client)
    client.call(
        "ec2", "DeleteTags", Resources=[odd], Tags=[{"Key": "karpenter.k8s.aws/ec2nodeclass"}]
    )
    groups = [
        group
        for page in fetch_pages(
            client, "ec2", "DescribeInstances", "Reservations", Filters=OURS, MaxResults=1000
        )
        for group in page
    ]
    found = {each["InstanceId"]: each for group in groups for each in group["Instances"]}
    assert odd not in found
    instance = found[identity]
    assert instance["State"]["Name"] in ("pending", "running")
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert instance["Placement"]["Tenancy"] == "default"
    assert instance["InstanceType"] == "m5.large"
    assert instance["SubnetId"] == subnets_by_zone(client)["us-east-1a"]
    assert instance["NetworkInterfaces"][0]["InterfaceType"] == "interface"
    specification = instance["CapacityReservationSpecification"]
    assert specification["CapacityReservationPreference"] == "none"


@client_check("calls DescribeInstances by id", "needs 9")
def the_same_id_twice_with_a_filter(client: HttpClient) -> None:
    (identity,) = launch_instances(client)
    twice = {"InstanceIds": [identity, identity], "Filters": [ALIVE]}
    assert [each["InstanceId"] for each in describe_instances(client, **twice)] == [identity]
    (instance,) = describe_instances(client, **twice)
    now = datetime.now(UTC)
    assert now - timedelta(minutes=1) < instance["LaunchTime"] <= now
    tags = {pair["Key"] for pair in instance["Tags"]}
    assert "karpenter.sh/nodepool" in tags
    wrong = {"InstanceIds": ["i-0123456789abcdef0"], "Filters": [ALIVE]}
    assert expect_error(client, "ec2", "DescribeInstances", **wrong) == GONE


@client_check("calls DescribeInstances by id", "needs 9", own_account=True)
def a_terminated_instance_is_filtered_out_and_later_gone(client: HttpClient) -> None:
    change_emulator(client, pace={"shutdown": {"median": 0}, "remembered": 0})
    (identity,) = launch_instances(client)
    other = launch_instances(client)
    client.call("ec2", "TerminateInstances", InstanceIds=[identity])
    assert expect_error(client, "ec2", "DescribeInstances", InstanceIds=[identity]) == GONE
    change_emulator(client, pace={"shutdown": {"median": 0}})
    client.call("ec2", "TerminateInstances", InstanceIds=other)
    assert describe_instances(client, InstanceIds=other, Filters=[ALIVE]) == []
    (shown,) = describe_instances(client, InstanceIds=other)
    assert shown["State"]["Name"] == "terminated"


@client_check("calls CreateTags")
def tags_once_a_node_has_a_name(client: HttpClient) -> None:
    (identity,) = launch_instances(client)
    name = unique_name("ip-192-168-0-1.ec2.internal")
    tags = [{"Key": "Name", "Value": name}, {"Key": "karpenter.sh/nodeclaim", "Value": "default-1"}]
    client.call("ec2", "CreateTags", Resources=[identity], Tags=tags)
    requested = [{"Name": "tag:Name", "Values": [name]}]
    assert [each["InstanceId"] for each in describe_instances(client, Filters=requested)] == [
        identity
    ]
    missing = {"Resources": ["i-0123456789abcdef0"], "Tags": tags}
    assert expect_error(client, "ec2", "CreateTags", **missing) == GONE


@client_check("calls TerminateInstances", "needs 10")
def what_is_terminated_is_shutting_down_and_gives_back_what_it_had(client: HttpClient) -> None:
    identity = create_reservation(client, 3)
    request = fleet_request(
        template_config(
            create_template(client, identity), [fleet_override(client, "m5.large", "us-east-1a")]
        ),
        number=3,
    )
    (created,) = client.call("ec2", "CreateFleet", **request)["Instances"]

    def free() -> int:
        (shown,) = client.call(
            "ec2", "DescribeCapacityReservations", CapacityReservationIds=[identity]
        )["CapacityReservations"]
        return int(shown["AvailableInstanceCount"])

    assert free() == 0
    response = client.call("ec2", "TerminateInstances", InstanceIds=created["InstanceIds"])
    states = {
        each["InstanceId"]: each["CurrentState"]["Name"]
        for each in response["TerminatingInstances"]
    }
    assert states == dict.fromkeys(created["InstanceIds"], "shutting-down")
    assert free() == 3
    wrong = ["i-0123456789abcdef0", created["InstanceIds"][0]]
    assert expect_error(client, "ec2", "TerminateInstances", InstanceIds=wrong) == GONE


@client_check("calls DescribeInstanceStatus", "needs 4", own_account=True)
def only_impaired_instances_are_described(client: HttpClient) -> None:
    change_emulator(client, pace={"boot": {"median": 0}})
    ill, bad, doomed, _ = (launch_instances(client)[0] for _ in range(4))
    change_emulator(
        client,
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
        requested = [{"Name": name, "Values": values}]
        found = client.call("ec2", "DescribeInstanceStatus", Filters=requested)["InstanceStatuses"]
        assert [each["InstanceId"] for each in found] == [expected]
    (status,) = client.call(
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
def the_address_of_the_queue(client: HttpClient) -> None:
    where = client.call("sqs", "GetQueueUrl", QueueName="wain")["QueueUrl"]
    assert where.startswith(client.endpoint)
    assert where.endswith("/wain")


@client_check("calls ReceiveMessage", "calls DeleteMessage", "needs 11")
def a_long_poll_waits_and_wakes_up(client: HttpClient) -> None:
    where = client.call("sqs", "CreateQueue", QueueName=unique_name("poll"))["QueueUrl"]
    params = {
        "QueueUrl": where,
        "WaitTimeSeconds": 20,
        "MaxNumberOfMessages": 10,
        "VisibilityTimeout": 20,
        "AttributeNames": ["SentTimestamp"],
        "MessageAttributeNames": ["All"],
    }
    with ThreadPoolExecutor(1) as threads:
        poll = threads.submit(client.call, "sqs", "ReceiveMessage", **params)
        begin = monotonic()
        client.call("ec2", "DescribeAvailabilityZones")  # handled during the long poll
        assert not poll.done()
        client.call("sqs", "SendMessage", QueueUrl=where, MessageBody="wake up")
        (got,) = poll.result(timeout=10)["Messages"]
    assert monotonic() - begin < 10
    assert got["Body"] == "wake up"
    assert client.call("sqs", "ReceiveMessage", **{**params, "WaitTimeSeconds": 0}) == {}
    client.call("sqs", "DeleteMessage", QueueUrl=where, ReceiptHandle=got["ReceiptHandle"])
    begin = monotonic()
    assert client.call("sqs", "ReceiveMessage", **{**params, "WaitTimeSeconds": 1}) == {}
    assert monotonic() - begin >= 1


@client_check("calls interruptions", own_account=True)
def the_messages_about_interruptions(client: HttpClient) -> None:
    change_emulator(client, pace={"boot": {"median": 0}})
    (spot,) = launch_instances(client, spot=True)
    where = client.call("sqs", "GetQueueUrl", QueueName="wain")["QueueUrl"]
    change_emulator(client, interruptions=[{"instance": spot, "kind": "spot"}])
    change_emulator(client, interruptions=[{"instance": spot, "kind": "rebalance"}])
    bodies = []
    for _ in range(5):
        response = client.call("sqs", "ReceiveMessage", QueueUrl=where, MaxNumberOfMessages=10)
        bodies += [json.loads(each["Body"]) for each in response.get("Messages", [])]
    content = {body["detail-type"]: body for body in bodies}
    warning = content["EC2 Spot Instance Interruption Warning"]
    assert warning["version"] == "0"
    assert warning["source"] == "aws.ec2"
    assert warning["detail"]["instance-id"] == spot
    assert warning["detail"]["instance-action"] == "terminate"
    assert content["EC2 Instance Rebalance Recommendation"]["detail"]["instance-id"] == spot
    started = content["EC2 Instance State-change Notification"]
    assert started["detail"]["state"] in ("pending", "running")
    assert all(first["time"] <= two["time"] for first, two in pairwise(bodies))
