"""The provider: EC2 as controllers know a cloud.

Errors of AWS end here: what leaves is one of the few kinds in `errors`, with what happens next.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from wainwright.aws.classes import why
from wainwright.aws.codes import typed
from wainwright.aws.describing import PROFILE, described
from wainwright.aws.drift import Launched, Reason, Today, drift
from wainwright.aws.instance import Instance as Machine
from wainwright.aws.instances import garbage, shown
from wainwright.aws.nodeclass.deletion import Waiting
from wainwright.aws.nodeclass.identity import annotations
from wainwright.aws.nodeclass.resolved import status
from wainwright.aws.ordering import Order
from wainwright.aws.parts import Parts, Setup, World
from wainwright.catalogue.nodeclass import ami_family
from wainwright.catalogue.reservations import Standing
from wainwright.cloud import Catalog, ClassState, Declared, Recovered
from wainwright.errors import AwsError, BadInput, CloudError
from wainwright.model.claim import Claim
from wainwright.model.instance import Instance
from wainwright.model.interruption import Interruption
from wainwright.model.requirements import NO_REQUIREMENTS
from wainwright.model.snapshot import Reservation


class AwsCloud:
    """Implements `cloud.Cloud`; one per process, as it remembers what AWS said."""

    def __init__(self, world: World, setup: Setup) -> None:
        self._setup = setup
        self._parts = Parts(world, setup)
        self._adopted = False
        self._launching: dict[str, asyncio.Task[Instance]] = {}

    # Classes and what can be bought

    def declare(self, declared: Declared) -> None:
        self._parts.classes.declare(declared)

    async def refresh(self) -> None:
        await asyncio.gather(self._parts.live.refresh(), self._adopt())

    @property
    def failures(self) -> dict[str, str]:
        """By part of the live catalogue, why it is not up to date."""
        return dict(self._parts.live.failures)

    async def resolve(self, node_class: str) -> ClassState:
        with _doing(f"resolving the EC2NodeClass {node_class}"):
            resolved = await self._parts.classes.resolve(node_class)
        found = self._parts.classes.declared(node_class)
        return ClassState(
            name=node_class,
            ready=resolved.ready,
            why=why(resolved),
            status=msgspec.to_builtins(status(resolved)),
            annotations=annotations(found, self._setup.cluster.ca_bundle),
            again=resolved.again,
        )

    async def drop(self, node_class: str, claims: Sequence[str]) -> str:
        found = self._parts.classes.declared(node_class)
        with _doing(f"removing what belongs to the EC2NodeClass {node_class}"):
            done = await self._parts.deletion.finish(found, claims)
        return str(done) if isinstance(done, Waiting) else ""

    async def catalog(self, pool: str) -> Catalog:
        classes = self._parts.classes
        with _doing(f"looking up what the pool {pool} can buy"):
            source = await classes.source(classes.class_of(pool), pool)
        built = source.built
        return Catalog(
            index=built.index,
            reservations=tuple(
                Reservation(
                    id=each.reservation.id,
                    total=each.reservation.total,
                    available=each.available,
                    instance_type=each.reservation.instanceType,
                    zone=each.reservation.availabilityZone,
                )
                for each in built.reservations
                if each.standing is Standing.OFFERED
            ),
            remarks=tuple(map(str, built.remarks)),
        )

    # Machines

    async def launch(self, claim: Claim) -> Instance:
        """Whoever asks for the same claim meanwhile gets the same machine.

        A launch goes on even if those who wait for it go away: they find the machine when they
        come back.
        """
        task = self._launching.get(claim.uid)
        if task is None:
            task = self._launching[claim.uid] = asyncio.ensure_future(self._launch(claim))
            task.add_done_callback(lambda done: self._launched(claim.uid, done))
        return await asyncio.shield(task)

    def _launched(self, uid: str, done: "asyncio.Task[Instance]") -> None:
        del self._launching[uid]
        if not done.cancelled():
            done.exception()  # where nobody is left to be told, asyncio would complain

    async def _launch(self, claim: Claim) -> Instance:
        with _doing(f"launching {claim.name}"):
            return await self._bought(self._parts.recovery.known(claim))

    async def _bought(self, claim: Claim) -> Instance:
        parts = self._parts
        if claim.instance:
            return await self._described(await parts.instances.get(claim.instance), claim)
        found = await parts.recovery.find(claim)
        parts.slots.clear(claim.uid, found.reservation_id if found else "")
        if found is not None:
            return await self._described(found, claim)
        source = await parts.classes.source(claim.node_class, claim.pool)
        choice = source.chooser.choose(claim, parts.slots.free)
        order = Order(claim=claim, choice=choice, source=source, site=await parts.site())
        bargain = await parts.buyer.buy(order)
        ca_bundle, notes = self._setup.cluster.ca_bundle, (*choice.notes, *bargain.notes)
        return described(bargain.machine, source, ca_bundle=ca_bundle, notes=notes)

    async def recover(self, claims: Sequence[Claim]) -> Recovered:
        lost = [claim for claim in map(self._parts.recovery.known, claims) if claim.under_way]
        found: dict[str, Instance] = {}
        unclear: set[str] = set()
        outcomes = await asyncio.gather(*map(self._recovered, lost), return_exceptions=True)
        for claim, outcome in zip(lost, outcomes, strict=True):
            if isinstance(outcome, Instance):
                found[claim.uid] = outcome
            elif isinstance(outcome, CloudError):
                unclear.add(claim.uid)
            elif outcome is not None:
                raise outcome
        return Recovered(found=found, unclear=frozenset(unclear))

    async def _recovered(self, claim: Claim) -> Instance | None:
        with _doing(f"looking for the machine of {claim.name}"):
            machine = await self._parts.recovery.find(claim)
            return None if machine is None else await self._described(machine, claim)

    async def _described(self, machine: Machine, claim: Claim) -> Instance:
        """With less where its class cannot be had now: the machine is there all the same."""
        try:
            source = await self._parts.classes.source(claim.node_class, claim.pool)
        except (AwsError, CloudError):
            return shown(machine)
        return described(machine, source, ca_bundle=self._setup.cluster.ca_bundle)

    async def terminate(self, instance: str) -> None:
        with _doing(f"terminating {instance}"):
            await self._parts.instances.terminate(instance)

    async def instance(self, identity: str) -> Instance:
        with _doing(f"looking up {identity}"):
            return shown(await self._parts.instances.get(identity))

    async def instances(self) -> Sequence[Instance]:
        with _doing("listing instances"):
            return [shown(each) for each in await self._parts.instances.listed()]

    async def garbage(self, claims: Iterable[Claim]) -> Sequence[Instance]:
        known = [self._parts.recovery.known(claim) for claim in claims]
        with _doing("listing instances"):
            found = await self._parts.instances.listed()
        self._parts.recovery.keep(claim.uid for claim in known)
        under_way = self._parts.recovery.under_way()
        left = garbage(found, known, under_way, self._parts.clock.now())
        return [shown(each) for each in left]

    async def tag(self, instance: str, *, node: str, claim: str) -> None:
        with _doing(f"tagging {instance}"):
            await self._parts.instances.tag(instance, node=node, claim=claim)

    async def drift(self, claim: Claim) -> str | None:
        """Nothing is said of a machine whose class is not there, or about which it is unclear."""
        classes = self._parts.classes
        if classes.get(claim.node_class) is None:
            return None
        with _doing(f"comparing {claim.name} with its class"):
            machine = await self._parts.instances.get(claim.instance)
            node_class, resolved = await classes.current(claim.node_class)
        kinds = self._parts.live.market().described(ami_family(node_class.spec).traits)
        launched = Launched(
            name=claim.name,
            annotations=claim.annotations,
            labels=claim.labels,
            kind=kinds.get(machine.instance_type, NO_REQUIREMENTS),
        )
        hashed = annotations(node_class, self._setup.cluster.ca_bundle)
        found = drift(launched, machine, Today(annotations=hashed, resolved=resolved))
        return found.value if isinstance(found, Reason) else None

    # What else is heard of machines

    def learn(self, instance: Instance, memory: int) -> None:
        self._parts.discovered.learn(instance.instance_type, instance.image_id, memory)

    def shun(self, instance_type: str, zone: str, capacity_type: str) -> None:
        self._parts.stock.mark(instance_type, zone, capacity_type)

    def interruptions(self) -> AsyncIterator[Interruption]:
        return self._parts.announcements.events()

    async def ailing(self) -> Sequence[Interruption]:
        with _doing("looking at the status of instances"):
            return await self._parts.statuses.look()

    # Housekeeping

    async def tidy(self, claims: Iterable[Claim]) -> None:
        profiles = {claim.annotations.get(PROFILE, "") for claim in claims}
        in_use = profiles | self._parts.classes.profiles()
        with _doing("removing what is not used any more"):
            await self._parts.templates.sweep()
            await self._parts.resolver.profiles.collect(in_use)

    async def _adopt(self) -> None:
        """Templates that an earlier process has left; without them these are never deleted."""
        if not self._adopted:
            try:
                await self._parts.templates.adopt(self._setup.cluster.name)
            except AwsError:
                return
            self._adopted = True


@contextmanager
def _doing(what: str) -> Iterator[None]:
    """Errors of AWS and of what users wrote, as one of ours that says what was being done."""
    try:
        yield
    except (AwsError, BadInput) as error:
        raise typed(error, what) from error
