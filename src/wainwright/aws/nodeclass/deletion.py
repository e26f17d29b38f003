"""Deletion: what is left of a class when it goes, and when it may."""

from collections.abc import Collection

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.cluster import Cluster
from wainwright.aws.profile import Profiles
from wainwright.aws.templates.ensure import Templates


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
    def __init__(self, templates: Templates, profiles: Profiles, cluster: Cluster) -> None:
        self._templates = templates
        self._profiles = profiles
        self._cluster = cluster

    async def finish(self, node_class: EC2NodeClass, claims: Collection[str]) -> Waiting | Cleaned:
        """Cleans up after a class that no claim uses any more. It can be repeated at any point."""
        if claims:
            return Waiting(claims=tuple(sorted(claims)))
        name, uid = node_class.metadata.name, node_class.metadata.uid
        templates = await self._templates.delete_class(self._cluster.name, name)
        profiles = await self._profiles.delete(uid)
        return Cleaned(templates=templates, profiles=tuple(profiles))
