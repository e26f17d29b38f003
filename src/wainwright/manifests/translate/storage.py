"""Storage classes: which is the default, and where volumes that they make can be reached."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

import msgspec

from wainwright.api.builtin.storage import PersistentVolumeClaim, StorageClass
from wainwright.manifests.translate.affinity import choice
from wainwright.manifests.translate.drivers import (
    EBS,
    GCE,
    NO_PROVISIONER,
    UNSUPPORTED,
    driver,
)
from wainwright.manifests.translate.moments import seconds
from wainwright.model.labels import ZONE
from wainwright.model.pod import ANYWHERE
from wainwright.model.requirements import Entry, Requirements

DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Where claims named their class before there was a field for it; it still counts."""

LATE: Final = "WaitForFirstConsumer"
UNSUPPORTED_KEYS: Final = frozenset({"eks.amazonaws.com/compute-type"})
"""Labels that only nodes of somebody else's making have."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a claim whose volume is made when its pod is placed."""

    driver: str = ""
    """Empty where nobody attaches its volumes."""
    places: tuple[Requirements, ...] = ANYWHERE
    problem: str | None = None
    """Why it gets none, as what is to be said of the claim."""


class Storage:
    """The storage classes of the input."""

    def __init__(self, classes: Iterable[StorageClass]) -> None:
        self._by_name = {each.metadata.name: each for each in classes}
        defaults = [each for each in self._by_name.values() if _is_default(each)]
        # Should several claim to be the default, the youngest is.
        self._default = min(defaults, key=_age).metadata.name if defaults else None
        self._made: dict[str | None, Made] = {}

    def made(self, claim: PersistentVolumeClaim) -> Made:
        """What the claim's class will do for it."""
        name = (claim.metadata.annotations or {}).get(CLASS, claim.spec.storageClassName)
        if name is None:
            name = self._default
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._of(name)
        return found

    def _of(self, name: str | None) -> Made:
        if name is None:
            return Made(problem="has no volume yet, and names no class while there is no default")
        if not name:
            return Made(problem="has no volume yet, and wants no class that would make one")
        written = self._by_name.get(name)
        if written is None:
            return Made(problem=f"has no volume yet, and its class {name} is not in the input")
        return _made(written)


def _made(written: StorageClass) -> Made:
    topologies = _topologies(written)
    places = ANYWHERE if topologies is None else choice(topologies).alternatives
    return Made(
        driver="" if written.provisioner == NO_PROVISIONER else driver(written.provisioner),
        places=places,
        problem=_problem(written, places),
    )


def _problem(written: StorageClass, places: tuple[Requirements, ...]) -> str | None:
    begun = f"has no volume yet, and its class {written.metadata.name}"
    if written.volumeBindingMode != LATE:
        return f"{begun} does not wait for a pod to make one"
    if written.provisioner == NO_PROVISIONER:
        return f"{begun} makes none"
    if written.provisioner in UNSUPPORTED:
        return f"{begun} needs {written.provisioner}, which nodes of NodePools do not run"
    strange = next((key for key in _keys(written) if key in UNSUPPORTED_KEYS), None)
    if strange is not None:
        return f"{begun} needs the label {strange}, which nodes of NodePools do not have"
    return None if places else f"{begun} allows none anywhere"


def _keys(written: StorageClass) -> Iterator[str]:
    for term in written.allowedTopologies or ():
        yield from (each.key for each in term.matchLabelExpressions or ())


def _topologies(written: StorageClass) -> list[list[Entry]] | None:
    """Any one of these will do; None where any place will. A term that asks nothing takes none."""
    if not written.allowedTopologies:
        zones = _zones(written)
        return [[(ZONE, "In", zones, None)]] if zones else None
    return [
        [(each.key, "In", tuple(each.values or ()), None) for each in term.matchLabelExpressions]
        for term in written.allowedTopologies
        if term.matchLabelExpressions
    ]


def _zones(written: StorageClass) -> tuple[str, ...]:
    """What classes of old name among their parameters."""
    if written.provisioner not in (EBS, GCE):
        return ()
    given = {key.lower(): value for key, value in (written.parameters or {}).items()}
    listed = given.get("zones", given.get("zone", "")).split(",")
    return tuple(zone for each in listed if (zone := each.strip()))


def _is_default(written: StorageClass) -> bool:
    annotations = written.metadata.annotations or {}
    return any(annotations.get(key) == "true" for key in DEFAULT)


def _age(written: StorageClass) -> tuple[float, str]:
    """The youngest first; without a moment of creation a class counts as the youngest."""
    created = seconds(written.metadata.creationTimestamp)
    return -inf if created is None else -created, written.metadata.name
