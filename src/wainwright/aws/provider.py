"""The AWS implementation of `cloud.CloudProvider`, and the wiring of its components.

Errors of AWS are converted here: only the subclasses of CloudProviderError in `errors` are raised.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from secrets import token_hex
from typing import Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.error_codes import RESERVATION_CAPACITY_EXCEEDED, to_cloud_error
from wainwright.aws.api.services import AwsServices, Seam, Sqs
from wainwright.aws.cluster_config import ClusterConfig, VersionSource
from wainwright.aws.drift import (
    CurrentNodeClass,
    DriftReason,
    LaunchedClaim,
    detect_drift,
    hash_annotations,
)
from wainwright.aws.instances import (
    Ec2Instance,
    GarbageWatch,
    InstanceBatcher,
    InstanceProvider,
    find_demotions,
    find_expiring_nodes,
    to_model_instance,
    without_awaited,
    without_claim,
)
from wainwright.aws.instancetypes.account_offerings import OfferingKey
from wainwright.aws.instancetypes.live_catalog import (
    REFRESH_INTERVAL,
    AccountOfferingsProvider,
    DiscoveredCapacity,
)
from wainwright.aws.instancetypes.unavailable_offerings import UnavailableOfferings
from wainwright.aws.interruptions import InstanceStatusProvider, InterruptionQueue
from wainwright.aws.launch.launch_request import (
    CatalogDependencies,
    ClusterContext,
    LaunchContext,
    LaunchContextProvider,
    LaunchRequest,
)
from wainwright.aws.launch.launcher import Launcher, LauncherDependencies, LaunchResult
from wainwright.aws.launch.recovery import LaunchRecovery
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateProvider
from wainwright.aws.nodeclass.network import SubnetAddresses
from wainwright.aws.nodeclass.resolver import (
    AwaitingClaims,
    NodeClassFinalizer,
    NodeClassRegistry,
    NodeClassResolver,
    needs_service_cidr,
    not_ready_message,
)
from wainwright.aws.nodeclass.status import to_status
from wainwright.aws.nodeclass.validation import LaunchDryRunTemplates
from wainwright.aws.reservation_availability import ReservationAvailability, ReservationHolds
from wainwright.catalogue.diagnostics import ObjectDiagnostic
from wainwright.catalogue.instancetypes.node_class_settings import (
    CatalogOptions,
    resolve_ami_family,
)
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
)
from wainwright.catalogue.region_catalog import FeatureGates
from wainwright.clock import Clock
from wainwright.cloud import (
    DeclaredObjects,
    Garbage,
    LabelChange,
    LaunchLog,
    NodeClassState,
    NodePoolCatalog,
    ObjectRemark,
    RecoveredLaunches,
    Refreshed,
    ReservedNode,
)
from wainwright.errors import (
    AwsError,
    CloudProviderError,
    InsufficientCapacityError,
    InvalidInputError,
)
from wainwright.metrics import USER_DATA_BYTES, MetricsRegistry
from wainwright.model import node_claim as model
from wainwright.model.disruption import RepairPolicy
from wainwright.model.instance_type import InstanceType, OfferedTypes, Offering
from wainwright.model.labels import (
    INSTANCE_TENANCY,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
    RESERVATION_ID,
)
from wainwright.model.node_claim import Instance, Interruption, NodeClaim
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import ReservationState

INSTANCE_PROFILE_ANNOTATION: Final = "karpenter.k8s.aws/instance-profile-name"
MAX_SUBSTITUTIONS: Final = 5  # reservations that are tried in place of one that is full
REPAIR_POLICIES: Final = tuple(
    RepairPolicy(condition=condition, status=status, toleration=minutes * 60.0)
    for condition, status, minutes in (
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
        ("AcceleratedHardwareReady", "False", 10),
    )
)
"""What the kubelet and the node monitoring agent of EKS report."""
PINNED_LABELS: Final = frozenset({RESERVATION_ID})
"""An instance may be in another reservation than the one that its claim is pinned to."""


def describe_instance(
    instance: Ec2Instance,
    launch_context: LaunchContext,
    claim: NodeClaim,
    *,
    ca_bundle: str = "",
    notes: tuple[str, ...] = (),
) -> model.Instance:
    """The instance with the labels, price and resources of its instance type in the catalog."""
    described, wanted = to_model_instance(instance), claim.requirements.without(PINNED_LABELS)
    instance_type = launch_context.catalog.by_name.get(instance.instance_type)
    offering = (
        None if instance_type is None else _launched_offering(instance_type, described, wanted)
    )
    labels = {
        **_instance_type_labels(instance_type, offering, wanted),
        **described.labels,
        **_class_labels(instance, launch_context),
    }
    return msgspec.structs.replace(
        described,
        price=None if offering is None else offering.price,
        labels=dict(sorted(labels.items())),
        annotations={
            **hash_annotations(launch_context.node_class, ca_bundle),
            INSTANCE_PROFILE_ANNOTATION: launch_context.resolved.profile,
        },
        capacity={} if instance_type is None else instance_type.capacity,
        allocatable={} if instance_type is None else instance_type.allocatable,
        notes=notes,
    )


def _launched_offering(
    instance_type: InstanceType, instance: model.Instance, wanted: Requirements
) -> Offering | None:
    """The offering that it was launched from.

    Of several that its claim allows, one that has the labels which the claim requires, and of these
    the cheapest.
    """
    matching = [each for each in instance_type.offerings if _matches_offering(each, instance)]
    return min(
        [each for each in matching if _is_allowed(each, wanted)] or matching,
        key=lambda each: (len(wanted.keys() - each.requirements.keys()), each.price),
        default=None,
    )


def _is_allowed(offering: Offering, wanted: Requirements) -> bool:
    return all(
        each.allowed.is_compatible_with(wanted.allowed(key))
        for key, each in offering.requirements.items()
    )


def _matches_offering(offering: Offering, instance: model.Instance) -> bool:
    return (
        offering.zone in (None, instance.zone)
        and offering.capacity_type in (None, instance.capacity_type)
        and (offering.reservation_id or "") == instance.reservation_id
    )


def _instance_type_labels(
    instance_type: InstanceType | None, offering: Offering | None, wanted: Requirements
) -> dict[str, str]:
    """Labels that have a single value, as far as the claim leaves a choice."""
    stated = NO_REQUIREMENTS if instance_type is None else instance_type.requirements
    if offering is not None:
        stated = stated.narrow(offering.requirements)
    narrowed = stated.narrow(wanted)
    values = {key: stated.single_value(key) or narrowed.single_value(key) for key in stated}
    return {key: value for key, value in values.items() if value is not None}


def _class_labels(instance: Ec2Instance, launch_context: LaunchContext) -> dict[str, str]:
    labels = {INSTANCE_TENANCY: instance.tenancy}
    group = launch_context.resolved.placement_group
    if group is not None:
        labels[PLACEMENT_GROUP_ID] = group.id
    if instance.partition:
        labels[PLACEMENT_GROUP_PARTITION] = str(instance.partition)
    return labels


def _remark(diagnostic: ObjectDiagnostic) -> ObjectRemark:
    return ObjectRemark(
        kind=diagnostic.kind,
        name=diagnostic.name,
        message=diagnostic.description,
        void=diagnostic.void,
    )


class ProviderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's settings for the whole provider."""

    cluster: ClusterConfig
    queue: str = ""
    """The name of the interruption queue; empty if there is none."""
    dns_ip: str = ""
    """Of the cluster's DNS, for classes without clusterDNS."""
    node_overlay: bool = True
    """The feature gate of that name."""
    catalog_options: CatalogOptions = CatalogOptions()
    price_refresh: float = REFRESH_INTERVAL
    """Seconds after which prices are fetched again."""


class ProviderEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The external dependencies of the provider."""

    seam: Seam
    launch_log: LaunchLog
    clock: Clock
    metrics: MetricsRegistry
    process_id: str = msgspec.field(default_factory=lambda: token_hex(16))
    """Unique to this process: no launch of another one has its batch ids."""
    account_revision: Callable[[], int] | None = None
    """Another number after each change in the account, where somebody knows of them, as in a
    simulation: classes are not resolved anew before."""
    server_version: VersionSource | None = None
    """Else the version of Kubernetes is the one that EKS describes."""
    modelled_prices: Collection[OfferingKey] = frozenset()
    """Offerings whose price the account made up, as an emulated one does: messages mark it."""


class ProviderComponents:
    def __init__(self, environment: ProviderEnvironment, options: ProviderOptions) -> None:
        self._options = options
        self.clock = environment.clock
        self.unavailable_offerings = UnavailableOfferings(environment.clock)
        self.availability = ReservationAvailability(environment.clock)
        self.reservation_holds = ReservationHolds(self.availability, environment.clock)
        self.addresses = SubnetAddresses(environment.clock, self.unavailable_offerings)
        self.discovered_capacity = DiscoveredCapacity(environment.clock)
        self._build_services(environment, options)
        self._build_node_classes(environment, options)
        self._build_launcher(environment)

    def _build_services(self, environment: ProviderEnvironment, options: ProviderOptions) -> None:
        self._services = AwsServices(environment.seam)
        self._ec2 = self._services.ec2
        self.instance_batcher = InstanceBatcher(self._ec2, environment.clock, environment.metrics)
        self.templates = LaunchTemplateProvider(self._ec2, environment.clock)
        self.offerings_provider = AccountOfferingsProvider(
            self._services,
            environment.clock,
            options.cluster.region,
            price_list=not options.cluster.isolated_vpc,
            price_refresh=options.price_refresh,
            modelled_prices=environment.modelled_prices,
        )
        self.instances = InstanceProvider(
            self._ec2,
            self.instance_batcher,
            options.cluster,
            self.availability,
            environment.clock,
            environment.metrics,
        )
        self.garbage_watch = GarbageWatch(environment.clock)
        self.instance_statuses = InstanceStatusProvider(
            self._ec2, environment.clock, environment.metrics
        )
        queue = Sqs(environment.seam, options.queue)
        self.interruption_queue = InterruptionQueue(queue, environment.clock, environment.metrics)

    def _build_node_classes(
        self, environment: ProviderEnvironment, options: ProviderOptions
    ) -> None:
        gates = FeatureGates(
            capacity_reservations=options.cluster.capacity_reservations,
            node_overlay=options.node_overlay,
        )
        catalog_deps = CatalogDependencies(
            offerings_provider=self.offerings_provider,
            unavailable_offerings=self.unavailable_offerings,
            addresses=self.addresses,
            availability=self.availability,
            discovered_capacity=self.discovered_capacity,
            clock=self.clock,
            gates=gates,
            catalog_options=options.catalog_options,
        )
        launch_contexts = LaunchContextProvider(catalog_deps)
        dry_run_templates = LaunchDryRunTemplates(
            self.templates, self.cluster_context, launch_contexts.build_for_dry_run
        )
        self.resolver = NodeClassResolver(
            self._services,
            options.cluster,
            self.clock,
            self.availability,
            dry_run_templates,
            environment.server_version,
        )
        self.classes = NodeClassRegistry(
            launch_contexts, self.resolver, self.clock, environment.account_revision
        )
        self.finalizer = NodeClassFinalizer(self.templates, self.resolver.profiles, options.cluster)

    def _build_launcher(self, environment: ProviderEnvironment) -> None:
        self.recovery = LaunchRecovery(
            self._ec2,
            self.instance_batcher,
            environment.launch_log,
            environment.clock,
            environment.process_id,
        )
        self.launcher = Launcher(
            LauncherDependencies(
                ec2=self._ec2,
                instance_batcher=self.instance_batcher,
                templates=self.templates,
                recovery=self.recovery,
                launch_log=environment.launch_log,
                clock=environment.clock,
                metrics=environment.metrics,
                unavailable_offerings=self.unavailable_offerings,
                addresses=self.addresses,
                reservation_holds=self.reservation_holds,
                availability=self.availability,
            )
        )

    async def cluster_context(self, node_class: EC2NodeClass) -> ClusterContext:
        """The cluster that nodes of the class join."""
        cluster_info = await self.resolver.cluster_info.get(
            with_service_cidr=needs_service_cidr(node_class)
        )
        return ClusterContext(
            cluster=self._options.cluster, cluster_info=cluster_info, dns_ip=self._options.dns_ip
        )


class AwsCloudProvider:
    """Implements `cloud.CloudProvider`; one per process, as it caches responses of AWS."""

    def __init__(self, environment: ProviderEnvironment, options: ProviderOptions) -> None:
        self._options, self._metrics = options, environment.metrics
        self._components = ProviderComponents(environment, options)
        self._adopted = False
        self._launching: dict[str, asyncio.Task[Instance]] = {}

    # Node classes and catalogs

    def declare(self, declared: DeclaredObjects) -> None:
        self._components.classes.declare(declared)

    async def refresh(self) -> Refreshed:
        offerings = self._components.offerings_provider
        is_changed, _ = await asyncio.gather(offerings.refresh(), self._adopt())
        return Refreshed(
            due=offerings.next_due if self._adopted else offerings.next_attempt,
            is_changed=is_changed,
            is_complete=self._adopted and not offerings.failures,
        )

    @property
    def failures(self) -> dict[str, str]:
        """By part of the live catalog, why it is not up to date."""
        return dict(self._components.offerings_provider.failures)

    def node_class_annotations(self, node_class: str) -> Mapping[str, str]:
        declared = self._components.classes.declared(node_class)
        return hash_annotations(declared, self._options.cluster.ca_bundle)

    async def resolve(self, node_class: str) -> NodeClassState:
        with _error_context(f"resolving the EC2NodeClass {node_class}"):
            resolved = await self._components.classes.resolve(node_class)
        return NodeClassState(
            name=node_class,
            ready=resolved.is_ready,
            not_ready_message=not_ready_message(resolved),
            status=msgspec.to_builtins(to_status(resolved)),
            requeue_after=resolved.requeue_after,
            outdated=resolved.outdated,
            reservation_counts=self._components.availability.revision,
        )

    async def finalize_node_class(self, node_class: str, claims: Sequence[str]) -> str:
        declared = self._components.classes.declared(node_class)
        with _error_context(f"removing what belongs to the EC2NodeClass {node_class}"):
            outcome = await self._components.finalizer.finalize(declared, claims)
        self._metrics.remove(USER_DATA_BYTES, nodeclass=node_class)
        return str(outcome) if isinstance(outcome, AwaitingClaims) else ""

    async def catalog(self, pool: str) -> NodePoolCatalog:
        classes = self._components.classes
        with _error_context(f"looking up what NodePool {pool} can launch"):
            launch_context = await classes.launch_context(classes.node_class_of(pool), pool)
        catalog = launch_context.catalog
        return NodePoolCatalog(
            index=catalog.index,
            reservations=tuple(
                ReservationState(
                    id=each.reservation.id,
                    total=each.reservation.total,
                    available=each.available,
                    instance_type=each.reservation.instanceType,
                    zone=each.reservation.availabilityZone,
                )
                for each in catalog.reservations
                if each.standing is ReservationStanding.OFFERED
            ),
            remarks=tuple(map(_remark, catalog.diagnostics)),
            applied_overlays=catalog.applied_overlays,
        )

    def next_catalog_change(self) -> float | None:
        return self._components.unavailable_offerings.next_expiry()

    async def offered_types(self, pool: str) -> OfferedTypes:
        with _error_context(f"looking up what is offered to the pool {pool}"):
            return await self._components.classes.offered_types(pool)

    # Instances

    async def launch(self, claim: NodeClaim) -> Instance:
        """Concurrent calls for the same claim get the same instance.

        A launch continues even if its callers are cancelled: their next call returns the instance.
        """
        task = self._launching.get(claim.uid)
        if task is None:
            task = self._launching[claim.uid] = asyncio.ensure_future(self._launch(claim))
            task.add_done_callback(lambda done: self._on_launch_done(claim.uid, done))
        return await asyncio.shield(task)

    def _on_launch_done(self, uid: str, done: "asyncio.Task[Instance]") -> None:
        del self._launching[uid]
        if not done.cancelled():
            done.exception()  # marks it as seen: asyncio logs errors without a receiver

    async def _launch(self, claim: NodeClaim) -> Instance:
        with _error_context(f"launching NodeClaim {claim.name}"):
            return await self._launch_or_recover(
                self._components.recovery.with_latest_record(claim)
            )

    async def _launch_or_recover(self, claim: NodeClaim) -> Instance:
        components = self._components
        if claim.instance:
            return await self._describe(await components.instances.get(claim.instance), claim)
        await self._hold_reservations(claim)
        recovered = await components.recovery.find(claim)
        components.reservation_holds.resolve_unclear(
            claim.uid, recovered.reservation_id if recovered else ""
        )
        if recovered is not None:
            return await self._describe(recovered, claim)
        launch_context = await components.classes.launch_context(claim.node_class, claim.pool)
        result = await self._request_launch(claim, launch_context)
        return describe_instance(
            result.instance,
            launch_context,
            claim,
            ca_bundle=self._options.cluster.ca_bundle,
            notes=result.notes,
        )

    async def _request_launch(
        self, claim: NodeClaim, launch_context: LaunchContext
    ) -> LaunchResult:
        """Once more for each reservation that turns out to be full while another one is not."""
        for _ in range(MAX_SUBSTITUTIONS):
            try:
                return await self._launch_selected(claim, launch_context)
            except InsufficientCapacityError as error:
                if not self._can_substitute(claim, launch_context, error):
                    raise
        return await self._launch_selected(claim, launch_context)

    async def _launch_selected(
        self, claim: NodeClaim, launch_context: LaunchContext
    ) -> LaunchResult:
        components = self._components
        latest = components.recovery.with_latest_record(claim)
        request = LaunchRequest(
            claim=latest,
            selection=launch_context.selector.select(
                latest, components.reservation_holds.available_count
            ),
            launch_context=launch_context,
            cluster_context=await components.cluster_context(launch_context.node_class),
        )
        return await components.launcher.launch(request)

    def _can_substitute(
        self, claim: NodeClaim, launch_context: LaunchContext, error: InsufficientCapacityError
    ) -> bool:
        """Whether only its reservation is full, and another one may be used in place of it."""
        return (
            error.reason == RESERVATION_CAPACITY_EXCEEDED
            and RESERVATION_ID in claim.requirements
            and launch_context.selector.has_capacity(
                claim, self._components.reservation_holds.available_count
            )
        )

    async def recover(self, claims: Sequence[NodeClaim]) -> RecoveredLaunches:
        recorded = map(self._components.recovery.with_latest_record, claims)
        pending = [claim for claim in recorded if claim.has_pending_launch]
        instances: dict[str, Instance] = {}
        unclear: set[str] = set()
        await asyncio.gather(*map(self._hold_reservations, pending))
        outcomes = await asyncio.gather(*map(self._recover_claim, pending), return_exceptions=True)
        for claim, outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, Instance):
                instances[claim.uid] = outcome
            elif isinstance(outcome, CloudProviderError):
                unclear.add(claim.uid)
            elif outcome is not None:
                raise outcome
        return RecoveredLaunches(instances=instances, unclear=frozenset(unclear))

    async def _recover_claim(self, claim: NodeClaim) -> Instance | None:
        with _error_context(f"looking for the instance of {claim.name}"):
            instance = await self._components.recovery.find(claim)
            self._components.reservation_holds.resolve_unclear(
                claim.uid, instance.reservation_id if instance else ""
            )
            return None if instance is None else await self._describe(instance, claim)

    async def _hold_reservations(self, claim: NodeClaim) -> None:
        """Holds what the launch of an earlier process may have used, until its outcome is known."""
        if not self._components.recovery.is_unknown(claim):
            return
        launch_context = await self._launch_context(claim)
        if launch_context is not None:
            reservations = launch_context.selector.possible_reservations(claim)
            self._components.reservation_holds.hold_unknown(claim.uid, reservations)

    async def _describe(self, instance: Ec2Instance, claim: NodeClaim) -> Instance:
        """With fewer fields if its class is not ready: the instance exists nevertheless."""
        launch_context = await self._launch_context(claim)
        if launch_context is None:
            return to_model_instance(instance)
        return describe_instance(
            instance, launch_context, claim, ca_bundle=self._options.cluster.ca_bundle
        )

    async def _launch_context(self, claim: NodeClaim) -> LaunchContext | None:
        """None if its class is not ready."""
        try:
            return await self._components.classes.launch_context(claim.node_class, claim.pool)
        except (AwsError, CloudProviderError):
            return None

    async def terminate(self, instance: str) -> None:
        with _error_context(f"terminating {instance}"):
            await self._components.instances.terminate(instance)

    async def instance(self, instance_id: str) -> Instance:
        with _error_context(f"looking up {instance_id}"):
            return to_model_instance(await self._components.instances.get(instance_id))

    async def instances(self) -> Sequence[Instance]:
        with _error_context("listing instances"):
            return [
                to_model_instance(each)
                for each in await self._components.instances.list_instances()
            ]

    async def find_garbage(self, claims: Iterable[NodeClaim]) -> Garbage:
        recorded = [self._components.recovery.with_latest_record(claim) for claim in claims]
        with _error_context("listing instances"):
            instances = await self._components.instances.list_instances()
        self._components.recovery.prune(claim.uid for claim in recorded)
        in_flight = self._components.recovery.in_flight_batches()
        unclaimed = without_claim(instances, recorded)
        found = self._components.garbage_watch.old_enough(
            without_awaited(unclaimed, recorded, in_flight)
        )
        return Garbage(
            instances=tuple(map(to_model_instance, found)),
            is_complete=len(found) == len(unclaimed),
        )

    async def tag(self, instance: str, *, node: str, claim: str) -> None:
        with _error_context(f"tagging {instance}"):
            await self._components.instances.tag(instance, node=node, claim=claim)

    async def drift(self, claim: NodeClaim) -> str | None:
        """None also if the class does not exist, or if drift cannot be determined."""
        classes = self._components.classes
        if classes.get(claim.node_class) is None:
            return None
        with _error_context(f"comparing {claim.name} with its class"):
            instance = await self._components.instances.get(claim.instance)
            node_class, resolved = await classes.current(claim.node_class)
        type_requirements = (
            self._components.offerings_provider.account_offerings().type_requirements(
                resolve_ami_family(node_class.spec).traits
            )
        )
        launched = LaunchedClaim(
            name=claim.name,
            annotations=claim.annotations,
            labels=claim.labels,
            type_requirements=type_requirements.get(instance.instance_type, NO_REQUIREMENTS),
        )
        annotations = hash_annotations(node_class, self._options.cluster.ca_bundle)
        reason = detect_drift(
            launched, instance, CurrentNodeClass(annotations=annotations, resolved=resolved)
        )
        return reason.value if isinstance(reason, DriftReason) else None

    # Reserved instances

    async def reservation_label_changes(
        self, nodes: Iterable[ReservedNode]
    ) -> Sequence[LabelChange]:
        with _error_context("listing instances"):
            instances = await self._components.instances.list_instances()
        return find_demotions(nodes, {each.id: each for each in instances})

    async def nodes_to_drain(self, nodes: Iterable[ReservedNode]) -> Sequence[str]:
        """A class that cannot be resolved now is skipped: the next call sees its reservations."""
        selected: list[SelectedReservation] = []
        for name in self._components.classes.names:
            try:
                _, resolved = await self._components.classes.current(name)
                selected += resolved.reservations
            except (AwsError, CloudProviderError):
                continue
        return find_expiring_nodes(nodes, selected)

    # Events of instances

    def record_discovered_capacity(self, instance: Instance, memory: int) -> None:
        self._components.discovered_capacity.record(
            instance.instance_type, instance.image_id, memory
        )

    def mark_unavailable(self, instance_type: str, zone: str, capacity_type: str) -> None:
        self._components.unavailable_offerings.mark(instance_type, zone, capacity_type)

    def interruptions(self) -> AsyncGenerator[Interruption, bool | None]:
        return self._components.interruption_queue.events()

    async def unhealthy_instances(self) -> Sequence[Interruption]:
        with _error_context("looking at the status of instances"):
            return await self._components.instance_statuses.list_unhealthy()

    @property
    def next_unhealthy(self) -> float | None:
        return self._components.instance_statuses.next_unhealthy

    def repair_policies(self) -> Sequence[RepairPolicy]:
        return REPAIR_POLICIES

    # Garbage collection

    async def garbage_collect(self, claims: Iterable[NodeClaim]) -> None:
        profiles = {claim.annotations.get(INSTANCE_PROFILE_ANNOTATION, "") for claim in claims}
        in_use = profiles | self._components.classes.profiles()
        with _error_context("removing what is not used any more"):
            await self._components.templates.delete_unused()
            await self._components.resolver.profiles.garbage_collect(in_use)

    async def _adopt(self) -> None:
        """Adopts the launch templates of an earlier process; otherwise they stay for ever."""
        if not self._adopted:
            try:
                await self._components.templates.adopt(self._options.cluster.name)
            except AwsError:
                return
            self._adopted = True


@contextmanager
def _error_context(what: str) -> Iterator[None]:
    """Converts errors of AWS and of user input to a CloudProviderError with the operation."""
    try:
        yield
    except (AwsError, InvalidInputError) as error:
        raise to_cloud_error(error, what) from error
