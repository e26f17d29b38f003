"""Complete sequences: start-up, an idle minute, protocols, pagination, speed."""

from concurrent.futures import ThreadPoolExecutor
from time import process_time
from typing import Any

from tests.contract.client_checks.instance_types import COMMON, METAL, SHARED, all_types, products
from tests.contract.client_checks.instances import OURS
from tests.contract.client_checks.setup import DISCOVERY, call_admin_api
from tests.contract.clients import HttpClient, expect_error, fetch_pages
from tests.contract.registry import client_check

OFFERINGS = {"LocationType": "availability-zone", "MaxResults": 1000}


def offerings(client: HttpClient) -> list[list[Any]]:
    return fetch_pages(
        client, "ec2", "DescribeInstanceTypeOfferings", "InstanceTypeOfferings", **OFFERINGS
    )


@client_check("counts start-up", "needs 13", own_account=True)
def the_pages_of_a_start_up_are_quick(client: HttpClient) -> None:
    begin = process_time()
    assert expect_error(client, "ec2", "DescribeInstanceTypes", DryRun=True)[0] == "DryRunOperation"
    types, zones = all_types(client), offerings(client)
    with ThreadPoolExecutor(5) as threads:
        again = [threads.submit(each, client) for each in (all_types, offerings)]
        streams = [
            threads.submit(products, client, {**COMMON, **stream}) for stream in (SHARED, METAL)
        ]
        spot = threads.submit(
            fetch_pages,
            client,
            "ec2",
            "DescribeSpotPriceHistory",
            "SpotPriceHistory",
            MaxResults=2000,
        )
        assert [len(each.result()) for each in again] == [len(types), len(zones)]
        assert all(each.result() for each in streams)
        assert spot.result()
    assert process_time() - begin < 15  # of client and server together; usually 4
    request = call_admin_api(client, "log")
    counts: dict[str, int] = {}
    for each in request:
        counts[each["operation"]] = counts.get(each["operation"], 0) + 1
    assert counts["DescribeInstanceTypes"] == 2 * len(types) + 1
    assert counts["DescribeInstanceTypeOfferings"] == 2 * len(zones)
    assert counts["GetProducts"] >= 10
    assert counts["DescribeSpotPriceHistory"] >= 3


@client_check("counts idle")
def an_idle_minute(client: HttpClient) -> None:
    """Eighteen calls that return nothing new."""
    calls: list[tuple[str, str, dict[str, Any]]] = [
        *[("ec2", "DescribeInstances", {"Filters": OURS, "MaxResults": 1000})] * 5,
        *[
            ("ec2", "DescribeInstanceStatus", {"Filters": [{"Name": name, "Values": ["impaired"]}]})
            for name in ("instance-status.status", "system-status.status")
        ],
        (
            "ec2",
            "DescribeInstanceStatus",
            {"Filters": [{"Name": "event.code", "Values": ["instance-stop"]}]},
        ),
        ("ec2", "DescribeSubnets", {"Filters": [DISCOVERY], "MaxResults": 500}),
        ("ec2", "DescribeSecurityGroups", {"Filters": [DISCOVERY], "MaxResults": 500}),
        ("ec2", "DescribeImages", {"Owners": ["self"], "MaxResults": 1000}),
        (
            "ec2",
            "DescribeCapacityReservations",
            {"Filters": [{"Name": "state", "Values": ["active"]}], "MaxResults": 1000},
        ),
    ]
    for service, operation, params in calls:
        client.call(service, operation, **params)


@client_check("needs 1")
def a_dozen_calls_of_all_services_at_once(client: HttpClient) -> None:
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("ec2", "DescribeAvailabilityZones", {}),
        ("iam", "ListInstanceProfiles", {"PathPrefix": "/none/"}),
        ("eks", "DescribeCluster", {"name": "wain"}),
        ("ssm", "GetParametersByPath", {"Path": "/none/"}),
        ("pricing", "GetProducts", {"ServiceCode": "AmazonEC2", "MaxResults": 1}),
        ("sqs", "ListQueues", {}),
    ]
    for service, _, _ in calls:
        client.boto_client(service)  # sessions are not thread-safe
    with ThreadPoolExecutor(12) as threads:
        request = [threads.submit(client.call, one, two, **more) for one, two, more in calls * 4]
        assert all(isinstance(each.result(), dict) for each in request)


@client_check("needs 1")
def an_unknown_action_has_the_error_of_its_protocol(client: HttpClient) -> None:
    for service, operation, params in (
        ("ec2", "DescribeVolumes", {}),
        ("iam", "ListUsers", {}),
        ("eks", "ListNodegroups", {"clusterName": "wain"}),
        ("ssm", "DescribeParameters", {}),
        ("pricing", "DescribeServices", {}),
        ("sqs", "ListDeadLetterSourceQueues", {"QueueUrl": "http://x/1/wain"}),
        ("sts", "GetCallerIdentity", {}),
    ):
        assert expect_error(client, service, operation, **params) == ("InvalidAction", 400)


@client_check("needs 3")
def pages_of_every_size_that_the_client_uses(client: HttpClient) -> None:
    for operation, key, size in (
        ("DescribeInstanceTypes", "InstanceTypes", 100),
        ("DescribeInstanceTypeOfferings", "InstanceTypeOfferings", 1000),
        ("DescribeSpotPriceHistory", "SpotPriceHistory", 2000),
        ("DescribeSubnets", "Subnets", 500),
        ("DescribeSecurityGroups", "SecurityGroups", 500),
        ("DescribeLaunchTemplates", "LaunchTemplates", 200),
        ("DescribeImages", "Images", 1000),
        ("DescribeInstances", "Reservations", 1000),
        ("DescribeCapacityReservations", "CapacityReservations", 1000),
    ):
        response = client.call("ec2", operation, MaxResults=size)
        assert len(response[key]) <= size
        if len(response[key]) < size:
            assert not response.get("NextToken")
    token = {"MaxResults": 100, "NextToken": "no-such-token"}
    code, status = expect_error(client, "ec2", "DescribeInstanceTypes", **token)
    assert (code, status) == ("InvalidNextToken", 400)
