"""The metadata of core kinds: names as each kind wants them, labels, annotations, owners."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from wainwright.api.builtin.check_labels import is_label_key, labels
from wainwright.api.builtin.registry import CLUSTER_WIDE
from wainwright.api.builtin.wording import broken, missing, wrong
from wainwright.api.fault import Fault, Path
from wainwright.api.metadata import A_KEY, is_subdomain

METADATA: Final[Path] = ("metadata",)
ENDS: Final = "with a letter or digit at both ends"
A_NAME: Final = f"a name of at most 253 lower case letters, digits, '-' and '.', {ENDS}"
A_LABEL_NAME: Final = f"a name of at most 63 lower case letters, digits and '-', {ENDS}"
A_SEGMENT: Final = "a name without '/' and '%'"
ANNOTATIONS_LIMIT: Final = 256 * 1024
SUFFIX: Final = "x7k2p"  # as long as what the API server appends to generateName
LONGEST_PREFIX: Final = 63 - len(SUFFIX)
OWNER: Final = ("apiVersion", "kind", "name", "uid")

is_name = lru_cache(maxsize=4096)(is_subdomain)


def is_label_name(name: str) -> bool:
    return len(name) <= 63 and "." not in name and is_name(name)


def is_segment(name: str) -> bool:
    return name not in (".", "..") and "/" not in name and "%" not in name


NAMES: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "Namespace": (is_label_name, A_LABEL_NAME),
    "StatefulSet": (is_label_name, A_LABEL_NAME),
    "Service": (is_label_name, A_LABEL_NAME),
    "PodDisruptionBudget": (is_segment, A_SEGMENT),
}
ANY_NAME: Final = (is_subdomain, A_NAME)


def faults(value: dict[str, Any], kind: str) -> Iterator[Fault]:
    """What is wrong with the metadata, whose shape is right and which has no nulls."""
    yield from _name(value, *NAMES.get(kind, ANY_NAME))
    space = value.get("namespace")
    if space and kind not in CLUSTER_WIDE and not is_label_name(space):
        yield wrong((*METADATA, "namespace"), space, A_LABEL_NAME)
    if "labels" in value:
        yield from labels(value["labels"], (*METADATA, "labels"))
    if "annotations" in value:
        yield from annotations(value["annotations"], (*METADATA, "annotations"))
    if value.get("ownerReferences"):
        yield from _owners(value["ownerReferences"], (*METADATA, "ownerReferences"))


def _name(value: dict[str, Any], fits: Callable[[str], bool], expected: str) -> Iterator[Fault]:
    name, prefix = value.get("name"), value.get("generateName")
    if name:
        if not fits(name):
            yield wrong((*METADATA, "name"), name, expected)
    elif not prefix:
        yield missing((*METADATA, "name"), expected, "an object needs a name")
    elif not fits(prefix[:LONGEST_PREFIX] + SUFFIX):
        yield wrong((*METADATA, "generateName"), prefix, f"the beginning of {expected}")


def annotations(given: dict[str, str] | None, path: Path) -> Iterator[Fault]:
    """Keys as those of labels, in either case; values as they like, up to a size."""
    size = 0
    for key, value in (given or {}).items():
        size += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
        if not is_label_key(key.lower()):
            yield wrong((*path, key), key, A_KEY)
    if size > ANNOTATIONS_LIMIT:
        yield wrong(path, given, f"at most 256 KiB in all, not {size:,} bytes")


def _owners(given: list[dict[str, Any]], path: Path) -> Iterator[Fault]:
    controllers = 0
    for index, owner in enumerate(given):
        if owner in given[:index]:
            continue  # the API server takes such a repetition out
        for field in OWNER:
            if not owner.get(field):
                yield missing((*path, index, field), "what identifies the owner")
        controllers += bool(owner.get("controller"))
        if controllers > 1 and owner.get("controller"):
            message = "only one owner can be the controller"
            yield broken((*path, index, "controller"), True, message)


def with_whole_owners(value: dict[str, Any]) -> dict[str, Any]:
    """The metadata without references that do not say what they refer to."""
    owners = value.get("ownerReferences")
    if not owners:
        return value
    whole = [owner for owner in owners if all(owner.get(field) for field in OWNER)]
    return {**value, "ownerReferences": whole}
