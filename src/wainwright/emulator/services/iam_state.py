"""What the emulated IAM remembers, and how it shows it."""

import string
from typing import Any, Final
from urllib.parse import quote

import msgspec

from wainwright.emulator.services.arns import arn
from wainwright.emulator.tags import to_list
from wainwright.emulator.times import moment
from wainwright.emulator.world import World

LETTERS: Final = string.ascii_uppercase + string.digits


class Role(msgspec.Struct, kw_only=True):
    name: str
    path: str
    id: str
    created: float
    policy: str
    """Who may take it on: JSON text."""
    description: str = ""
    tags: dict[str, str] = {}
    service: str | None = None
    """Set where a service owns the role; nobody else may change it then."""


class Profile(msgspec.Struct, kw_only=True):
    """An instance profile: the coat in which a role is handed to a machine."""

    name: str
    path: str
    id: str
    created: float
    role: str | None = None
    """At most one, by quota."""
    tags: dict[str, str] = {}


class IamState(msgspec.Struct, kw_only=True):
    roles: dict[str, Role] = {}
    profiles: dict[str, Profile] = {}


def new_id(world: World, prefix: str) -> str:
    return prefix + "".join(world.random.choices(LETTERS, k=17))


def role_arn(world: World, role: Role) -> str:
    return arn("iam", world.region, world.account, f"role{role.path}{role.name}", everywhere=True)


def profile_arn(world: World, profile: Profile) -> str:
    resource = f"instance-profile{profile.path}{profile.name}"
    return arn("iam", world.region, world.account, resource, everywhere=True)


def role_view(world: World, role: Role) -> dict[str, Any]:
    """The policy is percent-encoded, as on the wire; boto3 decodes it for its callers."""
    view: dict[str, Any] = {
        "Path": role.path,
        "RoleName": role.name,
        "RoleId": role.id,
        "Arn": role_arn(world, role),
        "CreateDate": moment(role.created),
        "AssumeRolePolicyDocument": quote(role.policy, safe=""),
        "MaxSessionDuration": 3600,
    }
    if role.description:
        view["Description"] = role.description
    if role.tags:
        view["Tags"] = to_list(role.tags)
    return view


def profile_view(world: World, state: IamState, profile: Profile) -> dict[str, Any]:
    role = state.roles.get(profile.role) if profile.role is not None else None
    view: dict[str, Any] = {
        "Path": profile.path,
        "InstanceProfileName": profile.name,
        "InstanceProfileId": profile.id,
        "Arn": profile_arn(world, profile),
        "CreateDate": moment(profile.created),
        "Roles": [] if role is None else [role_view(world, role)],
    }
    if profile.tags:
        view["Tags"] = to_list(profile.tags)
    return view
