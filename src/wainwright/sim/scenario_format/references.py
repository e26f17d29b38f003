"""Names in a Scenario that must mean something: reservations, workloads and other objects that its
manifests or its events create.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from wainwright.api.api_resources import ApiResource, served_resources
from wainwright.api.field_error import FieldError, FieldPath, did_you_mean
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.messages.formatting import join_first
from wainwright.sim.scenario import ObjectTarget
from wainwright.translate.disruption import format_duration

RESERVATION: Final = "CapacityReservation"
CREATED_BY_CONTROLLERS: Final = frozenset(
    {
        *("CSINode", "Event", "Lease", "Node", "NodeClaim", "PersistentVolume"),
        *("PersistentVolumeClaim", "ReplicaSet", "VolumeAttachment"),
    }
)
"""Their names come from the simulation, so that nobody knows them before."""
WORKLOADS: Final = (
    *("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
)
Moment = tuple[float, int]
"""When, and the number of the event among those of that moment."""
START: Final[Moment] = (-1.0, -1)


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A name, where it is written, and when it must mean something; None: at some time."""

    kind: str
    name: str
    namespace: str = ""
    path: FieldPath
    before: Moment | None = None

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"


class CreatedObjects:
    """Every object that the files or events of a Scenario create, and when for the first time."""

    def __init__(self) -> None:
        self._created: dict[tuple[str, str, str], Moment] = {}

    def add(self, kind: str, name: str, namespace: str = "", at: Moment = START) -> None:
        key = (kind, namespace, name)
        self._created[key] = min(at, self._created.get(key, at))

    def add_objects(self, objects: Iterable[WireStruct], at: Moment = START) -> None:
        resources = served_resources()
        for each in objects:
            resource = resources.get(type(each))
            metadata: ObjectMeta | None = getattr(each, "metadata", None)
            if resource is not None and metadata is not None:
                namespace = object_namespace(resource, metadata.namespace)
                self.add(resource.kind, metadata.name, namespace, at)

    def check(self, reference: Reference) -> FieldError | None:
        """What is wrong with the reference."""
        if reference.kind in CREATED_BY_CONTROLLERS:
            return None
        created = self._find(reference)
        if created is None:
            return self._unknown(reference)
        if reference.before is not None and created >= reference.before:
            return _too_early(reference, created)
        return None

    def _find(self, reference: Reference) -> Moment | None:
        if is_glob(reference.name) or is_glob(reference.namespace):
            return min(self._matching(reference), default=None)
        found = self._created.get((reference.kind, reference.namespace, reference.name))
        if found is None and reference.kind == "Pod":
            return min(self._pod_owners(reference), default=None)
        return found

    def _pod_owners(self, pod: Reference) -> Iterable[Moment]:
        for (kind, namespace, name), at in self._created.items():
            is_beside = kind in WORKLOADS and namespace == pod.namespace
            if is_beside and pod.name.startswith(f"{name}-"):
                yield at

    def _matching(self, pattern: Reference) -> Iterable[Moment]:
        for (kind, namespace, name), at in self._created.items():
            if not matches(namespace, pattern.namespace):
                continue
            is_named = kind == pattern.kind and matches(name, pattern.name)
            is_owner = pattern.kind == "Pod" and kind in WORKLOADS
            if is_named or (is_owner and _may_name_pods(pattern.name, name)):
                yield at

    def _known(self, reference: Reference, known: Sequence[str]) -> str:
        if known:
            return _listed(known)
        if reference.kind == "Pod":
            owners = [f"{place}/{name}" for kind, place, name in self._created if kind in WORKLOADS]
            return f"pods are named after their workload: {owners[0]}-0" if owners else ""
        return f"the scenario has no {reference.kind}"

    def _unknown(self, reference: Reference) -> FieldError:
        known = [name for kind, _, name in self._created if kind == reference.kind]
        elsewhere = [
            namespace
            for kind, namespace, name in self._created
            if (kind, name) == (reference.kind, reference.name)
        ]
        hint = did_you_mean(reference.name, known) or self._known(reference, known)
        if elsewhere:
            hint = f"there is one in the namespace {elsewhere[0]}"
        return FieldError(
            path=reference.path,
            message=_unknown_message(reference),
            found=reference.name,
            expected=f"a {reference.kind} of the manifests or of an event",
            hint=hint,
        )


def _may_name_pods(pattern: str, workload: str) -> bool:
    """Whether the glob can match `<workload>-<n>`, as far as its beginning says."""
    beginning, prefix = re.split(r"[*?[]", pattern, maxsplit=1)[0], f"{workload}-"
    return beginning.startswith(prefix) or prefix.startswith(beginning)


def _listed(names: Sequence[str]) -> str:
    return f"the scenario has {join_first(names)}"


def _unknown_message(reference: Reference) -> str:
    if is_glob(reference.name) or is_glob(reference.namespace):
        return f"{reference} matches nothing that a manifest or an event creates"
    return f"no manifest or event creates {reference}"


def _too_early(reference: Reference, created: Moment) -> FieldError:
    return FieldError(
        path=reference.path,
        message=f"{reference} does not exist yet: it is created at {format_duration(created[0])}",
        found=reference.name,
        expected=f"a {reference.kind} that exists by then",
        hint="let this happen later, or create it earlier",
    )


def is_glob(text: str) -> bool:
    return any(character in text for character in "*?[")


def matches(value: str | None, pattern: str | None) -> bool:
    """Whether a value matches a glob; None is a pattern that everything matches."""
    if pattern is None:
        return True
    return value is not None and (value == pattern or fnmatchcase(value, pattern))


def resources_by_kind() -> Mapping[str, ApiResource]:
    return {resource.kind: resource for resource in served_resources().values()}


def object_namespace(resource: ApiResource, stated: str) -> str:
    return (stated or "default") if resource.is_namespaced else ""


def object_reference(resource: ApiResource, namespace: str, name: str) -> ObjectTarget:
    return ObjectTarget(
        type=resource.type,
        kind=resource.kind,
        name=name,
        namespace=object_namespace(resource, namespace),
    )


def split_pod(text: str) -> tuple[str, str]:
    """Namespace and name of a pod as it is written: shop/web-0, or web-0 of the default one."""
    namespace, slash, name = text.rpartition("/")
    return (namespace, name) if slash else ("default", name)
