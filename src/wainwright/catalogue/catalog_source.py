"""Sources of a catalogue: where instance types, their zones and their base offerings come from.

The built-in data, a Catalog document, or a live account (`aws.instancetypes.live_catalog`). The
layers above (Cloud, NodeOverlay and InstanceType objects, reservations, unavailable offerings) work
alike on each of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from wainwright.api.catalog_documents import Catalog, Cloud
from wainwright.catalogue import regions
from wainwright.catalogue.catalog_document import parse_catalog
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_error, object_warning
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import (
    DerivedResources,
    NodeResources,
    derive_resources,
    node_resources_by_type,
    to_node_resources,
)
from wainwright.catalogue.instancetypes.instance_type_info import LazyMapping
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    AmiFamilyTraits,
    Incompatibility,
    NodeClassSettings,
    ResourceOverride,
    find_incompatibility,
)
from wainwright.catalogue.instancetypes.type_labels import name_labels, type_requirements
from wainwright.catalogue.offerings.built_in_offerings import (
    PriceFactorBasis,
    load_built_in_offerings,
    load_price_table,
)
from wainwright.catalogue.offerings.layered_offering import (
    BaseOfferings,
    LayeredOffering,
    to_offerings,
)
from wainwright.errors import InvalidInputError
from wainwright.model.labels import ZONE_ID
from wainwright.model.requirements import Requirements

DEFAULT_REGION: Final = "us-east-1"


class CatalogSource(Protocol):
    """The bottom of the catalogue, for one region; immutable."""

    @property
    def region(self) -> str: ...

    @property
    def zones(self) -> Mapping[str, str]:
        """The zones in use with their ids; an id is empty where it is not known."""
        ...

    @property
    def all_zones(self) -> frozenset[str]:
        """All zones of the region, those that are not in use included."""
        ...

    @property
    def whole_region(self) -> "CatalogSource":
        """The same in all zones that any class can use: prices of classes are compared there."""
        ...

    @property
    def base(self) -> BaseOfferings:
        """The offerings of every type in these zones, with their prices."""
        ...

    @property
    def is_document(self) -> bool:
        """Whether a Catalog states everything itself.

        Then no setting of a class changes an amount, reservations can be among the offerings, and
        offerings of a type can have the same labels.
        """
        ...

    @property
    def diagnostics(self) -> tuple[ObjectDiagnostic, ...]: ...

    def type_requirements(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        """The labels of every type that do not depend on the offering, as requirements."""
        ...

    def find_incompatibility(
        self, name: str, settings: NodeClassSettings
    ) -> Incompatibility | None:
        """Why a class with these settings can never launch the type; None where it can."""
        ...

    def node_resources(
        self, names: Iterable[str], settings: NodeClassSettings
    ) -> dict[str, NodeResources]:
        """Capacity and overhead of nodes of these types."""
        ...

    def derive_resources(
        self, name: str, settings: NodeClassSettings, override: ResourceOverride
    ) -> DerivedResources:
        """Capacity and overhead of one type, with those of its InstanceType object."""
        ...


class BuiltInSource:
    """The committed data: every type of a region, list prices, and a model of spot prices."""

    is_document = False

    def __init__(self, region: str, diagnostics: tuple[ObjectDiagnostic, ...] = ()) -> None:
        """InvalidInputError for a region that the data do not have."""
        self.region = region
        self.zones = {zone.name: zone.id for zone in regions.load_region(region).zones}
        self.all_zones = frozenset(self.zones)
        self.base = load_built_in_offerings(region)
        self.diagnostics = diagnostics

    @property
    def whole_region(self) -> CatalogSource:
        return self

    def type_requirements(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        return type_requirements(self.region, traits)

    def find_incompatibility(
        self, name: str, settings: NodeClassSettings
    ) -> Incompatibility | None:
        return find_incompatibility(instance_type_info.built_in_instance_types()[name], settings)

    def node_resources(
        self, names: Iterable[str], settings: NodeClassSettings
    ) -> dict[str, NodeResources]:
        infos = instance_type_info.built_in_instance_types()
        return node_resources_by_type({name: infos[name] for name in names}, settings)

    def derive_resources(
        self, name: str, settings: NodeClassSettings, override: ResourceOverride
    ) -> DerivedResources:
        info = instance_type_info.built_in_instance_types()[name]
        return derive_resources(info, settings, override)


class CatalogDocumentSource:
    """A Catalog, which states types, resources, prices and reservations."""

    is_document = True

    def __init__(self, catalog: Catalog) -> None:
        self._types = parse_catalog(catalog)
        offerings = {name: each.offerings for name, each in self._types.items()}
        self.region = catalog.region
        self.zones = dict(sorted(_zone_ids(offerings.values())))
        self.all_zones = frozenset(self.zones)
        self.base = BaseOfferings(
            offerings=offerings,
            priced=LazyMapping(offerings, lambda name: to_offerings(offerings[name])),
        )
        self.diagnostics: tuple[ObjectDiagnostic, ...] = ()

    @property
    def whole_region(self) -> CatalogSource:
        return self

    def type_requirements(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        stated = {name: each.requirements for name, each in self._types.items()}
        if not traits.auto_mode:
            return stated
        return {name: _renamed(requirements, traits) for name, requirements in stated.items()}

    def find_incompatibility(
        self,
        name: str,  # noqa: ARG002
        settings: NodeClassSettings,  # noqa: ARG002
    ) -> Incompatibility | None:
        return None

    def node_resources(
        self, names: Iterable[str], settings: NodeClassSettings
    ) -> dict[str, NodeResources]:
        return {
            name: to_node_resources(self.derive_resources(name, settings, NO_OVERRIDE))
            for name in names
        }

    def derive_resources(
        self,
        name: str,
        settings: NodeClassSettings,  # noqa: ARG002
        override: ResourceOverride,
    ) -> DerivedResources:
        return self._types[name].derive_resources(override)


def _renamed(requirements: Requirements, traits: AmiFamilyTraits) -> Requirements:
    named = name_labels(dict(requirements.items()), traits)
    return Requirements(
        [msgspec.structs.replace(each, key=key) for key, each in sorted(named.items())]
    )


def _zone_ids(offerings: Iterable[tuple[LayeredOffering, ...]]) -> Iterator[tuple[str, str]]:
    """Zones with their ids; an id that one offering of a zone has is that of all of them."""
    for each in offerings:
        for offering in each:
            if offering.zone is not None:
                yield offering.zone, offering.requirements.single_value(ZONE_ID) or ""


def offline_source(
    *, region: str | None = None, cloud: Cloud | None = None, catalog: Catalog | None = None
) -> CatalogSource:
    """The Catalog if there is one, else the built-in data of the region.

    `region` is that of the command line; without one it is the Cloud's or the Catalog's, or
    us-east-1. Raises InvalidInputError where they differ, or where it is not known.
    """
    if catalog is not None:
        source: CatalogSource = CatalogDocumentSource(catalog)
    elif cloud is not None:
        source = _built_in_region_of(cloud)
    else:
        name = region or DEFAULT_REGION
        source = BuiltInSource(name, _guessed_price_warnings(name, None))
    _check_region(source.region, region, cloud)
    return source


def _built_in_region_of(cloud: Cloud) -> BuiltInSource:
    name, path = cloud.spec.region, ("spec", "region")
    try:
        regions.load_region(name)
    except InvalidInputError as error:
        raise object_error("Cloud", cloud.metadata.name, path, error.message, error.hint) from error
    return BuiltInSource(name, _guessed_price_warnings(name, cloud))


def _check_region(region: str, requested: str | None, cloud: Cloud | None) -> None:
    if cloud is not None and cloud.spec.region != region:
        message = f"the Catalog is of {region}, the Cloud of {cloud.spec.region}"
        hint = "a Cloud on top of a Catalog has the Catalog's region"
        raise object_error("Cloud", cloud.metadata.name, ("spec", "region"), message, hint)
    if requested not in (None, region):
        kind = "Cloud" if cloud is not None else "Catalog"
        raise InvalidInputError(
            f"the region {requested} was asked for, but the {kind} is of {region}",
            f"leave the region out, or use another {kind}",
        )


def _guessed_price_warnings(region: str, cloud: Cloud | None) -> tuple[ObjectDiagnostic, ...]:
    price_factor = load_price_table().regions.get(region)
    if price_factor is None or price_factor.basis is not PriceFactorBasis.UNKNOWN:
        return ()
    message = (
        f"no price of {region} is known: those of us-east-1 times {price_factor.factor} are a guess"
    )
    hint = "state the prices that matter in a Cloud, under spec.prices"
    if cloud is None:
        return (object_warning("region", region, (), message, hint),)
    return (object_warning("Cloud", cloud.metadata.name, ("spec", "region"), message, hint),)
