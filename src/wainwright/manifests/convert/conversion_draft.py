"""A document being converted to v1: notes on changes, metadata, labels, taints, status.
v1 documents of the input may be malformed: they have not been validated at this point.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from wainwright.api.field_error import FieldPath
from wainwright.api.karpenter.shared_fields import label_rules
from wainwright.api.validation import cel

JsonObject = dict[str, Any]
"""An object, or a part of one, as plain values."""

NoteEffect = Literal["assumed", "changed", "lost", "missing"]
"""assumed: absent, and a value was chosen. changed: it has another meaning or name now. lost: it
could not be carried over. missing: there is a placeholder that must be filled in."""


class ConversionNote(msgspec.Struct, frozen=True, kw_only=True):
    """One note about the conversion."""

    document: int
    """Which document of the input, counted from 0."""
    path: FieldPath
    effect: NoteEffect
    message: str


class ConversionDraft:
    """A document being converted: its source, its result and notes."""

    __slots__ = ("converted", "extra_documents", "index", "notes", "source")

    def __init__(self, index: int, source: dict[str, Any]) -> None:
        self.index = index
        self.source = source
        self.converted: dict[str, Any] = {}
        self.extra_documents: list[dict[str, Any]] = []
        """Further documents that this one is converted to, in order."""
        self.notes: list[ConversionNote] = []

    @property
    def name(self) -> str:
        return self.source["metadata"].get("name") or ""

    def assumed(self, path: FieldPath, message: str) -> None:
        self._note("assumed", path, message)

    def changed(self, path: FieldPath, message: str) -> None:
        self._note("changed", path, message)

    def lost(self, path: FieldPath, message: str) -> None:
        self._note("lost", path, message)

    def missing(self, path: FieldPath, message: str) -> None:
        self._note("missing", path, message)

    def _note(self, effect: NoteEffect, path: FieldPath, message: str) -> None:
        self.notes.append(
            ConversionNote(document=self.index, path=path, effect=effect, message=message)
        )


CURRENT_VERSIONS: Final = ("karpenter.sh/v1", "karpenter.k8s.aws/v1")


def current_objects(documents: Sequence[Any], kind: str) -> Iterator[JsonObject]:
    """The objects of a kind that are v1 already and have a name and a spec."""
    for document in documents:
        is_current = (
            get_nested(document, "apiVersion") in CURRENT_VERSIONS and document.get("kind") == kind
        )
        if is_current and object_name(document) and isinstance(document.get("spec"), dict):
            yield document


def object_name(document: Any) -> str:
    name = get_nested(document, "metadata", "name")
    return name if isinstance(name, str) else ""


def class_name_of(pool: JsonObject) -> str:
    """The name of the class that a pool refers to."""
    name = get_nested(pool, "spec", "template", "spec", "nodeClassRef", "name")
    return name if isinstance(name, str) else ""


def get_nested(value: Any, *path: str) -> Any:
    """The value at the path; None where a parent is missing or no mapping."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


USER_METADATA: Final = ("name", "generateName", "labels", "annotations")
RECORDED_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Kept for a NodeClaim as well: it records a node, and a plan needs to know if it is deleted."""

STALE_ANNOTATIONS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
)
"""Annotations about the old object, which would be wrong on the new one."""


def new_object(
    draft: ConversionDraft, api_version: str, kind: str, *, record: bool = False
) -> dict[str, Any]:
    """The parts of the new object that all kinds share: type and metadata."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": _kept_metadata(draft, record=record),
    }


def _kept_metadata(draft: ConversionDraft, *, record: bool) -> dict[str, Any]:
    source = draft.source["metadata"]
    kept_keys = (*USER_METADATA, *RECORDED_METADATA) if record else USER_METADATA
    kept = {key: source[key] for key in kept_keys if source.get(key)}
    for key in ("labels", "annotations"):
        entries = {name: text for name, text in kept.pop(key, {}).items() if text is not None}
        if key == "annotations":
            entries = _without_stale_annotations(entries, draft)
        if entries:
            kept[key] = entries
    _note_dropped_metadata(draft, [key for key in source if key not in kept_keys])
    return kept


def _without_stale_annotations(
    annotations: dict[str, str], draft: ConversionDraft
) -> dict[str, str]:
    for key in STALE_ANNOTATIONS:
        if key in annotations:
            draft.lost(
                ("metadata", "annotations", key),
                f"{key} describes the old object and is left out; it is written again",
            )
    return {key: text for key, text in annotations.items() if key not in STALE_ANNOTATIONS}


def _note_dropped_metadata(draft: ConversionDraft, keys: list[str]) -> None:
    if keys:
        draft.lost(
            ("metadata",),
            f"this belongs to the old object and is left out: {', '.join(sorted(keys))}",
        )
    if not draft.name and not draft.source["metadata"].get("generateName"):
        draft.missing(("metadata", "name"), "the object has no name; give it one")


RENAMED_LABELS: Final = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}
"""Aliases that Karpenter translated before v1; in v1 they are ordinary labels."""

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
RENAMED_ANNOTATIONS: Final = {
    "karpenter.sh/do-not-consolidate": DO_NOT_DISRUPT,
    "karpenter.sh/do-not-evict": DO_NOT_DISRUPT,
}

JsonRequirement = dict[str, Any]


def convert_labels(
    source: dict[str, str], path: FieldPath, draft: ConversionDraft
) -> dict[str, str]:
    """The labels that v1 accepts, under their new names; one written under both keeps the new."""
    converted: dict[str, str] = {}
    for key, value in source.items():
        alias = RENAMED_LABELS.get(key)
        if alias in source:
            draft.lost((*path, key), f"{key} is left out, because {alias} is there as well")
            continue
        name = _current_label(key, (*path, key), draft, pool_is_free=False)
        if name is not None:
            converted[name] = value
    return converted


def convert_annotations(
    source: dict[str, str], path: FieldPath, draft: ConversionDraft
) -> dict[str, str]:
    """The annotations under their v1 names; those against disruption have one name now."""
    converted: dict[str, str] = {}
    for key, value in source.items():
        name = RENAMED_ANNOTATIONS.get(key, key)
        if name != key and (name in source or name in converted):
            draft.lost((*path, key), f"{key} is left out, because {name} is there as well")
            continue
        if name != key:
            draft.changed((*path, key), f"{key} is now called {name} and forbids every disruption")
        converted[name] = value
    return converted


def convert_requirements(
    source: Iterable[JsonRequirement],
    path: FieldPath,
    draft: ConversionDraft,
    *,
    pool_is_free: bool = False,
) -> list[JsonRequirement]:
    """The requirements that v1 accepts, in order."""
    converted = []
    for index, item in enumerate(source):
        place = (*path, index)
        name = _current_label(item["key"], (*place, "key"), draft, pool_is_free=pool_is_free)
        if name is None:
            continue
        if item["operator"] == "NotIn" and not item.get("values"):
            draft.lost(place, "NotIn without values excludes nothing and is left out")
            continue
        converted.append({**item, "key": name})
    return converted


def _current_label(
    key: str, path: FieldPath, draft: ConversionDraft, *, pool_is_free: bool
) -> str | None:
    """The label's name in v1; None where v1 rejects it."""
    name = RENAMED_LABELS.get(key, key)
    violation = _label_violation(name, pool_is_free=pool_is_free)
    if violation:
        draft.lost(path, f"{key} is left out: {violation}")
        return None
    if name != key:
        draft.changed(path, f"{key} is now called {name}")
    return name


@lru_cache(maxsize=4096)
def _label_violation(name: str, *, pool_is_free: bool) -> str:
    """Why v1 rejects a label, by its CEL rules; empty where it accepts it.

    Cached: thousands of claims have the same few labels, and each rule takes a run of CEL.
    """
    for rule, message in label_rules("self", pool_is_free=pool_is_free):
        if cel.evaluate_rule(rule, name) is False:
            return message
    return ""


def convert_taints(source: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The taints; an empty value, which v1 rejects, is dropped."""
    return [{key: item for key, item in taint.items() if item != ""} for taint in source]


def copy_status(draft: ConversionDraft) -> None:
    """Copies the status, conditions without the fields that v1 does not have."""
    status = dict(draft.source.get("status", {}))
    if "conditions" in status:
        status["conditions"] = _convert_conditions(status["conditions"], draft)
    if any(status.values()):
        draft.converted["status"] = {key: item for key, item in status.items() if item}


def _convert_conditions(
    source: list[dict[str, Any]], draft: ConversionDraft
) -> list[dict[str, Any]]:
    converted = []
    for index, condition in enumerate(source):
        path = ("status", "conditions", index)
        if "lastTransitionTime" not in condition:
            draft.lost(path, f"{condition['type']} is left out: it does not say since when")
            continue
        if "severity" in condition:
            draft.lost((*path, "severity"), "conditions have no severity any more")
        converted.append({key: item for key, item in condition.items() if key != "severity"})
    return _unique_conditions(converted, draft)


def _unique_conditions(
    source: list[dict[str, Any]], draft: ConversionDraft
) -> list[dict[str, Any]]:
    """One condition for each type, because v1 keeps them as a map."""
    converted: dict[str, dict[str, Any]] = {}
    for condition in source:
        if condition["type"] in converted:
            draft.lost(("status", "conditions"), f"{condition['type']} is there twice; one is kept")
        converted.setdefault(condition["type"], condition)
    return list(converted.values())
