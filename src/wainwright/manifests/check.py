"""All files of the input, examined: the report of `wain validate`."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from wainwright.api.builtin import Reader
from wainwright.api.fault import Fault, field_path
from wainwright.manifests.document import Document, Place, documents, objects
from wainwright.manifests.examine import Finding, examine
from wainwright.manifests.files import Source, sources
from wainwright.manifests.problem import Problem, Report, in_order
from wainwright.manifests.yamltext import Unreadable

Progress = Callable[[str, int], None]
"""Told the file being read and how many objects have been read so far."""


class Checked:
    """What was read, in order, with what is wrong with it."""

    def __init__(self) -> None:
        self.objects: list[tuple[Document, Finding]] = []
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    @property
    def report(self) -> Report:
        return Report(errors=in_order(self.errors), warnings=in_order(self.warnings))


def check(arguments: Iterable[str], progress: Progress = lambda _file, _count: None) -> Checked:
    """Read and examine everything that the arguments name."""
    checked, builtin = Checked(), Reader()
    with _without_collector():
        for source in sources(arguments):
            if isinstance(source, Problem):
                checked.errors.append(source)
            else:
                _check_source(source, checked, builtin, progress)
    checked.warnings.extend(_doubles(checked.objects))
    return checked


@contextmanager
def _without_collector() -> Iterator[None]:
    """Reading makes millions of small objects and no cycles; looking for some takes longer."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check_source(source: Source, checked: Checked, builtin: Reader, progress: Progress) -> None:
    number = 0
    try:
        for place in documents(source):
            number = place.number
            _check_place(place, checked, builtin)
            progress(source.name, len(checked.objects))
    except Unreadable as error:
        checked.errors.append(_unreadable(source, error, number + 1))
        return
    if number == 0:
        checked.errors.append(
            Problem(
                file=source.name, line=1, message="no document in this file", expected="a manifest"
            )
        )


def _check_place(place: Place, checked: Checked, builtin: Reader) -> None:
    for document in objects(place):
        finding = examine(document.value, builtin)
        checked.objects.append((document, finding))
        for fault in finding.faults:
            (checked.warnings if fault.warning else checked.errors).append(located(document, fault))


def located(document: Document, fault: Fault) -> Problem:
    """A fault with the file and line of the value it is about."""
    return Problem(
        file=document.file,
        line=document.line(fault.path),
        document=document.place.number,
        path=field_path((*document.base, *fault.path)),
        found=fault.found,
        expected=fault.expected,
        message=fault.message,
        hint=fault.hint,
    )


def _unreadable(source: Source, error: Unreadable, document: int) -> Problem:
    return Problem(
        file=source.name,
        line=error.line,
        document=document,
        path=field_path(error.path),
        message=error.message,
        hint=error.hint,
    )


def _doubles(read: list[tuple[Document, Finding]]) -> Iterator[Problem]:
    """The same object twice: the later one would replace the earlier."""
    first: dict[tuple[str, str, str, str], Document] = {}
    for document, finding in read:
        if finding.kind is None:
            continue
        meta = document.value.get("metadata")
        if not isinstance(meta, dict) or not meta.get("name"):
            continue
        group = finding.kind.api_version.rpartition("/")[0]
        key = (group, finding.kind.name, str(meta.get("namespace") or ""), str(meta["name"]))
        before = first.setdefault(key, document)
        if before is not document:
            yield _double(document, before, finding.kind.name, key[3])


def _double(document: Document, before: Document, kind: str, name: str) -> Problem:
    return Problem(
        file=document.file,
        line=document.line(("metadata", "name")),
        document=document.place.number,
        path=field_path((*document.base, "metadata", "name")),
        found=name,
        message=f"{kind} {name} is also in {before.file}, line {before.line(())}; "
        "the later one would replace the earlier",
        hint="keep one of them",
    )
