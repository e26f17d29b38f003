"""Pods of a trace: they come and go at the moments of their rows, and come back when evicted."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from wainwright.api.kubernetes.cluster import Namespace
from wainwright.api.kubernetes.workloads import Container, Pod, PodSpec, ResourceRequirements
from wainwright.api.wire import ObjectMeta, OwnerReference
from wainwright.cluster import EventType, WatchEvent
from wainwright.errors import AlreadyExistsError, ObjectNotFoundError
from wainwright.sim.scenario import Scenario, TracePod
from wainwright.sim.world import World

OWNER_API_VERSION: Final = "wainwright.dev/v1alpha1"
OWNER_UID: Final = "00000000-0000-4000-8000-000000000000"


class TracePods:
    def __init__(
        self,
        scenario: Scenario,
        world: World,
        write: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        """`write` carries out a write soon, when the API server answers."""
        self._owner = OwnerReference(
            apiVersion=OWNER_API_VERSION,
            kind="Scenario",
            name=scenario.name,
            uid=OWNER_UID,
            controller=True,
        )
        self._api = world.api
        self._write = write
        self._present: dict[tuple[str, str], TracePod] = {}
        self._specs: dict[tuple[Any, ...], PodSpec] = {}
        if scenario.traces:
            world.api.subscribe(self._on_change)

    async def create(self, row: TracePod) -> None:
        self._present[row.namespace, row.name] = row
        if self._api.peek(Namespace, row.namespace) is None:
            await self._api.create(Namespace(metadata=ObjectMeta(name=row.namespace)))
        await self._create_pod(row)

    async def delete(self, row: TracePod) -> None:
        self._present.pop((row.namespace, row.name), None)
        try:
            await self._api.delete(Pod, row.name, row.namespace)
        except ObjectNotFoundError:
            return

    def _on_change(self, change: WatchEvent[Any]) -> None:
        if change.type is not EventType.DELETED or not isinstance(change.object, Pod):
            return
        metadata = change.object.metadata
        row = self._present.get((metadata.namespace, metadata.name))
        if row is not None:
            self._write(partial(self._create_again, row))

    async def _create_again(self, row: TracePod) -> None:
        if (row.namespace, row.name) in self._present:
            await self._create_pod(row)

    async def _create_pod(self, row: TracePod) -> None:
        pod = Pod(
            metadata=ObjectMeta(
                name=row.name,
                namespace=row.namespace,
                labels=dict(row.labels) or None,
                ownerReferences=[self._owner],
            ),
            spec=self._spec(row.requests, row.node_selector),
        )
        try:
            await self._api.create(pod)
        except AlreadyExistsError:
            return

    def _spec(self, requests: Mapping[str, str], selector: Mapping[str, str]) -> PodSpec:
        """One for all rows alike: pods that share a spec are admitted and translated once."""
        key = (tuple(requests.items()), tuple(selector.items()))
        spec = self._specs.get(key)
        if spec is None:
            resources = ResourceRequirements(requests=dict(requests))
            spec = self._specs[key] = PodSpec(
                containers=[Container(name="main", resources=resources)],
                nodeSelector=dict(selector) or None,
            )
        return spec
