"""Streams: what becomes of a command when nobody can take its output."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

import click

CLOSED_PIPE: Final = 141
"""As a shell tells of a program that SIGPIPE ended. 0 and 1 would speak of pods, and nobody knows
whether the reader saw all that there was to say of these."""
UNWRITTEN: Final = 2
WRITING: Final = frozenset(
    {errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT}
)


class Unwritten(Exception):
    """Output could not be written. No OSError, of which click would make exit code 1."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def writing() -> Iterator[None]:
    """Tells failures of the streams from all others: those name a file, or no way of writing."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in WRITING:
            raise
        raise Unwritten(error) from error


def opened() -> None:
    """Python has None for a stream that was closed before it began, which few expect."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise Unwritten(OSError(errno.EBADF, "it is closed"))


def given_up(unwritten: Unwritten) -> int:
    """The exit code; a reader who has had enough need not be told, anything else is said once."""
    for stream in (sys.stdout, sys.stderr):
        _pointed_nowhere(stream)
    if unwritten.error.errno == errno.EPIPE:
        return CLOSED_PIPE
    with suppress(OSError):
        why = unwritten.error.strerror
        click.echo(f"error: standard output cannot be written: {why}", err=True)
    return UNWRITTEN


def _pointed_nowhere(stream: TextIO | None) -> None:
    """What is left in its buffer must not fail once more when Python ends."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
