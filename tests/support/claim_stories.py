"""NodeClaims that are created by hand, and an API server and an AWS that are watched or fail."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from tests.support.controlled_cluster import ControlledCluster, conditions, merged, node_pool

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.aws.api.services import AwsResponse, Params, Seam
from wainwright.cluster import (
    NO_PRECONDITIONS,
    Cluster,
    MergePatch,
    ObjectList,
    ObjectT,
    Preconditions,
    WatchEvent,
)
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.events import EventRecorder
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import LiveState
from wainwright.controllers.manager import WATCHED_KINDS
from wainwright.controllers.nodeclaim.launch_log import NodeClaimLaunchLog
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.runtime import ControllerRuntime, Reconciler
from wainwright.errors import KubernetesError
from wainwright.model.labels import NODEPOOL

CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
FOREIGN_REF = {"group": "karpenter.example.com", "kind": "OtherNodeClass", "name": "default"}
KEEP_EMPTY_NODES = {"consolidateAfter": "Never"}


def node_claim(name: str = "web-1", *, metadata: Mapping[str, Any] = {}, **spec: Any) -> NodeClaim:
    """A claim without a finalizer, as somebody would create it by hand."""
    manifest: dict[str, Any] = {
        "metadata": {"name": name, "labels": {NODEPOOL: "web"}},
        "spec": {
            "nodeClassRef": CLASS_REF,
            "requirements": [
                {
                    "key": "node.kubernetes.io/instance-type",
                    "operator": "In",
                    "values": ["m5.large"],
                },
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            ],
            "resources": {"requests": {"cpu": "1"}},
        },
    }
    whole = merged(manifest, {"metadata": dict(metadata), "spec": spec})
    return msgspec.convert(whole, NodeClaim, strict=False)


async def begin(cluster: ControlledCluster) -> None:
    """A class, a pool whose empty nodes stay, and the controllers; without the queue in which EC2
    announces the end of instances, so that it is seen what happens without.
    """
    cluster.provider_options = msgspec.structs.replace(cluster.provider_options, queue="")
    await cluster.set_up(node_pool(disruption=KEEP_EMPTY_NODES))
    cluster.start()
    await cluster.wait(5)


async def launched(cluster: ControlledCluster, claim: NodeClaim | None = None) -> NodeClaim:
    """The claim after its launch."""
    claim = claim or node_claim()
    await cluster.create(claim)
    await cluster.wait(5)
    found = await cluster.api.get(NodeClaim, claim.metadata.name)
    assert conditions(found)["Launched"][0] == "True"
    return found


async def initialized(
    cluster: ControlledCluster, claim: NodeClaim | None = None
) -> tuple[NodeClaim, Node]:
    """The claim with its node."""
    claim = await launched(cluster, claim)
    node = await cluster.join(claim)
    await cluster.wait(1)
    found = await cluster.api.get(NodeClaim, claim.metadata.name)
    assert conditions(found)["Initialized"][0] == "True"
    return found, await cluster.api.get(Node, node.metadata.name)


def message_of(claim: NodeClaim, kind: str) -> str:
    assert claim.status is not None
    (found,) = (each for each in claim.status.conditions or () if each.type == kind)
    return found.message


Observer = Callable[[str, str, Mapping[str, Any]], Any]
"""Is shown the verb, the kind, and its arguments; may return something to wait for."""


async def _show(
    observer: Observer | None, verb: str, kind: str, details: Mapping[str, Any]
) -> None:
    shown = None if observer is None else observer(verb, kind, details)
    if asyncio.iscoroutine(shown):
        await shown


class ObservedCluster:
    """The port to an API server, each call of which is shown to `before` and `after` it was done.

    `before` may raise what the caller is to see instead. Watches of the kinds in `held` show
    nothing until the event is set.
    """

    def __init__(
        self,
        cluster: Cluster,
        before: Observer | None = None,
        after: Observer | None = None,
        held: Mapping[type[Any], asyncio.Event] = {},
    ) -> None:
        self._cluster, self._before, self._after = cluster, before, after
        self._held = held

    async def _call(self, verb: str, kind: str, call: Any, **details: Any) -> Any:
        await _show(self._before, verb, kind, details)
        result = await call
        await _show(self._after, verb, kind, details)
        return result

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, name: str = ""
    ) -> ObjectList[ObjectT]:
        listed: ObjectList[ObjectT] = await self._call(
            "list", kind.__name__, _Later(self._cluster.list, kind, namespace, name=name)
        )
        return listed

    async def list_pods_on_node(self, node: str) -> ObjectList[Pod]:
        listed: ObjectList[Pod] = await self._call(
            "list_pods_on_node", "Pod", _Later(self._cluster.list_pods_on_node, node), name=node
        )
        return listed

    async def watch(
        self, kind: type[ObjectT], resource_version: str
    ) -> AsyncGenerator[WatchEvent[ObjectT], None]:
        async with aclosing(self._cluster.watch(kind, resource_version)) as events:
            async for event in events:
                if kind in self._held:
                    await self._held[kind].wait()
                yield event

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        found: ObjectT = await self._call(
            "get", kind.__name__, _Later(self._cluster.get, kind, name, namespace), name=name
        )
        return found

    async def create(self, obj: ObjectT) -> ObjectT:
        created: ObjectT = await self._call(
            "create", type(obj).__name__, _Later(self._cluster.create, obj), object=obj
        )
        return created

    async def patch(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        call = _Later(self._cluster.patch, kind, name, patch, namespace)
        patched: ObjectT = await self._call("patch", kind.__name__, call, name=name, patch=patch)
        return patched

    async def patch_status(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        call = _Later(self._cluster.patch_status, kind, name, patch, namespace)
        patched: ObjectT = await self._call(
            "patch_status", kind.__name__, call, name=name, patch=patch
        )
        return patched

    async def delete(
        self,
        kind: type[Any],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> None:
        call = _Later(
            self._cluster.delete,
            kind,
            name,
            namespace,
            preconditions=preconditions,
            grace_period=grace_period,
        )
        details = {"name": name, "uid": preconditions.uid, "grace_period": grace_period}
        await self._call("delete", kind.__name__, call, **details)

    async def evict(
        self, name: str, namespace: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        call = _Later(self._cluster.evict, name, namespace, uid=uid, grace_period=grace_period)
        await self._call("evict", "Pod", call, name=name, uid=uid)


class _Later:
    """A call that is made only when it is awaited."""

    def __init__(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        self._call, self._arguments, self._named = call, arguments, named

    def __await__(self) -> Any:
        return self._call(*self._arguments, **self._named).__await__()


class ObservedSeam:
    """The same of AWS; `kind` is the service."""

    def __init__(
        self,
        seam: Seam,
        before: Observer | None = None,
        after: Observer | None = None,
    ) -> None:
        self._seam, self._before, self._after = seam, before, after

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        await _show(self._before, operation, service, params)
        response = await self._seam.call(service, operation, params)
        await _show(self._after, operation, service, params)
        return response


def failing(
    cluster: ControlledCluster,
    error: KubernetesError,
    *,
    times: int,
    where: Callable[[str, str, Mapping[str, Any]], bool],
) -> Cluster:
    """The cluster's API server, of which so many of these calls fail, and are not done."""
    left = times

    def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
        nonlocal left
        if left and where(verb, kind, details):
            left -= 1
            raise error

    return ObservedCluster(cluster.api, before)


def record_calls(cluster: ControlledCluster) -> list[tuple[float, str, str]]:
    """From now on every call of the controllers: seconds since the start, verb, kind or service."""
    calls: list[tuple[float, str, str]] = []

    def before(verb: str, kind: str, _: Mapping[str, Any]) -> None:
        calls.append((cluster.clock.now() - cluster.began, verb, kind))

    cluster.port, cluster.seam = (
        ObservedCluster(cluster.port, before),
        ObservedSeam(cluster.seam, before),
    )
    return calls


class ControllersAlone:
    """Some controllers without the others, for what no setting of the manager can bring about."""

    def __init__(self, cluster: ControlledCluster, *more_kinds: type[WireStruct]) -> None:
        clock, metrics = cluster.clock, cluster.metrics
        self._cache = InformerCache(cluster.port, clock, (*WATCHED_KINDS, *more_kinds))
        cloud = cluster.make_cloud(NodeClaimLaunchLog(cluster.port, self._cache))
        self.context = ControllerContext(
            cache=self._cache,
            state=LiveState(self._cache, clock),
            cloud=cloud,
            clock=clock,
            events=EventRecorder(cluster.port, clock),
            metrics=metrics,
            settings=cluster.settings,
        )
        self._declared = DeclaredObjectsTracker(self._cache, cloud)
        self._runtime = ControllerRuntime(clock, metrics)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, reconcilers: Sequence[Reconciler]) -> None:
        self._tasks.append(asyncio.create_task(self._cache.run()))
        await self._cache.wait_until_listed()
        self._declared.apply()
        await self.context.cloud.refresh()
        for reconciler in reconcilers:
            self._runtime.add(reconciler, workers=10)
        self._tasks.append(asyncio.create_task(self._runtime.run()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
