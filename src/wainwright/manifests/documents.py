"""Files to documents: reads the files, and gives every object its file and line.
Files of a folder that are no manifests are left out (`folder_scan.py`); named ones are judged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright import file_names
from wainwright.api.field_error import FieldError, FieldPath, format_field_path
from wainwright.api.wire import SNAPSHOT_ANNOTATION
from wainwright.gc_pause import gc_paused
from wainwright.manifests import json_reader, yaml_reader
from wainwright.manifests.aws_answers import is_reservations_answer, reservations_manifest
from wainwright.manifests.folder_scan import (
    FolderScan,
    SkippedFile,
    classify_file,
    classify_other,
    enclosing_chart,
    enclosing_kustomization,
    find_template,
    may_be_manifest,
)
from wainwright.manifests.placeholders import find_placeholder
from wainwright.manifests.problems import Problem
from wainwright.manifests.rendering import (
    RenderedPackage,
    describe_packages,
    describe_templates,
    render_packages,
    template_hint,
    template_message,
)
from wainwright.manifests.source_files import (
    STDIN,
    FileKind,
    SourceFile,
    UnreadableFile,
    read_file,
    read_source,
    unreadable,
)
from wainwright.manifests.yaml_reader import (
    DuplicateKey,
    LineMap,
    ParsedDocument,
    UnreadableDocument,
    line_at,
)


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

    @property
    def is_snapshot(self) -> bool:
        """Whether it was taken from a cluster, so that its lines are nobody's."""
        value = self.parsed.value
        metadata = value.get("metadata") if isinstance(value, dict) else None
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        return isinstance(annotations, dict) and SNAPSHOT_ANNOTATION in annotations

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
    except yaml_reader.UnreadableDocument:
        return False


def document_objects(source: SourceDocument) -> Iterator[ManifestDocument]:
    """The objects of a document: itself, or the items of a List, with their kind filled in."""
    value = source.parsed.value
    if is_reservations_answer(value):
        yield ManifestDocument(source, reservations_manifest(value))
        return
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


def no_known_values(_key: str) -> AbstractSet[str]:
    """For callers without a catalogue: only the few closed sets of words are checked."""
    return frozenset()


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How folders are read, what is said of it, and what is not in the files."""

    render: bool = False
    """Whether charts and kustomizations are rendered by the tools on the PATH."""
    verbose: bool = False
    """Whether files that are left out are listed, not only counted."""
    quiet: bool = False
    """Whether notes that do not change the answer are dropped."""
    strict: bool = False
    """Whether duplicate keys and objects are errors where manifests are validated."""
    refuse_unknown_fields: bool = False
    """Whether unknown fields are errors where they would be dropped with a note."""
    built_in_pools: tuple[str, ...] = ()
    """NodePools of EKS Auto Mode that the cluster has, by name."""
    known_values: Callable[[str], AbstractSet[str]] = no_known_values
    """The values that nodes can have of a label, by which misspelt ones are found."""


DEFAULT_READ_OPTIONS: Final = ReadOptions()


class LoadedManifests:
    """The documents that could be read, in order, problems with others, and what was left out."""

    def __init__(self) -> None:
        self.documents: list[ManifestDocument] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.duplicate_keys: list[Problem] = []
        self.skipped: list[SkippedFile] = []

    def extend(self, other: "LoadedManifests") -> None:
        self.documents.extend(other.documents)
        self.problems.extend(other.problems)
        self.warnings.extend(other.warnings)
        self.duplicate_keys.extend(other.duplicate_keys)
        self.skipped.extend(other.skipped)


def load_manifests(
    arguments: Iterable[str], progress: ProgressCallback = no_progress, *, render: bool = False
) -> LoadedManifests:
    """Read all files of the arguments; `render` has charts and kustomizations rendered."""
    loader = _Loader(progress, render=render)
    with gc_paused():
        for argument in arguments:
            if argument != STDIN and file_names.is_folder(argument):
                loader.load_folder(argument)
            else:
                loader.load_named(argument)
    return loader.loaded


class _ParsedFile(msgspec.Struct, frozen=True):
    """The documents of a file up to the first that cannot be parsed, and the error of that."""

    documents: list[SourceDocument]
    error: UnreadableDocument | None = None

    def classify(self, text: str) -> FileKind:
        return classify_file(text, [each.parsed.value for each in self.documents], self.error)


class _Loader:
    """Reads files and folders one after the other."""

    def __init__(self, progress: ProgressCallback, *, render: bool) -> None:
        self.loaded = LoadedManifests()
        self.progress = progress
        self.render = render

    def load_named(self, argument: str) -> None:
        source = read_source(argument)
        if isinstance(source, UnreadableFile):
            self.loaded.problems.append(source.problem)
        elif argument != STDIN and enclosing_kustomization(argument) is not None:
            self.loaded.problems.append(_kustomization_problem(argument))
        else:
            self._judge(source, self._parse(source))

    def _judge(self, source: SourceFile, parsed: _ParsedFile) -> None:
        kind = parsed.classify(source.text)
        templated = parsed.error is not None and find_template(source.text, parsed.error)
        if kind is FileKind.TEMPLATE or templated:
            self.loaded.problems.append(_template_problem(source, parsed.error))
            return
        _add_documents(source, parsed, self.loaded)
        if kind is FileKind.EMPTY:
            problem = unreadable(source.name, "no document in this file", "a manifest", line=1)
            self.loaded.problems.append(problem.problem)

    def load_folder(self, name: str) -> None:
        """Errors are only what is wrong with manifests, or that there are none."""
        scan, loaded = FolderScan(name), LoadedManifests()
        loaded.skipped.extend(scan.skipped)
        rendered, left_out = (
            render_packages(scan.packages)
            if self.render
            else ([], describe_packages(scan.packages))
        )
        for file in scan.without_rendered(each.package for each in rendered):
            self._load_found(file, loaded)
        for package in rendered:
            self._load_rendered(package, loaded)
        templates = [each for each in loaded.skipped if each.kind is FileKind.TEMPLATE]
        left_out += describe_templates(templates, enclosing_chart(str(Path(name, "templates"))))
        if loaded.documents or loaded.problems:
            loaded.warnings.extend(left_out)
        else:
            loaded.problems.extend(left_out or [_no_manifests(name, loaded.skipped)])
        self.loaded.extend(loaded)

    def _load_found(self, file: str, loaded: LoadedManifests) -> None:
        source = read_file(file)
        if isinstance(source, UnreadableFile):
            if source.kind is None:
                loaded.problems.append(source.problem)
            else:
                loaded.skipped.append(SkippedFile(file, source.kind))
        elif not may_be_manifest(source.text):
            loaded.skipped.append(SkippedFile(file, classify_other(source.text)))
        else:
            self._load_parsed(source, self._parse(source), loaded)

    def _load_parsed(
        self, source: SourceFile, parsed: _ParsedFile, loaded: LoadedManifests
    ) -> None:
        kind = parsed.classify(source.text)
        if kind is FileKind.MANIFEST:
            _add_documents(source, parsed, loaded)
        elif kind is FileKind.TEMPLATE:
            placeholder = _template_placeholder(source, parsed.error)
            loaded.skipped.append(SkippedFile(source.name, kind, placeholder))
        else:
            loaded.skipped.append(SkippedFile(source.name, kind))

    def _load_rendered(self, rendered: RenderedPackage, loaded: LoadedManifests) -> None:
        source = SourceFile(rendered.command, rendered.text)
        _add_documents(source, self._parse(source), loaded)

    def _parse(self, source: SourceFile) -> _ParsedFile:
        documents: list[SourceDocument] = []
        try:
            for document in split_documents(source):
                documents.append(document)
                self.progress(source.name, len(self.loaded.documents) + len(documents))
        except UnreadableDocument as error:
            return _ParsedFile(documents, error)
        return _ParsedFile(documents)


def _add_documents(source: SourceFile, parsed: _ParsedFile, loaded: LoadedManifests) -> None:
    for document in parsed.documents:
        loaded.documents.extend(document_objects(document))
        for duplicate in document.parsed.duplicate_keys:
            loaded.duplicate_keys.append(_duplicate_key_problem(document, duplicate))
    if parsed.error is not None:
        number = len(parsed.documents) + 1
        loaded.problems.append(_unreadable_problem(source, parsed.error, number))


SEPARATOR_HINT: Final = (
    "keep one of them; if these are two objects put --- between them: only the last is read"
)


def _duplicate_key_problem(document: SourceDocument, duplicate: DuplicateKey) -> Problem:
    return Problem(
        file=document.source.name,
        line=duplicate.line,
        document=document.number,
        path=format_field_path(duplicate.path),
        message=f"the key {duplicate.path[-1]!r} is there twice; the last one counts",
        hint=SEPARATOR_HINT if duplicate.path == ("kind",) else "keep one of them",
    )


def _no_manifests(name: str, skipped: Sequence[SkippedFile]) -> Problem:
    count = f"{len(skipped):,} other files (--verbose lists them)" if skipped else ""
    return Problem(
        file=name,
        message="no manifests in this folder",
        found=count,
        expected="files that end in .yaml, .yml or .json",
        hint=f"it has {count}" if count else "",
    )


def _template_placeholder(source: SourceFile, error: UnreadableDocument | None) -> str:
    return find_placeholder(source.text) if error is None else find_template(source.text, error)


def _template_problem(source: SourceFile, error: UnreadableDocument | None) -> Problem:
    placeholder = _template_placeholder(source, error)
    return Problem(
        file=source.name,
        line=source.text.count("\n", 0, source.text.index(placeholder)) + 1,
        message=template_message(placeholder),
        found=placeholder,
        expected="a manifest",
        hint=template_hint(placeholder, enclosing_chart(source.name)),
    )


def _kustomization_problem(file: str) -> Problem:
    folder = str(Path(file).parent)
    return Problem(
        file=file,
        message="a kustomization, not a manifest",
        expected="its folder, or what kustomize prints",
        hint=f"name the folder, {folder}, or render it: kubectl kustomize {folder} | wain plan -",
    )


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
    """A field error with the file and line of its value; in a snapshot, with the object's name."""
    if document.source.is_snapshot:
        return _problem_of_object(document, field_error)
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


def _problem_of_object(document: ManifestDocument, field_error: FieldError) -> Problem:
    value = document.value if isinstance(document.value, dict) else {}
    metadata = value.get("metadata") or {}
    names = [str(metadata[key]) for key in ("namespace", "name") if metadata.get(key)]
    return Problem(
        file=f"{value.get('kind', 'object')} {'/'.join(names)}",
        path=format_field_path(field_error.path),
        found=field_error.found,
        expected=field_error.expected,
        message=field_error.message,
        hint=field_error.hint,
    )
