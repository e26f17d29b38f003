"""Deletion: what is left of a class when it goes, and when it may."""

from collections.abc import Collection

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.cluster import CLUSTER_NAME_TAG, Cluster
from wainwright.aws.ec2 import Ec2
from wainwright.aws.profile import Profiles
from wainwright.aws.wire import equals
from wainwright.model.labels import EC2NODECLASS


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of the class are still there."""

    claims: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.claims[:5])
        more = f" and {len(self.claims) - 5} more" if len(self.claims) > 5 else ""
        return f"waiting for the NodeClaims {shown}{more} to terminate"


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was made for the class is gone, and so may the class be."""

    templates: tuple[str, ...]
    profiles: tuple[str, ...]


class Deletion:
    def __init__(self, ec2: Ec2, profiles: Profiles, cluster: Cluster) -> None:
        self._ec2 = ec2
        self._profiles = profiles
        self._cluster = cluster

    async def finish(self, node_class: EC2NodeClass, claims: Collection[str]) -> Waiting | Cleaned:
        """Cleans up after a class that no claim uses any more. It can be repeated at any point."""
        if claims:
            return Waiting(claims=tuple(sorted(claims)))
        templates = await self._delete_templates(node_class.metadata.name)
        profiles = await self._profiles.delete(node_class.metadata.uid)
        return Cleaned(templates=tuple(templates), profiles=tuple(profiles))

    async def _delete_templates(self, node_class: str) -> list[str]:
        filters = [
            equals(f"tag:{CLUSTER_NAME_TAG}", self._cluster.name),
            equals(f"tag:{EC2NODECLASS}", node_class),
        ]
        rows = await self._ec2.describe_launch_templates(filters=filters)
        for row in rows:
            await self._ec2.delete_launch_template(identity=row["LaunchTemplateId"])
        return sorted(row["LaunchTemplateName"] for row in rows)
