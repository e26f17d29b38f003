"""Networks: VPCs, subnets that run out of addresses, security groups."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.emulator import ids
from wainwright.emulator.ec2.cidr import addresses, subnet_block, vpc_block
from wainwright.emulator.ec2.goods import Goods
from wainwright.emulator.ec2.lookup import GROUP, SUBNET, VPC, named, only
from wainwright.emulator.ec2.netchecks import emulated, in_use
from wainwright.emulator.ec2.netviews import Views
from wainwright.emulator.ec2.rule_words import first_rules
from wainwright.emulator.ec2.state import SecurityGroup, Subnet, Vpc
from wainwright.emulator.filters import matching
from wainwright.emulator.paging import page
from wainwright.emulator.tags import from_specifications, only_for, to_list
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

MOST: Final = 1000


class NetworkState(msgspec.Struct, kw_only=True):
    vpcs: dict[str, Vpc] = {}
    subnets: dict[str, Subnet] = {}
    groups: dict[str, SecurityGroup] = {}


class Network:
    """What instances are put into."""

    name = "ec2"

    def __init__(self, world: World, goods: Goods) -> None:
        self.state = NetworkState()
        self._world = world
        self._goods = goods
        self._views = Views(world)

    def operations(self) -> Mapping[str, Handler]:
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
        return only(self.state.subnets, identity, SUBNET)

    def group(self, identity: str | None) -> SecurityGroup:
        return only(self.state.groups, identity, GROUP)

    def named_group(self, name: str, vpc_id: str | None = None) -> SecurityGroup:
        """By its name, in the network that is meant where none is named."""
        vpc = vpc_id or self._default_vpc()
        for group in self.state.groups.values():
            if group.vpc_id == vpc and group.name == name:
                return group
        raise AwsError(GROUP.missing, f"The security group '{name}' does not exist in VPC '{vpc}'")

    def default_group(self, vpc_id: str) -> SecurityGroup:
        """What an instance gets that names no group."""
        return self.named_group("default", vpc_id)

    def default_subnet(self, zone: str | None = None) -> Subnet:
        """Where an instance goes that names no subnet: in the zone, or in the first of all."""
        for subnet in self.state.subnets.values():
            if subnet.default and zone in (None, subnet.zone):
                return subnet
        where = f"zone '{zone}'" if zone else "this account"
        raise AwsError("MissingInput", f"No default subnet for {where}: name one in the request.")

    def make_default(self, vpc_id: str) -> None:
        """The network that is meant where none is named; of a new account its only one."""
        self.state.vpcs[vpc_id].default = True
        for subnet in self.state.subnets.values():
            subnet.default = subnet.default or subnet.vpc_id == vpc_id

    def take(self, subnet_id: str, count: int = 1) -> None:
        """Addresses for new interfaces; all or none."""
        subnet = self.subnet(subnet_id)
        if subnet.free < count:
            raise AwsError(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{subnet_id}' to satisfy the "
                "requested number of instances.",
            )
        subnet.free -= count

    def give_back(self, subnet_id: str, count: int = 1) -> None:
        """Of interfaces that are gone; the subnet may be gone before them."""
        subnet = self.state.subnets.get(subnet_id)
        if subnet is not None:
            subnet.free += count

    def create_vpc(self, params: Params) -> Answer:
        only_for(params, "vpc")
        emulated(params)
        vpc = Vpc(
            id=ids.new(self._world, "vpc"),
            cidr=vpc_block(params.get("CidrBlock")),
            tags=from_specifications(params, "vpc"),
        )
        self.state.vpcs[vpc.id] = vpc
        self._add_group("default", "default VPC security group", vpc.id, {})
        return {"Vpc": self._views.vpc(vpc)}

    def describe_vpcs(self, params: Params) -> Answer:
        rows = named(self.state.vpcs, params.get("VpcIds"), VPC)
        rows = matching(rows, params.get("Filters"), self._views.vpc_fields, lambda row: row.tags)
        found, token = page(rows, params, most=MOST)
        return {"Vpcs": [self._views.vpc(row) for row in found], **token}

    def delete_vpc(self, params: Params) -> Answer:
        vpc = only(self.state.vpcs, params.get("VpcId"), VPC)
        own = [each for each in self.state.groups.values() if each.vpc_id == vpc.id]
        if len(own) > 1 or any(each.vpc_id == vpc.id for each in self.state.subnets.values()):
            raise in_use("vpc", vpc.id)
        for group in own:
            del self.state.groups[group.id]
        del self.state.vpcs[vpc.id]
        return {}

    def create_subnet(self, params: Params) -> Answer:
        only_for(params, "subnet")
        emulated(params)
        vpc = only(self.state.vpcs, params.get("VpcId"), VPC)
        taken = [each.cidr for each in self.state.subnets.values() if each.vpc_id == vpc.id]
        block = subnet_block(params.get("CidrBlock"), vpc.cidr, taken)
        zone = self._zone(params)
        subnet = Subnet(
            id=ids.new(self._world, "subnet"),
            vpc_id=vpc.id,
            zone=zone,
            zone_id=self._goods.zones[zone],
            cidr=block,
            free=addresses(block),
            tags=from_specifications(params, "subnet"),
        )
        self.state.subnets[subnet.id] = subnet
        return {"Subnet": self._views.subnet(subnet)}

    def describe_subnets(self, params: Params) -> Answer:
        rows = named(self.state.subnets, params.get("SubnetIds"), SUBNET)
        rows = matching(
            rows, params.get("Filters"), self._views.subnet_fields, lambda row: row.tags
        )
        found, token = page(rows, params, most=MOST)
        return {"Subnets": [self._views.subnet(row) for row in found], **token}

    def modify_subnet(self, params: Params) -> Answer:
        """Whether machines get public addresses is all that can be said of a subnet here."""
        subnet, public = self.subnet(params.get("SubnetId")), params.get("MapPublicIpOnLaunch")
        if public is None:
            raise AwsError("UnsupportedOperation", "Only MapPublicIpOnLaunch can be changed here.")
        subnet.public = bool(public.get("Value"))
        return {}

    def delete_subnet(self, params: Params) -> Answer:
        subnet = self.subnet(params.get("SubnetId"))
        if subnet.free < addresses(subnet.cidr):
            raise in_use("subnet", subnet.id)
        del self.state.subnets[subnet.id]
        return {}

    def create_group(self, params: Params) -> Answer:
        only_for(params, "security-group")
        vpc = only(self.state.vpcs, params.get("VpcId") or self._default_vpc(), VPC)
        name = params.get("GroupName") or ""
        self._check_name(name, vpc.id)
        tags = from_specifications(params, "security-group")
        group = self._add_group(name, params.get("Description") or "", vpc.id, tags)
        answer: Answer = {
            "GroupId": group.id,
            "SecurityGroupArn": self._views.group_arn(group.id),
        }
        return {**answer, "Tags": to_list(tags)} if tags else answer

    def describe_groups(self, params: Params) -> Answer:
        rows = named(self.state.groups, params.get("GroupIds"), GROUP)
        names = params.get("GroupNames") or ()
        if names:
            rows = [row for row in rows if row.name in names]
        for name in set(names) - {row.name for row in rows}:
            raise AwsError(GROUP.missing, f"The security group '{name}' does not exist")
        rows = matching(rows, params.get("Filters"), self._views.group_fields, lambda row: row.tags)
        found, token = page(rows, params, most=MOST)
        return {"SecurityGroups": [self._views.group(row) for row in found], **token}

    def delete_group(self, params: Params) -> Answer:
        group = self.group(params.get("GroupId"))
        if group.name == "default":
            message = f'the specified group: "{group.id}" cannot be deleted by a user'
            raise AwsError("CannotDelete", message)
        del self.state.groups[group.id]
        return {"Return": True, "GroupId": group.id}

    def _zone(self, params: Params) -> str:
        """By name or by id; the first where none is asked for."""
        zones, identity = self._goods.zones, params.get("AvailabilityZoneId")
        name = params.get("AvailabilityZone") or self._goods.zone_names.get(identity or "")
        if name in zones:
            return str(name)
        if name is None and identity is None:
            return next(iter(zones))
        message = f"Value ({name or identity}) for parameter availabilityZone is invalid. "
        raise AwsError("InvalidParameterValue", f"{message}Zones are {', '.join(zones)}.")

    def _default_vpc(self) -> str:
        found = [vpc.id for vpc in self.state.vpcs.values() if vpc.default]
        if not found:
            raise AwsError("VPCIdNotSpecified", "No default VPC for this user")
        return found[0]

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
            id=ids.new(self._world, "sg"),
            name=name,
            description=description,
            vpc_id=vpc_id,
            tags=tags,
        )
        group.rules = first_rules(group)
        self.state.groups[group.id] = group
        return group
