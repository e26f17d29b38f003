"""`wain catalog`: what can be bought, where, at what price, and how much of it pods get."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.catalogue.catalog_document import format_catalog
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.queries import (
    SortOrder,
    TypeFilter,
    cheapest_offering,
    list_instance_types,
    nominal_cpu,
    nominal_memory,
)
from wainwright.cli.catalog_input import CatalogArguments, CatalogInput, catalog_options
from wainwright.cli.options import file_arguments
from wainwright.cli.printing import pluralize, print_table
from wainwright.errors import UsageError
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import ARCH, ON_DEMAND, RESERVED, SPOT, ZONE_ID
from wainwright.model.requirements import Requirements
from wainwright.model.resources import CPU, MEMORY, PODS, format_quantity

OUTPUTS: Final = click.Choice(["table", "json", "csv"])
CAPACITY_TYPES: Final = click.Choice([ON_DEMAND, SPOT, RESERVED])
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
    click.option("--instance-type", "types", multiple=True, metavar="GLOB", help="As 'm7*'."),
    click.option("--zone", "zones", multiple=True, metavar="NAME", help="Only in this zone."),
    click.option("--capacity-type", "bought", multiple=True, type=CAPACITY_TYPES, help="How."),
    click.option("--arch", "architectures", multiple=True, metavar="NAME", help="amd64, arm64."),
    click.option("--min-cpu", metavar="CPU", help="At least so many vCPUs."),
    click.option("--min-memory", metavar="SIZE", help="At least so much memory, as 16Gi."),
    click.option(
        "--sort",
        type=click.Choice([order.value for order in SortOrder]),
        default=SortOrder.NAME.value,
        help="By what the list is sorted.",
    ),
    click.option("--offerings", is_flag=True, help="A line for each offering in the table."),
)


class CatalogFilters(CatalogArguments, frozen=True, kw_only=True):
    """What the list is narrowed to, and how it is printed."""

    types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    bought: tuple[str, ...] = ()
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

    Without files: us-east-1 with a default class. VCPU and MEMORY are those of the machine as it
    is sold; POD CPU and POD MEMORY are what is left of it for pods. Prices are USD per hour. The
    JSON is a Catalog, which can be given back as input.
    """
    asked = CatalogFilters(**flags)
    wanted = _listing_query(asked)
    supplies = CatalogInput(asked)
    built = supplies.built()
    if supplies.pool is not None:
        wanted = msgspec.structs.replace(wanted, requirements=pool_requirements(supplies.pool))
    found = list_instance_types(built.index, wanted, SortOrder(asked.sort))
    _print(asked, built, found)
    _footnotes(built, found)
    return 0


def _listing_query(asked: CatalogFilters) -> TypeFilter:
    return TypeFilter(
        instance_types=asked.types,
        zones=asked.zones,
        capacity_types=asked.bought,
        architectures=asked.architectures,
        cpu=_parse_nano("--min-cpu", asked.min_cpu) // 10**6,
        memory=_parse_nano("--min-memory", asked.min_memory) // 10**9,
    )


def _parse_nano(flag: str, text: str | None) -> int:
    try:
        return parse_quantity(text or "0").nano
    except InvalidQuantity as error:
        raise UsageError(f"{flag}: {text!r} is no quantity", "write it as 4 or 16Gi") from error


def pool_requirements(pool: NodePool) -> Requirements:
    template = pool.spec.template
    asked = Requirements.from_entries(
        (each.key, each.operator, tuple(each.values or ()), each.minValues)
        for each in template.spec.requirements
    )
    labels = (template.metadata.labels or {}) if template.metadata is not None else {}
    return asked.narrow(Requirements.from_labels(labels))


def _print(asked: CatalogFilters, built: NodeClassCatalog, found: list[InstanceType]) -> None:
    if asked.output == "json":
        click.echo(format_catalog(built.region, found), nl=False)
    elif asked.output == "csv":
        click.echo(_csv(built, found), nl=False)
    elif asked.offerings:
        rows = [
            _offering_row(kind, each) for kind in found for each in _sorted_offerings(asked, kind)
        ]
        print_table(OFFERING_HEADINGS, rows, numbers=2)
    else:
        print_table(TYPE_HEADINGS, [_type_row(kind) for kind in found], numbers=8)


def _sorted_offerings(asked: CatalogFilters, kind: InstanceType) -> Sequence[Offering]:
    if asked.sort != SortOrder.PRICE.value:
        return kind.offerings
    return sorted(kind.offerings, key=lambda each: each.price)


def _type_row(kind: InstanceType) -> list[str]:
    return [
        *_type_columns(kind),
        *(_cheapest_price(kind, each) for each in (ON_DEMAND, SPOT)),
        _reserved_count(kind),
    ]


def _type_columns(kind: InstanceType) -> list[str]:
    left = kind.allocatable
    return [
        kind.name,
        kind.requirements.single_value(ARCH) or "",
        format_quantity(CPU, nominal_cpu(kind)),
        format_quantity(MEMORY, nominal_memory(kind)),
        str(left.get(PODS, 0)),
        format_quantity(CPU, left.get(CPU, 0)),
        format_quantity(MEMORY, left.get(MEMORY, 0)),
    ]


def _cheapest_price(kind: InstanceType, capacity_type: str) -> str:
    best = cheapest_offering(kind.offerings, capacity_type)
    if best is None:
        return "-"
    return f"{best.price:.6g}" if best.available else "none left"


def _reserved_count(kind: InstanceType) -> str:
    counts = [each.available for each in kind.offerings if each.capacity_type == RESERVED]
    return f"{sum(counts)} free" if counts else "-"


def _offering_row(kind: InstanceType, offering: Offering) -> list[str]:
    return [
        kind.name,
        offering.capacity_type or "any",
        offering.zone or "any",
        offering.reservation_id or "-",
        _format_available(offering.available),
        f"{offering.price:.6g}",
    ]


def _format_available(count: int) -> str:
    return {UNLIMITED: "yes", 0: "none"}.get(count, str(count))


def _csv(built: NodeClassCatalog, found: list[InstanceType]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADINGS)
    for kind in found:
        for bought in _offering_columns(kind):
            writer.writerow([*_type_columns(kind), *bought, built.fees.get(kind.name, 0)])
    return text.getvalue()


def _offering_columns(kind: InstanceType) -> Iterator[list[str | int | float | None]]:
    """A row for each offering, and one for a type that has none."""
    for each in kind.offerings:
        zone_id, reservation = each.requirements.single_value(ZONE_ID), each.reservation_id
        yield [each.capacity_type, each.zone, zone_id, reservation, each.available, each.price]
    if not kind.offerings:
        yield [None] * 6


def _footnotes(built: NodeClassCatalog, found: list[InstanceType]) -> None:
    unpriced = set(built.unpriced)
    names = [kind.name for kind in found if kind.name in unpriced]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        click.echo(
            f"{pluralize(len(names), 'type')} without a price cannot be bought: "
            f"{', '.join(names[:3])}{more}; a Cloud, NodeOverlay or InstanceType can give one",
            err=True,
        )
    if built.fees:
        click.echo(f"every node costs up to {built.fee:.6g} USD per hour in fees beside", err=True)
    if not found:
        click.echo("nothing in the catalogue is what was asked for", err=True)
