"""The account as it is found: a network, a cluster, a role, images and a queue, ready to be used.

Everything that a provider discovers by tag carries `karpenter.sh/discovery: wain`.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Final

import msgspec

from wainwright.emulator.ec2.state import Image
from wainwright.emulator.parts import Parts
from wainwright.emulator.services.public_images import PublicImage
from wainwright.emulator.settings import Settings

NAME: Final = "wain"
ROLE: Final = f"KarpenterNodeRole-{NAME}"
DISCOVERY: Final = {"karpenter.sh/discovery": NAME}
NETWORK: Final = IPv4Network("192.168.0.0/16")
PREFIX: Final = 19  # a subnet has 8,187 addresses, and six zones leave room for more subnets


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What was set up, by name and id: enough to point a client at it."""

    region: str
    account: str
    cluster: str
    queue: str
    queue_url: str
    role: str
    discovery: dict[str, str]
    vpc: str
    subnets: dict[str, str]
    """Zone to subnet."""
    security_group: str


def furnish(parts: Parts, zones: Mapping[str, str], settings: Settings) -> Account:
    """Sets up what a new account lacks, and says what."""
    vpc = parts.network.create_vpc(
        {"CidrBlock": str(NETWORK), "TagSpecifications": _tagged("vpc", "vpc")}
    )["Vpc"]["VpcId"]
    subnets = _subnets(parts, vpc, zones)
    parts.network.make_default(vpc)
    group = parts.network.create_group(
        {
            "GroupName": f"{NAME}-nodes",
            "Description": "Nodes of the cluster",
            "VpcId": vpc,
            "TagSpecifications": _tagged("security-group", "nodes"),
        }
    )["GroupId"]
    parts.iam.seed(ROLE)
    parts.images.add(image(each) for each in parts.ssm.images())
    parts.eks.seed(
        NAME,
        subnets=list(subnets.values()),
        groups=[group],
        version=settings.kubernetes,
        control_plane=settings.control_plane,
    )
    return Account(
        region=parts.world.region,
        account=parts.world.account,
        cluster=NAME,
        queue=NAME,
        queue_url=parts.sqs.seed(NAME),
        role=ROLE,
        discovery=dict(DISCOVERY),
        vpc=vpc,
        subnets=subnets,
        security_group=group,
    )


def _subnets(parts: Parts, vpc: str, zones: Mapping[str, str]) -> dict[str, str]:
    """One private subnet in each zone."""
    blocks = NETWORK.subnets(new_prefix=PREFIX)
    made = {}
    for zone, block in zip(zones, blocks, strict=False):
        answer = parts.network.create_subnet(
            {
                "VpcId": vpc,
                "AvailabilityZone": zone,
                "CidrBlock": str(block),
                "TagSpecifications": _tagged("subnet", f"private-{zone}"),
            }
        )
        made[zone] = answer["Subnet"]["SubnetId"]
    return made


def _tagged(kind: str, name: str) -> list[dict[str, object]]:
    tags = {"Name": f"{NAME}-{name}", **DISCOVERY}
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def image(found: PublicImage) -> Image:
    """A public image as EC2 keeps it."""
    return Image(
        id=found.id,
        name=found.name,
        architecture=found.architecture,
        owner=found.owner,
        owner_alias="amazon",
        created=found.created,
        deprecated=found.deprecated,
        description=found.description,
        platform=found.platform,
        root_device=found.root_device,
        disks=found.mappings(),
    )
