"""A document on its way to v1: notes on what changed, metadata, labels, taints, status.

Documents of v1 among the input are read with care: nobody has validated them yet.
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
"""assumed: it was not written and has been chosen. changed: it now means or is called something
else. lost: it could not be carried over. missing: a placeholder stands where something must be
filled in."""


class ConversionNote(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to know."""

    document: int
    """Which document of the input, counted from 0."""
    path: FieldPath
    effect: NoteEffect
    message: str


class ConversionDraft:
    """A document on its way to v1: what it was, what it becomes, what is to be said of it."""

    __slots__ = ("followers", "index", "made", "notes", "source")

    def __init__(self, index: int, source: dict[str, Any]) -> None:
        self.index = index
        self.source = source
        self.made: dict[str, Any] = {}
        self.followers: list[dict[str, Any]] = []
        """Documents that this one has become besides, in order."""
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
    """The objects of a kind that are v1 already, as far as they have a name and a spec."""
    for document in documents:
        is_today = (
            get_nested(document, "apiVersion") in CURRENT_VERSIONS and document.get("kind") == kind
        )
        if is_today and object_name(document) and isinstance(document.get("spec"), dict):
            yield document


def object_name(document: Any) -> str:
    name = get_nested(document, "metadata", "name")
    return name if isinstance(name, str) else ""


def class_name_of(pool: JsonObject) -> str:
    """The name of the class that a pool refers to."""
    name = get_nested(pool, "spec", "template", "spec", "nodeClassRef", "name")
    return name if isinstance(name, str) else ""


def get_nested(value: Any, *path: str) -> Any:
    """What stands at the path, or nothing where the way there is not one of mappings."""
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
"""What a claim keeps besides: it is a record of a node, and a plan asks whether it is going."""

STALE_ANNOTATIONS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
)
"""Annotations about the old object; on the new one they would be read as its own and be wrong."""


def new_object(
    draft: ConversionDraft, api_version: str, kind: str, *, record: bool = False
) -> dict[str, Any]:
    """The new object as far as it is the same for every kind: type and metadata."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": _kept_metadata(draft, record=record),
    }


def _kept_metadata(draft: ConversionDraft, *, record: bool) -> dict[str, Any]:
    given = draft.source["metadata"]
    wanted = (*USER_METADATA, *RECORDED_METADATA) if record else USER_METADATA
    kept = {key: given[key] for key in wanted if given.get(key)}
    for key in ("labels", "annotations"):
        entries = {name: text for name, text in kept.pop(key, {}).items() if text is not None}
        if key == "annotations":
            entries = _without_stale_annotations(entries, draft)
        if entries:
            kept[key] = entries
    _note_dropped_metadata(draft, [key for key in given if key not in wanted])
    return kept


def _without_stale_annotations(
    annotations: dict[str, str], draft: ConversionDraft
) -> dict[str, str]:
    for key in STALE_ANNOTATIONS:
        if key in annotations:
            draft.lost(
                ("metadata", "annotations", key),
                f"{key} describes the old object and is left out; it is written anew",
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
"""Aliases that were translated on reading; in v1 they are labels like any other."""

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
RENAMED_ANNOTATIONS: Final = {
    "karpenter.sh/do-not-consolidate": DO_NOT_DISRUPT,
    "karpenter.sh/do-not-evict": DO_NOT_DISRUPT,
}

JsonRequirement = dict[str, Any]


def convert_labels(
    given: dict[str, str], path: FieldPath, draft: ConversionDraft
) -> dict[str, str]:
    """The labels that nodes may get; one that is written under its new name stays as it is."""
    made: dict[str, str] = {}
    for key, value in given.items():
        alias = RENAMED_LABELS.get(key)
        if alias in given:
            draft.lost((*path, key), f"{key} is left out, because {alias} is there as well")
            continue
        name = _current_label(key, (*path, key), draft, pool_is_free=False)
        if name is not None:
            made[name] = value
    return made


def convert_annotations(
    given: dict[str, str], path: FieldPath, draft: ConversionDraft
) -> dict[str, str]:
    """The annotations that nodes get; what kept a node from being disrupted has one name now."""
    made: dict[str, str] = {}
    for key, value in given.items():
        name = RENAMED_ANNOTATIONS.get(key, key)
        if name != key and (name in given or name in made):
            draft.lost((*path, key), f"{key} is left out, because {name} is there as well")
            continue
        if name != key:
            draft.changed((*path, key), f"{key} is now called {name} and forbids every disruption")
        made[name] = value
    return made


def convert_requirements(
    given: Iterable[JsonRequirement],
    path: FieldPath,
    draft: ConversionDraft,
    *,
    pool_is_free: bool = False,
) -> list[JsonRequirement]:
    """The requirements that v1 takes, in order."""
    made = []
    for index, item in enumerate(given):
        place = (*path, index)
        name = _current_label(item["key"], (*place, "key"), draft, pool_is_free=pool_is_free)
        if name is None:
            continue
        if item["operator"] == "NotIn" and not item.get("values"):
            draft.lost(place, "NotIn without values excludes nothing and is left out")
            continue
        made.append({**item, "key": name})
    return made


def _current_label(
    key: str, path: FieldPath, draft: ConversionDraft, *, pool_is_free: bool
) -> str | None:
    """What a label is called in v1, or nothing where v1 refuses it."""
    name = RENAMED_LABELS.get(key, key)
    refusal = _label_refusal(name, pool_is_free=pool_is_free)
    if refusal:
        draft.lost(path, f"{key} is left out: {refusal}")
        return None
    if name != key:
        draft.changed(path, f"{key} is now called {name}")
    return name


@lru_cache(maxsize=4096)
def _label_refusal(name: str, *, pool_is_free: bool) -> str:
    """Why v1 refuses a label, by its very rules; claims by the thousand name the same few."""
    for rule, message in label_rules("self", pool_is_free=pool_is_free):
        if cel.evaluate_rule(rule, name) is False:
            return message
    return ""


def convert_taints(given: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The taints; an empty value, which v1 does not take, is the same as none."""
    return [{key: item for key, item in taint.items() if item != ""} for taint in given]


def copy_status(draft: ConversionDraft) -> None:
    """The status as it is, its conditions without what v1 has no field for."""
    status = dict(draft.source.get("status", {}))
    if "conditions" in status:
        status["conditions"] = _convert_conditions(status["conditions"], draft)
    if any(status.values()):
        draft.made["status"] = {key: item for key, item in status.items() if item}


def _convert_conditions(
    given: list[dict[str, Any]], draft: ConversionDraft
) -> list[dict[str, Any]]:
    made = []
    for index, condition in enumerate(given):
        path = ("status", "conditions", index)
        if "lastTransitionTime" not in condition:
            draft.lost(path, f"{condition['type']} is left out: it does not say since when")
            continue
        if "severity" in condition:
            draft.lost((*path, "severity"), "conditions have no severity any more")
        made.append({key: item for key, item in condition.items() if key != "severity"})
    return _unique_conditions(made, draft)


def _unique_conditions(given: list[dict[str, Any]], draft: ConversionDraft) -> list[dict[str, Any]]:
    """v1 keeps conditions as a map by type."""
    made: dict[str, dict[str, Any]] = {}
    for condition in given:
        if condition["type"] in made:
            draft.lost(("status", "conditions"), f"{condition['type']} is there twice; one is kept")
        made.setdefault(condition["type"], condition)
    return list(made.values())
