"""Annotations of ours in manifests that do not do what they were written for. They are warnings: an
API server accepts any text.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from wainwright.api.field_error import FieldError, FieldPath
from wainwright.manifests.documents import ManifestDocument
from wainwright.manifests.misspellings import ANNOTATED, POD_SPECS
from wainwright.translate.annotations import AnnotationProblem, annotation_problems


def find_annotation_problems(
    documents: Iterable[ManifestDocument], *, with_refused: bool = True
) -> Iterator[tuple[ManifestDocument, FieldError]]:
    """A warning for each annotation, with its document. Commands that refuse a value themselves go
    without these.
    """
    for document in documents:
        for path, kind in _annotated(document.value):
            for problem in annotation_problems(kind, _texts(document.value, path)):
                if with_refused or not problem.is_refused:
                    yield document, _warning(path, problem)


def _annotated(value: Any) -> Iterator[tuple[FieldPath, str]]:
    """Where annotations of ours are read, and those of which kind they are."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind in ("NodePool", "EC2NodeClass"):
        yield ANNOTATED, kind
    elif isinstance(kind, str) and kind in POD_SPECS:
        yield (*POD_SPECS[kind][:-1], *ANNOTATED), "Pod"


def _texts(value: Any, path: FieldPath) -> dict[str, str]:
    """Anything that is no text is an error by the rules of the API server."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    entries = value.items() if isinstance(value, dict) else ()
    return {key: text for key, text in entries if isinstance(key, str) and isinstance(text, str)}


def _warning(path: FieldPath, problem: AnnotationProblem) -> FieldError:
    return FieldError(
        path=(*path, problem.key),
        message=f"found {problem.found}, expected {problem.expected}: {problem.effect}",
        found=problem.found,
        expected=problem.expected,
        hint=problem.hint,
        warning=True,
    )
