"""`wain`: the command group, exit codes, errors, and failures of standard output.
A command's module is loaded when it is called. A closed pipe ends in exit code 141, as for SIGPIPE
in a shell, and never in 0 or 1, which are results of a plan; a full disk ends in 2, a mistake of
our own in 70.
"""

import codecs
import errno
import importlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

import click

from wainwright import __version__
from wainwright.api.field_error import closest_match
from wainwright.errors import WainError
from wainwright.manifests.problems import InvalidInput
from wainwright.messages.formatting import escape_unprintable

EXIT_CLOSED_PIPE: Final = 141
"""As a shell reports SIGPIPE. 0 and 1 are results of a plan, and the reader may not have received
all of it."""
EXIT_OUTPUT_FAILED: Final = 2
EXIT_UNEXPECTED: Final = 70
"""As sysexits.h has it for an internal error: nothing follows from it for the input."""
TRACEBACK_VARIABLE: Final = "WAIN_TRACEBACK"
MAX_ERROR_TEXT: Final = 200
OUTPUT_ERRNOS: Final = frozenset(
    {errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT}
)


class OutputFailed(Exception):
    """Output could not be written. Not an OSError, which click would turn into exit code 1."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def detect_output_failure() -> Iterator[None]:
    """Raises OutputFailed for an OSError of a stream: it has no file name and a writing errno."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_ERRNOS:
            raise
        raise OutputFailed(error) from error


def check_streams() -> None:
    """Handles streams that were closed before the start: Python sets them to None."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise OutputFailed(OSError(errno.EBADF, "it is closed"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=UNENCODABLE)


UNENCODABLE: Final = "wainwright.unencodable"


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    r"""Writes characters that the output's encoding lacks as \u2192, which JSON reads back."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(f"\\u{unit:04x}" for unit in pairs), error.end


codecs.register_error(UNENCODABLE, _escape_unencodable)


def handle_output_failure(failure: OutputFailed) -> int:
    """The exit code; a closed pipe is silent, any other failure is printed once."""
    for stream in (sys.stdout, sys.stderr):
        _redirect_to_devnull(stream)
    if failure.error.errno == errno.EPIPE:
        return EXIT_CLOSED_PIPE
    with suppress(OSError):
        reason = failure.error.strerror
        click.echo(f"error: standard output cannot be written: {reason}", err=True)
    return EXIT_OUTPUT_FAILED


def _redirect_to_devnull(stream: TextIO | None) -> None:
    """Keeps the rest of the buffer from failing once more when Python exits."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


COMMAND_GROUPS: Final = {
    "Decide": (
        "plan",
        "consolidate",
        "explain",
        "reservations",
        "top",
        "catalog",
        "simulate",
        "serve",
    ),
    "Manifests": ("validate", "convert", "crds", "snapshot"),
    "Run": ("run", "emulator", "completion"),
}
"""By job, in the order in which a newcomer needs them."""

COMMANDS: Final = {
    "completion": "a script that completes commands and options in bash, zsh or fish",
    "catalog": "instance types, offerings and prices",
    "consolidate": "which nodes can be removed or replaced, what that saves, what blocks others",
    "emulator": "an emulated EC2 for any AWS client, without an account",
    "explain": "why a pod is scheduled where it is, why a node is kept, how a price is computed",
    "convert": "convert Provisioner, AWSNodeTemplate and v1beta1 kinds into v1",
    "crds": "the CustomResourceDefinitions",
    "plan": "which nodes for which pods, at what price, and why not",
    "reservations": "capacity reservations: in use, idle, and which pods could use them",
    "run": "the controllers: launch and remove nodes of a cluster as its pods need them",
    "serve": "a page that plays a scenario and accepts events, or watches a cluster",
    "simulate": "run the controllers on virtual time: pods, nodes and cost of a scenario",
    "snapshot": "a running cluster as one file for the other commands",
    "top": "nodes in the terminal: utilization, cost, verdicts, and why pods are pending",
    "validate": "check manifests as an API server would",
}


UNDONE: Final = {
    "catalog": "shown",
    "consolidate": "consolidated",
    "convert": "converted",
    "emulator": "started",
    "explain": "explained",
    "plan": "planned",
    "reservations": "shown",
    "run": "started",
    "serve": "served",
    "simulate": "simulated",
    "snapshot": "written",
    "top": "shown",
    "validate": "checked",
}
"""What a command does not do with an input that has errors: 2 errors; nothing simulated."""


class LazyCommandGroup(click.Group):
    """Loads a command's module when it is called, which saves importing all others at start-up."""

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
            try:
                return super().invoke(ctx)
            except InvalidInput as error:
                raise error.of_command(UNDONE[ctx.invoked_subcommand or ""]) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"wainwright.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for job, names in COMMAND_GROUPS.items():
            with formatter.section(job):
                formatter.write_dl([(name, COMMANDS[name]) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            name = closest_match(args[0], sorted(COMMANDS))
            hint = f" Did you mean {name}?" if name else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None


@click.group(cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wain")
def wain() -> None:
    """Plan, explain and run nodes for Kubernetes pods: which, at what price, and why not."""


def main() -> None:
    """Run a command; errors that the user can fix are printed without a traceback."""
    try:
        with detect_output_failure():
            check_streams()
            code = _run()
            sys.stdout.flush()
    except OutputFailed as failure:
        code = handle_output_failure(failure)
    sys.exit(code)


def _run() -> int:
    try:
        code = wain.main(standalone_mode=False)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        for line in shown.getvalue().rstrip("\n").split("\n"):
            click.echo(escape_unprintable(line), err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except WainError as error:
        _print_error(error)
        code = error.exit_code
    except OutputFailed:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, a traceback is no message
        print_unexpected(error)
        code = EXIT_UNEXPECTED
    return code if isinstance(code, int) else 0


def _print_error(error: WainError) -> None:
    if isinstance(error, InvalidInput):
        importlib.import_module("wainwright.cli.printing").show_report(error.report)
    click.echo(f"error: {escape_unprintable(error.message)}", err=True)
    if error.hint:
        click.echo(f"  hint: {escape_unprintable(error.hint)}", err=True)


def _first_cause(error: BaseException) -> BaseException:
    """Tasks that run side by side fail as a group, whose own text says nothing."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def print_unexpected(error: Exception) -> None:
    """One sentence and what to do with it; the traceback only for whoever asks for it."""
    if os.environ.get(TRACEBACK_VARIABLE, "0") != "0":
        traceback.print_exception(error)
    cause = _first_cause(error)
    text = escape_unprintable(f"{type(cause).__name__}: {cause}".removesuffix(": "))
    if len(text) > MAX_ERROR_TEXT:
        text = f"{text[:MAX_ERROR_TEXT]}…"
    click.echo(f"error: a bug in wain, triggered by this input: {text}", err=True)
    click.echo(
        "  hint: report it with the input (--save-input FILE writes what plan and consolidate "
        f"decide on) and with what {TRACEBACK_VARIABLE}=1 shows",
        err=True,
    )
