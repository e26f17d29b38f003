"""The conversion itself: classes first, then pools, then who shares which class, then claims.

Names used by documents around the converted ones, and names used twice, are noted.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError, FieldPath
from wainwright.api.legacy.legacy_validation import (
    legacy_kind,
    validate_legacy_object,
    without_nulls,
)
from wainwright.api.legacy.v1alpha5 import AWSNodeTemplate, Provisioner
from wainwright.api.legacy.v1beta1 import EC2NodeClassV1Beta1, NodeClaimV1Beta1, NodePoolV1Beta1
from wainwright.api.wire import WireStruct
from wainwright.manifests.convert.conversion_draft import (
    CURRENT_VERSIONS,
    ConversionDraft,
    ConversionNote,
    JsonObject,
    class_name_of,
    current_objects,
    get_nested,
    object_name,
)
from wainwright.manifests.convert.kubelet_settings import (
    ClassSettings,
    NodeClasses,
    assign_class_settings,
)
from wainwright.manifests.convert.nodeclasses import convert_node_class, convert_node_template
from wainwright.manifests.convert.nodepools import (
    convert_node_claim,
    convert_node_pool,
    convert_provisioner,
)

RENAMED_KEYS: Final = {
    "karpenter.sh/provisioner-name": "karpenter.sh/nodepool",
    "karpenter.sh/do-not-evict": "karpenter.sh/do-not-disrupt",
    "karpenter.sh/do-not-consolidate": "karpenter.sh/do-not-disrupt",
}
"""Labels and annotations that pods and nodes carry, which nothing reads any more."""


def note_old_names(documents: Iterable[tuple[int, Any]]) -> Iterator[ConversionNote]:
    """Old names in documents that are not converted, such as the node selector of a Deployment."""
    for index, document in documents:
        for path, name in _find_old_names(document):
            yield ConversionNote(
                document=index,
                path=path,
                effect="changed",
                message=f"nothing reads {name} any more; write {RENAMED_KEYS[name]}",
            )


def _find_old_names(document: Any) -> Iterator[tuple[FieldPath, str]]:
    """Every key and text that is an old name, in the order of the document."""
    waiting: list[tuple[FieldPath, Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            if value in RENAMED_KEYS:
                yield path, value
            continue
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            entries = value.items()
            yield from (((*path, key), key) for key in value if key in RENAMED_KEYS)
        elif isinstance(value, list):
            entries = enumerate(value)
        waiting.extend(reversed([((*path, step), inner) for step, inner in entries]))


def note_duplicates(
    made: Iterable[tuple[int, Any]], converted: Set[int]
) -> Iterator[ConversionNote]:
    """Two objects of one name after the conversion: the later would replace the earlier."""
    first: dict[tuple[str, str], int] = {}
    for index, document in made:
        key = _object_key(document)
        if key is None:
            continue
        before = first.setdefault(key, index)
        if before != index and (index in converted or before in converted):
            yield ConversionNote(
                document=index,
                path=("metadata", "name"),
                effect="changed",
                message=f"there are two of {key[0]} {key[1]} now; keep one",
            )


def _object_key(document: Any) -> tuple[str, str] | None:
    kind, name = get_nested(document, "kind"), object_name(document)
    ours = get_nested(document, "apiVersion") in CURRENT_VERSIONS
    return (kind, name) if ours and isinstance(kind, str) and name else None


class ConversionError(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of an old document, which is therefore left as it is."""

    document: int
    """Which document of the input, counted from 0."""
    field_error: FieldError


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the input."""

    documents: list[JsonObject]
    origins: list[int]
    """For each of the documents, which one of the input it comes from."""
    notes: list[ConversionNote]
    field_errors: list[ConversionError]


def convert_documents(documents: Sequence[Any]) -> Conversion:
    """Turn old kinds into v1; everything else comes out as it is, at its place.

    An old document that is not what its kind asks for stays unconverted, and its faults are told.
    """
    work = _Converter(documents)
    work.convert_classes()
    work.convert_pools()
    work.convert_claims()
    return work.result()


class _Converter:
    """The documents under way."""

    def __init__(self, documents: Sequence[Any]) -> None:
        self.documents = documents
        self.kinds: list[type[WireStruct] | None] = [
            legacy_kind(document) for document in documents
        ]
        self.field_errors: list[ConversionError] = []
        self.drafts: dict[int, ConversionDraft] = {}
        self.classes = NodeClasses()
        self.wishes: dict[int, ClassSettings] = {}
        for index, document in enumerate(documents):
            self._begin(index, document)

    def _begin(self, index: int, document: JsonObject) -> None:
        if self.kinds[index] is None:
            return
        found = validate_legacy_object(document)
        self.field_errors.extend(
            ConversionError(document=index, field_error=field_error) for field_error in found
        )
        if not found:
            self.drafts[index] = ConversionDraft(index, without_nulls(document))

    def _of(self, *kinds: type[WireStruct]) -> Iterator[ConversionDraft]:
        for index, draft in self.drafts.items():
            if self.kinds[index] in kinds:
                yield draft

    def convert_classes(self) -> None:
        """Where a name is there in several versions, the newest is the one referred to."""
        for document in current_objects(self.documents, "EC2NodeClass"):
            self.classes.add(document, converted=False)
        for draft in self._of(EC2NodeClassV1Beta1):
            convert_node_class(draft)
            self.classes.add(draft.made, converted=True)
        for draft in self._of(AWSNodeTemplate):
            convert_node_template(draft)
            self.classes.add(draft.made, converted=True)

    def convert_pools(self) -> None:
        for draft in self._of(Provisioner, NodePoolV1Beta1):
            if self.kinds[draft.index] is Provisioner:
                wish = convert_provisioner(draft, self.classes)
            else:
                wish = convert_node_pool(draft)
            if wish is not None:
                self.wishes[draft.index] = wish
        settled = [
            ClassSettings(class_name=class_name_of(pool))
            for pool in current_objects(self.documents, "NodePool")
        ]
        assign_class_settings([*self.wishes.values(), *settled], self.classes)

    def convert_claims(self) -> None:
        pools = {object_name(pool): pool for pool in current_objects(self.documents, "NodePool")}
        wishes = {}
        for draft in self._of(NodePoolV1Beta1):
            pools[draft.name] = draft.made
            if draft.index in self.wishes:
                wishes[draft.name] = self.wishes[draft.index]
        for draft in self._of(NodeClaimV1Beta1):
            convert_node_claim(draft, pools, wishes)

    def result(self) -> Conversion:
        made: list[tuple[int, JsonObject]] = []
        for index, document in enumerate(self.documents):
            draft = self.drafts.get(index)
            made.append((index, document if draft is None else draft.made))
            made.extend(
                (index, follower) for follower in ([] if draft is None else draft.followers)
            )
        return Conversion(
            documents=[document for _, document in made],
            origins=[index for index, _ in made],
            notes=_sort_notes(self._notes(made)),
            field_errors=self.field_errors,
        )

    def _notes(self, made: list[tuple[int, JsonObject]]) -> Iterator[ConversionNote]:
        for draft in self.drafts.values():
            yield from draft.notes
        yield from note_duplicates(made, self.drafts.keys())
        if any(self.kinds[index] is Provisioner for index in self.drafts):
            others = (item for item in enumerate(self.documents) if self.kinds[item[0]] is None)
            yield from note_old_names(others)


def _sort_notes(notes: Iterable[ConversionNote]) -> list[ConversionNote]:
    return sorted(notes, key=lambda note: note.document)
