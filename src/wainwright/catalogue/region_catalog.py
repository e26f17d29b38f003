"""The layers of the catalogue that do not depend on the node class, made once for all classes.

Built-in types or a Catalog, narrowed to the zones and types of the Cloud, at the Cloud's prices,
with the NodeOverlays and InstanceType objects that apply to a NodePool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final

import msgspec

from wainwright.api.catalog_documents import Catalog, Cloud, InstanceType, NodeOverlay
from wainwright.api.field_error import did_you_mean
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.catalogue import regions
from wainwright.catalogue.catalog_document import CatalogTypeEntry, parse_catalog
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
from wainwright.catalogue.instancetypes.type_labels import type_requirements
from wainwright.catalogue.offerings import built_in_offerings, cloud_adjustments
from wainwright.catalogue.offerings.built_in_offerings import PriceFactorBasis
from wainwright.catalogue.offerings.cloud_adjustments import matches_pattern
from wainwright.catalogue.offerings.layered_offering import LayeredOffering, LayeredOfferings
from wainwright.catalogue.offerings.overrides import (
    OverlayMatch,
    OverlayTargetIndex,
    ParsedOverlay,
    apply_declared_offerings,
    apply_overlay_prices,
    find_overlay_conflicts,
    match_overlay,
    overlay_capacity,
    parse_overlay,
    sort_by_weight,
)
from wainwright.errors import InvalidInputError
from wainwright.model.labels import EC2NODECLASS, NODEPOOL, ZONE_ID, suggest_label
from wainwright.model.requirements import Requirements


class FeatureGates(msgspec.Struct, frozen=True, kw_only=True):
    """What can be switched off."""

    capacity_reservations: bool = True
    node_overlay: bool = True


class CatalogScope(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a catalogue is made: a class, and the pool where overlays select pools."""

    node_class: EC2NodeClass
    pool: str = ""
    """Empty where the class is looked at by itself."""
    labels: Mapping[str, str] = {}
    """What the pool's template puts on its nodes."""

    def stated(self) -> dict[str, str]:
        """The labels that every node of the scope has."""
        named = {EC2NODECLASS: self.node_class.metadata.name, NODEPOOL: self.pool}
        return {**self.labels, **{key: value for key, value in named.items() if value}}


class CatalogInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The input, apart from the class. Nothing in it is changed, and nothing else is looked at."""

    now: datetime
    """Aware of its time zone; only reservations with a start or end depend on it."""
    region: str | None = None
    """Asked for by itself; else the Cloud's, the Catalog's, or us-east-1."""
    cloud: Cloud | None = None
    catalog: Catalog | None = None
    instance_types: tuple[InstanceType, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    scopes: tuple[CatalogScope, ...] = ()
    """Every pool of the input: an overlay that conflicts in one of them is void in all."""
    gates: FeatureGates = FeatureGates()
    options: CatalogOptions = CatalogOptions()


DEFAULT_REGION: Final = "us-east-1"


class RegionCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """What there is before anybody sets a price."""

    region: str
    zones: Mapping[str, str]
    """The zones in force with their ids; an id is empty where nobody states it."""
    all_zones: frozenset[str]
    """Those that the Cloud leaves out included."""
    offerings: LayeredOfferings
    stated: Mapping[str, CatalogTypeEntry] | None
    """The types of a Catalog; None where the built-in ones are used."""
    remarks: tuple[ObjectDiagnostic, ...] = ()


def load_region_catalog(inputs: CatalogInputs) -> RegionCatalog:
    """Refused where region, zones or types of the Cloud do not exist."""
    cloud = inputs.cloud
    whole = (
        _from_catalog(inputs.catalog)
        if inputs.catalog
        else _from_built_in(_resolve_region(inputs), cloud)
    )
    _check_region(inputs, whole.region)
    if cloud is None:
        return whole
    zones = _resolve_zones(cloud, whole)
    offerings, remarks = _limit_to_types(cloud, whole.offerings)
    if cloud.spec.zones is not None:
        offerings = _limit_to_zones(frozenset(zones), offerings)
    if not offerings:
        message = "none of the Cloud's instance types is sold in these zones"
        raise object_error("Cloud", cloud.metadata.name, ("spec", "zones"), message)
    said = (*whole.remarks, *remarks)
    return msgspec.structs.replace(whole, zones=zones, offerings=offerings, remarks=said)


def _resolve_region(inputs: CatalogInputs) -> str:
    if inputs.cloud is not None:
        return inputs.cloud.spec.region
    return inputs.region or DEFAULT_REGION


def _check_region(inputs: CatalogInputs, region: str) -> None:
    cloud = inputs.cloud
    if cloud is not None and cloud.spec.region != region:
        message = f"the Catalog is of {region}, the Cloud of {cloud.spec.region}"
        hint = "a Cloud on top of a Catalog has the Catalog's region"
        raise object_error("Cloud", cloud.metadata.name, ("spec", "region"), message, hint)
    if inputs.region not in (None, region):
        said = "Cloud" if cloud is not None else "Catalog"
        raise InvalidInputError(
            f"the region {inputs.region} was asked for, but the {said} is of {region}",
            f"leave the region out, or use another {said}",
        )


def _from_built_in(name: str, cloud: Cloud | None) -> RegionCatalog:
    try:
        region = regions.load_region(name)
    except InvalidInputError as error:
        if cloud is None:
            raise
        path = ("spec", "region")
        raise object_error("Cloud", cloud.metadata.name, path, error.message, error.hint) from error
    zones = {zone.name: zone.id for zone in region.zones}
    return RegionCatalog(
        region=name,
        zones=zones,
        all_zones=frozenset(zones),
        offerings=built_in_offerings.load_built_in_offerings(name).offerings,
        stated=None,
        remarks=_guessed_price_warnings(name, cloud),
    )


def _guessed_price_warnings(region: str, cloud: Cloud | None) -> tuple[ObjectDiagnostic, ...]:
    known = built_in_offerings.load_price_table().regions[region]
    if known.basis is not PriceFactorBasis.UNKNOWN:
        return ()
    message = f"no price of {region} is known: those of us-east-1 times {known.factor} are a guess"
    hint = "state the prices that matter in a Cloud, under spec.prices"
    if cloud is None:
        return (object_warning("region", region, (), message, hint),)
    return (object_warning("Cloud", cloud.metadata.name, ("spec", "region"), message, hint),)


def _from_catalog(catalog: Catalog) -> RegionCatalog:
    types = parse_catalog(catalog)
    offerings = {name: each.offerings for name, each in types.items()}
    zones = dict(sorted(_zone_ids(offerings.values())))
    return RegionCatalog(
        region=catalog.region,
        zones=zones,
        all_zones=frozenset(zones),
        offerings=offerings,
        stated=types,
    )


def _zone_ids(offerings: Iterable[tuple[LayeredOffering, ...]]) -> Iterator[tuple[str, str]]:
    """An id that is stated once for a zone holds for all its offerings."""
    for each in offerings:
        for offering in each:
            if offering.zone is not None:
                yield offering.zone, offering.requirements.single_value(ZONE_ID) or ""


def _resolve_zones(cloud: Cloud, whole: RegionCatalog) -> Mapping[str, str]:
    asked = cloud.spec.zones
    if asked is None or not whole.zones:
        return whole.zones
    wrong = [index for index, zone in enumerate(asked) if zone not in whole.zones]
    if wrong:
        raise InvalidCatalogInput(
            [_unknown_zone_error(cloud, index, asked[index], whole) for index in wrong]
        )
    return {zone: whole.zones[zone] for zone in sorted(asked)}


def _unknown_zone_error(
    cloud: Cloud, index: int, zone: str, whole: RegionCatalog
) -> ObjectDiagnostic:
    message = f"{whole.region} has no zone {zone}"
    hint = f"its zones are {', '.join(whole.zones)}"
    return object_error(
        "Cloud", cloud.metadata.name, ("spec", "zones", index), message, hint
    ).remarks[0]


def _limit_to_zones(
    zones: frozenset[str], offerings: LayeredOfferings
) -> dict[str, tuple[LayeredOffering, ...]]:
    """What is sold in these zones; an offering that leaves the zone open stays.

    A type that is sold elsewhere only is not part of this cloud any more.
    """
    kept = {}
    for name, each in offerings.items():
        here = tuple(
            offering for offering in each if offering.zone is None or offering.zone in zones
        )
        if here or not each:
            kept[name] = each if len(here) == len(each) else here
    return kept


def _limit_to_types(
    cloud: Cloud, offerings: LayeredOfferings
) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
    """The types that the Cloud's patterns name."""
    patterns = cloud.spec.instanceTypes
    if patterns is None:
        return offerings, []
    kept: set[str] = set()
    remarks = []
    for index, pattern in enumerate(patterns):
        found = {name for name in offerings if matches_pattern(pattern, name)}
        kept |= found
        if not found:
            remarks.append(_unknown_type_warning(cloud, index, pattern, list(offerings)))
    if not kept:
        raise InvalidCatalogInput(remarks)
    return {name: offerings[name] for name in offerings if name in kept}, remarks


def _unknown_type_warning(
    cloud: Cloud, index: int, pattern: str, known: list[str]
) -> ObjectDiagnostic:
    path = ("spec", "instanceTypes", index)
    message = f"no instance type of {cloud.spec.region} is called {pattern}"
    hint = did_you_mean(pattern.strip("*"), known)
    return object_warning("Cloud", cloud.metadata.name, path, message, hint)


class PoolOfferings(msgspec.Struct, frozen=True, kw_only=True):
    """Offerings up to the InstanceType objects, for all scopes in which the same overlays hold."""

    offerings: LayeredOfferings
    overlaid: Mapping[str, Mapping[str, DerivedAmount]]
    """Capacity that overlays add, by type."""
    remarks: tuple[ObjectDiagnostic, ...]


class SharedLayers:
    """Layers as they are asked for; each is made once."""

    def __init__(self, inputs: CatalogInputs) -> None:
        self._inputs = inputs
        self._overlay_matches: dict[AmiFamilyTraits, tuple[OverlayMatch, ...]] = {}
        self._pool_offerings: dict[tuple[AmiFamilyTraits, tuple[str, ...]], PoolOfferings] = {}

    @cached_property
    def region_catalog(self) -> RegionCatalog:
        return load_region_catalog(self._inputs)

    @cached_property
    def declarations(self) -> Mapping[str, InstanceType]:
        """By the name of the type; of two objects with one name the later counts."""
        named = {item.metadata.name: item for item in self._inputs.instance_types}
        return {
            name: named[name] for name in sorted(named) if name in self.region_catalog.offerings
        }

    def described(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        if self.region_catalog.stated is None:
            return type_requirements(self.region_catalog.region, traits)
        return {name: each.requirements for name, each in self.region_catalog.stated.items()}

    def pool_offerings(self, scope: CatalogScope) -> PoolOfferings:
        """What there is for the scope before reservations and shortages."""
        traits = resolve_ami_family(scope.node_class.spec).traits
        overlay_matches = self._in_force(scope, traits)
        key = (traits, tuple(each.overlay.name for each in overlay_matches))
        found = self._pool_offerings.get(key)
        if found is None:
            found = self._pool_offerings[key] = self._made(overlay_matches)
        return found

    def _made(self, overlay_matches: Sequence[OverlayMatch]) -> PoolOfferings:
        offerings, remarks = self._declared(apply_overlay_prices(self._priced[0], overlay_matches))
        return PoolOfferings(
            offerings=offerings, overlaid=overlay_capacity(overlay_matches), remarks=tuple(remarks)
        )

    @cached_property
    def _priced(self) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
        cloud = self._inputs.cloud
        if cloud is None:
            return self.region_catalog.offerings, []
        return cloud_adjustments.apply_cloud_prices(cloud, self.region_catalog.offerings)

    def _declared(
        self, offerings: LayeredOfferings
    ) -> tuple[LayeredOfferings, list[ObjectDiagnostic]]:
        changed: dict[str, tuple[LayeredOffering, ...]] = {}
        remarks: list[ObjectDiagnostic] = []
        for name, item in self.declarations.items():
            changed[name], warnings = apply_declared_offerings(
                item, offerings[name], self.region_catalog.zones
            )
            remarks += warnings
        return ({**offerings, **changed} if changed else offerings), remarks

    @cached_property
    def _overlays(self) -> list[ParsedOverlay]:
        on = self._inputs.gates.node_overlay
        return sort_by_weight([parse_overlay(item) for item in self._inputs.overlays]) if on else []

    def _in_force(self, scope: CatalogScope, traits: AmiFamilyTraits) -> list[OverlayMatch]:
        if not self._overlays:
            return []
        void, stated = self._void, scope.stated()
        overlay_matches = [each for each in self._reach(traits) if each.overlay.name not in void]
        return [each for each in overlay_matches if each.admits(stated)]

    def _reach(self, traits: AmiFamilyTraits) -> tuple[OverlayMatch, ...]:
        found = self._overlay_matches.get(traits)
        if found is None:
            ground = OverlayTargetIndex(self.described(traits), self._priced[0])
            found = tuple(match_overlay(each, ground) for each in self._overlays)
            self._overlay_matches[traits] = found
        return found

    @cached_property
    def _void(self) -> Mapping[str, ObjectDiagnostic]:
        """Overlays that conflict in one scope are void in all of them."""
        by_system: dict[AmiFamilyTraits, list[Mapping[str, str]]] = {}
        for scope in self._inputs.scopes:
            traits = resolve_ami_family(scope.node_class.spec).traits
            by_system.setdefault(traits, []).append(scope.stated())
        void: dict[str, ObjectDiagnostic] = {}
        for traits, stated in by_system.items():
            void |= find_overlay_conflicts(self._reach(traits), stated)
        return void

    @cached_property
    def remarks(self) -> tuple[ObjectDiagnostic, ...]:
        """What is to be said whatever the class."""
        return (
            *self.region_catalog.remarks,
            *self._priced[1],
            *self._unknown(),
            *(self._void.values() if self._overlays else ()),
            *self._pointless(),
            *self._switched_off(),
        )

    def _unknown(self) -> list[ObjectDiagnostic]:
        known = list(self.region_catalog.offerings)
        return [
            object_warning(
                "InstanceType",
                item.metadata.name,
                ("metadata", "name"),
                f"there is no instance type {item.metadata.name} here: nothing changes",
                did_you_mean(item.metadata.name, known),
            )
            for item in self._inputs.instance_types
            if item.metadata.name not in self.region_catalog.offerings
        ]

    def _pointless(self) -> list[ObjectDiagnostic]:
        """Overlays that mean nothing that exists, under any system."""
        meant = {
            each.overlay.name
            for overlay_matches in self._overlay_matches.values()
            for each in overlay_matches
            if each.targets
        }
        idle = [each for each in self._overlays if self._overlay_matches and each.name not in meant]
        return [
            object_warning(
                "NodeOverlay",
                each.name,
                ("spec", "requirements"),
                "no instance type and no offering is meant by these requirements",
                _overlay_hint(each),
            )
            for each in idle
        ]

    def _switched_off(self) -> list[ObjectDiagnostic]:
        if self._inputs.gates.node_overlay:
            return []
        message = "not applied: the feature gate NodeOverlay is off"
        return [
            object_warning(item.kind, item.metadata.name, (), message)
            for item in self._inputs.overlays
        ]


def _overlay_hint(idle: ParsedOverlay) -> str:
    meant = [(key, suggest_label(key)) for key in idle.requirements]
    return "; ".join(f"{key}: did you mean {known}?" for key, known in meant if known)
