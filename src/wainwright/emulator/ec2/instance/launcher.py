"""Launches: from launch parameters to instances of one type in one subnet, as many as there is
capacity for, and the error that prevented more.

A launch takes capacity, quota and addresses first; `commit` starts the instances, and `roll_back`
releases what was taken.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from ipaddress import IPv4Address, IPv4Network
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
    RUNNING,
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


def specification_key(specification: LaunchSpecification) -> str:
    """The key under which equal specifications are stored once."""
    return blake2b(msgspec.json.encode(specification), digest_size=12).hexdigest()


class SpecificationBuilder:
    """Resolves the resources that launch parameters name; raises for those that do not exist."""

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
        devices = _block_devices(image, data)
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
            disks={device: each.delete_on_termination for device, each in devices.items()},
            sizes={device: each.gib for device, each in devices.items() if each.gib},
            root_device=image.root_device,
            key=data.get("KeyName"),
            monitored=bool((data.get("Monitoring") or {}).get("Enabled")),
            enclave=bool((data.get("EnclaveOptions") or {}).get("Enabled")),
            ebs_optimized=bool(data.get("EbsOptimized")),
            tenancy=placement.get("Tenancy") or "default",
            placement_group=placement.get("GroupName"),
        )

    def _interfaces(self, data: LaunchData, vpc: str) -> list[NetworkInterface]:
        """Security groups are set on the interfaces or, without any, on the instance."""
        requested = data.get("NetworkInterfaces") or ()
        instance_groups = data.get("SecurityGroupIds") or data.get("SecurityGroups")
        if requested and instance_groups:
            raise AwsError(
                "InvalidParameterCombination",
                "Network interfaces and an instance-level security groups may not be specified on "
                "the same request",
            )
        if not requested:
            return [NetworkInterface(groups=self._groups(instance_groups, vpc))]
        return [
            NetworkInterface(
                device=each.get("DeviceIndex", number),
                card=each.get("NetworkCardIndex", 0),
                kind=each.get("InterfaceType") or "interface",
                groups=self._groups(each.get("Groups"), vpc),
            )
            for number, each in enumerate(requested)
        ]

    def _groups(self, requested: Sequence[str] | None, vpc: str) -> tuple[str, ...]:
        if not requested:
            return (self._network.default_group(vpc).id,)
        return tuple(self._group(each, vpc).id for each in requested)

    def _group(self, name_or_id: str, vpc: str) -> SecurityGroup:
        if name_or_id.startswith("sg-"):
            group = self._network.group(name_or_id)
            if group.vpc_id == vpc:
                return group
        return self._network.named_group(name_or_id, vpc)

    def _profile(self, requested: Mapping[str, str] | None) -> dict[str, str] | None:
        if not requested:
            return None
        field = "arn" if requested.get("Arn") else "name"
        name = requested.get("Arn") or requested.get("Name") or ""
        profile = self._iam.find_profile(name)
        if profile is None:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({name}) for parameter iamInstanceProfile.{field} is invalid. "
                f"Invalid IAM Instance Profile {'ARN' if field == 'arn' else field}",
            )
        return {"Arn": profile_arn(self._context, profile), "Id": profile.id}


class BlockDevice(NamedTuple):
    delete_on_termination: bool = True
    """Whether the volume is deleted with the instance."""
    gib: int = 0


def _block_devices(image: Image, data: LaunchData) -> dict[str, BlockDevice]:
    """The devices of the image, with the mappings of the launch merged over them field by field."""
    devices: dict[str, BlockDevice] = {}
    for each in [*image.disks, *(data.get("BlockDeviceMappings") or ())]:
        device, ebs = each.get("DeviceName"), each.get("Ebs")
        if not device:
            continue
        if "NoDevice" in each:
            devices.pop(device, None)
        elif ebs is not None:
            previous = devices.get(device, BlockDevice())
            devices[device] = BlockDevice(
                bool(ebs.get("DeleteOnTermination", previous.delete_on_termination)),
                ebs.get("VolumeSize") or previous.gib,
            )
    return devices


class SubnetSelector:
    def __init__(self, region_offerings: RegionOfferings, network: VpcNetwork) -> None:
        self._region_offerings = region_offerings
        self._network = network

    def select(self, *sources: Mapping[str, Any]) -> Subnet:
        """The subnet of the first source that names one, else a default subnet of the zone."""
        zone = self._zone(sources)
        for each in sources:
            named = each.get("SubnetId") or _interface_subnet(each)
            if named:
                return _check_zone(self._network.subnet(named), zone)
        return self._default(zone)

    def _zone(self, sources: tuple[Mapping[str, Any], ...]) -> str | None:
        for each in sources:
            placement = each.get("Placement") or {}
            for where in (each, placement):
                zone, identity = where.get("AvailabilityZone"), where.get("AvailabilityZoneId")
                if zone or identity:
                    return self._check_known(
                        zone or self._region_offerings.zone_names.get(identity or ""), identity
                    )
        return None

    def _check_known(self, zone: str | None, identity: str | None) -> str:
        if zone is None or zone not in self._region_offerings.zones:
            raise AwsError(
                "InvalidParameterValue", f"Invalid availability zone: [{zone or identity}]"
            )
        return zone

    def _default(self, zone: str | None) -> Subnet:
        state = self._network.state
        default_vpcs = {each.id for each in state.vpcs.values() if each.default}
        if not default_vpcs:
            raise AwsError("VPCIdNotSpecified", "No default VPC for this user. Name a subnet.")
        for each in state.subnets.values():
            if each.vpc_id in default_vpcs and zone in (None, each.zone):
                return each
        where = "" if zone is None else f" in Availability Zone {zone}"
        raise AwsError("MissingInput", f"No subnets found for the default VPC{where}.")


def _interface_subnet(source: Mapping[str, Any]) -> str | None:
    for each in source.get("NetworkInterfaces") or ():
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
FIRST_USABLE_ADDRESS: Final = 4  # AWS reserves the addresses before it, and the last one


class LaunchDependencies(NamedTuple):
    """The services that launches use."""

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
    """Instances of one type in one subnet, with the same parameters."""

    type: str
    subnet: Subnet
    data: LaunchData
    lifecycle: str = ON_DEMAND
    preference: str
    target: str | None
    max_price: float | None = None
    """The maximum spot price."""
    tags: dict[str, str] = {}


class LaunchBatch(NamedTuple):
    """What the instances of one launch share."""

    request: InstanceLaunchRequest
    specification: LaunchSpecification
    specification_key: str
    launch_id: str
    token: str


class LaunchOutcome(msgspec.Struct, kw_only=True):
    """The result of a launch; the instances start with `commit`."""

    specification: LaunchSpecification | None = None
    instances: list[Instance] = []
    error: AwsError | None = None
    """Why there are no more instances."""


class LaunchFault(msgspec.Struct, frozen=True, kw_only=True):
    """Launches from matching capacity pools that fail; an absent field matches all."""

    code: str
    message: str = "This launch fails because a fault says so."
    probability: float = 1.0
    instance_type: str | None = None
    """With wildcards."""
    zone: str | None = None
    capacity_type: str | None = None
    reservation: str | None = None

    def matches(self, request: InstanceLaunchRequest) -> bool:
        if request.target is not None:
            capacity_type = "reserved"
        else:
            capacity_type = SPOT if request.lifecycle == SPOT else ON_DEMAND
        return (
            fnmatchcase(request.type, self.instance_type or "*")
            and self.zone in (None, request.subnet.zone)
            and self.capacity_type in (None, capacity_type)
            and self.reservation in (None, request.target)
        )


class InstanceLauncher:
    def __init__(self, deps: LaunchDependencies) -> None:
        self.deps = deps
        self.faults: list[LaunchFault] = []
        """Not saved with the account."""
        self._addresses = PrivateAddresses(deps.instances)
        deps.instances.add_listener(self._on_state_change)

    def launch(
        self, request: InstanceLaunchRequest, count: int, *, launch_id: str = "", token: str = ""
    ) -> LaunchOutcome:
        """Takes capacity for up to `count` instances. Nothing starts before `commit`."""
        launch = LaunchOutcome()
        try:
            self._check_faults(request)
            launch.specification = specification = self.validate(request)
            launch_id = launch_id or api_conventions.new_resource_id(self.deps.context, "r")
            batch = LaunchBatch(
                request, specification, specification_key(specification), launch_id, token
            )
            for index in range(count):
                launch.instances.append(self._launch_instance(batch, index))
        except AwsError as error:
            launch.error = error
        return launch

    def _check_faults(self, request: InstanceLaunchRequest) -> None:
        """Randomness is drawn only for launches that a fault is about."""
        for fault in self.faults:
            if fault.matches(request) and (
                fault.probability >= 1 or self.deps.context.random.random() < fault.probability
            ):
                raise AwsError(fault.code, fault.message)

    def commit(self, launch: LaunchOutcome) -> None:
        """Starts the instances."""
        if launch.specification is not None:
            self.deps.instances.add_launched(launch.instances, launch.specification)

    def add_running(
        self, request: InstanceLaunchRequest, identity: str, *, launched: float
    ) -> Instance:
        """An instance that has been running since then, wherever its capacity came from."""
        specification = self.validate(request)
        key = specification_key(specification)
        batch = LaunchBatch(request, specification, key, f"r-{identity[2:]}", "")
        self.deps.network.take_addresses(request.subnet.id, len(specification.interfaces))
        made = self._create_instance(batch, 0, request.target)
        instance = msgspec.structs.replace(
            made, id=identity, state=RUNNING, launched=launched, visible_from=launched
        )
        self.deps.instances.add_running(instance, specification)
        reservation = self.deps.reservations.capacity_source.reservations.get(request.target or "")
        if reservation is not None:
            reservation.used += 1
        return instance

    def roll_back(self, launch: LaunchOutcome) -> None:
        """Releases what the launch has taken."""
        for each in launch.instances:
            self.deps.reservations.capacity_source.release(each)
            self._release_addresses(each, launch.specification)

    def validate(self, request: InstanceLaunchRequest) -> LaunchSpecification:
        """The launch specification; raises where no instance could ever be launched like this."""
        deps = self.deps
        type_info = deps.region_offerings.instance_types.get(request.type)
        if type_info is None:
            raise launch_errors.invalid_instance_type(request.type)
        zone, offered = request.subnet.zone, deps.region_offerings.zones_by_type[request.type]
        if zone not in offered:
            raise launch_errors.unsupported_zone(request.type, zone, offered)
        specification = deps.builder.build(request.data, request.subnet)
        architecture = IMAGE_ARCHITECTURE_BY_TYPE.get(
            type_info.architecture, type_info.architecture.strip("[]")
        )
        if architecture != specification.architecture:
            raise launch_errors.architecture_mismatch(architecture, specification.architecture)
        check_capacity_request(self.capacity_request(request, specification))
        if request.lifecycle == SPOT:
            self._check_spot(request)
        return specification

    def capacity_request(
        self, request: InstanceLaunchRequest, specification: LaunchSpecification
    ) -> CapacityRequest:
        return CapacityRequest(
            type=request.type,
            zone=request.subnet.zone,
            platform=specification.platform,
            tenancy=specification.tenancy,
            lifecycle=request.lifecycle,
            preference=request.preference,
            target=request.target,
        )

    def _check_spot(self, request: InstanceLaunchRequest) -> None:
        deps, zone = self.deps, request.subnet.zone
        if not deps.capacity_market.is_offered(request.type, zone, SPOT):
            raise launch_errors.spot_unsupported(request.type)
        if not deps.quota.state.limits.spotRole and not deps.iam.has_spot_role():
            raise launch_errors.spot_role_missing()
        price = deps.capacity_market.price(request.type, zone, SPOT)
        if request.max_price is not None and price is not None and price > request.max_price:
            raise launch_errors.spot_max_price_too_low(request.max_price, price)

    def _launch_instance(self, batch: LaunchBatch, index: int) -> Instance:
        """The next instance, with capacity and addresses taken; on an error none are."""
        deps, request = self.deps, batch.request
        deps.quota.check_fleet(request.tags.get(FLEET_ID_TAG, ""))
        capacity_request = self.capacity_request(request, batch.specification)
        reservation = deps.reservations.capacity_source.find_capacity(capacity_request)
        if reservation is None:
            # The quota counts committed instances only: add those of this launch.
            deps.quota.check(request.type, request.lifecycle, index + 1)
        deps.network.take_addresses(request.subnet.id, len(batch.specification.interfaces))
        deps.reservations.capacity_source.take(capacity_request, reservation)
        return self._create_instance(batch, index, None if reservation is None else reservation.id)

    def _create_instance(self, batch: LaunchBatch, index: int, reservation: str | None) -> Instance:
        request, instances_state, context = (
            batch.request,
            self.deps.instances.state,
            self.deps.context,
        )
        timings, now = instances_state.timings, context.now()
        instances_state.last_number += 1
        return Instance(
            id=api_conventions.new_resource_id(context, "i"),
            number=instances_state.last_number,
            launch_id=batch.launch_id,
            index=index,
            type=request.type,
            specification_key=batch.specification_key,
            zone=request.subnet.zone,
            zone_id=request.subnet.zone_id,
            subnet=request.subnet.id,
            address=self._addresses.take(request.subnet, instances_state.last_number),
            launched=now,
            visible_from=now + timings.visibility_delay.draw(context.random),
            lifecycle=request.lifecycle,
            spot_request=api_conventions.new_resource_id(context, "sir")
            if request.lifecycle == SPOT
            else None,
            preference=request.preference,
            target=request.target,
            reservation=reservation,
            token=batch.token,
            joins_cluster=not timings.never_join_rate
            or context.random.random() >= timings.never_join_rate,
            tags=dict(request.tags),
        )

    def _on_state_change(self, instance: Instance, previous_state: str) -> None:
        """Releases the addresses of a terminated instance."""
        if previous_state and instance.state == TERMINATED:
            self._release_addresses(instance, self.deps.instances.specification_of(instance))

    def _release_addresses(
        self, instance: Instance, specification: LaunchSpecification | None
    ) -> None:
        self._addresses.release(instance)
        count = 1 if specification is None else len(specification.interfaces)
        self.deps.network.release_addresses(instance.subnet, count)


class PrivateAddresses:
    """Private addresses of instances; not saved, but derived from the instances.

    The free ones of a subnet are the bits of a number: the next free one is found at once, however
    many before it are taken. Trying one after the other is quadratic in a subnet that fills up.
    """

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._counted_state: InstancesState | None = None
        self._taken: dict[str, set[str]] = {}
        self._free: dict[str, int] = {}
        """By subnet: bit n is the n-th address that instances can have."""
        self._first: dict[str, int] = {}
        self._blocks: dict[str, IPv4Network] = {}

    def take(self, subnet: Subnet, number: int) -> str:
        """A free address of the subnet: the first from the instance number on, in a circle."""
        taken, block = self._taken_addresses(), self._parse_block(subnet.cidr)
        free = self._free_places(subnet.id, block)
        start = number % _usable_size(block)
        following = free >> start
        place = start + _lowest_bit(following) if following else _lowest_bit(free)
        if place < 0:
            raise AwsError(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{subnet.id}'.",
            )
        address = str(block[FIRST_USABLE_ADDRESS + place])
        taken.setdefault(subnet.id, set()).add(address)
        self._free[subnet.id] = free ^ 1 << place
        return address

    def release(self, instance: Instance) -> None:
        taken = self._taken_addresses().get(instance.subnet, set())
        if instance.address in taken:
            taken.remove(instance.address)
            if instance.subnet in self._free:
                place = int(IPv4Address(instance.address)) - self._first[instance.subnet]
                self._free[instance.subnet] |= 1 << place

    def _free_places(self, subnet_id: str, block: IPv4Network) -> int:
        if subnet_id not in self._free:
            size, first = _usable_size(block), int(block.network_address) + FIRST_USABLE_ADDRESS
            places = bytearray(b"1" * size)
            for address in self._taken.get(subnet_id, ()):
                places[~(int(IPv4Address(address)) - first)] = ord("0")
            self._free[subnet_id], self._first[subnet_id] = int(places, 2), first
        return self._free[subnet_id]

    def _parse_block(self, cidr: str) -> IPv4Network:
        # Parsing a CIDR block for every instance would dominate large launches.
        if cidr not in self._blocks:
            self._blocks[cidr] = IPv4Network(cidr)
        return self._blocks[cidr]

    def _taken_addresses(self) -> dict[str, set[str]]:
        """The taken addresses by subnet, counted anew only when another state has been loaded."""
        if self._counted_state is not self._instances.state:
            self._counted_state = self._instances.state
            self._taken, self._free = {}, {}
            for each in self._counted_state.instances.values():
                if each.state != TERMINATED:
                    self._taken.setdefault(each.subnet, set()).add(each.address)
        return self._taken


def _usable_size(block: IPv4Network) -> int:
    return block.num_addresses - FIRST_USABLE_ADDRESS - 1


def _lowest_bit(number: int) -> int:
    """The place of the lowest bit that is set; -1 where none is."""
    return (number & -number).bit_length() - 1
