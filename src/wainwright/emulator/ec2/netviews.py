"""Networks as EC2 shows them: answers and the fields that filters look at."""

from typing import Final

from wainwright.emulator.ec2.lookup import GROUP, SUBNET
from wainwright.emulator.ec2.rule_words import permissions
from wainwright.emulator.ec2.state import SecurityGroup, Subnet, Vpc
from wainwright.emulator.filters import Fields, yes
from wainwright.emulator.tags import to_list
from wainwright.emulator.world import Answer, World

AVAILABLE: Final = "available"
DEFAULT_DHCP_OPTIONS: Final = "dopt-00000000000000001"

VPC_FIELDS: Final[Fields[Vpc]] = {
    "vpc-id": lambda vpc: (vpc.id,),
    "cidr": lambda vpc: (vpc.cidr,),
    "cidr-block-association.cidr-block": lambda vpc: (vpc.cidr,),
    "is-default": lambda vpc: yes(vpc.default),
    "isDefault": lambda vpc: yes(vpc.default),
    "state": lambda _: (AVAILABLE,),
}
SUBNET_FIELDS: Final[Fields[Subnet]] = {
    "subnet-id": lambda subnet: (subnet.id,),
    "vpc-id": lambda subnet: (subnet.vpc_id,),
    "availability-zone": lambda subnet: (subnet.zone,),
    "availabilityZone": lambda subnet: (subnet.zone,),
    "availability-zone-id": lambda subnet: (subnet.zone_id,),
    "availabilityZoneId": lambda subnet: (subnet.zone_id,),
    "available-ip-address-count": lambda subnet: (str(subnet.free),),
    "cidr-block": lambda subnet: (subnet.cidr,),
    "cidr": lambda subnet: (subnet.cidr,),
    "cidrBlock": lambda subnet: (subnet.cidr,),
    "default-for-az": lambda subnet: yes(subnet.default),
    "defaultForAz": lambda subnet: yes(subnet.default),
    "map-public-ip-on-launch": lambda subnet: yes(subnet.public),
    "state": lambda _: (AVAILABLE,),
}
GROUP_FIELDS: Final[Fields[SecurityGroup]] = {
    "group-id": lambda group: (group.id,),
    "group-name": lambda group: (group.name,),
    "description": lambda group: (group.description,),
    "vpc-id": lambda group: (group.vpc_id,),
}


class Views:
    """What the account shows of its networks."""

    def __init__(self, world: World) -> None:
        self._region = world.region
        self._account = world.account
        owner = {"owner-id": self._owner}
        self.vpc_fields: Fields[Vpc] = {**VPC_FIELDS, **owner}
        self.subnet_fields: Fields[Subnet] = {**SUBNET_FIELDS, **owner}
        self.group_fields: Fields[SecurityGroup] = {**GROUP_FIELDS, **owner}

    def _owner(self, _: object) -> tuple[str]:
        return (self._account,)

    def vpc(self, vpc: Vpc) -> Answer:
        association = {
            "AssociationId": vpc.id.replace("vpc-", "vpc-cidr-assoc-"),
            "CidrBlock": vpc.cidr,
            "CidrBlockState": {"State": "associated"},
        }
        return {
            "VpcId": vpc.id,
            "OwnerId": self._account,
            "State": AVAILABLE,
            "CidrBlock": vpc.cidr,
            "CidrBlockAssociationSet": [association],
            "DhcpOptionsId": DEFAULT_DHCP_OPTIONS,
            "InstanceTenancy": "default",
            "IsDefault": vpc.default,
            "Tags": to_list(vpc.tags),
        }

    def subnet(self, subnet: Subnet) -> Answer:
        return {
            "SubnetId": subnet.id,
            "SubnetArn": SUBNET.arn(self._region, self._account, subnet.id),
            "VpcId": subnet.vpc_id,
            "OwnerId": self._account,
            "State": AVAILABLE,
            "AvailabilityZone": subnet.zone,
            "AvailabilityZoneId": subnet.zone_id,
            "CidrBlock": subnet.cidr,
            "AvailableIpAddressCount": subnet.free,
            "DefaultForAz": subnet.default,
            "MapPublicIpOnLaunch": subnet.public,
            "AssignIpv6AddressOnCreation": False,
            "Ipv6CidrBlockAssociationSet": [],
            "Tags": to_list(subnet.tags),
        }

    def group(self, group: SecurityGroup) -> Answer:
        rules = group.rules.values()
        return {
            "GroupId": group.id,
            "SecurityGroupArn": self.group_arn(group.id),
            "GroupName": group.name,
            "Description": group.description,
            "VpcId": group.vpc_id,
            "OwnerId": self._account,
            "IpPermissions": permissions(
                (each for each in rules if not each.egress), self._account
            ),
            "IpPermissionsEgress": permissions(
                (each for each in rules if each.egress), self._account
            ),
            "Tags": to_list(group.tags),
        }

    def group_arn(self, identity: str) -> str:
        return GROUP.arn(self._region, self._account, identity)
