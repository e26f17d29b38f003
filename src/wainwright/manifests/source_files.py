"""Files to text: what is read of a name, and what is no text that could have manifests."""

import os
import stat
import sys
from enum import Enum
from pathlib import Path
from typing import Final, Self

import msgspec

from wainwright.manifests.problems import Problem

MAX_YAML: Final = 128 * 2**20  # takes about half a minute to read
MAX_JSON: Final = 1024 * 2**20
STDIN: Final = "-"


class FileKind(Enum):
    """What a file of a folder is."""

    MANIFEST = "manifest"
    NOT_A_MANIFEST = "no manifest"
    EMPTY = "without a document"
    TEMPLATE = "template"
    UNLISTED = "not listed by the kustomization beside it"
    KUSTOMIZATION_PART = "part of a kustomization"


class SourceFile(msgspec.Struct, frozen=True):
    """A file's name, as the user gave it, and its text."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        return self.name.endswith(".json") or self.text.lstrip()[:1] in ("{", "[")


class UnreadableFile(msgspec.Struct, frozen=True):
    """A file without text, why, and what it is where that is no mistake in a folder."""

    problem: Problem
    kind: FileKind | None = None


class NamedText(str):
    """An argument beside files that is none: its value is the name, and its text is here."""

    text: str

    def __new__(cls, name: str, text: str) -> Self:
        created = super().__new__(cls, name)
        created.text = text
        return created


def read_source(argument: str) -> SourceFile | UnreadableFile:
    """The file that the argument names, or standard input, or a text that came otherwise."""
    if isinstance(argument, NamedText):
        return SourceFile(argument, argument.text)
    if argument == STDIN:
        return _decode_source("standard input", sys.stdin.buffer.read())
    return read_file(argument)


def read_file(name: str) -> SourceFile | UnreadableFile:
    """A device has no end, and a pipe keeps whoever reads it waiting: neither is read."""
    try:
        status = Path(name).stat()
        if not stat.S_ISREG(status.st_mode):
            return unreadable(name, "not an ordinary file", "a file or folder")
        if status.st_size > (MAX_JSON if name.endswith(".json") else MAX_YAML):
            return UnreadableFile(_too_large(name, status.st_size))
        return _decode_source(name, Path(name).read_bytes())
    except (OSError, ValueError) as error:  # a ValueError: a name that no file can have
        is_link = os.path.islink(name)  # noqa: PTH114  # Path.is_symlink raises for a long name
        kind = FileKind.NOT_A_MANIFEST if is_link else None  # to nothing
        return unreadable(
            name, f"cannot be read: {getattr(error, 'strerror', '') or error}", "", kind
        )


def unreadable(
    name: str, message: str, expected: str, kind: FileKind | None = None, line: int | None = None
) -> UnreadableFile:
    return UnreadableFile(Problem(file=name, line=line, message=message, expected=expected), kind)


def _too_large(name: str, size: int) -> Problem:
    return Problem(
        file=name,
        message=f"too large to read: {size / 2**20:,.0f} MiB",
        expected=f"at most {MAX_YAML >> 20} MiB of YAML or {MAX_JSON >> 20} MiB of JSON",
        hint="split the file, or save it as JSON",
    )


def _decode_source(name: str, data: bytes) -> SourceFile | UnreadableFile:
    other = FileKind.NOT_A_MANIFEST
    if b"\0" in data[:65536] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return unreadable(name, "a binary file", "YAML or JSON text", other)
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return unreadable(name, "not UTF-8 text", "UTF-8", other, line)
    if not text.strip():
        return unreadable(name, "the file is empty", "a manifest", FileKind.EMPTY, 1)
    return SourceFile(name, text)
