"""Instances: launched, described, tagged, terminated; and tags of anything else."""

from functools import cache
from typing import Any

from tests.contract.cases.network import create_subnet, create_vpc
from tests.contract.clients import AccountClient, expect_error, fetch_pages
from tests.contract.registry import contract_case, fresh_name

NOT_FOUND = ("InvalidInstanceID.NotFound", 400)


@cache
def any_image(door: AccountClient) -> str:
    """Any that the account knows."""
    found = door.ask(
        "ec2",
        "DescribeImages",
        Owners=["amazon"],
        Filters=[{"Name": "architecture", "Values": ["x86_64"]}],
    )
    return str(min(each["ImageId"] for each in found["Images"]))


def run_instances(door: AccountClient, number: int = 1, **tags: str) -> list[Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "instance", "Tags": pairs}]} if tags else {}
    return list(
        door.ask(
            "ec2",
            "RunInstances",
            ImageId=any_image(door),
            InstanceType="m5.large",
            MinCount=number,
            MaxCount=number,
            SubnetId=create_subnet(door, create_vpc(door))["SubnetId"],
            **more,
        )["Instances"]
    )


def describe_instances(door: AccountClient, **params: Any) -> list[Any]:
    answer = door.ask("ec2", "DescribeInstances", **params)
    return [each for group in answer["Reservations"] for each in group["Instances"]]


def instance_ids(machines: list[Any]) -> set[str]:
    return {each["InstanceId"] for each in machines}


@contract_case()
def a_machine_is_what_was_asked_for(door: AccountClient) -> None:
    (made,) = run_instances(door, name="one")
    (found,) = describe_instances(door, InstanceIds=[made["InstanceId"]])
    assert found["InstanceType"] == "m5.large"
    assert found["SubnetId"] == made["SubnetId"]
    assert found["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert found["State"]["Name"] in ("pending", "running")
    assert found["ImageId"] == any_image(door)
    assert found["Tags"] == [{"Key": "name", "Value": "one"}]
    assert found["LaunchTime"].tzinfo is not None


@contract_case()
def filters_of_one_name_are_joined_by_and(door: AccountClient) -> None:
    mark = fresh_name("mark")
    both = instance_ids(run_instances(door, pool=mark, nodeclass=""))
    only = instance_ids(run_instances(door, pool=mark))
    mine = {"Name": "tag:pool", "Values": [mark]}
    keys = [{"Name": "tag-key", "Values": [key]} for key in ("pool", "nodeclass")]
    assert instance_ids(describe_instances(door, Filters=[mine])) == both | only
    assert instance_ids(describe_instances(door, Filters=[mine, *keys])) == both
    assert (
        instance_ids(
            describe_instances(door, Filters=[mine, {"Name": "tag-key", "Values": ["p*"]}])
        )
        == both | only
    )


@contract_case()
def ids_and_filters_go_together(door: AccountClient) -> None:
    made = sorted(instance_ids(run_instances(door, 2)))
    alive = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    assert instance_ids(describe_instances(door, InstanceIds=made, Filters=[alive])) == set(made)
    stopped = {"Name": "instance-state-name", "Values": ["stopped"]}
    assert describe_instances(door, InstanceIds=made, Filters=[stopped]) == []


@contract_case(moto_wrong="an id that is named twice ends in a page of HTML")
def an_id_may_be_named_twice(door: AccountClient) -> None:
    (made,) = instance_ids(run_instances(door))
    assert instance_ids(describe_instances(door, InstanceIds=[made, made])) == {made}


@contract_case()
def a_machine_that_does_not_exist_is_an_error(door: AccountClient) -> None:
    wrong = ["i-0123456789abcdef0"]
    assert expect_error(door, "ec2", "DescribeInstances", InstanceIds=wrong) == NOT_FOUND
    assert expect_error(door, "ec2", "TerminateInstances", InstanceIds=wrong) == NOT_FOUND


@contract_case()
def a_terminated_machine_is_shutting_down_first(door: AccountClient) -> None:
    (made,) = instance_ids(run_instances(door))
    (ended,) = door.ask("ec2", "TerminateInstances", InstanceIds=[made])["TerminatingInstances"]
    assert ended["InstanceId"] == made
    assert ended["CurrentState"] == {"Code": 32, "Name": "shutting-down"}
    alive = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    assert describe_instances(door, InstanceIds=[made], Filters=[alive]) == []


@contract_case()
def machines_come_in_pages(door: AccountClient) -> None:
    mark = fresh_name("mark")
    made = instance_ids(run_instances(door, 7, page=mark))
    found: list[Any] = [
        each
        for page in fetch_pages(
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
    assert instance_ids(found) == made
    assert len(found) == 7


@contract_case(moto_wrong="addresses that a machine gives back stay taken")
def a_machine_takes_an_address_and_gives_it_back(door: AccountClient) -> None:
    (made,) = run_instances(door)

    def free() -> int:
        (home,) = door.ask("ec2", "DescribeSubnets", SubnetIds=[made["SubnetId"]])["Subnets"]
        return int(home["AvailableIpAddressCount"])

    assert free() == 250
    door.ask("ec2", "TerminateInstances", InstanceIds=[made["InstanceId"]])
    wait_until_gone(door, made["InstanceId"])
    assert free() == 251


def wait_until_gone(door: AccountClient, identity: str) -> None:
    """By a long poll of an empty queue: time passes on every clock, the virtual one as well."""
    where = door.ask("sqs", "CreateQueue", QueueName=fresh_name("wait"))["QueueUrl"]
    for _ in range(5):
        (found,) = describe_instances(door, InstanceIds=[identity])
        if found["State"]["Name"] == "terminated":
            return
        door.ask("sqs", "ReceiveMessage", QueueUrl=where, WaitTimeSeconds=1)
    raise AssertionError(f"{identity} does not end")


@contract_case()
def a_dry_run_says_that_it_would_have_worked(door: AccountClient) -> None:
    where = create_subnet(door, create_vpc(door))["SubnetId"]
    code, status = expect_error(
        door,
        "ec2",
        "RunInstances",
        DryRun=True,
        ImageId=any_image(door),
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        SubnetId=where,
    )
    assert (code, status) == ("DryRunOperation", 412)


@contract_case(moto_wrong="it knows no failing checks, and ignores the filters for them")
def the_status_of_machines_can_be_asked_by_what_is_wrong(door: AccountClient) -> None:
    run_instances(door)
    for name in ("instance-status.status", "system-status.status"):
        wanted = [{"Name": name, "Values": ["impaired"]}]
        assert door.ask("ec2", "DescribeInstanceStatus", Filters=wanted)["InstanceStatuses"] == []
    wanted = [{"Name": "event.code", "Values": ["instance-retirement"]}]
    assert door.ask("ec2", "DescribeInstanceStatus", Filters=wanted)["InstanceStatuses"] == []


AWKWARD = {
    "empty": "",
    "markup": """<a href="x">&amp; 'b'</a>""",
    "spaces": "  two  words ",
    "lines": "one\ntwo",
    "letters": "Zürich · 東京 · 🚚",
    "kubernetes.io/cluster/wain": "owned",
    "percent": "100%25+1",
}


def tags_of(door: AccountClient, identity: str) -> dict[str, str]:
    (found,) = door.ask("ec2", "DescribeSubnets", SubnetIds=[identity])["Subnets"]
    return {pair["Key"]: pair["Value"] for pair in found.get("Tags", [])}


@contract_case()
def awkward_tags_come_back_as_they_were(door: AccountClient) -> None:
    made = create_subnet(door, create_vpc(door))["SubnetId"]
    pairs = [{"Key": key, "Value": value} for key, value in AWKWARD.items()]
    door.ask("ec2", "CreateTags", Resources=[made], Tags=pairs)
    assert tags_of(door, made) == AWKWARD


@contract_case()
def a_tag_set_again_has_the_new_value(door: AccountClient) -> None:
    made = create_subnet(door, create_vpc(door), team="old", other="kept")["SubnetId"]
    door.ask("ec2", "CreateTags", Resources=[made], Tags=[{"Key": "team", "Value": "new"}])
    assert tags_of(door, made) == {"team": "new", "other": "kept"}


@contract_case()
def a_tag_can_be_taken_away(door: AccountClient) -> None:
    made = create_subnet(door, create_vpc(door), team="web", other="kept")["SubnetId"]
    door.ask("ec2", "DeleteTags", Resources=[made], Tags=[{"Key": "team"}])
    assert tags_of(door, made) == {"other": "kept"}


@contract_case()
def several_resources_are_tagged_at_once(door: AccountClient) -> None:
    home = create_vpc(door)
    both = [create_subnet(door, home, third)["SubnetId"] for third in (1, 2)]
    mark = fresh_name("mark")
    door.ask("ec2", "CreateTags", Resources=both, Tags=[{"Key": "mark", "Value": mark}])
    found = door.ask("ec2", "DescribeTags", Filters=[{"Name": "value", "Values": [mark]}])["Tags"]
    assert sorted(each["ResourceId"] for each in found) == sorted(both)
    assert {each["ResourceType"] for each in found} == {"subnet"}


@contract_case(moto_wrong="it accepts tags for machines that do not exist")
def a_machine_that_does_not_exist_cannot_be_tagged(door: AccountClient) -> None:
    code, status = expect_error(
        door,
        "ec2",
        "CreateTags",
        Resources=["i-0123456789abcdef0"],
        Tags=[{"Key": "a", "Value": "b"}],
    )
    assert (code, status) == ("InvalidInstanceID.NotFound", 400)
