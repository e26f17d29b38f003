"""Kubelet settings in the form of v1, and the EC2NodeClass that gets them.
Kubelet settings used to belong to the pool and now belong to the class. Where all pools of a class
have equal settings the class gets them; where they differ each pool with settings gets its own copy
of the class, named `<class>-<pool>`, and the class itself stays unchanged.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Final

import msgspec

from wainwright.api.field_error import FieldPath
from wainwright.api.legacy.legacy_fields import SIGNAL_OF_FIELD
from wainwright.manifests.convert.conversion_draft import (
    ConversionDraft,
    JsonObject,
    get_nested,
    object_name,
)
from wainwright.manifests.convert.nodeclasses import placeholder_class

SOFT_GRACE_PERIOD: Final = "1m30s"
"""For a soft threshold without a grace period: v1 requires one, and the kubelet has no default.
It is the period of the example in the kubelet's documentation."""

RESERVED_FIELDS: Final = ("kubeReserved", "systemReserved")
MOVED_FIELDS: Final = ("containerRuntime", "evictionThreshold")


def convert_kubelet(source: JsonObject, path: FieldPath, draft: ConversionDraft) -> JsonObject:
    """The settings in the form of v1; empty where there are none."""
    settings = {key: item for key, item in source.items() if key not in MOVED_FIELDS}
    for field in RESERVED_FIELDS:
        if field in settings:
            settings[field] = {name: str(amount) for name, amount in settings[field].items()}
    if "containerRuntime" in source:
        draft.lost(
            (*path, "containerRuntime"),
            "the container runtime cannot be chosen any more; nodes run containerd",
        )
    _convert_thresholds(settings, source.get("evictionThreshold", {}), path, draft)
    _convert_soft_thresholds(settings, source, path, draft)
    return settings


def _convert_thresholds(
    settings: JsonObject,
    thresholds: dict[str, dict[str, str]],
    path: FieldPath,
    draft: ConversionDraft,
) -> None:
    """evictionThreshold.hard.memoryAvailable is evictionHard["memory.available"] in v1."""
    for strength, field in (("hard", "evictionHard"), ("soft", "evictionSoft")):
        thresholds_by_field = thresholds.get(strength, {})
        existing = settings.get(field, {})
        for name, threshold in thresholds_by_field.items():
            signal = SIGNAL_OF_FIELD[name]
            if existing.get(signal, threshold) != threshold:
                draft.lost(
                    (*path, "evictionThreshold", strength, name),
                    f'{field}["{signal}"] says {existing[signal]} and is the one that counts',
                )
        converted = {
            SIGNAL_OF_FIELD[name]: threshold for name, threshold in thresholds_by_field.items()
        }
        if converted or existing:
            settings[field] = {**converted, **existing}


def _convert_soft_thresholds(
    settings: JsonObject, source: JsonObject, path: FieldPath, draft: ConversionDraft
) -> None:
    """v1 requires a grace period for every soft threshold, and the reverse."""
    soft, grace = settings.get("evictionSoft", {}), settings.pop("evictionSoftGracePeriod", {})
    for signal, place in _soft_threshold_paths(source, path).items():
        if signal not in grace:
            draft.assumed(
                place,
                f"soft eviction at {signal} needs a grace period; {SOFT_GRACE_PERIOD} is assumed",
            )
    for signal in grace:
        if signal not in soft:
            draft.lost(
                (*path, "evictionSoftGracePeriod", signal),
                f"a grace period for {signal} without a soft threshold does nothing",
            )
    periods = {signal: grace.get(signal, SOFT_GRACE_PERIOD) for signal in soft}
    if periods:
        settings["evictionSoftGracePeriod"] = periods


def _soft_threshold_paths(source: JsonObject, path: FieldPath) -> dict[str, FieldPath]:
    """The path of each soft threshold in the source."""
    thresholds_by_field = source.get("evictionThreshold", {}).get("soft", {})
    places = {
        SIGNAL_OF_FIELD[name]: (*path, "evictionThreshold", "soft", name)
        for name in thresholds_by_field
    }
    return places | {
        signal: (*path, "evictionSoft", signal) for signal in source.get("evictionSoft", {})
    }


MAX_CLASS_NAME_LENGTH: Final = 245
"""Names have at most 253 characters; this leaves room for a number."""


class ClassSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, its class, and the kubelet settings that it needs in the class."""

    class_name: str
    settings: JsonObject = {}
    path: FieldPath = ()
    """The path of the settings in the pool's document, or else of the reference."""
    draft: ConversionDraft | None = None
    """The pool, if it is converted; a v1 pool needs the class unchanged."""


class NodeClasses:
    """The classes that pools may refer to, by name, and all names in use."""

    def __init__(self) -> None:
        self._classes: dict[str, tuple[JsonObject, bool]] = {}
        self._used_names: set[str] = set()

    def add(self, document: JsonObject, *, converted: bool) -> None:
        name = object_name(document)
        self._classes.setdefault(name, (document, converted))
        self._used_names.add(name)

    def find(self, name: str) -> tuple[JsonObject | None, bool]:
        """The class and whether it may be changed: a class that was v1 already may not."""
        return self._classes.get(name, (None, False))

    def unused_name(self, name: str) -> str:
        """The name, or the name with the first number that is not in use."""
        prefix = name[:MAX_CLASS_NAME_LENGTH].rstrip("-.")
        number, candidate = 1, prefix
        while candidate in self._used_names:
            number += 1
            candidate = f"{prefix}-{number}"
        self._used_names.add(candidate)
        return candidate


def assign_class_settings(pool_settings: Iterable[ClassSettings], classes: NodeClasses) -> None:
    """Moves the settings of all pools into classes, in the order of the pools."""
    by_class: dict[str, list[ClassSettings]] = {}
    for each in pool_settings:
        by_class.setdefault(each.class_name, []).append(each)
    for name, group in by_class.items():
        _assign_to_class(name, group, classes)


def _assign_to_class(name: str, group: list[ClassSettings], classes: NodeClasses) -> None:
    node_class, is_changeable = classes.find(name)
    if node_class is None:
        _note_missing_class(name, group)
    all_equal = all(pool_settings.settings == group[0].settings for pool_settings in group)
    if node_class is not None and is_changeable and all_equal and group[0].settings:
        node_class["spec"]["kubelet"] = deepcopy(group[0].settings)
    for pool_settings in group:
        if pool_settings.draft is None or not pool_settings.settings:
            continue
        if get_nested(node_class, "spec", "kubelet") == pool_settings.settings:
            pool_settings.draft.changed(
                pool_settings.path, f"kubelet settings belong to the class now: EC2NodeClass {name}"
            )
        else:
            _copy_class(
                pool_settings,
                pool_settings.draft,
                node_class,
                classes,
                _copy_reason(node_class, is_changeable=is_changeable),
            )


def _copy_reason(node_class: JsonObject | None, *, is_changeable: bool) -> str:
    if node_class is None:
        return "is not in the input"
    return "is shared by pools with other settings" if is_changeable else "is v1 and stays as it is"


def _copy_class(
    pool_settings: ClassSettings,
    draft: ConversionDraft,
    node_class: JsonObject | None,
    classes: NodeClasses,
    reason: str,
) -> None:
    class_name = pool_settings.class_name
    name = classes.unused_name(f"{class_name}-{draft.name or draft.index}")
    draft.changed(
        pool_settings.path,
        f"kubelet settings belong to the class now; EC2NodeClass {class_name} {reason}, "
        f"so this pool gets its own: {name}",
    )
    spec = (
        placeholder_class(pool_settings.path, draft)
        if node_class is None
        else deepcopy(node_class["spec"])
    )
    metadata = deepcopy(get_nested(node_class, "metadata") or {})
    draft.extra_documents.append(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": name, **_user_metadata(metadata)},
            "spec": {**spec, "kubelet": deepcopy(pool_settings.settings)},
        }
    )
    class_reference_of(draft)["name"] = name


def _user_metadata(metadata: JsonObject) -> JsonObject:
    return {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}


def class_reference_of(draft: ConversionDraft) -> JsonObject:
    """The reference of a converted pool to its class."""
    reference: JsonObject = draft.converted["spec"]["template"]["spec"]["nodeClassRef"]
    return reference


def _note_missing_class(name: str, group: list[ClassSettings]) -> None:
    for pool_settings in group:
        if pool_settings.draft is not None and not pool_settings.settings:
            pool_settings.draft.assumed(
                pool_settings.path,
                f"EC2NodeClass {name} is not in the input; the cluster must have it",
            )
