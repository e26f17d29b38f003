"""All objects of the input, as plain values that know their place in the files."""

from collections.abc import Callable, Iterable

from wainwright.api.fault import Fault, field_path
from wainwright.collector import without_collector
from wainwright.manifests.document import Document, documents, objects
from wainwright.manifests.files import Source, sources
from wainwright.manifests.problem import Problem
from wainwright.manifests.yamltext import Unreadable

Progress = Callable[[str, int], None]
"""Told the file being read and how many objects have been read so far."""


def quiet(_file: str, _count: int) -> None:
    """Progress for those who do not look."""


class Loaded:
    """What could be read, in order, and what could not."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.problems: list[Problem] = []


def load(arguments: Iterable[str], progress: Progress = quiet) -> Loaded:
    """Read everything that the arguments name."""
    loaded = Loaded()
    with without_collector():
        for source in sources(arguments):
            if isinstance(source, Problem):
                loaded.problems.append(source)
            else:
                _load(source, loaded, progress)
    return loaded


def _load(source: Source, loaded: Loaded, progress: Progress) -> None:
    number = 0
    try:
        for place in documents(source):
            number = place.number
            loaded.documents.extend(objects(place))
            progress(source.name, len(loaded.documents))
    except Unreadable as error:
        loaded.problems.append(_unreadable(source, error, number + 1))
        return
    if number == 0:
        message, expected = "no document in this file", "a manifest"
        problem = Problem(file=source.name, line=1, message=message, expected=expected)
        loaded.problems.append(problem)


def _unreadable(source: Source, error: Unreadable, document: int) -> Problem:
    return Problem(
        file=source.name,
        line=error.line,
        document=document,
        path=field_path(error.path),
        message=error.message,
        hint=error.hint,
    )


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
