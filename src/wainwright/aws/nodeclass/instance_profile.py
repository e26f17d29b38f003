"""Instance profiles: they give the role of a class to its nodes.

A profile that a class names in spec.instanceProfile is used as it is, and never changed. For a
class with spec.role a profile is managed: one for each class and role, so that nodes launched under
the old role keep it. Managed profiles have a path of their own in IAM, and nothing outside that
path is ever deleted.
"""

from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Final

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.services import NO_SUCH_ENTITY, Iam, Row, from_tag_list
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
UNUSED_PROFILE_MIN_AGE: Final = 3600.0  # seconds for which an unused profile is kept
ENTITY_ALREADY_EXISTS: Final = "EntityAlreadyExists"
LIMIT_EXCEEDED: Final = "LimitExceeded"


class InstanceProfileError(Exception):
    """The profile cannot be provided; reason and message of the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class InstanceProfileProvider:
    def __init__(self, iam: Iam, cluster: ClusterConfig, clock: Clock) -> None:
        self._iam = iam
        self._cluster = cluster
        self._clock = clock
        self._cache: TtlCache[str] = TtlCache(clock, PROFILE_TTL)
        self._used: dict[str, float] = {}
        """When each profile was last used by a class."""

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[str]:
        """The profile of the class; a managed one is created or corrected, or where nothing may
        change only named.
        """
        if node_class.spec.instanceProfile is not None:
            return _resolved_profile(node_class.spec.instanceProfile)
        try:
            name = await self._ensure_managed(node_class)
        except InstanceProfileError as error:
            condition = condition_false(INSTANCE_PROFILE_READY, error.reason, error.message)
            return ResolvedPart(value="", condition=condition, requeue_after=PROFILE_FAILED_TTL)
        self._used[name] = self._clock.now()
        return _resolved_profile(name)

    async def _ensure_managed(self, node_class: EC2NodeClass) -> str:
        if self._cluster.isolated_vpc:
            message = "IAM cannot be reached from an isolated VPC: state instanceProfile, not role"
            raise InstanceProfileError("IsolatedVPC", message)
        name = self.profile_name(node_class)
        if self._cluster.read_only:
            return name
        tags = self._cluster.profile_tags(node_class.metadata.name, node_class.spec.tags)
        key = (name, tuple(sorted(tags.items())))
        return await self._cache.get(key, lambda: self._ensure(node_class, name, tags))

    def profile_name(self, node_class: EC2NodeClass) -> str:
        """Unique to the class and its role."""
        metadata = node_class.metadata
        parts = (self._cluster.region, metadata.name, metadata.uid, role_name(node_class))
        return f"{self._cluster.name}_{sha256('|'.join(parts).encode()).hexdigest()[:20]}"

    def profile_path(self, uid: str = "") -> str:
        """The IAM path of the profiles of the cluster, or of one class."""
        folder = f"/karpenter/{self._cluster.region}/{self._cluster.name}/"
        return f"{folder}{uid}/" if uid else folder

    async def _ensure(self, node_class: EC2NodeClass, name: str, tags: dict[str, str]) -> str:
        profile = await self._iam.get_instance_profile(name)
        if profile is None:
            await self._create(name, self.profile_path(node_class.metadata.uid), tags)
        else:
            await self._retag(name, profile, tags)
        await self._set_role(name, role_name(node_class), profile)
        return name

    async def _create(self, name: str, path: str, tags: dict[str, str]) -> None:
        try:
            await self._iam.create_instance_profile(name, path, tags)
        except AwsError as error:
            # If it exists already, the response to an earlier attempt was lost.
            if error.code != ENTITY_ALREADY_EXISTS:
                raise

    async def _retag(self, name: str, profile: Row, tags: dict[str, str]) -> None:
        if not _has_path(profile, self.profile_path()):
            message = f"the instance profile {name} exists, and was not made for this cluster"
            raise InstanceProfileError("NotManaged", message)
        present = from_tag_list(profile.get("Tags"))
        missing = {key: value for key, value in tags.items() if present.get(key) != value}
        if missing:
            await self._iam.tag_instance_profile(name, missing)

    async def _set_role(self, name: str, role: str, profile: Row | None) -> None:
        """A profile can have only one role: another one is removed first."""
        roles = _role_names(profile)
        if roles == [role]:
            return
        for other in roles:
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
        """Deletes all profiles of a class; returns their names."""
        # Without a uid the path would be that of the whole cluster.
        if self._cluster.isolated_vpc or not uid:
            return []
        return await self._remove(self.profile_path(uid), lambda _: False)

    async def garbage_collect(self, in_use: Collection[str]) -> list[str]:
        """Deletes unused profiles of the cluster; returns their names. Every 30 minutes.

        `in_use` are those of classes and claims. For an hour after a profile was created or last
        used by a class it is kept: a launch may still be in flight.
        """
        if self._cluster.isolated_vpc:
            return []
        oldest = self._clock.now() - UNUSED_PROFILE_MIN_AGE
        self._used = {name: used for name, used in self._used.items() if used > oldest}
        kept = {*in_use, *self._used}
        return await self._remove(
            self.profile_path(),
            lambda row: row["InstanceProfileName"] in kept or _created_at(row) > oldest,
        )

    async def _remove(self, path: str, is_kept: Callable[[Row], bool]) -> list[str]:
        """Checks the path of each row again: profiles with another path are not ours."""
        listed = await self._iam.list_instance_profiles(path)
        rows = [row for row in listed if _has_path(row, path) and not is_kept(row)]
        for row in rows:
            await self._delete_profile(row)
        self._cache.clear()
        return sorted(row["InstanceProfileName"] for row in rows)

    async def _delete_profile(self, row: Row) -> None:
        for role in _role_names(row):
            await self._iam.remove_role(row["InstanceProfileName"], role)
        await self._iam.delete_instance_profile(row["InstanceProfileName"])


def role_name(node_class: EC2NodeClass) -> str:
    """The name of the role, without its path."""
    return (node_class.spec.role or "").rpartition("/")[2]


def _created_at(row: Row) -> float:
    created = row.get("CreateDate")
    return 0.0 if created is None else float(created.timestamp())


def _resolved_profile(name: str) -> ResolvedPart[str]:
    return ResolvedPart(
        value=name, condition=condition_true(INSTANCE_PROFILE_READY), requeue_after=PROFILE_TTL
    )


def _role_names(row: Row | None) -> list[str]:
    return [role["RoleName"] for role in (row or {}).get("Roles") or ()]


def _has_path(row: Row, path: str) -> bool:
    return str(row.get("Path", "/")).startswith(path)
