"""The parts of an emulated account, and how they know each other."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from wainwright.emulator.ec2.building import Builder
from wainwright.emulator.ec2.catalogue import Catalogue
from wainwright.emulator.ec2.fleet import Fleets
from wainwright.emulator.ec2.goods import Goods
from wainwright.emulator.ec2.group_rules import GroupRules
from wainwright.emulator.ec2.images import Images
from wainwright.emulator.ec2.instances import Instances
from wainwright.emulator.ec2.joining import RECLAIMED
from wainwright.emulator.ec2.launching import Ground, Launcher
from wainwright.emulator.ec2.lookup import (
    GROUP,
    IMAGE,
    INSTANCE,
    PLACEMENT,
    RESERVATION,
    RULE,
    SUBNET,
    TEMPLATE,
    VPC,
)
from wainwright.emulator.ec2.machines import CapacityReservation, Instance
from wainwright.emulator.ec2.network import Network
from wainwright.emulator.ec2.placement import Placement
from wainwright.emulator.ec2.prices import Shop
from wainwright.emulator.ec2.quota import Quota, QuotaState
from wainwright.emulator.ec2.reservations import Reservations
from wainwright.emulator.ec2.run import Runs
from wainwright.emulator.ec2.spot_requests import SpotRequests
from wainwright.emulator.ec2.status import Statuses
from wainwright.emulator.ec2.tagging import Tagging
from wainwright.emulator.ec2.templates import Templates
from wainwright.emulator.interruptions import Interruptions
from wainwright.emulator.services.eks import Eks
from wainwright.emulator.services.iam import Iam
from wainwright.emulator.services.pricing import ListPrices, Pricing
from wainwright.emulator.services.sqs import Sqs
from wainwright.emulator.services.ssm import Ssm
from wainwright.emulator.settings import Settings
from wainwright.emulator.world import Handler, World


class Part(Protocol):
    """A service, or one subject of a large one."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> msgspec.Struct: ...
    def operations(self) -> Mapping[str, Handler]: ...


class Book:
    """On-demand prices of all regions: the shop's in its own, the list's elsewhere."""

    def __init__(self, goods: Goods, shop: Shop) -> None:
        self._goods = goods
        self._shop = shop
        self._elsewhere = ListPrices()

    def on_demand(self, region: str) -> Mapping[str, float]:
        if region != self._goods.region:
            return self._elsewhere.on_demand(region)
        return self._shop.on_demand()


class Parts:
    """All of them; each has its own state and the others only by their methods."""

    def __init__(self, world: World, goods: Goods, settings: Settings, queue: str) -> None:
        self.world = world
        self.catalogue = Catalogue(world, goods)
        self.shop = Shop(world, goods, moving=settings.moving_prices)
        self.shop.set_stock(settings.stock)
        self.network = Network(world, goods)
        self.group_rules = GroupRules(world, self.network)
        self.images = Images(world)
        self.templates = Templates(world)
        self.placement = Placement(world)
        self.tagging = Tagging()
        self.iam = Iam(world)
        self.ssm = Ssm(world)
        self.eks = Eks(world, self._vpc_of)
        self.sqs = Sqs(world, settings.queue_base)
        self.pricing = Pricing(world, Book(goods, self.shop))
        self._add_machines(goods, settings, queue)
        self._tell_tagging()

    def _add_machines(self, goods: Goods, settings: Settings, queue: str) -> None:
        """Machines, and all that launches, counts and ends them."""
        world = self.world
        self.instances = Instances(world)
        self.instances.state.pace = settings.pace
        self.reservations = Reservations(world, goods, self.shop, self.instances)
        self.quota = Quota(world, goods, self.instances, self.reservations)
        self.quota.state = QuotaState(limits=settings.quota)
        builder = Builder(world, self.network, self.images, self.iam)
        ground = Ground(
            world,
            goods,
            self.shop,
            self.network,
            self.iam,
            self.instances,
            self.reservations,
            self.quota,
            builder,
        )
        launcher = Launcher(ground)
        self.fleets = Fleets(launcher, self.templates)
        self.runs = Runs(launcher, self.templates)
        self.interruptions = Interruptions(world, self.sqs, queue, self.instances)
        self.interruptions.state.spot_share = settings.spot_interruptions
        self.instances.watch(self.interruptions.noticed)
        self.reservations.book.watch(self._block_ends)
        self.statuses = Statuses(self.instances, self.interruptions)
        self.spot_requests = SpotRequests(self.instances, self.shop)

    def _block_ends(self, block: CapacityReservation, machines: list[Instance]) -> None:
        ends = block.end or self.world.now()
        self.interruptions.block(block.id, machines, ends=ends, taken=ends - RECLAIMED)

    def all(self) -> tuple[Part, ...]:
        """In the order in which they were made."""
        return tuple(each for each in vars(self).values() if hasattr(each, "operations"))

    def dry_runs(self) -> frozenset[str]:
        """Operations that look at a dry run themselves; see `dryrun`."""
        return frozenset().union(*(getattr(part, "dry_runs", ()) for part in self.all()))

    def _vpc_of(self, subnet_id: str) -> str | None:
        subnet = self.network.state.subnets.get(subnet_id)
        return None if subnet is None else subnet.vpc_id

    def _tell_tagging(self) -> None:
        """States are looked up each time, as another may have been loaded."""
        holds, network = self.tagging.holds, self.network
        holds(VPC, lambda: network.state.vpcs)
        holds(SUBNET, lambda: network.state.subnets)
        holds(GROUP, lambda: network.state.groups)
        holds(RULE, self.group_rules.rules)
        holds(IMAGE, lambda: self.images.state.images)
        holds(TEMPLATE, lambda: self.templates.state.templates)
        holds(PLACEMENT, lambda: self.placement.state.groups)
        holds(RESERVATION, lambda: self.reservations.state.reservations)
        holds(
            INSTANCE,
            lambda: self.instances.state.instances,
            changed=lambda _: self.instances.changed(),
            seen=self._seen,
        )

    def _seen(self, instance_id: str) -> bool:
        """A machine that was launched a moment ago may not be found yet."""
        found = self.instances.get(instance_id)
        return found is not None and found.visible <= self.world.now()
