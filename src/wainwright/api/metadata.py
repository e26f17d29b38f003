"""An object's metadata, held to what the API server asks of names, labels and annotations."""

import re
from collections.abc import Iterator
from typing import Any, Final

from wainwright.api.fault import Fault, Path, did_you_mean, shown

FIELDS: Final = {
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
NAMED: Final = {str: "text", int: "a whole number", dict: "a mapping", list: "a list"}

# Written so that there is one way to match a text: with thousands of names, backtracking shows.
SUBDOMAIN: Final = re.compile(r"[a-z0-9]+(?:-+[a-z0-9]+)*(?:\.[a-z0-9]+(?:-+[a-z0-9]+)*)*")
NAME_PART: Final = re.compile(r"[A-Za-z0-9]+(?:[-_.]+[A-Za-z0-9]+)*")
ANNOTATIONS_LIMIT: Final = 256 * 1024

A_NAME: Final = "lower case letters, digits, '-' and '.', at most 253"
A_KEY: Final = "a key such as team or example.com/team"
A_VALUE: Final = "at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"


def faults(value: Any, *, namespaced: bool) -> Iterator[Fault]:
    """What is wrong with the metadata of an object that is to be created."""
    if not isinstance(value, dict):
        yield _wrong((), value, "a mapping with a name")
        return
    shapes = list(_shape_faults(value))
    yield from shapes
    if not shapes:
        yield from _name_faults(value, namespaced=namespaced)
        yield from label_faults(value.get("labels") or {}, ("labels",))
        yield from _annotation_faults(value.get("annotations") or {})
        yield from _finalizer_faults(value.get("finalizers") or [])


def _shape_faults(value: dict[str, Any]) -> Iterator[Fault]:
    for key, item in value.items():
        wanted = FIELDS.get(key)
        if wanted is None:
            yield Fault(
                path=(key,),
                message="unknown field",
                found=key,
                expected="a field that is known",
                hint=did_you_mean(key, list(FIELDS)),
            )
        elif item is not None and (not isinstance(item, wanted) or isinstance(item, bool)):
            yield _wrong((key,), item, NAMED[wanted])
    yield from _text_map_faults(value)


def _text_map_faults(value: dict[str, Any]) -> Iterator[Fault]:
    for name in ("labels", "annotations"):
        entries = value.get(name)
        for key, item in entries.items() if isinstance(entries, dict) else ():
            if item is not None and not isinstance(item, str):
                yield _wrong((name, key), item, "text", f'put it in quotes: "{shown(item)}"')


def _name_faults(value: dict[str, Any], *, namespaced: bool) -> Iterator[Fault]:
    name = value.get("name") or ""
    if not name and not value.get("generateName"):
        yield Fault(
            path=("name",), message="an object needs a name", found="nothing", expected=A_NAME
        )
    elif name and not is_subdomain(name):
        yield _wrong(("name",), name, A_NAME)
    prefix = (value.get("generateName") or "").rstrip("-")
    if prefix and not is_subdomain(prefix):
        yield _wrong(("generateName",), value["generateName"], A_NAME)
    if value.get("namespace") and not namespaced:
        yield Fault(
            path=("namespace",),
            message="this kind belongs to the cluster; the API server drops the namespace",
            found=shown(value["namespace"]),
            expected="no namespace",
            hint="remove it",
            warning=True,
        )


def label_faults(labels: dict[str, Any], path: Path) -> Iterator[Fault]:
    """Keys and values of labels, anywhere in an object."""
    for key, item in labels.items():
        if not is_label_key(key):
            yield _wrong((*path, key), key, A_KEY)
        if isinstance(item, str) and not is_label_value(item):
            yield _wrong((*path, key), item, A_VALUE)


def _annotation_faults(annotations: dict[str, Any]) -> Iterator[Fault]:
    size = 0
    for key, item in annotations.items():
        size += len(key.encode()) + len((item or "").encode())
        if not is_label_key(key.lower()):
            yield _wrong(("annotations", key), key, A_KEY)
    if size > ANNOTATIONS_LIMIT:
        yield _wrong(("annotations",), annotations, f"at most 256 KiB in all, not {size:,} bytes")


def _finalizer_faults(finalizers: list[Any]) -> Iterator[Fault]:
    for index, name in enumerate(finalizers):
        if not isinstance(name, str) or not is_label_key(name):
            yield _wrong(("finalizers", index), name, "a name such as example.com/cleanup")


def is_subdomain(name: str) -> bool:
    return len(name) <= 253 and SUBDOMAIN.fullmatch(name) is not None


def is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= 63 and NAME_PART.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    return not value or (len(value) <= 63 and NAME_PART.fullmatch(value) is not None)


def _wrong(path: Path, value: Any, expected: str, hint: str = "") -> Fault:
    return Fault(
        path=path, message=f"expected {expected}", found=shown(value), expected=expected, hint=hint
    )
