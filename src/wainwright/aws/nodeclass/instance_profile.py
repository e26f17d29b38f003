"""Instance profiles: they carry the role of a class to its nodes.

A class that names a profile is taken at its word, and nobody touches that profile. For a class that
names a role, a profile is kept: one for each class and role, so that nodes launched under the old
role keep it. They lie under a path of their own in IAM, and nothing outside it is ever deleted.
"""

from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Final

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.seam import Row, from_tag_list
from wainwright.aws.api.services import NO_SUCH_ENTITY, Iam
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.nodeclass.status import (
    INSTANCE_PROFILE_READY,
    ResolvedPart,
    condition_false,
    condition_true,
)
from wainwright.clock import Clock
from wainwright.errors import AwsError

PROFILE_TTL: Final = 900.0  # seconds
PROFILE_FAILED_TTL: Final = 60.0
UNUSED_PROFILE_MIN_AGE: Final = 3600.0  # seconds for which an unused profile is left alone
ENTITY_ALREADY_EXISTS: Final = "EntityAlreadyExists"
LIMIT_EXCEEDED: Final = "LimitExceeded"


class InstanceProfileError(Exception):
    """The profile cannot be had; what the condition says about it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class InstanceProfileProvider:
    def __init__(self, iam: Iam, cluster: ClusterConfig, clock: Clock) -> None:
        self._iam = iam
        self._cluster = cluster
        self._clock = clock
        self._known: TtlCache[str] = TtlCache(clock, PROFILE_TTL)
        self._used: dict[str, float] = {}
        """When each profile was last the one of a class."""

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[str]:
        """The profile of the class, made or mended where it is ours."""
        if node_class.spec.instanceProfile is not None:
            return _resolved_profile(node_class.spec.instanceProfile)
        try:
            name = await self._managed(node_class)
        except InstanceProfileError as refused:
            finding = condition_false(INSTANCE_PROFILE_READY, refused.reason, refused.message)
            return ResolvedPart(value="", finding=finding, requeue_after=PROFILE_FAILED_TTL)
        self._used[name] = self._clock.now()
        return _resolved_profile(name)

    async def _managed(self, node_class: EC2NodeClass) -> str:
        if self._cluster.isolated_vpc:
            message = "IAM cannot be reached from an isolated VPC: state instanceProfile, not role"
            raise InstanceProfileError("IsolatedVPC", message)
        name = self.name(node_class)
        tags = self._cluster.profile_tags(node_class.metadata.name, node_class.spec.tags)
        key = (name, tuple(sorted(tags.items())))
        return await self._known.get(key, lambda: self._ensure(node_class, name, tags))

    def name(self, node_class: EC2NodeClass) -> str:
        """The same for the same class and role, and for nothing else."""
        metadata = node_class.metadata
        parts = (self._cluster.region, metadata.name, metadata.uid, role_name(node_class))
        return f"{self._cluster.name}_{sha256('|'.join(parts).encode()).hexdigest()[:20]}"

    def path(self, uid: str = "") -> str:
        """Where the profiles of the cluster lie, or those of one class."""
        folder = f"/karpenter/{self._cluster.region}/{self._cluster.name}/"
        return f"{folder}{uid}/" if uid else folder

    async def _ensure(self, node_class: EC2NodeClass, name: str, tags: dict[str, str]) -> str:
        found = await self._iam.get_instance_profile(name)
        if found is None:
            await self._create(name, self.path(node_class.metadata.uid), tags)
        else:
            await self._retag(name, found, tags)
        await self._give_role(name, role_name(node_class), found)
        return name

    async def _create(self, name: str, path: str, tags: dict[str, str]) -> None:
        try:
            await self._iam.create_instance_profile(name, path, tags)
        except AwsError as error:
            if error.code != ENTITY_ALREADY_EXISTS:  # else the reply to an earlier try was lost
                raise

    async def _retag(self, name: str, found: Row, tags: dict[str, str]) -> None:
        if not _has_path(found, self.path()):
            message = f"the instance profile {name} exists, and was not made for this cluster"
            raise InstanceProfileError("NotManaged", message)
        has = from_tag_list(found.get("Tags"))
        missing = {key: value for key, value in tags.items() if has.get(key) != value}
        if missing:
            await self._iam.tag_instance_profile(name, missing)

    async def _give_role(self, name: str, role: str, found: Row | None) -> None:
        """A profile has one role: another one has to go first."""
        held = _role_names(found)
        if held == [role]:
            return
        for other in held:
            await self._iam.remove_role(name, other)
        try:
            await self._iam.add_role(name, role)
        except AwsError as error:
            if error.code == NO_SUCH_ENTITY and "role" in error.text.lower():
                raise InstanceProfileError("RoleNotFound", f"there is no role {role}") from error
            if error.code != LIMIT_EXCEEDED or _role_names(
                await self._iam.get_instance_profile(name)
            ) != [role]:
                raise

    async def delete(self, uid: str) -> list[str]:
        """Removes all profiles of a class; their names."""
        if self._cluster.isolated_vpc or not uid:  # without it the path would be the cluster's
            return []
        return await self._remove(self.path(uid), lambda _: False)

    async def collect(self, in_use: Collection[str]) -> list[str]:
        """Removes profiles of the cluster that nothing uses; their names. Every half an hour.

        In use are those of classes and claims, which the caller knows. For an hour after it was
        made or last belonged to a class a profile is left alone: a launch may still be under way.
        """
        if self._cluster.isolated_vpc:
            return []
        oldest = self._clock.now() - UNUSED_PROFILE_MIN_AGE
        self._used = {name: used for name, used in self._used.items() if used > oldest}
        kept = {*in_use, *self._used}
        return await self._remove(
            self.path(), lambda row: row["InstanceProfileName"] in kept or _created_at(row) > oldest
        )

    async def _remove(self, path: str, spared: Callable[[Row], bool]) -> list[str]:
        """The path is looked at again here: what lies elsewhere belongs to somebody else."""
        listed = await self._iam.list_instance_profiles(path)
        rows = [row for row in listed if _has_path(row, path) and not spared(row)]
        for row in rows:
            await self._take_apart(row)
        self._known.clear()
        return sorted(row["InstanceProfileName"] for row in rows)

    async def _take_apart(self, row: Row) -> None:
        for role in _role_names(row):
            await self._iam.remove_role(row["InstanceProfileName"], role)
        await self._iam.delete_instance_profile(row["InstanceProfileName"])


def role_name(node_class: EC2NodeClass) -> str:
    """The name of the role, without the path that may stand before it."""
    return (node_class.spec.role or "").rpartition("/")[2]


def _created_at(row: Row) -> float:
    made = row.get("CreateDate")
    return 0.0 if made is None else float(made.timestamp())


def _resolved_profile(name: str) -> ResolvedPart[str]:
    return ResolvedPart(
        value=name, finding=condition_true(INSTANCE_PROFILE_READY), requeue_after=PROFILE_TTL
    )


def _role_names(row: Row | None) -> list[str]:
    return [role["RoleName"] for role in (row or {}).get("Roles") or ()]


def _has_path(row: Row, path: str) -> bool:
    return str(row.get("Path", "/")).startswith(path)
