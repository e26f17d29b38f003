"""Every line of what a demanding client asks, over HTTP with a real SDK."""

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
def test_line(name: str, request: pytest.FixtureRequest) -> None:
    line = CLIENT_CHECKS[name]
    if not line.alone:
        line.told(request.getfixturevalue("over_http"))
        return
    with serve_emulator() as running:
        door = HttpClient(running.endpoint)
        try:
            line.told(door)
        finally:
            door.close()


@pytest.mark.parametrize(
    "name", [f"{section} {each}" for section, lines in EXPECTED.items() for each in lines]
)
def test_every_line_is_told(name: str) -> None:
    assert any(name in line.names for line in CLIENT_CHECKS.values()), name


def test_no_other_line_is_told() -> None:
    expected = {f"{section} {each}" for section, lines in EXPECTED.items() for each in lines}
    assert {name for line in CLIENT_CHECKS.values() for name in line.names} <= expected
