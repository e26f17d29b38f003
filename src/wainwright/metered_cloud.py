"""A cloud provider that records metrics, with the method names that users' dashboards have.

Each controller gets its own: the metrics of Karpenter are by controller and by the method of its
cloud provider (Create, Delete, Get, List, GetInstanceTypes, IsDrifted). Methods that Karpenter's
provider does not have are passed on without a metric.
"""

from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from wainwright.clock import Clock
from wainwright.cloud import (
    CloudProvider,
    DeclaredObjects,
    Garbage,
    LabelChange,
    NodeClassState,
    NodePoolCatalog,
    RecoveredLaunches,
    Refreshed,
    ReservedNode,
)
from wainwright.errors import CloudProviderError
from wainwright.metrics import CLOUD_DURATION, CLOUD_ERRORS, MetricsRegistry
from wainwright.model.disruption import RepairPolicy
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.node_claim import Instance, Interruption, NodeClaim

Result = TypeVar("Result")
UNEXPECTED: Final = "Unknown"
"""The error label of what is no CloudProviderError."""


class MeteredCloudProvider:
    """One controller's view of a cloud provider."""

    def __init__(
        self,
        provider: CloudProvider,
        clock: Clock,
        metrics: MetricsRegistry,
        *,
        controller: str,
        name: str = "aws",
    ) -> None:
        self._provider = provider
        self._clock = clock
        self._metrics = metrics
        self._controller = controller
        self._name = name

    async def _measure(self, method: str, call: Awaitable[Result]) -> Result:
        labels = {"controller": self._controller, "method": method, "provider": self._name}
        started = self._clock.now()
        try:
            return await call
        except CloudProviderError as error:
            self._metrics.add(CLOUD_ERRORS, error=error.reason, **labels)
            raise
        except Exception:
            self._metrics.add(CLOUD_ERRORS, error=UNEXPECTED, **labels)
            raise
        finally:
            self._metrics.observe(CLOUD_DURATION, self._clock.now() - started, **labels)

    async def launch(self, claim: NodeClaim) -> Instance:
        return await self._measure("Create", self._provider.launch(claim))

    async def terminate(self, instance: str) -> None:
        await self._measure("Delete", self._provider.terminate(instance))

    async def instance(self, instance_id: str) -> Instance:
        return await self._measure("Get", self._provider.instance(instance_id))

    async def instances(self) -> Sequence[Instance]:
        return await self._measure("List", self._provider.instances())

    async def catalog(self, pool: str) -> NodePoolCatalog:
        return await self._measure("GetInstanceTypes", self._provider.catalog(pool))

    async def offered_types(self, pool: str) -> OfferedTypes:
        return await self._measure("GetInstanceTypes", self._provider.offered_types(pool))

    async def drift(self, claim: NodeClaim) -> str | None:
        return await self._measure("IsDrifted", self._provider.drift(claim))

    def declare(self, declared: DeclaredObjects) -> None:
        self._provider.declare(declared)

    def next_catalog_change(self) -> float | None:
        return self._provider.next_catalog_change()

    async def refresh(self) -> Refreshed:
        return await self._provider.refresh()

    def node_class_annotations(self, node_class: str) -> Mapping[str, str]:
        return self._provider.node_class_annotations(node_class)

    async def resolve(self, node_class: str) -> NodeClassState:
        return await self._provider.resolve(node_class)

    async def finalize_node_class(self, node_class: str, claims: Sequence[str]) -> str:
        return await self._provider.finalize_node_class(node_class, claims)

    async def recover(self, claims: Sequence[NodeClaim]) -> RecoveredLaunches:
        return await self._provider.recover(claims)

    async def find_garbage(self, claims: Iterable[NodeClaim]) -> Garbage:
        return await self._provider.find_garbage(claims)

    async def tag(self, instance: str, *, node: str, claim: str) -> None:
        await self._provider.tag(instance, node=node, claim=claim)

    async def reservation_label_changes(
        self, nodes: Iterable[ReservedNode]
    ) -> Sequence[LabelChange]:
        return await self._provider.reservation_label_changes(nodes)

    async def nodes_to_drain(self, nodes: Iterable[ReservedNode]) -> Sequence[str]:
        return await self._provider.nodes_to_drain(nodes)

    def record_discovered_capacity(self, instance: Instance, memory: int) -> None:
        self._provider.record_discovered_capacity(instance, memory)

    def mark_unavailable(self, instance_type: str, zone: str, capacity_type: str) -> None:
        self._provider.mark_unavailable(instance_type, zone, capacity_type)

    def interruptions(self) -> AsyncGenerator[Interruption, bool | None]:
        return self._provider.interruptions()

    async def unhealthy_instances(self) -> Sequence[Interruption]:
        return await self._provider.unhealthy_instances()

    @property
    def next_unhealthy(self) -> float | None:
        return self._provider.next_unhealthy

    def repair_policies(self) -> Sequence[RepairPolicy]:
        return self._provider.repair_policies()

    async def garbage_collect(self, claims: Iterable[NodeClaim]) -> None:
        await self._provider.garbage_collect(claims)
