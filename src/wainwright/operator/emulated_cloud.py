"""The emulated EC2 of `wain run --provider emulator`: its instances become Nodes of a real cluster.

Everything is in this process: the account, and a kubelet for each instance that keeps its Node
Ready and runs the pods bound to it, of which only the status is real. At the start the account is
rebuilt from the cluster's NodeClaims, so that a restart loses no instance. The server of the
account is loaded only where it is served or kept in a file.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final

import msgspec

from wainwright.api.catalog_documents import Cloud
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import Lease, LeaseSpec
from wainwright.api.wire import ObjectMeta, OwnerReference
from wainwright.clock import Clock, format_microseconds, format_timestamp
from wainwright.cluster import Cluster
from wainwright.controllers.runtime import Key
from wainwright.emulator.account_timer import AccountTimer
from wainwright.emulator.emulated_account import ApiCall, EmulatedAwsAccount
from wainwright.emulator.selected_resources import SelectedResources
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError, ObjectNotFoundError
from wainwright.model.labels import ZONE
from wainwright.sim.informers import Informer, Informers, KeyedWorker, PodsByNode
from wainwright.sim.kubelet import KubeletOptions, Kubelets
from wainwright.sim.running_instances import RunningInstances, label_of
from wainwright.translate.node_claim_pairing import pair_nodes_with_claims

if TYPE_CHECKING:
    from wainwright.emulator.http.server import StateFile

LOG: Final = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
HEARTBEAT_SECONDS: Final = 10.0
"""As kubelets renew their lease; after 40 s without it the control plane calls a node NotReady."""

POD_WORKERS: Final = 20


class EmulatedCloudOptions(msgspec.Struct, frozen=True, kw_only=True):
    cluster_name: str
    kubernetes: str | None = None
    """The version of the API server, such as 1.33: images are those of it."""
    cloud: Cloud | None = None
    boot: float = 2.0
    """Seconds from the launch to the Node."""
    kubelet: bool = True
    """Whether nodes are kept Ready and pods run; else another does that."""
    state: Path | None = None
    """A file that keeps the account; else it is rebuilt from the NodeClaims."""
    seed: str = ""
    """Of the waiting times after requests that failed."""
    port: int | None = None
    """Of the loopback interface, for clients of AWS; 0: any free; None: nobody is served."""


class EmulatedCloud:
    def __init__(self, cluster: Cluster, clock: Clock, options: EmulatedCloudOptions) -> None:
        self._cluster, self._clock, self._options = cluster, clock, options
        self._socket = None if options.port is None else _listen(options.port)
        self.account, self._is_resumed = self._open_account()
        self._resources = SelectedResources(
            self.account.services, self.account.zones, options.cluster_name
        )
        self._timer = AccountTimer(self.account)
        informers = self._informers = Informers(cluster, clock, options.seed)
        self._kubelets = Kubelets(
            self.account,
            informers,
            PodsByNode(informers) if options.kubelet else None,
            KubeletOptions(
                boot=(options.boot, options.boot),
                ready=(0.0, 0.0) if options.kubelet else None,
                version="" if options.kubernetes is None else f"v{options.kubernetes}.0",
                container_statuses=True,
            ),
        )
        informers.of(EC2NodeClass).add_handler(self._class_changed)
        self._heartbeats = NodeHeartbeats(cluster, clock, informers.of(Node), self._kubelets)

    def close(self) -> None:
        """Frees the port: it is bound from the start, since queue URLs of the account have it."""
        if self._socket is not None:
            self._socket.close()

    def _open_account(self) -> tuple[EmulatedAwsAccount, bool]:
        """And whether it was kept in a file."""
        try:
            resumed = self._resume()
            return resumed or self._create(), resumed is not None
        except BaseException:
            self.close()
            raise

    def _resume(self) -> EmulatedAwsAccount | None:
        state = self._options.state
        if state is None:
            return None
        from wainwright.emulator.http.server import resume_account

        return resume_account(state, clock=self._clock, queue_base=self._endpoint)

    def _create(self) -> EmulatedAwsAccount:
        options = self._options
        settings = EmulatorSettings(
            cluster=options.cluster_name, kubernetes=options.kubernetes, queue_base=self._endpoint
        )
        return EmulatedAwsAccount(options.cloud, clock=self._clock, settings=settings)

    @property
    def _endpoint(self) -> str | None:
        if self._socket is None:
            return None
        from wainwright.emulator.http.server import endpoint_url

        return endpoint_url(self._socket)

    @property
    def region(self) -> str:
        return self.account.context.region

    @property
    def queue(self) -> str:
        return self.account.account.queue

    async def rebuild(self) -> None:
        """The instances of the claims that the cluster has, with their ids, types and zones. Closed
        where that fails: it is tried again with another.
        """
        try:
            await self._rebuild()
        except BaseException:
            self.close()
            raise

    async def _rebuild(self) -> None:
        listed = await self._cluster.list(EC2NodeClass)
        classes = {each.metadata.name: each for each in listed.items}
        for node_class in classes.values():
            self._resources.create_for(node_class)
        if self._is_resumed:
            return
        nodes, claims = await asyncio.gather(
            self._cluster.list(Node), self._cluster.list(NodeClaim)
        )
        self._add_instances(nodes.items, claims.items, classes)

    def _add_instances(
        self,
        nodes: Iterable[Node],
        claims: Iterable[NodeClaim],
        classes: dict[str, EC2NodeClass],
    ) -> None:
        instances, count = RunningInstances(self.account, self._resources), 0
        for paired in pair_nodes_with_claims(nodes, claims):
            claim, identity = paired.claim, paired.provider_id.rpartition("/")[2]
            node_class = None if claim is None else classes.get(claim.spec.nodeClassRef.name)
            if claim is None or node_class is None or not identity.startswith("i-"):
                continue
            created = claim.metadata.creationTimestamp or format_timestamp(self._clock.now())
            zone = label_of(paired, ZONE)
            try:
                instances.add(
                    paired, claim, node_class, identity=identity, zone=zone, created=created
                )
                count += 1
            except AwsError as error:
                LOG.warning("%s has no instance in the emulated EC2: %s", paired.name, error)
        if count:
            LOG.info("restored %d instances of NodeClaims in the emulated EC2", count)

    async def run(self) -> None:
        """Until cancelled."""
        self._timer.start()
        try:
            async with self._served(), asyncio.TaskGroup() as tasks:
                tasks.create_task(self._informers.run(), name="informers of kubelets")
                await self._informers.synced()
                tasks.create_task(self._kubelets.run_nodes(), name="kubelets")
                tasks.create_task(self._kubelets.run_startup_agents(), name="startup agents")
                if self._options.kubelet:
                    tasks.create_task(self._kubelets.run_pods(POD_WORKERS), name="pods of kubelets")
                    tasks.create_task(self._heartbeats.run(), name="heartbeats")
        finally:
            self._timer.stop()

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        """The endpoint, and the file that keeps the account; calls of this process count too."""
        async with AsyncExitStack() as stack:
            state = self._state_file()
            if self._socket is not None:
                from wainwright.emulator.http.server import EmulatorHttpServer

                server = EmulatorHttpServer(self.account, self._socket, state=state)
                await stack.enter_async_context(server.running())
                LOG.info("the emulated EC2 is served on %s", self._endpoint)
            elif state is not None:
                await stack.enter_async_context(state.kept())
            yield

    def _state_file(self) -> "StateFile | None":
        if self._options.state is None:
            return None
        from wainwright.emulator.http.server import StateFile

        state = StateFile(self._options.state, self.account)

        def changed(call: ApiCall) -> None:
            if call.may_change_state:
                state.mark_changed()

        self.account.on_call = changed
        return state

    def _class_changed(self, _: EC2NodeClass | None, after: EC2NodeClass | None) -> None:
        """Whatever a class selects exists, as nobody could create it in an emulated account."""
        if after is not None:
            self._resources.create_for(after)


def _listen(port: int) -> socket:
    from wainwright.emulator.http.server import listen

    return listen(port)


class NodeHeartbeats:
    """Renews the leases of emulated nodes, without which the control plane gives them up."""

    def __init__(
        self, cluster: Cluster, clock: Clock, nodes: Informer[Node], kubelets: Kubelets
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._nodes, self._kubelets = nodes.objects, kubelets
        self._worker = KeyedWorker(clock, self._renew)
        nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        await self._worker.run()

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is None and before is not None:
            self._worker.forget(before.metadata.name)
        elif after is not None and before is None and self._is_emulated(after):
            self._worker.add(after.metadata.name)

    def _is_emulated(self, node: Node) -> bool:
        return self._kubelets.has_instance(node.spec.providerID.rpartition("/")[2])

    async def _renew(self, name: Key) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        if self._kubelets.is_answering(name):
            await self._write(node)
        self._worker.add_at(name, self._clock.now() + HEARTBEAT_SECONDS)

    async def _write(self, node: Node) -> None:
        name, now = node.metadata.name, format_microseconds(self._clock.now())
        try:
            await self._cluster.patch(Lease, name, {"spec": {"renewTime": now}}, LEASE_NAMESPACE)
        except ObjectNotFoundError:
            await self._cluster.create(_lease(node, now))


def _lease(node: Node, now: str) -> Lease:
    owner = OwnerReference(
        apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid
    )
    return Lease(
        metadata=ObjectMeta(
            name=node.metadata.name, namespace=LEASE_NAMESPACE, ownerReferences=[owner]
        ),
        spec=LeaseSpec(
            holderIdentity=node.metadata.name, leaseDurationSeconds=LEASE_SECONDS, renewTime=now
        ),
    )
