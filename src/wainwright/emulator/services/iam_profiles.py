"""Instance profiles: made, listed by path, tagged, given a role, and taken apart again."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from wainwright.emulator.services import iam_checks as checks
from wainwright.emulator.services.iam_state import IamState, Profile, Role, new_id, profile_view
from wainwright.emulator.services.pages import Paging
from wainwright.emulator.tags import to_list
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

Wanted: TypeAlias = Callable[[Profile], bool]

PAGING: Final = Paging(
    size="MaxItems",
    token="Marker",
    most=1000,
    otherwise=100,
    bad_size=checks.INVALID,
    bad_token=checks.INVALID,
)


class Roles(Protocol):
    """What profiles need of the service: its state, and its roles."""

    state: IamState

    def role(self, params: Params) -> Role: ...


class Profiles:
    def __init__(self, world: World, iam: Roles) -> None:
        self._world = world
        self._iam = iam

    def operations(self) -> Mapping[str, Handler]:
        return {
            "CreateInstanceProfile": self.create,
            "GetInstanceProfile": self.get,
            "ListInstanceProfiles": self.listed,
            "ListInstanceProfilesForRole": self.listed_for_role,
            "TagInstanceProfile": self.tag,
            "UntagInstanceProfile": self.untag,
            "ListInstanceProfileTags": self.tags,
            "AddRoleToInstanceProfile": self.add_role,
            "RemoveRoleFromInstanceProfile": self.remove_role,
            "DeleteInstanceProfile": self.delete,
        }

    def create(self, params: Params) -> Answer:
        name = checks.profile_name(params)
        if name in self._iam.state.profiles:
            raise checks.exists("Instance Profile", name)
        profile = Profile(
            name=name,
            path=checks.path(params),
            id=new_id(self._world, "AIPA"),
            created=self._world.now(),
            tags=checks.tags(params.get("Tags"), {}),
        )
        self._iam.state.profiles[name] = profile
        return {"InstanceProfile": self._view(profile)}

    def get(self, params: Params) -> Answer:
        return {"InstanceProfile": self._view(self._named(params))}

    def listed(self, params: Params) -> Answer:
        prefix = params.get("PathPrefix") or "/"
        if not prefix.startswith("/"):
            raise AwsError(
                checks.INVALID,
                f"The specified value for pathPrefix is invalid: '{prefix}'. It must begin with /.",
            )
        return self._page(params, lambda profile: profile.path.startswith(prefix))

    def listed_for_role(self, params: Params) -> Answer:
        role = self._iam.role(params)
        return self._page(params, lambda profile: profile.role == role.name)

    def _page(self, params: Params, wanted: Wanted) -> Answer:
        profiles = self._iam.state.profiles
        found = [profiles[name] for name in sorted(profiles) if wanted(profiles[name])]
        rows, token = PAGING.cut(found, params)
        answer: Answer = {
            "InstanceProfiles": [self._view(profile) for profile in rows],
            "IsTruncated": token is not None,
        }
        return answer if token is None else answer | {"Marker": token}

    def tag(self, params: Params) -> Answer:
        profile = self._named(params)
        profile.tags = checks.tags(params.get("Tags"), profile.tags)
        return {}

    def untag(self, params: Params) -> Answer:
        profile = self._named(params)
        gone = set(params.get("TagKeys") or ())
        profile.tags = {key: value for key, value in profile.tags.items() if key not in gone}
        return {}

    def tags(self, params: Params) -> Answer:
        """Always whole: there are never more tags than a page holds."""
        return {"Tags": to_list(self._named(params).tags), "IsTruncated": False}

    def add_role(self, params: Params) -> Answer:
        profile, role = self._named(params), self._iam.role(params)
        if profile.role is not None:
            raise AwsError(
                "LimitExceeded",
                "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1",
                409,
            )
        profile.role = role.name
        return {}

    def remove_role(self, params: Params) -> Answer:
        profile, name = self._named(params), checks.role_name(params)
        if profile.role != name:
            raise checks.no_such_role(name)
        profile.role = None
        return {}

    def delete(self, params: Params) -> Answer:
        profile = self._named(params)
        if profile.role is not None:
            raise AwsError(
                "DeleteConflict",
                "Cannot delete entity, must remove roles from instance profile first.",
                409,
            )
        del self._iam.state.profiles[profile.name]
        return {}

    def _named(self, params: Params) -> Profile:
        name = checks.profile_name(params)
        known = self._iam.state.profiles.get(name)
        if known is None:
            raise checks.no_such_profile(name)
        return known

    def _view(self, profile: Profile) -> Answer:
        return profile_view(self._world, self._iam.state, profile)
