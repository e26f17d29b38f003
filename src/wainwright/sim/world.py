"""The world at the start of a simulation: the objects of a scenario in an API server, an emulated
EC2 account that has everything they name, and running instances for the nodes among them.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from wainwright.api.api_resources import served_resources
from wainwright.api.catalog_documents import Cloud, CloudReservation, CloudSpec
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Namespace, Node, PriorityClass
from wainwright.api.kubernetes.operations import Event, Lease
from wainwright.api.kubernetes.workloads import Pod, PodCondition
from wainwright.api.wire import WireStruct
from wainwright.catalogue.catalog_source import offline_source
from wainwright.clock import VirtualClock, format_timestamp
from wainwright.cluster import EventType, WatchEvent
from wainwright.controllers.runtime import ACCOUNT, IMAGES, INSTANCES, Subject, existence_of
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.selected_resources import SelectedResources
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import RequestForbiddenError
from wainwright.manifests.auto_mode import is_auto_mode
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.messages.input_remarks import describe_remarks
from wainwright.offline import choose_region, known_reservations, reservations_without_counts
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.catalog_cloud import cloud_of_catalog
from wainwright.sim.initial_nodes import InitialNodes
from wainwright.sim.money import PriceBook

OF_THE_ACCOUNT: Final = frozenset({INSTANCES, IMAGES, ACCOUNT})
RECORDS: Final = (Event, Lease)
"""Kinds that nothing is decided by, neither by controllers nor by an offline command."""
LOADED_FIRST: Final = (Namespace, PriorityClass)


class WorldChanges:
    """Tells of every change of objects, instances and reservations; implements `ChangeFeed`."""

    def __init__(self, api: InMemoryApiServer, account: EmulatedAwsAccount) -> None:
        self._callbacks: list[Callable[[Subject], None]] = []
        self._account_revision = 0
        services = account.services
        api.subscribe(self._on_object)
        services.instances.add_listener(lambda *_: self.add(INSTANCES))
        services.reservations.lifecycle.add_change_listener(lambda *_: self.add(INSTANCES))

    def on_change(self, callback: Callable[[Subject], None]) -> None:
        self._callbacks.append(callback)

    def account_revision(self) -> int:
        """Another number after each change in the account."""
        return self._account_revision

    def add(self, subject: Subject) -> None:
        self._account_revision += subject in OF_THE_ACCOUNT
        for callback in self._callbacks:
            callback(subject)

    def _on_object(self, change: WatchEvent[Any]) -> None:
        if not isinstance(change.object, RECORDS):
            kind = type(change.object).__name__
            self.add(kind if change.type is EventType.MODIFIED else existence_of(kind))


class World:
    """A cluster and an account on one virtual clock."""

    def __init__(self, manifests: ClusterManifests, *, start: float, seed: int = 0) -> None:
        self.manifests = manifests
        self.start = start
        self.clock = VirtualClock(start)
        self.warnings: list[str] = []
        self.region = choose_region(manifests, None).region
        self.warnings += describe_remarks(reservations_without_counts(manifests))
        self.cloud = self._stated_cloud()
        self.account = EmulatedAwsAccount(
            self.cloud, clock=self.clock, seed=seed, settings=EmulatorSettings()
        )
        self.warnings += [str(each) for each in self.account.remarks]
        self.resources = SelectedResources(
            self.account.services, self.account.zones, self.cluster_name
        )
        self.api = InMemoryApiServer(self.clock, seed=seed)
        self._random = Random(f"{seed} instances of the input")
        self._add_classes()
        self._load_objects()
        self.prices = PriceBook(
            self.api,
            self.cloud,
            manifests.catalog,
            self.account.region_offerings,
            self.account.services.capacity_market,
        )
        self.changes = WorldChanges(self.api, self.account)

    @property
    def cluster_name(self) -> str:
        return self.account.account.cluster

    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.now() - self.start

    # The cloud

    def _stated_cloud(self) -> Cloud:
        """The Cloud of the input, with the reservations that EC2 or the classes' status tell of;
        what a Catalog sells and what it costs there.
        """
        cloud = self._with_reservations(
            self.manifests.cloud or Cloud(spec=CloudSpec(region=self.region))
        )
        catalog = self.manifests.catalog
        if catalog is None:
            return cloud
        cloud, warnings = cloud_of_catalog(catalog, cloud)
        self.warnings += warnings
        return cloud

    def _with_reservations(self, cloud: Cloud) -> Cloud:
        """An account may have reservations in zones that the emulated region does not have; of a
        Cloud that is a mistake, which the account refuses.
        """
        stated, zones = cloud.spec.capacityReservations or (), offline_source(cloud=cloud).all_zones
        found: list[CloudReservation] = []
        for each in known_reservations(self.manifests):
            if each in stated or each.availabilityZone in zones:
                found.append(each)
            else:
                place = f"{each.availabilityZone}, which {self.region} does not have"
                self.warnings.append(f"the capacity reservation {each.id} is left out: {place}")
        spec = msgspec.structs.replace(cloud.spec, capacityReservations=found or None)
        return msgspec.structs.replace(cloud, spec=spec)

    def _add_classes(self) -> None:
        """Whatever the classes name exists."""
        for node_class in self._classes():
            self.resources.create_for(node_class)

    def _classes(self) -> list[EC2NodeClass]:
        """Those of the input, and the default ones of pools whose class is not in it."""
        found = {each.metadata.name: each for each in self.manifests.classes}
        for pool in self.manifests.pools:
            name = pool.spec.template.spec.nodeClassRef.name
            if not is_auto_mode(pool):
                found.setdefault(name, self.manifests.class_of(pool))
        return list(found.values())

    # Objects

    def _load_objects(self) -> None:
        served, classes = served_resources(), self._classes()
        objects = [each for each in self.manifests.objects if type(each) in served]
        objects += [each for each in classes if each not in objects]
        rest = [each for each in objects if not isinstance(each, (Node, NodeClaim))]
        for obj in sorted(rest, key=lambda each: not isinstance(each, LOADED_FIRST)):
            self._load(self._started(obj) if isinstance(obj, Pod) else obj)
        nodes = InitialNodes(
            self.manifests, classes, self.api, self.account, self.resources, self._random
        )
        nodes.load()
        self.warnings += nodes.warnings

    def _load(self, obj: WireStruct) -> None:
        try:
            self.api.load([obj], with_defaults=True)
        except RequestForbiddenError as error:
            self.warnings.append(str(error))
            self.api.load([obj])

    def _started(self, pod: Pod) -> Pod:
        """A bound pod runs from the start."""
        if not pod.spec.nodeName or pod.status.phase not in ("", "Pending"):
            phase = pod.status.phase or "Pending"
            status = msgspec.structs.replace(pod.status, phase=phase)
            return msgspec.structs.replace(pod, status=status)
        since = pod.metadata.creationTimestamp or format_timestamp(self.start)
        conditions = [
            PodCondition(type=kind, status="True", lastTransitionTime=since)
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        status = msgspec.structs.replace(
            pod.status, phase="Running", startTime=since, conditions=conditions
        )
        return msgspec.structs.replace(pod, status=status)

    def close(self) -> None:
        self.clock.close()
