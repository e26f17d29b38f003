"""The catalogue of a node class, put together layer by layer from the bottom up.

A source (`catalog_source`), the Cloud's zones, types and prices, NodeOverlays, InstanceType
objects, capacity reservations, and what is unavailable: each layer sees what the ones below it
made. The layers that do not depend on the class are built once and shared (see `region_catalog`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Final

import msgspec

from wainwright.api.catalog_documents import InstanceType as InstanceTypeObject
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes.capacity import NodeResources, to_node_resources
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    AmiFamily,
    Incompatibility,
    NodeClassSettings,
    parse_node_class,
    resolve_ami_family,
)
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
from wainwright.catalogue.offerings.capacity_state import (
    CapacityState,
    apply_unavailability,
    make_unavailable,
)
from wainwright.catalogue.offerings.cloud_adjustments import disk_gib, node_fee
from wainwright.catalogue.offerings.excluded_offerings import excluded_by
from wainwright.catalogue.offerings.instance_type_overrides import (
    parse_resource_override,
    too_large_allocatable_warnings,
    too_large_overhead_warnings,
)
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOfferings,
    PriceLayer,
    restore_order,
    to_offerings,
)
from wainwright.catalogue.region_catalog import (
    CatalogInputs,
    CatalogScope,
    PoolOfferings,
    SharedLayers,
    limit_to_zones,
)
from wainwright.gc_pause import gc_paused
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import IndexCompiler, InstanceTypeIndex
from wainwright.model.overlays import AppliedOverlays
from wainwright.model.resources import PODS


class NodeClassCatalog(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The complete catalogue of one node class; immutable."""

    region: str
    zones: Mapping[str, str]
    """Zone names with their ids, where known."""
    types: tuple[InstanceType, ...]
    """In the order of names; a type without a price has no offerings."""
    settings: NodeClassSettings | None
    """None with a Catalog, where no setting of the class changes an amount."""
    resources: Mapping[str, NodeResources]
    offerings: LayeredOfferings
    """The offerings with the steps of their prices, those without a price included."""
    incompatible: Mapping[str, Incompatibility]
    """Types that the class can never launch: they are listed, as unavailable."""
    reservations: tuple[SelectedReservation, ...]
    """The reservations that the class selects, offered or not, and those of a Catalog."""
    fees: Mapping[str, float]
    """USD per hour on top of the price, by type; empty where the Cloud has no fees."""
    diagnostics: tuple[ObjectDiagnostic, ...]
    compiler: IndexCompiler
    """Shared with earlier catalogues, whose index differs in prices, counts and availability."""

    @cached_property
    def index(self) -> InstanceTypeIndex:
        """The index of the types for the planner; built on first use, and once."""
        with gc_paused():
            return self.compiler.compile(self.types, self.zones)

    @cached_property
    def by_name(self) -> Mapping[str, InstanceType]:
        return {instance_type.name: instance_type for instance_type in self.types}

    def applied_overlays(self) -> AppliedOverlays:
        """Which overlays apply; works it out of every offering when it is called first."""
        return self._applied_overlays

    @cached_property
    def _applied_overlays(self) -> AppliedOverlays:
        price = {
            name: tuple(
                offering.requirements
                for offering in offerings
                if any(step.layer is PriceLayer.OVERLAY for step in offering.steps)
            )
            for name, offerings in self.offerings.items()
        }
        capacity = (
            name
            for name, resources in self.resources.items()
            if any(
                amount.rule is DerivationRule.OVERLAID
                for amount in resources.derived.capacity.values()
            )
        )
        return AppliedOverlays(
            price={name: found for name, found in price.items() if found}, capacity=tuple(capacity)
        )

    @property
    def fee(self) -> float:
        """The highest fee of any type: volumes may be sized to the pods of a node."""
        return max(self.fees.values(), default=0.0)

    @property
    def from_catalog(self) -> bool:
        return self.settings is None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Types without a price in any layer, so that they cannot be launched."""
        return tuple(
            each.name
            for each in self.types
            if not each.offerings and not excluded_by(self.offerings[each.name])
        )


MAX_LISTED_RESERVATIONS: Final = 5  # ids listed in one message
REPORTED_BY_EACH_CLASS: Final = (ReservationStanding.NO_SUCH_ZONE, ReservationStanding.NO_SUCH_TYPE)
"""Each class catalogue has a diagnostic for these, so that no summary is needed."""


def offered_reservations(catalogs: Iterable[NodeClassCatalog]) -> list[SelectedReservation]:
    """The reservations that a class selects and can use, each once, in the order of ids."""
    offered: dict[str, SelectedReservation] = {}
    for catalog in catalogs:
        for selected in catalog.reservations:
            if selected.is_offered:
                offered.setdefault(selected.reservation.id, selected)
    return [offered[reservation_id] for reservation_id in sorted(offered)]


def unusable_reservations(catalogs: Iterable[NodeClassCatalog]) -> list[SelectedReservation]:
    """The reservations that classes select and that none of them can use, in the order of ids."""
    catalogs = tuple(catalogs)
    offered = {each.reservation.id for each in offered_reservations(catalogs)}
    unusable: dict[str, SelectedReservation] = {}
    for catalog in catalogs:
        for selected in catalog.reservations:
            if selected.reservation.id not in offered:
                unusable.setdefault(selected.reservation.id, selected)
    return [unusable[reservation_id] for reservation_id in sorted(unusable)]


def is_reservation_active(selected: SelectedReservation, now: datetime) -> bool:
    """Whether the reservation is active, and so paid for, even if no class can use it."""
    return standing_by_time(selected.reservation, now) in (
        ReservationStanding.OFFERED,
        ReservationStanding.ENDING,
    )


def describe_unusable(reservations: Sequence[SelectedReservation]) -> Iterator[str]:
    """One sentence per reason about selected reservations that are not used."""
    for standing in ReservationStanding:
        ids = [each.reservation.id for each in reservations if each.standing is standing]
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
"""Fields of the class that change allocatable resources, but not those of a Catalog."""


class _BuiltCatalog(msgspec.Struct, frozen=True, kw_only=True):
    node_class: EC2NodeClass
    pool_offerings: PoolOfferings
    capacity: CapacityState
    catalog: NodeClassCatalog


class CatalogBuilder:
    """Builds the catalogues of all node classes and NodePools of one input."""

    def __init__(self, inputs: CatalogInputs, compiler: IndexCompiler | None = None) -> None:
        """`compiler` is that of an earlier builder for the same classes, if there was one."""
        self._inputs = inputs
        self._source = inputs.source
        self._compiler = compiler or IndexCompiler()
        self._shared_layers = SharedLayers(inputs)
        region = inputs.source.whole_region
        self._price_layers = (
            self._shared_layers
            if region is inputs.source
            else SharedLayers(msgspec.structs.replace(inputs, source=region))
        )
        # Lists in place of dicts, as node classes and settings are not hashable. They are short.
        self._built: list[_BuiltCatalog] = []
        self._resources: list[tuple[NodeClassSettings, dict[str, NodeResources]]] = []
        self._warnings: list[tuple[NodeClassSettings, list[ObjectDiagnostic]]] = []

    def build(self, scope: CatalogScope, capacity: CapacityState | None = None) -> NodeClassCatalog:
        """The catalogue for the scope; raises InvalidCatalogInput where the input is inconsistent.

        `capacity` replaces that of the inputs, where it has changed since. NodePools that share a
        class and its overlays get the same object, so that the planner compiles one index for all
        of them.
        """
        capacity = self._inputs.capacity if capacity is None else capacity
        with gc_paused():
            pool_offerings = self._shared_layers.pool_offerings(scope)
            built = self._find_built(scope.node_class, pool_offerings)
            if built is not None and built.capacity == capacity:
                return built.catalog
            catalog = self._build_catalog(scope, pool_offerings, capacity)
        self._remember(
            _BuiltCatalog(
                node_class=scope.node_class,
                pool_offerings=pool_offerings,
                capacity=capacity,
                catalog=catalog,
            ),
            built,
        )
        return catalog

    def existing_offerings(self, scope: CatalogScope) -> LayeredOfferings:
        """All offerings that exist for the scope, those without a price or capacity included."""
        pool_offerings = self._shared_layers.pool_offerings(scope)
        capacity = self._inputs.capacity
        offerings = self._add_reservations(scope, pool_offerings.offerings, capacity)[0]
        return {
            name: tuple(offering for offering in each if not offering.is_excluded)
            for name, each in offerings.items()
        }

    def _find_built(
        self, node_class: EC2NodeClass, pool_offerings: PoolOfferings
    ) -> _BuiltCatalog | None:
        for built in self._built:
            if built.pool_offerings is pool_offerings and built.node_class == node_class:
                return built
        return None

    def _remember(self, built: _BuiltCatalog, replaced: _BuiltCatalog | None) -> None:
        """Only the last capacity is remembered: counts that have changed do not come back."""
        self._built = [*(each for each in self._built if each is not replaced), built]

    def _build_catalog(
        self, scope: CatalogScope, pool_offerings: PoolOfferings, capacity: CapacityState
    ) -> NodeClassCatalog:
        node_class = scope.node_class
        settings = self._settings(node_class)
        offerings, selected, reservation_diagnostics = self._add_reservations(
            scope, pool_offerings.offerings, capacity
        )
        offerings, unavailability_diagnostics = self._apply_unavailability(offerings, capacity)
        pods_of_types = self._pods_of_types(settings)
        incompatible = self._incompatible(settings, offerings, pods_of_types)
        offerings = {
            **offerings,
            **{name: tuple(map(make_unavailable, offerings[name])) for name in incompatible},
        }
        zones = self._zones_of(node_class)
        offerings = self._limit_to_zones(zones, self._restore_order(offerings))
        resources = self._all_resources(settings, pool_offerings, offerings)
        stated_settings = None if self._source.is_document else settings
        fees = self._fees(stated_settings, resources)
        return NodeClassCatalog(
            region=self._source.region,
            zones=zones,
            types=self._build_types(node_class, offerings, resources, fees),
            settings=stated_settings,
            resources=resources,
            offerings=MappingProxyType(dict(offerings)),
            incompatible=incompatible,
            reservations=tuple(selected),
            fees=fees,
            diagnostics=(
                *self._shared_layers.diagnostics,
                *pool_offerings.diagnostics,
                *self._ignored_field_warnings(node_class),
                *self._subnet_zone_warnings(node_class, zones),
                *_pods_per_core_warnings(node_class, settings),
                *pods_of_types.values(),
                *self._resource_warnings(settings),
                *reservation_diagnostics,
                *unavailability_diagnostics,
            ),
            compiler=self._compiler,
        )

    def _settings(self, node_class: EC2NodeClass) -> NodeClassSettings:
        """With a Catalog the settings are not even read: none of them has an effect."""
        if self._source.is_document:
            return NodeClassSettings()
        return parse_node_class(node_class, self._inputs.options)

    def _zones_of(self, node_class: EC2NodeClass) -> Mapping[str, str]:
        """The zones in which the class has subnets, where its status is in the input and no Cloud
        states the zones.
        """
        zones, cloud = self._shared_layers.region_catalog.zones, self._inputs.cloud
        if self._source.is_document or (cloud is not None and cloud.spec.zones is not None):
            return zones
        with_subnet = subnet_zones(node_class)
        return {zone: zones[zone] for zone in zones if zone in with_subnet} or zones

    def _limit_to_zones(
        self, zones: Mapping[str, str], offerings: LayeredOfferings
    ) -> LayeredOfferings:
        if len(zones) == len(self._shared_layers.region_catalog.zones):
            return offerings
        return limit_to_zones(frozenset(zones), offerings)

    def _subnet_zone_warnings(
        self, node_class: EC2NodeClass, zones: Mapping[str, str]
    ) -> list[ObjectDiagnostic]:
        """What the zones of the class's subnets change, or that they are of another region."""
        with_subnet, region = subnet_zones(node_class), self._source.region
        if not with_subnet or self._source.is_document:
            return []
        message = f"nodes are planned in {', '.join(zones)} only, where the class has subnets"
        if with_subnet.isdisjoint(self._source.zones):
            where = ", ".join(sorted(with_subnet))
            message = f"not used: the subnets are in {where}, and the plan is for {region}"
        elif len(zones) == len(self._shared_layers.region_catalog.zones):
            return []
        path = ("status", "subnets")
        return [object_warning(node_class.kind, node_class.metadata.name, path, message)]

    def _add_reservations(
        self, scope: CatalogScope, offerings: LayeredOfferings, capacity: CapacityState
    ) -> tuple[LayeredOfferings, list[SelectedReservation], list[ObjectDiagnostic]]:
        node_class = scope.node_class
        if not self._inputs.gates.capacity_reservations:
            return _without_reserved_offerings(offerings), [], []
        if self._inputs.cloud is not None:
            validate_reservation_times(self._inputs.cloud)
        context = ReservationContext(
            capacity=capacity,
            family=resolve_ami_family(node_class.spec),
            zones=self._zones_of(node_class),
            all_zones=self._source.all_zones,
        )
        selected = evaluate_reservations(context, node_class, offerings)
        diagnostics: list[ObjectDiagnostic] = []
        if selected:
            prices = self._price_layers.price_range(scope)
            offerings, diagnostics = add_reserved_offerings(context, selected, offerings, prices)
        diagnostics = [
            *unmatched_term_warnings(node_class, capacity),
            *unusable_reservation_warnings(capacity, selected),
            *diagnostics,
        ]
        return (
            offerings,
            [*selected, *self._document_reservations(offerings, selected)],
            diagnostics,
        )

    def _document_reservations(
        self, offerings: LayeredOfferings, selected: Iterable[SelectedReservation]
    ) -> list[SelectedReservation]:
        """The reservations of a Catalog that no selected one replaces."""
        if not self._source.is_document:
            return []
        replaced = {each.reservation.id for each in selected}
        stated = catalog_reservations(offerings)
        return [each for each in stated if each.reservation.id not in replaced]

    def _apply_unavailability(
        self, offerings: LayeredOfferings, capacity: CapacityState
    ) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
        if not capacity.unavailable:
            return offerings, []
        zones = self._shared_layers.region_catalog.zones
        offerings, unused = apply_unavailability(capacity.unavailable, offerings, zones)
        return offerings, capacity.unused_key_warnings(unused)

    def _incompatible(
        self, settings: NodeClassSettings, offerings: LayeredOfferings, pods_of_types: Iterable[str]
    ) -> dict[str, Incompatibility]:
        reasons = {name: self._source.find_incompatibility(name, settings) for name in offerings}
        return {
            **dict.fromkeys(pods_of_types, Incompatibility.PODS_OF_TYPE),
            **{name: reason for name, reason in reasons.items() if reason is not None},
        }

    def _pods_of_types(self, settings: NodeClassSettings) -> dict[str, ObjectDiagnostic]:
        """Warnings about types with a number of pods that nodes of the class cannot be told."""
        family = settings.ami_family
        if self._source.is_document or family.traits.pods_per_type:
            return {}
        warnings: dict[str, ObjectDiagnostic] = {}
        for name, item in self._shared_layers.declarations.items():
            override = parse_resource_override(item)
            declared = self._source.derive_resources(name, settings, override).capacity[PODS]
            known = self._source.derive_resources(name, settings, NO_OVERRIDE).capacity[PODS]
            if declared.amount != known.amount:
                field = "allocatable" if PODS in override.allocatable else "resources"
                warnings[name] = _pods_of_type_warning(name, field, family, known.amount)
        return warnings

    def _restore_order(self, offerings: LayeredOfferings) -> LayeredOfferings:
        """The offerings in final order: those with equal labels are sorted by price and count.

        Only a Catalog or an InstanceType object can have such offerings; sorting only these types
        saves a pass over the whole catalogue.
        """
        affected = offerings if self._source.is_document else self._shared_layers.declarations
        return {**offerings, **{name: restore_order(offerings[name]) for name in affected}}

    def _all_resources(
        self,
        settings: NodeClassSettings,
        pool_offerings: PoolOfferings,
        offerings: LayeredOfferings,
    ) -> Mapping[str, NodeResources]:
        """The resources of every type, overlays and InstanceType objects applied."""
        by_class = self._class_resources(settings)
        overridden = (
            pool_offerings.overlay_capacity.keys() | self._shared_layers.declarations.keys()
        )
        return {
            name: self._overridden_resources(name, settings, pool_offerings)
            if name in overridden
            else by_class[name]
            for name in offerings
        }

    def _class_resources(self, settings: NodeClassSettings) -> dict[str, NodeResources]:
        # Classes that differ only in subnets, AMIs or tags have equal settings: one result for all.
        for known, resources in self._resources:
            if known == settings:
                return resources
        resources = self._source.node_resources(
            self._shared_layers.region_catalog.offerings, settings
        )
        self._resources.append((settings, resources))
        return resources

    def _overridden_resources(
        self, name: str, settings: NodeClassSettings, pool_offerings: PoolOfferings
    ) -> NodeResources:
        """An InstanceType object wins over an overlay, resource by resource."""
        item = self._shared_layers.declarations.get(name)
        override = NO_OVERRIDE if item is None else parse_resource_override(item)
        derived = self._source.derive_resources(name, settings, override)
        overlay_capacity = pool_offerings.overlay_capacity.get(name, {})
        declared = override.resources.keys() | override.allocatable.keys()
        added = {key: overlay_capacity[key] for key in overlay_capacity if key not in declared}
        return to_node_resources(
            msgspec.structs.replace(derived, capacity={**derived.capacity, **added})
        )

    def _resource_warnings(self, settings: NodeClassSettings) -> list[ObjectDiagnostic]:
        """Warnings about amounts of InstanceType objects; once for classes of equal settings."""
        for known, warnings in self._warnings:
            if known == settings:
                return warnings
        items = self._shared_layers.declarations.values()
        warnings = [each for item in items for each in self._override_warnings(item, settings)]
        self._warnings.append((settings, warnings))
        return warnings

    def _override_warnings(
        self, item: InstanceTypeObject, settings: NodeClassSettings
    ) -> Iterator[ObjectDiagnostic]:
        name, override = item.metadata.name, parse_resource_override(item)
        only_resources = msgspec.structs.replace(override, overhead={}, allocatable={})
        derived = self._source.derive_resources(name, settings, override)
        without = self._source.derive_resources(name, settings, only_resources)
        yield from too_large_overhead_warnings(
            item, override, derived.allocatable(), without.allocatable()
        )
        labels = self._source.type_requirements(settings.ami_family.traits)[name]
        yield from too_large_allocatable_warnings(item, override, labels)

    def _build_types(
        self,
        node_class: EC2NodeClass,
        offerings: LayeredOfferings,
        resources: Mapping[str, NodeResources],
        fees: Mapping[str, float],
    ) -> tuple[InstanceType, ...]:
        traits = resolve_ami_family(node_class.spec).traits
        requirements, base = self._source.type_requirements(traits), self._source.base
        return tuple(
            InstanceType(
                name=name,
                requirements=requirements[name],
                capacity=resources[name].capacity,
                overhead=resources[name].overhead,
                attach_limits=resources[name].attach_limits,
                # A type that no layer has changed shares the offerings of the source: this saves
                # thousands of objects per class.
                offerings=base.priced[name] if each is base.offerings[name] else to_offerings(each),
                fee=fees.get(name, 0.0),
            )
            for name, each in sorted(offerings.items())
        )

    def _fees(
        self, settings: NodeClassSettings | None, resources: Mapping[str, NodeResources]
    ) -> dict[str, float]:
        fees = None if self._inputs.cloud is None else self._inputs.cloud.spec.fees
        if fees is None or not (fees.perNode or fees.perGiBDisk):
            return {}
        return {name: node_fee(fees, disk_gib(settings, each)) for name, each in resources.items()}

    def _ignored_field_warnings(self, node_class: EC2NodeClass) -> list[ObjectDiagnostic]:
        """Warnings about fields of the class that have no effect."""
        name, spec = node_class.metadata.name, node_class.spec
        warnings = []
        if self._source.is_document:
            message = "has no effect: a Catalog states capacity and overhead itself"
            fields = [field for field in IGNORED_WITH_CATALOG if getattr(spec, field) is not None]
            warnings += [
                object_warning(node_class.kind, name, ("spec", field), message) for field in fields
            ]
        terms = spec.capacityReservationSelectorTerms
        if terms and not self._inputs.gates.capacity_reservations:
            path = ("spec", "capacityReservationSelectorTerms")
            message = "not used: the feature gate CapacityReservations is off"
            warnings.append(object_warning(node_class.kind, name, path, message))
        return warnings


def subnet_zones(node_class: EC2NodeClass) -> set[str]:
    """The zones of the subnets in the status; none where the status is not known."""
    subnets = node_class.status.subnets if node_class.status is not None else None
    return {subnet.zone for subnet in subnets or ()}


def _pods_of_type_warning(name: str, field: str, family: AmiFamily, pods: int) -> ObjectDiagnostic:
    message = (
        f"{family.value} has one number of pods for all types: nodes would have {pods}, "
        "and no offering is available to such a class"
    )
    hint = "state maxPods in the class, or use another AMI family"
    return object_warning("InstanceType", name, ("spec", field, PODS), message, hint)


def _pods_per_core_warnings(
    node_class: EC2NodeClass, settings: NodeClassSettings
) -> list[ObjectDiagnostic]:
    family = settings.ami_family
    if settings.kubelet.pods_per_core is None or family.traits.pods_per_core:
        return []
    path = ("spec", "kubelet", "podsPerCore")
    message = f"has no effect: {family.value} has no such setting"
    return [object_warning(node_class.kind, node_class.metadata.name, path, message)]


def _without_reserved_offerings(offerings: LayeredOfferings) -> LayeredOfferings:
    """The offerings with those of a Catalog's reservations left out, for the feature gate."""
    return {
        name: tuple(offering for offering in each if not offering.is_reserved)
        if any(offering.is_reserved for offering in each)
        else each
        for name, each in offerings.items()
    }


def build_catalog(inputs: CatalogInputs, scope: CatalogScope) -> NodeClassCatalog:
    """The catalogue of one class; for several use one CatalogBuilder, which shares layers."""
    scopes = inputs.scopes if scope in inputs.scopes else (*inputs.scopes, scope)
    return CatalogBuilder(msgspec.structs.replace(inputs, scopes=scopes)).build(scope)
