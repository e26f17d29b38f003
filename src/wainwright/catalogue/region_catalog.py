"""The layers of the catalogue that do not depend on the node class, made once for all node classes.

The types of a source, narrowed to the zones and types of the Cloud, at the Cloud's prices, with the
NodeOverlays and InstanceType objects that apply to a NodePool.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain

import msgspec

from wainwright.api.catalog_documents import Catalog, Cloud, InstanceType, NodeOverlay
from wainwright.api.field_error import WordHints
from wainwright.api.karpenter.auto_mode import AUTO_MODE_KIND
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.catalogue.catalog_source import CatalogSource, offline_source
from wainwright.catalogue.diagnostics import (
    InvalidCatalogInput,
    ObjectDiagnostic,
    object_error,
    object_warning,
)
from wainwright.catalogue.instancetypes.derived_amount import DerivedAmount
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamilyTraits,
    CatalogOptions,
    resolve_ami_family,
)
from wainwright.catalogue.offerings.capacity_reservations import PriceRange, price_range
from wainwright.catalogue.offerings.capacity_state import CapacityState, stated_capacity
from wainwright.catalogue.offerings.cloud_adjustments import apply_cloud_prices, matches_pattern
from wainwright.catalogue.offerings.excluded_offerings import (
    UsableZones,
    exclude_contradicting,
    excluded_by,
)
from wainwright.catalogue.offerings.instance_type_overrides import apply_declared_offerings
from wainwright.catalogue.offerings.layered_offering import LayeredOffering, LayeredOfferings
from wainwright.catalogue.offerings.node_overlays import (
    OverlayMatch,
    OverlayTargetIndex,
    ParsedOverlay,
    apply_overlay_prices,
    find_overlay_conflicts,
    match_overlay,
    overlay_capacity,
    parse_overlay,
    sort_by_weight,
)
from wainwright.model.labels import NODEPOOL, node_class_labels, suggest_label


class FeatureGates(msgspec.Struct, frozen=True, kw_only=True):
    """The feature gates of the catalogue and of plans."""

    capacity_reservations: bool = True
    node_overlay: bool = True
    static_capacity: bool = False


class CatalogScope(msgspec.Struct, frozen=True, kw_only=True):
    """What a catalogue is built for: a node class, and the NodePool where overlays select one."""

    node_class: EC2NodeClass
    pool: str = ""
    """Empty for the catalogue of a node class by itself."""
    labels: Mapping[str, str] = {}
    """The labels of the NodePool's template."""

    def node_labels(self) -> dict[str, str]:
        """The labels that every node of the scope has."""
        name, auto_mode = self.node_class.metadata.name, self.node_class.kind == AUTO_MODE_KIND
        owners = {NODEPOOL: self.pool, **node_class_labels(name, auto_mode=auto_mode)}
        return {**self.labels, **{key: value for key, value in owners.items() if value}}


class CatalogInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All inputs of a catalogue except the node class; read only."""

    source: CatalogSource
    capacity: CapacityState
    cloud: Cloud | None = None
    """Offline: the zones, types, prices and fees that a user states."""
    instance_types: tuple[InstanceType, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    scopes: tuple[CatalogScope, ...] = ()
    """Every NodePool of the input: an overlay that conflicts in one of them is void in all."""
    gates: FeatureGates = FeatureGates()
    options: CatalogOptions = CatalogOptions()


def offline_inputs(
    *,
    now: datetime,
    region: str | None = None,
    cloud: Cloud | None = None,
    catalog: Catalog | None = None,
) -> CatalogInputs:
    """The inputs without an account: a Catalog or the built-in data, and what the Cloud states.

    Raises InvalidInputError for a region that is unknown or contradictory.
    """
    return CatalogInputs(
        source=offline_source(region=region, cloud=cloud, catalog=catalog),
        capacity=stated_capacity(cloud, now),
        cloud=cloud,
    )


class RegionCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The zones and offerings of a source that the Cloud leaves, before any layer sets prices."""

    zones: Mapping[str, str]
    """The zones in use with their ids; an id is empty where it is not known."""
    offerings: LayeredOfferings
    diagnostics: tuple[ObjectDiagnostic, ...] = ()


def load_region_catalog(source: CatalogSource, cloud: Cloud | None) -> RegionCatalog:
    """Narrow the source to the Cloud; InvalidCatalogInput for a zone or type that is unknown."""
    if cloud is None:
        return RegionCatalog(
            zones=source.zones, offerings=source.base.offerings, diagnostics=source.diagnostics
        )
    zones = _resolve_zones(cloud, source)
    offerings, diagnostics = _limit_to_types(cloud, source.base.offerings)
    if cloud.spec.zones is not None:
        offerings = limit_to_zones(frozenset(zones), offerings)
    if not offerings:
        message = "none of the Cloud's instance types is sold in these zones"
        raise object_error("Cloud", cloud.metadata.name, ("spec", "zones"), message)
    return RegionCatalog(
        zones=zones, offerings=offerings, diagnostics=(*source.diagnostics, *diagnostics)
    )


def _resolve_zones(cloud: Cloud, source: CatalogSource) -> Mapping[str, str]:
    zones = cloud.spec.zones
    if zones is None or not source.zones:
        return source.zones
    unknown = [index for index, zone in enumerate(zones) if zone not in source.zones]
    if unknown:
        raise InvalidCatalogInput(
            [_unknown_zone_error(cloud, index, zones[index], source) for index in unknown]
        )
    return {zone: source.zones[zone] for zone in sorted(zones)}


def _unknown_zone_error(
    cloud: Cloud, index: int, zone: str, source: CatalogSource
) -> ObjectDiagnostic:
    message = f"{source.region} has no zone {zone}"
    hint = f"its zones are {', '.join(source.zones)}"
    return object_error(
        "Cloud", cloud.metadata.name, ("spec", "zones", index), message, hint
    ).diagnostics[0]


def limit_to_zones(
    zones: frozenset[str], offerings: LayeredOfferings
) -> dict[str, tuple[LayeredOffering, ...]]:
    """The offerings in these zones; an offering that leaves the zone open stays.

    A type that is offered in other zones only is left out.
    """
    limited = {}
    for name, each in offerings.items():
        in_zones = tuple(
            offering for offering in each if offering.zone is None or offering.zone in zones
        )
        if in_zones or not each:
            # The same tuple where nothing is left out: `_build_types` of CatalogBuilder then uses
            # the shared offerings of the source in place of new ones.
            limited[name] = each if len(in_zones) == len(each) else in_zones
    return limited


def _limit_to_types(
    cloud: Cloud, offerings: LayeredOfferings
) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
    """The offerings of types that match the Cloud's patterns."""
    patterns = cloud.spec.instanceTypes
    if patterns is None:
        return offerings, []
    kept: set[str] = set()
    diagnostics, hints = [], WordHints(offerings)
    for index, pattern in enumerate(patterns):
        matching = {name for name in offerings if matches_pattern(pattern, name)}
        kept |= matching
        if not matching:
            diagnostics.append(_unknown_type_warning(cloud, index, pattern, hints))
    if not kept:
        raise InvalidCatalogInput(diagnostics)
    return {name: offerings[name] for name in offerings if name in kept}, diagnostics


def _unknown_type_warning(
    cloud: Cloud, index: int, pattern: str, hints: WordHints
) -> ObjectDiagnostic:
    path = ("spec", "instanceTypes", index)
    message = f"no instance type of {cloud.spec.region} is called {pattern}"
    hint = hints.did_you_mean(pattern.strip("*"))
    return object_warning("Cloud", cloud.metadata.name, path, message, hint)


class PoolOfferings(msgspec.Struct, frozen=True, kw_only=True):
    """Offerings up to the InstanceType layer, for all scopes with the same overlays in effect."""

    offerings: LayeredOfferings
    overlay_capacity: Mapping[str, Mapping[str, DerivedAmount]]
    """Capacity that overlays add, by type."""
    diagnostics: tuple[ObjectDiagnostic, ...]


class SharedLayers:
    """The layers that all node classes share; each is built on first use, and once."""

    def __init__(self, inputs: CatalogInputs) -> None:
        self._inputs = inputs
        self._overlay_matches: dict[AmiFamilyTraits, tuple[OverlayMatch, ...]] = {}
        self._pool_offerings: dict[tuple[AmiFamilyTraits, tuple[str, ...]], PoolOfferings] = {}
        self._price_ranges: dict[frozenset[int], PriceRange] = {}
        """By the identity of the offerings that they are of."""

    @cached_property
    def region_catalog(self) -> RegionCatalog:
        return load_region_catalog(self._inputs.source, self._inputs.cloud)

    @cached_property
    def declarations(self) -> Mapping[str, InstanceType]:
        """InstanceType objects by type name; of two with the same name the later counts."""
        named = {item.metadata.name: item for item in self._inputs.instance_types}
        return {
            name: named[name] for name in sorted(named) if name in self.region_catalog.offerings
        }

    def pool_offerings(self, scope: CatalogScope) -> PoolOfferings:
        """The offerings for the scope, before reservations and unavailability.

        Cached by AMI family traits and overlays: nothing else of the scope changes them.
        """
        traits = resolve_ami_family(scope.node_class.spec).traits
        overlay_matches = self._overlays_in_force(scope, traits)
        key = (traits, tuple(each.overlay.name for each in overlay_matches))
        pool_offerings = self._pool_offerings.get(key)
        if pool_offerings is None:
            pool_offerings = self._build_pool_offerings(traits, overlay_matches)
            self._pool_offerings[key] = pool_offerings
        return pool_offerings

    def price_range(self, scope: CatalogScope) -> PriceRange:
        """The price range over the offerings of all scopes, this one included."""
        layers = {
            id(each): each for each in (*self._all_pool_offerings, self.pool_offerings(scope))
        }
        key = frozenset(layers)
        prices = self._price_ranges.get(key)
        if prices is None:
            offerings = (each for layer in layers.values() for each in layer.offerings.values())
            prices = self._price_ranges[key] = price_range(chain.from_iterable(offerings))
        return prices

    @cached_property
    def _all_pool_offerings(self) -> tuple[PoolOfferings, ...]:
        return tuple(map(self.pool_offerings, self._inputs.scopes))

    def _build_pool_offerings(
        self, traits: AmiFamilyTraits, overlay_matches: Sequence[OverlayMatch]
    ) -> PoolOfferings:
        offerings, diagnostics = self._apply_declarations(
            apply_overlay_prices(self._cloud_priced[0], overlay_matches)
        )
        offerings, exclusions = self._exclude_contradicting(traits, offerings)
        return PoolOfferings(
            offerings=offerings,
            overlay_capacity=overlay_capacity(overlay_matches),
            diagnostics=(*diagnostics, *exclusions),
        )

    @cached_property
    def _cloud_priced(self) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
        cloud = self._inputs.cloud
        if cloud is None:
            return self.region_catalog.offerings, []
        return apply_cloud_prices(cloud, self.region_catalog.offerings)

    def _apply_declarations(
        self, offerings: LayeredOfferings
    ) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
        changed: dict[str, tuple[LayeredOffering, ...]] = {}
        diagnostics: list[ObjectDiagnostic] = []
        for name, item in self.declarations.items():
            changed[name], warnings = apply_declared_offerings(
                item, offerings[name], self._usable_zones
            )
            diagnostics += warnings
        return ({**offerings, **changed} if changed else offerings), diagnostics

    @cached_property
    def _usable_zones(self) -> UsableZones:
        source = self._inputs.source
        return UsableZones(
            region=source.region,
            zones=self.region_catalog.zones,
            source_zones=source.zones,
            all_zones=source.all_zones,
        )

    def _exclude_contradicting(
        self, traits: AmiFamilyTraits, offerings: LayeredOfferings
    ) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
        """Only offerings of an InstanceType object or a Catalog can contradict their type."""
        labels = self._inputs.source.type_requirements(traits)
        affected = offerings if self._inputs.source.is_document else self.declarations
        changed = {name: exclude_contradicting(offerings[name], labels[name]) for name in affected}
        diagnostics = [
            self._exclusion_warning(name, why)
            for name in affected
            if changed[name] is not offerings[name] and (why := excluded_by(changed[name]))
        ]
        return ({**offerings, **changed} if changed else offerings), diagnostics

    def _exclusion_warning(self, name: str, why: str) -> ObjectDiagnostic:
        message = f"none of these offerings is available to such a class ({why})"
        item = self.declarations.get(name)
        if item is None or item.spec.offerings is None:
            message = f"no offering of {name} is available to such a class ({why})"
            return object_warning("Catalog", self._inputs.source.region, (), message)
        return object_warning("InstanceType", name, ("spec", "offerings"), message)

    @cached_property
    def _overlays(self) -> list[ParsedOverlay]:
        if not self._inputs.gates.node_overlay:
            return []
        return sort_by_weight([parse_overlay(item) for item in self._inputs.overlays])

    def _overlays_in_force(
        self, scope: CatalogScope, traits: AmiFamilyTraits
    ) -> list[OverlayMatch]:
        if not self._overlays:
            return []
        conflicting, labels = self._conflicting_overlays, scope.node_labels()
        overlay_matches = [
            each for each in self._match_overlays(traits) if each.overlay.name not in conflicting
        ]
        return [each for each in overlay_matches if each.admits(labels)]

    def _match_overlays(self, traits: AmiFamilyTraits) -> tuple[OverlayMatch, ...]:
        matches = self._overlay_matches.get(traits)
        if matches is None:
            requirements = self._inputs.source.type_requirements(traits)
            targets = OverlayTargetIndex(requirements, self._cloud_priced[0])
            matches = tuple(match_overlay(each, targets) for each in self._overlays)
            self._overlay_matches[traits] = matches
        return matches

    @cached_property
    def _conflicting_overlays(self) -> Mapping[str, ObjectDiagnostic]:
        """Overlays that conflict in one scope are void in all of them."""
        labels_by_traits: dict[AmiFamilyTraits, list[Mapping[str, str]]] = {}
        for scope in self._inputs.scopes:
            traits = resolve_ami_family(scope.node_class.spec).traits
            labels_by_traits.setdefault(traits, []).append(scope.node_labels())
        conflicts: dict[str, ObjectDiagnostic] = {}
        for traits, node_labels in labels_by_traits.items():
            conflicts |= find_overlay_conflicts(self._match_overlays(traits), node_labels)
        return conflicts

    @cached_property
    def diagnostics(self) -> tuple[ObjectDiagnostic, ...]:
        """The diagnostics that do not depend on the node class."""
        return (
            *self.region_catalog.diagnostics,
            *self._cloud_priced[1],
            *self._unknown_type_warnings(),
            *(self._conflicting_overlays.values() if self._overlays else ()),
            *self._unmatched_overlay_warnings(),
            *self._disabled_overlay_warnings(),
        )

    def _unknown_type_warnings(self) -> list[ObjectDiagnostic]:
        hints = WordHints(self.region_catalog.offerings)
        return [
            object_warning(
                "InstanceType",
                item.metadata.name,
                ("metadata", "name"),
                f"there is no instance type {item.metadata.name} here: nothing changes",
                hints.did_you_mean(item.metadata.name),
            )
            for item in self._inputs.instance_types
            if item.metadata.name not in self.region_catalog.offerings
        ]

    def _unmatched_overlay_warnings(self) -> list[ObjectDiagnostic]:
        """Warnings about overlays that match no type and no offering, under any AMI family."""
        matched = {
            each.overlay.name
            for overlay_matches in self._overlay_matches.values()
            for each in overlay_matches
            if each.targets
        }
        unmatched = [
            each for each in self._overlays if self._overlay_matches and each.name not in matched
        ]
        return [
            object_warning(
                "NodeOverlay",
                each.name,
                ("spec", "requirements"),
                "no instance type and no offering is meant by these requirements",
                _overlay_hint(each),
            )
            for each in unmatched
        ]

    def _disabled_overlay_warnings(self) -> list[ObjectDiagnostic]:
        if self._inputs.gates.node_overlay:
            return []
        message = "not applied: the feature gate NodeOverlay is off"
        return [
            object_warning(item.kind, item.metadata.name, (), message, void="FeatureGateDisabled")
            for item in self._inputs.overlays
        ]


def _overlay_hint(overlay: ParsedOverlay) -> str:
    suggested = [(key, suggest_label(key)) for key in overlay.requirements]
    return "; ".join(f"{key}: did you mean {known}?" for key, known in suggested if known)
