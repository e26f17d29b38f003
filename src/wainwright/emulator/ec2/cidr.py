"""Blocks of addresses: what a VPC and its subnets may have, and how many addresses that makes."""

from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any, Final

from wainwright.errors import AwsError

LARGEST, SMALLEST = 16, 28  # prefix lengths
KEPT_BY_AWS: Final = 5  # of every subnet


def vpc_block(asked: Any) -> str:
    """The block of a new VPC, as EC2 writes it."""
    block = _block(asked, "InvalidVpc.Range")
    return str(block)


def subnet_block(asked: Any, vpc: str, taken: Iterable[str]) -> str:
    """The block of a new subnet: inside its VPC, and nobody else's."""
    block = _block(asked, "InvalidSubnet.Range")
    if not block.subnet_of(IPv4Network(vpc)):
        raise AwsError("InvalidSubnet.Range", f"The CIDR '{asked}' is invalid.")
    if any(block.overlaps(IPv4Network(each)) for each in taken):
        raise AwsError(
            "InvalidSubnet.Conflict", f"The CIDR '{asked}' conflicts with another subnet"
        )
    return str(block)


def addresses(block: str) -> int:
    """How many of them can be given to interfaces."""
    return IPv4Network(block).num_addresses - KEPT_BY_AWS


def _block(asked: Any, bad_size: str) -> IPv4Network:
    """Bits beyond the prefix are cleared, as EC2 does."""
    if not asked:
        raise AwsError(
            "MissingParameter", "Either 'cidrBlock' or 'ipv4IpamPoolId' must be provided."
        )
    try:
        block = IPv4Network(asked, strict=False)
    except ValueError:
        message = (
            f"Value ({asked}) for parameter cidrBlock is invalid. This is not a valid CIDR block."
        )
        raise AwsError("InvalidParameterValue", message) from None
    if not LARGEST <= block.prefixlen <= SMALLEST:
        raise AwsError(bad_size, f"The CIDR '{asked}' is invalid.")
    return block
