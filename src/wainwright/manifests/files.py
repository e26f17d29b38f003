"""Which files are meant by the arguments, and their text; anything that is no text is refused."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from wainwright.manifests.problem import Problem

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
MAX_YAML: Final = 128 * 2**20  # about half a minute of reading
MAX_JSON: Final = 1024 * 2**20
STDIN: Final = "-"


class Source(msgspec.Struct, frozen=True):
    """A file's name, as the user gave it, and its text."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        return self.name.endswith(".json") or self.text.lstrip()[:1] in ("{", "[")


def sources(arguments: Iterable[str]) -> Iterator[Source | Problem]:
    """Every file that the arguments name, in order; what cannot be read is a problem."""
    for argument in arguments:
        if argument == STDIN:
            yield _decoded("standard input", sys.stdin.buffer.read())
        elif Path(argument).is_dir():
            yield from _folder(argument)
        else:
            yield _file(argument)


def _folder(name: str) -> Iterator[Source | Problem]:
    found = False
    for root, folders, files in os.walk(name):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for file in sorted(files):
            if Path(file).suffix in SUFFIXES and not file.startswith("."):
                found = True
                yield _file(str(Path(root, file)))
    if not found:
        yield Problem(
            file=name,
            message="no manifests in this folder",
            expected="files that end in .yaml, .yml or .json",
        )


def _file(name: str) -> Source | Problem:
    try:
        status = Path(name).stat()
        if not stat.S_ISREG(status.st_mode):
            return Problem(file=name, message="not an ordinary file", expected="a file or folder")
        if status.st_size > (MAX_JSON if name.endswith(".json") else MAX_YAML):
            return _too_large(name, status.st_size)
        return _decoded(name, Path(name).read_bytes())
    except OSError as error:
        return Problem(file=name, message=f"cannot be read: {error.strerror or error}")


def _too_large(name: str, size: int) -> Problem:
    return Problem(
        file=name,
        message=f"too large to read: {size / 2**20:,.0f} MiB",
        expected=f"at most {MAX_YAML >> 20} MiB of YAML or {MAX_JSON >> 20} MiB of JSON",
        hint="split the file, or save it as JSON",
    )


def _decoded(name: str, data: bytes) -> Source | Problem:
    if b"\0" in data[:65536] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Problem(file=name, message="a binary file", expected="YAML or JSON text")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Problem(file=name, line=line, message="not UTF-8 text", expected="UTF-8")
    if not text.strip():
        return Problem(file=name, line=1, message="the file is empty", expected="a manifest")
    return Source(name, text)
