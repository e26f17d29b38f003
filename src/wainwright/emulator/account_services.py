"""The services of an emulated account, their dependencies, and what a new account contains: a
network, a cluster, a role, images and a queue, ready for use.

Everything that a provider discovers by tag carries `karpenter.sh/discovery` with the name of the
cluster.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Final, Protocol

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.emulator.api_conventions import (
    CAPACITY_RESERVATION,
    IMAGE,
    INSTANCE,
    LAUNCH_TEMPLATE,
    PLACEMENT_GROUP,
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
    SUBNET,
    VPC,
)
from wainwright.emulator.context import AccountContext, OperationHandler
from wainwright.emulator.ec2.capacity_market import CapacityMarket
from wainwright.emulator.ec2.capacity_reservations.reservation_api import CapacityReservations
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    BLOCK_RECLAIM_SECONDS,
    CapacityReservation,
)
from wainwright.emulator.ec2.fleets.create_fleet import Fleets
from wainwright.emulator.ec2.images import Image, Images
from wainwright.emulator.ec2.instance.instance_status import InstanceStatuses, SpotInstanceRequests
from wainwright.emulator.ec2.instance.instances import Instances
from wainwright.emulator.ec2.instance.interruptions import Interruptions
from wainwright.emulator.ec2.instance.launcher import (
    InstanceLauncher,
    InstanceLaunchRequest,
    LaunchDependencies,
    SpecificationBuilder,
)
from wainwright.emulator.ec2.instance.lifecycle import Instance
from wainwright.emulator.ec2.instance.quotas import QuotaState, VcpuQuotas
from wainwright.emulator.ec2.instance.run_instances import RunInstances
from wainwright.emulator.ec2.instance_types import InstanceTypes
from wainwright.emulator.ec2.launch_templates import LaunchTemplates
from wainwright.emulator.ec2.placement_groups import PlacementGroups
from wainwright.emulator.ec2.region_offerings import RegionOfferings
from wainwright.emulator.ec2.tags import ResourceTags
from wainwright.emulator.ec2.vpc.security_group_rules import SecurityGroupRules
from wainwright.emulator.ec2.vpc.vpc_network import VpcNetwork
from wainwright.emulator.services.eks import Eks
from wainwright.emulator.services.iam import Iam
from wainwright.emulator.services.pricing import BuiltinPrices, Pricing
from wainwright.emulator.services.public_images import PublicImage
from wainwright.emulator.services.resource_groups import ReservationGroups, ResourceGroups
from wainwright.emulator.services.sqs import Sqs
from wainwright.emulator.services.ssm import Ssm
from wainwright.emulator.settings import EmulatorSettings


class RegisteredService(Protocol):
    """A service, or one subject of a large one."""

    @property
    def name(self) -> str:
        """The service name in boto3."""
        ...

    @property
    def state(self) -> msgspec.Struct:
        """Everything that the service keeps; saved with the account as JSON."""
        ...

    def operations(self) -> Mapping[str, OperationHandler]:
        """Handlers by operation name; each takes and returns the shapes of boto3."""
        ...


class OnDemandPrices:
    """On-demand prices: of the capacity market here, of the price list in other regions."""

    def __init__(self, region_offerings: RegionOfferings, capacity_market: CapacityMarket) -> None:
        self._region_offerings = region_offerings
        self._capacity_market = capacity_market
        self._builtin_prices = BuiltinPrices()

    def on_demand(self, region: str) -> Mapping[str, float]:
        if region != self._region_offerings.region:
            return self._builtin_prices.on_demand(region)
        return self._capacity_market.on_demand()


class AccountServices:
    """All services; each has its own state, and uses the others only through their methods."""

    def __init__(
        self,
        context: AccountContext,
        region_offerings: RegionOfferings,
        settings: EmulatorSettings,
        queue: str,
    ) -> None:
        self.context = context
        self.instance_types = InstanceTypes(context, region_offerings)
        self.capacity_market = CapacityMarket(
            context, region_offerings, moving_prices=settings.moving_prices
        )
        self.capacity_market.set_capacity_rules(settings.capacity_rules)
        self.network = VpcNetwork(context, region_offerings)
        self.group_rules = SecurityGroupRules(context, self.network)
        self.images = Images(context)
        self.templates = LaunchTemplates(context)
        self.placement = PlacementGroups(context)
        self.resource_tags = ResourceTags()
        self.iam = Iam(context)
        self.ssm = Ssm(context)
        self.eks = Eks(context, self._find_vpc)
        self.sqs = Sqs(context, settings.queue_base)
        self.pricing = Pricing(context, OnDemandPrices(region_offerings, self.capacity_market))
        self._add_instance_services(region_offerings, settings, queue)
        self.resource_groups = ResourceGroups(context, self._find_reservations)
        self.reservation_groups = ReservationGroups(
            context, self.resource_groups, self._find_reservations
        )
        self._register_taggable()

    def _add_instance_services(
        self, region_offerings: RegionOfferings, settings: EmulatorSettings, queue: str
    ) -> None:
        """Instances, and the services that launch, count, interrupt and terminate them."""
        context = self.context
        self.instances = Instances(context)
        self.instances.state.timings = settings.timings
        self.reservations = CapacityReservations(
            context, region_offerings, self.capacity_market, self.instances
        )
        self.quota = VcpuQuotas(context, region_offerings, self.instances, self.reservations)
        self.quota.state = QuotaState(limits=settings.quota)
        builder = SpecificationBuilder(context, self.network, self.images, self.iam)
        deps = LaunchDependencies(
            context,
            region_offerings,
            self.capacity_market,
            self.network,
            self.iam,
            self.instances,
            self.reservations,
            self.quota,
            builder,
        )
        self.launcher = launcher = InstanceLauncher(deps)
        self.fleets = Fleets(launcher, self.templates)
        self.run_instances = RunInstances(launcher, self.templates)
        self.interruptions = Interruptions(context, self.sqs, queue, self.instances)
        self.interruptions.state.monthly_spot_interruption_rate = settings.spot_interruptions
        self.instances.add_listener(self.interruptions.on_state_change)
        self.reservations.lifecycle.add_listener(self._on_block_ending)
        self.statuses = InstanceStatuses(self.instances, self.interruptions)
        self.spot_requests = SpotInstanceRequests(self.instances, self.capacity_market)

    def _on_block_ending(self, reservation: CapacityReservation, instances: list[Instance]) -> None:
        ends = reservation.end or self.context.now()
        self.interruptions.warn_block_expiration(
            reservation.id, instances, ends=ends, reclaimed=ends - BLOCK_RECLAIM_SECONDS
        )

    def all(self) -> tuple[RegisteredService, ...]:
        """Each names the operations that it handles; this is also their order in a saved state."""
        return (
            self.instance_types,
            self.capacity_market,
            self.network,
            self.group_rules,
            self.images,
            self.templates,
            self.placement,
            self.resource_tags,
            self.iam,
            self.ssm,
            self.eks,
            self.sqs,
            self.pricing,
            self.instances,
            self.reservations,
            self.quota,
            self.fleets,  # CreateFleet, DescribeFleets
            self.run_instances,  # RunInstances
            self.interruptions,
            self.statuses,
            self.spot_requests,
            self.resource_groups,
            self.reservation_groups,
        )

    def dry_runs(self) -> frozenset[str]:
        """Operations that handle DryRun themselves; see `api_conventions`."""
        return frozenset().union(*(getattr(part, "dry_runs", ()) for part in self.all()))

    def _find_vpc(self, subnet_id: str) -> str | None:
        subnet = self.network.state.subnets.get(subnet_id)
        return None if subnet is None else subnet.vpc_id

    def seed_reservations(self, entries: Iterable[CloudReservation]) -> None:
        """Adds or changes reservations from the Cloud, and the groups that they are in."""
        reservations = tuple(entries)
        self.reservations.seed(reservations)
        self.resource_groups.seed(reservations)

    def add_running_instance(
        self, request: InstanceLaunchRequest, identity: str, *, launched: float
    ) -> Instance:
        """An instance as it was found; AwsError where EC2 could not have launched it."""
        return self.launcher.add_running(request, identity, launched=launched)

    def _find_reservations(self) -> Mapping[str, CapacityReservation]:
        return self.reservations.state.reservations

    def _register_taggable(self) -> None:
        """By function: the state of a service is replaced when an account is loaded."""
        register_resources, network = self.resource_tags.register_resources, self.network
        register_resources(VPC, lambda: network.state.vpcs)
        register_resources(SUBNET, lambda: network.state.subnets)
        register_resources(SECURITY_GROUP, lambda: network.state.groups)
        register_resources(SECURITY_GROUP_RULE, self.group_rules.rules)
        register_resources(IMAGE, lambda: self.images.state.images)
        register_resources(LAUNCH_TEMPLATE, lambda: self.templates.state.templates)
        register_resources(PLACEMENT_GROUP, lambda: self.placement.state.groups)
        register_resources(CAPACITY_RESERVATION, lambda: self.reservations.state.reservations)
        register_resources(
            INSTANCE,
            lambda: self.instances.state.instances,
            on_change=lambda _: self.instances.invalidate_listing(),
            is_visible=self._is_visible,
        )

    def _is_visible(self, instance_id: str) -> bool:
        """Whether the API finds the instance yet: a new one may be invisible for a moment."""
        instance = self.instances.get(instance_id)
        return instance is not None and instance.visible_from <= self.context.now()


DISCOVERY_TAG: Final = "karpenter.sh/discovery"
VPC_CIDR: Final = IPv4Network("192.168.0.0/16")
SUBNET_PREFIX_LENGTH: Final = (
    19  # 8,187 addresses per subnet; with six zones the VPC has blocks left for more subnets
)


class AccountResources(msgspec.Struct, frozen=True, kw_only=True):
    """The created resources, by name and id: enough to configure a client."""

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


def create_default_resources(
    services: AccountServices, zones: Mapping[str, str], settings: EmulatorSettings
) -> AccountResources:
    """Creates the resources of a new account."""
    name, role = settings.cluster, f"KarpenterNodeRole-{settings.cluster}"
    vpc = services.network.create_vpc(
        {"CidrBlock": str(VPC_CIDR), "TagSpecifications": _tag_specifications(name, "vpc", "vpc")}
    )["Vpc"]["VpcId"]
    subnets = _create_subnets(services, name, vpc, zones)
    services.network.make_default(vpc)
    group = services.network.create_group(
        {
            "GroupName": f"{name}-nodes",
            "Description": "Nodes of the cluster",
            "VpcId": vpc,
            "TagSpecifications": _tag_specifications(name, "security-group", "nodes"),
        }
    )["GroupId"]
    services.iam.seed(role)
    services.images.add(to_ec2_image(each) for each in services.ssm.images())
    services.eks.seed(
        name,
        subnets=list(subnets.values()),
        groups=[group],
        version=settings.kubernetes,
        control_plane=settings.control_plane,
    )
    return AccountResources(
        region=services.context.region,
        account=services.context.account,
        cluster=name,
        queue=name,
        queue_url=services.sqs.seed(name),
        role=role,
        discovery={DISCOVERY_TAG: name},
        vpc=vpc,
        subnets=subnets,
        security_group=group,
    )


def _create_subnets(
    services: AccountServices, name: str, vpc: str, zones: Mapping[str, str]
) -> dict[str, str]:
    """One private subnet in each zone."""
    blocks = VPC_CIDR.subnets(new_prefix=SUBNET_PREFIX_LENGTH)
    subnet_ids = {}
    for zone, block in zip(zones, blocks, strict=False):
        response = services.network.create_subnet(
            {
                "VpcId": vpc,
                "AvailabilityZone": zone,
                "CidrBlock": str(block),
                "TagSpecifications": _tag_specifications(name, "subnet", f"private-{zone}"),
            }
        )
        subnet_ids[zone] = response["Subnet"]["SubnetId"]
    return subnet_ids


def _tag_specifications(cluster: str, kind: str, name: str) -> list[dict[str, object]]:
    tags = {"Name": f"{cluster}-{name}", DISCOVERY_TAG: cluster}
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def to_ec2_image(image: PublicImage) -> Image:
    """A public image as EC2 stores it."""
    return Image(
        id=image.id,
        name=image.name,
        architecture=image.architecture,
        owner=image.owner,
        owner_alias="amazon",
        created=image.created,
        deprecated=image.deprecated,
        description=image.description,
        platform=image.platform,
        root_device=image.root_device,
        disks=image.mappings(),
    )
