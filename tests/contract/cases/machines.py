"""Machines: launched, described, tagged, terminated."""

from functools import cache
from typing import Any

from tests.contract.case import case, fresh_name
from tests.contract.cases.network import subnet, vpc
from tests.contract.doors import Door, pages, refusal

NOT_FOUND = ("InvalidInstanceID.NotFound", 400)


@cache
def image(door: Door) -> str:
    """Any that the account knows."""
    found = door.ask(
        "ec2",
        "DescribeImages",
        Owners=["amazon"],
        Filters=[{"Name": "architecture", "Values": ["x86_64"]}],
    )
    return str(min(each["ImageId"] for each in found["Images"]))


def run(door: Door, number: int = 1, **tags: str) -> list[Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "instance", "Tags": pairs}]} if tags else {}
    return list(
        door.ask(
            "ec2",
            "RunInstances",
            ImageId=image(door),
            InstanceType="m5.large",
            MinCount=number,
            MaxCount=number,
            SubnetId=subnet(door, vpc(door))["SubnetId"],
            **more,
        )["Instances"]
    )


def described(door: Door, **params: Any) -> list[Any]:
    answer = door.ask("ec2", "DescribeInstances", **params)
    return [each for group in answer["Reservations"] for each in group["Instances"]]


def ids(machines: list[Any]) -> set[str]:
    return {each["InstanceId"] for each in machines}


@case()
def a_machine_is_what_was_asked_for(door: Door) -> None:
    (made,) = run(door, name="one")
    (found,) = described(door, InstanceIds=[made["InstanceId"]])
    assert found["InstanceType"] == "m5.large"
    assert found["SubnetId"] == made["SubnetId"]
    assert found["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert found["State"]["Name"] in ("pending", "running")
    assert found["ImageId"] == image(door)
    assert found["Tags"] == [{"Key": "name", "Value": "one"}]
    assert found["LaunchTime"].tzinfo is not None


@case()
def filters_of_one_name_are_joined_by_and(door: Door) -> None:
    mark = fresh_name("mark")
    both = ids(run(door, pool=mark, nodeclass=""))
    only = ids(run(door, pool=mark))
    mine = {"Name": "tag:pool", "Values": [mark]}
    keys = [{"Name": "tag-key", "Values": [key]} for key in ("pool", "nodeclass")]
    assert ids(described(door, Filters=[mine])) == both | only
    assert ids(described(door, Filters=[mine, *keys])) == both
    assert (
        ids(described(door, Filters=[mine, {"Name": "tag-key", "Values": ["p*"]}])) == both | only
    )


@case()
def ids_and_filters_go_together(door: Door) -> None:
    made = sorted(ids(run(door, 2)))
    alive = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    assert ids(described(door, InstanceIds=made, Filters=[alive])) == set(made)
    stopped = {"Name": "instance-state-name", "Values": ["stopped"]}
    assert described(door, InstanceIds=made, Filters=[stopped]) == []


@case(moto_wrong="an id that is named twice ends in a page of HTML")
def an_id_may_be_named_twice(door: Door) -> None:
    (made,) = ids(run(door))
    assert ids(described(door, InstanceIds=[made, made])) == {made}


@case()
def a_machine_that_does_not_exist_is_an_error(door: Door) -> None:
    wrong = ["i-0123456789abcdef0"]
    assert refusal(door, "ec2", "DescribeInstances", InstanceIds=wrong) == NOT_FOUND
    assert refusal(door, "ec2", "TerminateInstances", InstanceIds=wrong) == NOT_FOUND


@case()
def a_terminated_machine_is_shutting_down_first(door: Door) -> None:
    (made,) = ids(run(door))
    (ended,) = door.ask("ec2", "TerminateInstances", InstanceIds=[made])["TerminatingInstances"]
    assert ended["InstanceId"] == made
    assert ended["CurrentState"] == {"Code": 32, "Name": "shutting-down"}
    alive = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    assert described(door, InstanceIds=[made], Filters=[alive]) == []


@case()
def machines_come_in_pages(door: Door) -> None:
    mark = fresh_name("mark")
    made = ids(run(door, 7, page=mark))
    found: list[Any] = [
        each
        for page in pages(
            door,
            "ec2",
            "DescribeInstances",
            "Reservations",
            Filters=[{"Name": "tag:page", "Values": [mark]}],
            MaxResults=5,
        )
        for group in page
        for each in group["Instances"]
    ]
    assert ids(found) == made
    assert len(found) == 7


@case(moto_wrong="addresses that a machine gives back stay taken")
def a_machine_takes_an_address_and_gives_it_back(door: Door) -> None:
    (made,) = run(door)

    def free() -> int:
        (home,) = door.ask("ec2", "DescribeSubnets", SubnetIds=[made["SubnetId"]])["Subnets"]
        return int(home["AvailableIpAddressCount"])

    assert free() == 250
    door.ask("ec2", "TerminateInstances", InstanceIds=[made["InstanceId"]])
    wait_until_gone(door, made["InstanceId"])
    assert free() == 251


def wait_until_gone(door: Door, identity: str) -> None:
    """By a long poll of an empty queue: time passes on every clock, the virtual one as well."""
    where = door.ask("sqs", "CreateQueue", QueueName=fresh_name("wait"))["QueueUrl"]
    for _ in range(5):
        (found,) = described(door, InstanceIds=[identity])
        if found["State"]["Name"] == "terminated":
            return
        door.ask("sqs", "ReceiveMessage", QueueUrl=where, WaitTimeSeconds=1)
    raise AssertionError(f"{identity} does not end")


@case()
def a_dry_run_says_that_it_would_have_worked(door: Door) -> None:
    where = subnet(door, vpc(door))["SubnetId"]
    code, status = refusal(
        door,
        "ec2",
        "RunInstances",
        DryRun=True,
        ImageId=image(door),
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        SubnetId=where,
    )
    assert (code, status) == ("DryRunOperation", 412)


@case(moto_wrong="it knows no failing checks, and ignores the filters for them")
def the_status_of_machines_can_be_asked_by_what_is_wrong(door: Door) -> None:
    run(door)
    for name in ("instance-status.status", "system-status.status"):
        wanted = [{"Name": name, "Values": ["impaired"]}]
        assert door.ask("ec2", "DescribeInstanceStatus", Filters=wanted)["InstanceStatuses"] == []
    wanted = [{"Name": "event.code", "Values": ["instance-retirement"]}]
    assert door.ask("ec2", "DescribeInstanceStatus", Filters=wanted)["InstanceStatuses"] == []
