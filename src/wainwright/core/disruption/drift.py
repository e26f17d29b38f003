"""Drift: a node that its NodePool, or the cloud, would not launch like this any more.

The reasons in their order: settings of the template (by hash), requirements, the instance type, and
what the cloud provider finds (AMI, subnets, security groups, the class, its reservations).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.disruption import Condition
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVED,
    WELL_KNOWN_LABELS,
)
from wainwright.model.requirements import RequirementConflict, Requirements
from wainwright.model.snapshot import Node, Pool

POOL_HASH_ANNOTATION: Final = "karpenter.sh/nodepool-hash"
POOL_HASH_VERSION_ANNOTATION: Final = "karpenter.sh/nodepool-hash-version"
HASH_VERSION: Final = "wain-1"
"""Hashes of other versions, those of Karpenter included, cannot be compared with ours."""

DRIFTED_CONDITION: Final = "Drifted"
MIN_AGE_OF_MISSING_TYPE: Final = 3600.0  # seconds; a list of types may be incomplete for a while


class DriftReason(StrEnum):
    """Reasons that do not depend on the cloud; the value is the reason of the condition."""

    POOL = "NodePoolDrifted"
    REQUIREMENTS = "RequirementsDrifted"
    INSTANCE_TYPE = "InstanceTypeNotFound"


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node has drifted."""

    reason: str
    """A DriftReason, or the cloud provider's."""
    message: str = ""
    """What the condition of the NodeClaim says, where it has one."""
    conflict: RequirementConflict | None = None
    """The requirement that the node does not meet."""
    since: float | None = None
    """When it was noticed, where a condition says so; the earliest is replaced first."""


def find_drift(
    node: Node, pool: Pool, offered: OfferedTypes | None, now: float | None
) -> Drift | None:
    """The first reason; what the condition of the NodeClaim says where it has one. A Node alone
    stands for its own claim.

    `offered` is None where it is not known what exists: then nothing is missing.
    """
    stated = claim_conditions(node).get(DRIFTED_CONDITION)
    if stated is not None:
        if not stated.is_true:
            return None
        return Drift(reason=stated.reason, message=stated.message, since=stated.since)
    return (
        _pool_drift(node, pool)
        or _requirements_drift(node, pool)
        or (None if offered is None else _instance_type_drift(node, offered, now))
    )


def claim_conditions(node: Node) -> Mapping[str, Condition]:
    return node.conditions if node.claim is None else node.claim.conditions


def claim_annotations(node: Node) -> Mapping[str, str]:
    return node.annotations if node.claim is None else node.claim.annotations


def pool_hash_annotations(pool: Pool) -> dict[str, str]:
    """What a NodeClaim of the pool carries, so that a later change is noticed."""
    return {POOL_HASH_ANNOTATION: pool.hash, POOL_HASH_VERSION_ANNOTATION: HASH_VERSION}


def _pool_drift(node: Node, pool: Pool) -> Drift | None:
    annotations = claim_annotations(node)
    known = annotations.get(POOL_HASH_ANNOTATION)
    is_comparable = annotations.get(POOL_HASH_VERSION_ANNOTATION) == HASH_VERSION
    if not known or not pool.hash or not is_comparable or known == pool.hash:
        return None
    return Drift(reason=DriftReason.POOL)


def _requirements_drift(node: Node, pool: Pool) -> Drift | None:
    labels = Requirements.from_labels(_claim_labels(node))
    conflict = labels.find_conflict(pool.requirements)
    if conflict is None:
        return None
    return Drift(reason=DriftReason.REQUIREMENTS, conflict=conflict)


def _instance_type_drift(node: Node, offered: OfferedTypes, now: float | None) -> Drift | None:
    labels = _claim_labels(node)
    name, created = labels.get(INSTANCE_TYPE), node.claim.created if node.claim else node.created
    is_young = created is not None and now is not None and now - created < MIN_AGE_OF_MISSING_TYPE
    if name is None or is_young or _has_offering(labels, offered.get(name, ())):
        return None
    return Drift(reason=DriftReason.INSTANCE_TYPE)


def _has_offering(labels: Mapping[str, str], offerings: tuple[Requirements, ...]) -> bool:
    """For a reserved node an on-demand offering suffices: its reservation may have ended."""
    wanted = [dict(labels)]
    if labels.get(CAPACITY_TYPE) == RESERVED:
        without_id = {key: labels[key] for key in labels if key != RESERVATION_ID}
        wanted.append(without_id | {CAPACITY_TYPE: ON_DEMAND})
    return any(
        Requirements.from_labels(each).is_compatible(offering, WELL_KNOWN_LABELS)
        for each in wanted
        for offering in offerings
    )


def _claim_labels(node: Node) -> Mapping[str, str]:
    """Of the NodeClaim, which nobody else writes; of the node where it has none."""
    return node.claim.labels if node.claim is not None and node.claim.labels else node.labels
