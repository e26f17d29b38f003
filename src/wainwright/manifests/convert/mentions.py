"""What a conversion means for the documents around it: names used elsewhere, names used twice."""

from collections.abc import Iterable, Iterator, Set
from typing import Any, Final

from wainwright.api.fault import Path
from wainwright.manifests.convert.notes import Note
from wainwright.manifests.convert.today import VERSIONS, inside, name_of

OLD_NAMES: Final = {
    "karpenter.sh/provisioner-name": "karpenter.sh/nodepool",
    "karpenter.sh/do-not-evict": "karpenter.sh/do-not-disrupt",
    "karpenter.sh/do-not-consolidate": "karpenter.sh/do-not-disrupt",
}
"""Labels and annotations that pods and nodes carry, which nothing reads any more."""

Document = dict[str, Any]


def mentions(documents: Iterable[tuple[int, Any]]) -> Iterator[Note]:
    """Old names in documents that are not converted, such as the node selector of a Deployment."""
    for index, document in documents:
        for path, name in _found(document):
            yield Note(
                document=index,
                path=path,
                effect="changed",
                message=f"nothing reads {name} any more; write {OLD_NAMES[name]}",
            )


def _found(document: Any) -> Iterator[tuple[Path, str]]:
    """Every key and text that is an old name, in the order of the document."""
    waiting: list[tuple[Path, Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            if value in OLD_NAMES:
                yield path, value
            continue
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            entries = value.items()
            yield from (((*path, key), key) for key in value if key in OLD_NAMES)
        elif isinstance(value, list):
            entries = enumerate(value)
        waiting.extend(reversed([((*path, step), inner) for step, inner in entries]))


def doubles(made: Iterable[tuple[int, Any]], converted: Set[int]) -> Iterator[Note]:
    """Two objects of one name after the conversion: the later would replace the earlier."""
    first: dict[tuple[str, str], int] = {}
    for index, document in made:
        key = _key(document)
        if key is None:
            continue
        before = first.setdefault(key, index)
        if before != index and (index in converted or before in converted):
            yield Note(
                document=index,
                path=("metadata", "name"),
                effect="changed",
                message=f"there are two of {key[0]} {key[1]} now; keep one",
            )


def _key(document: Any) -> tuple[str, str] | None:
    kind, name = inside(document, "kind"), name_of(document)
    ours = inside(document, "apiVersion") in VERSIONS
    return (kind, name) if ours and isinstance(kind, str) and name else None
