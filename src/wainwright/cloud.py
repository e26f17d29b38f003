"""Cloud: what controllers need of a cloud, whichever it is.

Assumed of a cloud: it is slow to show what it has done, answers get lost after something was done,
and what could be had a minute ago may be gone. So everything here may be repeated: a launch is
written down before it is asked for, and whoever repeats it gets the instance that was made first.

Node classes and overrides are the cloud's own affair. Controllers hand them over as Kubernetes has
them, and write back what they are given.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.node_claim import Instance, Interruption, LaunchRecord, NodeClaim
from wainwright.model.snapshot import ReservationState

Manifest: TypeAlias = Mapping[str, Any]
"""An object as it is in the cluster: apiVersion, kind, metadata, spec, status."""


class NodePoolScope(msgspec.Struct, frozen=True, kw_only=True):
    """What of a pool changes what it can buy."""

    name: str
    node_class: str
    labels: Mapping[str, str] = {}
    """What its template puts on its nodes."""


class DeclaredObjects(msgspec.Struct, frozen=True, kw_only=True):
    """What users have written down for the cloud, all of it."""

    node_classes: tuple[Manifest, ...] = ()
    instance_types: tuple[Manifest, ...] = ()
    """InstanceType objects."""
    overlays: tuple[Manifest, ...] = ()
    """NodeOverlay objects."""
    pools: tuple[NodePoolScope, ...] = ()


class NodeClassState(msgspec.Struct, frozen=True, kw_only=True):
    """A node class as the cloud has it now."""

    name: str
    ready: bool
    why: str
    """Why it is not ready; empty where it is."""
    status: Manifest
    """To be written into the object."""
    annotations: Mapping[str, str]
    """To be written on the object, and on the claims launched from it."""
    requeue_after: float
    """Seconds after which it is to be looked at again."""


class NodePoolCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool can buy at this moment."""

    index: InstanceTypeIndex
    reservations: tuple[ReservationState, ...] = ()
    """Those that its class may use."""
    remarks: tuple[str, ...] = ()
    """What is odd about overrides and classes, for whoever wrote them."""


class LaunchLogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A claim in the ledger."""

    claim: str
    """Its uid."""
    mark: LaunchRecord
    instance: str = ""
    """Its instance, once that has been written down."""


class LaunchLog(Protocol):
    """Where launches are written down; it outlives the process."""

    async def record(self, claim: str, mark: LaunchRecord) -> None:
        """Writes the mark on the claim with that uid, for good, before this returns.

        Raises a WainError where that cannot be done, also where somebody else has changed the mark
        since the claim was handed over: such a claim is not launched.
        """
        ...

    async def batch(self, identity: str) -> Sequence[LaunchLogEntry]:
        """Every claim that has a mark of that batch."""
        ...


class RecoveredLaunches(msgspec.Struct, frozen=True, kw_only=True):
    """What became of launches whose end nobody saw."""

    found: Mapping[str, Instance]
    """The instances of claims, by the uid of the claim."""
    unclear: frozenset[str] = frozenset()
    """Claims of which nothing can be said yet; all others may be launched."""


class CloudProvider(Protocol):
    """Raises CloudProviderError: see `errors` for what each kind is followed by."""

    def declare(self, declared: DeclaredObjects) -> None:
        """Takes the place of what was declared before. Nothing is asked of the cloud."""
        ...

    async def refresh(self) -> None:
        """Looks at prices and types again where it is time to; what cannot be had stays as it was.

        To be called every minute.
        """
        ...

    async def resolve(self, node_class: str) -> NodeClassState:
        """Looks up everything that the class names."""
        ...

    async def finalize_node_class(self, node_class: str, claims: Sequence[str]) -> str:
        """Removes what was made for a class; what it waits for, or nothing where that is done."""
        ...

    async def catalog(self, pool: str) -> NodePoolCatalog:
        """What the pool can buy now; NodeClassNotReadyError where nothing at all."""
        ...

    async def launch(self, claim: NodeClaim) -> Instance:
        """The instance of the claim: a new one, or the one that it has, known or not.

        InstanceNotFoundError where the claim had one that is gone.
        """
        ...

    async def recover(self, claims: Sequence[NodeClaim]) -> RecoveredLaunches:
        """Deals out the instances that an earlier process has launched; superfluous ones go."""
        ...

    async def terminate(self, instance: str) -> None:
        """Ends the instance; InstanceNotFoundError once it is gone."""
        ...

    async def instance(self, identity: str) -> Instance:
        """InstanceNotFoundError where there is none, or none any more."""
        ...

    async def instances(self) -> Sequence[Instance]:
        """Every instance of this cluster that is still there."""
        ...

    async def find_garbage(self, claims: Iterable[NodeClaim]) -> Sequence[Instance]:
        """Instances that belong to no claim; `claims` are all that there are."""
        ...

    async def tag(self, instance: str, *, node: str, claim: str) -> None:
        """Writes on the instance whose it is, once its node has joined."""
        ...

    async def drift(self, claim: NodeClaim) -> str | None:
        """Why the claim's instance is not what its class would launch today; None where it is."""
        ...

    def record_discovered_capacity(self, instance: Instance, memory: int) -> None:
        """A node of such an instance has so many bytes of memory, whatever was reckoned."""
        ...

    def mark_unavailable(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Nothing is bought there for a while: it was just taken away from us."""
        ...

    def interruptions(self) -> AsyncIterator[Interruption]:
        """Announcements as they come, for ever.

        One counts as dealt with when the next one is asked for; one that is not comes again.
        """
        ...

    async def unhealthy_instances(self) -> Sequence[Interruption]:
        """Instances that fail, or are to be worked on, as it is now. To be called every minute."""
        ...

    async def garbage_collect(self, claims: Iterable[NodeClaim]) -> None:
        """Removes what nobody has used for long. To be called every half an hour."""
        ...
