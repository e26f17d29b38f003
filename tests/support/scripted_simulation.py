"""Simulations in which a test plays the controllers: a script launches, joins and terminates, and
has the interfaces that the controllers have.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import yaml

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.model.simulation import SimulationResult
from wainwright.sim.scenario import Scenario
from wainwright.sim.scenario_reader import read_scenario
from wainwright.sim.simulated_process import RunningController, SimulatedProcess
from wainwright.sim.simulation import Simulation, SimulationOptions, no_components
from wainwright.sim.world import World

A, B, C = (f"us-west-2{letter}" for letter in "abc")
Manifest = Mapping[str, Any]
POOL: Manifest = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {"template": {"spec": {"requirements": []}}},
}
NODE_CLASS: Manifest = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "node-role",
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
    },
}


def cloud(**spec: Any) -> Manifest:
    types = ["m5.large", "m5.xlarge", "c5.large", "m6g.large"]
    stated = {"region": "us-west-2", "zones": [A, B, C], "instanceTypes": types, **spec}
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Cloud",
        "metadata": {"name": "cloud"},
        "spec": stated,
    }


def reservation(identity: str = "cr-1", total: int = 2, **more: Any) -> Manifest:
    stated = {"instanceType": "c5.large", "availabilityZone": A, "tags": {"team": "web"}}
    return {"id": identity, "total": total, **stated, **more}


def pod(name: str, namespace: str = "default", **spec: Any) -> Manifest:
    requests = {"cpu": "1", "memory": "1Gi"}
    containers = [{"name": "main", "image": "app", "resources": {"requests": requests}}]
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def managed_node(
    name: str, instance_type: str = "m5.large", zone: str = A, **labels: str
) -> Manifest:
    stated = {
        "karpenter.sh/nodepool": "default",
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": zone,
        "karpenter.sh/capacity-type": "on-demand",
        **labels,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": stated}}


def scenario(*manifests: Manifest, files: Mapping[str, str] | None = None, **spec: Any) -> Scenario:
    """A scenario of an hour with a pool, a class and a small cloud, as a file has it."""
    stated = {"duration": "1h", **spec}
    if "until" in spec:
        del stated["duration"]
    kinds = {each["kind"] for each in manifests}
    document = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "story"},
        "spec": stated,
    }
    defaults = [each for each in (POOL, NODE_CLASS, cloud()) if each["kind"] not in kinds]
    with TemporaryDirectory() as folder:
        for name, text in (files or {}).items():
            Path(folder, name).write_text(text, encoding="utf-8")
        file = Path(folder, "story.yaml")
        text = yaml.safe_dump_all([document, *manifests, *defaults])
        file.write_text(text, encoding="utf-8")
        return read_scenario(str(file))


class ScriptedController:
    """Plays the controllers: a script with a few verbs of a node's life."""

    next_due = None

    def __init__(self, process: SimulatedProcess, script: "Script", world: World) -> None:
        self.process = process
        self.world = world
        self.cluster = process.cluster
        self._script = script
        self._started = process.clock.now()

    async def run(self) -> None:
        await self._script(self)
        await asyncio.get_running_loop().create_future()

    async def wait_until(self, at: float) -> None:
        """Seconds since the process started."""
        await self.process.clock.sleep(self._started + at - self.process.clock.now())

    async def bind(self, pod: str, node: str) -> None:
        """Plays the scheduler."""
        await self.world.api.bind(pod, "default", node)

    async def launch(self, claim: str, **options: Any) -> str:
        """An instance, and a NodeClaim that has it; the instance's id."""
        identity = await self.start_instance(claim, **options)
        if options.get("create_claim", True):
            await self.create_claim(claim, identity, options.get("zone", A))
        return identity

    async def start_instance(
        self,
        claim: str,
        *,
        instance_type: str = "m5.large",
        zone: str = A,
        spot: bool = False,
        reservation_id: str = "",
        **_: Any,
    ) -> str:
        call = self.process.aws.call
        tags = {"karpenter.sh/nodepool": "default", "karpenter.sh/nodeclaim": claim}
        zones = [{"Name": "availability-zone", "Values": [zone]}]
        subnets = (await call("ec2", "DescribeSubnets", {"Filters": zones}))["Subnets"]
        images = await call("ec2", "DescribeImages", {"Owners": ["amazon"]})
        image = next(
            each["ImageId"] for each in images["Images"] if each["Architecture"] == "x86_64"
        )
        params: dict[str, Any] = {
            "ImageId": image,
            "InstanceType": instance_type,
            "SubnetId": subnets[0]["SubnetId"],
            "MinCount": 1,
            "MaxCount": 1,
            "TagSpecifications": [
                {
                    "ResourceType": "instance",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        }
        if spot:
            params["InstanceMarketOptions"] = {"MarketType": "spot"}
        if reservation_id:
            params["CapacityReservationSpecification"] = {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": reservation_id},
            }
        response = await call("ec2", "RunInstances", params)
        return str(response["Instances"][0]["InstanceId"])

    async def create_claim(self, name: str, instance: str, zone: str = A) -> None:
        claim = {
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [],
            },
        }
        await self.cluster.create(msgspec.convert(claim, NodeClaim))
        if instance:
            status = {"providerID": f"aws:///{zone}/{instance}"}
            await self.cluster.patch_status(NodeClaim, name, {"status": status})

    async def join(self, node: str, instance: str, zone: str = A) -> None:
        """The Node of an instance, Ready at once."""
        condition = {"type": "Ready", "status": "True"}
        manifest = {
            "metadata": {"name": node, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"providerID": f"aws:///{zone}/{instance}"},
            "status": {"conditions": [condition], "capacity": {"cpu": "2", "memory": "8Gi"}},
        }
        await self.cluster.create(msgspec.convert(manifest, Node))

    async def terminate(self, instance: str) -> None:
        await self.process.aws.call("ec2", "TerminateInstances", {"InstanceIds": [instance]})

    async def delete_claim(self, name: str) -> None:
        await self.cluster.delete(NodeClaim, name)


Script = Callable[[ScriptedController], Awaitable[None]]


async def do_nothing(_: ScriptedController) -> None:
    return


class FinishedSimulation(msgspec.Struct, frozen=True, kw_only=True):
    result: SimulationResult
    simulation: Simulation

    def entries(self, kind: str) -> list[Any]:
        """Those of the timeline of one kind, as JSON has them."""
        every = [msgspec.to_builtins(each) for each in self.result.timeline]
        return [each for each in every if each["what"] == kind]

    def moments(self, kind: str) -> list[float]:
        return [each["at"] for each in self.entries(kind)]


def play(
    given: Scenario,
    script: Script = do_nothing,
    *,
    components: Any = no_components,
    **options: Any,
) -> FinishedSimulation:
    def controllers(process: SimulatedProcess) -> RunningController:
        return ScriptedController(process, script, simulation.world)

    simulation = Simulation(
        given,
        options=SimulationOptions(**options),
        controllers=controllers,
        components=components,
    )
    try:
        return FinishedSimulation(result=simulation.run(), simulation=simulation)
    finally:
        simulation.close()


def values_at(result: SimulationResult, series: Sequence[float], at: float) -> float:
    """The value of a step function."""
    held = [value for moment, value in zip(result.series.at, series, strict=True) if moment <= at]
    return held[-1]
