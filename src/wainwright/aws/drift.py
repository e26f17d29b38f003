"""Drift: whether an instance is still what its class would launch, and if not, why.

Static fields are compared by hash: one number for everything about a class that its nodes got at
their launch. The hash is ours: the first 16 hex digits of SHA-256 over the JSON of the static
fields, keys sorted, what is empty or at its default left out, lists as sets, together with the
image family in force and the cluster's CA. Its version is written beside it, and hashes of
different versions say nothing about each other: a claim that another controller hashed, or an older
one of ours, is given the new hash instead of being replaced.

Not in it is what selects (subnets, security groups, images, reservations, the placement group):
what these find is compared with the instance itself.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.instances import Ec2Instance
from wainwright.aws.nodeclass.status import ResolvedNodeClass
from wainwright.catalogue.instancetypes.node_class_settings import resolve_ami_family
from wainwright.model.labels import CAPACITY_TYPE, RESERVED
from wainwright.model.requirements import Requirements

NODE_CLASS_HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
NODE_CLASS_HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
CURRENT_HASH_VERSION: Final = "wain-1"
SELECTOR_FIELDS: Final = frozenset(
    {
        "amiFamily",
        "amiSelectorTerms",
        "capacityReservationSelectorTerms",
        "placementGroupSelector",
        "securityGroupSelectorTerms",
        "subnetSelectorTerms",
    }
)


def node_class_hash(node_class: EC2NodeClass, ca_bundle: str = "") -> str:
    """Equal for classes that make equal nodes."""
    spec: dict[str, Any] = msgspec.to_builtins(node_class.spec)
    static = {key: value for key, value in spec.items() if key not in SELECTOR_FIELDS}
    counted = [_normalize(static), resolve_ami_family(node_class.spec).value, ca_bundle]
    text = msgspec.json.encode(counted, order="sorted")
    return sha256(text).hexdigest()[:16]


def hash_annotations(node_class: EC2NodeClass, ca_bundle: str = "") -> dict[str, str]:
    """What a claim is given at its launch."""
    return {
        NODE_CLASS_HASH: node_class_hash(node_class, ca_bundle),
        NODE_CLASS_HASH_VERSION: CURRENT_HASH_VERSION,
    }


def migrated_hash_annotations(
    claim: Mapping[str, str], current: Mapping[str, str]
) -> dict[str, str]:
    """The annotations to set on a claim whose hash is of another version; empty otherwise.

    Not for claims that have drifted already: they keep theirs, and so their reason to go.
    """
    same = claim.get(NODE_CLASS_HASH_VERSION) == current[NODE_CLASS_HASH_VERSION]
    return {} if same else dict(current)


def _normalize(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _normalize(item) for key, item in value.items() if item not in ({}, [])}
    if isinstance(value, list):
        return sorted(map(_normalize, value), key=msgspec.json.encode)
    return value


class DriftReason(StrEnum):
    """In the order in which they are looked for; the first one found is given."""

    NODE_CLASS = "NodeClassDrift"
    AMI = "AMIDrift"
    SECURITY_GROUP = "SecurityGroupDrift"
    SUBNET = "SubnetDrift"
    CAPACITY_RESERVATION = "CapacityReservationDrift"
    PLACEMENT_GROUP = "PlacementGroupDrift"


class DriftUnknown(msgspec.Struct, frozen=True, kw_only=True):
    """It cannot be said; such a node is left alone."""

    why: str


class LaunchedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim with what it was launched from."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    kind: Requirements
    """The labels of its instance type."""


class CurrentNodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """The class as it is now."""

    annotations: Mapping[str, str]
    """Its hash and the version of that."""
    resolved: ResolvedNodeClass


def detect_drift(
    claim: LaunchedClaim, instance: Ec2Instance, today: CurrentNodeClass
) -> DriftReason | DriftUnknown | None:
    """The first reason; None where the instance is as it should be."""
    if NODE_CLASS_HASH not in claim.annotations:
        return DriftUnknown(
            why=f"{claim.name} does not say which class settings it was launched from"
        )
    if _hash_differs(claim.annotations, today.annotations):
        return DriftReason.NODE_CLASS
    unclear = _unresolved_selectors(today.resolved)
    if unclear is not None:
        return unclear
    image = _ami_drift(claim, instance, today.resolved)
    if image is not None:
        return image
    return _placement_drift(claim, instance, today.resolved)


async def detect_current_drift(
    claim: LaunchedClaim,
    instance: Ec2Instance,
    today: CurrentNodeClass,
    fresh: Callable[[str], Awaitable[Ec2Instance | None]],
) -> DriftReason | DriftUnknown | None:
    """The same from an instance seen a while ago: a reservation that ended since is not drift."""
    found = detect_drift(claim, instance, today)
    if found is not DriftReason.CAPACITY_RESERVATION:
        return found
    again = await fresh(instance.id)
    return None if again is None else detect_drift(claim, again, today)


def _hash_differs(claim: Mapping[str, str], today: Mapping[str, str]) -> bool:
    """Hashes of different versions cannot be compared."""
    return (
        claim.get(NODE_CLASS_HASH_VERSION) == today[NODE_CLASS_HASH_VERSION]
        and claim[NODE_CLASS_HASH] != today[NODE_CLASS_HASH]
    )


def _unresolved_selectors(resolved: ResolvedNodeClass) -> DriftUnknown | None:
    """What the class does not have at all no instance can be missing."""
    found = (
        ("images", resolved.images),
        ("security groups", resolved.security_groups),
        ("subnets", resolved.subnets),
    )
    missing = [what for what, values in found if not values]
    if not missing:
        return None
    return DriftUnknown(
        why=f"the class {resolved.name} has no {' and no '.join(missing)} at present"
    )


def _ami_drift(
    claim: LaunchedClaim, instance: Ec2Instance, resolved: ResolvedNodeClass
) -> DriftReason | DriftUnknown | None:
    image = resolved.image_for(claim.kind)
    if image is None:
        return DriftUnknown(why=f"no image of {resolved.name} is for {instance.instance_type}")
    return None if image.id == instance.image_id else DriftReason.AMI


def _placement_drift(
    claim: LaunchedClaim, instance: Ec2Instance, resolved: ResolvedNodeClass
) -> DriftReason | None:
    groups = {each.id for each in resolved.security_groups}
    if instance.security_groups != groups:
        return DriftReason.SECURITY_GROUP
    if instance.subnet_id not in {each.id for each in resolved.subnets}:
        return DriftReason.SUBNET
    if _wrong_reservation(claim, instance, resolved):
        return DriftReason.CAPACITY_RESERVATION
    if _wrong_placement(instance, resolved):
        return DriftReason.PLACEMENT_GROUP
    return None


def _wrong_reservation(
    claim: LaunchedClaim, instance: Ec2Instance, resolved: ResolvedNodeClass
) -> bool:
    """Counts only for claims launched as reserved whose instance still is in some reservation."""
    if claim.labels.get(CAPACITY_TYPE) != RESERVED or not instance.reserved:
        return False
    return instance.reservation_id not in resolved.usable


def _wrong_placement(instance: Ec2Instance, resolved: ResolvedNodeClass) -> bool:
    group = resolved.placement_group
    if group is None:
        return bool(instance.placement_group)
    return instance.placement_group not in (group.id, group.name)
