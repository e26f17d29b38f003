"""`wain`: the argument tree, exit codes, and how errors are printed."""

import importlib
import sys
from typing import Any, Final

import click

from wainwright import __version__
from wainwright.cli.streams import Unwritten, given_up, opened, writing
from wainwright.errors import WainError
from wainwright.manifests.refused import InputRefused

COMMANDS: Final = {
    "catalog": "instance types, offerings and prices",
    "emulator": "an EC2 on this machine for any AWS client, without an account",
    "explain": "why a pod is where it is, a number what it is, a price what it is",
    "convert": "old kinds into v1",
    "crds": "the CustomResourceDefinitions",
    "plan": "which nodes for which pods, at what price, and why not",
    "reservations": "capacity that is paid for: used, idle, and by whom it could be used",
    "validate": "would an API server accept these manifests?",
}


class Commands(click.Group):
    """Loads a command's module when it is called for: start-up should not pay for the others."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with writing():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with writing():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"wainwright.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wain")
def wain() -> None:
    """Which nodes do these pods lack, what would they cost, and why not."""


def main() -> None:
    """Run a command; what the user can mend is said in a sentence, without a traceback."""
    try:
        with writing():
            opened()
            code = _run()
            sys.stdout.flush()
    except Unwritten as unwritten:
        code = given_up(unwritten)
    sys.exit(code)


def _run() -> int:
    try:
        code = wain.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except WainError as error:
        _show(error)
        code = error.exit_code
    return code if isinstance(code, int) else 0


def _show(error: WainError) -> None:
    if isinstance(error, InputRefused):
        importlib.import_module("wainwright.cli.problems").show_report(error.report)
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"  hint: {error.hint}", err=True)
