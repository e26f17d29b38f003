"""VPCs, subnets that run out of addresses, and security groups."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any, Final

import msgspec

from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import SECURITY_GROUP, SUBNET, VPC, find_by_ids, get_by_id
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters, bool_value, paginate
from wainwright.emulator.ec2.region_offerings import RegionOfferings
from wainwright.emulator.ec2.tags import check_taggable_types, parse_tag_specifications, to_tag_list
from wainwright.emulator.ec2.vpc.security_group_permissions import (
    SecurityGroup,
    default_rules,
    permission_views,
)
from wainwright.errors import AwsError


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
    """Addresses that are still available."""
    public: bool = False
    """Whether instances get a public address."""
    default: bool = False
    """Whether launches in its zone that name no subnet use it."""
    tags: dict[str, str] = {}


SHORTEST_PREFIX, LONGEST_PREFIX = 16, 28  # prefix lengths
RESERVED_ADDRESSES: Final = 5  # by AWS in every subnet


def parse_vpc_cidr(cidr: Any) -> str:
    """The CIDR block of a new VPC, as EC2 formats it."""
    block = _parse_cidr(cidr, "InvalidVpc.Range")
    return str(block)


def parse_subnet_cidr(cidr: Any, vpc: str, existing: Iterable[str]) -> str:
    """The CIDR block of a new subnet: inside its VPC, and not overlapping other subnets."""
    block = _parse_cidr(cidr, "InvalidSubnet.Range")
    if not block.subnet_of(IPv4Network(vpc)):
        raise AwsError("InvalidSubnet.Range", f"The CIDR '{cidr}' is invalid.")
    if any(block.overlaps(IPv4Network(each)) for each in existing):
        raise AwsError("InvalidSubnet.Conflict", f"The CIDR '{cidr}' conflicts with another subnet")
    return str(block)


def usable_addresses(block: str) -> int:
    """How many addresses of the block interfaces can use."""
    return IPv4Network(block).num_addresses - RESERVED_ADDRESSES


def _parse_cidr(cidr: Any, size_error_code: str) -> IPv4Network:
    """Bits beyond the prefix are cleared, as EC2 does."""
    if not cidr:
        raise AwsError(
            "MissingParameter", "Either 'cidrBlock' or 'ipv4IpamPoolId' must be provided."
        )
    try:
        block = IPv4Network(cidr, strict=False)
    except ValueError:
        message = (
            f"Value ({cidr}) for parameter cidrBlock is invalid. This is not a valid CIDR block."
        )
        raise AwsError("InvalidParameterValue", message) from None
    if not SHORTEST_PREFIX <= block.prefixlen <= LONGEST_PREFIX:
        raise AwsError(size_error_code, f"The CIDR '{cidr}' is invalid.")
    return block


NOT_EMULATED_PARAMS: Final = (
    "AmazonProvidedIpv6CidrBlock",
    "Ipv4IpamPoolId",
    "Ipv6CidrBlock",
    "Ipv6IpamPoolId",
    "Ipv6Native",
    "Ipv6Pool",
    "OutpostArn",
)
"""Rejected rather than silently ignored."""


def check_emulated(params: Params) -> None:
    for name in NOT_EMULATED_PARAMS:
        if params.get(name):
            raise AwsError("UnsupportedOperation", f"{name} is not emulated.")


def dependency_violation(what: str, identity: str) -> AwsError:
    message = f"The {what} '{identity}' has dependencies and cannot be deleted."
    return AwsError("DependencyViolation", message)


AVAILABLE: Final = "available"
DEFAULT_DHCP_OPTIONS: Final = "dopt-00000000000000001"

VPC_FILTERS: Final[FilterFields[Vpc]] = {
    "vpc-id": lambda vpc: (vpc.id,),
    "cidr": lambda vpc: (vpc.cidr,),
    "cidr-block-association.cidr-block": lambda vpc: (vpc.cidr,),
    "is-default": lambda vpc: bool_value(vpc.default),
    "isDefault": lambda vpc: bool_value(vpc.default),
    "state": lambda _: (AVAILABLE,),
}
SUBNET_FILTERS: Final[FilterFields[Subnet]] = {
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
    "default-for-az": lambda subnet: bool_value(subnet.default),
    "defaultForAz": lambda subnet: bool_value(subnet.default),
    "map-public-ip-on-launch": lambda subnet: bool_value(subnet.public),
    "state": lambda _: (AVAILABLE,),
}
SECURITY_GROUP_FILTERS: Final[FilterFields[SecurityGroup]] = {
    "group-id": lambda group: (group.id,),
    "group-name": lambda group: (group.name,),
    "description": lambda group: (group.description,),
    "vpc-id": lambda group: (group.vpc_id,),
}


class NetworkViews:
    """Responses about VPCs, subnets and security groups."""

    def __init__(self, context: AccountContext) -> None:
        self._region = context.region
        self._account = context.account
        owner = {"owner-id": self._owner}
        self.vpc_fields: FilterFields[Vpc] = {**VPC_FILTERS, **owner}
        self.subnet_fields: FilterFields[Subnet] = {**SUBNET_FILTERS, **owner}
        self.group_fields: FilterFields[SecurityGroup] = {**SECURITY_GROUP_FILTERS, **owner}

    def _owner(self, _: object) -> tuple[str]:
        return (self._account,)

    def vpc(self, vpc: Vpc) -> Response:
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
            "Tags": to_tag_list(vpc.tags),
        }

    def subnet(self, subnet: Subnet) -> Response:
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
            "Tags": to_tag_list(subnet.tags),
        }

    def group(self, group: SecurityGroup) -> Response:
        rules = group.rules.values()
        return {
            "GroupId": group.id,
            "SecurityGroupArn": self.group_arn(group.id),
            "GroupName": group.name,
            "Description": group.description,
            "VpcId": group.vpc_id,
            "OwnerId": self._account,
            "IpPermissions": permission_views(
                (each for each in rules if not each.egress), self._account
            ),
            "IpPermissionsEgress": permission_views(
                (each for each in rules if each.egress), self._account
            ),
            "Tags": to_tag_list(group.tags),
        }

    def group_arn(self, identity: str) -> str:
        return SECURITY_GROUP.arn(self._region, self._account, identity)


MAX_RESULTS: Final = 1000


class NetworkState(msgspec.Struct, kw_only=True):
    vpcs: dict[str, Vpc] = {}
    subnets: dict[str, Subnet] = {}
    groups: dict[str, SecurityGroup] = {}


class VpcNetwork:
    """VPCs, subnets and security groups of the account."""

    name = "ec2"

    def __init__(self, context: AccountContext, region_offerings: RegionOfferings) -> None:
        self.state = NetworkState()
        self._context = context
        self._region_offerings = region_offerings
        self._views = NetworkViews(context)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateVpc": self.create_vpc,
            "DescribeVpcs": self.describe_vpcs,
            "DeleteVpc": self.delete_vpc,
            "CreateSubnet": self.create_subnet,
            "DescribeSubnets": self.describe_subnets,
            "ModifySubnetAttribute": self.modify_subnet,
            "DeleteSubnet": self.delete_subnet,
            "CreateSecurityGroup": self.create_group,
            "DescribeSecurityGroups": self.describe_groups,
            "DeleteSecurityGroup": self.delete_group,
        }

    def subnet(self, identity: str | None) -> Subnet:
        return get_by_id(self.state.subnets, identity, SUBNET)

    def group(self, identity: str | None) -> SecurityGroup:
        return get_by_id(self.state.groups, identity, SECURITY_GROUP)

    def named_group(self, name: str, vpc_id: str | None = None) -> SecurityGroup:
        """The group of that name, by default in the default VPC."""
        vpc = vpc_id or self._default_vpc()
        for group in self.state.groups.values():
            if group.vpc_id == vpc and group.name == name:
                return group
        raise AwsError(
            SECURITY_GROUP.not_found_code,
            f"The security group '{name}' does not exist in VPC '{vpc}'",
        )

    def default_group(self, vpc_id: str) -> SecurityGroup:
        """The group of instances that name none."""
        return self.named_group("default", vpc_id)

    def default_subnet(self, zone: str | None = None) -> Subnet:
        """The subnet of instances that name none: in the zone, or the first one."""
        for subnet in self.state.subnets.values():
            if subnet.default and zone in (None, subnet.zone):
                return subnet
        where = f"zone '{zone}'" if zone else "this account"
        raise AwsError("MissingInput", f"No default subnet for {where}: name one in the request.")

    def make_default(self, vpc_id: str) -> None:
        """Makes it the default VPC, and its subnets default subnets."""
        self.state.vpcs[vpc_id].default = True
        for subnet in self.state.subnets.values():
            subnet.default = subnet.default or subnet.vpc_id == vpc_id

    def take_addresses(self, subnet_id: str, count: int = 1) -> None:
        """Takes addresses for new interfaces; all or none."""
        subnet = self.subnet(subnet_id)
        if subnet.free < count:
            raise AwsError(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{subnet_id}' to satisfy the "
                "requested number of instances.",
            )
        subnet.free -= count

    def release_addresses(self, subnet_id: str, count: int = 1) -> None:
        """Releases addresses of deleted interfaces; the subnet may have been deleted before."""
        subnet = self.state.subnets.get(subnet_id)
        if subnet is not None:
            subnet.free += count

    def create_vpc(self, params: Params) -> Response:
        check_taggable_types(params, "vpc")
        check_emulated(params)
        vpc = Vpc(
            id=api_conventions.new_resource_id(self._context, "vpc"),
            cidr=parse_vpc_cidr(params.get("CidrBlock")),
            tags=parse_tag_specifications(params, "vpc"),
        )
        self.state.vpcs[vpc.id] = vpc
        self._add_group("default", "default VPC security group", vpc.id, {})
        return {"Vpc": self._views.vpc(vpc)}

    def describe_vpcs(self, params: Params) -> Response:
        rows = find_by_ids(self.state.vpcs, params.get("VpcIds"), VPC)
        rows = apply_filters(
            rows, params.get("Filters"), self._views.vpc_fields, lambda row: row.tags
        )
        page, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"Vpcs": [self._views.vpc(row) for row in page], **token}

    def delete_vpc(self, params: Params) -> Response:
        vpc = get_by_id(self.state.vpcs, params.get("VpcId"), VPC)
        groups = [each for each in self.state.groups.values() if each.vpc_id == vpc.id]
        if len(groups) > 1 or any(each.vpc_id == vpc.id for each in self.state.subnets.values()):
            raise dependency_violation("vpc", vpc.id)
        for group in groups:
            del self.state.groups[group.id]
        del self.state.vpcs[vpc.id]
        return {}

    def create_subnet(self, params: Params) -> Response:
        check_taggable_types(params, "subnet")
        check_emulated(params)
        vpc = get_by_id(self.state.vpcs, params.get("VpcId"), VPC)
        existing = [each.cidr for each in self.state.subnets.values() if each.vpc_id == vpc.id]
        block = parse_subnet_cidr(params.get("CidrBlock"), vpc.cidr, existing)
        zone = self._zone(params)
        subnet = Subnet(
            id=api_conventions.new_resource_id(self._context, "subnet"),
            vpc_id=vpc.id,
            zone=zone,
            zone_id=self._region_offerings.zones[zone],
            cidr=block,
            free=usable_addresses(block),
            tags=parse_tag_specifications(params, "subnet"),
        )
        self.state.subnets[subnet.id] = subnet
        return {"Subnet": self._views.subnet(subnet)}

    def describe_subnets(self, params: Params) -> Response:
        rows = find_by_ids(self.state.subnets, params.get("SubnetIds"), SUBNET)
        rows = apply_filters(
            rows, params.get("Filters"), self._views.subnet_fields, lambda row: row.tags
        )
        page, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"Subnets": [self._views.subnet(row) for row in page], **token}

    def modify_subnet(self, params: Params) -> Response:
        """Only MapPublicIpOnLaunch is emulated."""
        subnet, public = self.subnet(params.get("SubnetId")), params.get("MapPublicIpOnLaunch")
        if public is None:
            raise AwsError("UnsupportedOperation", "Only MapPublicIpOnLaunch can be changed here.")
        subnet.public = bool(public.get("Value"))
        return {}

    def delete_subnet(self, params: Params) -> Response:
        subnet = self.subnet(params.get("SubnetId"))
        if subnet.free < usable_addresses(subnet.cidr):
            raise dependency_violation("subnet", subnet.id)
        del self.state.subnets[subnet.id]
        return {}

    def create_group(self, params: Params) -> Response:
        check_taggable_types(params, "security-group")
        vpc = get_by_id(self.state.vpcs, params.get("VpcId") or self._default_vpc(), VPC)
        name = params.get("GroupName") or ""
        self._check_name(name, vpc.id)
        tags = parse_tag_specifications(params, "security-group")
        group = self._add_group(name, params.get("Description") or "", vpc.id, tags)
        response: Response = {
            "GroupId": group.id,
            "SecurityGroupArn": self._views.group_arn(group.id),
        }
        return {**response, "Tags": to_tag_list(tags)} if tags else response

    def describe_groups(self, params: Params) -> Response:
        rows = find_by_ids(self.state.groups, params.get("GroupIds"), SECURITY_GROUP)
        names = params.get("GroupNames") or ()
        if names:
            rows = [row for row in rows if row.name in names]
        for name in set(names) - {row.name for row in rows}:
            raise AwsError(
                SECURITY_GROUP.not_found_code, f"The security group '{name}' does not exist"
            )
        rows = apply_filters(
            rows, params.get("Filters"), self._views.group_fields, lambda row: row.tags
        )
        page, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"SecurityGroups": [self._views.group(row) for row in page], **token}

    def delete_group(self, params: Params) -> Response:
        group = self.group(params.get("GroupId"))
        if group.name == "default":
            message = f'the specified group: "{group.id}" cannot be deleted by a user'
            raise AwsError("CannotDelete", message)
        del self.state.groups[group.id]
        return {"Return": True, "GroupId": group.id}

    def _zone(self, params: Params) -> str:
        """The zone of the request, by name or id; by default the first."""
        zones, identity = self._region_offerings.zones, params.get("AvailabilityZoneId")
        name = params.get("AvailabilityZone") or self._region_offerings.zone_names.get(
            identity or ""
        )
        if name in zones:
            return str(name)
        if name is None and identity is None:
            return next(iter(zones))
        message = f"Value ({name or identity}) for parameter availabilityZone is invalid. "
        raise AwsError("InvalidParameterValue", f"{message}Zones are {', '.join(zones)}.")

    def _default_vpc(self) -> str:
        default_vpcs = [vpc.id for vpc in self.state.vpcs.values() if vpc.default]
        if not default_vpcs:
            raise AwsError("VPCIdNotSpecified", "No default VPC for this user")
        return default_vpcs[0]

    def _check_name(self, name: str, vpc_id: str) -> None:
        if not name or name == "default" or name.startswith("sg-"):
            message = f"Value ({name}) for parameter GroupName is invalid: the name is reserved"
            raise AwsError("InvalidParameterValue", message)
        groups = self.state.groups.values()
        if any(each.name == name and each.vpc_id == vpc_id for each in groups):
            message = f"The security group '{name}' already exists for VPC '{vpc_id}'"
            raise AwsError("InvalidGroup.Duplicate", message)

    def _add_group(
        self, name: str, description: str, vpc_id: str, tags: dict[str, str]
    ) -> SecurityGroup:
        group = SecurityGroup(
            id=api_conventions.new_resource_id(self._context, "sg"),
            name=name,
            description=description,
            vpc_id=vpc_id,
            tags=tags,
        )
        group.rules = default_rules(group)
        self.state.groups[group.id] = group
        return group
