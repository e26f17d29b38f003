"""Purchase: one request for machines, from its preparation to the last machine dealt out.

The order of things is what makes a crash harmless: templates, then the marks on the claims, then
the request, then its answer dealt out. Whatever is lost on the way, the marks on the claims and the
tags on the machines lead back to each other.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from wainwright.aws.by_id import ById
from wainwright.aws.codes import (
    CAPACITY,
    NO_ADDRESSES,
    RESERVATION_FULL,
    SPOT_ROLE,
    shortage,
    typed,
)
from wainwright.aws.ec2 import Ec2
from wainwright.aws.fleet import Bought, Failure, Reading, request
from wainwright.aws.instance import Instance
from wainwright.aws.lots import Lot
from wainwright.aws.operations import passing
from wainwright.aws.recovery import Recovery
from wainwright.aws.reservations import Availability
from wainwright.aws.seam import Answer
from wainwright.aws.slots import Slots
from wainwright.aws.stock import Stock
from wainwright.aws.subnets import Addresses
from wainwright.aws.templates.ensure import Templates
from wainwright.aws.tokens import marks
from wainwright.clock import Clock
from wainwright.cloud import Ledger
from wainwright.errors import AwsError, Unavailable, WainError
from wainwright.metrics import Kind as MetricKind
from wainwright.metrics import Metric, Registry
from wainwright.model.claim import Claim, Mark
from wainwright.model.labels import SPOT

LAUNCH_FAILURES: Final = Metric(
    name="karpenter_cloudprovider_instance_launch_failures_total",
    about="Pools that EC2 could not launch from, by what it said.",
    kind=MetricKind.COUNTER,
    labels=("zone", "zone_id", "capacity_type", "reason"),
)
NOTHING: Final = Bought(machines=(), failures=())


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """What all launches share."""

    ec2: Ec2
    by_id: ById
    templates: Templates
    recovery: Recovery
    ledger: Ledger
    clock: Clock
    metrics: Registry
    stock: Stock
    addresses: Addresses
    slots: Slots
    availability: Availability


class Bargain(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that was bought for an order."""

    machine: Instance
    notes: tuple[str, ...] = ()


class Unmarked(WainError):
    """Not one claim could be marked, and so nothing was asked for."""


class Purchase:
    """One request, from its first preparation to the last machine dealt out."""

    def __init__(self, means: Means, lot: Lot) -> None:
        self._means = means
        self._lot = lot
        self._marks: dict[str, Mark] = {}
        """By claim; once they are written down."""
        self._refused: dict[str, WainError] = {}
        """Claims that could not be marked, and so are not launched."""
        self._batch = ""
        self._ended = False

    async def run(self) -> list[Bargain | WainError]:
        """What came of each order, in their order."""
        try:
            bought = await self._held()
        except Unmarked:
            return [self._refused[order.claim.uid] for order in self._lot.orders]
        except AwsError as error:
            return await self._failed(error)
        finally:
            self._end(None)
        return await self._dealt_out(bought)

    async def _held(self) -> Bought:
        """The request, with addresses and reservations held for it meanwhile."""
        means, made, count = self._means, self._lot, len(self._lot.orders)
        places = means.slots.hold(made.reservations, count)
        addresses = means.addresses.hold(made.subnets.values(), machines=count, each=made.addresses)
        bought = NOTHING
        try:
            answer = await means.templates.launch(made.templates, self._ask)
            bought = self._reading().read(answer)
            self._end(self._deal(bought))
        finally:
            reserved = [each.reservation_id for each in bought.machines if each.reservation_id]
            means.slots.release(places, reserved)
            means.addresses.settle(addresses, Counter(each.subnet_id for each in bought.machines))
        return bought

    async def _ask(self) -> Answer:
        """To be repeated where a template was missing; what is written down stays."""
        if not self._batch:
            await self._record()
        order = self._lot.first
        params = request(order, self._lot.configs, self._batch, len(self._marks))
        return await self._means.ec2.create_fleet(params)

    async def _record(self) -> None:
        claims = [order.claim for order in self._lot.orders]
        planned = marks(claims, self._means.clock.now())
        self._batch = planned[0].batch
        named = {claim.uid: mark for claim, mark in zip(claims, planned, strict=True)}
        self._means.recovery.begin(named)
        written = [self._means.ledger.record(uid, mark) for uid, mark in named.items()]
        for uid, outcome in zip(
            named, await asyncio.gather(*written, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, WainError):
                self._refused[uid] = outcome
            elif outcome is not None:
                raise outcome
            else:
                self._marks[uid] = named[uid]
        if not self._marks:
            self._end({})
            raise Unmarked("no claim of the launch could be marked")

    def _reading(self) -> Reading:
        made = self._lot
        return Reading(
            order=made.first,
            batch=self._batch,
            configs=made.configs,
            subnets=made.subnets,
            now=self._means.clock.now(),
        )

    def _deal(self, bought: Bought) -> dict[str, str]:
        """Machines in the order of the answer, claims in the order of the batch."""
        pairs = zip(self._marks, bought.machines, strict=False)
        return {uid: machine.id for uid, machine in pairs}

    def _end(self, dealt: dict[str, str] | None) -> None:
        """Said once, and whatever happens: the first word counts."""
        if self._batch and not self._ended:
            self._ended = True
            self._means.recovery.end(self._batch, dealt)

    async def _dealt_out(self, bought: Bought) -> list[Bargain | WainError]:
        self._note(bought.failures)
        machines = dict(zip(self._marks, bought.machines, strict=False))
        going = [self._means.by_id.terminate(e.id) for e in bought.machines[len(machines) :]]
        await asyncio.gather(*going, return_exceptions=True)  # what stays is garbage later
        errors = [each.error for each in bought.failures]
        return [self._outcome(order.claim, machines, errors) for order in self._lot.orders]

    def _outcome(
        self, claim: Claim, machines: dict[str, Instance], errors: list[AwsError]
    ) -> Bargain | WainError:
        if claim.uid in self._refused:
            return self._refused[claim.uid]
        if claim.uid in machines:
            return Bargain(machine=machines[claim.uid], notes=self._lot.notes)
        return shortage(errors, f"launching {claim.name}")

    async def _failed(self, error: AwsError) -> list[Bargain | WainError]:
        """What the last try met says nothing about those before: their answers may have got lost.

        So machines are looked for, unless EC2 was asked for none yet, or will not be again.
        """
        self._end(None)
        if not self._batch or not passing(error):
            return [typed(error, f"launching {each.claim.name}") for each in self._lot.orders]
        self._means.slots.doubt(self._marks, self._lot.reservations)
        return list(await asyncio.gather(*(self._found(each.claim) for each in self._lot.orders)))

    async def _found(self, claim: Claim) -> Bargain | WainError:
        if claim.uid in self._refused:
            return self._refused[claim.uid]
        marked = msgspec.structs.replace(claim, mark=self._marks[claim.uid])
        try:
            machine = await self._means.recovery.find(marked)
        except AwsError as error:
            return typed(error, f"looking for the machine of {claim.name}")
        except WainError as error:
            return error
        self._means.slots.clear(claim.uid, machine.reservation_id if machine else "")
        if machine is None:
            return Unavailable(f"launching {claim.name}: nothing came of it", reason="NotLaunched")
        return Bargain(machine=machine, notes=self._lot.notes)

    def _note(self, failures: Sequence[Failure]) -> None:
        """Remembers what was not to be had."""
        for each in failures:
            self._mark(each)
            zone = self._lot.subnets.get(each.zone)
            self._means.metrics.add(
                LAUNCH_FAILURES,
                zone=each.zone,
                zone_id=zone.zone_id if zone else "",
                capacity_type=self._lot.first.choice.capacity_type,
                reason=each.error.code,
            )

    def _mark(self, pool: Failure) -> None:
        stock, code = self._means.stock, pool.error.code
        if code == RESERVATION_FULL:
            reservation = self._reading().reservation(pool.instance_type, pool.zone)
            self._means.availability.exceeded(reservation)
        elif code == NO_ADDRESSES and pool.subnet:
            stock.mark_subnet(pool.subnet)
        elif code == SPOT_ROLE:
            stock.mark_capacity_type(SPOT)
        elif code in CAPACITY and pool.instance_type:
            stock.mark(pool.instance_type, pool.zone, self._lot.first.choice.capacity_type)
