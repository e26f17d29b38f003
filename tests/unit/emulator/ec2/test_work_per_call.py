"""A call is as much work in a large account as in a small one: counted in lines, not in seconds.

100,000 instances take a few seconds to launch only if no call looks at all those that there are;
`make bench ARGS=emulator` measures that.
"""

from typing import Any, NamedTuple

import pytest
from tests.support.counted_work import executed_lines
from tests.support.emulator_accounts import expect_error
from tests.support.emulator_launches import A, LaunchAccount

BLOCK = "10.200.0.0/20"
ADDRESSES = 2**12 - 5
FEW = 50
MORE = 200
"""Lines that a call may take more; one for each instance would be four thousand."""


class CountedLaunch(NamedTuple):
    address: str
    lines: int


class OneSubnet:
    """An account whose launches are all in one subnet, and so many of them."""

    def __init__(self, instances: int) -> None:
        self._account = LaunchAccount()
        self._clock, self._image = self._account.clock, self._account.image
        network = self.call("CreateVpc", CidrBlock=BLOCK)["Vpc"]["VpcId"]
        place = {"VpcId": network, "CidrBlock": BLOCK, "AvailabilityZone": A}
        self._subnet = self.call("CreateSubnet", **place)["Subnet"]["SubnetId"]
        first = self.run()
        self.ids = self.run(instances - 1)
        self.end(*first)  # the messages about all launches are too old by now, and dropped here
        self.ids += self.run()

    def call(self, operation: str, **params: Any) -> Any:
        return self._account.cloud.answer("ec2", operation, params)

    def request(self, number: int = 1) -> Any:
        place = {"ImageId": self._image, "InstanceType": "m5.large", "SubnetId": self._subnet}
        return self.call("RunInstances", **place, MinCount=number, MaxCount=number)

    def run(self, number: int = 1) -> list[str]:
        found = [each["InstanceId"] for each in self.request(number)["Instances"]]
        self._settle()
        return found

    def counted_launch(self) -> CountedLaunch:
        found: list[Any] = []
        lines = executed_lines(lambda: found.append(self.request()))
        return CountedLaunch(found[0]["Instances"][0]["PrivateIpAddress"], lines)

    def end(self, *ids: str) -> None:
        self.call("TerminateInstances", InstanceIds=list(ids))
        self._settle()

    def _settle(self) -> None:
        """Instances become running or terminated at the first call after their time."""
        self._clock.time += 600
        self.call("DescribeSubnets")

    def describe(self, *ids: str) -> list[dict[str, Any]]:
        groups = self.call("DescribeInstances", InstanceIds=list(ids))["Reservations"]
        return [each for group in groups for each in group["Instances"]]


@pytest.fixture(scope="module")
def few() -> OneSubnet:
    return OneSubnet(FEW)


@pytest.fixture
def full() -> OneSubnet:
    """Every address is taken."""
    return OneSubnet(ADDRESSES)


def test_the_last_free_address_is_found_at_once(few: OneSubnet, full: OneSubnet) -> None:
    usual = executed_lines(few.request)
    for place in (0, ADDRESSES // 2, -1):
        freed = full.describe(full.ids[place])[0]["PrivateIpAddress"]
        full.end(full.ids[place])
        launched = full.counted_launch()
        assert launched.lines < usual + MORE
        assert launched.address == freed
    assert expect_error(full.request) == ("InsufficientFreeAddressesInSubnet", 400)


@pytest.mark.parametrize("number", [1, 20])
def test_only_the_named_instances_are_looked_at(
    few: OneSubnet, full: OneSubnet, number: int
) -> None:
    """And ended."""

    def work(subnet: OneSubnet, *ids: str) -> tuple[int, int]:
        assert len(subnet.describe(*ids)) == number
        described = executed_lines(lambda: subnet.describe(*ids))
        return described, executed_lines(
            lambda: subnet.call("TerminateInstances", InstanceIds=list(ids))
        )

    described, ended = work(full, *full.ids[-number:])
    usually_described, usually_ended = work(few, *few.run(number))
    assert described < usually_described + MORE
    assert ended < usually_ended + MORE
