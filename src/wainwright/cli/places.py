"""Places: file and line of what the catalogue has to say about the objects of the input."""

from collections.abc import Iterable, Iterator, Sequence

from wainwright.api.fault import field_path
from wainwright.catalogue.remarks import Remark
from wainwright.manifests.document import Document
from wainwright.manifests.files import STDIN
from wainwright.manifests.load import load, located
from wainwright.manifests.problem import Problem


def problems(remarks: Sequence[Remark], arguments: Iterable[str]) -> list[Problem]:
    """The remarks with their places. The files are read again, as only few runs need this."""
    if not remarks:
        return []
    documents = load([name for name in arguments if name != STDIN]).documents
    return list(dict.fromkeys(_placed(remarks, documents)))


def _placed(remarks: Iterable[Remark], documents: Sequence[Document]) -> Iterator[Problem]:
    for remark in remarks:
        home = next((each for each in documents if _is_about(remark, each)), None)
        yield _homeless(remark) if home is None else located(home, remark.fault)


def _is_about(remark: Remark, document: Document) -> bool:
    value = document.value
    if not isinstance(value, dict) or value.get("kind") != remark.kind:
        return False
    metadata = value.get("metadata")
    return (metadata.get("name") if isinstance(metadata, dict) else None) in (remark.name, None)


def _homeless(remark: Remark) -> Problem:
    """Of an object that came through a pipe, or that a conversion made."""
    fault = remark.fault
    return Problem(
        file=f"{remark.kind} {remark.name}".strip(),
        path=field_path(fault.path),
        found=fault.found,
        expected=fault.expected,
        message=fault.message,
        hint=fault.hint,
    )
