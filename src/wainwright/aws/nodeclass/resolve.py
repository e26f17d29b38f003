"""Resolve: everything that a class names, looked up and put together, again and again.

Each kind of thing is asked for on its own interval, so that calling this every minute costs little.
Where AWS cannot be reached, what it said last stands; where it refuses, the condition says so.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.account import Account
from wainwright.aws.cluster import Cluster, Facts
from wainwright.aws.nodeclass.conditions import (
    AMIS,
    CAPACITY_RESERVATIONS,
    INSTANCE_PROFILE,
    PLACEMENT_GROUP,
    SECURITY_GROUPS,
    SUBNETS,
    VALIDATION,
    Finding,
    Part,
    bad,
    conditions,
    readiness,
    unknown,
)
from wainwright.aws.nodeclass.images import Images, deprecation
from wainwright.aws.nodeclass.network import SecurityGroups, Subnets
from wainwright.aws.nodeclass.parameters import Parameters
from wainwright.aws.nodeclass.placement import PlacementGroups
from wainwright.aws.nodeclass.rehearsal import Rehearsal
from wainwright.aws.nodeclass.reservations import Reservations
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.aws.nodeclass.validation import Validation
from wainwright.aws.operations import denied, passing
from wainwright.aws.profile import Profiles
from wainwright.aws.reservations import Availability
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.nodeclass import ami_family
from wainwright.clock import Clock
from wainwright.errors import AwsError

AGAIN = 60.0  # seconds until a failure is looked at again

Value = TypeVar("Value")


class Resolver:
    """Resolves classes; one for the whole provider, as it remembers what AWS said."""

    def __init__(
        self,
        account: Account,
        cluster: Cluster,
        clock: Clock,
        availability: Availability,
        rehearsal: Rehearsal,
    ) -> None:
        ec2 = account.ec2
        self._clock = clock
        self.facts = Facts(account.eks, cluster, clock)
        self._subnets = Subnets(ec2, clock)
        self._groups = SecurityGroups(ec2, clock)
        self._images = Images(ec2, Parameters(account.ssm, clock), self.facts, clock)
        self._reservations = Reservations(
            ec2, clock, availability, enabled=cluster.capacity_reservations
        )
        self._placement = PlacementGroups(ec2, clock)
        self.profiles = Profiles(account.iam, cluster, clock)
        self._validation = Validation(ec2, cluster, rehearsal, clock)
        self._last: dict[tuple[str, str], tuple[bytes, Part[Any]]] = {}
        """By class and kind, with the spec that it was found for."""

    async def resolve(self, node_class: EC2NodeClass) -> Resolved:
        images, reservations, placement, subnets, groups, profile = await asyncio.gather(
            self._look(node_class, AMIS, self._images.find(node_class), ()),
            self._look(node_class, CAPACITY_RESERVATIONS, self._reservations.find(node_class), ()),
            self._look(node_class, PLACEMENT_GROUP, self._placement.find(node_class), None),
            self._look(node_class, SUBNETS, self._subnets.find(node_class), ()),
            self._look(node_class, SECURITY_GROUPS, self._groups.find(node_class), ()),
            self._look(node_class, INSTANCE_PROFILE, self.profiles.find(node_class), ""),
        )
        parts: list[Part[Any]] = [images, subnets, groups, profile, reservations, placement]
        resolved = Resolved(
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
        self, node_class: EC2NodeClass, resolved: Resolved, parts: list[Part[Any]]
    ) -> Resolved:
        """With its conditions."""
        findings = [part.finding for part in parts]
        trial = self._validation.find(node_class, resolved, findings)
        validated = await self._look(node_class, VALIDATION, trial, None)
        findings = [*findings, validated.finding, *deprecation(resolved.images)]
        before = (node_class.status.conditions if node_class.status else None) or ()
        return msgspec.structs.replace(
            resolved,
            conditions=conditions(
                [*findings, readiness(findings)], before, resolved.generation, self._clock.now()
            ),
            again=min(part.again for part in [*parts, validated]),
        )

    async def _look(
        self, node_class: EC2NodeClass, kind: str, asked: Awaitable[Part[Value]], nothing: Value
    ) -> Part[Value]:
        """What was found, or what is to be said where AWS did not answer."""
        key = (node_class.metadata.uid or node_class.metadata.name, kind)
        spec = msgspec.json.encode(node_class.spec, order="deterministic")
        try:
            found = await asked
        except AwsError as error:
            before, last = self._last.get(key, (b"", None))
            known = last if before == spec and passing(error) else None
            return known or Part(value=nothing, finding=_failed(kind, error), again=AGAIN)
        self._last[key] = (spec, found)
        return found

    async def _cidr(self, node_class: EC2NodeClass) -> str:
        """The addresses of services, which only nodes with nodeadm have to be told."""
        if ami_family(node_class.spec) is not AmiFamily.AL2023:
            return ""
        try:
            return await self.facts.service_cidr()
        except AwsError:
            return ""

    def forget(self, node_class: EC2NodeClass) -> None:
        """A class that is gone."""
        uid = node_class.metadata.uid or node_class.metadata.name
        self._last = {key: part for key, part in self._last.items() if key[0] != uid}


def _failed(kind: str, error: AwsError) -> Finding:
    message = f"{error.code}: {error.text}"
    if passing(error):
        return unknown(kind, "CloudUnavailable", message)
    reason = "NotAuthorized" if denied(error) else error.code.replace(".", "")
    return bad(kind, reason, message)
