"""A snapshot of a cluster without names, for which the same is decided."""

from typing import Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.aws.drift import NODE_CLASS_HASH, node_class_hash
from wainwright.core.disruption.drift import POOL_HASH_ANNOTATION
from wainwright.kube.launch_hashes import LaunchHash, restate_hashes
from wainwright.kube.redaction import redact
from wainwright.kube.snapshot import ClusterSnapshot, Manifest
from wainwright.translate.pools import pool_hash


def redact_cluster(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """With nodes that have drifted where those of the cluster have, and nowhere else."""
    return restate_hashes(snapshot, redact(snapshot), LAUNCH_HASHES)


def _pool_hash(manifest: Manifest) -> str:
    return pool_hash(msgspec.convert(manifest, NodePool))


def _class_hash(manifest: Manifest) -> str:
    try:
        return node_class_hash(msgspec.convert(manifest, EC2NodeClass))
    except (KeyError, ValueError):  # a family of images of a newer Karpenter: no claim has our hash
        return ""


LAUNCH_HASHES: Final = (
    LaunchHash(kind="NodePool", annotation=POOL_HASH_ANNOTATION, hash_of=_pool_hash),
    LaunchHash(kind="EC2NodeClass", annotation=NODE_CLASS_HASH, hash_of=_class_hash),
)
