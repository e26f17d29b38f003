"""All objects of the input, examined: the report of `wain validate`."""

from collections.abc import Iterable, Iterator

from wainwright.api.builtin import Reader
from wainwright.api.builtin.registry import CLUSTER_WIDE
from wainwright.api.kinds import Family, Kind
from wainwright.collector import without_collector
from wainwright.manifests.document import Document
from wainwright.manifests.examine import examine
from wainwright.manifests.load import Progress, load, located, quiet
from wainwright.manifests.problem import Problem, Report, in_order


class Checked:
    """What was read, in order, with what is wrong with it."""

    def __init__(self) -> None:
        self.objects: list[tuple[Document, Kind | None]] = []
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    @property
    def report(self) -> Report:
        return Report(errors=in_order(self.errors), warnings=in_order(self.warnings))


def check(arguments: Iterable[str], progress: Progress = quiet) -> Checked:
    """Read and examine everything that the arguments name."""
    loaded, checked, builtin = load(arguments, progress), Checked(), Reader()
    checked.errors.extend(loaded.problems)
    with without_collector():
        for document in loaded.documents:
            _check(document, checked, builtin)
    checked.warnings.extend(doubles(checked.objects))
    return checked


def _check(document: Document, checked: Checked, builtin: Reader) -> None:
    finding = examine(document.value, builtin)
    checked.objects.append((document, finding.kind))
    for fault in finding.faults:
        (checked.warnings if fault.warning else checked.errors).append(located(document, fault))


def doubles(read: Iterable[tuple[Document, Kind | None]]) -> Iterator[Problem]:
    """The same object twice: the later one would replace the earlier."""
    first: dict[tuple[str, str, str, str], Document] = {}
    for document, kind in read:
        key = _identity(document, kind)
        if key is not None and first.setdefault(key, document) is not document:
            yield _double(document, first[key], key)


def _identity(document: Document, kind: Kind | None) -> tuple[str, str, str, str] | None:
    meta = document.value.get("metadata") if kind is not None else None
    if kind is None or not isinstance(meta, dict) or not meta.get("name"):
        return None
    group = kind.api_version.rpartition("/")[0]
    space = str(meta.get("namespace") or "default") if _has_namespace(kind) else ""
    return group, kind.name, space, str(meta["name"])


def _has_namespace(kind: Kind) -> bool:
    """All kinds but Kubernetes' own belong to the cluster as a whole."""
    return kind.family is Family.BUILTIN and kind.name not in CLUSTER_WIDE


def _double(document: Document, before: Document, key: tuple[str, str, str, str]) -> Problem:
    _, kind, _, name = key
    return Problem(
        file=document.file,
        line=document.line(("metadata", "name")),
        document=document.place.number,
        path="metadata.name",
        found=name,
        message=f"{kind} {name} is also in {before.file}, line {before.line(())}; "
        "the later one would replace the earlier",
        hint="keep one of them",
    )
