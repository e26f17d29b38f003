"""The conversion: classes first, then pools and the classes they share, then claims.
Notes are added for old names in other documents and for duplicate names.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from copy import deepcopy
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError, FieldPath, PathStep
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
"""Labels and annotations of pods and nodes that v1 ignores, and their new names."""


def note_old_names(documents: Iterable[tuple[int, Any]]) -> Iterator[ConversionNote]:
    """Notes on old names in documents that are not converted, as a Deployment's selector."""
    for index, document in documents:
        for path, name in _find_old_names(document):
            yield ConversionNote(
                document=index,
                path=path,
                effect="changed",
                message=f"nothing reads {name} any more; write {RENAMED_KEYS[name]}",
            )


def _find_old_names(document: Any) -> Iterator[tuple[FieldPath, str]]:
    """Every key and string that is an old name, in document order."""
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
    documents: Iterable[tuple[int, Any]], converted: Set[int]
) -> Iterator[ConversionNote]:
    """Notes on objects that have the same name after the conversion."""
    first: dict[tuple[str, str], int] = {}
    for index, document in documents:
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
    """A field error of a legacy document, which is therefore not converted."""

    document: int
    """Which document of the input, counted from 0."""
    field_error: FieldError


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a conversion."""

    documents: list[JsonObject]
    origins: list[int]
    """For each document, the index of its source document."""
    notes: list[ConversionNote]
    field_errors: list[ConversionError]


def convert_documents(
    documents: Sequence[Any], *, ignore_defaults: bool = False, drop_unknown_fields: bool = False
) -> Conversion:
    """Convert legacy kinds to v1; all other documents stay unchanged, at their place.
    An invalid legacy document is not converted, and its field errors are reported.
    `ignore_defaults` leaves out the requirements that a Provisioner implied;
    with `drop_unknown_fields` a document is converted without fields that its kind did not have.
    """
    converter = _Converter(documents, ignore_defaults, drop_unknown_fields)
    converter.convert_classes()
    converter.convert_pools()
    converter.convert_claims()
    return converter.result()


class _Converter:
    """The state of one conversion."""

    def __init__(
        self, documents: Sequence[Any], ignore_defaults: bool, drop_unknown_fields: bool
    ) -> None:
        self.documents = documents
        self.ignore_defaults = ignore_defaults
        self.drop_unknown_fields = drop_unknown_fields
        self.kinds: list[type[WireStruct] | None] = [
            legacy_kind(document) for document in documents
        ]
        self.field_errors: list[ConversionError] = []
        self.drafts: dict[int, ConversionDraft] = {}
        self.classes = NodeClasses()
        self.pool_settings: dict[int, ClassSettings] = {}
        for index, document in enumerate(documents):
            self._start_draft(index, document)

    def _start_draft(self, index: int, document: JsonObject) -> None:
        if self.kinds[index] is None:
            return
        field_errors = validate_legacy_object(document)
        self.field_errors.extend(
            ConversionError(document=index, field_error=field_error) for field_error in field_errors
        )
        unknown = [each.path for each in field_errors if each.pruned]
        if not field_errors or (self.drop_unknown_fields and len(unknown) == len(field_errors)):
            known = _without_fields(document, unknown)
            self.drafts[index] = ConversionDraft(index, without_nulls(known))

    def _drafts_of(self, *kinds: type[WireStruct]) -> Iterator[ConversionDraft]:
        for index, draft in self.drafts.items():
            if self.kinds[index] in kinds:
                yield draft

    def convert_classes(self) -> None:
        """Converts classes; where a name exists in several versions, references mean the newest."""
        for document in current_objects(self.documents, "EC2NodeClass"):
            self.classes.add(document, converted=False)
        for draft in self._drafts_of(EC2NodeClassV1Beta1):
            convert_node_class(draft)
            self.classes.add(draft.converted, converted=True)
        for draft in self._drafts_of(AWSNodeTemplate):
            convert_node_template(draft)
            self.classes.add(draft.converted, converted=True)

    def convert_pools(self) -> None:
        for draft in self._drafts_of(Provisioner, NodePoolV1Beta1):
            if self.kinds[draft.index] is Provisioner:
                settings = convert_provisioner(
                    draft, self.classes, ignore_defaults=self.ignore_defaults
                )
            else:
                settings = convert_node_pool(draft)
            if settings is not None:
                self.pool_settings[draft.index] = settings
        current_settings = [
            ClassSettings(class_name=class_name_of(pool))
            for pool in current_objects(self.documents, "NodePool")
        ]
        assign_class_settings([*self.pool_settings.values(), *current_settings], self.classes)

    def convert_claims(self) -> None:
        pools = {object_name(pool): pool for pool in current_objects(self.documents, "NodePool")}
        settings_by_pool = {}
        for draft in self._drafts_of(NodePoolV1Beta1):
            pools[draft.name] = draft.converted
            if draft.index in self.pool_settings:
                settings_by_pool[draft.name] = self.pool_settings[draft.index]
        for draft in self._drafts_of(NodeClaimV1Beta1):
            convert_node_claim(draft, pools, settings_by_pool)

    def result(self) -> Conversion:
        converted: list[tuple[int, JsonObject]] = []
        for index, document in enumerate(self.documents):
            draft = self.drafts.get(index)
            converted.append((index, document if draft is None else draft.converted))
            converted.extend(
                (index, extra) for extra in ([] if draft is None else draft.extra_documents)
            )
        return Conversion(
            documents=[document for _, document in converted],
            origins=[index for index, _ in converted],
            notes=_sort_notes(self._notes(converted)),
            field_errors=self.field_errors,
        )

    def _notes(self, converted: list[tuple[int, JsonObject]]) -> Iterator[ConversionNote]:
        for draft in self.drafts.values():
            yield from draft.notes
        yield from note_duplicates(converted, self.drafts.keys())
        if any(self.kinds[index] is Provisioner for index in self.drafts):
            others = (item for item in enumerate(self.documents) if self.kinds[item[0]] is None)
            yield from note_old_names(others)


def _without_fields(document: JsonObject, paths: Sequence[FieldPath]) -> JsonObject:
    if not paths:
        return document
    known = deepcopy(document)
    for *outer, field in paths:
        _value_at(known, outer).pop(field)
    return known


def _value_at(value: Any, path: Iterable[PathStep]) -> Any:
    """The value at a path that exists; it may lead through lists."""
    for step in path:
        value = value[step]
    return value


def _sort_notes(notes: Iterable[ConversionNote]) -> list[ConversionNote]:
    return sorted(notes, key=lambda note: note.document)
