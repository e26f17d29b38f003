"""What the emulated EC2 remembers of networks, images and launch templates: plain data."""

from enum import Enum
from typing import Any

import msgspec


class Vpc(msgspec.Struct, kw_only=True):
    id: str
    cidr: str
    tags: dict[str, str] = {}
    default: bool = False


class Subnet(msgspec.Struct, kw_only=True):
    id: str
    vpc_id: str
    zone: str
    zone_id: str
    cidr: str
    free: int
    """Addresses that can still be given out."""
    public: bool = False
    """Whether instances get a public address."""
    default: bool = False
    """Whether it is used where a launch in its zone names none."""
    tags: dict[str, str] = {}


class Peer(Enum):
    """With whom a security group lets machines talk."""

    IPV4 = "block of addresses"
    IPV6 = "block of IPv6 addresses"
    PREFIXES = "prefix list"
    GROUP = "security group"


class GroupRule(msgspec.Struct, kw_only=True):
    id: str
    egress: bool
    protocol: str
    """-1: all of them."""
    first: int | None = None
    last: int | None = None
    """Ports; none where the protocol has none."""
    kind: Peer
    peer: str
    description: str = ""
    tags: dict[str, str] = {}


class SecurityGroup(msgspec.Struct, kw_only=True):
    id: str
    name: str
    description: str
    vpc_id: str
    rules: dict[str, GroupRule] = {}
    tags: dict[str, str] = {}


class Image(msgspec.Struct, kw_only=True):
    id: str
    name: str
    architecture: str
    """As EC2 spells it: x86_64 or arm64."""
    owner: str
    """An account number."""
    owner_alias: str | None = None
    """amazon, where the image is one of theirs."""
    created: float
    description: str = ""
    platform: str | None = None
    """windows, or nothing."""
    state: str = "available"
    deprecated: float | None = None
    """From when on it is only found by those who ask for deprecated ones too."""
    public: bool = True
    root_device: str = "/dev/xvda"
    disks: list[dict[str, Any]] = []
    """Block device mappings, in the shape of the API."""
    tags: dict[str, str] = {}


class TemplateVersion(msgspec.Struct, kw_only=True):
    number: int
    created: float
    data: dict[str, Any]
    """LaunchTemplateData, in the shape of the API."""
    description: str | None = None


class LaunchTemplate(msgspec.Struct, kw_only=True):
    id: str
    name: str
    created: float
    versions: list[TemplateVersion]
    """In the order of their numbers; at least one."""
    default: int = 1
    tags: dict[str, str] = {}

    @property
    def latest(self) -> int:
        return self.versions[-1].number
