"""What is refused of networks: what is not emulated, and what is still in use."""

from typing import Final

from wainwright.emulator.world import Params
from wainwright.errors import AwsError

NOT_EMULATED: Final = (
    "AmazonProvidedIpv6CidrBlock",
    "Ipv4IpamPoolId",
    "Ipv6CidrBlock",
    "Ipv6IpamPoolId",
    "Ipv6Native",
    "Ipv6Pool",
    "OutpostArn",
)
"""Rather refused than taken for granted."""


def emulated(params: Params) -> None:
    for name in NOT_EMULATED:
        if params.get(name):
            raise AwsError("UnsupportedOperation", f"{name} is not emulated.")


def in_use(what: str, identity: str) -> AwsError:
    message = f"The {what} '{identity}' has dependencies and cannot be deleted."
    return AwsError("DependencyViolation", message)
