"""Launching: one kind of machine in one pool, as many as can be had, and why not more."""

from ipaddress import IPv4Network
from typing import Final, NamedTuple

import msgspec

from wainwright.emulator import ids
from wainwright.emulator.ec2 import launch_errors
from wainwright.emulator.ec2.building import Builder, Data, key_of
from wainwright.emulator.ec2.goods import Goods
from wainwright.emulator.ec2.instances import Instances
from wainwright.emulator.ec2.joining import Wanted, check
from wainwright.emulator.ec2.lifecycle import Machines
from wainwright.emulator.ec2.machines import (
    ON_DEMAND,
    SPOT,
    TERMINATED,
    Build,
    Instance,
)
from wainwright.emulator.ec2.network import Network
from wainwright.emulator.ec2.prices import Shop
from wainwright.emulator.ec2.quota import FLEET, Quota
from wainwright.emulator.ec2.reservations import Reservations
from wainwright.emulator.ec2.state import Subnet
from wainwright.emulator.services.iam import Iam
from wainwright.emulator.world import World
from wainwright.errors import AwsError

ARCHITECTURES: Final = {"amd64": "x86_64"}
FIRST_ADDRESS: Final = 4  # AWS keeps the ones before it, and the last


class Ground(NamedTuple):
    """The parts of the account that launches stand on."""

    world: World
    goods: Goods
    shop: Shop
    network: Network
    iam: Iam
    instances: Instances
    reservations: Reservations
    quota: Quota
    builder: Builder


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one type, all alike, in one subnet."""

    type: str
    subnet: Subnet
    data: Data
    lifecycle: str = ON_DEMAND
    preference: str
    target: str | None
    most_price: float | None = None
    """For spot: what must not be exceeded."""
    tags: dict[str, str] = {}


class Batch(NamedTuple):
    """What the machines of one order have in common."""

    order: Order
    build: Build
    key: str
    run: str
    token: str


class Launch(msgspec.Struct, kw_only=True):
    """What came of an order; the machines are there once it has been settled."""

    build: Build | None = None
    instances: list[Instance] = []
    error: AwsError | None = None
    """Why it is not more."""


class Launcher:
    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._addresses = Addresses(ground.instances)
        ground.instances.watch(self._note)

    def launch(self, order: Order, count: int, *, run: str = "", token: str = "") -> Launch:
        """Takes what there is, up to the count. Nothing is launched before `settle`."""
        launch = Launch()
        try:
            launch.build = build = self.checked(order)
            run = run or ids.new(self.ground.world, "r")
            batch = Batch(order, build, key_of(build), run, token)
            for index in range(count):
                launch.instances.append(self._instance(batch, index))
        except AwsError as error:
            launch.error = error
        return launch

    def settle(self, launch: Launch) -> None:
        """Lets the machines begin."""
        if launch.build is not None:
            self.ground.instances.begin(launch.instances, launch.build)

    def undo(self, launch: Launch) -> None:
        """Gives back what was taken."""
        for each in launch.instances:
            self.ground.reservations.joining.give_back(each)
            self._leave(each, launch.build)

    def checked(self, order: Order) -> Build:
        """What the machines would be made of; raises where none could ever be launched so."""
        ground = self.ground
        machine = ground.goods.machines.get(order.type)
        if machine is None:
            raise launch_errors.no_such_type(order.type)
        zone, offered = order.subnet.zone, ground.goods.offered[order.type]
        if zone not in offered:
            raise launch_errors.unsupported(order.type, zone, offered)
        build = ground.builder.build(order.data, order.subnet)
        own = ARCHITECTURES.get(machine.architecture, machine.architecture.strip("[]"))
        if own != build.architecture:
            raise launch_errors.other_architecture(own, build.architecture)
        check(self.wanted(order, build))
        if order.lifecycle == SPOT:
            self._check_spot(order)
        return build

    def wanted(self, order: Order, build: Build) -> Wanted:
        return Wanted(
            type=order.type,
            zone=order.subnet.zone,
            platform=build.platform,
            tenancy=build.tenancy,
            lifecycle=order.lifecycle,
            preference=order.preference,
            target=order.target,
        )

    def _check_spot(self, order: Order) -> None:
        ground, zone = self.ground, order.subnet.zone
        if not ground.shop.sells(order.type, zone, SPOT):
            raise launch_errors.no_spot(order.type)
        if not ground.quota.state.limits.spotRole and not ground.iam.has_spot_role():
            raise launch_errors.no_spot_role()
        price = ground.shop.price(order.type, zone, SPOT)
        if order.most_price is not None and price is not None and price > order.most_price:
            raise launch_errors.too_dear(order.most_price, price)

    def _instance(self, batch: Batch, index: int) -> Instance:
        """The next machine, with everything that it needs taken; or nothing taken, and why."""
        ground, order = self.ground, batch.order
        ground.quota.check_fleet(order.tags.get(FLEET, ""))
        wanted = self.wanted(order, batch.build)
        reservation = ground.reservations.joining.find(wanted)
        if reservation is None:
            # None of this order counts as running yet.
            ground.quota.check(order.type, order.lifecycle, index + 1)
        ground.network.take(order.subnet.id, len(batch.build.interfaces))
        ground.reservations.joining.take(wanted, reservation)
        return self._made(batch, index, None if reservation is None else reservation.id)

    def _made(self, batch: Batch, index: int, reservation: str | None) -> Instance:
        order, machines, world = batch.order, self.ground.instances.state, self.ground.world
        pace, now = machines.pace, world.now()
        machines.number += 1
        return Instance(
            id=ids.new(world, "i"),
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
            visible=now + pace.invisible.draw(world.random),
            lifecycle=order.lifecycle,
            spot_request=ids.new(world, "sir") if order.lifecycle == SPOT else None,
            preference=order.preference,
            target=order.target,
            reservation=reservation,
            token=batch.token,
            joins=not pace.duds or world.random.random() >= pace.duds,
            tags=dict(order.tags),
        )

    def _note(self, instance: Instance, before: str) -> None:
        """A terminated machine gives its addresses back."""
        if before and instance.state == TERMINATED:
            self._leave(instance, self.ground.instances.build_of(instance))

    def _leave(self, instance: Instance, build: Build | None) -> None:
        self._addresses.give_back(instance)
        count = 1 if build is None else len(build.interfaces)
        self.ground.network.give_back(instance.subnet, count)


class Addresses:
    """Private addresses; which are taken is seen from the machines."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._seen: Machines | None = None
        self._taken: set[tuple[str, str]] = set()
        self._blocks: dict[str, IPv4Network] = {}

    def take(self, subnet: Subnet, number: int) -> str:
        """Another one for each machine, as far as there are others; begins where the last ended."""
        taken, block = self._known(), self._block(subnet.cidr)
        room = block.num_addresses - FIRST_ADDRESS - 1
        for step in range(room):
            address = str(block[FIRST_ADDRESS + (number + step) % room])
            if (subnet.id, address) not in taken:
                taken.add((subnet.id, address))
                return address
        raise AwsError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet.id}'.",
        )

    def give_back(self, instance: Instance) -> None:
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
