"""The same object twice in the input: the later one counts."""

from collections.abc import Sequence
from typing import Any, TypeVar

from wainwright.api.kinds import KindFamily, KnownKind
from wainwright.api.kubernetes.label_validation import CLUSTER_SCOPED_KINDS
from wainwright.manifests.documents import ManifestDocument
from wainwright.manifests.problems import Problem

IdentifiedDocument = TypeVar("IdentifiedDocument", bound=tuple[ManifestDocument, Any])


def replace_duplicates(
    objects: Sequence[IdentifiedDocument],
) -> tuple[list[IdentifiedDocument], list[Problem]]:
    """The objects without those that a later one replaces, and a problem for each of these."""
    latest: dict[tuple[str, str, str, str], int] = {}
    replaced: set[int] = set()
    problems = []
    for index, (document, kind) in enumerate(objects):
        key = _object_key(document, kind)
        if key is None:
            continue
        earlier = latest.get(key)
        latest[key] = index
        if earlier is not None:
            replaced.add(earlier)
            problems.append(_duplicate_problem(document, objects[earlier][0], key))
    if not replaced:
        return list(objects), []
    return [each for index, each in enumerate(objects) if index not in replaced], problems


def _object_key(
    document: ManifestDocument, kind: KnownKind | None
) -> tuple[str, str, str, str] | None:
    meta = document.value.get("metadata") if kind is not None else None
    if kind is None or not isinstance(meta, dict) or not meta.get("name"):
        return None
    group = kind.api_version.rpartition("/")[0]
    namespace = str(meta.get("namespace") or "default") if _is_namespaced(kind) else ""
    return group, kind.name, namespace, str(meta["name"])


def _is_namespaced(kind: KnownKind) -> bool:
    """All kinds but Kubernetes' own are cluster-scoped."""
    return kind.family is KindFamily.KUBERNETES and kind.name not in CLUSTER_SCOPED_KINDS


def _duplicate_problem(
    document: ManifestDocument, earlier: ManifestDocument, key: tuple[str, str, str, str]
) -> Problem:
    _, kind, _, name = key
    return Problem(
        file=document.file,
        line=document.line(("metadata", "name")),
        document=document.source.number,
        path="metadata.name",
        found=name,
        message=f"{kind} {name} is also in {earlier.file}, line {earlier.line(())}; "
        "this one, the later, replaces it",
        hint="keep one of them",
    )
