"""Drift: whether an instance is still what its class would launch, and if not, why.

Static fields are compared by hash: one value for all settings of a class that nodes get at launch.
It is a hash of our own: the first 16 hex digits of SHA-256 over the JSON of the static fields, with
sorted keys, without empty and default values, lists as sets, together with the AMI family in effect
and the cluster's CA. Its version is a second annotation, and hashes of different versions are not
comparable: a claim that was hashed by another controller, or by an older version of this one, gets
the new hash instead of being replaced.

Selectors (subnets, security groups, images, reservations, the placement group) are not in the hash:
the resources that they select are compared with the instance itself.
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
    """Equal for classes whose static fields give equal nodes."""
    spec: dict[str, Any] = msgspec.to_builtins(node_class.spec)
    static = {key: value for key, value in spec.items() if key not in SELECTOR_FIELDS}
    hashed = [_normalize(static), resolve_ami_family(node_class.spec).value, ca_bundle]
    text = msgspec.json.encode(hashed, order="sorted")
    return sha256(text).hexdigest()[:16]


def hash_annotations(node_class: EC2NodeClass, ca_bundle: str = "") -> dict[str, str]:
    """The annotations that a claim gets at its launch."""
    return {
        NODE_CLASS_HASH: node_class_hash(node_class, ca_bundle),
        NODE_CLASS_HASH_VERSION: CURRENT_HASH_VERSION,
    }


def migrated_hash_annotations(
    claim: Mapping[str, str], current: Mapping[str, str]
) -> dict[str, str]:
    """The annotations to set on a claim whose hash is of another version; empty otherwise.

    Not for claims that have drifted already: they keep theirs, and so stay drifted.
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
    """In the order in which they are checked; the first match is the reason."""

    NODE_CLASS = "NodeClassDrift"
    AMI = "AMIDrift"
    SECURITY_GROUP = "SecurityGroupDrift"
    SUBNET = "SubnetDrift"
    CAPACITY_RESERVATION = "CapacityReservationDrift"
    PLACEMENT_GROUP = "PlacementGroupDrift"


class DriftUnknown(msgspec.Struct, frozen=True, kw_only=True):
    """Drift cannot be determined; such a node is left alone."""

    why: str


class LaunchedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim and the settings that it was launched with."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    type_requirements: Requirements
    """The labels of its instance type, as requirements; they select the image."""


class CurrentNodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """The class in its current state."""

    annotations: Mapping[str, str]
    """Its hash and the hash version."""
    resolved: ResolvedNodeClass


def detect_drift(
    claim: LaunchedClaim, instance: Ec2Instance, current: CurrentNodeClass
) -> DriftReason | DriftUnknown | None:
    """The first reason; None if the instance has not drifted."""
    if NODE_CLASS_HASH not in claim.annotations:
        return DriftUnknown(
            why=f"{claim.name} does not say which class settings it was launched from"
        )
    if _hash_differs(claim.annotations, current.annotations):
        return DriftReason.NODE_CLASS
    unresolved = _unresolved_selectors(current.resolved)
    if unresolved is not None:
        return unresolved
    image = _ami_drift(claim, instance, current.resolved)
    if image is not None:
        return image
    return _placement_drift(claim, instance, current.resolved)


async def detect_current_drift(
    claim: LaunchedClaim,
    instance: Ec2Instance,
    current: CurrentNodeClass,
    describe: Callable[[str], Awaitable[Ec2Instance | None]],
) -> DriftReason | DriftUnknown | None:
    """`detect_drift` for an instance from a cache.

    Reservation drift is checked again with a fresh description: a reservation may have ended since,
    and an instance that has left its reservation is not drifted.
    """
    reason = detect_drift(claim, instance, current)
    if reason is not DriftReason.CAPACITY_RESERVATION:
        return reason
    refreshed = await describe(instance.id)
    return None if refreshed is None else detect_drift(claim, refreshed, current)


def _hash_differs(claim: Mapping[str, str], current: Mapping[str, str]) -> bool:
    """Hashes of different versions cannot be compared."""
    return (
        claim.get(NODE_CLASS_HASH_VERSION) == current[NODE_CLASS_HASH_VERSION]
        and claim[NODE_CLASS_HASH] != current[NODE_CLASS_HASH]
    )


def _unresolved_selectors(resolved: ResolvedNodeClass) -> DriftUnknown | None:
    """Instances are not compared with selectors that have resolved to nothing."""
    selected = (
        ("images", resolved.images),
        ("security groups", resolved.security_groups),
        ("subnets", resolved.subnets),
    )
    missing = [what for what, values in selected if not values]
    if not missing:
        return None
    return DriftUnknown(
        why=f"the class {resolved.name} has no {' and no '.join(missing)} at present"
    )


def _ami_drift(
    claim: LaunchedClaim, instance: Ec2Instance, resolved: ResolvedNodeClass
) -> DriftReason | DriftUnknown | None:
    image = resolved.image_for(claim.type_requirements)
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
    """Only for claims launched as reserved whose instance is still in some reservation."""
    if claim.labels.get(CAPACITY_TYPE) != RESERVED or not instance.is_reserved:
        return False
    return instance.reservation_id not in resolved.usable_reservations


def _wrong_placement(instance: Ec2Instance, resolved: ResolvedNodeClass) -> bool:
    group = resolved.placement_group
    if group is None:
        return bool(instance.placement_group)
    return instance.placement_group not in (group.id, group.name)
