"""Validates an object's metadata: names, labels, annotations, finalizers."""

import re
from collections.abc import Iterator
from typing import Any, Final

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    did_you_mean,
    format_value,
    invalid_value,
    unknown_field,
)

METADATA_FIELDS: Final = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "selfLink": str,
    "uid": str,
    "resourceVersion": str,
    "generation": int,
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "labels": dict,
    "annotations": dict,
    "ownerReferences": list,
    "finalizers": list,
    "managedFields": list,
}
TEXT_MAPS: Final = ("labels", "annotations")
OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")
METADATA_TYPE_NAMES: Final = {str: "text", int: "a whole number", dict: "a mapping", list: "a list"}

# Unambiguous patterns: with thousands of names, backtracking would be measurable.
DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]+(?:-+[a-z0-9]+)*(?:\.[a-z0-9]+(?:-+[a-z0-9]+)*)*")
LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]+(?:[-_.]+[A-Za-z0-9]+)*")
ANNOTATIONS_LIMIT: Final = 256 * 1024

EXPECTED_NAME: Final = "lower case letters, digits, '-' and '.', at most 253"
EXPECTED_KEY: Final = "a key such as team or example.com/team"
EXPECTED_VALUE: Final = (
    "at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"
)


def validate_metadata(value: Any, *, namespaced: bool) -> Iterator[FieldError]:
    """The field errors of the metadata of an object to be created."""
    if not isinstance(value, dict):
        yield invalid_value((), value, "a mapping with a name")
        return
    shapes = list(_type_errors(value))
    yield from shapes
    if all(field_error.pruned for field_error in shapes):
        yield from _name_errors(value, namespaced=namespaced)
        yield from label_errors(value.get("labels") or {}, ("labels",))
        yield from _annotation_errors(value.get("annotations") or {})
        yield from _finalizer_errors(value.get("finalizers") or [])


def _type_errors(value: dict[str, Any]) -> Iterator[FieldError]:
    for key, item in value.items():
        wanted = METADATA_FIELDS.get(key)
        if wanted is None:
            yield unknown_field((key,), key, did_you_mean(key, list(METADATA_FIELDS)))
        elif item is not None and (not isinstance(item, wanted) or isinstance(item, bool)):
            yield invalid_value((key,), item, METADATA_TYPE_NAMES[wanted])
    yield from _text_map_errors(value)
    yield from _owner_errors(value.get("ownerReferences"))


def _owner_errors(owners: Any) -> Iterator[FieldError]:
    for index, owner in enumerate(owners if isinstance(owners, list) else ()):
        path: FieldPath = ("ownerReferences", index)
        if not isinstance(owner, dict):
            yield invalid_value(path, owner, "a mapping")
            continue
        for field in OWNER_FIELDS:
            if owner.get(field) is None:
                message = "required field is missing"
                yield FieldError(
                    path=(*path, field), message=message, found="nothing", expected="text"
                )
            elif not isinstance(owner[field], str):
                yield invalid_value((*path, field), owner[field], "text")
        for field in ("controller", "blockOwnerDeletion"):
            if not isinstance(owner.get(field), bool | None):
                yield invalid_value((*path, field), owner[field], "true or false")


def _text_map_errors(value: dict[str, Any]) -> Iterator[FieldError]:
    for name in TEXT_MAPS:
        entries = value.get(name)
        for key, item in entries.items() if isinstance(entries, dict) else ():
            if item is not None and not isinstance(item, str):
                yield invalid_value(
                    (name, key), item, "text", f'put it in quotes: "{format_value(item)}"'
                )


def without_nulls(metadata: dict[str, Any]) -> dict[str, Any]:
    """As the API server reads them: a field that is null is absent, a label or annotation empty."""
    made = {key: item for key, item in metadata.items() if item is not None}
    for name in TEXT_MAPS:
        if isinstance(made.get(name), dict):
            entries = made[name].items()
            made[name] = {key: "" if item is None else item for key, item in entries}
    return made


def _name_errors(value: dict[str, Any], *, namespaced: bool) -> Iterator[FieldError]:
    name = value.get("name") or ""
    if not name and not value.get("generateName"):
        yield FieldError(
            path=("name",),
            message="an object needs a name",
            found="nothing",
            expected=EXPECTED_NAME,
        )
    elif name and not is_dns_subdomain(name):
        yield invalid_value(("name",), name, EXPECTED_NAME)
    prefix = (value.get("generateName") or "").rstrip("-")
    if prefix and not is_dns_subdomain(prefix):
        yield invalid_value(("generateName",), value["generateName"], EXPECTED_NAME)
    if value.get("namespace") and not namespaced:
        yield FieldError(
            path=("namespace",),
            message="this kind belongs to the cluster; the API server drops the namespace",
            found=format_value(value["namespace"]),
            expected="no namespace",
            hint="remove it",
            warning=True,
        )


def label_errors(labels: dict[str, Any], path: FieldPath) -> Iterator[FieldError]:
    """Keys and values of labels, anywhere in an object."""
    for key, item in labels.items():
        if not is_label_key(key):
            yield invalid_value((*path, key), key, EXPECTED_KEY)
        if isinstance(item, str) and not is_label_value(item):
            yield invalid_value((*path, key), item, EXPECTED_VALUE)


def _annotation_errors(annotations: dict[str, Any]) -> Iterator[FieldError]:
    size = 0
    for key, item in annotations.items():
        size += len(key.encode()) + len((item or "").encode())
        if not is_label_key(key.lower()):
            yield invalid_value(("annotations", key), key, EXPECTED_KEY)
    if size > ANNOTATIONS_LIMIT:
        yield invalid_value(
            ("annotations",), annotations, f"at most 256 KiB in all, not {size:,} bytes"
        )


def _finalizer_errors(finalizers: list[Any]) -> Iterator[FieldError]:
    for index, name in enumerate(finalizers):
        if not isinstance(name, str) or not is_label_key(name):
            yield invalid_value(("finalizers", index), name, "a name such as example.com/cleanup")


def is_dns_subdomain(name: str) -> bool:
    return len(name) <= 253 and DNS_SUBDOMAIN.fullmatch(name) is not None


def is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and LABEL_NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    return not value or (len(value) <= 63 and LABEL_NAME.fullmatch(value) is not None)
