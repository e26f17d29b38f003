"""The kubelets of a simulated cluster: instances become nodes, and nodes run their pods.

An instance of the emulated EC2 boots for a while and registers its Node with the name, labels and
taints that its user data give it; a little later it is Ready, with its devices and without startup
taints. Nodes without an instance, as other clouds' or hand-written ones, have a kubelet that always
answers. Nothing polls: a kubelet that falls silent says so to who would notice that no status
comes from it any more.
"""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import (
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from wainwright.api.kubernetes.meta import QuantityValue, ResourceList, to_quantity
from wainwright.api.kubernetes.storage import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    VolumeNodeResources,
)
from wainwright.api.kubernetes.workloads import Pod, PodCondition
from wainwright.api.wire import ObjectMeta, OwnerReference
from wainwright.catalogue.instancetypes.capacity import GPU_RESOURCES, NEURON, NEURON_CORE
from wainwright.catalogue.instancetypes.instance_type_info import (
    InstanceTypeInfo,
    built_in_instance_types,
)
from wainwright.clock import format_timestamp
from wainwright.cluster import Preconditions
from wainwright.controllers.runtime import Key
from wainwright.emulator.boot.node_boot import BootedNode, NodeBooter, node_labels
from wainwright.emulator.boot.user_data import BootFailure, InstanceFacts
from wainwright.emulator.ec2.instance.lifecycle import ALIVE_STATES, Instance
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.errors import AlreadyExistsError
from wainwright.sim.informers import (
    Informers,
    KeyedWorker,
    PodsByNode,
    earliest,
    key_of,
    split_key,
)
from wainwright.sim.node_info import is_finished
from wainwright.translate.annotations import RUNS_FOR_ANNOTATION
from wainwright.translate.disruption import parse_duration
from wainwright.translate.object_metadata import parse_timestamp

EMULATED_IMAGE: Final = "emulated"
CLAIM_TAG: Final = "karpenter.sh/nodeclaim"
EBS_DRIVER: Final = "ebs.csi.aws.com"
XEN_ATTACHMENTS: Final = 39
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
PLAIN_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")
PRESSURE_CONDITIONS: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)

SecondsRange: TypeAlias = tuple[float, float]
"""Uniform between both, by the seed."""
NodeResources: TypeAlias = tuple[ResourceList, ResourceList]
"""Capacity and allocatable."""
ResourcesOfInstance: TypeAlias = Callable[[Instance], NodeResources | None]
SilenceHandler: TypeAlias = Callable[[str], None]
"""Called with the name of a node whose kubelet has fallen silent, or answers again."""


class KubeletOptions(msgspec.Struct, frozen=True, kw_only=True):
    boot: SecondsRange = (40.0, 40.0)
    """From the launch to the Node, EC2's own pending time included."""
    ready: SecondsRange | None = (5.0, 5.0)
    """From the Node to Ready; None where another makes it Ready."""
    never_join: float = 0.0
    """The share of instances that never register."""
    pod_start: SecondsRange = (2.0, 2.0)
    """From bound to running."""
    pod_termination: SecondsRange = (5.0, 5.0)
    """From the deletion to gone; the grace period is the upper bound."""
    less: Mapping[str, QuantityValue] = {}
    """What every instance offers less than it should, by resource."""
    volumes: int | None = None
    """How many volumes of pods can be attached to a node; None: as many as its type attaches."""
    version: str = ""
    """Of the kubelet, such as v1.33.0, where somebody looks at it."""
    container_statuses: bool = False
    """Whether pods show that their containers run, for people who list them."""


class Kubelets:
    """All kubelets of the cluster, and the agents that come with a node."""

    def __init__(
        self,
        account: EmulatedAwsAccount,
        informers: Informers,
        pods_by_node: PodsByNode | None,
        options: KubeletOptions,
        *,
        seed: int = 0,
        resources_of: ResourcesOfInstance | None = None,
    ) -> None:
        """`pods_by_node`: None where another runs the pods, and nobody reads them here.
        `resources_of`: what an instance offers, by default what its NodeClaim says; where it
        answers None, what the user data make of the type.
        """
        self._cluster, self._clock = informers.cluster, informers.clock
        self._instances = account.services.instances
        self._boots = NodeBoots(account, options, seed, resources_of or self._claimed_resources)
        self._options = options
        self._nodes = informers.of(Node)
        self._claims = informers.of(NodeClaim)
        self._csi_nodes = informers.of(CSINode)
        self._silent: dict[str, float] = {}
        """Lost instances (or nodes without one), and since when they do not answer."""
        self._ended: dict[str, float] = {}
        self._node_of: dict[str, str] = {}
        self._waiting_for_name: dict[str, str] = {}
        self._silence_handlers: list[SilenceHandler] = []
        self._worker = KeyedWorker(self._clock, self._work_on_instance)
        self._taint_worker = KeyedWorker(self._clock, self._remove_startup_taints)
        self._pods = (
            None
            if pods_by_node is None
            else PodRunner(informers, pods_by_node, options, seed, self.is_answering)
        )
        self._startup_taints: dict[str, list[Taint]] = {}
        self._instances.add_listener(self._instance_changed)
        self._nodes.add_handler(self._node_changed)
        self._claims.add_handler(self._claim_changed)

    @property
    def next_due(self) -> float | None:
        pods = self._pods
        return earliest(self._worker.next_due, None if pods is None else pods.next_due)

    async def run_nodes(self) -> None:
        for instance in self._instances.list_alive():
            self._worker.add(instance.id)
        await self._worker.run()

    async def run_startup_agents(self) -> None:
        await self._taint_worker.run()

    async def run_pods(self, workers: int = 1) -> None:
        """With one worker everything happens in the same order each time."""
        if self._pods is not None:
            await asyncio.gather(*(self._pods.run() for _ in range(workers)))

    # Controls of a scenario

    def lose(self, instance_id: str) -> None:
        """The instance does not answer any more; also the name of a node without an instance."""
        if instance_id not in self._silent:
            self._silent[instance_id] = self._clock.now()
            self._tell(instance_id)

    def recover(self, instance_id: str) -> None:
        """It answers again and goes on where it was."""
        if self._silent.pop(instance_id, None) is not None:
            self._tell(instance_id)
            self._worker.add(instance_id)

    def set_never_join(self, share: float) -> None:
        """From now on this share of the instances that are launched never registers."""
        self._boots.never_join = share

    def set_less(self, less: Mapping[str, QuantityValue]) -> None:
        """From now on instances that join offer so much less than they should, by resource."""
        self._boots.less = less

    def on_silence(self, handler: SilenceHandler) -> None:
        self._silence_handlers.append(handler)

    def has_instance(self, identity: str) -> bool:
        """Whether the account has an instance of that id, alive or ended."""
        return self._instances.get(identity) is not None

    def is_answering(self, node: str) -> bool:
        return self.silent_since(node) is None

    def silent_since(self, node: str) -> float | None:
        identity = self._identity(node)
        return earliest(self._silent.get(identity), self._ended.get(identity))

    def _claimed_resources(self, instance: Instance) -> NodeResources | None:
        """What the catalogue says of the instance, as our controllers wrote it onto its claim."""
        claim = self._claims.objects.get(instance.tags.get(CLAIM_TAG, ""))
        status = claim.status if claim is not None else None
        if status is None or status.capacity is None or status.allocatable is None:
            return None
        return {**status.capacity}, {**status.allocatable}

    def boot_failure(self, instance_id: str) -> BootFailure | None:
        """Why the instance never registers, where its user data are the reason."""
        return self._boots.failures.get(instance_id)

    def _identity(self, node: str) -> str:
        """The id of the node's instance; its name where it has none."""
        known = self._nodes.objects.get(node)
        provider_id = known.spec.providerID if known is not None else ""
        return provider_id.rpartition("/")[2] or node

    def _tell(self, identity: str) -> None:
        node = self._node_of.get(identity, identity)
        for handler in self._silence_handlers:
            handler(node)
        if self._pods is not None:
            self._pods.look_at_node(node)

    # Instances and nodes

    def _instance_changed(self, instance: Instance, before: str) -> None:
        if not before:
            self._boots.plan(instance)
            self._worker.add(instance.id)
        elif not instance.alive and before in ALIVE_STATES:
            self._end(instance.id)

    def _end(self, identity: str) -> None:
        """Remembered as long as there is a Node, or may still be one."""
        if self._boots.has_joined(identity) and identity not in self._node_of:
            self._boots.forget(identity)
            return
        self._ended[identity] = self._clock.now()
        if identity in self._node_of:
            self._tell(identity)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        node = after if after is not None else before
        assert node is not None
        identity = node.spec.providerID.rpartition("/")[2] or node.metadata.name
        if after is None:
            self._node_of.pop(identity, None)
            if self._ended.pop(identity, None) is not None:
                self._boots.forget(identity)
            waiting = self._waiting_for_name.pop(node.metadata.name, None)
            if waiting is not None:
                self._worker.add(waiting)
            return
        if before is None or before.spec.providerID != after.spec.providerID:
            self._node_of[identity] = node.metadata.name
        self._look_at_taints(after)

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        claim = after if after is not None else before
        provider_id = claim.status.providerID if claim is not None and claim.status else ""
        if not provider_id:
            return
        taints = (after.spec.startupTaints or ()) if after is not None else ()
        self._startup_taints[provider_id] = [
            Taint(key=each.key, value=each.value or "", effect=each.effect) for each in taints
        ]
        if not taints:
            del self._startup_taints[provider_id]
            return
        node = self._nodes.objects.get(self._node_of.get(provider_id.rpartition("/")[2], ""))
        if node is not None:
            self._look_at_taints(node)

    async def _work_on_instance(self, instance_id: str) -> None:
        instance = self._instances.get(instance_id)
        if instance_id in self._silent or (instance is not None and not instance.alive):
            return
        name = self._node_of.get(instance_id)
        node = self._nodes.objects.get(name) if name is not None else None
        if node is not None:
            await self._make_ready(instance_id, node)
        elif instance is not None:
            await self._join(instance)

    async def _join(self, instance: Instance) -> None:
        moment = self._boots.joins_at(instance)
        if moment is None or self._boots.has_joined(instance.id):
            return  # a kubelet registers once, when it starts
        if moment > self._clock.now():
            self._worker.add_at(instance.id, moment)
            return
        registered = self._boots.registration(instance)
        if registered is None:
            return
        try:
            self._nodes.observe(await self._cluster.create(registered))
        except AlreadyExistsError:
            # The Node of an earlier instance with this address: the name is free when it is gone.
            self._waiting_for_name[registered.metadata.name] = instance.id
            return
        self._boots.joined(instance, self._clock.now())
        self._worker.add_at(instance.id, self._boots.ready_at(instance.id))

    async def _make_ready(self, identity: str, node: Node) -> None:
        if _is_node_ready(node) or self._options.ready is None:
            return
        due = self._boots.ready_at(identity)
        if due > self._clock.now():
            self._worker.add_at(identity, due)
            return
        now = format_timestamp(self._clock.now())
        status: dict[str, Any] = {
            "conditions": [msgspec.to_builtins(each) for each in _conditions(now, is_ready=True)]
        }
        resources = self._boots.resources_of(identity)
        if resources is not None:
            status["capacity"], status["allocatable"] = resources
        changed = await self._cluster.patch_status(Node, node.metadata.name, {"status": status})
        self._nodes.observe(changed)
        if identity in self._boots.booted:
            await self._create_csi_node(identity, changed)

    async def _create_csi_node(self, instance_id: str, node: Node) -> None:
        if node.metadata.name in self._csi_nodes.objects:
            return
        driver = CSINodeDriver(
            name=EBS_DRIVER,
            nodeID=instance_id,
            topologyKeys=[ZONE_LABEL],
            allocatable=VolumeNodeResources(count=self._attachable_volumes(instance_id)),
        )
        owner = OwnerReference(
            apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid
        )
        metadata = ObjectMeta(name=node.metadata.name, ownerReferences=[owner])
        made = CSINode(metadata=metadata, spec=CSINodeSpec(drivers=[driver]))
        self._csi_nodes.observe(await self._cluster.create(made))

    def _attachable_volumes(self, instance_id: str) -> int | None:
        """What the CSI driver makes of the instance, unless the options say it."""
        instance = self._instances.get(instance_id)
        if self._options.volumes is not None or instance is None:
            return self._options.volumes
        disks = self._instances.specification_of(instance).disks
        return attachable_disks(built_in_instance_types()[instance.type], len(disks))

    def _look_at_taints(self, node: Node) -> None:
        if _is_node_ready(node) and self._present_startup_taints(node):
            self._taint_worker.add(node.metadata.name)

    def _present_startup_taints(self, node: Node) -> list[Taint]:
        wanted = self._startup_taints.get(node.spec.providerID, ())
        return [
            each
            for each in node.spec.taints or ()
            if any(_is_same_taint(each, taint) for taint in wanted)
        ]

    async def _remove_startup_taints(self, name: str) -> None:
        """What the agents do for which a startup taint waits."""
        node = self._nodes.objects.get(name)
        if node is None or not _is_node_ready(node) or not self.is_answering(name):
            return
        present = self._present_startup_taints(node)
        if present:
            changed = await self._cluster.patch(Node, name, without_taints(node, present))
            self._nodes.observe(changed)


def without_taints(node: Node, removed: list[Taint]) -> dict[str, Any]:
    """The patch that leaves the node's other taints, if it is still at this version."""
    kept = [msgspec.to_builtins(each) for each in node.spec.taints or () if each not in removed]
    return {
        "metadata": {"resourceVersion": node.metadata.resourceVersion},
        "spec": {"taints": kept or None},
    }


def _is_same_taint(left: Taint, right: Taint) -> bool:
    return (left.key, left.value, left.effect) == (right.key, right.value, right.effect)


def _is_node_ready(node: Node) -> bool:
    conditions = node.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def _conditions(now: str, *, is_ready: bool) -> list[NodeCondition]:
    pressures = [
        NodeCondition(
            type=kind, status="False", reason=reason, message=message, lastTransitionTime=now
        )
        for kind, reason, message in PRESSURE_CONDITIONS
    ]
    ready = NodeCondition(
        type="Ready",
        status="True" if is_ready else "False",
        reason="KubeletReady" if is_ready else "KubeletNotReady",
        message="kubelet is posting ready status"
        if is_ready
        else "container runtime network not ready: cni plugin not initialized",
        lastTransitionTime=now,
    )
    return [*pressures, ready]


def _running_containers(pod: Pod, now: str) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "image": EMULATED_IMAGE,
            "imageID": EMULATED_IMAGE,
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for each in pod.spec.containers or ()
    ]


class NodeBoots:
    """When instances become nodes, and what they are as nodes."""

    def __init__(
        self,
        account: EmulatedAwsAccount,
        options: KubeletOptions,
        seed: int,
        resources_of: ResourcesOfInstance,
    ) -> None:
        services = account.services
        self._types: Mapping[str, InstanceTypeInfo] = built_in_instance_types()
        self._booter = NodeBooter(
            region=account.context.region,
            instance_types=self._types,
            instances=services.instances,
            images=services.images,
            eks=services.eks,
        )
        self._now = account.clock.now
        self._options, self._seed, self._resources_of = options, seed, resources_of
        self.never_join, self.less = options.never_join, options.less
        self.failures: dict[str, BootFailure] = {}
        self.booted: dict[str, NodeResources] = {}
        """What each instance that registered offers, devices included."""
        self._joins_at: dict[str, float | None] = {}
        self._ready_at: dict[str, float] = {}

    def plan(self, instance: Instance) -> None:
        """Draws whether and when the instance joins; the same instance always gets the same."""
        random = Random(f"{self._seed} boot {instance.number}")
        seconds = random.uniform(*self._options.boot)
        joins = instance.joins_cluster and random.random() >= self.never_join
        self._joins_at[instance.id] = instance.launched + seconds if joins else None

    def joins_at(self, instance: Instance) -> float | None:
        """None: never."""
        if instance.id not in self._joins_at:
            self.plan(instance)
        return self._joins_at[instance.id]

    def joined(self, instance: Instance, now: float) -> None:
        random = Random(f"{self._seed} ready {instance.number}")
        self._ready_at[instance.id] = now + random.uniform(*(self._options.ready or (0.0, 0.0)))

    def forget(self, identity: str) -> None:
        """The instance has ended."""
        for known in (self.booted, self._joins_at, self._ready_at):
            known.pop(identity, None)

    def has_joined(self, identity: str) -> bool:
        return identity in self._ready_at

    def ready_at(self, identity: str) -> float:
        return self._ready_at.get(identity, 0.0)

    def resources_of(self, identity: str) -> NodeResources | None:
        return self.booted.get(identity)

    def registration(self, instance: Instance) -> Node | None:
        """The Node that the kubelet creates; None where it never gets that far."""
        outcome = self._booter.outcome(instance)
        if isinstance(outcome, BootFailure):
            self.failures[instance.id] = outcome
            self._joins_at[instance.id] = None
            return None
        resources = self._resources(instance, outcome)
        self.booted[instance.id] = resources
        return self._node(outcome, self._booter.facts(instance), resources)

    def _node(self, booted: BootedNode, facts: InstanceFacts, resources: NodeResources) -> Node:
        if self._options.ready is not None:
            resources = _without_devices(resources[0]), _without_devices(resources[1])
        capacity, allocatable = resources
        labels = node_labels(booted, facts)
        taints = [Taint(key=t.key, value=t.value, effect=t.effect) for t in booted.taints]
        return Node(
            metadata=ObjectMeta(name=facts.private_dns, labels=labels),
            spec=NodeSpec(taints=taints or None, providerID=facts.provider_id),
            status=NodeStatus(
                capacity=capacity,
                allocatable=allocatable,
                conditions=_conditions(format_timestamp(self._now()), is_ready=False),
                nodeInfo=NodeSystemInfo(
                    architecture=labels["kubernetes.io/arch"],
                    operatingSystem=labels["kubernetes.io/os"],
                    kubeletVersion=self._options.version,
                ),
            ),
        )

    def _resources(self, instance: Instance, booted: BootedNode) -> NodeResources:
        given = self._resources_of(instance)
        if given is None:
            devices = _devices(self._types[instance.type])
            given = (
                {**_quantities(booted.capacity), **devices},
                {**_quantities(booted.allocatable), **devices},
            )
        return self._reduced(given[0]), self._reduced(given[1])

    def _reduced(self, offered: ResourceList) -> ResourceList:
        return {
            name: _difference(amount, self.less[name]) if name in self.less else amount
            for name, amount in offered.items()
        }


def _difference(amount: QuantityValue, less: QuantityValue) -> str:
    left = to_quantity(amount) - to_quantity(less)
    return "0" if left.nano < 0 else str(left)


def _without_devices(offered: ResourceList) -> ResourceList:
    """Device plugins register their resources when the node is up."""
    return {
        name: amount
        for name, amount in offered.items()
        if name in PLAIN_RESOURCES or name.startswith("hugepages-")
    }


def attachable_disks(info: InstanceTypeInfo, disks: int) -> int:
    """Attachments that the disks of the instance, and a second network interface, leave."""
    if info.hypervisor == "xen":
        return min(info.ebs_attachments, XEN_ATTACHMENTS) - disks
    interfaces = 0 if info.dedicated_ebs_attachments else min(info.all_network_interfaces, 2) - 1
    return max(info.ebs_attachments - interfaces - disks, 1)


def _devices(info: InstanceTypeInfo) -> ResourceList:
    devices: ResourceList = {}
    if info.gpu is not None and info.gpu.manufacturer in GPU_RESOURCES:
        devices[GPU_RESOURCES[info.gpu.manufacturer]] = str(info.gpu.count)
    accelerator = info.accelerator
    if accelerator is not None and accelerator.neuron_cores:
        devices[NEURON] = str(accelerator.count)
        devices[NEURON_CORE] = str(accelerator.count * accelerator.neuron_cores)
    return devices


def _quantities(amounts: Mapping[str, int]) -> ResourceList:
    return {
        name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()
    }


class PodRunner:
    """Starts, ends and stops the pods on nodes that answer."""

    def __init__(
        self,
        informers: Informers,
        pods_by_node: PodsByNode,
        options: KubeletOptions,
        seed: int,
        is_answering: Callable[[str], bool],
    ) -> None:
        self._cluster, self._clock = informers.cluster, informers.clock
        self._pods = informers.of(Pod)
        self._by_node = pods_by_node
        self._options, self._seed, self._is_answering = options, seed, is_answering
        self._worker = KeyedWorker(self._clock, self._work)
        self._starts_at: dict[Key, float] = {}
        self._stops_at: dict[Key, tuple[float, int]] = {}
        """And the grace period that the pod had then."""
        self._pods.add_handler(self._changed)

    @property
    def next_due(self) -> float | None:
        return self._worker.next_due

    async def run(self) -> None:
        await self._worker.run()

    def look_at_node(self, node: str) -> None:
        """The kubelet answers again, or does no longer."""
        for key in self._by_node.on(node):
            self._starts_at.pop(key, None)
            self._stops_at.pop(key, None)
            self._worker.add(key)

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._forget(key_of(before))
        elif after.spec.nodeName and _needs_kubelet(before, after):
            self._worker.add(key_of(after))

    def _forget(self, key: Key) -> None:
        self._starts_at.pop(key, None)
        self._stops_at.pop(key, None)
        self._worker.forget(key)

    async def _work(self, key: Key) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or not pod.spec.nodeName or not self._is_answering(pod.spec.nodeName):
            return
        if pod.metadata.deletionTimestamp is not None:
            await self._stop(key, pod)
        elif not is_finished(pod) and pod.status.phase != "Running":
            await self._start(key, pod)
        elif pod.status.phase == "Running":
            await self._end(key, pod)

    async def _start(self, key: Key, pod: Pod) -> None:
        due = self._starts_at.get(key)
        if due is None:
            due = self._clock.now() + self._draw("start", self._options.pod_start, pod)
            self._starts_at[key] = due
        if due > self._clock.now():
            self._worker.add_at(key, due)
            return
        now = format_timestamp(self._clock.now())
        conditions = _pod_conditions(pod, "True", "", now)
        status: dict[str, Any] = {"phase": "Running", "startTime": now, "conditions": conditions}
        if self._options.container_statuses:
            status["containerStatuses"] = _running_containers(pod, now)
        await self._write(pod, status)
        self._starts_at.pop(key, None)
        self._worker.add(key)

    async def _end(self, key: Key, pod: Pod) -> None:
        """Lets a pod succeed that runs for a given time."""
        text = (pod.metadata.annotations or {}).get(RUNS_FOR_ANNOTATION)
        seconds = parse_duration(text) if text else None
        if seconds is None or pod.spec.restartPolicy in ("", "Always"):
            return
        started = parse_timestamp(pod.status.startTime) or self._clock.now()
        if started + seconds > self._clock.now():
            self._worker.add_at(key, started + seconds)
            return
        conditions = _pod_conditions(
            pod, "False", "PodCompleted", format_timestamp(self._clock.now())
        )
        await self._write(pod, {"phase": "Succeeded", "conditions": conditions})

    async def _stop(self, key: Key, pod: Pod) -> None:
        """Removes the pod when its containers have ended, at the end of its grace period at most.

        The grace period may be shortened meanwhile, never made longer.
        """
        now, grace = self._clock.now(), pod.metadata.deletionGracePeriodSeconds or 0
        due, seen_grace = self._stops_at.get(key, (None, grace))
        if due is None:
            due = now + min(self._draw("termination", self._options.pod_termination, pod), grace)
        elif grace < seen_grace:
            due = min(due, now + grace)
        self._stops_at[key] = (due, grace)
        if due > now:
            self._worker.add_at(key, due)
            return
        namespace, name = split_key(key)
        await self._cluster.delete(
            Pod,
            name,
            namespace,
            preconditions=Preconditions(uid=pod.metadata.uid),
            grace_period=0,
        )

    def _draw(self, purpose: str, between: SecondsRange, pod: Pod) -> float:
        low, high = between
        if low == high:
            return low
        return Random(f"{self._seed} {purpose} {pod.metadata.uid}").uniform(low, high)

    async def _write(self, pod: Pod, status: dict[str, Any]) -> None:
        metadata = pod.metadata
        changed = await self._cluster.patch_status(
            Pod, metadata.name, {"status": status}, metadata.namespace
        )
        self._pods.observe(changed)


def _needs_kubelet(before: Pod | None, after: Pod) -> bool:
    """Whether there may be something to do; its own writes of a running pod are not."""
    if before is None or not before.spec.nodeName:
        return True
    return (
        before.status.phase != after.status.phase
        or before.metadata.deletionTimestamp != after.metadata.deletionTimestamp
        or before.metadata.deletionGracePeriodSeconds != after.metadata.deletionGracePeriodSeconds
        or before.metadata.annotations is not after.metadata.annotations
    )


def _pod_conditions(pod: Pod, status: str, reason: str, now: str) -> list[dict[str, Any]]:
    """All conditions with those of the containers as given."""
    own = ("Initialized", "Ready", "ContainersReady")
    kept = [each for each in pod.status.conditions or () if each.type not in own]
    made = [
        PodCondition(
            type=kind,
            status="True" if kind == "Initialized" else status,
            reason=reason,
            lastTransitionTime=now,
        )
        for kind in own
    ]
    return [msgspec.to_builtins(each) for each in (*kept, *made)]
