"""What every command takes: files, folders, standard input; and a sign of life on long work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from wainwright.errors import Usage
from wainwright.manifests.load import Progress

Command = TypeVar("Command", bound=Callable[..., Any])


def inputs(command: Command) -> Command:
    """FILES… or -f FILE, as kubectl has it."""
    command = click.argument("files", nargs=-1, metavar="[FILE|FOLDER|-]...")(command)
    return click.option(
        "-f",
        "--filename",
        "more",
        multiple=True,
        metavar="FILE",
        help="A file, a folder, or - for standard input; may be repeated.",
    )(command)


def named(files: tuple[str, ...], more: tuple[str, ...]) -> list[str]:
    """Every file that was named, or an error that says how."""
    everything = [*files, *more]
    if not everything:
        raise Usage("no files were named", hint="name a file or a folder, or - for standard input")
    if everything.count("-") > 1:
        raise Usage("standard input can be read only once", hint="name - once")
    return everything


@contextmanager
def progress() -> Iterator[Progress]:
    """A line that says what is being read: only on a terminal, only if it takes a while."""
    if not sys.stderr.isatty():
        yield lambda _file, _count: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading…") as status:
        yield _reporter(status)


def _reporter(status: Any) -> Progress:
    def report(file: str, count: int) -> None:
        if count % 500 == 0:
            status.update(f"reading {file}: {count:,} objects")

    return report
