"""Instances: launched, described, tagged, terminated; and tags of other resources."""

from functools import cache
from typing import Any

from tests.contract.cases.network import create_subnet, create_vpc
from tests.contract.clients import AccountClient, expect_error, fetch_pages
from tests.contract.registry import contract_case, fresh_name

NOT_FOUND = ("InvalidInstanceID.NotFound", 400)


@cache
def any_image(client: AccountClient) -> str:
    """Any image of the account."""
    found = client.call(
        "ec2",
        "DescribeImages",
        Owners=["amazon"],
        Filters=[{"Name": "architecture", "Values": ["x86_64"]}],
    )
    return str(min(each["ImageId"] for each in found["Images"]))


def run_instances(client: AccountClient, number: int = 1, **tags: str) -> list[Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "instance", "Tags": pairs}]} if tags else {}
    return list(
        client.call(
            "ec2",
            "RunInstances",
            ImageId=any_image(client),
            InstanceType="m5.large",
            MinCount=number,
            MaxCount=number,
            SubnetId=create_subnet(client, create_vpc(client))["SubnetId"],
            **more,
        )["Instances"]
    )


def describe_instances(client: AccountClient, **params: Any) -> list[Any]:
    response = client.call("ec2", "DescribeInstances", **params)
    return [each for group in response["Reservations"] for each in group["Instances"]]


def instance_ids(instances: list[Any]) -> set[str]:
    return {each["InstanceId"] for each in instances}


@contract_case()
def an_instance_matches_its_request(client: AccountClient) -> None:
    (created,) = run_instances(client, name="one")
    (found,) = describe_instances(client, InstanceIds=[created["InstanceId"]])
    assert found["InstanceType"] == "m5.large"
    assert found["SubnetId"] == created["SubnetId"]
    assert found["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert found["State"]["Name"] in ("pending", "running")
    assert found["ImageId"] == any_image(client)
    assert found["Tags"] == [{"Key": "name", "Value": "one"}]
    assert found["LaunchTime"].tzinfo is not None


@contract_case()
def filters_of_one_name_are_joined_by_and(client: AccountClient) -> None:
    mark = fresh_name("mark")
    both = instance_ids(run_instances(client, pool=mark, nodeclass=""))
    only = instance_ids(run_instances(client, pool=mark))
    mine = {"Name": "tag:pool", "Values": [mark]}
    keys = [{"Name": "tag-key", "Values": [key]} for key in ("pool", "nodeclass")]
    assert instance_ids(describe_instances(client, Filters=[mine])) == both | only
    assert instance_ids(describe_instances(client, Filters=[mine, *keys])) == both
    assert (
        instance_ids(
            describe_instances(client, Filters=[mine, {"Name": "tag-key", "Values": ["p*"]}])
        )
        == both | only
    )


@contract_case()
def ids_and_filters_combine(client: AccountClient) -> None:
    created = sorted(instance_ids(run_instances(client, 2)))
    alive = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    assert instance_ids(describe_instances(client, InstanceIds=created, Filters=[alive])) == set(
        created
    )
    stopped = {"Name": "instance-state-name", "Values": ["stopped"]}
    assert describe_instances(client, InstanceIds=created, Filters=[stopped]) == []


@contract_case(moto_wrong="an id that is named twice ends in a page of HTML")
def a_repeated_id_is_returned_once(client: AccountClient) -> None:
    (created,) = instance_ids(run_instances(client))
    assert instance_ids(describe_instances(client, InstanceIds=[created, created])) == {created}


@contract_case()
def an_unknown_instance_is_an_error(client: AccountClient) -> None:
    wrong = ["i-0123456789abcdef0"]
    assert expect_error(client, "ec2", "DescribeInstances", InstanceIds=wrong) == NOT_FOUND
    assert expect_error(client, "ec2", "TerminateInstances", InstanceIds=wrong) == NOT_FOUND


@contract_case()
def a_terminated_instance_is_shutting_down_first(client: AccountClient) -> None:
    (created,) = instance_ids(run_instances(client))
    (ended,) = client.call("ec2", "TerminateInstances", InstanceIds=[created])[
        "TerminatingInstances"
    ]
    assert ended["InstanceId"] == created
    assert ended["CurrentState"] == {"Code": 32, "Name": "shutting-down"}
    alive = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    assert describe_instances(client, InstanceIds=[created], Filters=[alive]) == []


@contract_case()
def instances_are_paginated(client: AccountClient) -> None:
    mark = fresh_name("mark")
    created = instance_ids(run_instances(client, 7, page=mark))
    found: list[Any] = [
        each
        for page in fetch_pages(
            client,
            "ec2",
            "DescribeInstances",
            "Reservations",
            Filters=[{"Name": "tag:page", "Values": [mark]}],
            MaxResults=5,
        )
        for group in page
        for each in group["Instances"]
    ]
    assert instance_ids(found) == created
    assert len(found) == 7


@contract_case(moto_wrong="addresses that a machine gives back stay taken")
def an_instance_takes_and_releases_an_address(client: AccountClient) -> None:
    (created,) = run_instances(client)

    def free() -> int:
        (home,) = client.call("ec2", "DescribeSubnets", SubnetIds=[created["SubnetId"]])["Subnets"]
        return int(home["AvailableIpAddressCount"])

    assert free() == 250
    client.call("ec2", "TerminateInstances", InstanceIds=[created["InstanceId"]])
    wait_until_gone(client, created["InstanceId"])
    assert free() == 251


def wait_until_gone(client: AccountClient, identity: str) -> None:
    """Waits by long polling an empty queue: that advances a virtual clock too."""
    where = client.call("sqs", "CreateQueue", QueueName=fresh_name("wait"))["QueueUrl"]
    for _ in range(5):
        (found,) = describe_instances(client, InstanceIds=[identity])
        if found["State"]["Name"] == "terminated":
            return
        client.call("sqs", "ReceiveMessage", QueueUrl=where, WaitTimeSeconds=1)
    raise AssertionError(f"{identity} does not end")


@contract_case()
def a_dry_run_reports_that_it_would_have_succeeded(client: AccountClient) -> None:
    where = create_subnet(client, create_vpc(client))["SubnetId"]
    code, status = expect_error(
        client,
        "ec2",
        "RunInstances",
        DryRun=True,
        ImageId=any_image(client),
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        SubnetId=where,
    )
    assert (code, status) == ("DryRunOperation", 412)


@contract_case(moto_wrong="it knows no failing checks, and ignores the filters for them")
def instance_status_is_filtered_by_failing_check(client: AccountClient) -> None:
    run_instances(client)
    for name in ("instance-status.status", "system-status.status"):
        expected = [{"Name": name, "Values": ["impaired"]}]
        assert (
            client.call("ec2", "DescribeInstanceStatus", Filters=expected)["InstanceStatuses"] == []
        )
    expected = [{"Name": "event.code", "Values": ["instance-retirement"]}]
    assert client.call("ec2", "DescribeInstanceStatus", Filters=expected)["InstanceStatuses"] == []


AWKWARD = {
    "empty": "",
    "markup": """<a href="x">&amp; 'b'</a>""",
    "spaces": "  two  words ",
    "lines": "one\ntwo",
    "letters": "Zürich · 東京 · 🚚",
    "kubernetes.io/cluster/wain": "owned",
    "percent": "100%25+1",
}


def tags_of(client: AccountClient, identity: str) -> dict[str, str]:
    (found,) = client.call("ec2", "DescribeSubnets", SubnetIds=[identity])["Subnets"]
    return {pair["Key"]: pair["Value"] for pair in found.get("Tags", [])}


@contract_case()
def unusual_tags_round_trip(client: AccountClient) -> None:
    created = create_subnet(client, create_vpc(client))["SubnetId"]
    pairs = [{"Key": key, "Value": value} for key, value in AWKWARD.items()]
    client.call("ec2", "CreateTags", Resources=[created], Tags=pairs)
    assert tags_of(client, created) == AWKWARD


@contract_case()
def a_tag_set_again_has_the_new_value(client: AccountClient) -> None:
    created = create_subnet(client, create_vpc(client), team="old", other="kept")["SubnetId"]
    client.call("ec2", "CreateTags", Resources=[created], Tags=[{"Key": "team", "Value": "new"}])
    assert tags_of(client, created) == {"team": "new", "other": "kept"}


@contract_case()
def a_tag_can_be_deleted(client: AccountClient) -> None:
    created = create_subnet(client, create_vpc(client), team="web", other="kept")["SubnetId"]
    client.call("ec2", "DeleteTags", Resources=[created], Tags=[{"Key": "team"}])
    assert tags_of(client, created) == {"other": "kept"}


@contract_case()
def several_resources_are_tagged_at_once(client: AccountClient) -> None:
    home = create_vpc(client)
    both = [create_subnet(client, home, third)["SubnetId"] for third in (1, 2)]
    mark = fresh_name("mark")
    client.call("ec2", "CreateTags", Resources=both, Tags=[{"Key": "mark", "Value": mark}])
    found = client.call("ec2", "DescribeTags", Filters=[{"Name": "value", "Values": [mark]}])[
        "Tags"
    ]
    assert sorted(each["ResourceId"] for each in found) == sorted(both)
    assert {each["ResourceType"] for each in found} == {"subnet"}


@contract_case(moto_wrong="it accepts tags for machines that do not exist")
def an_unknown_instance_cannot_be_tagged(client: AccountClient) -> None:
    code, status = expect_error(
        client,
        "ec2",
        "CreateTags",
        Resources=["i-0123456789abcdef0"],
        Tags=[{"Key": "a", "Value": "b"}],
    )
    assert (code, status) == ("InvalidInstanceID.NotFound", 400)
