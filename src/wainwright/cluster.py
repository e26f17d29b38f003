"""The cluster interface: what controllers need from a Kubernetes API server.

Assumptions: others write too, a response can be lost after the request was carried out, and a watch
may end at any time. So a reader lists, then watches from the list's resourceVersion, and resumes
from the version of the last event it saw; a write that must not meet a changed object states the
resourceVersion or uid that it expects.

Objects are wire structs of `api/`, frozen, and shared with whoever else reads them. They hold only
the fields that are used here, so nothing is ever replaced as a whole: changes are merge patches.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta, WireStruct

ObjectT = TypeVar("ObjectT", bound=WireStruct)

MergePatch: TypeAlias = Mapping[str, Any]
"""RFC 7386: mappings are merged, null deletes a key, every other value (lists too) replaces.

With metadata.resourceVersion in it the patch is carried out on that version only.
"""


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[ObjectT], frozen=True):
    """One change of one object; the object is the new one, or the last one if it was deleted."""

    type: EventType
    resource_version: str
    """To resume from. A bookmark has nothing else."""
    object: ObjectT | None = None
    unreadable: ObjectMeta | None = None
    """Name, namespace and uid of what was deleted and cannot be read: there is no object then."""

    @property
    def metadata(self) -> ObjectMeta | None:
        """Of what has changed."""
        if self.object is None:
            return self.unreadable
        metadata: ObjectMeta = self.object.metadata  # type: ignore[attr-defined] # every kind has it
        return metadata


class ObjectList(msgspec.Struct, Generic[ObjectT], frozen=True):
    """All objects of a kind at one moment, in the order of namespace and name."""

    items: Sequence[ObjectT]
    resource_version: str
    """To watch from."""
    unreadable: frozenset[str] = frozenset()
    """uids of objects that exist and cannot be read, so that nobody takes them for deleted."""


class Preconditions(msgspec.Struct, frozen=True, kw_only=True):
    """What the object must be like for a deletion to be carried out; empty means anything."""

    uid: str = ""
    resource_version: str = ""


NO_PRECONDITIONS = Preconditions()


class ListAndWatch(Protocol):
    """Reads a kind by one request: everything, and then what changes."""

    def list_and_watch(
        self, kind: type[ObjectT], *, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[ObjectList[ObjectT] | WatchEvent[ObjectT], None]:
        """First a list of all objects, or of those of that namespace and name; then their changes,
        as `watch` has them, until the server closes the connection.
        """
        ...


class Cluster(Protocol):
    """Raises KubernetesError; `errors` lists its subclasses.

    `kind` is the wire struct of a kind. `namespace` is left out for kinds that have none. Every
    verb may raise ServerUnavailableError, after which it is unknown whether a write was done.
    """

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, name: str = ""
    ) -> ObjectList[ObjectT]:
        """All objects, or those of that name, of one namespace or of all of them."""
        ...

    async def list_pods_on_node(self, node: str) -> ObjectList[Pod]:
        """The pods that are bound to the node, whether it exists or not; not older than the
        request, as no list is.
        """
        ...

    def watch(
        self, kind: type[ObjectT], resource_version: str
    ) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        """The changes after that version in all namespaces, in their order, each exactly once.

        The version comes from a list or an event of the same kind. The generator ends whenever the
        server closes the connection, and is then to be resumed. ResourceVersionGoneError if the
        changes since that version are no longer known. Bookmarks come now and then, so that the
        version of a kind that does not change stays fresh enough to resume from.
        """
        ...

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        """ObjectNotFoundError if it does not exist."""
        ...

    async def create(self, obj: ObjectT) -> ObjectT:
        """The object as stored: with uid, resourceVersion and defaults, and without its status.

        AlreadyExistsError also while an object of that name is being deleted. Where the name is
        empty it is made from metadata.generateName.
        """
        ...

    async def patch(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        """The object after the patch; what the patch says of the status has no effect.

        Removing the last finalizer of an object that is being deleted removes it. A patch that
        changes nothing leaves the resourceVersion as it is.
        """
        ...

    async def patch_status(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        """The object after the patch; only `status` is to be patched, and metadata.resourceVersion
        is the only other key that counts in the same way for every kind.
        """
        ...

    async def delete(
        self,
        kind: type[WireStruct],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> None:
        """Deletes the object, or marks it as being deleted.

        It is only marked, by metadata.deletionTimestamp, while it has finalizers; so is a pod on a
        node, until its kubelet has stopped it and deletes it with a grace period of 0. Without a
        grace period a pod's own counts. Repeated, it can only be made shorter. Objects owned by a
        deleted one are deleted after it. ConflictError if a precondition fails.
        """
        ...

    async def evict(
        self, name: str, namespace: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        """Deletes the pod as its PodDisruptionBudget allows, and counts it there.

        EvictionBlockedError if the budget allows none now, or if more than one covers the pod.
        A pod that is pending, finished or already being deleted is deleted whatever budgets say,
        and an unready one where the budget is met without it. ConflictError if the uid differs.
        """
        ...
