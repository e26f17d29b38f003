"""`wain explain`: the rule behind each number, and the layers of each price."""

from difflib import get_close_matches
from typing import Any, Final

import click

from wainwright.catalogue import builtin
from wainwright.catalogue.built import Built
from wainwright.catalogue.explain import labels, numbers, obstacle
from wainwright.catalogue.ledger import Account, accounts
from wainwright.catalogue.lots import Step
from wainwright.cli.explain_pod import explain_pod
from wainwright.cli.inputs import inputs
from wainwright.cli.supplies import Asked, Supplies, supplied
from wainwright.cli.tables import aligned, show_table
from wainwright.errors import Usage
from wainwright.model.instance_type import UNLIMITED
from wainwright.report import jsonout
from wainwright.report.grouped import some

OUTPUTS: Final = click.Choice(["text", "json"])
CLOSE: Final = 0.7  # names of types are short, and much the same


class About(Asked, frozen=True, kw_only=True):
    """What is to be explained, and how."""

    name: str
    output: str = "text"


@click.group()
def explain() -> None:
    """Say why: the rule, the reason, the layers."""


@explain.command("type")
@click.argument("name")
@inputs
@supplied
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_type(**flags: Any) -> int:
    """Say of each number of an instance type which rule gave it."""
    about = About(**flags)
    supplies, built = _built(about)
    found = numbers(built, about.name)
    if about.output == "json":
        _print_json(
            {
                **_head(supplies, built, about.name),
                "labels": labels(built, about.name),
                "numbers": found,
                "obstacle": obstacle(built, about.name) or None,
            }
        )
        return 0
    click.echo(f"{_title(supplies, built, about.name)}\n")
    show_table(
        ("RESOURCE", "PART", "AMOUNT", "WHY"),
        [(each.resource, each.part, each.amount, each.why) for each in found],
    )
    click.echo()
    show_table(("LABEL", "VALUES"), list(labels(built, about.name).items()))
    if reason := obstacle(built, about.name):
        click.echo(f"\n{reason}")
    return 0


@explain.command("price")
@click.argument("name", metavar="TYPE")
@inputs
@supplied
@click.option("-o", "--output", type=OUTPUTS, default="text", help="How to print it.")
def explain_price(**flags: Any) -> int:
    """Show the layers of an instance type's prices, one under the other."""
    about = About(**flags)
    supplies, built = _built(about)
    found = accounts(built, about.name)
    if about.output == "json":
        _print_json({**_head(supplies, built, about.name), "offerings": found})
        return 0
    click.echo(_title(supplies, built, about.name))
    for account in found:
        click.echo(f"\n{_heading(account)}")
        for line in aligned([_layer(step) for step in account.steps]):
            click.echo(f"  {line}")
    if reason := obstacle(built, about.name):
        click.echo(f"\n{reason}")
    if about.name in built.fees:
        click.echo(f"\nfees beside: {built.fees[about.name]:.6g} USD per hour")
    return 0


def _built(about: About) -> tuple[Supplies, Built]:
    supplies = Supplies(about)
    built = supplies.built()
    if about.name not in built.by_name:
        raise Usage(
            f"there is no instance type {about.name} in {built.region}",
            _hint(about.name, list(built.by_name)),
        )
    return supplies, built


def _hint(name: str, known: list[str]) -> str:
    """A type of another family is no misspelling, and one that the Cloud leaves out is none."""
    if name in builtin.machines():
        return f"it is sold elsewhere, or the Cloud leaves it out: there are {some(known)}"
    family = name.partition(".")[0]
    near = [each for each in known if each.partition(".")[0] == family] or known
    close = get_close_matches(name, near, n=1, cutoff=CLOSE)
    return f"did you mean {close[0]}?" if close else ""


def _head(supplies: Supplies, built: Built, name: str) -> dict[str, Any]:
    return {
        "instanceType": name,
        "region": built.region,
        "nodeClass": supplies.scope.node_class.metadata.name,
        "nodePool": supplies.scope.pool or None,
    }


def _title(supplies: Supplies, built: Built, name: str) -> str:
    pool = f", NodePool {supplies.scope.pool}" if supplies.scope.pool else ""
    node_class = supplies.scope.node_class.metadata.name
    return f"{name} in {built.region}, EC2NodeClass {node_class}{pool}"


def _heading(account: Account) -> str:
    bought = account.capacity_type or "any capacity type"
    where = ", ".join(account.zones) or "any zone"
    further = "".join(f", {key}={value}" for key, value in account.labels.items())
    through = f", {account.reservation_id}" if account.reservation_id else ""
    price = "no price" if account.price is None else f"{account.price:.6g} USD per hour"
    stock = {UNLIMITED: "", 0: ", none left"}.get(account.available, f", {account.available} free")
    return f"{bought}, {where}{further}{through}: {price}{stock}"


def _layer(step: Step) -> tuple[str, str, str]:
    after = "no price" if step.after is None else f"{step.after:.6g}"
    return f"{step.layer.value} {step.source}", after, step.how


def _print_json(value: dict[str, Any]) -> None:
    click.echo(jsonout.dump(value))


explain.add_command(explain_pod)
