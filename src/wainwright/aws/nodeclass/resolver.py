"""The EC2NodeClasses that there are: resolved every minute, launched from, finalized when deleted.

Each kind of thing that a class names is looked up on its own interval, so that resolving every
minute costs little. Where AWS cannot be reached, what it said last stands; where it refuses, the
condition says so.
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from typing import Any, TypeVar

import msgspec

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.error_codes import is_access_denied, is_transient
from wainwright.aws.api.services import AwsServices
from wainwright.aws.cluster_config import ClusterConfig, ClusterInfoProvider
from wainwright.aws.launch.launch_request import (
    CatalogOverrides,
    LaunchContext,
    LaunchContextProvider,
    without_status,
)
from wainwright.aws.launchtemplate.template_provider import LaunchTemplateProvider
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

ERROR_REQUEUE_SECONDS = 60.0  # seconds until a failure is looked at again

Value = TypeVar("Value")


class NodeClassResolver:
    """Resolves classes; one for the whole provider, as it remembers what AWS said."""

    def __init__(
        self,
        account: AwsServices,
        cluster: ClusterConfig,
        clock: Clock,
        availability: ReservationAvailability,
        dry_run_templates: DryRunTemplateProvider,
    ) -> None:
        ec2 = account.ec2
        self._clock = clock
        self.facts = ClusterInfoProvider(account.eks, cluster, clock)
        self._subnets = SubnetProvider(ec2, clock)
        self._groups = SecurityGroupProvider(ec2, clock)
        self._images = AmiProvider(ec2, SsmParameterCache(account.ssm, clock), self.facts, clock)
        self._reservations = CapacityReservationProvider(
            ec2, clock, availability, enabled=cluster.capacity_reservations
        )
        self._placement = PlacementGroupProvider(ec2, clock)
        self.profiles = InstanceProfileProvider(account.iam, cluster, clock)
        self._validation = NodeClassValidator(ec2, cluster, dry_run_templates, clock)
        self._last: dict[tuple[str, str], tuple[bytes, ResolvedPart[Any]]] = {}
        """By class and kind, with the spec that it was found for."""

    async def resolve(self, node_class: EC2NodeClass) -> ResolvedNodeClass:
        images, reservations, placement, subnets, groups, profile = await asyncio.gather(
            self._look(node_class, AMIS_READY, self._images.find(node_class), ()),
            self._look(
                node_class, CAPACITY_RESERVATIONS_READY, self._reservations.find(node_class), ()
            ),
            self._look(node_class, PLACEMENT_GROUP_READY, self._placement.find(node_class), None),
            self._look(node_class, SUBNETS_READY, self._subnets.find(node_class), ()),
            self._look(node_class, SECURITY_GROUPS_READY, self._groups.find(node_class), ()),
            self._look(node_class, INSTANCE_PROFILE_READY, self.profiles.find(node_class), ""),
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
            cluster_cidr=await self._cidr(node_class),
        )
        return await self._judged(node_class, resolved, parts)

    async def _judged(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass, parts: list[ResolvedPart[Any]]
    ) -> ResolvedNodeClass:
        """With its conditions."""
        findings = [part.finding for part in parts]
        trial = self._validation.find(node_class, resolved, findings)
        validated = await self._look(node_class, VALIDATION_SUCCEEDED, trial, None)
        findings = [*findings, validated.finding, *deprecation_conditions(resolved.images)]
        before = (node_class.status.conditions if node_class.status else None) or ()
        return msgspec.structs.replace(
            resolved,
            conditions=to_conditions(
                [*findings, ready_condition(findings)],
                before,
                resolved.generation,
                self._clock.now(),
            ),
            requeue_after=min(part.requeue_after for part in [*parts, validated]),
        )

    async def _look(
        self,
        node_class: EC2NodeClass,
        kind: str,
        asked: Awaitable[ResolvedPart[Value]],
        nothing: Value,
    ) -> ResolvedPart[Value]:
        """What was found, or what is to be said where AWS did not answer."""
        key = (node_class.metadata.uid or node_class.metadata.name, kind)
        spec = msgspec.json.encode(node_class.spec, order="deterministic")
        try:
            found = await asked
        except AwsError as error:
            before, last = self._last.get(key, (b"", None))
            known = last if before == spec and is_transient(error) else None
            return known or ResolvedPart(
                value=nothing,
                finding=_lookup_failed(kind, error),
                requeue_after=ERROR_REQUEUE_SECONDS,
            )
        self._last[key] = (spec, found)
        return found

    async def _cidr(self, node_class: EC2NodeClass) -> str:
        """The addresses of services, which only nodes with nodeadm have to be told."""
        if resolve_ami_family(node_class.spec) is not AmiFamily.AL2023:
            return ""
        try:
            return await self.facts.service_cidr()
        except AwsError:
            return ""

    def forget(self, node_class: EC2NodeClass) -> None:
        """A class that is gone."""
        uid = node_class.metadata.uid or node_class.metadata.name
        self._last = {key: part for key, part in self._last.items() if key[0] != uid}


def _lookup_failed(kind: str, error: AwsError) -> ConditionState:
    message = f"{error.code}: {error.text}"
    if is_transient(error):
        return condition_unknown(kind, "CloudUnavailable", message)
    reason = "NotAuthorized" if is_access_denied(error) else error.code.replace(".", "")
    return condition_false(kind, reason, message)


class AwaitingClaims(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of the class are still there."""

    claims: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.claims[:5])
        more = f" and {len(self.claims) - 5} more" if len(self.claims) > 5 else ""
        return f"waiting for the NodeClaims {shown}{more} to terminate"


class Finalized(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was made for the class is gone, and so may the class be."""

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

    async def finish(
        self, node_class: EC2NodeClass, claims: Collection[str]
    ) -> AwaitingClaims | Finalized:
        """Cleans up after a class that no claim uses any more. It can be repeated at any point."""
        if claims:
            return AwaitingClaims(claims=tuple(sorted(claims)))
        name, uid = node_class.metadata.name, node_class.metadata.uid
        templates = await self._templates.delete_class(self._cluster.name, name)
        profiles = await self._profiles.delete(uid)
        return Finalized(templates=templates, profiles=tuple(profiles))


WireObject = TypeVar("WireObject", bound=msgspec.Struct)


class _ResolvedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A class as it was last resolved."""

    node_class: EC2NodeClass
    resolved: ResolvedNodeClass
    until: float


class NodeClassRegistry:
    def __init__(
        self, launch_contexts: LaunchContextProvider, resolver: NodeClassResolver, clock: Clock
    ) -> None:
        self._launch_contexts = launch_contexts
        self._resolver = resolver
        self._clock = clock
        self._declared: dict[str, EC2NodeClass] = {}
        self._pools: dict[str, str] = {}
        self._held: dict[str, _ResolvedEntry] = {}

    def declare(self, declared: DeclaredObjects) -> None:
        """InvalidInputError where an object cannot be read; then all stays as it was."""
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
        for gone in self._held.keys() - classes.keys():
            self._resolver.forget(self._held.pop(gone).node_class)

    def get(self, name: str) -> EC2NodeClass | None:
        return self._declared.get(name)

    def declared(self, name: str) -> EC2NodeClass:
        """InsufficientCapacityError where there is no such class: its pods are planned anew."""
        node_class = self._declared.get(name)
        if node_class is None:
            message = f"there is no EC2NodeClass {name}"
            raise InsufficientCapacityError(
                message, "create it, or name another", reason="NodeClassNotFound"
            )
        return node_class

    def class_of(self, pool: str) -> str:
        if pool not in self._pools:
            raise InsufficientCapacityError(f"there is no pool {pool}", reason="NodePoolNotFound")
        return self._pools[pool]

    def profiles(self) -> set[str]:
        """Instance profiles of the classes there are."""
        return {held.resolved.profile for held in self._held.values()}

    async def resolve(self, name: str) -> ResolvedNodeClass:
        node_class = self.declared(name)
        resolved = await self._resolver.resolve(node_class)
        until = self._clock.now() + resolved.requeue_after
        self._held[name] = _ResolvedEntry(node_class=node_class, resolved=resolved, until=until)
        return resolved

    async def current(self, name: str) -> tuple[EC2NodeClass, ResolvedNodeClass]:
        """As last resolved, unless the class has changed or it is time to look again."""
        held, declared = self._held.get(name), self.declared(name)
        if (
            held is None
            or held.until <= self._clock.now()
            or not _same_spec(held.node_class, declared)
        ):
            return declared, await self.resolve(name)
        return declared, held.resolved

    async def launch_context(self, name: str, pool: str) -> LaunchContext:
        """What launches of the class start from; NodeClassNotReadyError where they cannot."""
        node_class, resolved = await self.current(name)
        if node_class.metadata.deletionTimestamp is not None:
            raise NodeClassNotReadyError(
                f"the EC2NodeClass {name} is being deleted", reason="Deleting"
            )
        if not resolved.ready:
            raise NodeClassNotReadyError(
                f"the EC2NodeClass {name} is not ready: {not_ready_message(resolved)}"
            )
        return self._launch_contexts.of(node_class, resolved, pool)


def _same_spec(one: EC2NodeClass, other: EC2NodeClass) -> bool:
    """Whether both resolve to the same."""
    return one.metadata.uid == other.metadata.uid and one.spec == other.spec


def not_ready_message(resolved: ResolvedNodeClass) -> str:
    """What keeps a class from being ready."""
    told = [
        f"{each.type}: {each.message or each.reason}"
        for each in resolved.conditions
        if each.status != TRUE and each.type != READY
    ]
    return "; ".join(told)


def _parse_manifests(manifests: Iterable[Manifest], kind: type[WireObject]) -> list[WireObject]:
    try:
        return [msgspec.convert(each, kind) for each in manifests]
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{kind.__name__}: {error}") from error
