"""Every requirement of a demanding client, over HTTP with a real SDK."""

import pytest
from tests.contract.client_checks import ALL
from tests.contract.clients import HttpClient
from tests.contract.registry import CLIENT_CHECKS
from tests.contract.servers import serve_emulator

assert ALL
CALLS = (
    *("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory"),
    *("GetProducts", "DescribeSubnets", "DescribeSecurityGroups", "GetParameter"),
    *("DescribeImages", "DescribeCapacityReservations", "DescribePlacementGroups"),
    *("ListInstanceProfiles", "GetInstanceProfile", "CreateInstanceProfile"),
    *("DeleteInstanceProfile", "DescribeCluster", "DescribeLaunchTemplates"),
    *("CreateLaunchTemplate", "DeleteLaunchTemplate", "CreateFleet", "RunInstances"),
    *("DescribeInstances by tag", "DescribeInstances by id", "CreateTags"),
    *("TerminateInstances", "DescribeInstanceStatus", "GetQueueUrl", "ReceiveMessage"),
    *("DeleteMessage", "interruptions"),
)
EXPECTED = {
    "calls": CALLS,
    "big": ("launch template", "fleet", "reserved fleet"),
    "counts": ("start-up", "idle"),
    "errors": (
        *("InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded"),
        *("UnfulfillableCapacity", "Unsupported", "InsufficientFreeAddressesInSubnet"),
        *("ReservationCapacityExceeded", "AuthFailure.ServiceLinkedRoleCreationNotPermitted"),
        *("MaxFleetCountExceeded", "instances and errors"),
    ),
    "needs": tuple(map(str, range(1, 14))),
}


@pytest.mark.parametrize("name", sorted(CLIENT_CHECKS))
def test_client_check(name: str, request: pytest.FixtureRequest) -> None:
    line = CLIENT_CHECKS[name]
    if not line.own_account:
        line.run(request.getfixturevalue("over_http"))
        return
    with serve_emulator() as running:
        client = HttpClient(running.endpoint)
        try:
            line.run(client)
        finally:
            client.close()


@pytest.mark.parametrize(
    "name", [f"{section} {each}" for section, lines in EXPECTED.items() for each in lines]
)
def test_every_documented_check_is_covered(name: str) -> None:
    assert any(name in line.names for line in CLIENT_CHECKS.values()), name


def test_no_undocumented_check_is_covered() -> None:
    expected = {f"{section} {each}" for section, lines in EXPECTED.items() for each in lines}
    assert {name for line in CLIENT_CHECKS.values() for name in line.names} <= expected
