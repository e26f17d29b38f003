"""A simulated cluster for tests: the API server in memory and all components, on virtual time."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from tests.support.node_boot import node_config_document, node_config_message

from wainwright.api.kinds import known_kinds
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.settings import EmulatorSettings
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.components import ClusterComponents
from wainwright.sim.kubelet import KubeletOptions
from wainwright.translate.topology import DefaultConstraints

AL2023_IMAGE = "amazon-eks-node-al2023-x86_64-standard"
Manifest = dict[str, Any]
Story = Callable[["SimulatedCluster"], Awaitable[None]]


class SimulatedCluster:
    """What a test does to the cluster, and sees of it."""

    def __init__(
        self,
        clock: VirtualClock,
        options: KubeletOptions,
        seed: int,
        default_constraints: DefaultConstraints = (),
    ) -> None:
        self.clock = clock
        self.api = InMemoryApiServer(clock, seed=seed)
        self.account = EmulatedAwsAccount(clock=clock, settings=EmulatorSettings())
        self.components = ClusterComponents(
            self.api,
            clock,
            self.account,
            options,
            seed=seed,
            default_constraints=default_constraints,
        )
        self.start = clock.now()

    @property
    def elapsed(self) -> float:
        return self.clock.now() - self.start

    async def apply(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            await self.api.create(to_object(manifest))

    def load(self, *manifests: Manifest) -> None:
        self.api.load([to_object(manifest) for manifest in manifests])

    async def wait(self, seconds: float = 0.001) -> None:
        """Lets the components do what is due meanwhile."""
        await self.clock.sleep(seconds)

    async def pods(self, namespace: str = "default") -> dict[str, Pod]:
        found = await self.api.list(Pod, namespace)
        return {each.metadata.name: each for each in found.items}

    async def placements(self, namespace: str = "default") -> dict[str, str]:
        """The node of every pod, empty where it has none."""
        return {name: pod.spec.nodeName for name, pod in (await self.pods(namespace)).items()}

    def launch(
        self,
        instance_type: str = "m5.large",
        *,
        user_data: str | None = None,
        claim: str = "",
        subnet: str = "",
    ) -> str:
        """Starts an instance, by default one that joins the cluster; its id."""
        images = self.account.services.images.state.images.values()
        text = self.user_data() if user_data is None else user_data
        answer = self.account.answer(
            "ec2",
            "RunInstances",
            {
                "ImageId": next(each.id for each in images if AL2023_IMAGE in each.name),
                "InstanceType": instance_type,
                **({"SubnetId": subnet} if subnet else {}),
                "MinCount": 1,
                "MaxCount": 1,
                "UserData": b64encode(text.encode()).decode(),
                "TagSpecifications": [
                    {
                        "ResourceType": "instance",
                        "Tags": [{"Key": "karpenter.sh/nodeclaim", "Value": claim}],
                    }
                ],
            },
        )
        return str(answer["Instances"][0]["InstanceId"])

    def user_data(self, *, labels: str = "", taints: str = "") -> str:
        eks = self.account.services.eks.state.clusters[self.account.account.cluster]
        target = {
            "name": self.account.account.cluster,
            "apiServerEndpoint": eks.endpoint,
            "certificateAuthority": eks.certificate,
            "cidr": "10.100.0.0/16",
        }
        flags = [
            f"--{flag}={value}"
            for flag, value in (("node-labels", labels), ("register-with-taints", taints))
            if value
        ]
        return node_config_message(
            node_config_document({"cluster": target, "kubelet": {"flags": flags}})
        )

    def terminate(self, instance_id: str) -> None:
        self.account.answer("ec2", "TerminateInstances", {"InstanceIds": [instance_id]})

    async def nodes(self) -> dict[str, Node]:
        found = await self.api.list(Node)
        return {each.metadata.name: each for each in found.items}


def to_object(manifest: Manifest) -> WireStruct:
    kind = known_kinds()[manifest["apiVersion"], manifest["kind"]].type
    return msgspec.convert(manifest, kind)


def play(
    story: Story,
    *,
    options: KubeletOptions | None = None,
    seed: int = 0,
    setup: Any = None,
    default_constraints: DefaultConstraints = (),
) -> None:
    """Runs the story in a cluster of its own, to the end, in virtual time."""
    clock = VirtualClock()
    try:
        cluster = SimulatedCluster(clock, options or KubeletOptions(), seed, default_constraints)
        if setup is not None:
            setup(cluster)
        clock.run(_play(story, cluster))
    finally:
        clock.close()


async def _play(story: Story, cluster: SimulatedCluster) -> None:
    running = asyncio.create_task(cluster.components.run())
    await asyncio.sleep(0.001)
    try:
        await story(cluster)
        if running.done():
            running.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# Manifests


def node(name: str, **changes: Any) -> Manifest:
    """A node that is up: 4 cpu, 16 GiB, in us-east-1a."""
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": changes.pop("zone", "us-east-1a"),
        **changes.pop("labels", {}),
    }
    resources = {
        "cpu": "4",
        "memory": "16Gi",
        "ephemeral-storage": "20Gi",
        "pods": "110",
        **changes.pop("resources", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [], **changes},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, **changes: Any) -> Manifest:
    """A pod of 1 cpu and 1 GiB; other keywords are fields of its spec."""
    requests = changes.pop("requests", {"cpu": "1", "memory": "1Gi"})
    metadata = {
        key: changes.pop(key)
        for key in ("labels", "annotations", "namespace", "ownerReferences")
        if key in changes
    }
    status = changes.pop("status", {})
    containers = [{"name": "app", "image": "app", "resources": {"requests": requests}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"containers": containers, **changes},
        **({"status": status} if status else {}),
    }


def workload(kind: str, name: str, replicas: int | None = None, **changes: Any) -> Manifest:
    """A workload whose pods have the label app: NAME; `template` changes the pods' spec."""
    labels = {"app": name, **changes.pop("labels", {})}
    template = pod(name, labels=labels, **changes.pop("template", {}))
    group = "batch/v1" if kind == "Job" else "apps/v1"
    spec: Manifest = {
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        **changes,
    }
    if annotations := template["metadata"].get("annotations"):
        spec["template"]["metadata"]["annotations"] = annotations
    if kind != "Job":
        spec["selector"] = {"matchLabels": {"app": name}}
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec}
