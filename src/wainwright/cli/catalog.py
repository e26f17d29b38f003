"""`wain catalog`: instance types, their offerings and prices, and what is allocatable to pods."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from wainwright.api.field_error import did_you_mean
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.catalogue.catalog_document import format_catalog
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.offerings.cloud_adjustments import matches_pattern
from wainwright.catalogue.queries import (
    SortOrder,
    TypeFilter,
    cheapest_offering,
    list_instance_types,
    nominal_cpu,
    nominal_memory,
)
from wainwright.cli import printing
from wainwright.cli.catalog_input import CatalogArguments, CatalogInput, catalog_options
from wainwright.cli.options import Choice, file_arguments
from wainwright.cli.printing import pluralize, print_table
from wainwright.errors import UsageError
from wainwright.messages.formatting import MODELLED_PRICES, escape_unprintable
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import ARCH, ON_DEMAND, RESERVED, SPOT, ZONE_ID
from wainwright.model.requirements import Requirements
from wainwright.model.resources import CPU, MEMORY, PODS, format_quantity
from wainwright.model.spelling import closest_spelling

OUTPUTS: Final = Choice(["table", "json", "csv"])
CAPACITY_TYPES: Final = Choice([ON_DEMAND, SPOT, RESERVED])
TYPE_HEADINGS: Final = (
    *("TYPE", "ARCH", "VCPU", "MEMORY", "PODS", "POD CPU", "POD MEMORY"),
    *("ON-DEMAND", "SPOT", "RESERVED"),
)
OFFERING_HEADINGS: Final = ("TYPE", "CAPACITY TYPE", "ZONE", "RESERVATION", "AVAILABLE", "PRICE")
CSV_HEADINGS: Final = (
    *("instanceType", "arch", "vcpu", "memory", "pods", "allocatableCPU", "allocatableMemory"),
    *("capacityType", "zone", "zoneID", "reservationID", "available", "pricePerHour"),
    "feesPerHour",
)
FILTER_OPTIONS: Final = (
    click.option(
        "--instance-type",
        "types",
        multiple=True,
        metavar="GLOB",
        help="Only types that match, such as 'm7*'.",
    ),
    click.option("--zone", "zones", multiple=True, metavar="NAME", help="Only in this zone."),
    click.option(
        "--capacity-type",
        "capacity_types",
        multiple=True,
        type=CAPACITY_TYPES,
        help="Only this capacity type.",
    ),
    click.option(
        "--arch",
        "architectures",
        multiple=True,
        metavar="NAME",
        help="Only this architecture: amd64 or arm64.",
    ),
    click.option("--min-cpu", metavar="CPU", help="At least this many vCPUs."),
    click.option("--min-memory", metavar="SIZE", help="At least this much memory, such as 16Gi."),
    click.option(
        "--sort",
        type=Choice([order.value for order in SortOrder]),
        default=SortOrder.NAME.value,
        help="The sort order.",
    ),
    click.option("--offerings", is_flag=True, help="A line for each offering in the table."),
)


class CatalogFilters(CatalogArguments, frozen=True, kw_only=True):
    """Filters, sort order and output format of the list."""

    types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    min_cpu: str | None = None
    min_memory: str | None = None
    sort: str = SortOrder.NAME.value
    offerings: bool = False
    output: str = "table"


def filter_options(command: Any) -> Any:
    for option in reversed(FILTER_OPTIONS):
        command = option(command)
    return command


@click.command()
@file_arguments
@catalog_options
@filter_options
@click.option("-o", "--output", type=OUTPUTS, default="table", help="How to print the list.")
def catalog(**flags: Any) -> int:
    """List instance types and their offerings.

    Without files: us-east-1 with a default class. VCPU and MEMORY are those of the
    instance type; POD CPU and POD MEMORY are what pods can use. Prices are USD per hour. The JSON
    is a Catalog, which can be given back as input. A price with ~ is an estimate.
    """
    filters = CatalogFilters(**flags)
    query = _listing_query(filters)
    catalog_input = CatalogInput(filters)
    class_catalog = catalog_input.build_catalog()
    if catalog_input.pool is not None:
        query = msgspec.structs.replace(query, requirements=pool_requirements(catalog_input.pool))
    instance_types = list_instance_types(class_catalog.index, query, SortOrder(filters.sort))
    _print(filters, class_catalog, instance_types)
    _footnotes(filters, class_catalog, instance_types)
    catalog_input.print_other_notes()
    return 0


def _listing_query(filters: CatalogFilters) -> TypeFilter:
    return TypeFilter(
        instance_types=filters.types,
        zones=filters.zones,
        capacity_types=filters.capacity_types,
        architectures=filters.architectures,
        cpu=_parse_nano("--min-cpu", filters.min_cpu) // 10**6,
        memory=_parse_nano("--min-memory", filters.min_memory) // 10**9,
    )


def _parse_nano(flag: str, text: str | None) -> int:
    try:
        return parse_quantity(text or "0").nano
    except InvalidQuantity as error:
        raise UsageError(f"{flag}: {text!r} is not a quantity", "write it as 4 or 16Gi") from error


def pool_requirements(pool: NodePool) -> Requirements:
    template = pool.spec.template
    requirements = Requirements.from_entries(
        (each.key, each.operator, tuple(each.values or ()), each.minValues)
        for each in template.spec.requirements
    )
    labels = (template.metadata.labels or {}) if template.metadata is not None else {}
    return requirements.narrow(Requirements.from_labels(labels))


def _print(
    filters: CatalogFilters, class_catalog: NodeClassCatalog, instance_types: list[InstanceType]
) -> None:
    if filters.output == "json":
        printing.echo_json_text(format_catalog(class_catalog.region, instance_types))
    elif filters.output == "csv":
        printing.echo_text(_csv(class_catalog, instance_types))
    elif filters.offerings:
        rows = [
            _offering_row(instance_type, each)
            for instance_type in instance_types
            for each in _sorted_offerings(filters, instance_type)
        ]
        print_table(OFFERING_HEADINGS, rows, numbers=2)
    else:
        print_table(
            TYPE_HEADINGS, [_type_row(instance_type) for instance_type in instance_types], numbers=8
        )


def _sorted_offerings(filters: CatalogFilters, instance_type: InstanceType) -> Sequence[Offering]:
    if filters.sort != SortOrder.PRICE.value:
        return instance_type.offerings
    return sorted(instance_type.offerings, key=lambda each: each.price)


def _type_row(instance_type: InstanceType) -> list[str]:
    return [
        *_type_columns(instance_type),
        *(_cheapest_price(instance_type, each) for each in (ON_DEMAND, SPOT)),
        _reserved_count(instance_type),
    ]


def _type_columns(instance_type: InstanceType) -> list[str]:
    allocatable = instance_type.allocatable
    return [
        instance_type.name,
        instance_type.requirements.single_value(ARCH) or "",
        format_quantity(CPU, nominal_cpu(instance_type)),
        format_quantity(MEMORY, nominal_memory(instance_type)),
        str(allocatable.get(PODS, 0)),
        format_quantity(CPU, allocatable.get(CPU, 0)),
        format_quantity(MEMORY, allocatable.get(MEMORY, 0)),
    ]


def _cheapest_price(instance_type: InstanceType, capacity_type: str) -> str:
    cheapest = cheapest_offering(instance_type.offerings, capacity_type)
    if cheapest is None:
        return "-"
    return _format_price(cheapest) if cheapest.available else "none left"


def _format_price(offering: Offering) -> str:
    """In USD per hour; an estimate is marked."""
    return f"{'~' if offering.modelled else ''}{offering.price:.6g}"


def _reserved_count(instance_type: InstanceType) -> str:
    counts = [each.available for each in instance_type.offerings if each.capacity_type == RESERVED]
    return f"{sum(counts)} free" if counts else "-"


def _offering_row(instance_type: InstanceType, offering: Offering) -> list[str]:
    return [
        instance_type.name,
        offering.capacity_type or "any",
        offering.zone or "any",
        offering.reservation_id or "-",
        _format_available(offering.available),
        _format_price(offering),
    ]


def _format_available(count: int) -> str:
    return {UNLIMITED: "yes", 0: "none"}.get(count, str(count))


def _csv(class_catalog: NodeClassCatalog, instance_types: list[InstanceType]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADINGS)
    for instance_type in instance_types:
        for offering_columns in _offering_columns(instance_type):
            fees = class_catalog.fees.get(instance_type.name, 0)
            cells = [*_type_columns(instance_type), *offering_columns, fees]
            writer.writerow(
                [escape_unprintable(cell) if isinstance(cell, str) else cell for cell in cells]
            )
    return text.getvalue()


def _offering_columns(instance_type: InstanceType) -> Iterator[list[str | int | float | None]]:
    """A row for each offering, and an empty one for a type without offerings."""
    for each in instance_type.offerings:
        zone_id, reservation = each.requirements.single_value(ZONE_ID), each.reservation_id
        yield [each.capacity_type, each.zone, zone_id, reservation, each.available, each.price]
    if not instance_type.offerings:
        yield [None] * 6


def _footnotes(
    filters: CatalogFilters, class_catalog: NodeClassCatalog, instance_types: list[InstanceType]
) -> None:
    offerings = (each for instance_type in instance_types for each in instance_type.offerings)
    if filters.output == "table" and any(each.modelled for each in offerings):
        printing.echo(MODELLED_PRICES, err=True)
    unpriced = set(class_catalog.unpriced)
    names = [
        instance_type.name for instance_type in instance_types if instance_type.name in unpriced
    ]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        printing.echo(
            f"{pluralize(len(names), 'type')} without a price are never launched: "
            f"{', '.join(names[:3])}{more}; a Cloud, NodeOverlay or InstanceType can give one",
            err=True,
        )
    if class_catalog.fees:
        printing.echo(
            f"every node costs up to {class_catalog.fee:.6g} USD per hour of fees on top", err=True
        )
    if not instance_types:
        printing.echo("nothing in the catalogue matches", err=True)
    for note in _unknown_names(filters, class_catalog):
        printing.echo(note, err=True)


def _unknown_names(filters: CatalogFilters, class_catalog: NodeClassCatalog) -> Iterator[str]:
    """A line for each name of a filter that the catalogue does not have."""
    names, zones = list(class_catalog.by_name), list(class_catalog.zones)
    architectures = {each.requirements.single_value(ARCH) or "" for each in class_catalog.types}
    for pattern in filters.types:
        if not any(matches_pattern(pattern, name) for name in names):
            families = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in names)
            hint = did_you_mean(pattern, [*names, *families])
            yield _unknown_name("instance type", pattern, class_catalog.region, hint)
    for zone in filters.zones:
        if zone not in zones:
            hint = did_you_mean(zone, zones) or f"one of {', '.join(zones)}"
            yield _unknown_name("zone", zone, class_catalog.region, hint)
    for name in filters.architectures:
        meant = closest_spelling(ARCH, name, tuple(sorted(architectures)))
        if meant is not None:
            yield _unknown_name("architecture", name, "EC2", f"did you mean {meant}?")


def _unknown_name(what: str, name: str, place: str, hint: str) -> str:
    return f"no {what} of {place} is called {name}" + (f"; {hint}" if hint else "")
