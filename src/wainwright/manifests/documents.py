"""Files to documents: finds the files, reads them, and gives every object its file and line."""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError, FieldPath, format_field_path
from wainwright.gc_pause import gc_paused
from wainwright.manifests import json_reader, yaml_reader
from wainwright.manifests.problems import Problem
from wainwright.manifests.yaml_reader import LineMap, ParsedDocument, UnreadableDocument, line_at

MANIFEST_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
MAX_YAML: Final = 128 * 2**20  # takes about half a minute to read
MAX_JSON: Final = 1024 * 2**20
STDIN: Final = "-"


class SourceFile(msgspec.Struct, frozen=True):
    """A file's name, as the user gave it, and its text."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        return self.name.endswith(".json") or self.text.lstrip()[:1] in ("{", "[")


def read_sources(arguments: Iterable[str]) -> Iterator[SourceFile | Problem]:
    """Every file that the arguments name, in order; what cannot be read is a problem."""
    for argument in arguments:
        if argument == STDIN:
            yield _decode_source("standard input", sys.stdin.buffer.read())
        elif Path(argument).is_dir():
            yield from _read_folder(argument)
        else:
            yield _read_file(argument)


def _read_folder(name: str) -> Iterator[SourceFile | Problem]:
    has_manifests = False
    for root, folders, files in os.walk(name):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for file in sorted(files):
            if Path(file).suffix in MANIFEST_SUFFIXES and not file.startswith("."):
                has_manifests = True
                yield _read_file(str(Path(root, file)))
    if not has_manifests:
        yield Problem(
            file=name,
            message="no manifests in this folder",
            expected="files that end in .yaml, .yml or .json",
        )


def _read_file(name: str) -> SourceFile | Problem:
    try:
        status = Path(name).stat()
        if not stat.S_ISREG(status.st_mode):
            return Problem(file=name, message="not an ordinary file", expected="a file or folder")
        if status.st_size > (MAX_JSON if name.endswith(".json") else MAX_YAML):
            return _too_large(name, status.st_size)
        return _decode_source(name, Path(name).read_bytes())
    except OSError as error:
        return Problem(file=name, message=f"cannot be read: {error.strerror or error}")


def _too_large(name: str, size: int) -> Problem:
    return Problem(
        file=name,
        message=f"too large to read: {size / 2**20:,.0f} MiB",
        expected=f"at most {MAX_YAML >> 20} MiB of YAML or {MAX_JSON >> 20} MiB of JSON",
        hint="split the file, or save it as JSON",
    )


def _decode_source(name: str, data: bytes) -> SourceFile | Problem:
    if b"\0" in data[:65536] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Problem(file=name, message="a binary file", expected="YAML or JSON text")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Problem(file=name, line=line, message="not UTF-8 text", expected="UTF-8")
    if not text.strip():
        return Problem(file=name, line=1, message="the file is empty", expected="a manifest")
    return SourceFile(name, text)


class SourceDocument:
    """A document of a file.

    Its line map is computed on first use, by reading the document a second time: only problems
    need lines, and recording them for every value would slow down every run.
    """

    def __init__(
        self, source: SourceFile, parsed: ParsedDocument, number: int, *, is_json: bool
    ) -> None:
        self.source = source
        self.parsed = parsed
        self.number = number
        self.is_json = is_json

    @cached_property
    def line_map(self) -> LineMap:
        if self.is_json:
            return json_reader.json_line_map(self.source.text, self.parsed.start)
        text = self.source.text[self.parsed.start : self.parsed.end]
        _, line_map = next(yaml_reader.parse_yaml(text, with_lines=True))
        assert line_map is not None  # with_lines is set
        return line_map

    def line(self, path: FieldPath) -> int:
        offset = 0 if self.is_json else self.parsed.line - 1
        return line_at(self.line_map, path) + offset


class ManifestDocument:
    """One object: a document of its own, or an item of a List."""

    __slots__ = ("base", "source", "value")

    def __init__(self, source: SourceDocument, value: Any, base: FieldPath = ()) -> None:
        self.source = source
        self.value = value
        self.base = base

    @property
    def file(self) -> str:
        return self.source.source.name

    def line(self, path: FieldPath) -> int:
        return self.source.line((*self.base, *path))


def split_documents(source: SourceFile) -> Iterator[SourceDocument]:
    """The documents of a file, in order; raises UnreadableDocument at the first invalid one."""
    is_json = source.is_json
    if is_json and not source.name.endswith(".json"):
        is_json = _is_really_json(source.text)
    documents = json_reader.parse_json(source.text) if is_json else _yaml_documents(source.text)
    for number, parsed in enumerate(documents, start=1):
        yield SourceDocument(source, parsed, number, is_json=is_json)


def _yaml_documents(text: str) -> Iterator[ParsedDocument]:
    for document, _ in yaml_reader.parse_yaml(text):
        yield document


def _is_really_json(text: str) -> bool:
    """Text that begins with a brace may still be YAML in flow style."""
    try:
        return all(True for _ in json_reader.parse_json(text))
    except yaml_reader.UnreadableDocument as error:
        return "twice" in error.message


def document_objects(source: SourceDocument) -> Iterator[ManifestDocument]:
    """The objects of a document: itself, or the items of a List, with their kind filled in."""
    value = source.parsed.value
    if not isinstance(value, dict) or not _is_list(value):
        yield ManifestDocument(source, value)
        return
    kind = value["kind"].removesuffix("List")
    for index, item in enumerate(value.get("items") or []):
        if isinstance(item, dict) and kind and "kind" not in item:
            item = {"apiVersion": value.get("apiVersion"), "kind": kind, **item}  # noqa: PLW2901
        yield ManifestDocument(source, item, ("items", index))


def _is_list(value: dict[str, Any]) -> bool:
    kind = value.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list)


ProgressCallback = Callable[[str, int], None]
"""Called with the file being read and the number of objects read so far."""


def no_progress(_file: str, _count: int) -> None:
    """Ignores progress."""


class LoadedManifests:
    """The documents that could be read, in order, and problems with the others."""

    def __init__(self) -> None:
        self.documents: list[ManifestDocument] = []
        self.problems: list[Problem] = []


def load_manifests(
    arguments: Iterable[str], progress: ProgressCallback = no_progress
) -> LoadedManifests:
    """Read all files of the arguments."""
    loaded = LoadedManifests()
    with gc_paused():
        for source in read_sources(arguments):
            if isinstance(source, Problem):
                loaded.problems.append(source)
            else:
                _load_source(source, loaded, progress)
    return loaded


def _load_source(source: SourceFile, loaded: LoadedManifests, progress: ProgressCallback) -> None:
    number = 0
    try:
        for document in split_documents(source):
            number = document.number
            loaded.documents.extend(document_objects(document))
            progress(source.name, len(loaded.documents))
    except UnreadableDocument as error:
        loaded.problems.append(_unreadable_problem(source, error, number + 1))
        return
    if number == 0:
        message, expected = "no document in this file", "a manifest"
        problem = Problem(file=source.name, line=1, message=message, expected=expected)
        loaded.problems.append(problem)


def _unreadable_problem(source: SourceFile, error: UnreadableDocument, document: int) -> Problem:
    return Problem(
        file=source.name,
        line=error.line,
        document=document,
        path=format_field_path(error.path),
        message=error.message,
        hint=error.hint,
    )


def locate_error(document: ManifestDocument, field_error: FieldError) -> Problem:
    """A field error with the file and line of its value."""
    return Problem(
        file=document.file,
        line=document.line(field_error.path),
        document=document.source.number,
        path=format_field_path((*document.base, *field_error.path)),
        found=field_error.found,
        expected=field_error.expected,
        message=field_error.message,
        hint=field_error.hint,
    )
