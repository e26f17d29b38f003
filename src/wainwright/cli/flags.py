"""Flags that several commands share, said once."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FLAGS: Final = {
    "cloud": click.option("--cloud", metavar="FILE", help="The Cloud, in place of the input's."),
    "catalog": click.option(
        "--catalog", metavar="FILE", help="The Catalog, in place of the input's."
    ),
    "region": click.option(
        "--region", metavar="NAME", help="Where no Cloud states one: us-west-2, …"
    ),
    "nodepool": click.option(
        "--nodepool", metavar="NAME", help="Only what this NodePool may launch."
    ),
    "nodeclass": click.option(
        "--nodeclass", metavar="NAME", help="The class, where the input has several."
    ),
    "now": click.option(
        "--now", metavar="TIME", help="As if it were this time: 2026-01-31T08:00:00Z."
    ),
    "gates": click.option(
        "--feature-gate",
        "gates",
        multiple=True,
        metavar="NAME=true|false",
        help="Switch a feature on or off; may be repeated.",
    ),
    "vm_memory_overhead_percent": click.option(
        "--vm-memory-overhead-percent",
        type=click.FloatRange(0, 100),
        default=7.5,
        show_default=True,
        help="What a virtual machine loses of its memory.",
    ),
    "reserved_enis": click.option(
        "--reserved-enis", type=click.IntRange(0), default=0, help="Interfaces kept from pods."
    ),
    "prefix_delegation": click.option(
        "--prefix-delegation", is_flag=True, help="Reckon with prefixes in place of addresses."
    ),
    "min_values_policy": click.option(
        "--min-values-policy",
        type=click.Choice(["Strict", "BestEffort"]),
        default="Strict",
        show_default=True,
        help="What happens where a pool cannot keep its minValues.",
    ),
    "preference_policy": click.option(
        "--preference-policy",
        type=click.Choice(["Respect", "Ignore"]),
        default="Respect",
        show_default=True,
        help="Whether preferences of pods count until they cannot be met, or not at all.",
    ),
    "packing": click.option(
        "--packing",
        type=click.Choice(["first-fit", "cost"]),
        default="first-fit",
        show_default=True,
        help="How pods are put together: as they come, or for the lowest price.",
    ),
    "scheduler_config": click.option(
        "--scheduler-config",
        metavar="FILE",
        help="Where the cluster's scheduler has default constraints: its configuration.",
    ),
    "strict_weights": click.option(
        "--strict-weights",
        is_flag=True,
        help="No pod joins a node while a pool of higher weight could open one for it.",
    ),
}
RULES: Final = ("vm_memory_overhead_percent", "reserved_enis", "prefix_delegation")
SUPPLY: Final = ("cloud", "catalog", "region", "now", "gates", *RULES)
LOOKING: Final = (*SUPPLY, "nodepool", "nodeclass")
"""What commands take that look at the catalogue of one class."""
PLANNING: Final = (
    *SUPPLY,
    "scheduler_config",
    "min_values_policy",
    "preference_policy",
    "packing",
    "strict_weights",
)
"""What commands take that plan."""


def with_flags(names: tuple[str, ...]) -> Callable[[Command], Command]:
    """Give a command the flags of these names, in this order."""

    def give(command: Command) -> Command:
        for name in reversed(names):
            command = FLAGS[name](command)
        return command

    return give
