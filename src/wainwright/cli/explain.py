"""`wain explain`: a pod's placement, why a node stays or goes, the rules behind an instance type's
numbers, the layers of a price.
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
from wainwright.cli.catalog_input import (
    CatalogArguments,
    CatalogInput,
    catalog_options,
    inferred_region_notes,
)
from wainwright.cli.consolidate import (
    TIMED_STEPS,
    DisruptionArguments,
    consolidation_input,
    decide,
    disruption_options,
)
from wainwright.cli.options import (
    PLAN_OPTIONS,
    Choice,
    add_options,
    cluster_options,
    file_arguments,
)
from wainwright.cli.plan import PlanArguments, Timings, run_plan
from wainwright.cli.printing import align_columns, print_problems, print_table
from wainwright.errors import UsageError
from wainwright.messages.formatting import MODELLED_PRICES, join_first
from wainwright.messages.input_remarks import remarks_on_pod
from wainwright.model.instance_type import UNLIMITED
from wainwright.report import node_explanation
from wainwright.report.pod_explanation import explain_with_suggestions

OUTPUTS: Final = Choice(["text", "json"])


@click.command("pod")
@click.argument("name")
@file_arguments
@cluster_options
@add_options(PLAN_OPTIONS)
@click.option(
    "--all", "every", is_flag=True, help="Of an unschedulable pod, the funnel of every NodePool."
)
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_pod(name: str, output: str, every: bool, **flags: Any) -> int:
    """Show where a pod is scheduled and why; or why it is unschedulable, and the fix.

    Exit code 0 when the pod is scheduled, 1 when it is unschedulable or is not planned, 2 for bad
    input.
    """
    run = run_plan(
        PlanArguments(**flags), Timings(), with_diagnostics=False, with_suggestions=False
    )
    explanation = explain_with_suggestions(run.planned, name, now=run.now, every=every)
    printing.print_notes(remarks_on_pod(run.planned.prepared.remarks, explanation.pod))
    if output == "json":
        printing.echo_json(explanation)
    else:
        printing.echo_lines(explanation.lines)
    region = run.planned.prepared.region
    print_problems(inferred_region_notes(region, quiet=bool(flags["quiet"])), word="note")
    return 0 if explanation.placed else 1


@click.command("node")
@click.argument("name")
@file_arguments
@cluster_options
@disruption_options
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_node(name: str, output: str, **flags: Any) -> int:
    """Show whether a node can be removed, where its pods would move, and what blocks it.

    NAME is that of the node or of its NodeClaim. Exit code 0 when the node can be removed or
    replaced, 1 when it is kept, 2 for bad input.
    """
    arguments, timings = DisruptionArguments(**flags), Timings(TIMED_STEPS)
    given = consolidation_input(arguments, timings)
    explanation = node_explanation.explain_node(given, decide(given, timings), name)
    if output == "json":
        printing.echo_json(explanation)
    else:
        printing.echo_lines(explanation["lines"])
    return 0 if explanation["removable"] else 1


SIMILARITY_CUTOFF: Final = 0.7  # names of types are short and similar


class ExplainArguments(CatalogArguments, frozen=True, kw_only=True):
    """The name to explain and the output format."""

    name: str
    output: str = "text"


@click.group()
def explain() -> None:
    """Explain a pod, a node, an instance type or a price."""


@explain.command("type")
@click.argument("name")
@file_arguments
@catalog_options
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_type(**flags: Any) -> int:
    """Show the rule behind each number of an instance type."""
    arguments = ExplainArguments(**flags)
    catalog_input, catalog = _load_catalog(arguments)
    resources = explain_resources(catalog, arguments.name)
    if arguments.output == "json":
        printing.echo_json(
            {
                **_json_header(catalog_input, catalog, arguments.name),
                "labels": explain_labels(catalog, arguments.name),
                "numbers": resources,
                "obstacle": explain_unavailability(catalog, arguments.name) or None,
            }
        )
        catalog_input.print_other_notes()
        return 0
    printing.echo_lines([_title(catalog_input, catalog, arguments.name), ""])
    print_table(
        ("RESOURCE", "PART", "AMOUNT", "WHY"),
        [(each.resource, each.part, each.amount, each.why) for each in resources],
    )
    printing.echo()
    print_table(("LABEL", "VALUES"), list(explain_labels(catalog, arguments.name).items()))
    if reason := explain_unavailability(catalog, arguments.name):
        printing.echo_lines(["", reason])
    catalog_input.print_other_notes()
    return 0


@explain.command("price")
@click.argument("name", metavar="TYPE")
@file_arguments
@catalog_options
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_price(**flags: Any) -> int:
    """Show how the prices of an instance type are computed, layer by layer."""
    arguments = ExplainArguments(**flags)
    catalog_input, catalog = _load_catalog(arguments)
    histories = price_histories(catalog, arguments.name)
    if arguments.output == "json":
        printing.echo_json(
            {**_json_header(catalog_input, catalog, arguments.name), "offerings": histories}
        )
        catalog_input.print_other_notes()
        return 0
    printing.echo(_title(catalog_input, catalog, arguments.name))
    for history in histories:
        printing.echo_lines(["", _offering_heading(history)])
        for line in align_columns([_layer_row(step) for step in history.steps]):
            printing.echo(f"  {line}")
    if reason := explain_unavailability(catalog, arguments.name):
        printing.echo_lines(["", reason])
    if any(history.modelled for history in histories):
        printing.echo_lines(["", MODELLED_PRICES])
    if arguments.name in catalog.fees:
        printing.echo_lines(["", f"fees on top: {catalog.fees[arguments.name]:.6g} USD per hour"])
    catalog_input.print_other_notes()
    return 0


def _load_catalog(arguments: ExplainArguments) -> tuple[CatalogInput, NodeClassCatalog]:
    catalog_input = CatalogInput(arguments)
    catalog = catalog_input.build_catalog()
    if arguments.name not in catalog.by_name:
        raise UsageError(
            f"there is no instance type {arguments.name} in {catalog.region}",
            _hint(arguments.name, list(catalog.by_name)),
        )
    return catalog_input, catalog


def _hint(name: str, known: list[str]) -> str:
    """Suggests types of the same family; a known type that the input excludes is no misspelling."""
    if name in instance_type_info.built_in_instance_types():
        sold = join_first(known)
        return f"it is sold elsewhere, or the Cloud leaves it out; the catalogue has {sold}"
    family = name.partition(".")[0]
    near = [each for each in known if each.partition(".")[0] == family] or known
    close = get_close_matches(name, near, n=1, cutoff=SIMILARITY_CUTOFF)
    return f"did you mean {close[0]}?" if close else ""


def _json_header(
    catalog_input: CatalogInput, catalog: NodeClassCatalog, name: str
) -> dict[str, Any]:
    return {
        "instanceType": name,
        "region": catalog.region,
        "nodeClass": catalog_input.scope.node_class.metadata.name,
        "nodePool": catalog_input.scope.pool or None,
    }


def _title(catalog_input: CatalogInput, catalog: NodeClassCatalog, name: str) -> str:
    pool = f", NodePool {catalog_input.scope.pool}" if catalog_input.scope.pool else ""
    node_class = catalog_input.scope.node_class.metadata.name
    return f"{name} in {catalog.region}, EC2NodeClass {node_class}{pool}"


def _offering_heading(history: PriceHistory) -> str:
    capacity_type = history.capacity_type or "any capacity type"
    zones = ", ".join(history.zones) or "any zone"
    labels = "".join(f", {key}={value}" for key, value in history.labels.items())
    reservation = f", {history.reservation_id}" if history.reservation_id else ""
    mark = "~" if history.modelled else ""
    price = "no price" if history.price is None else f"{mark}{history.price:.6g} USD per hour"
    availability = {UNLIMITED: "", 0: ", none left"}.get(
        history.available, f", {history.available} free"
    )
    return f"{capacity_type}, {zones}{labels}{reservation}: {price}{availability}"


def _layer_row(step: PriceStep) -> tuple[str, str, str]:
    after = "no price" if step.after is None else f"{step.after:.6g}"
    return f"{step.layer.value} {step.source}", after, step.how


explain.add_command(explain_pod)
explain.add_command(explain_node)
