"""`wain`: the argument tree, exit codes, and how errors are printed."""

import sys

import click

from wainwright import __version__
from wainwright.cli.convert import convert
from wainwright.cli.crds import crds
from wainwright.cli.validate import validate
from wainwright.errors import WainError

CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="wain")
def wain() -> None:
    """Which nodes do these pods lack, what would they cost, and why not."""


for command in (validate, convert, crds):
    wain.add_command(command)


def main() -> None:
    """Run a command; what the user can mend is said in a sentence, without a traceback."""
    try:
        code = wain.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except WainError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"  hint: {error.hint}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader has had enough; Python would complain at exit
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
