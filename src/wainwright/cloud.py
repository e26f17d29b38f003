"""The cloud provider interface: what controllers need from any cloud.

Assumptions: the cloud is eventually consistent, a response can be lost after the request was
carried out, and capacity that was available a minute ago may be gone. So every operation may be
repeated: a launch is recorded before it is requested, and repeating it returns the instance that
was launched first.

Node classes and overrides are specific to each cloud. Controllers pass them on as Kubernetes
objects, and write back the status and annotations that they get.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from wainwright.model.disruption import RepairPolicy
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, RESERVED
from wainwright.model.node_claim import Instance, Interruption, LaunchRecord, NodeClaim
from wainwright.model.overlays import AppliedOverlays, no_overlays
from wainwright.model.snapshot import ReservationState

Manifest: TypeAlias = Mapping[str, Any]
"""An object as it is in the cluster: apiVersion, kind, metadata, spec, status."""


class NodePoolScope(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a NodePool that affect its offerings."""

    name: str
    node_class: str
    labels: Mapping[str, str] = {}
    """Labels that its template puts on its nodes."""


class DeclaredObjects(msgspec.Struct, frozen=True, kw_only=True):
    """All objects that users have written for the cloud."""

    node_classes: tuple[Manifest, ...] = ()
    instance_types: tuple[Manifest, ...] = ()
    """InstanceType objects."""
    overlays: tuple[Manifest, ...] = ()
    """NodeOverlay objects."""
    pools: tuple[NodePoolScope, ...] = ()


class Garbage(msgspec.Struct, frozen=True, kw_only=True):
    instances: tuple[Instance, ...]
    """Those that no NodeClaim has, nor will have."""
    is_complete: bool
    """False where others have no NodeClaim now, and it is not known yet whether one will have them:
    they must be looked at again even if nothing changes until then.
    """


class Refreshed(msgspec.Struct, frozen=True, kw_only=True):
    due: float
    """When there is something to refresh again."""
    is_changed: bool
    """Whether types or prices are others than before."""
    is_complete: bool
    """False where something could not be fetched, or cleaned up, and is to be tried again then."""


class NodeClassState(msgspec.Struct, frozen=True, kw_only=True):
    """A node class as resolved in the cloud now."""

    name: str
    ready: bool
    not_ready_message: str
    """Why it is not ready; empty if it is."""
    status: Manifest
    """To be written into the object."""
    requeue_after: float
    """Seconds after which it is to be resolved again."""
    outdated: bool = False
    """Whether part of it is as before, because the cloud could not be asked."""
    reservation_counts: int = 0
    """Another number after some reservation was found to have other counts than were known; the
    status does not show them."""


class ObjectRemark(msgspec.Struct, frozen=True, kw_only=True):
    """Something about an object that its author should know."""

    kind: str
    name: str
    message: str
    void: str = ""
    """Why the object is not in effect, as the reason of a condition; empty where it is."""


class NodePoolCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The instance types and offerings of a NodePool at this moment."""

    index: InstanceTypeIndex
    reservations: tuple[ReservationState, ...] = ()
    """Those that its class may use."""
    remarks: tuple[ObjectRemark, ...] = ()
    """About overrides and classes."""
    applied_overlays: Callable[[], AppliedOverlays] = no_overlays
    """Works out which NodeOverlays apply, which only those who create claims need."""


class ReservedNode(msgspec.Struct, frozen=True, kw_only=True):
    """The labels of a NodeClaim or Node that concern its reservation."""

    kind: str
    name: str
    instance_id: str
    labels: Mapping[str, str]

    @property
    def is_reserved(self) -> bool:
        return self.labels.get(CAPACITY_TYPE) == RESERVED


class LabelChange(msgspec.Struct, frozen=True, kw_only=True):
    """Labels to be changed on one object."""

    kind: str
    name: str
    change: dict[str, str]
    remove: tuple[str, ...] = ()


class LaunchLogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A claim in the launch log."""

    claim: str
    """Its uid."""
    launch_record: LaunchRecord
    instance: str = ""
    """Its instance, once that has been recorded."""


class LaunchLog(Protocol):
    """Durable storage for launch records; it outlives the process."""

    async def record(
        self, claim: str, launch_record: LaunchRecord, *, replaces: LaunchRecord | None
    ) -> None:
        """Stores the launch record on the claim with that uid durably before this returns.

        Compare-and-set: a WainError unless the record on the claim is `replaces`, and the claim has
        no instance yet. Such a claim is not launched; it is to be read again. If it is unknown
        whether the record was stored, a WainError as well.
        """
        ...

    async def batch_entries(self, batch: str) -> Sequence[LaunchLogEntry]:
        """Every claim that has a launch record of that batch."""
        ...


class RecoveredLaunches(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of launches whose response was never received."""

    instances: Mapping[str, Instance]
    """By the uid of their claim."""
    unclear: frozenset[str] = frozenset()
    """Uids of claims whose outcome is not known yet; all others may be launched."""


class CloudProvider(Protocol):
    """Raises CloudProviderError; `errors` states the consequence of each subclass."""

    def declare(self, declared: DeclaredObjects) -> None:
        """Replaces all objects declared before. Makes no call to the cloud."""
        ...

    async def refresh(self) -> Refreshed:
        """Refreshes prices and instance types that are due; on failure the known ones stay."""
        ...

    def node_class_annotations(self, node_class: str) -> Mapping[str, str]:
        """To be written on the object, and on the claims launched from it. Makes no call to the
        cloud.
        """
        ...

    async def resolve(self, node_class: str) -> NodeClassState:
        """Looks up everything that the class selects or names."""
        ...

    async def finalize_node_class(self, node_class: str, claims: Sequence[str]) -> str:
        """Deletes what was created for a class; returns what it waits for, empty once done."""
        ...

    async def catalog(self, pool: str) -> NodePoolCatalog:
        """What the NodePool can launch now; NodeClassNotReadyError if its class is not ready."""
        ...

    def next_catalog_change(self) -> float | None:
        """When a catalog will be another one by time alone, in seconds since 1970: offerings that
        were found without capacity are tried again then. None if nothing is known to change.
        """
        ...

    async def offered_types(self, pool: str) -> OfferedTypes:
        """What exists for the NodePool: a node of a type or offering that does not is drifted.

        Raises TemporarilyUnavailableError as long as the cloud has not answered what it offers.
        """
        ...

    async def launch(self, claim: NodeClaim) -> Instance:
        """The instance of the claim: a new one, or the one launched for it before.

        It is stored on the claim only while the launch record there is of the instance's batch:
        another process may have taken the launch for lost and repeated it. An instance that is not
        stored becomes garbage. InstanceNotFoundError if the claim had an instance that is gone.
        """
        ...

    async def recover(self, claims: Sequence[NodeClaim]) -> RecoveredLaunches:
        """The instances launched by an earlier process; stored like those of `launch`."""
        ...

    async def terminate(self, instance: str) -> None:
        """Terminates the instance; InstanceNotFoundError once it is gone."""
        ...

    async def instance(self, instance_id: str) -> Instance:
        """InstanceNotFoundError if it does not exist, or no longer exists."""
        ...

    async def instances(self) -> Sequence[Instance]:
        """Every instance of this cluster that still exists."""
        ...

    async def find_garbage(self, claims: Iterable[NodeClaim]) -> Garbage:
        """Instances that belong to no claim; `claims` must be all claims of the cluster."""
        ...

    async def tag(self, instance: str, *, node: str, claim: str) -> None:
        """Tags the instance with its node and claim, once the node has joined."""
        ...

    async def drift(self, claim: NodeClaim) -> str | None:
        """Why the claim's instance differs from what its class would launch now, or None."""
        ...

    async def reservation_label_changes(
        self, nodes: Iterable[ReservedNode]
    ) -> Sequence[LabelChange]:
        """The changes after which labels match how instances are billed.

        An instance that has left its reservation is on-demand; one that was moved to another has
        that one's id.
        """
        ...

    async def nodes_to_drain(self, nodes: Iterable[ReservedNode]) -> Sequence[str]:
        """Names of those in a capacity block that ends soon: EC2 terminates its instances."""
        ...

    def record_discovered_capacity(self, instance: Instance, memory: int) -> None:
        """Records the bytes of memory that a node of such an instance really has."""
        ...

    def mark_unavailable(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Excludes the offering from launches for a while: its capacity was just reclaimed."""
        ...

    def interruptions(self) -> AsyncGenerator[Interruption, bool | None]:
        """Interruptions as they arrive; never ends.

        Fetching the next one acknowledges the one before, unless False is sent: then, and where the
        generator is closed instead, it is delivered again.
        """
        ...

    async def unhealthy_instances(self) -> Sequence[Interruption]:
        """Instances that now fail checks or have scheduled events. To be called every minute."""
        ...

    @property
    def next_unhealthy(self) -> float | None:
        """When an instance whose checks failed at the last look will count as unhealthy, if they go
        on failing; None if no other check failed.
        """
        ...

    def repair_policies(self) -> Sequence[RepairPolicy]:
        """Conditions of nodes that no restart of a daemon repairs."""
        ...

    async def garbage_collect(self, claims: Iterable[NodeClaim]) -> None:
        """Deletes cloud resources that are no longer used. To be called every 30 minutes."""
        ...
