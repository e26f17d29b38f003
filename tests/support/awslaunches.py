"""A provider at work in an emulated account: claims that are kept, and what becomes of them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from random import Random
from typing import Any

import msgspec
from tests.support.awsclasses import node_class
from tests.support.seams import Checked, on_time

from wainwright.api.cloud import Cloud as CloudManifest
from wainwright.api.cloud import CloudSpec, Reservation
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.cluster import Cluster
from wainwright.aws.layers import layered
from wainwright.aws.parts import Setup, World
from wainwright.aws.provider import AwsCloud
from wainwright.aws.seam import Seam
from wainwright.clock import VirtualClock
from wainwright.cloud import Cloud, Declared, Entry, Ledger, PoolScope
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.settings import Settings
from wainwright.errors import Unavailable
from wainwright.metrics import Registry
from wainwright.model.claim import Claim, Mark
from wainwright.model.labels import CAPACITY_TYPE, RESERVED, ZONE
from wainwright.model.requirements import Entry as Asked
from wainwright.model.requirements import Requirements

A, B, C = (f"us-east-1{letter}" for letter in "abc")
TYPES = ["m5.large", "c5.large", "m6g.large", "m5.xlarge"]
RESERVING: dict[str, Any] = {"capacityReservationSelectorTerms": [{"tags": {"team": "web"}}]}
POOL = "web"


def reserved(number: int, total: int, kind: str = "m5.large", zone: str = A, **more: Any) -> Any:
    """A reservation that a class with `RESERVING` selects."""
    return Reservation(
        id=f"cr-{number:08}",
        instanceType=kind,
        availabilityZone=zone,
        total=total,
        tags={"team": "web"},
        ownerID="111122223333",
        **more,
    )


def asking(*entries: Asked, **labels: str) -> Requirements:
    """Requirements from entries, and labels that must have one value."""
    names = {"zone": ZONE, "capacity": CAPACITY_TYPE}
    single = [(names[key], "In", (value,), None) for key, value in labels.items()]
    return Requirements.from_entries([*entries, *single])


ONLY_RESERVED = asking(capacity=RESERVED)


def claim(number: int = 1, wanted: Requirements | None = None, **more: Any) -> Claim:
    fields: dict[str, Any] = {
        "name": f"{POOL}-{number}",
        "uid": f"uid-{number}",
        "pool": POOL,
        "node_class": "default",
        "requirements": wanted or Requirements(),
        "requests": {"cpu": 500, "memory": 1 << 30},
    }
    return Claim(**(fields | more))


class Store:
    """Claims as the cluster keeps them; a ledger that reads what it has written."""

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self.claims = {each.uid: each for each in claims}
        self.recorded: list[tuple[str, Mark]] = []

    async def record(self, claim: str, mark: Mark) -> None:
        if claim not in self.claims:
            raise Unavailable(f"there is no claim {claim}", reason="Conflict")
        self.recorded.append((claim, mark))
        self.claims[claim] = msgspec.structs.replace(self.claims[claim], mark=mark)

    async def batch(self, identity: str) -> Sequence[Entry]:
        return [
            Entry(claim=each.uid, mark=each.mark, instance=each.instance)
            for each in self.claims.values()
            if each.mark is not None and each.mark.batch == identity
        ]

    def keep(self, claim: Claim) -> Claim:
        self.claims[claim.uid] = claim
        return claim

    def launched(self, uid: str, instance: str) -> None:
        if uid in self.claims:
            self.claims[uid] = msgspec.structs.replace(self.claims[uid], instance=instance)


class Scene:
    """An account, a store that outlives the provider, and a provider."""

    def __init__(
        self,
        clock: VirtualClock,
        *reservations: Reservation,
        settings: Settings | None = None,
        seed: int = 0,
        types: Sequence[str] = TYPES,
        **spec: Any,
    ) -> None:
        self.clock = clock
        stated: dict[str, Any] = {
            "region": "us-east-1",
            "zones": [A, B, C],
            "instanceTypes": list(types),
            "capacityReservations": list(reservations),
        }
        manifest = CloudSpec(**(stated | spec))
        self.emulated = EmulatedCloud(
            CloudManifest(spec=manifest), clock=clock, seed=seed, settings=settings
        )
        self.seam = Checked(self.emulated)
        self.store = Store()
        self.metrics = Registry()
        self.setup = Setup(cluster=Cluster(name="wain", region="us-east-1"), queue="wain")
        self.classes: list[EC2NodeClass] = [node_class()]
        self.overlays: list[dict[str, Any]] = []
        self.cloud: Cloud = self.provider()

    def provider(self, seam: Seam | None = None, ledger: Ledger | None = None) -> AwsCloud:
        """Another process, which knows nothing but what is written down."""
        layers = layered(seam or self.seam, self.clock, Random(0), self.metrics)
        world = World(
            seam=layers, ledger=ledger or self.store, clock=self.clock, metrics=self.metrics
        )
        made = AwsCloud(world, self.setup)
        self.declare(made)
        return made

    def declare(self, cloud: Cloud | None = None) -> None:
        (cloud or self.cloud).declare(
            Declared(
                node_classes=tuple(msgspec.to_builtins(each) for each in self.classes),
                overlays=tuple(self.overlays),
                pools=(PoolScope(name=POOL, node_class="default"),),
            )
        )

    def use(self, **spec: Any) -> None:
        """Another class in place of the one there was."""
        self.classes = [node_class(**spec)]
        self.declare()

    async def launch(self, *claims: Claim) -> list[Any]:
        """What came of each: an instance, which is written down, or an error."""
        for each in claims:
            self.store.claims.setdefault(each.uid, each)
        asked = (self.cloud.launch(self.store.claims[each.uid]) for each in claims)
        results = await asyncio.gather(*asked, return_exceptions=True)
        for each, result in zip(claims, results, strict=True):
            if not isinstance(result, BaseException):
                self.store.launched(each.uid, result.id)
        return results

    async def one(self, wanted: Claim) -> Any:
        """The instance of a claim; its error is raised."""
        (found,) = await self.launch(wanted)
        if isinstance(found, BaseException):
            raise found
        return found

    def fleets(self) -> list[Any]:
        """The requests that bought something, or tried to."""
        return [each for each in self.seam.asked("CreateFleet") if not each.get("DryRun")]

    def running(self) -> list[Any]:
        """Machines that are paid for."""
        return self.emulated.parts.instances.alive()


def played(test: Callable[[Scene], Coroutine[Any, Any, None]], *args: Any, **more: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        scene = Scene(clock, *args, **more)
        await scene.cloud.refresh()
        await test(scene)

    on_time(main)
