"""The catalogue of a node class, put together layer by layer from the bottom up.

Built-in types or a Catalog, the Cloud's zones, types and prices, NodeOverlays, InstanceType
objects, capacity reservations, and what is unavailable: each layer sees what the ones below it
made. What does not depend on the class is made once and shared (see `region_catalog`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import (
    DerivedResources,
    NodeResources,
    derive_resources,
    node_resources_by_type,
    to_node_resources,
)
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    Incompatibility,
    NodeClassSettings,
    find_incompatibility,
    parse_node_class,
    resolve_ami_family,
)
from wainwright.catalogue.offerings import built_in_offerings as built_in
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationContext,
    ReservationStanding,
    SelectedReservation,
    add_reserved_offerings,
    catalog_reservations,
    evaluate_reservations,
    standing_by_time,
    unmatched_term_warnings,
    unusable_reservation_warnings,
    validate_reservation_times,
)
from wainwright.catalogue.offerings.cloud_adjustments import (
    apply_unavailability,
    disk_gib,
    make_unavailable,
    node_fee,
)
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOfferings,
    restore_order,
    to_offerings,
)
from wainwright.catalogue.offerings.overrides import parse_resource_override
from wainwright.catalogue.region_catalog import (
    CatalogInputs,
    CatalogScope,
    PoolOfferings,
    SharedLayers,
)
from wainwright.gc_pause import gc_paused
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex


class NodeClassCatalog(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything about the catalogue of one class; nothing in it changes any more."""

    region: str
    zones: Mapping[str, str]
    """Zone names with their ids, where known."""
    types: tuple[InstanceType, ...]
    """In the order of names; a type without a price has no offerings."""
    settings: NodeClassSettings | None
    """None under a Catalog, where no setting of the class changes a number."""
    resources: Mapping[str, NodeResources]
    offerings: LayeredOfferings
    """The offerings with the history of their prices, and those that never got one."""
    incompatible: Mapping[str, Incompatibility]
    """Types that the class can never launch: they are listed, at a count of zero."""
    reservations: tuple[SelectedReservation, ...]
    """What the class selects, offered or not, and what a Catalog brings along."""
    fees: Mapping[str, float]
    """USD per hour beside the price, by type; empty where the Cloud has no fees."""
    remarks: tuple[ObjectDiagnostic, ...]

    @cached_property
    def index(self) -> InstanceTypeIndex:
        """Compiled for the planner, once."""
        with gc_paused():
            return InstanceTypeIndex(self.types, zones=self.zones)

    @cached_property
    def by_name(self) -> Mapping[str, InstanceType]:
        return {kind.name: kind for kind in self.types}

    @property
    def fee(self) -> float:
        """The highest of any type: disks may be sized to the pods that a node holds."""
        return max(self.fees.values(), default=0.0)

    @property
    def from_catalog(self) -> bool:
        return self.settings is None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Types that nobody gives a price, so that they cannot be bought."""
        return tuple(kind.name for kind in self.types if not kind.offerings)


MAX_LISTED_RESERVATIONS: Final = 5  # names in one note
REPORTED_BY_EACH_CLASS: Final = (ReservationStanding.NO_SUCH_ZONE, ReservationStanding.NO_SUCH_TYPE)
"""Of those that name what does not exist the catalogue of each class speaks."""


def offered_reservations(built: Iterable[NodeClassCatalog]) -> list[SelectedReservation]:
    """The reservations that some class selects and can use, each once, in the order of ids."""
    found: dict[str, SelectedReservation] = {}
    for one in built:
        for selected in one.reservations:
            if selected.is_offered:
                found.setdefault(selected.reservation.id, selected)
    return [found[name] for name in sorted(found)]


def unusable_reservations(built: Iterable[NodeClassCatalog]) -> list[SelectedReservation]:
    """Those that classes select and that none of them can use."""
    several = tuple(built)
    used = {each.reservation.id for each in offered_reservations(several)}
    found: dict[str, SelectedReservation] = {}
    for one in several:
        for selected in one.reservations:
            if selected.reservation.id not in used:
                found.setdefault(selected.reservation.id, selected)
    return [found[name] for name in sorted(found)]


def is_reservation_active(selected: SelectedReservation, now: datetime) -> bool:
    """Whether it is there, and so paid for, whoever may use it."""
    return standing_by_time(selected.reservation, now) in (
        ReservationStanding.OFFERED,
        ReservationStanding.ENDING,
    )


def describe_unusable(unused: Sequence[SelectedReservation]) -> Iterator[str]:
    """A sentence for each reason; nobody sees by himself that a reservation is left aside."""
    for standing in ReservationStanding:
        ids = [each.reservation.id for each in unused if each.standing is standing]
        if ids and standing not in REPORTED_BY_EACH_CLASS:
            yield _unusable_sentence(ids, standing.value)


def _unusable_sentence(ids: Sequence[str], why: str) -> str:
    if len(ids) == 1:
        return f"capacity reservation {ids[0]} is selected but cannot be used: it {why}"
    more = (
        f" and {len(ids) - MAX_LISTED_RESERVATIONS:,} more"
        if len(ids) > MAX_LISTED_RESERVATIONS
        else ""
    )
    named = f"{', '.join(ids[:MAX_LISTED_RESERVATIONS])}{more}"
    return f"capacity reservations {named} are selected but cannot be used: each {why}"


IGNORED_WITH_CATALOG: Final = ("kubelet", "blockDeviceMappings", "instanceStorePolicy")
"""Settings that change what a pod gets of an instance, but not of a type that a Catalog states."""


class CatalogBuilder:
    """The catalogues of all classes and pools of one input."""

    def __init__(self, inputs: CatalogInputs) -> None:
        self._inputs = inputs
        self._shared_layers = SharedLayers(inputs)
        self._built: list[tuple[EC2NodeClass, PoolOfferings, NodeClassCatalog]] = []
        self._resources: list[tuple[NodeClassSettings, dict[str, NodeResources]]] = []

    def of(self, scope: CatalogScope) -> NodeClassCatalog:
        """The catalogue for the scope; Refused where the input contradicts itself.

        Pools that share a class and its overlays get the same object.
        """
        with gc_paused():
            pool_offerings = self._shared_layers.pool_offerings(scope)
            for node_class, known, built in self._built:
                if known is pool_offerings and node_class == scope.node_class:
                    return built
            made = self._make(scope.node_class, pool_offerings)
        self._built.append((scope.node_class, pool_offerings, made))
        return made

    def _make(self, node_class: EC2NodeClass, pool_offerings: PoolOfferings) -> NodeClassCatalog:
        settings = self._settings(node_class)
        offerings, selected, remarks = self._reserved(node_class, pool_offerings.offerings)
        offerings, warnings = self._short(offerings)
        unusable = self._incompatible(settings, offerings)
        offerings = {
            **offerings,
            **{name: tuple(map(make_unavailable, offerings[name])) for name in unusable},
        }
        offerings = self._settled(offerings)
        resources = self._all_resources(settings, pool_offerings, offerings)
        fees, region_catalog = self._fees(settings, resources), self._shared_layers.region_catalog
        said = [
            *self._shared_layers.remarks,
            *pool_offerings.remarks,
            *self._pointless(node_class),
            *remarks,
        ]
        return NodeClassCatalog(
            region=region_catalog.region,
            zones=region_catalog.zones,
            types=self._types(node_class, offerings, resources, fees),
            settings=settings,
            resources=resources,
            offerings=MappingProxyType(dict(offerings)),
            incompatible=unusable,
            reservations=tuple(selected),
            fees=fees,
            remarks=(*said, *warnings),
        )

    def _settings(self, node_class: EC2NodeClass) -> NodeClassSettings | None:
        if self._shared_layers.region_catalog.stated is not None:
            return None
        return parse_node_class(node_class, self._inputs.options)

    def _reserved(
        self, node_class: EC2NodeClass, offerings: LayeredOfferings
    ) -> tuple[LayeredOfferings, list[SelectedReservation], list[ObjectDiagnostic]]:
        cloud, region_catalog = self._inputs.cloud, self._shared_layers.region_catalog
        if not self._inputs.gates.capacity_reservations:
            return _without_reserved_offerings(offerings), [], []
        if cloud is None:
            return offerings, self._brought(offerings), unmatched_term_warnings(node_class, None)
        validate_reservation_times(cloud)
        place = ReservationContext(
            cloud=cloud,
            family=resolve_ami_family(node_class.spec),
            zones=region_catalog.zones,
            all_zones=region_catalog.all_zones,
            now=self._inputs.now,
        )
        found = evaluate_reservations(place, node_class, offerings)
        offerings, remarks = add_reserved_offerings(place, found, offerings)
        named = {each.reservation.id for each in found}
        others = [each for each in self._brought(offerings) if each.reservation.id not in named]
        said = [
            *unmatched_term_warnings(node_class, cloud),
            *unusable_reservation_warnings(cloud, found),
            *remarks,
        ]
        return offerings, [*found, *others], said

    def _brought(self, offerings: LayeredOfferings) -> list[SelectedReservation]:
        return (
            catalog_reservations(offerings)
            if self._shared_layers.region_catalog.stated is not None
            else []
        )

    def _short(
        self, offerings: LayeredOfferings
    ) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
        cloud = self._inputs.cloud
        if cloud is None or not cloud.spec.unavailable:
            return offerings, []
        return apply_unavailability(cloud, offerings, self._shared_layers.region_catalog.zones)

    def _incompatible(
        self, settings: NodeClassSettings | None, offerings: LayeredOfferings
    ) -> dict[str, Incompatibility]:
        if settings is None:
            return {}
        infos = instance_type_info.built_in_instance_types()
        found = {name: find_incompatibility(infos[name], settings) for name in offerings}
        return {name: why for name, why in found.items() if why is not None}

    def _settled(self, offerings: LayeredOfferings) -> LayeredOfferings:
        """In final order. Offerings with equal labels stand by price and count, which have changed.

        Only a Catalog or an InstanceType object can bring such offerings.
        """
        region_catalog = self._shared_layers.region_catalog
        doubtful = self._shared_layers.declarations if region_catalog.stated is None else offerings
        return {**offerings, **{name: restore_order(offerings[name]) for name in doubtful}}

    def _all_resources(
        self,
        settings: NodeClassSettings | None,
        pool_offerings: PoolOfferings,
        offerings: LayeredOfferings,
    ) -> Mapping[str, NodeResources]:
        """Sizes, with what overlays and InstanceType objects say about them."""
        plain = self._class_resources(settings)
        special = pool_offerings.overlaid.keys() | self._shared_layers.declarations.keys()
        return {
            name: self._overridden_resources(name, settings, pool_offerings)
            if name in special
            else plain[name]
            for name in offerings
        }

    def _class_resources(self, settings: NodeClassSettings | None) -> dict[str, NodeResources]:
        stated = self._shared_layers.region_catalog.stated
        if settings is None:
            return {
                name: to_node_resources(each.derived(NO_OVERRIDE))
                for name, each in (stated or {}).items()
            }
        for known, found in self._resources:
            if known == settings:
                return found
        infos = instance_type_info.built_in_instance_types()
        made = node_resources_by_type(
            {name: infos[name] for name in self._shared_layers.region_catalog.offerings}, settings
        )
        self._resources.append((settings, made))
        return made

    def _overridden_resources(
        self, name: str, settings: NodeClassSettings | None, pool_offerings: PoolOfferings
    ) -> NodeResources:
        """An InstanceType object wins over an overlay, resource by resource."""
        item = self._shared_layers.declarations.get(name)
        own = NO_OVERRIDE if item is None else parse_resource_override(item)
        stated = self._shared_layers.region_catalog.stated
        if settings is None:
            made = (stated or {})[name].derived(own)
        else:
            made = derive_resources(
                instance_type_info.built_in_instance_types()[name], settings, own
            )
        overlaid = pool_offerings.overlaid.get(name, {})
        added = {key: overlaid[key] for key in overlaid if key not in own.resources}
        return to_node_resources(
            DerivedResources(capacity={**made.capacity, **added}, overhead=made.overhead)
        )

    def _types(
        self,
        node_class: EC2NodeClass,
        offerings: LayeredOfferings,
        resources: Mapping[str, NodeResources],
        fees: Mapping[str, float],
    ) -> tuple[InstanceType, ...]:
        described = self._shared_layers.described(resolve_ami_family(node_class.spec).traits)
        bottom = self._built_in_offerings()
        return tuple(
            InstanceType(
                name=name,
                requirements=described[name],
                capacity=resources[name].capacity,
                overhead=resources[name].overhead,
                offerings=bottom.priced[name]
                if bottom is not None and each is bottom.offerings[name]
                else to_offerings(each),
                fee=fees.get(name, 0.0),
            )
            for name, each in sorted(offerings.items())
        )

    def _built_in_offerings(self) -> built_in.BuiltInOfferings | None:
        region_catalog = self._shared_layers.region_catalog
        return (
            built_in.load_built_in_offerings(region_catalog.region)
            if region_catalog.stated is None
            else None
        )

    def _fees(
        self, settings: NodeClassSettings | None, resources: Mapping[str, NodeResources]
    ) -> dict[str, float]:
        fees = None if self._inputs.cloud is None else self._inputs.cloud.spec.fees
        if fees is None or not (fees.perNode or fees.perGiBDisk):
            return {}
        return {name: node_fee(fees, disk_gib(settings, each)) for name, each in resources.items()}

    def _pointless(self, node_class: EC2NodeClass) -> list[ObjectDiagnostic]:
        """Settings of the class that have no effect here."""
        name, spec = node_class.metadata.name, node_class.spec
        found = []
        if self._shared_layers.region_catalog.stated is not None:
            message = "has no effect: a Catalog states capacity and overhead itself"
            fields = [field for field in IGNORED_WITH_CATALOG if getattr(spec, field) is not None]
            found += [
                object_warning(node_class.kind, name, ("spec", field), message) for field in fields
            ]
        terms = spec.capacityReservationSelectorTerms
        if terms and not self._inputs.gates.capacity_reservations:
            path = ("spec", "capacityReservationSelectorTerms")
            message = "not used: the feature gate CapacityReservations is off"
            found.append(object_warning(node_class.kind, name, path, message))
        return found


def _without_reserved_offerings(offerings: LayeredOfferings) -> LayeredOfferings:
    """Reserved offerings of a Catalog are part of what the gate switches."""
    return {
        name: tuple(offering for offering in each if not offering.reserved)
        if any(offering.reserved for offering in each)
        else each
        for name, each in offerings.items()
    }


def build_catalog(inputs: CatalogInputs, scope: CatalogScope) -> NodeClassCatalog:
    """The catalogue of one class; where there are several, `Catalogues` shares their work."""
    every = inputs.scopes if scope in inputs.scopes else (*inputs.scopes, scope)
    return CatalogBuilder(msgspec.structs.replace(inputs, scopes=every)).of(scope)
