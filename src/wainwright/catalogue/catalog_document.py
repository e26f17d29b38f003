"""The Catalog kind, read and written: instance types with capacity, overhead and prices.

The same catalogue always gives the same bytes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import Catalog, CatalogInstanceType, CatalogOffering
from wainwright.api.quantity import parse_quantity
from wainwright.catalogue.instancetypes.capacity import DerivedResources, declared_allocatable
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.node_class_settings import ResourceOverride
from wainwright.catalogue.instancetypes.overhead import Overhead
from wainwright.catalogue.offerings.layered_offering import LayeredOffering, sort_offerings
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import RESERVATION_ID
from wainwright.model.requirements import RequirementEntry, Requirements
from wainwright.model.resources import (
    Resources,
    capacity_from_nano,
    format_quantity,
    request_from_nano,
)


class CatalogTypeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type of a Catalog."""

    requirements: Requirements
    capacity: Mapping[str, int]
    overhead: Mapping[str, int]
    attach_limits: Mapping[str, int]
    offerings: tuple[LayeredOffering, ...]

    def derive_resources(self, override: ResourceOverride) -> DerivedResources:
        """The resources with those of an InstanceType object: capacity merged, overhead added."""
        return DerivedResources(
            capacity=_derived_amounts(self.capacity, DerivationRule.STATED)
            | _derived_amounts(override.resources, DerivationRule.DECLARED),
            overhead=Overhead(
                kube_reserved={},
                system_reserved={},
                eviction={},
                declared=_derived_amounts(override.overhead, DerivationRule.DECLARED_OVERHEAD),
                from_catalog=_derived_amounts(self.overhead, DerivationRule.STATED),
            ),
            declared_allocatable=declared_allocatable(override),
            attach_limits=_derived_amounts(self.attach_limits, DerivationRule.STATED),
        )


def parse_catalog(catalog: Catalog) -> dict[str, CatalogTypeEntry]:
    """Every type of the Catalog, in the order of names."""
    types = sorted(catalog.instanceTypes, key=lambda instance_type: instance_type.name)
    return {
        instance_type.name: CatalogTypeEntry(
            requirements=_parse_requirements(instance_type),
            capacity={
                name: capacity_from_nano(name, nano)
                for name, nano in _parse_nanos(instance_type.capacity)
            },
            overhead={
                name: request_from_nano(name, nano)
                for name, nano in _parse_nanos(instance_type.overhead or {})
            },
            attach_limits=instance_type.attachLimits or {},
            offerings=sort_offerings(map(_parse_offering, instance_type.offerings or ())),
        )
        for instance_type in types
    }


def _derived_amounts(amounts: Mapping[str, int], rule: DerivationRule) -> dict[str, DerivedAmount]:
    return {name: DerivedAmount(amount, rule) for name, amount in amounts.items()}


def _parse_nanos(quantities: Mapping[str, int | str]) -> list[tuple[str, int]]:
    return [(name, parse_quantity(str(amount)).nano) for name, amount in sorted(quantities.items())]


def _parse_requirements(instance_type: CatalogInstanceType) -> Requirements:
    return Requirements.from_entries(
        (each.key, each.operator, tuple(each.values or ()), None)
        for each in instance_type.requirements or ()
    )


def _parse_offering(offering: CatalogOffering) -> LayeredOffering:
    """An offering; its reservation may also be named by the label that its nodes get."""
    return LayeredOffering(
        requirements=Requirements.from_labels(offering.labels),
        price=offering.price,
        available=offering.available,
        reservation_id=offering.reservationID or offering.labels.get(RESERVATION_ID),
    )


CATALOG_HEADER: Final = '{\n  "apiVersion": "wainwright.dev/v1alpha1",\n  "kind": "Catalog",\n'


def format_catalog(region: str, types: Iterable[InstanceType]) -> str:
    """A Catalog with one line for each label, offering and set of resources, so that it diffs."""
    in_order = sorted(types, key=lambda instance_type: instance_type.name)
    lines = ",\n".join(map(_format_type, in_order))
    body = f"\n{lines}\n  " if lines else ""
    return f'{CATALOG_HEADER}  "region": {_format_line(region)},\n  "instanceTypes": [{body}]\n}}\n'


def _format_type(instance_type: InstanceType) -> str:
    capacity, overhead = instance_type.capacity, instance_type.overhead
    allocatable = {name: amount - overhead.get(name, 0) for name, amount in capacity.items()}
    requirements = map(_requirement_fields, instance_type.requirements.entries())
    fields = (
        f'"name": {_format_line(instance_type.name)}',
        f'"requirements": {_format_list(requirements)}',
        f'"capacity": {_format_line(_format_quantities(capacity))}',
        f'"overhead": {_format_line(_format_quantities(overhead))}',
        f'"allocatable": {_format_line(_format_quantities(allocatable))}',
        *_format_attach_limits(instance_type.attach_limits),
        f'"offerings": {_format_list(map(_offering_fields, instance_type.offerings))}',
    )
    return "    {\n      " + ",\n      ".join(fields) + "\n    }"


def _format_attach_limits(limits: Mapping[str, int]) -> list[str]:
    return [f'"attachLimits": {_format_line(dict(sorted(limits.items())))}'] if limits else []


def _requirement_fields(entry: RequirementEntry) -> dict[str, Any]:
    key, operator, values, _ = entry
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def _format_quantities(amounts: Resources) -> dict[str, str]:
    return {name: format_quantity(name, amounts[name]) for name in sorted(amounts)}


def _offering_fields(offering: Offering) -> dict[str, Any]:
    return {
        "labels": {key: offering.requirements.single_value(key) for key in offering.requirements},
        "price": offering.price,
        "available": offering.available,
        "reservationID": offering.reservation_id,
    }


def _format_list(items: Iterator[dict[str, Any]]) -> str:
    lines = ",\n        ".join(map(_format_line, items))
    return f"[\n        {lines}\n      ]" if lines else "[]"


def _format_line(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
