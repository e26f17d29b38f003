"""Documents of v1 among the input, read with care: nobody has checked them yet."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

VERSIONS: Final = ("karpenter.sh/v1", "karpenter.k8s.aws/v1")

Document = dict[str, Any]


def of_today(documents: Sequence[Any], kind: str) -> Iterator[Document]:
    """The objects of a kind that are v1 already, as far as they have a name and a spec."""
    for document in documents:
        is_today = inside(document, "apiVersion") in VERSIONS and document.get("kind") == kind
        if is_today and name_of(document) and isinstance(document.get("spec"), dict):
            yield document


def name_of(document: Any) -> str:
    name = inside(document, "metadata", "name")
    return name if isinstance(name, str) else ""


def class_of(pool: Document) -> str:
    """The name of the class that a pool refers to."""
    name = inside(pool, "spec", "template", "spec", "nodeClassRef", "name")
    return name if isinstance(name, str) else ""


def inside(value: Any, *path: str) -> Any:
    """What stands at the path, or nothing where the way there is not one of mappings."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
