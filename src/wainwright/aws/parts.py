"""Parts of the provider, and how they know each other."""

import msgspec

from wainwright.aws.account import Account
from wainwright.aws.beside import Sqs
from wainwright.aws.buying import Buyer
from wainwright.aws.by_id import ById
from wainwright.aws.catalogue import LiveCatalogue
from wainwright.aws.classes import Classes
from wainwright.aws.cluster import Cluster
from wainwright.aws.discovered import Discovered
from wainwright.aws.instances import Instances
from wainwright.aws.interruption import Announcements
from wainwright.aws.nodeclass.deletion import Deletion
from wainwright.aws.nodeclass.resolve import Resolver
from wainwright.aws.ordering import Site
from wainwright.aws.purchase import Means
from wainwright.aws.recovery import Recovery
from wainwright.aws.rehearsing import LaunchTemplates
from wainwright.aws.reservations import Availability
from wainwright.aws.seam import Seam
from wainwright.aws.slots import Slots
from wainwright.aws.sources import Shelves, Sources
from wainwright.aws.status import Statuses
from wainwright.aws.stock import Stock
from wainwright.aws.subnets import Addresses
from wainwright.aws.templates.ensure import Templates
from wainwright.catalogue.settings import Options
from wainwright.catalogue.supply import Gates
from wainwright.clock import Clock
from wainwright.cloud import Ledger
from wainwright.metrics import Registry


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a user settles once for the whole provider."""

    cluster: Cluster
    queue: str = ""
    """The name of the interruption queue; empty where there is none."""
    dns_ip: str = ""
    """Of the cluster's DNS, for classes that name none."""
    node_overlay: bool = True
    """The gate of that name."""
    rules: Options = Options()


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is outside of the provider."""

    seam: Seam
    ledger: Ledger
    clock: Clock
    metrics: Registry


class Parts:
    def __init__(self, world: World, setup: Setup) -> None:
        self._setup = setup
        self.clock = world.clock
        self.stock = Stock(world.clock)
        self.availability = Availability(world.clock)
        self.slots = Slots(self.availability, world.clock)
        self.addresses = Addresses(world.clock, self.stock)
        self.discovered = Discovered(world.clock)
        self._add_account(world, setup)
        self._add_classes(setup)
        self._add_launches(world)

    def _add_account(self, world: World, setup: Setup) -> None:
        self._account = Account(world.seam)
        self._ec2 = self._account.ec2
        self.by_id = ById(self._ec2, world.clock, world.metrics)
        self.templates = Templates(self._ec2, world.clock)
        self.live = LiveCatalogue(
            self._account,
            world.clock,
            setup.cluster.region,
            price_list=not setup.cluster.isolated_vpc,
        )
        self.instances = Instances(
            self._ec2, self.by_id, setup.cluster, self.availability, world.clock
        )
        self.statuses = Statuses(self._ec2, world.clock, world.metrics)
        queue = Sqs(world.seam, setup.queue)
        self.announcements = Announcements(queue, world.clock, world.metrics)

    def _add_classes(self, setup: Setup) -> None:
        gates = Gates(
            capacity_reservations=setup.cluster.capacity_reservations,
            node_overlay=setup.node_overlay,
        )
        shelves = Shelves(
            live=self.live,
            stock=self.stock,
            addresses=self.addresses,
            availability=self.availability,
            discovered=self.discovered,
            clock=self.clock,
            gates=gates,
            rules=setup.rules,
        )
        sources = Sources(shelves)
        rehearsal = LaunchTemplates(self.templates, self.site, sources.trial)
        self.resolver = Resolver(
            self._account, setup.cluster, self.clock, self.availability, rehearsal
        )
        self.classes = Classes(sources, self.resolver, self.clock)
        self.deletion = Deletion(self.templates, self.resolver.profiles, setup.cluster)

    def _add_launches(self, world: World) -> None:
        self.recovery = Recovery(self._ec2, self.by_id, world.ledger, world.clock)
        self.buyer = Buyer(
            Means(
                ec2=self._ec2,
                by_id=self.by_id,
                templates=self.templates,
                recovery=self.recovery,
                ledger=world.ledger,
                clock=world.clock,
                metrics=world.metrics,
                stock=self.stock,
                addresses=self.addresses,
                slots=self.slots,
                availability=self.availability,
            )
        )

    async def site(self) -> Site:
        """The cluster that nodes are to join."""
        facts = await self.resolver.facts.get()
        return Site(cluster=self._setup.cluster, facts=facts, dns_ip=self._setup.dns_ip)
