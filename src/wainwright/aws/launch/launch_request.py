"""A launch request: a claim with everything that its launch follows from.

The launch context of a class (the resolved class, its catalog, the chooser) is made anew whenever
something of it has changed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudSpec, InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.api.wire import ObjectMeta
from wainwright.aws.cluster_config import ClusterConfig, ClusterInfo
from wainwright.aws.instancetypes.live_catalog import (
    AccountOfferingsProvider,
    DiscoveredCapacity,
    LiveCatalogBuilder,
    LiveCatalogInputs,
)
from wainwright.aws.instancetypes.unavailable_offerings import UnavailableOfferings
from wainwright.aws.launch.offering_selection import LaunchOffering, LaunchSelection, LaunchSelector
from wainwright.aws.launchtemplate.template_configs import (
    LaunchInstanceType,
    LaunchSpec,
    SubnetOffering,
    TemplateSplit,
    launch_instance_types,
    split_by_template,
)
from wainwright.aws.launchtemplate.template_data import SharedTemplateSettings, TargetReservation
from wainwright.aws.nodeclass.network import SubnetAddresses
from wainwright.aws.nodeclass.status import ResolvedNodeClass, ResolvedSubnet
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions, IpFamily
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes.capacity import EFA
from wainwright.catalogue.instancetypes.node_class_settings import (
    CatalogOptions,
    InstanceStorePolicy,
    resolve_ami_family,
)
from wainwright.catalogue.offerings.capacity_reservations import SelectedReservation
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope, FeatureGates
from wainwright.clock import Clock
from wainwright.model.node_claim import NodeClaim

ISOLATED_REGION_PREFIXES: Final = ("us-iso", "us-isob", "us-isof", "eu-isoe")
"""What regions begin with in which EC2 lacks the newest options."""


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that nodes join."""

    cluster: ClusterConfig
    facts: ClusterInfo
    dns_ip: str = ""
    """Of the cluster's DNS, where a class names none."""


class LaunchContext(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A class as it is launched from now."""

    node_class: EC2NodeClass
    resolved: ResolvedNodeClass
    built: NodeClassCatalog
    kinds: Mapping[str, LaunchInstanceType]
    chooser: LaunchSelector

    @cached_property
    def identity(self) -> bytes:
        """All of it that a launch depends on, but for prices and counts."""
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
                {name: [kind.density, kind.reserved] for name, kind in self.kinds.items()},
            ],
            order="deterministic",
        )


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One instance for one claim."""

    claim: NodeClaim
    choice: LaunchSelection
    launch_context: LaunchContext
    cluster_context: ClusterContext

    @cached_property
    def key(self) -> bytes:
        """Equal for orders that one request can fulfil, whichever instance each of them gets."""
        claim, choice = self.claim, self.choice
        told = msgspec.structs.replace(choice, notes=())
        mine = [claim.pool, claim.labels, claim.taints, claim.startup_taints, self.efa]
        rest = [told, mine, self.context, self.cluster_context.facts]
        return self.launch_context.identity + msgspec.json.encode(rest, order="deterministic")

    @property
    def efa(self) -> bool:
        """Whether its pods ask for such interfaces."""
        return self.claim.requests.get(EFA, 0) > 0

    @property
    def context(self) -> str:
        """What the class has EC2 told; not where the claim is less diverse than it should be."""
        return (
            ""
            if self.claim.min_values_relaxed
            else self.launch_context.node_class.spec.context or ""
        )

    @property
    def tags(self) -> dict[str, str]:
        spec, name = self.launch_context.node_class.spec, self.launch_context.resolved.name
        return self.cluster_context.cluster.launch_tags(name, self.claim.pool, spec.tags)

    def divided(
        self, subnets: Mapping[str, ResolvedSubnet], free: Callable[[str], int]
    ) -> TemplateSplit:
        """Among templates, each type and zone once; nothing where no zone has a subnet left."""
        return split_by_template(
            LaunchSpec(
                common=shared_template_settings(self),
                bootstrap=bootstrap_options(self),
                images=self.launch_context.resolved.images,
                kinds=self.launch_context.kinds,
                offers=tuple(self._offers(subnets, free)),
                efa=self.efa,
                prioritised=self.choice.prioritised,
            )
        )

    def _offers(
        self, subnets: Mapping[str, ResolvedSubnet], free: Callable[[str], int]
    ) -> Sequence[SubnetOffering]:
        return [
            SubnetOffering(
                kind=offering.kind,
                zone=offering.zone,
                subnet=subnets[offering.zone].id,
                price=offering.price,
                reservation=self._reservation(offering, free),
            )
            for offering in self.choice.offerings
            if offering.zone in subnets and offering.kind in self.launch_context.kinds
        ]

    def _reservation(
        self, offering: LaunchOffering, free: Callable[[str], int]
    ) -> TargetReservation | None:
        if not offering.reservation:
            return None
        return TargetReservation(
            id=offering.reservation,
            free=free(offering.reservation),
            kind=self.choice.reservation_type,
            interruptible=self.choice.interruptible,
        )


def shared_template_settings(order: LaunchRequest) -> SharedTemplateSettings:
    """What all templates of the order share."""
    launch_context, cluster = order.launch_context, order.cluster_context.cluster
    spec, resolved = launch_context.node_class.spec, launch_context.resolved
    return SharedTemplateSettings(
        spec=spec,
        family=resolve_ami_family(spec),
        groups=tuple(each.id for each in resolved.security_groups),
        profile=resolved.profile,
        tags=order.tags,
        capacity_type=order.choice.capacity_type,
        ipv6=order.cluster_context.facts.ipv6,
        isolated_region=cluster.region.startswith(ISOLATED_REGION_PREFIXES),
        reservations_on=cluster.capacity_reservations,
        tenancy=order.choice.tenancy,
        placement=_placement_group(resolved),
    )


def _placement_group(resolved: ResolvedNodeClass) -> dict[str, Any]:
    group = resolved.placement_group
    return {} if group is None else {"GroupId": group.id}


def bootstrap_options(order: LaunchRequest) -> BootstrapOptions:
    """What the instance is told; labels of a single claim are left to its registration."""
    cluster_context, claim, spec = (
        order.cluster_context,
        order.claim,
        order.launch_context.node_class.spec,
    )
    settings, policy = order.launch_context.built.settings, spec.instanceStorePolicy
    return BootstrapOptions(
        cluster=cluster_context.cluster.name,
        endpoint=cluster_context.facts.endpoint,
        ca=cluster_context.cluster.ca_bundle or cluster_context.facts.certificate,
        cidr=cluster_context.cluster.service_cidr or cluster_context.facts.service_cidr,
        dns_ip=cluster_context.dns_ip,
        ip_family=IpFamily.IPV6 if cluster_context.facts.ipv6 else IpFamily.IPV4,
        kubelet=spec.kubelet or KubeletConfiguration(),
        labels=claim.labels,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        instance_store=None if policy is None else InstanceStorePolicy(policy),
        text=spec.userData or "",
        max_pods=None if settings is None else settings.kubelet.max_pods,
    )


class CatalogDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What catalogues are made of besides the class."""

    offerings_provider: AccountOfferingsProvider
    unavailable_offerings: UnavailableOfferings
    addresses: SubnetAddresses
    availability: ReservationAvailability
    discovered_capacity: DiscoveredCapacity
    clock: Clock
    gates: FeatureGates = FeatureGates()
    rules: CatalogOptions = CatalogOptions()


class CatalogOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """What users say about instance types, and the pools that it can be about."""

    instance_types: tuple[InstanceType, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    scopes: Mapping[str, CatalogScope] = {}
    """By pool."""


class _CachedCatalogs(msgspec.Struct, frozen=True, kw_only=True):
    """Of one class, good as long as the stamp is the same."""

    stamp: tuple[Any, ...]
    catalogues: LiveCatalogBuilder
    launch_contexts: dict[str, LaunchContext] = msgspec.field(default_factory=dict)
    """By pool."""


class LaunchContextProvider:
    def __init__(self, catalog_deps: CatalogDependencies) -> None:
        self._catalog_deps = catalog_deps
        self._overrides = CatalogOverrides()
        self._kept: dict[str, _CachedCatalogs] = {}

    def declare(self, overrides: CatalogOverrides, classes: Iterable[str]) -> None:
        """Forgets what belongs to other classes than these."""
        names = set(classes)
        self._overrides = overrides
        self._kept = {name: kept for name, kept in self._kept.items() if name in names}

    def of(self, node_class: EC2NodeClass, resolved: ResolvedNodeClass, pool: str) -> LaunchContext:
        kept = self._current(node_class, resolved)
        found = kept.launch_contexts.get(pool)
        if found is None:
            known = self._overrides.scopes.get(pool)
            labels = {} if known is None else known.labels
            scope = CatalogScope(node_class=without_status(node_class), pool=pool, labels=labels)
            found = self._launch_context(kept.catalogues, scope, resolved)
        elif found.resolved is not resolved:
            found = msgspec.structs.replace(found, resolved=resolved)
        kept.launch_contexts[pool] = found
        return found

    def trial(self, node_class: EC2NodeClass, resolved: ResolvedNodeClass) -> LaunchContext:
        """Without any pool, and not to be kept: for a class that is not ready yet."""
        scope = CatalogScope(node_class=without_status(node_class))
        return self._launch_context(self._layered(node_class, resolved), scope, resolved)

    def _current(self, node_class: EC2NodeClass, resolved: ResolvedNodeClass) -> _CachedCatalogs:
        name, stamp = resolved.name, self._stamp(node_class, resolved)
        kept = self._kept.get(name)
        if kept is None or kept.stamp != stamp:
            made = self._layered(node_class, resolved)
            kept = self._kept[name] = _CachedCatalogs(stamp=stamp, catalogues=made)
        return kept

    def _launch_context(
        self, catalogues: LiveCatalogBuilder, scope: CatalogScope, resolved: ResolvedNodeClass
    ) -> LaunchContext:
        built = catalogues.build(scope)
        known = launch_instance_types(
            built, self._catalog_deps.offerings_provider.account_offerings().region_types.machines
        )
        return LaunchContext(
            node_class=scope.node_class,
            resolved=resolved,
            built=built,
            kinds=known,
            chooser=LaunchSelector(built),
        )

    def _stamp(self, node_class: EC2NodeClass, resolved: ResolvedNodeClass) -> tuple[Any, ...]:
        """All that the catalogue of a class depends on."""
        catalog_deps = self._catalog_deps
        return (
            catalog_deps.offerings_provider.account_offerings(),
            without_status(node_class),
            self._overrides,
            self._zones(resolved),
            tuple((each.standing, each.reservation) for each in self._counted(resolved)),
            catalog_deps.unavailable_offerings.pools(),
            catalog_deps.discovered_capacity.version,
            tuple(image.id for image in resolved.images),
        )

    def _layered(self, node_class: EC2NodeClass, resolved: ResolvedNodeClass) -> LiveCatalogBuilder:
        catalog_deps, account_offerings = (
            self._catalog_deps,
            self._catalog_deps.offerings_provider.account_offerings(),
        )
        described = account_offerings.described(resolve_ami_family(node_class.spec).traits)
        live_inputs = LiveCatalogInputs(
            account_offerings=account_offerings,
            zones=self._zones(resolved),
            memory=catalog_deps.discovered_capacity.of(described, resolved.images),
        )
        supply = CatalogInputs(
            now=datetime.fromtimestamp(catalog_deps.clock.now(), UTC),
            cloud=self._cloud(account_offerings.region, resolved),
            instance_types=self._overrides.instance_types,
            overlays=self._overrides.overlays,
            scopes=tuple(self._overrides.scopes.values()),
            gates=catalog_deps.gates,
            options=catalog_deps.rules,
        )
        return LiveCatalogBuilder(supply, live_inputs)

    def _cloud(self, region: str, resolved: ResolvedNodeClass) -> Cloud:
        """Reservations and shortages of this moment, as the layers take them."""
        reservations = [each.reservation for each in self._counted(resolved)]
        entries = self._catalog_deps.unavailable_offerings.entries()
        spec = CloudSpec(region=region, capacityReservations=reservations, unavailable=entries)
        return Cloud(spec=spec)

    def _counted(self, resolved: ResolvedNodeClass) -> list[SelectedReservation]:
        count = self._catalog_deps.availability.current
        return [
            msgspec.structs.replace(each, reservation=count(each.reservation))
            for each in resolved.reservations
        ]

    def _zones(self, resolved: ResolvedNodeClass) -> tuple[str, ...]:
        """Those in which the class has a subnet with addresses left."""
        usable = self._catalog_deps.addresses.usable(resolved.subnets)
        return tuple(sorted({subnet.zone for subnet in usable}))


def without_status(node_class: EC2NodeClass) -> EC2NodeClass:
    """What catalogues depend on: they are not to be made anew whenever a status is written."""
    metadata = ObjectMeta(
        name=node_class.metadata.name, annotations=node_class.metadata.annotations or None
    )
    return EC2NodeClass(metadata=metadata, spec=node_class.spec)
