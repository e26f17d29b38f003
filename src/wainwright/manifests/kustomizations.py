"""Kustomizations: which files one is made of, and whether these are what kustomize would print."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright import file_names
from wainwright.manifests.source_files import SourceFile, read_file
from wainwright.manifests.yaml_reader import UnreadableDocument, parse_yaml

KUSTOMIZATION_FILES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
KUSTOMIZE_GROUP: Final = "kustomize.config.k8s.io"
RESOURCE_FIELDS: Final = ("resources", "bases", "components")
NEUTRAL_FIELDS: Final = frozenset(
    {
        *("apiVersion", "kind", "metadata", "resources", "bases", "crds", "openapi"),
        *("sortOptions", "buildMetadata", "generatorOptions"),
        *("configMapGenerator", "secretGenerator", "images"),
    }
)
"""With these the resources stay, for all that scheduling depends on, what their files say."""
UNREADABLE: Final = "a kustomization that cannot be read"


class Kustomization(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with a kustomization. Paths are absolute, so that they compare."""

    folder: str
    """As the user would write it."""
    transformations: tuple[str, ...]
    """The fields that change the resources."""
    files: tuple[str, ...]
    """Resources that are files."""
    folders: tuple[str, ...]
    """Resources, bases and components that are folders."""
    mentioned: frozenset[str]
    """Every other file that it names: patches, values, what its ConfigMaps are made of."""
    remote: tuple[str, ...]
    is_component: bool


def read_kustomization(folder: str, file: str) -> Kustomization | None:
    """The kustomization of this file of the folder; None if the file is something else."""
    value = _read_document(str(Path(folder, file)))
    if isinstance(value, dict) and not _is_kustomization(value):
        return None
    if not isinstance(value, dict):
        value = {UNREADABLE: True}
    entries = [each for field in RESOURCE_FIELDS for each in _texts(value.get(field))]
    remote = tuple(each for each in entries if is_remote(each))
    local = [_absolute(folder, each) for each in entries if each not in remote]
    return Kustomization(
        folder=folder,
        transformations=tuple(
            field for field, given in value.items() if given and field not in NEUTRAL_FIELDS
        ),
        files=tuple(each for each in local if not file_names.is_folder(each)),
        folders=tuple(each for each in local if file_names.is_folder(each)),
        mentioned=frozenset(_mentioned_files(folder, value)) - set(local),
        remote=remote,
        is_component=value.get("kind") == "Component",
    )


def _read_document(file: str) -> Any:
    """The only document; None where there is none or it cannot be read, as in a template."""
    source = read_file(file)
    if not isinstance(source, SourceFile):
        return None
    try:
        documents = [parsed.value for parsed, _ in parse_yaml(source.text)]
    except UnreadableDocument:
        return None
    return documents[0] if len(documents) == 1 else None


def _is_kustomization(value: dict[str, Any]) -> bool:
    """Kinds of others, such as Flux's Kustomization, are manifests in a file of that name."""
    version = value.get("apiVersion")
    return version is None or str(version).startswith(f"{KUSTOMIZE_GROUP}/")


def is_remote(entry: str) -> bool:
    return "://" in entry or "?ref=" in entry or entry.startswith(("git@", "git::", "github.com/"))


def _mentioned_files(folder: str, value: dict[str, Any]) -> Iterator[str]:
    for text in _texts(value):
        name = text.partition("=")[2] or text  # files of a generator may have a key before them
        if "\n" not in name and not is_remote(name):
            yield _absolute(folder, name)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _absolute(folder: str, name: str) -> str:
    return os.path.abspath(os.path.join(folder, name))  # noqa: PTH100, PTH118 (Path keeps `..`)


def find_kustomization(folder: str) -> Kustomization | None:
    """The kustomization of a folder, if it has one."""
    for file in KUSTOMIZATION_FILES:
        if file_names.is_file(str(Path(folder, file))):
            return read_kustomization(folder, file)
    return None


def with_bases(kustomization: Kustomization) -> list[Kustomization]:
    """The kustomization and all that it is made of, each once."""
    found: dict[str, Kustomization] = {}
    waiting = [kustomization]
    while waiting:
        each = waiting.pop()
        key = _absolute(each.folder, "")
        if key not in found:
            found[key] = each
            bases = map(find_kustomization, each.folders)
            waiting.extend(base for base in bases if base is not None)
    return list(found.values())
