"""A provider in an emulated account: stored claims, the requests for them, and their outcomes."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from random import Random
from typing import Any

import msgspec
from tests.support.aws_account import CheckedApi, discovered_node_class, run_in_virtual_time

from wainwright.api.catalog_documents import Cloud as CloudManifest
from wainwright.api.catalog_documents import CloudReservation, CloudSpec
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.middleware import with_middleware
from wainwright.aws.api.services import Seam
from wainwright.aws.cluster_config import ClusterConfig, VersionSource
from wainwright.aws.instances import RESERVATIONS_ONLY, Ec2Instance
from wainwright.aws.provider import AwsCloudProvider, ProviderEnvironment, ProviderOptions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.clock import EPOCH, Clock, VirtualClock
from wainwright.cloud import (
    CloudProvider,
    DeclaredObjects,
    LaunchLog,
    LaunchLogEntry,
    NodePoolScope,
)
from wainwright.emulator.boot.node_boot import BootedNode, NodeBooter
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import TemporarilyUnavailableError
from wainwright.metrics import MetricsRegistry
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE
from wainwright.model.node_claim import LaunchRecord, NodeClaim
from wainwright.model.requirements import RequirementEntry, Requirements


def running_instance(identity: str = "i-1", **fields: Any) -> Ec2Instance:
    """A running instance; with a reservation id it was launched into that reservation."""
    stated: dict[str, Any] = {
        "id": identity,
        "state": "running",
        "instance_type": "m5.large",
        "image_id": "ami-1",
        "zone": "us-east-1a",
        "launched_at": EPOCH,
        "subnet_id": "subnet-1",
        "security_groups": frozenset({"sg-1"}),
        "reservation_preference": RESERVATIONS_ONLY if fields.get("reservation_id") else "",
    }
    return Ec2Instance(**(stated | fields))


A, B, C = (f"us-east-1{letter}" for letter in "abc")
TYPES = ["m5.large", "c5.large", "m6g.large", "m5.xlarge"]
RESERVATION_SELECTOR: dict[str, Any] = {
    "capacityReservationSelectorTerms": [{"tags": {"team": "web"}}]
}
POOL_NAME = "web"


def reservation_object(
    number: int, total: int, instance_type: str = "m5.large", zone: str = A, **more: Any
) -> Any:
    """A reservation that a class with `RESERVATION_SELECTOR` selects."""
    return CloudReservation(
        id=f"cr-{number:08}",
        instanceType=instance_type,
        availabilityZone=zone,
        total=total,
        tags={"team": "web"},
        ownerID="111122223333",
        **more,
    )


def claim_requirements(*entries: RequirementEntry, **labels: str) -> Requirements:
    """Requirements from entries, and from labels with one allowed value."""
    names = {"zone": ZONE, "capacity": CAPACITY_TYPE}
    single = [(names[key], "In", (value,), None) for key, value in labels.items()]
    return Requirements.from_entries([*entries, *single])


ONLY_RESERVED = claim_requirements(capacity=RESERVED)


def node_claim(number: int = 1, requirements: Requirements | None = None, **more: Any) -> NodeClaim:
    fields: dict[str, Any] = {
        "name": f"{POOL_NAME}-{number}",
        "uid": f"uid-{number}",
        "pool": POOL_NAME,
        "node_class": "default",
        "requirements": requirements or Requirements(),
        "requests": {"cpu": 500, "memory": 1 << 30},
    }
    return NodeClaim(**(fields | more))


class ClaimStore:
    """Claims as stored in the cluster; a launch log that is immediately consistent."""

    def __init__(self, claims: Iterable[NodeClaim] = ()) -> None:
        self.claims = {each.uid: each for each in claims}
        self.recorded: list[tuple[str, LaunchRecord]] = []

    async def record(
        self, claim: str, launch_record: LaunchRecord, *, replaces: LaunchRecord | None
    ) -> None:
        found = self.claims.get(claim)
        if found is None or found.launch_record != replaces or found.instance:
            raise TemporarilyUnavailableError(f"{claim} has been changed", reason="Conflict")
        self.recorded.append((claim, launch_record))
        self.claims[claim] = msgspec.structs.replace(
            self.claims[claim], launch_record=launch_record
        )

    async def batch_entries(self, batch: str) -> Sequence[LaunchLogEntry]:
        return [
            LaunchLogEntry(claim=each.uid, launch_record=each.launch_record, instance=each.instance)
            for each in self.claims.values()
            if each.launch_record is not None and each.launch_record.batch == batch
        ]

    def add(self, claim: NodeClaim) -> NodeClaim:
        self.claims[claim.uid] = claim
        return claim

    def set_instance(self, uid: str, instance: str) -> None:
        if uid in self.claims:
            self.claims[uid] = msgspec.structs.replace(self.claims[uid], instance=instance)


class ProviderScene:
    """An emulated account, a claim store that outlives the provider, and a provider."""

    def __init__(
        self,
        clock: VirtualClock,
        *reservations: CloudReservation,
        settings: EmulatorSettings | None = None,
        seed: int = 0,
        types: Sequence[str] = TYPES,
        **spec: Any,
    ) -> None:
        self.clock = clock
        stated: dict[str, Any] = {
            "region": "us-east-1",
            "zones": [A, B, C],
            "instanceTypes": list(types),
            "capacityReservations": list(reservations),
        }
        manifest = CloudSpec(**(stated | spec))
        self.emulated = EmulatedAwsAccount(
            CloudManifest(spec=manifest), clock=clock, seed=seed, settings=settings
        )
        self.seam = CheckedApi(self.emulated)
        self.store = ClaimStore()
        self.metrics = MetricsRegistry()
        self.options = ProviderOptions(
            cluster=ClusterConfig(name="wain", region="us-east-1"), queue="wain"
        )
        self.server_version: VersionSource | None = None
        self.classes: list[EC2NodeClass] = [discovered_node_class()]
        self.overlays: list[dict[str, Any]] = []
        self._processes = 0
        self.cloud: CloudProvider = self.provider()

    def provider(
        self,
        seam: Seam | None = None,
        launch_log: LaunchLog | None = None,
        clock: Clock | None = None,
    ) -> AwsCloudProvider:
        """A provider as after a restart: it shares only the account and the store."""
        self._processes += 1
        environment = ProviderEnvironment(
            process_id=f"process-{self._processes}",
            seam=with_middleware(seam or self.seam, self.clock, Random(0), self.metrics),
            launch_log=launch_log or self.store,
            clock=clock or self.clock,
            metrics=self.metrics,
            server_version=self.server_version,
        )
        provider = AwsCloudProvider(environment, self.options)
        self.declare(provider)
        return provider

    def declare(self, cloud: CloudProvider | None = None) -> None:
        (cloud or self.cloud).declare(
            DeclaredObjects(
                node_classes=tuple(msgspec.to_builtins(each) for each in self.classes),
                overlays=tuple(self.overlays),
                pools=(NodePoolScope(name=POOL_NAME, node_class="default"),),
            )
        )

    def use(self, **spec: Any) -> None:
        """Replaces the class."""
        self.classes = [discovered_node_class(**spec)]
        self.declare()

    async def launch(self, *claims: NodeClaim) -> list[Any]:
        """The outcome of each: an instance, which is stored on the claim, or an error."""
        for each in claims:
            self.store.claims.setdefault(each.uid, each)
        launches = (self.cloud.launch(self.store.claims[each.uid]) for each in claims)
        results = await asyncio.gather(*launches, return_exceptions=True)
        for each, result in zip(claims, results, strict=True):
            if not isinstance(result, BaseException):
                self.store.set_instance(each.uid, result.id)
        return results

    async def launch_one(self, claim: NodeClaim) -> Any:
        """The instance of a claim; raises its error."""
        (outcome,) = await self.launch(claim)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def fleets(self) -> list[Any]:
        """The CreateFleet requests, without dry runs."""
        return [each for each in self.seam.calls_to("CreateFleet") if not each.get("DryRun")]

    def running(self) -> list[Any]:
        """Instances that are billed."""
        return self.emulated.services.instances.list_alive()


def run_scene(
    test: Callable[[ProviderScene], Coroutine[Any, Any, None]], *args: Any, **more: Any
) -> None:
    async def main(clock: VirtualClock) -> None:
        scene = ProviderScene(clock, *args, **more)
        await scene.cloud.refresh()
        await test(scene)

    run_in_virtual_time(main)


def run_refreshed_scene(
    test: Callable[[ProviderScene], Coroutine[Any, Any, None]], *entries: Any, **more: Any
) -> None:
    """In an account whose instance types and prices were refreshed a second time."""

    async def run(scene: ProviderScene) -> None:
        await scene.cloud.refresh()
        await test(scene)

    run_scene(run, *entries, **more)


def in_requirement(key: str, *values: str, least: int | None = None) -> Requirements:
    return Requirements.from_entries([(key, "In", values, least)])


ON_DEMAND_ONLY = claim_requirements(capacity=ON_DEMAND)
ON_DEMAND_OR_SPOT = claim_requirements((CAPACITY_TYPE, "In", (ON_DEMAND, SPOT), None))
M5_LARGE_ONLY = in_requirement(INSTANCE_TYPE, "m5.large")


def unavailable_offering(
    instance_type: str, zone: str | None = None, capacity_type: str | None = None
) -> dict[str, Any]:
    """An entry of `unavailable` of a Cloud."""
    entry = {"instanceType": instance_type, "zone": zone, "capacityType": capacity_type}
    return {name: value for name, value in entry.items() if value is not None}


def requested_overrides(fleet: Any) -> list[tuple[str, str]]:
    """Instance types and zones of a CreateFleet request, sorted."""
    return sorted(
        (each["InstanceType"], each["AvailabilityZone"])
        for config in fleet["LaunchTemplateConfigs"]
        for each in config["Overrides"]
    )


def requested_types(fleet: Any) -> set[str]:
    return {instance_type for instance_type, _ in requested_overrides(fleet)}


def launch_template_data(scene: ProviderScene, fleet: Any) -> list[Any]:
    """The LaunchTemplateData of the templates of a CreateFleet request."""
    templates = scene.emulated.services.templates.state.templates.values()
    by_name = {each.name: each for each in templates}
    names = [
        config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        for config in fleet["LaunchTemplateConfigs"]
    ]
    return [by_name[name].versions[-1].data for name in names]


def declare_overrides(
    scene: ProviderScene,
    *,
    types: tuple[Any, ...] = (),
    overlays: tuple[Any, ...] = (),
    **labels: str,
) -> None:
    """Declares overrides, with the classes unchanged."""
    scene.cloud.declare(
        DeclaredObjects(
            node_classes=tuple(msgspec.to_builtins(each) for each in scene.classes),
            instance_types=types,
            overlays=overlays,
            pools=(NodePoolScope(name=POOL_NAME, node_class="default", labels=labels),),
        )
    )


def instance_type_document(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": spec,
    }


def overlay_document(name: str, key: str, *values: str, **spec: Any) -> dict[str, Any]:
    requirements = [{"key": key, "operator": "In", "values": list(values)}]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": requirements, **spec},
    }


def boot_instance(scene: ProviderScene, instance_id: str) -> BootedNode:
    """The node that an instance becomes."""
    services = scene.emulated.services
    booter = NodeBooter(
        region=services.context.region,
        instance_types=instance_type_info.built_in_instance_types(),
        instances=services.instances,
        images=services.images,
        eks=services.eks,
    )
    instance = services.instances.get(instance_id)
    assert instance is not None
    outcome = booter.outcome(instance)
    assert isinstance(outcome, BootedNode), outcome
    return outcome
