"""`wain explain`: where a pod goes and why, the rule behind each number of a type, the layers of a
price.
"""

from difflib import get_close_matches
from typing import Any, Final

import click

from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.offerings.layered_offering import PriceStep
from wainwright.catalogue.queries import (
    PriceHistory,
    explain_labels,
    explain_resources,
    explain_unavailability,
    price_histories,
)
from wainwright.cli import printing
from wainwright.cli.catalog_input import CatalogArguments, CatalogInput, catalog_options
from wainwright.cli.options import PLAN_OPTIONS, add_options, file_arguments
from wainwright.cli.plan_run import PlanArguments, Timings, run_plan
from wainwright.cli.printing import align_columns, print_table
from wainwright.errors import UsageError
from wainwright.messages.formatting import join_first
from wainwright.model.instance_type import UNLIMITED
from wainwright.report.pod_explanation import explain_with_suggestions


@click.command("pod")
@click.argument("name")
@file_arguments
@add_options(PLAN_OPTIONS)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def explain_pod(name: str, output: str, **flags: Any) -> int:
    """Say where a pod goes and what decided; or the funnel of each pool, and the nearest miss.

    Exit code 0 when the pod has a place, 1 when it has none or none was looked for, 2 for bad
    input.
    """
    run = run_plan(PlanArguments(**flags), Timings(), quietly=True, advise=False)
    told = explain_with_suggestions(run.planned, name, now=run.now)
    click.echo(printing.dump_json(told) if output == "json" else "\n".join(told.lines))
    return 0 if told.placed else 1


OUTPUTS: Final = click.Choice(["text", "json"])
SIMILARITY_CUTOFF: Final = 0.7  # names of types are short, and much the same


class ExplainArguments(CatalogArguments, frozen=True, kw_only=True):
    """What is to be explained, and how."""

    name: str
    output: str = "text"


@click.group()
def explain() -> None:
    """Say why: the rule, the reason, the layers."""


@explain.command("type")
@click.argument("name")
@file_arguments
@catalog_options
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_type(**flags: Any) -> int:
    """Say of each number of an instance type which rule gave it."""
    about = ExplainArguments(**flags)
    supplies, built = _load_catalog(about)
    found = explain_resources(built, about.name)
    if about.output == "json":
        _print_json(
            {
                **_json_header(supplies, built, about.name),
                "labels": explain_labels(built, about.name),
                "numbers": found,
                "obstacle": explain_unavailability(built, about.name) or None,
            }
        )
        return 0
    click.echo(f"{_title(supplies, built, about.name)}\n")
    print_table(
        ("RESOURCE", "PART", "AMOUNT", "WHY"),
        [(each.resource, each.part, each.amount, each.why) for each in found],
    )
    click.echo()
    print_table(("LABEL", "VALUES"), list(explain_labels(built, about.name).items()))
    if reason := explain_unavailability(built, about.name):
        click.echo(f"\n{reason}")
    return 0


@explain.command("price")
@click.argument("name", metavar="TYPE")
@file_arguments
@catalog_options
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_price(**flags: Any) -> int:
    """Show the layers of an instance type's prices, one under the other."""
    about = ExplainArguments(**flags)
    supplies, built = _load_catalog(about)
    found = price_histories(built, about.name)
    if about.output == "json":
        _print_json({**_json_header(supplies, built, about.name), "offerings": found})
        return 0
    click.echo(_title(supplies, built, about.name))
    for account in found:
        click.echo(f"\n{_offering_heading(account)}")
        for line in align_columns([_layer_row(step) for step in account.steps]):
            click.echo(f"  {line}")
    if reason := explain_unavailability(built, about.name):
        click.echo(f"\n{reason}")
    if about.name in built.fees:
        click.echo(f"\nfees beside: {built.fees[about.name]:.6g} USD per hour")
    return 0


def _load_catalog(about: ExplainArguments) -> tuple[CatalogInput, NodeClassCatalog]:
    supplies = CatalogInput(about)
    built = supplies.built()
    if about.name not in built.by_name:
        raise UsageError(
            f"there is no instance type {about.name} in {built.region}",
            _hint(about.name, list(built.by_name)),
        )
    return supplies, built


def _hint(name: str, known: list[str]) -> str:
    """A type of another family is no misspelling, and one that the Cloud leaves out is none."""
    if name in instance_type_info.built_in_instance_types():
        return f"it is sold elsewhere, or the Cloud leaves it out: there are {join_first(known)}"
    family = name.partition(".")[0]
    near = [each for each in known if each.partition(".")[0] == family] or known
    close = get_close_matches(name, near, n=1, cutoff=SIMILARITY_CUTOFF)
    return f"did you mean {close[0]}?" if close else ""


def _json_header(supplies: CatalogInput, built: NodeClassCatalog, name: str) -> dict[str, Any]:
    return {
        "instanceType": name,
        "region": built.region,
        "nodeClass": supplies.scope.node_class.metadata.name,
        "nodePool": supplies.scope.pool or None,
    }


def _title(supplies: CatalogInput, built: NodeClassCatalog, name: str) -> str:
    pool = f", NodePool {supplies.scope.pool}" if supplies.scope.pool else ""
    node_class = supplies.scope.node_class.metadata.name
    return f"{name} in {built.region}, EC2NodeClass {node_class}{pool}"


def _offering_heading(account: PriceHistory) -> str:
    bought = account.capacity_type or "any capacity type"
    where = ", ".join(account.zones) or "any zone"
    further = "".join(f", {key}={value}" for key, value in account.labels.items())
    through = f", {account.reservation_id}" if account.reservation_id else ""
    price = "no price" if account.price is None else f"{account.price:.6g} USD per hour"
    stock = {UNLIMITED: "", 0: ", none left"}.get(account.available, f", {account.available} free")
    return f"{bought}, {where}{further}{through}: {price}{stock}"


def _layer_row(step: PriceStep) -> tuple[str, str, str]:
    after = "no price" if step.after is None else f"{step.after:.6g}"
    return f"{step.layer.value} {step.source}", after, step.how


def _print_json(value: dict[str, Any]) -> None:
    click.echo(printing.dump_json(value))


explain.add_command(explain_pod)
