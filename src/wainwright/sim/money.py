"""What instances cost at this moment: the price of the offering in effect for their NodePool.

The layers are those of a plan: list prices, prices of the Cloud and of `price` events, overlays,
InstanceType objects. They are built on first use and dropped whenever one of their inputs changes.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec

from wainwright.api.catalog_documents import Catalog, Cloud, CloudPrice, InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.catalogue.offerings.capacity_reservations import on_demand_price_in_zone
from wainwright.catalogue.offerings.cloud_adjustments import node_fee
from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.catalogue.region_catalog import CatalogScope, SharedLayers, offline_inputs
from wainwright.emulator.ec2.capacity_market import CapacityMarket
from wainwright.emulator.ec2.instance.lifecycle import (
    RESERVATIONS_ONLY,
    Instance,
    LaunchSpecification,
)
from wainwright.emulator.ec2.region_offerings import OfferingKey, RegionOfferings
from wainwright.manifests.cluster_manifests import default_node_class
from wainwright.model.labels import NODEPOOL, ON_DEMAND, RESERVED, SPOT
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.scenario import OfferingPattern

ANY_TIME: Final = datetime.fromtimestamp(0, UTC)  # prices do not depend on it
PRICED_KINDS: Final = (NodePool, EC2NodeClass, InstanceType, NodeOverlay)
"""Kinds whose changes may change a price."""


def capacity_type_of(instance: Instance) -> str:
    """`reserved` while it is in a reservation that it was launched into.

    An instance that EC2 put into an open reservation by itself is on-demand.
    """
    if instance.reservation is not None and (
        instance.target is not None or instance.preference == RESERVATIONS_ONLY
    ):
        return RESERVED
    return SPOT if instance.lifecycle == SPOT else ON_DEMAND


def is_meant_offering(key: OfferingKey, pattern: OfferingPattern) -> bool:
    """Whether the pattern means this offering of the market."""
    name, zone, capacity_type = key
    return (
        fnmatchcase(name, pattern.instance_type or "*")
        and pattern.zone in (None, zone)
        and pattern.capacity_type in (None, capacity_type)
    )


class PriceChange(msgspec.Struct, frozen=True, kw_only=True):
    """A `price` event: offerings at the price of the start, times a factor."""

    offerings: OfferingPattern
    factor: float


class OfferingOfPool(NamedTuple):
    """What an instance is billed as: overlays may be about a NodePool."""

    pool: str
    instance_type: str
    zone: str
    capacity_type: str


def offering_of(instance: Instance) -> OfferingOfPool:
    return OfferingOfPool(
        pool=instance.tags.get(NODEPOOL, ""),
        instance_type=instance.type,
        zone=instance.zone,
        capacity_type=capacity_type_of(instance),
    )


class InstancePrice(NamedTuple):
    usd: float | None
    """Per hour; None where it is unknown."""
    is_modelled: bool = False


class PriceBook:
    """Prices in USD per hour."""

    def __init__(
        self,
        api: InMemoryApiServer,
        cloud: Cloud,
        catalog: Catalog | None,
        region_offerings: RegionOfferings,
        market: CapacityMarket,
    ) -> None:
        self._api = api
        self._cloud = cloud
        self._catalog = catalog
        self._region_offerings = region_offerings
        self._market = market
        self._stated = tuple(cloud.spec.prices or ())
        self._first_prices: dict[OfferingKey, float] = {}
        self._prices: OfferingPrices | None = None
        self._changed: frozenset[OfferingKey] = frozenset()
        self._had_estimates = False

    @property
    def cloud(self) -> Cloud:
        """The Cloud with the prices that are in effect."""
        return self._cloud

    def set_changes(self, changes: Sequence[PriceChange]) -> None:
        """Puts these changes in effect in place of all others; of several the last applies."""
        prices = [*self._stated, *self._changed_prices(changes)]
        spec = msgspec.structs.replace(self._cloud.spec, prices=prices or None)
        self._cloud = msgspec.structs.replace(self._cloud, spec=spec)
        self._market.set_prices(prices)
        self.forget()

    def _changed_prices(self, changes: Sequence[PriceChange]) -> list[CloudPrice]:
        """By offering: a price for one zone goes before those that the Cloud states for all."""
        changed: dict[OfferingKey, float] = {}
        for change in changes:
            for key in self._matching(change.offerings):
                changed[key] = self._first_price(key) * change.factor
        self._changed = frozenset(changed)
        return [
            CloudPrice(instanceType=name, zone=zone, capacityType=capacity_type, price=price)
            for (name, zone, capacity_type), price in sorted(changed.items())
        ]

    def _matching(self, pattern: OfferingPattern) -> Iterable[OfferingKey]:
        return [
            key
            for key in sorted(self._region_offerings.offering_keys)
            if is_meant_offering(key, pattern)
            and (key in self._first_prices or self._market.price(*key) is not None)
        ]

    def _first_price(self, key: OfferingKey) -> float:
        """The price at the start: an offering is asked before the first change of its price."""
        if key not in self._first_prices:
            self._first_prices[key] = self._market.price(*key) or 0.0
        return self._first_prices[key]

    @property
    def has_estimates(self) -> bool:
        """Whether a price that was asked for is modelled, or was when it was asked for."""
        return self._had_estimates or (self._prices is not None and self._prices.has_estimates)

    def forget(self) -> None:
        """To be called when an object or a price has changed."""
        self._had_estimates, self._prices = self.has_estimates, None

    def price_of(self, instance: Instance) -> InstancePrice:
        """What the instance costs now."""
        if self._prices is None:
            self._prices = OfferingPrices(
                self._cloud,
                self._catalog,
                self.objects(),
                self._region_offerings,
                self._market,
                self._changed,
            )
        return self._prices.get(offering_of(instance))

    def on_demand_price(self, instance_type: str, zone: str) -> float:
        return self._market.price(instance_type, zone, ON_DEMAND) or 0.0

    def is_on_demand_modelled(self, instance_type: str, zone: str) -> bool:
        return (instance_type, zone, ON_DEMAND) in self._region_offerings.modelled_prices

    def fee_of(self, specification: LaunchSpecification) -> float:
        """What the node costs besides its instance."""
        fees = self._cloud.spec.fees
        return 0.0 if fees is None else node_fee(fees, sum(specification.sizes.values()))

    def objects(self) -> "PricedObjects":
        """The objects that prices follow from, as they are now."""
        return PricedObjects(
            pools=tuple(self._api.peek_all(NodePool)),
            classes=tuple(self._api.peek_all(EC2NodeClass)),
            instance_types=tuple(self._api.peek_all(InstanceType)),
            overlays=tuple(self._api.peek_all(NodeOverlay)),
        )

    def prices_in(self, cloud: Cloud, objects: "PricedObjects") -> "OfferingPrices":
        """Those of another time."""
        return OfferingPrices(cloud, self._catalog, objects, self._region_offerings, self._market)

    def is_published(self, cloud: Cloud) -> bool:
        """Whether EC2 publishes its prices: the price list has one for all zones of a type."""
        by_type: dict[str, dict[str, float]] = {}
        for each in cloud.spec.prices or ():
            if each.zone is not None and each.capacityType != SPOT:
                by_type.setdefault(each.instanceType, {})[each.zone] = each.price
        zones = self._region_offerings.zones_by_type
        return all(
            len({*prices.values()}) == 1 and prices.keys() >= {*zones.get(name, ())}
            for name, prices in by_type.items()
        )


class PricedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """All objects that prices follow from."""

    pools: tuple[NodePool, ...]
    classes: tuple[EC2NodeClass, ...]
    instance_types: tuple[InstanceType, ...]
    overlays: tuple[NodeOverlay, ...]

    def is_same(self, other: "PricedObjects") -> bool:
        """Whether both state the same: the status of pools and classes changes all the time."""
        return self._stated == other._stated

    @property
    def _stated(self) -> list[tuple[str, Any]]:
        every: tuple[Any, ...] = (
            *self.pools,
            *self.classes,
            *self.instance_types,
            *self.overlays,
        )
        return [(each.metadata.name, each.spec) for each in every]

    @property
    def scopes(self) -> dict[str, CatalogScope]:
        """By NodePool."""
        return {pool.metadata.name: self._scope(pool) for pool in self.pools}

    def _scope(self, pool: NodePool) -> CatalogScope:
        name = pool.spec.template.spec.nodeClassRef.name
        template = pool.spec.template.metadata
        known = (each for each in self.classes if each.metadata.name == name)
        return CatalogScope(
            node_class=next(known, None) or default_node_class(name),
            pool=pool.metadata.name,
            labels=(template.labels or {}) if template is not None else {},
        )


class OfferingPrices:
    """What every offering costs: the layers of a plan."""

    def __init__(
        self,
        cloud: Cloud,
        catalog: Catalog | None,
        objects: PricedObjects,
        region_offerings: RegionOfferings,
        market: CapacityMarket,
        changed: frozenset[OfferingKey] = frozenset(),
    ) -> None:
        """`changed`: offerings whose price an event has changed."""
        self._region_offerings, self._market, self._changed = region_offerings, market, changed
        self._scopes = objects.scopes
        self._known: dict[OfferingOfPool, InstancePrice] = {}
        self.has_estimates = False
        """Whether a price that was asked for is modelled, and not stated by the Scenario; or what
        a reserved instance is worth."""
        inputs = offline_inputs(
            now=ANY_TIME, region=cloud.spec.region, cloud=cloud, catalog=catalog
        )
        self._layers = SharedLayers(
            msgspec.structs.replace(
                inputs,
                instance_types=objects.instance_types,
                overlays=objects.overlays,
                scopes=tuple(self._scopes.values()),
            )
        )

    def get(self, offering: OfferingOfPool) -> InstancePrice:
        if offering not in self._known:
            self._known[offering] = self._find(*offering)
        return self._known[offering]

    def _find(self, pool: str, instance_type: str, zone: str, capacity_type: str) -> InstancePrice:
        scope = self._scopes.get(pool) or CatalogScope(node_class=default_node_class())
        offerings = self._layers.pool_offerings(scope).offerings.get(instance_type, ())
        if capacity_type == RESERVED:
            listed = (each for each in offerings if _is_offering(each, zone, ON_DEMAND))
            self.has_estimates |= any(each.is_modelled for each in listed)  # of what it is worth
            on_demand = on_demand_price_in_zone(offerings, zone)
            if on_demand is None:
                on_demand = self._market.price(instance_type, zone, ON_DEMAND)
            return InstancePrice(self._layers.price_range(scope).reserved_price(on_demand or 0.0))
        found = [
            (each.price, each)
            for each in offerings
            if each.price is not None and _is_offering(each, zone, capacity_type)
        ]
        key = (instance_type, zone, capacity_type)
        if not found:
            is_modelled = key in self._region_offerings.modelled_prices
            return InstancePrice(self._market.price(*key), is_modelled)
        price, offering = min(found, key=lambda each: each[0])
        # A `price` event states a price, but only a multiple of the one before.
        is_modelled = offering.is_modelled or (offering.modelled and key in self._changed)
        self.has_estimates |= is_modelled
        return InstancePrice(price, is_modelled)


def _is_offering(offering: LayeredOffering, zone: str, capacity_type: str) -> bool:
    return (
        not offering.is_reserved
        and offering.zone in (None, zone)
        and offering.capacity_type in (None, capacity_type)
    )
