"""Identity: one number for everything about a class that its nodes got at their launch.

A node whose class has another number today was launched from settings that no longer hold. The hash
is ours: the first 16 hex digits of SHA-256 over the JSON of the static fields, keys sorted, what is
empty or at its default left out, lists as sets, together with the image family in force and the
cluster's CA. Its version is written beside it, and hashes of different versions say nothing about
each other: a claim that another controller hashed, or an older one of ours, is given the new hash
instead of being replaced.

Not in it is what selects (subnets, security groups, images, reservations, the placement group):
what these find is compared with the instance itself.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.catalogue.nodeclass import ami_family

HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
VERSION: Final = "wain-1"
SELECTING: Final = frozenset(
    {
        "amiFamily",
        "amiSelectorTerms",
        "capacityReservationSelectorTerms",
        "placementGroupSelector",
        "securityGroupSelectorTerms",
        "subnetSelectorTerms",
    }
)


def class_hash(node_class: EC2NodeClass, ca_bundle: str = "") -> str:
    """Equal for classes that make equal nodes."""
    spec: dict[str, Any] = msgspec.to_builtins(node_class.spec)
    static = {key: value for key, value in spec.items() if key not in SELECTING}
    counted = [_unordered(static), ami_family(node_class.spec).value, ca_bundle]
    text = msgspec.json.encode(counted, order="sorted")
    return sha256(text).hexdigest()[:16]


def annotations(node_class: EC2NodeClass, ca_bundle: str = "") -> dict[str, str]:
    """What a claim is given at its launch."""
    return {HASH: class_hash(node_class, ca_bundle), HASH_VERSION: VERSION}


def rewritten(claim: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """The annotations to set on a claim whose hash is of another version; empty otherwise.

    Not for claims that have drifted already: they keep theirs, and so their reason to go.
    """
    same = claim.get(HASH_VERSION) == current[HASH_VERSION]
    return {} if same else dict(current)


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items() if item not in ({}, [])}
    if isinstance(value, list):
        return sorted(map(_unordered, value), key=msgspec.json.encode)
    return value
