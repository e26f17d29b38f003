"""A launch request: a claim with everything that determines its launch.

The launch context of a class (the resolved class, its catalog, the selector) is rebuilt whenever
one of its inputs has changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.api.wire import ObjectMeta
from wainwright.aws.cluster_config import ClusterConfig, ClusterInfo
from wainwright.aws.instancetypes.account_offerings import AccountOfferings
from wainwright.aws.instancetypes.live_catalog import (
    AccountOfferingsProvider,
    AccountSource,
    DiscoveredCapacity,
)
from wainwright.aws.instancetypes.unavailable_offerings import UnavailableOfferings
from wainwright.aws.launch.offering_selection import (
    AvailableCount,
    LaunchOffering,
    LaunchSelection,
    LaunchSelector,
)
from wainwright.aws.launchtemplate.launch_templates import (
    LaunchInstanceType,
    LaunchInstanceTypes,
    LaunchSpec,
    SubnetOffering,
    TemplateSplit,
    split_by_template,
)
from wainwright.aws.launchtemplate.template_data import SharedTemplateSettings, TargetReservation
from wainwright.aws.nodeclass.network import SubnetAddresses
from wainwright.aws.nodeclass.status import ResolvedNodeClass, ResolvedSubnet
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions, IpFamily
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.catalogue.instancetypes.capacity import EFA
from wainwright.catalogue.instancetypes.node_class_settings import (
    CatalogOptions,
    InstanceStorePolicy,
    resolve_ami_family,
)
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
)
from wainwright.catalogue.offerings.capacity_state import CapacityState
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope, FeatureGates
from wainwright.clock import Clock
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.instance_type_index import IndexCompiler
from wainwright.model.node_claim import NodeClaim

ISOLATED_REGION_PREFIXES: Final = ("us-iso", "us-isob", "us-isof", "eu-isoe")
"""Prefixes of regions in which EC2 lacks the newest options."""


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that nodes join."""

    cluster: ClusterConfig
    cluster_info: ClusterInfo
    dns_ip: str = ""
    """Of the cluster's DNS, for classes without clusterDNS."""


class LaunchContext(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A class and its catalog, as launches use them now."""

    node_class: EC2NodeClass
    resolved: ResolvedNodeClass
    catalog: NodeClassCatalog
    instance_types: Mapping[str, LaunchInstanceType]
    selector: LaunchSelector

    @cached_property
    def launch_key(self) -> bytes:
        """Everything in it that a launch depends on, except prices and counts.

        Cached: it encodes every instance type, and each request of a batch compares it.
        """
        resolved = self.resolved
        group = resolved.placement_group
        return msgspec.json.encode(
            [
                resolved.uid or resolved.name,
                self.node_class.spec,
                [image.id for image in resolved.images],
                [each.id for each in resolved.security_groups],
                [each.id for each in resolved.subnets],
                resolved.profile,
                group and group.id,
                {
                    name: [each.max_pods, each.kube_reserved]
                    for name, each in self.instance_types.items()
                },
            ],
            order="deterministic",
        )


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A request for one instance for one claim."""

    claim: NodeClaim
    selection: LaunchSelection
    launch_context: LaunchContext
    cluster_context: ClusterContext

    @cached_property
    def key(self) -> bytes:
        """Equal for requests that one CreateFleet call can serve, whichever instance each gets.

        If it missed a field that instances depend on, a claim could get an instance that was
        launched with the settings of another.
        """
        claim = self.claim
        parts = [
            msgspec.structs.replace(self.selection, notes=()),
            [claim.pool, claim.labels, claim.taints, claim.startup_taints, self.needs_efa],
            self.context,
            self.cluster_context.cluster_info,
        ]
        return self.launch_context.launch_key + msgspec.json.encode(parts, order="deterministic")

    @property
    def needs_efa(self) -> bool:
        """Whether its pods request EFA interfaces."""
        return self.claim.requests.get(EFA, 0) > 0

    @property
    def context(self) -> str:
        """The fleet context of the class; empty if minValues of the claim were relaxed."""
        return (
            ""
            if self.claim.min_values_relaxed
            else self.launch_context.node_class.spec.context or ""
        )

    @property
    def tags(self) -> dict[str, str]:
        spec, name = self.launch_context.node_class.spec, self.launch_context.resolved.name
        return self.cluster_context.cluster.launch_tags(name, self.claim.pool, spec.tags)

    def split_templates(
        self, subnets: Mapping[str, ResolvedSubnet], available_count: AvailableCount
    ) -> TemplateSplit:
        """Its offerings by launch template, each type and zone once; empty without subnets."""
        return split_by_template(
            LaunchSpec(
                shared=shared_template_settings(self),
                bootstrap=bootstrap_options(self),
                images=self.launch_context.resolved.images,
                instance_types=self.launch_context.instance_types,
                offerings=tuple(self._subnet_offerings(subnets, available_count)),
                efa=self.needs_efa,
                prioritised=self.selection.prioritised,
            )
        )

    def _subnet_offerings(
        self, subnets: Mapping[str, ResolvedSubnet], available_count: AvailableCount
    ) -> Sequence[SubnetOffering]:
        return [
            SubnetOffering(
                instance_type=offering.instance_type,
                zone=offering.zone,
                subnet=subnets[offering.zone].id,
                price=offering.price,
                reservation=self._target_reservation(offering, available_count),
            )
            for offering in self.selection.offerings
            if offering.zone in subnets
            and offering.instance_type in self.launch_context.instance_types
        ]

    def _target_reservation(
        self, offering: LaunchOffering, available_count: AvailableCount
    ) -> TargetReservation | None:
        if not offering.reservation:
            return None
        return TargetReservation(
            id=offering.reservation,
            available_count=available_count(offering.reservation),
            reservation_type=self.selection.reservation_type,
            interruptible=self.selection.interruptible,
        )


def shared_template_settings(request: LaunchRequest) -> SharedTemplateSettings:
    """The settings that all launch templates of the request share."""
    launch_context, cluster = request.launch_context, request.cluster_context.cluster
    spec, resolved = launch_context.node_class.spec, launch_context.resolved
    return SharedTemplateSettings(
        spec=spec,
        family=resolve_ami_family(spec),
        groups=tuple(each.id for each in resolved.security_groups),
        profile=resolved.profile,
        tags=request.tags,
        capacity_type=request.selection.capacity_type,
        ipv6=request.cluster_context.cluster_info.ipv6,
        isolated_region=cluster.region.startswith(ISOLATED_REGION_PREFIXES),
        reservations_on=cluster.capacity_reservations,
        tenancy=request.selection.tenancy,
        placement=_placement_group(resolved),
    )


def _placement_group(resolved: ResolvedNodeClass) -> dict[str, Any]:
    group = resolved.placement_group
    return {} if group is None else {"GroupId": group.id}


def bootstrap_options(request: LaunchRequest) -> BootstrapOptions:
    """The input of user data; labels of a single claim are set at its registration instead."""
    claim, spec = request.claim, request.launch_context.node_class.spec
    cluster, info = request.cluster_context.cluster, request.cluster_context.cluster_info
    settings, policy = request.launch_context.catalog.settings, spec.instanceStorePolicy
    return BootstrapOptions(
        cluster=cluster.name,
        endpoint=info.endpoint,
        ca=info.certificate,
        service_cidr=info.service_cidr,
        dns_ip=request.cluster_context.dns_ip,
        ip_family=IpFamily.IPV6 if info.ipv6 else IpFamily.IPV4,
        kubelet=spec.kubelet or KubeletConfiguration(),
        labels=claim.labels,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        instance_store=None if policy is None else InstanceStorePolicy(policy),
        custom_user_data=spec.userData or "",
        max_pods=None if settings is None else settings.kubelet.max_pods,
    )


class CatalogDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of catalogs besides the class."""

    offerings_provider: AccountOfferingsProvider
    unavailable_offerings: UnavailableOfferings
    addresses: SubnetAddresses
    availability: ReservationAvailability
    discovered_capacity: DiscoveredCapacity
    clock: Clock
    gates: FeatureGates = FeatureGates()
    catalog_options: CatalogOptions = CatalogOptions()


class CatalogOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """InstanceType and NodeOverlay objects, and the NodePools that they can apply to."""

    instance_types: tuple[InstanceType, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    scopes: Mapping[str, CatalogScope] = {}
    """By NodePool."""


class _CachedCatalogs(msgspec.Struct, frozen=True, kw_only=True):
    """The catalogs of one class, valid as long as both keys are the same."""

    builder_key: tuple[Any, ...]
    builder: CatalogBuilder
    capacity_key: tuple[Any, ...]
    capacity: CapacityState
    launch_contexts: dict[str, LaunchContext] = msgspec.field(default_factory=dict)
    """By NodePool."""


class _OfferedTypesKey(NamedTuple):
    """What the offered types of a NodePool depend on."""

    account_offerings: AccountOfferings
    overrides: CatalogOverrides
    reservations: tuple[tuple[str, ReservationStanding], ...]
    """Which there are; not how many of their instances are free."""
    scope: CatalogScope

    def is_same(self, other: "_OfferedTypesKey") -> bool:
        """The largest is compared by identity: it is replaced as a whole."""
        return (
            self.account_offerings is other.account_offerings
            and self.overrides == other.overrides
            and self.reservations == other.reservations
            and self.scope == other.scope
        )


class LaunchContextProvider:
    """Caches the launch contexts of classes: to build a catalog takes long."""

    def __init__(self, catalog_deps: CatalogDependencies) -> None:
        self._catalog_deps = catalog_deps
        self._overrides = CatalogOverrides()
        self._cached: dict[str, _CachedCatalogs] = {}
        self._dry_runs: dict[str, tuple[tuple[Any, ...], LaunchContext]] = {}
        self._compilers: dict[str, IndexCompiler] = {}
        self._launch_types: dict[str, LaunchInstanceTypes] = {}
        self._offered: dict[str, tuple[_OfferedTypesKey, OfferedTypes]] = {}
        """By NodePool: every claim of it is compared with the same."""

    def declare(self, overrides: CatalogOverrides, classes: Iterable[str]) -> None:
        """Drops the cached catalogs of all other classes."""
        names = set(classes)
        if overrides != self._overrides:
            # Of equal ones the first is kept, which is known to be the same without a look at its
            # NodePools: they are compared for the catalog of each NodePool.
            self._overrides = overrides
        self._cached = {name: cached for name, cached in self._cached.items() if name in names}
        self._dry_runs = {name: made for name, made in self._dry_runs.items() if name in names}
        self._compilers = {name: each for name, each in self._compilers.items() if name in names}
        for gone in self._launch_types.keys() - names:
            del self._launch_types[gone]

    def get(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass, pool: str
    ) -> LaunchContext:
        cached = self._current(node_class, resolved)
        launch_context = cached.launch_contexts.get(pool)
        if launch_context is None:
            scope = self._scope(node_class, pool)
            catalog = cached.builder.build(scope, cached.capacity)
            launch_context = self._launch_context(catalog, scope, resolved)
        elif launch_context.resolved is not resolved:
            launch_context = msgspec.structs.replace(launch_context, resolved=resolved)
        cached.launch_contexts[pool] = launch_context
        return launch_context

    def offered_types(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass, pool: str
    ) -> OfferedTypes:
        """Of all zones: one in which the class has no subnet today is not a zone that is gone."""
        account_offerings = self._catalog_deps.offerings_provider.fetched_offerings()
        scope = self._scope(node_class, pool)
        reservations = tuple((each.reservation.id, each.standing) for each in resolved.reservations)
        key = _OfferedTypesKey(account_offerings, self._overrides, reservations, scope)
        known = self._offered.get(pool)
        if known is not None and known[0].is_same(key):
            return known[1]
        source = AccountSource(account_offerings, tuple(account_offerings.region_types.zones))
        builder = CatalogBuilder(self._inputs(source, self._capacity(resolved)))
        offered = {
            name: tuple(offering.requirements for offering in each)
            for name, each in builder.existing_offerings(scope).items()
        }
        self._offered[pool] = key, offered
        return offered

    def _scope(self, node_class: EC2NodeClass, pool: str) -> CatalogScope:
        declared = self._overrides.scopes.get(pool)
        labels = {} if declared is None else declared.labels
        return CatalogScope(node_class=without_status(node_class), pool=pool, labels=labels)

    def build_for_dry_run(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> LaunchContext:
        """Without a NodePool, as the class may not be ready yet; the last one is kept, as a class
        that does not change is tried out every half hour.
        """
        builder_key, cached = (
            self._builder_key(node_class, resolved),
            self._dry_runs.get(resolved.name),
        )
        if cached is not None and cached[0] == (builder_key, resolved):
            return cached[1]
        scope = CatalogScope(node_class=without_status(node_class))
        catalogs = self._cached.get(resolved.name)
        if catalogs is not None and catalogs.builder_key == builder_key:
            builder = catalogs.builder
        else:
            builder = self._catalog_builder(node_class, resolved)
        made = self._launch_context(builder.build(scope), scope, resolved)
        self._dry_runs[resolved.name] = (builder_key, resolved), made
        return made

    def _current(self, node_class: EC2NodeClass, resolved: ResolvedNodeClass) -> _CachedCatalogs:
        """Counts change with every launch: for these alone the layers below are kept."""
        cached = self._cached.get(resolved.name)
        builder_key = self._builder_key(node_class, resolved)
        capacity_key = self._capacity_key(resolved)
        is_same_builder = cached is not None and cached.builder_key == builder_key
        if cached is not None and is_same_builder and cached.capacity_key == capacity_key:
            return cached
        self._cached[resolved.name] = current = _CachedCatalogs(
            builder_key=builder_key,
            builder=cached.builder
            if cached is not None and is_same_builder
            else self._catalog_builder(node_class, resolved),
            capacity_key=capacity_key,
            capacity=self._capacity(resolved),
        )
        return current

    def _launch_context(
        self, catalog: NodeClassCatalog, scope: CatalogScope, resolved: ResolvedNodeClass
    ) -> LaunchContext:
        account_offerings = self._catalog_deps.offerings_provider.account_offerings()
        types = self._launch_types.setdefault(resolved.name, LaunchInstanceTypes())
        return LaunchContext(
            node_class=scope.node_class,
            resolved=resolved,
            catalog=catalog,
            instance_types=types.of(catalog, account_offerings.region_types.instance_types),
            selector=LaunchSelector(catalog),
        )

    def _builder_key(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> tuple[Any, ...]:
        """Everything that the catalog of a class depends on, except capacity."""
        catalog_deps = self._catalog_deps
        return (
            catalog_deps.offerings_provider.account_offerings(),
            without_status(node_class),
            self._overrides,
            self._zones(resolved),
            catalog_deps.discovered_capacity.version,
            tuple(image.id for image in resolved.images),
        )

    def _capacity_key(self, resolved: ResolvedNodeClass) -> tuple[Any, ...]:
        """Everything else; of the time only the standings of reservations depend."""
        return (
            tuple(
                (each.standing, each.reservation)
                for each in self._reservations_with_counts(resolved)
            ),
            self._catalog_deps.unavailable_offerings.keys(),
        )

    def _catalog_builder(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> CatalogBuilder:
        catalog_deps = self._catalog_deps
        account_offerings = catalog_deps.offerings_provider.account_offerings()
        type_requirements = account_offerings.type_requirements(
            resolve_ami_family(node_class.spec).traits
        )
        discovered_memory = catalog_deps.discovered_capacity.memory_by_type(
            type_requirements, resolved.images
        )
        source = AccountSource(account_offerings, self._zones(resolved), discovered_memory)
        compiler = self._compilers.setdefault(resolved.name, IndexCompiler())
        return CatalogBuilder(self._inputs(source, self._capacity(resolved)), compiler)

    def _inputs(self, source: AccountSource, capacity: CapacityState) -> CatalogInputs:
        return CatalogInputs(
            source=source,
            capacity=capacity,
            instance_types=self._overrides.instance_types,
            overlays=self._overrides.overlays,
            scopes=tuple(self._overrides.scopes.values()),
            gates=self._catalog_deps.gates,
            options=self._catalog_deps.catalog_options,
        )

    def _capacity(self, resolved: ResolvedNodeClass) -> CapacityState:
        return CapacityState(
            now=datetime.fromtimestamp(self._catalog_deps.clock.now(), UTC),
            reservations=tuple(
                each.reservation for each in self._reservations_with_counts(resolved)
            ),
            unavailable=self._catalog_deps.unavailable_offerings.keys(),
            from_account=True,
        )

    def _reservations_with_counts(self, resolved: ResolvedNodeClass) -> list[SelectedReservation]:
        with_current_count = self._catalog_deps.availability.with_current_count
        return [
            msgspec.structs.replace(each, reservation=with_current_count(each.reservation))
            for each in resolved.reservations
        ]

    def _zones(self, resolved: ResolvedNodeClass) -> tuple[str, ...]:
        """Zones in which the class has a subnet with free addresses."""
        subnets = self._catalog_deps.addresses.usable_subnets(resolved.subnets)
        return tuple(sorted({subnet.zone for subnet in subnets}))


def without_status(node_class: EC2NodeClass) -> EC2NodeClass:
    """The parts that catalogs depend on: writing a status must not invalidate the cache."""
    metadata = ObjectMeta(
        name=node_class.metadata.name, annotations=node_class.metadata.annotations or None
    )
    return EC2NodeClass(metadata=metadata, spec=node_class.spec)
