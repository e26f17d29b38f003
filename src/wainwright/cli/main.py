"""`wain`: the group of commands, exit codes, errors, and output that nobody can take.

A command's module is loaded when it is called. A closed pipe ends in exit code 141, as a shell
tells of SIGPIPE, and never in 0 or 1, which speak of pods; a full disk ends in 2.
"""

import errno
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

import click

from wainwright import __version__
from wainwright.errors import WainError
from wainwright.manifests.problems import InvalidInput

EXIT_CLOSED_PIPE: Final = 141
"""As a shell tells of a program that SIGPIPE ended. 0 and 1 would speak of pods, and nobody knows
whether the reader saw all that there was to say of these."""
EXIT_OUTPUT_FAILED: Final = 2
OUTPUT_ERRNOS: Final = frozenset(
    {errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT}
)


class OutputFailed(Exception):
    """Output could not be written. No OSError, of which click would make exit code 1."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def detect_output_failure() -> Iterator[None]:
    """Tells failures of the streams from all others: those name a file, or no way of writing."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_ERRNOS:
            raise
        raise OutputFailed(error) from error


def check_streams() -> None:
    """Python has None for a stream that was closed before it began, which few expect."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise OutputFailed(OSError(errno.EBADF, "it is closed"))


def handle_output_failure(unwritten: OutputFailed) -> int:
    """The exit code; a reader who has had enough need not be told, anything else is said once."""
    for stream in (sys.stdout, sys.stderr):
        _redirect_to_devnull(stream)
    if unwritten.error.errno == errno.EPIPE:
        return EXIT_CLOSED_PIPE
    with suppress(OSError):
        why = unwritten.error.strerror
        click.echo(f"error: standard output cannot be written: {why}", err=True)
    return EXIT_OUTPUT_FAILED


def _redirect_to_devnull(stream: TextIO | None) -> None:
    """What is left in its buffer must not fail once more when Python ends."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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


class LazyCommandGroup(click.Group):
    """Loads a command's module when it is called for: start-up should not pay for the others."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with detect_output_failure():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with detect_output_failure():
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


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wain")
def wain() -> None:
    """Which nodes do these pods lack, what would they cost, and why not."""


def main() -> None:
    """Run a command; what the user can mend is said in a sentence, without a traceback."""
    try:
        with detect_output_failure():
            check_streams()
            code = _run()
            sys.stdout.flush()
    except OutputFailed as unwritten:
        code = handle_output_failure(unwritten)
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
        _print_error(error)
        code = error.exit_code
    return code if isinstance(code, int) else 0


def _print_error(error: WainError) -> None:
    if isinstance(error, InvalidInput):
        importlib.import_module("wainwright.cli.printing").show_report(error.report)
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"  hint: {error.hint}", err=True)
