"""Where kubelet settings go: into the class, or into a copy of it where pools disagree.

Settings used to belong to the pool and now belong to the class. A class that all its pools agree
about takes them; where they differ each pool with settings gets its own copy of the class, called
`<class>-<pool>`, and the class itself stays as it was.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final

import msgspec

from wainwright.api.fault import Path
from wainwright.manifests.convert.draft import Draft
from wainwright.manifests.convert.placeholders import blank
from wainwright.manifests.convert.today import inside, name_of

LONGEST: Final = 245
"""A name has 253 characters at most; a number may follow."""

Document = dict[str, Any]
Settings = dict[str, Any]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, the class it refers to, and the kubelet settings that it wants there."""

    class_name: str
    settings: Settings = {}
    path: Path = ()
    """Where in the pool's document the settings are written, or else the reference."""
    draft: Draft | None = None
    """The pool, if it is converted; a pool of v1 wants the class as it is."""


class Classes:
    """The classes that pools may refer to, by name; names that are taken stay taken."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Document, bool]] = {}
        self._taken: set[str] = set()

    def add(self, document: Document, *, converted: bool) -> None:
        name = name_of(document)
        self._found.setdefault(name, (document, converted))
        self._taken.add(name)

    def find(self, name: str) -> tuple[Document | None, bool]:
        """The class and whether it may be changed: what was v1 already stays untouched."""
        return self._found.get(name, (None, False))

    def free(self, name: str) -> str:
        """The name, or the name with the first number that makes it new."""
        start = name[:LONGEST].rstrip("-.")
        number, made = 1, start
        while made in self._taken:
            number += 1
            made = f"{start}-{number}"
        self._taken.add(made)
        return made


def share(wishes: Iterable[Wish], classes: Classes) -> None:
    """Fulfil every wish, class by class, in the order in which pools are written."""
    by_class: dict[str, list[Wish]] = {}
    for wish in wishes:
        by_class.setdefault(wish.class_name, []).append(wish)
    for name, group in by_class.items():
        _settle(name, group, classes)


def _settle(name: str, group: list[Wish], classes: Classes) -> None:
    found, changeable = classes.find(name)
    if found is None:
        _say_class_is_elsewhere(name, group)
    agreed = all(wish.settings == group[0].settings for wish in group)
    if found is not None and changeable and agreed and group[0].settings:
        found["spec"]["kubelet"] = deepcopy(group[0].settings)
    for wish in group:
        if wish.draft is None or not wish.settings:
            continue
        if inside(found, "spec", "kubelet") == wish.settings:
            wish.draft.changed(
                wish.path, f"kubelet settings belong to the class now: EC2NodeClass {name}"
            )
        else:
            _copy(wish, wish.draft, found, classes, _why(found, changeable=changeable))


def _why(found: Document | None, *, changeable: bool) -> str:
    if found is None:
        return "is not in the input"
    return "is shared by pools with other settings" if changeable else "is v1 and stays as it is"


def _copy(wish: Wish, draft: Draft, found: Document | None, classes: Classes, why: str) -> None:
    name = classes.free(f"{wish.class_name}-{draft.name or draft.index}")
    draft.changed(
        wish.path,
        f"kubelet settings belong to the class now; EC2NodeClass {wish.class_name} {why}, "
        f"so this pool gets its own: {name}",
    )
    spec = blank(wish.path, draft) if found is None else deepcopy(found["spec"])
    metadata = deepcopy(inside(found, "metadata") or {})
    draft.followers.append(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": name, **_written(metadata)},
            "spec": {**spec, "kubelet": deepcopy(wish.settings)},
        }
    )
    reference(draft)["name"] = name


def _written(metadata: Document) -> Document:
    return {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}


def reference(draft: Draft) -> Document:
    """The reference of a converted pool to its class."""
    made: Document = draft.made["spec"]["template"]["spec"]["nodeClassRef"]
    return made


def _say_class_is_elsewhere(name: str, group: list[Wish]) -> None:
    for wish in group:
        if wish.draft is not None and not wish.settings:
            wish.draft.assumed(
                wish.path, f"EC2NodeClass {name} is not in the input; the cluster must have it"
            )
