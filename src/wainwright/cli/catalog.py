"""`wain catalog`: what can be bought, where, at what price, and how much of it pods get."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from wainwright.api.nodepool import NodePool
from wainwright.api.quantity import NotAQuantity, parse
from wainwright.catalogue.built import Built
from wainwright.catalogue.document import document
from wainwright.catalogue.listing import Order, Wanted, cheapest, cpu, listing, memory
from wainwright.cli.inputs import inputs
from wainwright.cli.problems import counted
from wainwright.cli.supplies import Asked, Supplies, supplied
from wainwright.cli.tables import show_table
from wainwright.errors import Usage
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import ARCH, ON_DEMAND, RESERVED, SPOT, ZONE_ID
from wainwright.model.requirements import Requirements
from wainwright.model.resources import CPU, MEMORY, PODS, quantity_text

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
FILTERS: Final = (
    click.option("--instance-type", "types", multiple=True, metavar="GLOB", help="As 'm7*'."),
    click.option("--zone", "zones", multiple=True, metavar="NAME", help="Only in this zone."),
    click.option("--capacity-type", "bought", multiple=True, type=CAPACITY_TYPES, help="How."),
    click.option("--arch", "architectures", multiple=True, metavar="NAME", help="amd64, arm64."),
    click.option("--min-cpu", metavar="CPU", help="At least so many vCPUs."),
    click.option("--min-memory", metavar="SIZE", help="At least so much memory, as 16Gi."),
    click.option(
        "--sort",
        type=click.Choice([order.value for order in Order]),
        default=Order.NAME.value,
        help="By what the list is sorted.",
    ),
    click.option("--offerings", is_flag=True, help="A line for each offering in the table."),
)


class Filters(Asked, frozen=True, kw_only=True):
    """What the list is narrowed to, and how it is printed."""

    types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    bought: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    min_cpu: str | None = None
    min_memory: str | None = None
    sort: str = Order.NAME.value
    offerings: bool = False
    output: str = "table"


def filters(command: Any) -> Any:
    for option in reversed(FILTERS):
        command = option(command)
    return command


@click.command()
@inputs
@supplied
@filters
@click.option("-o", "--output", type=OUTPUTS, default="table", help="How to print the list.")
def catalog(**flags: Any) -> int:
    """List instance types and their offerings.

    Without files: us-east-1 with a default class. VCPU and MEMORY are those of the machine as it
    is sold; POD CPU and POD MEMORY are what is left of it for pods. Prices are USD per hour. The
    JSON is a Catalog, which can be given back as input.
    """
    asked = Filters(**flags)
    wanted = _wanted(asked)
    supplies = Supplies(asked)
    built = supplies.built()
    if supplies.pool is not None:
        wanted = msgspec.structs.replace(wanted, requirements=required(supplies.pool))
    found = listing(built.index, wanted, Order(asked.sort))
    _print(asked, built, found)
    _footnotes(built, found)
    return 0


def _wanted(asked: Filters) -> Wanted:
    return Wanted(
        instance_types=asked.types,
        zones=asked.zones,
        capacity_types=asked.bought,
        architectures=asked.architectures,
        cpu=_nano("--min-cpu", asked.min_cpu) // 10**6,
        memory=_nano("--min-memory", asked.min_memory) // 10**9,
    )


def _nano(flag: str, text: str | None) -> int:
    try:
        return parse(text or "0").nano
    except NotAQuantity as error:
        raise Usage(f"{flag}: {text!r} is no quantity", "write it as 4 or 16Gi") from error


def required(pool: NodePool) -> Requirements:
    template = pool.spec.template
    asked = Requirements.from_entries(
        (each.key, each.operator, tuple(each.values or ()), each.minValues)
        for each in template.spec.requirements
    )
    labels = (template.metadata.labels or {}) if template.metadata is not None else {}
    return asked.narrow(Requirements.from_labels(labels))


def _print(asked: Filters, built: Built, found: list[InstanceType]) -> None:
    if asked.output == "json":
        click.echo(document(built.region, found), nl=False)
    elif asked.output == "csv":
        click.echo(_csv(built, found), nl=False)
    elif asked.offerings:
        rows = [_offering_row(kind, each) for kind in found for each in _sorted(asked, kind)]
        show_table(OFFERING_HEADINGS, rows, numbers=2)
    else:
        show_table(TYPE_HEADINGS, [_type_row(kind) for kind in found], numbers=8)


def _sorted(asked: Filters, kind: InstanceType) -> Sequence[Offering]:
    if asked.sort != Order.PRICE.value:
        return kind.offerings
    return sorted(kind.offerings, key=lambda each: each.price)


def _type_row(kind: InstanceType) -> list[str]:
    return [*_size(kind), *(_price(kind, each) for each in (ON_DEMAND, SPOT)), _reserved(kind)]


def _size(kind: InstanceType) -> list[str]:
    left = kind.allocatable
    return [
        kind.name,
        kind.requirements.only(ARCH) or "",
        quantity_text(CPU, cpu(kind)),
        quantity_text(MEMORY, memory(kind)),
        str(left.get(PODS, 0)),
        quantity_text(CPU, left.get(CPU, 0)),
        quantity_text(MEMORY, left.get(MEMORY, 0)),
    ]


def _price(kind: InstanceType, capacity_type: str) -> str:
    best = cheapest(kind.offerings, capacity_type)
    if best is None:
        return "-"
    return f"{best.price:.6g}" if best.available else "none left"


def _reserved(kind: InstanceType) -> str:
    counts = [each.available for each in kind.offerings if each.capacity_type == RESERVED]
    return f"{sum(counts)} free" if counts else "-"


def _offering_row(kind: InstanceType, offering: Offering) -> list[str]:
    return [
        kind.name,
        offering.capacity_type or "any",
        offering.zone or "any",
        offering.reservation_id or "-",
        _available(offering.available),
        f"{offering.price:.6g}",
    ]


def _available(count: int) -> str:
    return {UNLIMITED: "yes", 0: "none"}.get(count, str(count))


def _csv(built: Built, found: list[InstanceType]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADINGS)
    for kind in found:
        for bought in _bought(kind):
            writer.writerow([*_size(kind), *bought, built.fees.get(kind.name, 0)])
    return text.getvalue()


def _bought(kind: InstanceType) -> Iterator[list[str | int | float | None]]:
    """A row for each offering, and one for a type that has none."""
    for each in kind.offerings:
        zone_id, reservation = each.requirements.only(ZONE_ID), each.reservation_id
        yield [each.capacity_type, each.zone, zone_id, reservation, each.available, each.price]
    if not kind.offerings:
        yield [None] * 6


def _footnotes(built: Built, found: list[InstanceType]) -> None:
    unpriced = set(built.unpriced)
    names = [kind.name for kind in found if kind.name in unpriced]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        click.echo(
            f"{counted(len(names), 'type')} without a price cannot be bought: "
            f"{', '.join(names[:3])}{more}; a Cloud, NodeOverlay or InstanceType can give one",
            err=True,
        )
    if built.fees:
        click.echo(f"every node costs up to {built.fee:.6g} USD per hour in fees beside", err=True)
    if not found:
        click.echo("nothing in the catalogue is what was asked for", err=True)
