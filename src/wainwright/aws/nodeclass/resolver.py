"""The EC2NodeClasses of the cluster: resolved every minute, launched from, finalized when deleted.

Each kind of resource that a class selects is looked up at its own interval, so that resolving
every minute costs few calls. If AWS cannot be reached, the last result stays; if it rejects a
request, the condition has the error.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, TypeVar

import msgspec

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.error_codes import is_access_denied, is_transient
from wainwright.aws.api.services import AwsServices
from wainwright.aws.cluster_config import ClusterConfig, ClusterInfoProvider, VersionSource
from wainwright.aws.launch.launch_request import (
    CatalogOverrides,
    LaunchContext,
    LaunchContextProvider,
    without_status,
)
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateProvider
from wainwright.aws.nodeclass.amis import AmiProvider, SsmParameterCache, deprecation_conditions
from wainwright.aws.nodeclass.instance_profile import InstanceProfileProvider
from wainwright.aws.nodeclass.network import (
    PlacementGroupProvider,
    SecurityGroupProvider,
    SubnetProvider,
)
from wainwright.aws.nodeclass.status import (
    AMIS_READY,
    CAPACITY_RESERVATIONS_READY,
    INSTANCE_PROFILE_READY,
    PLACEMENT_GROUP_READY,
    READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
    TRUE,
    VALIDATION_SUCCEEDED,
    ConditionState,
    ResolvedNodeClass,
    ResolvedPart,
    condition_false,
    condition_unknown,
    ready_condition,
    to_conditions,
)
from wainwright.aws.nodeclass.validation import DryRunTemplateProvider, NodeClassValidator
from wainwright.aws.reservation_availability import (
    CapacityReservationProvider,
    ReservationAvailability,
)
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, resolve_ami_family
from wainwright.catalogue.region_catalog import CatalogScope
from wainwright.clock import Clock
from wainwright.cloud import DeclaredObjects, Manifest
from wainwright.errors import (
    AwsError,
    InsufficientCapacityError,
    InvalidInputError,
    NodeClassNotReadyError,
)
from wainwright.model.instance_type import OfferedTypes

ERROR_REQUEUE_SECONDS = 60.0  # seconds until a failed lookup is retried

Value = TypeVar("Value")


def needs_service_cidr(node_class: EC2NodeClass) -> bool:
    """Only nodes with nodeadm do, and those of IPv6."""
    return resolve_ami_family(node_class.spec) is AmiFamily.AL2023


class NodeClassResolver:
    """Resolves classes; one for the whole provider, as it caches responses of AWS."""

    def __init__(
        self,
        account: AwsServices,
        cluster: ClusterConfig,
        clock: Clock,
        availability: ReservationAvailability,
        dry_run_templates: DryRunTemplateProvider,
        server_version: VersionSource | None = None,
    ) -> None:
        ec2 = account.ec2
        self._clock = clock
        self.cluster_info = ClusterInfoProvider(account.eks, cluster, clock, server_version)
        self._subnets = SubnetProvider(ec2, clock)
        self._groups = SecurityGroupProvider(ec2, clock)
        parameters = SsmParameterCache(account.ssm, clock)
        self._images = AmiProvider(ec2, parameters, self.cluster_info, clock)
        self._reservations = CapacityReservationProvider(
            account, clock, availability, enabled=cluster.capacity_reservations
        )
        self._placement = PlacementGroupProvider(ec2, clock)
        self.profiles = InstanceProfileProvider(account.iam, cluster, clock)
        self._validation = NodeClassValidator(ec2, cluster, dry_run_templates, clock)
        self._last: dict[tuple[str, str], tuple[bytes, ResolvedPart[Any]]] = {}
        """By class and condition type: the last result, with the spec that it was resolved for."""

    async def resolve(self, node_class: EC2NodeClass) -> ResolvedNodeClass:
        images, reservations, placement, subnets, groups, profile = await asyncio.gather(
            self._resolve_part(node_class, AMIS_READY, self._images.find, tuple),
            self._resolve_part(
                node_class, CAPACITY_RESERVATIONS_READY, self._reservations.find, tuple
            ),
            self._resolve_part(
                node_class, PLACEMENT_GROUP_READY, self._placement.find, lambda: None
            ),
            self._resolve_part(node_class, SUBNETS_READY, self._subnets.find, tuple),
            self._resolve_part(node_class, SECURITY_GROUPS_READY, self._groups.find, tuple),
            self._resolve_part(node_class, INSTANCE_PROFILE_READY, self.profiles.find, str),
        )
        parts: list[ResolvedPart[Any]] = [images, subnets, groups, profile, reservations, placement]
        resolved = ResolvedNodeClass(
            name=node_class.metadata.name,
            uid=node_class.metadata.uid,
            generation=node_class.metadata.generation,
            subnets=subnets.value,
            security_groups=groups.value,
            images=images.value,
            profile=profile.value,
            reservations=reservations.value,
            placement_group=placement.value,
            cluster_cidr=await self._service_cidr(node_class),
        )
        return await self._with_conditions(node_class, resolved, parts)

    async def _with_conditions(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass, parts: list[ResolvedPart[Any]]
    ) -> ResolvedNodeClass:
        """The resolved class with its conditions."""
        conditions = [part.condition for part in parts]
        validated = await self._resolve_part(
            node_class,
            VALIDATION_SUCCEEDED,
            lambda each: self._validation.find(each, resolved, conditions),
            lambda: None,
        )
        conditions = [*conditions, validated.condition, *deprecation_conditions(resolved.images)]
        before = (node_class.status.conditions if node_class.status else None) or ()
        return msgspec.structs.replace(
            resolved,
            conditions=to_conditions(
                [*conditions, ready_condition(conditions)],
                before,
                resolved.generation,
                self._clock.now(),
            ),
            requeue_after=min(part.requeue_after for part in [*parts, validated]),
            outdated=any(part.outdated for part in [*parts, validated]),
        )

    async def _resolve_part(
        self,
        node_class: EC2NodeClass,
        condition_type: str,
        find: Callable[[EC2NodeClass], Coroutine[Any, Any, ResolvedPart[Value]]],
        empty: Callable[[], Value],
    ) -> ResolvedPart[Value]:
        """The result of the lookup; after a transient error the last one for the same spec."""
        key = (node_class.metadata.uid or node_class.metadata.name, condition_type)
        spec = msgspec.json.encode(node_class.spec, order="deterministic")
        try:
            part = await find(node_class)
        except AwsError as error:
            last_spec, last = self._last.get(key, (b"", None))
            if last is not None and last_spec == spec and is_transient(error):
                return msgspec.structs.replace(last, outdated=True)
            return ResolvedPart(
                value=empty(),
                condition=_lookup_failed(condition_type, error),
                requeue_after=ERROR_REQUEUE_SECONDS,
            )
        self._last[key] = (spec, part)
        return part

    async def _service_cidr(self, node_class: EC2NodeClass) -> str:
        if not needs_service_cidr(node_class):
            return ""
        try:
            return await self.cluster_info.service_cidr()
        except AwsError:
            return ""

    def forget(self, node_class: EC2NodeClass) -> None:
        """Drops the results of a class that is gone."""
        uid = node_class.metadata.uid or node_class.metadata.name
        self._last = {key: part for key, part in self._last.items() if key[0] != uid}


def _lookup_failed(condition_type: str, error: AwsError) -> ConditionState:
    message = f"{error.code}: {error.text}"
    if is_transient(error):
        return condition_unknown(condition_type, "CloudUnavailable", message)
    reason = "NotAuthorized" if is_access_denied(error) else error.code.replace(".", "")
    return condition_false(condition_type, reason, message)


class AwaitingClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The class still has NodeClaims."""

    claims: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.claims[:5])
        more = f" and {len(self.claims) - 5} more" if len(self.claims) > 5 else ""
        return f"waiting for the NodeClaims {shown}{more} to terminate"


class Finalized(msgspec.Struct, frozen=True, kw_only=True):
    """Everything created for the class is deleted; its finalizer can be removed."""

    templates: tuple[str, ...]
    profiles: tuple[str, ...]


class NodeClassFinalizer:
    def __init__(
        self,
        templates: LaunchTemplateProvider,
        profiles: InstanceProfileProvider,
        cluster: ClusterConfig,
    ) -> None:
        self._templates = templates
        self._profiles = profiles
        self._cluster = cluster

    async def finalize(
        self, node_class: EC2NodeClass, claims: Collection[str]
    ) -> AwaitingClaims | Finalized:
        """Deletes what was created for a class once no claim uses it. Can be repeated any time."""
        if claims:
            return AwaitingClaims(claims=tuple(sorted(claims)))
        name, uid = node_class.metadata.name, node_class.metadata.uid
        templates = await self._templates.delete_class(self._cluster.name, name)
        profiles = await self._profiles.delete(uid)
        return Finalized(templates=templates, profiles=tuple(profiles))


WireObject = TypeVar("WireObject", bound=msgspec.Struct)


class _ResolvedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The last resolution of a class."""

    node_class: EC2NodeClass
    resolved: ResolvedNodeClass
    until: float
    revision: int | None
    """Of the account then; None where nobody knows."""


class NodeClassRegistry:
    def __init__(
        self,
        launch_contexts: LaunchContextProvider,
        resolver: NodeClassResolver,
        clock: Clock,
        account_revision: Callable[[], int] | None = None,
    ) -> None:
        """`account_revision`: another number after each change in the account."""
        self._account_revision = account_revision
        self._launch_contexts = launch_contexts
        self._resolver = resolver
        self._clock = clock
        self._declared: dict[str, EC2NodeClass] = {}
        self._pools: dict[str, str] = {}
        self._resolved: dict[str, _ResolvedEntry] = {}

    def declare(self, declared: DeclaredObjects) -> None:
        """InvalidInputError if an object cannot be parsed; then nothing changes."""
        classes = {
            each.metadata.name: each
            for each in _parse_manifests(declared.node_classes, EC2NodeClass)
        }
        overrides = CatalogOverrides(
            instance_types=tuple(_parse_manifests(declared.instance_types, InstanceType)),
            overlays=tuple(_parse_manifests(declared.overlays, NodeOverlay)),
            scopes={
                pool.name: CatalogScope(
                    node_class=without_status(classes[pool.node_class]),
                    pool=pool.name,
                    labels=dict(pool.labels),
                )
                for pool in declared.pools
                if pool.node_class in classes
            },
        )
        self._declared = classes
        self._pools = {pool.name: pool.node_class for pool in declared.pools}
        self._launch_contexts.declare(overrides, classes)
        for gone in self._resolved.keys() - classes.keys():
            self._resolver.forget(self._resolved.pop(gone).node_class)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._declared)

    def get(self, name: str) -> EC2NodeClass | None:
        return self._declared.get(name)

    def declared(self, name: str) -> EC2NodeClass:
        """InsufficientCapacityError if there is no such class: the pods are planned again."""
        node_class = self._declared.get(name)
        if node_class is None:
            message = f"there is no EC2NodeClass {name}"
            raise InsufficientCapacityError(
                message, "create it, or name another", reason="NodeClassNotFound"
            )
        return node_class

    def node_class_of(self, pool: str) -> str:
        if pool not in self._pools:
            raise InsufficientCapacityError(f"there is no pool {pool}", reason="NodePoolNotFound")
        return self._pools[pool]

    def profiles(self) -> set[str]:
        """Instance profiles of all classes."""
        return {entry.resolved.profile for entry in self._resolved.values()}

    async def resolve(self, name: str) -> ResolvedNodeClass:
        node_class, revision = self.declared(name), self._revision()
        resolved = await self._resolver.resolve(node_class)
        self._resolved[name] = _ResolvedEntry(
            node_class=node_class,
            resolved=resolved,
            until=self._clock.now() + resolved.requeue_after,
            revision=None if resolved.outdated else revision,
        )
        return resolved

    def _revision(self) -> int | None:
        return None if self._account_revision is None else self._account_revision()

    def _is_current(self, entry: _ResolvedEntry, declared: EC2NodeClass) -> bool:
        if not _same_spec(entry.node_class, declared):
            return False
        is_unchanged = entry.revision is not None and entry.revision == self._revision()
        return entry.until > self._clock.now() or (is_unchanged and entry.resolved.is_ready)

    async def current(self, name: str) -> tuple[EC2NodeClass, ResolvedNodeClass]:
        """The last resolution, unless the class has changed or it has expired."""
        entry, declared = self._resolved.get(name), self.declared(name)
        if entry is None or not self._is_current(entry, declared):
            return declared, await self.resolve(name)
        return declared, entry.resolved

    async def offered_types(self, pool: str) -> OfferedTypes:
        """Also if the class is not ready, or is being deleted: its nodes are compared with it."""
        node_class, resolved = await self.current(self.node_class_of(pool))
        return self._launch_contexts.offered_types(node_class, resolved, pool)

    async def launch_context(self, name: str, pool: str) -> LaunchContext:
        """The launch context of the class; NodeClassNotReadyError if it is not ready."""
        node_class, resolved = await self.current(name)
        if node_class.metadata.deletionTimestamp is not None:
            raise NodeClassNotReadyError(
                f"the EC2NodeClass {name} is being deleted", reason="Deleting"
            )
        if not resolved.is_ready:
            raise NodeClassNotReadyError(
                f"the EC2NodeClass {name} is not ready: {not_ready_message(resolved)}"
            )
        return self._launch_contexts.get(node_class, resolved, pool)


def _same_spec(one: EC2NodeClass, other: EC2NodeClass) -> bool:
    """Whether both resolve to the same resources."""
    return one.metadata.uid == other.metadata.uid and one.spec == other.spec


def not_ready_message(resolved: ResolvedNodeClass) -> str:
    """The conditions that keep a class from being ready."""
    messages = [
        f"{each.type}: {each.message or each.reason}"
        for each in resolved.conditions
        if each.status != TRUE and each.type != READY
    ]
    return "; ".join(messages)


def _parse_manifests(
    manifests: Iterable[Manifest], wire_type: type[WireObject]
) -> list[WireObject]:
    try:
        return [msgspec.convert(each, wire_type) for each in manifests]
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{wire_type.__name__}: {error}") from error
