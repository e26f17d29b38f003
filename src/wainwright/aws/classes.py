"""Classes: the node classes that there are, what each resolves to, and what its pools can buy."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from wainwright.api.cloud import Cloud, CloudSpec
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.overrides import InstanceType, NodeOverlay
from wainwright.api.wire import Metadata
from wainwright.aws.catalogue import LiveCatalogue
from wainwright.aws.discovered import Discovered
from wainwright.aws.layering import Ground, LiveCatalogues
from wainwright.aws.nodeclass.conditions import TRUE
from wainwright.aws.nodeclass.resolve import Resolver
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.aws.ordering import Source
from wainwright.aws.reservations import Availability
from wainwright.aws.stock import Stock
from wainwright.aws.subnets import Addresses
from wainwright.aws.templates.kinds import Kind, kinds
from wainwright.catalogue.built import Built
from wainwright.catalogue.nodeclass import ami_family
from wainwright.catalogue.settings import Options
from wainwright.catalogue.supply import Gates, Scope, Supply
from wainwright.clock import Clock
from wainwright.cloud import Declared, Manifest
from wainwright.errors import BadInput, ClassNotReady, NoCapacity

Kept = TypeVar("Kept", bound=msgspec.Struct)


class Shelves(msgspec.Struct, frozen=True, kw_only=True):
    """What catalogues are made of besides the class."""

    live: LiveCatalogue
    stock: Stock
    addresses: Addresses
    availability: Availability
    discovered: Discovered
    clock: Clock
    gates: Gates = Gates()
    rules: Options = Options()


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    node_class: EC2NodeClass
    resolved: Resolved
    until: float


class _Catalogues(msgspec.Struct, frozen=True, kw_only=True):
    """Catalogues of one class, good as long as the stamp is the same."""

    stamp: tuple[Any, ...]
    made: LiveCatalogues
    built: dict[str, tuple[Built, dict[str, Kind]]] = msgspec.field(default_factory=dict)


class Classes:
    def __init__(self, shelves: Shelves, resolver: Resolver) -> None:
        self._shelves = shelves
        self._resolver = resolver
        self._declared: dict[str, EC2NodeClass] = {}
        self._scopes: dict[str, Scope] = {}
        self._overrides: tuple[tuple[InstanceType, ...], tuple[NodeOverlay, ...]] = ((), ())
        self._held: dict[str, _Held] = {}
        self._catalogues: dict[str, _Catalogues] = {}

    def declare(self, declared: Declared) -> None:
        """BadInput where an object cannot be read; then all stays as it was."""
        classes = {each.metadata.name: each for each in _read(declared.node_classes, EC2NodeClass)}
        overrides = (
            tuple(_read(declared.instance_types, InstanceType)),
            tuple(_read(declared.overlays, NodeOverlay)),
        )
        self._declared, self._overrides = classes, overrides
        self._scopes = {
            pool.name: Scope(
                node_class=_bare(classes[pool.node_class]),
                pool=pool.name,
                labels=dict(pool.labels),
            )
            for pool in declared.pools
            if pool.node_class in classes
        }
        for gone in self._held.keys() - classes.keys():
            self._resolver.forget(self._held.pop(gone).node_class)
            self._catalogues.pop(gone, None)

    def get(self, name: str) -> EC2NodeClass | None:
        return self._declared.get(name)

    def profiles(self) -> set[str]:
        return {held.resolved.profile for held in self._held.values()}

    def class_of(self, pool: str) -> str:
        """NoCapacity for a pool whose class does not exist."""
        if pool not in self._scopes:
            raise NoCapacity(f"the pool {pool} has no class", reason="NodeClassNotFound")
        return self._scopes[pool].node_class.metadata.name

    def declared(self, name: str) -> EC2NodeClass:
        """NoCapacity where there is no such class: pods are planned anew with those there are."""
        node_class = self._declared.get(name)
        if node_class is None:
            message = f"there is no EC2NodeClass {name}"
            raise NoCapacity(message, "create it, or name another", reason="NodeClassNotFound")
        return node_class

    async def resolve(self, name: str) -> Resolved:
        node_class = self.declared(name)
        resolved = await self._resolver.resolve(node_class)
        until = self._shelves.clock.now() + resolved.again
        self._held[name] = _Held(node_class=node_class, resolved=resolved, until=until)
        return resolved

    async def current(self, name: str) -> tuple[EC2NodeClass, Resolved]:
        """As last resolved, unless the class has changed or it is time to look again."""
        held, declared = self._held.get(name), self._declared.get(name)
        same = held is not None and declared is not None and _same(held.node_class, declared)
        if held is None or not same or held.until <= self._shelves.clock.now():
            await self.resolve(name)
            held = self._held[name]
        return held.node_class, held.resolved

    async def source(self, name: str, pool: str = "") -> Source:
        """What launches of the class start from; ClassNotReady where they cannot."""
        node_class, resolved = await self.current(name)
        if node_class.metadata.deletionTimestamp is not None:
            raise ClassNotReady(f"the EC2NodeClass {name} is being deleted", reason="Deleting")
        if not resolved.ready:
            raise ClassNotReady(f"the EC2NodeClass {name} is not ready: {why(resolved)}")
        built, known = self._built(node_class, resolved, pool)
        return Source(node_class=node_class, resolved=resolved, built=built, kinds=known)

    def trial(self, node_class: EC2NodeClass, resolved: Resolved) -> Source:
        """The same for a class that is not ready yet, and without any pool."""
        made = self._layered(node_class, resolved)
        built = made.of(Scope(node_class=_bare(node_class)))
        known = kinds(built, self._shelves.live.market().listing.machines)
        return Source(node_class=node_class, resolved=resolved, built=built, kinds=known)

    def _built(
        self, node_class: EC2NodeClass, resolved: Resolved, pool: str
    ) -> tuple[Built, dict[str, Kind]]:
        """Made anew when anything that it depends on is another than before."""
        name, stamp = resolved.name, self._stamp(node_class, resolved)
        kept = self._catalogues.get(name)
        if kept is None or kept.stamp != stamp:
            made = self._layered(node_class, resolved)
            kept = self._catalogues[name] = _Catalogues(stamp=stamp, made=made)
        if pool not in kept.built:
            scope = self._scopes.get(pool) or Scope(node_class=_bare(node_class))
            built = kept.made.of(scope)
            machines = self._shelves.live.market().listing.machines
            kept.built[pool] = (built, kinds(built, machines))
        return kept.built[pool]

    def _stamp(self, node_class: EC2NodeClass, resolved: Resolved) -> tuple[Any, ...]:
        shelves = self._shelves
        return (
            shelves.live.market(),
            _bare(node_class),
            tuple(self._scopes.items()),
            self._overrides,
            self._zones(resolved),
            tuple((each.standing, each.reservation) for each in self._current(resolved)),
            shelves.stock.pools(),
            shelves.discovered.version,
            tuple(image.id for image in resolved.images),
        )

    def _layered(self, node_class: EC2NodeClass, resolved: Resolved) -> LiveCatalogues:
        shelves, market = self._shelves, self._shelves.live.market()
        described = market.described(ami_family(node_class.spec).traits)
        ground = Ground(
            market=market,
            zones=self._zones(resolved),
            memory=shelves.discovered.of(described, resolved.images),
        )
        supply = Supply(
            now=datetime.fromtimestamp(shelves.clock.now(), UTC),
            cloud=self._cloud(market.region, resolved),
            instance_types=self._overrides[0],
            overlays=self._overrides[1],
            scopes=tuple(self._scopes.values()),
            gates=shelves.gates,
            options=shelves.rules,
        )
        return LiveCatalogues(supply, ground)

    def _cloud(self, region: str, resolved: Resolved) -> Cloud:
        """Reservations and shortages of this moment, as the layers take them."""
        reservations = [each.reservation for each in self._current(resolved)]
        entries = self._shelves.stock.entries()
        spec = CloudSpec(region=region, capacityReservations=reservations, unavailable=entries)
        return Cloud(spec=spec)

    def _current(self, resolved: Resolved) -> list[Any]:
        count = self._shelves.availability.current
        return [
            msgspec.structs.replace(each, reservation=count(each.reservation))
            for each in resolved.reservations
        ]

    def _zones(self, resolved: Resolved) -> tuple[str, ...]:
        """Those in which the class has a subnet with addresses left."""
        usable = self._shelves.addresses.usable(resolved.subnets)
        return tuple(sorted({subnet.zone for subnet in usable}))


def _bare(node_class: EC2NodeClass) -> EC2NodeClass:
    """What catalogues depend on: they are not to be made anew whenever a status is written."""
    metadata = Metadata(
        name=node_class.metadata.name, annotations=node_class.metadata.annotations or None
    )
    return EC2NodeClass(metadata=metadata, spec=node_class.spec)


def _same(one: EC2NodeClass, other: EC2NodeClass) -> bool:
    """Whether both resolve to the same."""
    ids = [(each.metadata.uid, each.metadata.deletionTimestamp) for each in (one, other)]
    return ids[0] == ids[1] and one.spec == other.spec


def why(resolved: Resolved) -> str:
    """What keeps a class from being ready."""
    told = [
        f"{each.type}: {each.message or each.reason}"
        for each in resolved.conditions
        if each.status != TRUE and each.type != "Ready"
    ]
    return "; ".join(told)


def _read(manifests: Iterable[Manifest], kind: type[Kept]) -> list[Kept]:
    try:
        return [msgspec.convert(each, kind) for each in manifests]
    except msgspec.ValidationError as error:
        raise BadInput(f"{kind.__name__}: {error}") from error
