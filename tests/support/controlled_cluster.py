"""A cluster with the controllers in it: an API server in memory, an emulated account, virtual time.

The tests play the rest of the cluster: they create pods, let nodes join, and bind pods to them.
"""

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping
from random import Random
from typing import Any, Final

import msgspec
from tests.support.aws_account import discovered_node_class

from wainwright.api.catalog_documents import (
    Cloud,
    CloudReservation,
    CloudSpec,
    InstanceType,
    NodeOverlay,
)
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import Condition, ObjectMeta, WireStruct
from wainwright.aws.api.middleware import with_middleware
from wainwright.aws.api.services import Seam
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.provider import AwsCloudProvider, ProviderEnvironment, ProviderOptions
from wainwright.clock import VirtualClock, format_timestamp
from wainwright.cloud import CloudProvider, LaunchLog
from wainwright.cluster import Cluster
from wainwright.controllers.context import Compute, compute_inline
from wainwright.controllers.manager import ControllerEnvironment, ControllerManager
from wainwright.controllers.runtime import ChangeFeed
from wainwright.controllers.settings import ControllerSettings
from wainwright.emulator.ec2.region_offerings import OfferingKey
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import RequestForbiddenError
from wainwright.metrics import NODECLAIMS_DISRUPTED, MetricsRegistry
from wainwright.model.labels import HOSTNAME, NODEPOOL
from wainwright.sim.api_server import InMemoryApiServer

POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "web"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [],
            }
        }
    },
}


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the change laid over it, mapping by mapping."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        result[key] = (
            merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
        )
    return result


def node_pool(name: str = "web", **spec: Any) -> NodePool:
    return msgspec.convert(
        merged(POOL, {"metadata": {"name": name}, "spec": spec}), NodePool, strict=False
    )


def pending_pod(name: str = "web-0", cpu: str = "1", memory: str = "1Gi", **more: Any) -> Pod:
    """`more` is laid over the manifest."""
    requests = {"cpu": cpu, "memory": memory}
    manifest = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
    }
    return msgspec.convert(merged(manifest, more), Pod, strict=False)


SOLD: Final = [
    f"{family}.{size}"
    for family, sizes in (
        ("c5", ("large", "xlarge", "2xlarge", "9xlarge", "18xlarge")),
        ("m5", ("large", "xlarge", "2xlarge", "8xlarge", "16xlarge")),
        ("m6i", ("large", "xlarge", "2xlarge", "8xlarge", "16xlarge")),
        ("r6g", ("large", "xlarge", "2xlarge", "8xlarge", "16xlarge")),
        ("t3", ("large", "xlarge", "2xlarge")),
    )
    for size in sizes
]
"""What the account sells unless a test says otherwise (`instanceTypes=None`: the whole region). To
fetch and compile the 1,300 types of a region takes most of the time of a short story."""


class ControlledCluster:
    """`settings`, `provider_options`, `port`, `seam`, `feed` and `compute` may be replaced before
    `start`.
    """

    def __init__(
        self,
        clock: VirtualClock,
        *reservations: CloudReservation,
        emulator: EmulatorSettings | None = None,
        settings: ControllerSettings | None = None,
        **spec: Any,
    ) -> None:
        self.clock, self.began = clock, clock.now()
        self.api = InMemoryApiServer(clock)
        stated = {
            "region": "us-east-1",
            "instanceTypes": SOLD,
            "capacityReservations": list(reservations),
            **spec,
        }
        self.account = EmulatedAwsAccount(
            Cloud(spec=CloudSpec(**stated)), clock=clock, settings=emulator
        )
        self.port: Cluster = self.api
        """What the controllers see of the API server; `seam` the same of AWS."""
        self.seam: Seam = self.account
        self.metrics = MetricsRegistry()
        self.settings = settings or ControllerSettings()
        self.provider_options = ProviderOptions(
            cluster=ClusterConfig(name="wain", region="us-east-1"), queue="wain"
        )
        self.provider_class = AwsCloudProvider
        self.modelled_prices: frozenset[OfferingKey] = frozenset()
        """Of the account, that messages mark as estimates."""
        self.feed: ChangeFeed | None = None
        self.compute: Compute = compute_inline
        self.manager: ControllerManager | None = None
        self._processes = 0
        self._running: asyncio.Task[None] | None = None

    # The process

    def make_cloud(self, launch_log: LaunchLog) -> CloudProvider:
        seam = with_middleware(self.seam, self.clock, Random(0), self.metrics)
        environment = ProviderEnvironment(
            process_id=f"process-{self._processes}",
            seam=seam,
            launch_log=launch_log,
            clock=self.clock,
            metrics=self.metrics,
            modelled_prices=self.modelled_prices,
        )
        return self.provider_class(environment, self.provider_options)

    def start(self) -> None:
        """Starts a new process, without any memory of the last one."""
        self._processes += 1
        environment = ControllerEnvironment(
            cluster=self.port,
            make_cloud=self.make_cloud,
            clock=self.clock,
            metrics=self.metrics,
            seed=f"process {self._processes}",
            feed=self.feed,
            compute=self.compute,
        )
        self.manager = ControllerManager(environment, self.settings)
        self._running = asyncio.create_task(self.manager.run())

    async def kill(self) -> None:
        """Ends the process between two calls; what went wrong in it is raised."""
        if self._running is None:
            return
        is_crashed = self._running.done()
        self._running.cancel()
        (result,) = await asyncio.gather(self._running, return_exceptions=True)
        if is_crashed and isinstance(result, Exception):
            raise result

    async def wait(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    # Objects

    async def create(self, *objects: WireStruct) -> None:
        for obj in objects:
            await self.api.create(obj)

    async def set_up(self, *pools: NodePool) -> None:
        """A class that finds everything, and these pools, or one."""
        await self.create(discovered_node_class(), *(pools or (node_pool(),)))

    async def create_class(self, name: str = "default", **spec: Any) -> None:
        await self.create(discovered_node_class(name, **spec))

    async def claims(self) -> list[NodeClaim]:
        return [*(await self.api.list(NodeClaim)).items]

    async def claim(self) -> NodeClaim:
        """The only one."""
        (found,) = await self.claims()
        return found

    async def pool(self, name: str = "web") -> NodePool:
        return await self.api.get(NodePool, name)

    async def nodes(self) -> list[Node]:
        return [*(await self.api.list(Node)).items]

    async def pods(self) -> list[Pod]:
        return [*(await self.api.list(Pod)).items]

    async def events(self, reason: str) -> list[Event]:
        return [each for each in (await self.api.list(Event)).items if each.reason == reason]

    def instances(self) -> list[str]:
        """The ids of all instances that have not ended."""
        return [each.id for each in self.account.services.instances.list_alive()]

    def disrupted(
        self, reason: str, capacity_type: str = "on-demand", mode: str = "graceful"
    ) -> float:
        """How many claims of the pool web were disrupted, as the metric says."""
        return self.metrics.value(
            NODECLAIMS_DISRUPTED,
            reason=reason,
            nodepool="web",
            capacity_type=capacity_type,
            consolidation_policy="WhenEmptyOrUnderutilized",
            termination_mode=mode,
        )

    async def join(self, claim: NodeClaim, *, ready: bool = True, **node: Any) -> Node:
        """The Node of the claim's instance appears; `node` is laid over its manifest."""
        status = claim.status or NodeClaimStatus()
        name = f"node-{claim.metadata.name}"
        obj = Node(
            metadata=ObjectMeta(name=name, labels={NODEPOOL: "web", HOSTNAME: name}),
            spec=NodeSpec(
                providerID=status.providerID,
                taints=[Taint(key="karpenter.sh/unregistered", effect="NoExecute")],
            ),
            status=NodeStatus(
                capacity=dict(status.capacity or {}), allocatable=dict(status.allocatable or {})
            ),
        )
        manifest = merged(msgspec.to_builtins(obj), node)
        created = await self.api.create(msgspec.convert(manifest, Node, strict=False))
        return await self.set_ready(created.metadata.name) if ready else created

    async def set_condition(self, claim: str, kind: str, status: str = "True") -> None:
        """What some controller writes on a NodeClaim."""
        known = ((await self.api.get(NodeClaim, claim)).status or NodeClaimStatus()).conditions
        made = Condition(
            type=kind,
            status=status,
            reason=kind,
            lastTransitionTime=format_timestamp(self.clock.now()),
        )
        stated = [*(each for each in known or () if each.type != kind), made]
        patch = {"status": {"conditions": msgspec.to_builtins(stated)}}
        await self.api.patch_status(NodeClaim, claim, patch)

    async def set_ready(self, name: str, status: str = "True") -> Node:
        """What the kubelet and the node lifecycle controller write."""
        condition = NodeCondition(type="Ready", status=status, reason="KubeletReady")
        await self.api.patch_status(
            Node, name, {"status": {"conditions": msgspec.to_builtins([condition])}}
        )
        node = await self.api.get(Node, name)
        kept = [each for each in node.spec.taints or () if "not-ready" not in each.key]
        return await self.api.patch(Node, name, {"spec": {"taints": msgspec.to_builtins(kept)}})

    async def create_pod(self, name: str = "web-0", **more: Any) -> None:
        await self.create(pending_pod(name, **more))

    async def add_node(self, pod: str = "web-0", **more: Any) -> Node:
        """A node that a new pod made necessary, with the pod on it."""
        before = {claim.metadata.name for claim in await self.claims()}
        await self.create_pod(pod, **more)
        await self.wait(20)
        (claim,) = (each for each in await self.claims() if each.metadata.name not in before)
        node = await self.join(claim)
        await self.bind(pod, node.metadata.name)
        return node

    async def change_class(self, spec: Mapping[str, Any], name: str = "default") -> None:
        await self.api.patch(EC2NodeClass, name, {"spec": spec})

    async def bind(self, pod: str, node: str) -> None:
        await self.api.bind(pod, "default", node)

    async def stop_pods(self) -> None:
        """What kubelets do with pods that are being deleted."""
        for pod in await self.pods():
            if pod.metadata.deletionTimestamp:
                await self.api.delete(Pod, pod.metadata.name, "default", grace_period=0)


class SlowClaimCreations:
    """An API server that takes a while to create NodeClaims, and refuses some at once."""

    def __init__(
        self, cluster: ControlledCluster, seconds: float, refused: Container[int] = ()
    ) -> None:
        self._api, self._clock, self._seconds = cluster.api, cluster.clock, seconds
        self._refused, self._count = refused, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def create(self, obj: Any, **more: Any) -> Any:
        if isinstance(obj, NodeClaim):
            self._count += 1
            if self._count in self._refused:
                raise RequestForbiddenError("a webhook does not like it", status=403)
            await self._clock.sleep(self._seconds)
        return await self._api.create(obj, **more)


def run_cluster(
    story: Callable[[ControlledCluster], Coroutine[Any, Any, None]],
    *reservations: CloudReservation,
    **more: Any,
) -> None:
    """Runs the story in virtual time, and ends the process if one was started."""
    clock = VirtualClock()

    async def main() -> None:
        cluster = ControlledCluster(clock, *reservations, **more)
        try:
            await story(cluster)
        finally:
            await cluster.kill()
            await _end_tasks()

    try:
        clock.run(main())
    finally:
        clock.close()


async def _end_tasks() -> None:
    """What a killed process leaves behind, such as lookups that several callers wait for."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def conditions(
    obj: NodeClaim | NodePool | EC2NodeClass | NodeOverlay | InstanceType,
) -> dict[str, tuple[str, str]]:
    """Status and reason by type."""
    written = (obj.status.conditions if obj.status is not None else None) or ()
    return {each.type: (each.status, each.reason) for each in written}
