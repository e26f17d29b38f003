"""Sources: what launches of a class start from; made anew whenever something of it has changed."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from wainwright.api.cloud import Cloud, CloudSpec
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.overrides import InstanceType, NodeOverlay
from wainwright.api.wire import Metadata
from wainwright.aws.catalogue import LiveCatalogue
from wainwright.aws.discovered import Discovered
from wainwright.aws.launching import Chooser
from wainwright.aws.layering import Ground, LiveCatalogues
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.aws.ordering import Source
from wainwright.aws.reservations import Availability
from wainwright.aws.stock import Stock
from wainwright.aws.subnets import Addresses
from wainwright.aws.templates.kinds import kinds
from wainwright.catalogue.nodeclass import ami_family
from wainwright.catalogue.reservations import Selected
from wainwright.catalogue.settings import Options
from wainwright.catalogue.supply import Gates, Scope, Supply
from wainwright.clock import Clock


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


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What users say about instance types, and the pools that it can be about."""

    instance_types: tuple[InstanceType, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    scopes: Mapping[str, Scope] = {}
    """By pool."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Of one class, good as long as the stamp is the same."""

    stamp: tuple[Any, ...]
    catalogues: LiveCatalogues
    sources: dict[str, Source] = msgspec.field(default_factory=dict)
    """By pool."""


class Sources:
    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self._overrides = Overrides()
        self._kept: dict[str, _Kept] = {}

    def declare(self, overrides: Overrides, classes: Iterable[str]) -> None:
        """Forgets what belongs to other classes than these."""
        names = set(classes)
        self._overrides = overrides
        self._kept = {name: kept for name, kept in self._kept.items() if name in names}

    def of(self, node_class: EC2NodeClass, resolved: Resolved, pool: str) -> Source:
        kept = self._current(node_class, resolved)
        found = kept.sources.get(pool)
        if found is None:
            known = self._overrides.scopes.get(pool)
            labels = {} if known is None else known.labels
            scope = Scope(node_class=bare(node_class), pool=pool, labels=labels)
            found = self._source(kept.catalogues, scope, resolved)
        elif found.resolved is not resolved:
            found = msgspec.structs.replace(found, resolved=resolved)
        kept.sources[pool] = found
        return found

    def trial(self, node_class: EC2NodeClass, resolved: Resolved) -> Source:
        """Without any pool, and not to be kept: for a class that is not ready yet."""
        scope = Scope(node_class=bare(node_class))
        return self._source(self._layered(node_class, resolved), scope, resolved)

    def _current(self, node_class: EC2NodeClass, resolved: Resolved) -> _Kept:
        name, stamp = resolved.name, self._stamp(node_class, resolved)
        kept = self._kept.get(name)
        if kept is None or kept.stamp != stamp:
            made = self._layered(node_class, resolved)
            kept = self._kept[name] = _Kept(stamp=stamp, catalogues=made)
        return kept

    def _source(self, catalogues: LiveCatalogues, scope: Scope, resolved: Resolved) -> Source:
        built = catalogues.of(scope)
        known = kinds(built, self._shelves.live.market().listing.machines)
        return Source(
            node_class=scope.node_class,
            resolved=resolved,
            built=built,
            kinds=known,
            chooser=Chooser(built),
        )

    def _stamp(self, node_class: EC2NodeClass, resolved: Resolved) -> tuple[Any, ...]:
        """All that the catalogue of a class depends on."""
        shelves = self._shelves
        return (
            shelves.live.market(),
            bare(node_class),
            self._overrides,
            self._zones(resolved),
            tuple((each.standing, each.reservation) for each in self._counted(resolved)),
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
            instance_types=self._overrides.instance_types,
            overlays=self._overrides.overlays,
            scopes=tuple(self._overrides.scopes.values()),
            gates=shelves.gates,
            options=shelves.rules,
        )
        return LiveCatalogues(supply, ground)

    def _cloud(self, region: str, resolved: Resolved) -> Cloud:
        """Reservations and shortages of this moment, as the layers take them."""
        reservations = [each.reservation for each in self._counted(resolved)]
        entries = self._shelves.stock.entries()
        spec = CloudSpec(region=region, capacityReservations=reservations, unavailable=entries)
        return Cloud(spec=spec)

    def _counted(self, resolved: Resolved) -> list[Selected]:
        count = self._shelves.availability.current
        return [
            msgspec.structs.replace(each, reservation=count(each.reservation))
            for each in resolved.reservations
        ]

    def _zones(self, resolved: Resolved) -> tuple[str, ...]:
        """Those in which the class has a subnet with addresses left."""
        usable = self._shelves.addresses.usable(resolved.subnets)
        return tuple(sorted({subnet.zone for subnet in usable}))


def bare(node_class: EC2NodeClass) -> EC2NodeClass:
    """What catalogues depend on: they are not to be made anew whenever a status is written."""
    metadata = Metadata(
        name=node_class.metadata.name, annotations=node_class.metadata.annotations or None
    )
    return EC2NodeClass(metadata=metadata, spec=node_class.spec)
