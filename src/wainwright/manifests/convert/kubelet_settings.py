"""Kubelet settings, as v1 writes them, and into which EC2NodeClass they go.

Settings used to belong to the pool and now belong to the class. A class that all its pools agree
about takes them; where they differ each pool with settings gets its own copy of the class, called
`<class>-<pool>`, and the class itself stays as it was.
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
"""What a soft threshold without a grace period gets: v1 wants one, and the kubelet has no default.
It is the period of the example in the kubelet's own documentation."""

RESERVED_FIELDS: Final = ("kubeReserved", "systemReserved")
MOVED_FIELDS: Final = ("containerRuntime", "evictionThreshold")


def convert_kubelet(given: JsonObject, path: FieldPath, draft: ConversionDraft) -> JsonObject:
    """The settings as v1 takes them; empty where nothing is left."""
    made = {key: item for key, item in given.items() if key not in MOVED_FIELDS}
    for field in RESERVED_FIELDS:
        if field in made:
            made[field] = {name: str(amount) for name, amount in made[field].items()}
    if "containerRuntime" in given:
        draft.lost(
            (*path, "containerRuntime"),
            "the container runtime cannot be chosen any more; nodes run containerd",
        )
    _convert_thresholds(made, given.get("evictionThreshold", {}), path, draft)
    _convert_soft_thresholds(made, given, path, draft)
    return made


def _convert_thresholds(
    made: JsonObject, thresholds: dict[str, dict[str, str]], path: FieldPath, draft: ConversionDraft
) -> None:
    """evictionThreshold.hard.memoryAvailable is evictionHard["memory.available"] in v1."""
    for strength, field in (("hard", "evictionHard"), ("soft", "evictionSoft")):
        named = thresholds.get(strength, {})
        present = made.get(field, {})
        for name, threshold in named.items():
            signal = SIGNAL_OF_FIELD[name]
            if present.get(signal, threshold) != threshold:
                draft.lost(
                    (*path, "evictionThreshold", strength, name),
                    f'{field}["{signal}"] says {present[signal]} and is the one that counts',
                )
        unfolded = {SIGNAL_OF_FIELD[name]: threshold for name, threshold in named.items()}
        if unfolded or present:
            made[field] = {**unfolded, **present}


def _convert_soft_thresholds(
    made: JsonObject, given: JsonObject, path: FieldPath, draft: ConversionDraft
) -> None:
    """v1 wants a grace period for every soft threshold, and a threshold for every grace period."""
    soft, grace = made.get("evictionSoft", {}), made.pop("evictionSoftGracePeriod", {})
    for signal, place in _soft_threshold_paths(given, path).items():
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
        made["evictionSoftGracePeriod"] = periods


def _soft_threshold_paths(given: JsonObject, path: FieldPath) -> dict[str, FieldPath]:
    """Where each soft threshold is written."""
    named = given.get("evictionThreshold", {}).get("soft", {})
    places = {SIGNAL_OF_FIELD[name]: (*path, "evictionThreshold", "soft", name) for name in named}
    return places | {
        signal: (*path, "evictionSoft", signal) for signal in given.get("evictionSoft", {})
    }


MAX_CLASS_NAME_LENGTH: Final = 245
"""A name has 253 characters at most; a number may follow."""


class ClassSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, the class it refers to, and the kubelet settings that it wants there."""

    class_name: str
    settings: JsonObject = {}
    path: FieldPath = ()
    """Where in the pool's document the settings are written, or else the reference."""
    draft: ConversionDraft | None = None
    """The pool, if it is converted; a pool of v1 wants the class as it is."""


class NodeClasses:
    """The classes that pools may refer to, by name; names that are taken stay taken."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[JsonObject, bool]] = {}
        self._taken: set[str] = set()

    def add(self, document: JsonObject, *, converted: bool) -> None:
        name = object_name(document)
        self._found.setdefault(name, (document, converted))
        self._taken.add(name)

    def find(self, name: str) -> tuple[JsonObject | None, bool]:
        """The class and whether it may be changed: what was v1 already stays untouched."""
        return self._found.get(name, (None, False))

    def free(self, name: str) -> str:
        """The name, or the name with the first number that makes it new."""
        start = name[:MAX_CLASS_NAME_LENGTH].rstrip("-.")
        number, made = 1, start
        while made in self._taken:
            number += 1
            made = f"{start}-{number}"
        self._taken.add(made)
        return made


def assign_class_settings(wishes: Iterable[ClassSettings], classes: NodeClasses) -> None:
    """Fulfil every wish, class by class, in the order in which pools are written."""
    by_class: dict[str, list[ClassSettings]] = {}
    for wish in wishes:
        by_class.setdefault(wish.class_name, []).append(wish)
    for name, group in by_class.items():
        _assign_to_class(name, group, classes)


def _assign_to_class(name: str, group: list[ClassSettings], classes: NodeClasses) -> None:
    found, changeable = classes.find(name)
    if found is None:
        _note_missing_class(name, group)
    agreed = all(wish.settings == group[0].settings for wish in group)
    if found is not None and changeable and agreed and group[0].settings:
        found["spec"]["kubelet"] = deepcopy(group[0].settings)
    for wish in group:
        if wish.draft is None or not wish.settings:
            continue
        if get_nested(found, "spec", "kubelet") == wish.settings:
            wish.draft.changed(
                wish.path, f"kubelet settings belong to the class now: EC2NodeClass {name}"
            )
        else:
            _copy_class(
                wish, wish.draft, found, classes, _copy_reason(found, changeable=changeable)
            )


def _copy_reason(found: JsonObject | None, *, changeable: bool) -> str:
    if found is None:
        return "is not in the input"
    return "is shared by pools with other settings" if changeable else "is v1 and stays as it is"


def _copy_class(
    wish: ClassSettings,
    draft: ConversionDraft,
    found: JsonObject | None,
    classes: NodeClasses,
    why: str,
) -> None:
    name = classes.free(f"{wish.class_name}-{draft.name or draft.index}")
    draft.changed(
        wish.path,
        f"kubelet settings belong to the class now; EC2NodeClass {wish.class_name} {why}, "
        f"so this pool gets its own: {name}",
    )
    spec = placeholder_class(wish.path, draft) if found is None else deepcopy(found["spec"])
    metadata = deepcopy(get_nested(found, "metadata") or {})
    draft.followers.append(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": name, **_user_metadata(metadata)},
            "spec": {**spec, "kubelet": deepcopy(wish.settings)},
        }
    )
    class_reference_of(draft)["name"] = name


def _user_metadata(metadata: JsonObject) -> JsonObject:
    return {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}


def class_reference_of(draft: ConversionDraft) -> JsonObject:
    """The reference of a converted pool to its class."""
    made: JsonObject = draft.made["spec"]["template"]["spec"]["nodeClassRef"]
    return made


def _note_missing_class(name: str, group: list[ClassSettings]) -> None:
    for wish in group:
        if wish.draft is not None and not wish.settings:
            wish.draft.assumed(
                wish.path, f"EC2NodeClass {name} is not in the input; the cluster must have it"
            )
