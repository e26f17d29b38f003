"""Launches: from launch parameters to instances of one type in one subnet, as many as can be had,
and why not more.

A launch takes capacity, quota and addresses first; the instances begin when it is settled, and what
was taken goes back when it is undone.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from ipaddress import IPv4Network
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.emulator import api_conventions
from wainwright.emulator.context import AccountContext
from wainwright.emulator.ec2.capacity_market import CapacityMarket
from wainwright.emulator.ec2.capacity_reservations.reservation_api import CapacityReservations
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    CapacityRequest,
    check_capacity_request,
)
from wainwright.emulator.ec2.images import Image, Images
from wainwright.emulator.ec2.instance import launch_errors
from wainwright.emulator.ec2.instance.instances import Instances
from wainwright.emulator.ec2.instance.lifecycle import (
    ON_DEMAND,
    SPOT,
    TERMINATED,
    Instance,
    InstancesState,
    LaunchSpecification,
    NetworkInterface,
)
from wainwright.emulator.ec2.instance.quotas import FLEET_ID_TAG, VcpuQuotas
from wainwright.emulator.ec2.region_offerings import RegionOfferings
from wainwright.emulator.ec2.vpc.security_group_permissions import SecurityGroup
from wainwright.emulator.ec2.vpc.vpc_network import Subnet, VpcNetwork
from wainwright.emulator.services.iam import Iam, profile_arn
from wainwright.errors import AwsError

LaunchData: TypeAlias = Mapping[str, Any]
"""Launch parameters, in the shape of LaunchTemplateData."""

DEFAULT_METADATA_OPTIONS: Final = {
    "HttpTokens": "optional",
    "HttpPutResponseHopLimit": 1,
    "HttpEndpoint": "enabled",
    "HttpProtocolIpv6": "disabled",
    "InstanceMetadataTags": "disabled",
}


def specification_key(build: LaunchSpecification) -> str:
    """Equal builds are kept once."""
    return blake2b(msgspec.json.encode(build), digest_size=12).hexdigest()


class SpecificationBuilder:
    """Looks up what launch parameters name, and refuses what is not there."""

    def __init__(
        self, context: AccountContext, network: VpcNetwork, images: Images, iam: Iam
    ) -> None:
        self._context = context
        self._network = network
        self._images = images
        self._iam = iam

    def build(self, data: LaunchData, subnet: Subnet) -> LaunchSpecification:
        image = self._images.image(data.get("ImageId"))
        interfaces = self._interfaces(data, subnet.vpc_id)
        disks = _block_devices(image, data)
        groups = {each for interface in interfaces for each in interface.groups}
        placement = data.get("Placement") or {}
        return LaunchSpecification(
            image=image.id,
            architecture=image.architecture,
            windows=(image.platform or "").lower() == "windows",
            user_data=data.get("UserData") or None,
            vpc=subnet.vpc_id,
            groups={each: self._network.group(each).name for each in sorted(groups)},
            interfaces=tuple(interfaces),
            profile=self._profile(data.get("IamInstanceProfile")),
            metadata={**DEFAULT_METADATA_OPTIONS, **(data.get("MetadataOptions") or {})},
            disks={device: each.fleeting for device, each in disks.items()},
            sizes={device: each.gib for device, each in disks.items() if each.gib},
            root_device=image.root_device,
            key=data.get("KeyName"),
            monitored=bool((data.get("Monitoring") or {}).get("Enabled")),
            enclave=bool((data.get("EnclaveOptions") or {}).get("Enabled")),
            ebs_optimized=bool(data.get("EbsOptimized")),
            tenancy=placement.get("Tenancy") or "default",
            placement_group=placement.get("GroupName"),
        )

    def _interfaces(self, data: LaunchData, vpc: str) -> list[NetworkInterface]:
        """Groups are named with the interfaces or, where there are none, with the machine."""
        asked = data.get("NetworkInterfaces") or ()
        plain = data.get("SecurityGroupIds") or data.get("SecurityGroups")
        if asked and plain:
            raise AwsError(
                "InvalidParameterCombination",
                "Network interfaces and an instance-level security groups may not be specified on "
                "the same request",
            )
        if not asked:
            return [NetworkInterface(groups=self._groups(plain, vpc))]
        return [
            NetworkInterface(
                device=each.get("DeviceIndex", number),
                card=each.get("NetworkCardIndex", 0),
                kind=each.get("InterfaceType") or "interface",
                groups=self._groups(each.get("Groups"), vpc),
            )
            for number, each in enumerate(asked)
        ]

    def _groups(self, asked: Sequence[str] | None, vpc: str) -> tuple[str, ...]:
        if not asked:
            return (self._network.default_group(vpc).id,)
        return tuple(self._group(each, vpc).id for each in asked)

    def _group(self, name_or_id: str, vpc: str) -> SecurityGroup:
        if name_or_id.startswith("sg-"):
            group = self._network.group(name_or_id)
            if group.vpc_id == vpc:
                return group
        return self._network.named_group(name_or_id, vpc)

    def _profile(self, asked: Mapping[str, str] | None) -> dict[str, str] | None:
        if not asked:
            return None
        field = "arn" if asked.get("Arn") else "name"
        name = asked.get("Arn") or asked.get("Name") or ""
        found = self._iam.find_profile(name)
        if found is None:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({name}) for parameter iamInstanceProfile.{field} is invalid. "
                f"Invalid IAM Instance Profile {'ARN' if field == 'arn' else field}",
            )
        return {"Arn": profile_arn(self._context, found), "Id": found.id}


class BlockDevice(NamedTuple):
    fleeting: bool = True
    """Whether it goes with the machine."""
    gib: int = 0


def _block_devices(image: Image, data: LaunchData) -> dict[str, BlockDevice]:
    """Those of the image, changed and added to by the launch: what it leaves unsaid stays."""
    disks: dict[str, BlockDevice] = {}
    for each in [*image.disks, *(data.get("BlockDeviceMappings") or ())]:
        device, said = each.get("DeviceName"), each.get("Ebs")
        if not device:
            continue
        if "NoDevice" in each:
            disks.pop(device, None)
        elif said is not None:
            known = disks.get(device, BlockDevice())
            disks[device] = BlockDevice(
                bool(said.get("DeleteOnTermination", known.fleeting)),
                said.get("VolumeSize") or known.gib,
            )
    return disks


class SubnetSelector:
    def __init__(self, region_offerings: RegionOfferings, network: VpcNetwork) -> None:
        self._region_offerings = region_offerings
        self._network = network

    def subnet(self, *said: Mapping[str, Any]) -> Subnet:
        """By what the request says first and its template after that."""
        zone = self._zone(said)
        for each in said:
            named = each.get("SubnetId") or _interface_subnet(each)
            if named:
                return _check_zone(self._network.subnet(named), zone)
        return self._default(zone)

    def _zone(self, said: tuple[Mapping[str, Any], ...]) -> str | None:
        for each in said:
            placement = each.get("Placement") or {}
            for where in (each, placement):
                zone, identity = where.get("AvailabilityZone"), where.get("AvailabilityZoneId")
                if zone or identity:
                    return self._known(
                        zone or self._region_offerings.zone_names.get(identity or ""), identity
                    )
        return None

    def _known(self, zone: str | None, identity: str | None) -> str:
        if zone is None or zone not in self._region_offerings.zones:
            raise AwsError(
                "InvalidParameterValue", f"Invalid availability zone: [{zone or identity}]"
            )
        return zone

    def _default(self, zone: str | None) -> Subnet:
        state = self._network.state
        homes = {each.id for each in state.vpcs.values() if each.default}
        if not homes:
            raise AwsError("VPCIdNotSpecified", "No default VPC for this user. Name a subnet.")
        for each in state.subnets.values():
            if each.vpc_id in homes and zone in (None, each.zone):
                return each
        where = "" if zone is None else f" in Availability Zone {zone}"
        raise AwsError("MissingInput", f"No subnets found for the default VPC{where}.")


def _interface_subnet(said: Mapping[str, Any]) -> str | None:
    for each in said.get("NetworkInterfaces") or ():
        if each.get("SubnetId"):
            return str(each["SubnetId"])
    return None


def _check_zone(subnet: Subnet, zone: str | None) -> Subnet:
    if zone not in (None, subnet.zone):
        raise AwsError(
            "InvalidParameterValue",
            f"The subnet '{subnet.id}' is not in the Availability Zone {zone}.",
        )
    return subnet


IMAGE_ARCHITECTURE_BY_TYPE: Final = {"amd64": "x86_64"}
FIRST_USABLE_ADDRESS: Final = 4  # AWS keeps the ones before it, and the last


class LaunchDependencies(NamedTuple):
    """The parts of the account that launches stand on."""

    context: AccountContext
    region_offerings: RegionOfferings
    capacity_market: CapacityMarket
    network: VpcNetwork
    iam: Iam
    instances: Instances
    reservations: CapacityReservations
    quota: VcpuQuotas
    builder: SpecificationBuilder


class InstanceLaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one type, all alike, in one subnet."""

    type: str
    subnet: Subnet
    data: LaunchData
    lifecycle: str = ON_DEMAND
    preference: str
    target: str | None
    max_price: float | None = None
    """For spot: what must not be exceeded."""
    tags: dict[str, str] = {}


class LaunchBatch(NamedTuple):
    """What the machines of one order have in common."""

    order: InstanceLaunchRequest
    build: LaunchSpecification
    key: str
    run: str
    token: str


class LaunchOutcome(msgspec.Struct, kw_only=True):
    """What came of an order; the machines are there once it has been settled."""

    build: LaunchSpecification | None = None
    instances: list[Instance] = []
    error: AwsError | None = None
    """Why it is not more."""


class InstanceLauncher:
    def __init__(self, deps: LaunchDependencies) -> None:
        self.deps = deps
        self._addresses = PrivateAddresses(deps.instances)
        deps.instances.watch(self._note)

    def launch(
        self, order: InstanceLaunchRequest, count: int, *, run: str = "", token: str = ""
    ) -> LaunchOutcome:
        """Takes what there is, up to the count. Nothing is launched before `settle`."""
        launch = LaunchOutcome()
        try:
            launch.build = build = self.checked(order)
            run = run or api_conventions.new_resource_id(self.deps.context, "r")
            batch = LaunchBatch(order, build, specification_key(build), run, token)
            for index in range(count):
                launch.instances.append(self._instance(batch, index))
        except AwsError as error:
            launch.error = error
        return launch

    def settle(self, launch: LaunchOutcome) -> None:
        """Lets the machines begin."""
        if launch.build is not None:
            self.deps.instances.begin(launch.instances, launch.build)

    def undo(self, launch: LaunchOutcome) -> None:
        """Gives back what was taken."""
        for each in launch.instances:
            self.deps.reservations.capacity_source.release(each)
            self._leave(each, launch.build)

    def checked(self, order: InstanceLaunchRequest) -> LaunchSpecification:
        """What the machines would be made of; raises where none could ever be launched so."""
        deps = self.deps
        machine = deps.region_offerings.machines.get(order.type)
        if machine is None:
            raise launch_errors.invalid_instance_type(order.type)
        zone, offered = order.subnet.zone, deps.region_offerings.offered[order.type]
        if zone not in offered:
            raise launch_errors.unsupported_zone(order.type, zone, offered)
        build = deps.builder.build(order.data, order.subnet)
        own = IMAGE_ARCHITECTURE_BY_TYPE.get(machine.architecture, machine.architecture.strip("[]"))
        if own != build.architecture:
            raise launch_errors.architecture_mismatch(own, build.architecture)
        check_capacity_request(self.wanted(order, build))
        if order.lifecycle == SPOT:
            self._check_spot(order)
        return build

    def wanted(self, order: InstanceLaunchRequest, build: LaunchSpecification) -> CapacityRequest:
        return CapacityRequest(
            type=order.type,
            zone=order.subnet.zone,
            platform=build.platform,
            tenancy=build.tenancy,
            lifecycle=order.lifecycle,
            preference=order.preference,
            target=order.target,
        )

    def _check_spot(self, order: InstanceLaunchRequest) -> None:
        deps, zone = self.deps, order.subnet.zone
        if not deps.capacity_market.is_offered(order.type, zone, SPOT):
            raise launch_errors.spot_unsupported(order.type)
        if not deps.quota.state.limits.spotRole and not deps.iam.has_spot_role():
            raise launch_errors.spot_role_missing()
        price = deps.capacity_market.price(order.type, zone, SPOT)
        if order.max_price is not None and price is not None and price > order.max_price:
            raise launch_errors.spot_max_price_too_low(order.max_price, price)

    def _instance(self, batch: LaunchBatch, index: int) -> Instance:
        """The next machine, with everything that it needs taken; or nothing taken, and why."""
        deps, order = self.deps, batch.order
        deps.quota.check_fleet(order.tags.get(FLEET_ID_TAG, ""))
        wanted = self.wanted(order, batch.build)
        reservation = deps.reservations.capacity_source.find(wanted)
        if reservation is None:
            # None of this order counts as running yet.
            deps.quota.check(order.type, order.lifecycle, index + 1)
        deps.network.take(order.subnet.id, len(batch.build.interfaces))
        deps.reservations.capacity_source.take(wanted, reservation)
        return self._made(batch, index, None if reservation is None else reservation.id)

    def _made(self, batch: LaunchBatch, index: int, reservation: str | None) -> Instance:
        order, machines, context = batch.order, self.deps.instances.state, self.deps.context
        pace, now = machines.pace, context.now()
        machines.number += 1
        return Instance(
            id=api_conventions.new_resource_id(context, "i"),
            number=machines.number,
            run=batch.run,
            index=index,
            type=order.type,
            build=batch.key,
            zone=order.subnet.zone,
            zone_id=order.subnet.zone_id,
            subnet=order.subnet.id,
            address=self._addresses.take(order.subnet, machines.number),
            launched=now,
            visible=now + pace.invisible.draw(context.random),
            lifecycle=order.lifecycle,
            spot_request=api_conventions.new_resource_id(context, "sir")
            if order.lifecycle == SPOT
            else None,
            preference=order.preference,
            target=order.target,
            reservation=reservation,
            token=batch.token,
            joins=not pace.duds or context.random.random() >= pace.duds,
            tags=dict(order.tags),
        )

    def _note(self, instance: Instance, before: str) -> None:
        """A terminated machine gives its addresses back."""
        if before and instance.state == TERMINATED:
            self._leave(instance, self.deps.instances.specification_of(instance))

    def _leave(self, instance: Instance, build: LaunchSpecification | None) -> None:
        self._addresses.release(instance)
        count = 1 if build is None else len(build.interfaces)
        self.deps.network.release(instance.subnet, count)


class PrivateAddresses:
    """Private addresses; which are taken is seen from the machines."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._seen: InstancesState | None = None
        self._taken: set[tuple[str, str]] = set()
        self._blocks: dict[str, IPv4Network] = {}

    def take(self, subnet: Subnet, number: int) -> str:
        """Another one for each machine, as far as there are others; begins where the last ended."""
        taken, block = self._known(), self._block(subnet.cidr)
        room = block.num_addresses - FIRST_USABLE_ADDRESS - 1
        for step in range(room):
            address = str(block[FIRST_USABLE_ADDRESS + (number + step) % room])
            if (subnet.id, address) not in taken:
                taken.add((subnet.id, address))
                return address
        raise AwsError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet.id}'.",
        )

    def release(self, instance: Instance) -> None:
        self._known().discard((instance.subnet, instance.address))

    def _block(self, cidr: str) -> IPv4Network:
        if cidr not in self._blocks:
            self._blocks[cidr] = IPv4Network(cidr)
        return self._blocks[cidr]

    def _known(self) -> set[tuple[str, str]]:
        """Collected anew when another state has been loaded."""
        if self._seen is not self._instances.state:
            self._seen = self._instances.state
            self._taken = {
                (each.subnet, each.address)
                for each in self._seen.instances.values()
                if each.state != TERMINATED
            }
        return self._taken
