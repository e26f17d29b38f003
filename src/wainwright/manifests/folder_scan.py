"""What the files of a folder are: manifests, charts, kustomizations, templates, or none of these.

People point `wain` at repositories. What is not meant for an API server is left out there, and said
so; a file that is named on the command line is judged whatever it is.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright import file_names
from wainwright.manifests.aws_answers import RESERVATIONS_KEY, is_reservations_answer
from wainwright.manifests.kustomizations import (
    KUSTOMIZATION_FILES,
    Kustomization,
    find_kustomization,
    read_kustomization,
    with_bases,
)
from wainwright.manifests.placeholders import find_placeholder, has_helm_value
from wainwright.manifests.problems import Problem
from wainwright.manifests.source_files import FileKind, SourceFile, read_file
from wainwright.manifests.yaml_reader import UnreadableDocument

MANIFEST_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
CHART_FILE: Final = "Chart.yaml"
LIBRARY_CHART: Final = re.compile(r"^type:\s*[\"']?library", re.MULTILINE)
CHART_FOLDERS: Final = frozenset({"templates", "charts"})
IGNORED_FOLDERS: Final = frozenset({"node_modules"})
HEADER_KEYS: Final = ("apiVersion", "kind", "metadata")
MIN_HEADER_KEYS: Final = 2
"""An object has all three; with two of them it is a manifest with a mistake, not another file."""
TOP_LEVEL_KEY: Final = {
    key: re.compile(rf"^(?:{key}|['\"]{key}['\"]|[ \t{{]+\"{key}\")\s*:", re.MULTILINE)
    for key in HEADER_KEYS
}

OPEN_BRACES: Final = re.compile(r"\{\{")
INDENTED_KEY: Final = {
    key: re.compile(rf"^[ \t]*['\"]?{key}['\"]?[ \t]*:", re.MULTILINE) for key in HEADER_KEYS
}


class SkippedFile(msgspec.Struct, frozen=True):
    """A file that was left out."""

    name: str
    kind: FileKind
    placeholder: str = ""
    """Of a template: something in it that is not filled in."""


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A chart, or a kustomization that changes its resources: to be rendered before it is read."""

    folder: str
    kustomization: Kustomization | None = None
    """None for a Helm chart."""


class FolderScan:
    """The files of a folder to read, in order, those left out, and what needs rendering."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[str] = []
        self.skipped: list[SkippedFile] = []
        self.packages: list[Package] = []
        self._kustomizations: dict[str, Kustomization] = {}
        self._walk(name)
        if self._kustomizations:
            self._apply_kustomizations()

    def _walk(self, name: str) -> None:
        for root, folders, files in os.walk(name):
            if CHART_FILE in files and "templates" in folders:
                self._add_chart(root, folders)
            self._add_kustomization(root, files)
            folders[:] = sorted(each for each in folders if not _is_ignored(each))
            self.files.extend(
                str(Path(root, file))
                for file in sorted(files)
                if Path(file).suffix in MANIFEST_SUFFIXES and not file.startswith(".")
            )

    def _add_chart(self, root: str, folders: list[str]) -> None:
        """Library charts have nothing to render; their templates are used by others."""
        folders[:] = [each for each in folders if each not in CHART_FOLDERS]
        source = read_file(str(Path(root, CHART_FILE)))
        if not isinstance(source, SourceFile) or LIBRARY_CHART.search(source.text) is None:
            self.packages.append(Package(folder=root))

    def _add_kustomization(self, root: str, files: list[str]) -> None:
        for file in KUSTOMIZATION_FILES:
            if file in files:
                found = read_kustomization(root, file)
                if found is not None:
                    self._kustomizations[absolute_path(root)] = found

    def _apply_kustomizations(self) -> None:
        self._add_outside_bases()
        plain = [each for each in self._kustomizations.values() if is_plain(each)]
        listed = {file for each in plain for file in each.files}
        self._add_outside_files(listed)
        parts = set[str]()
        for each in self._kustomizations.values():
            parts |= each.mentioned | set(each.files)
            if not each.is_component and (not is_plain(each) or each.remote):
                self.packages.append(Package(folder=each.folder, kustomization=each))
        self._keep({file: self._kind_in_kustomization(file, listed, parts) for file in self.files})

    def _add_outside_bases(self) -> None:
        """Resources of kustomizations without transformations may be in other folders."""
        inside = absolute_path(self.name) + os.sep
        waiting = list(self._kustomizations.values())
        while waiting:
            each = waiting.pop()
            for path in each.folders if is_plain(each) else ():
                base = None if path.startswith(inside) else find_kustomization(self._name_of(path))
                if base is not None and path not in self._kustomizations:
                    self._kustomizations[path] = base
                    waiting.append(base)

    def _add_outside_files(self, listed: set[str]) -> None:
        known = set(map(absolute_path, self.files))
        self.files.extend(map(self._name_of, sorted(listed - known)))

    def _name_of(self, path: str) -> str:
        """An absolute path as the user would write it."""
        return path if Path(self.name).is_absolute() else os.path.relpath(path)

    def _kind_in_kustomization(self, file: str, listed: set[str], parts: set[str]) -> FileKind:
        path = absolute_path(file)
        if path in listed:
            return FileKind.MANIFEST
        beside = os.path.dirname(path) in self._kustomizations  # noqa: PTH120
        if path in parts or (beside and Path(file).name in KUSTOMIZATION_FILES):
            return FileKind.KUSTOMIZATION_PART
        return FileKind.UNLISTED if beside else FileKind.MANIFEST

    def _keep(self, kinds: dict[str, FileKind]) -> None:
        self.files = [file for file, kind in kinds.items() if kind is FileKind.MANIFEST]
        self.skipped = [
            SkippedFile(file, kind) for file, kind in kinds.items() if kind is not FileKind.MANIFEST
        ]

    def without_rendered(self, rendered: Iterable[Package]) -> list[str]:
        """The files to read beside these packages: not those that they are made of."""
        parts = {
            file
            for package in rendered
            if package.kustomization is not None
            for each in with_bases(package.kustomization)
            for file in each.files
        }
        return [file for file in self.files if absolute_path(file) not in parts]


def describe_skipped(skipped: Sequence[SkippedFile], *, verbose: bool) -> list[Problem]:
    """A note with the number of files of each kind, and one for each of them where asked for."""
    if not skipped:
        return []
    counts = Counter(each.kind for each in skipped)
    kinds = ", ".join(f"{kind.value}: {counts[kind]:,}" for kind in FileKind if counts[kind])
    files = "1 file was" if len(skipped) == 1 else f"{len(skipped):,} files were"
    message = f"{files} skipped ({kinds})"
    if not verbose:
        return [Problem(file="", message=f"{message}; --verbose lists them")]
    names = (Problem(file="", message=f"{each.name}: {each.kind.value}") for each in skipped)
    return [Problem(file="", message=message), *names]


def is_plain(kustomization: Kustomization) -> bool:
    return not kustomization.transformations and not kustomization.is_component


def is_base_of_another(package: Package, packages: Sequence[Package]) -> bool:
    """Whether a kustomization is rendered as part of another one already."""
    path = absolute_path(package.folder)
    return package.kustomization is not None and any(
        absolute_path(base.folder) == path
        for other in packages
        if other is not package and other.kustomization is not None
        for base in with_bases(other.kustomization)[1:]
    )


def absolute_path(name: str) -> str:
    """Without asking the disk: for ten thousand files that would be noticed."""
    return os.path.abspath(name)  # noqa: PTH100


def _is_ignored(folder: str) -> bool:
    return folder.startswith(".") or folder in IGNORED_FOLDERS


def may_be_manifest(text: str) -> bool:
    """Whether the words are there at all; most other files need not be parsed."""
    found = sum(key in text for key in HEADER_KEYS)
    return found >= MIN_HEADER_KEYS or RESERVATIONS_KEY in text


def classify_other(text: str) -> FileKind:
    """What a file without these words is."""
    lines = (line.strip() for line in text.split("\n"))
    has_content = any(line and not line.startswith(("#", "---", "...")) for line in lines)
    return FileKind.NOT_A_MANIFEST if has_content else FileKind.EMPTY


def classify_file(text: str, values: Sequence[Any], error: UnreadableDocument | None) -> FileKind:
    """What the file is, by its documents, and by its text where it cannot be parsed."""
    if error is not None:
        return _classify_unreadable(text, values, error)
    if any(map(_is_manifest, values)):
        # Not `"{{" in text`: in twelve megabytes of JSON that takes three times as long.
        templated = OPEN_BRACES.search(text) is not None and any(map(has_helm_value, values))
        return FileKind.TEMPLATE if templated else FileKind.MANIFEST
    return FileKind.NOT_A_MANIFEST if values else FileKind.EMPTY


def _classify_unreadable(text: str, values: Sequence[Any], error: UnreadableDocument) -> FileKind:
    """Keys of a template may be indented by the blocks that they are in."""
    patterns = INDENTED_KEY if "{{" in text else TOP_LEVEL_KEY
    keys = sum(pattern.search(text) is not None for pattern in patterns.values())
    if keys < MIN_HEADER_KEYS and not any(map(_is_manifest, values)):
        return FileKind.NOT_A_MANIFEST
    return FileKind.TEMPLATE if find_template(text, error) else FileKind.MANIFEST


def find_template(text: str, error: UnreadableDocument) -> str:
    """What is to be filled in at the line of the error, or else the first `{{ … }}`."""
    lines = text.split("\n")[max(0, error.line - 2) : error.line]
    around = find_placeholder("\n".join(lines))
    return around or (find_placeholder(text) if "{{" in text or "{%" in text else "")


def _is_manifest(value: Any) -> bool:
    if is_reservations_answer(value):
        return True
    return (
        isinstance(value, dict)
        and sum(bool(value.get(key)) for key in HEADER_KEYS) >= MIN_HEADER_KEYS
    )


def enclosing_chart(file: str) -> str:
    """The folder of the chart that a template belongs to, or nothing."""
    for folder in Path(file).parents:
        if file_names.is_file(str(folder / CHART_FILE)):
            return str(folder)
    return ""


def enclosing_kustomization(file: str) -> Kustomization | None:
    """The kustomization that a file named kustomization.yaml is."""
    path = Path(file)
    return find_kustomization(str(path.parent)) if path.name in KUSTOMIZATION_FILES else None
