"""Drift: whether an instance is still what its class would launch, and if not, why."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

import msgspec

from wainwright.aws.instance import Instance
from wainwright.aws.nodeclass.identity import HASH, HASH_VERSION
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.model.labels import CAPACITY_TYPE, RESERVED
from wainwright.model.requirements import Requirements


class Reason(StrEnum):
    """In the order in which they are looked for; the first one found is given."""

    NODE_CLASS = "NodeClassDrift"
    AMI = "AMIDrift"
    SECURITY_GROUP = "SecurityGroupDrift"
    SUBNET = "SubnetDrift"
    CAPACITY_RESERVATION = "CapacityReservationDrift"
    PLACEMENT_GROUP = "PlacementGroupDrift"


class Unclear(msgspec.Struct, frozen=True, kw_only=True):
    """It cannot be said; such a node is left alone."""

    why: str


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """A claim with what it was launched from."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    kind: Requirements
    """The labels of its instance type."""


class Today(msgspec.Struct, frozen=True, kw_only=True):
    """The class as it is now."""

    annotations: Mapping[str, str]
    """Its hash and the version of that."""
    resolved: Resolved


def drift(claim: Launched, instance: Instance, today: Today) -> Reason | Unclear | None:
    """The first reason; None where the instance is as it should be."""
    if HASH not in claim.annotations:
        return Unclear(why=f"{claim.name} does not say which class settings it was launched from")
    if _settings_differ(claim.annotations, today.annotations):
        return Reason.NODE_CLASS
    unclear = _unresolved(today.resolved)
    if unclear is not None:
        return unclear
    image = _image(claim, instance, today.resolved)
    if image is not None:
        return image
    return _placed_elsewhere(claim, instance, today.resolved)


async def current_drift(
    claim: Launched,
    instance: Instance,
    today: Today,
    fresh: Callable[[str], Awaitable[Instance | None]],
) -> Reason | Unclear | None:
    """The same from an instance seen a while ago: a reservation that ended since is not drift."""
    found = drift(claim, instance, today)
    if found is not Reason.CAPACITY_RESERVATION:
        return found
    again = await fresh(instance.id)
    return None if again is None else drift(claim, again, today)


def _settings_differ(claim: Mapping[str, str], today: Mapping[str, str]) -> bool:
    """Hashes of different versions cannot be compared."""
    return claim.get(HASH_VERSION) == today[HASH_VERSION] and claim[HASH] != today[HASH]


def _unresolved(resolved: Resolved) -> Unclear | None:
    """What the class does not have at all no instance can be missing."""
    found = (
        ("images", resolved.images),
        ("security groups", resolved.security_groups),
        ("subnets", resolved.subnets),
    )
    missing = [what for what, values in found if not values]
    if not missing:
        return None
    return Unclear(why=f"the class {resolved.name} has no {' and no '.join(missing)} at present")


def _image(claim: Launched, instance: Instance, resolved: Resolved) -> Reason | Unclear | None:
    image = resolved.image_for(claim.kind)
    if image is None:
        return Unclear(why=f"no image of {resolved.name} is for {instance.instance_type}")
    return None if image.id == instance.image_id else Reason.AMI


def _placed_elsewhere(claim: Launched, instance: Instance, resolved: Resolved) -> Reason | None:
    groups = {each.id for each in resolved.security_groups}
    if instance.security_groups != groups:
        return Reason.SECURITY_GROUP
    if instance.subnet_id not in {each.id for each in resolved.subnets}:
        return Reason.SUBNET
    if _wrong_reservation(claim, instance, resolved):
        return Reason.CAPACITY_RESERVATION
    if _wrong_placement(instance, resolved):
        return Reason.PLACEMENT_GROUP
    return None


def _wrong_reservation(claim: Launched, instance: Instance, resolved: Resolved) -> bool:
    """Counts only for claims launched as reserved whose instance still is in some reservation."""
    if claim.labels.get(CAPACITY_TYPE) != RESERVED or not instance.reserved:
        return False
    return instance.reservation_id not in resolved.usable


def _wrong_placement(instance: Instance, resolved: Resolved) -> bool:
    group = resolved.placement_group
    if group is None:
        return bool(instance.placement_group)
    return instance.placement_group not in (group.id, group.name)
