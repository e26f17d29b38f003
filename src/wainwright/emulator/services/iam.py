"""IAM: roles and instance profiles, as far as launching instances needs them.

`seed` creates the role of the nodes and the service-linked role of spot launches. EC2 uses
`has_spot_role` and `find_profile`.
"""

import json
import re
import string
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

import msgspec

from wainwright.emulator.api_conventions import make_arn, require_text, to_datetime
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import ServicePagination
from wainwright.emulator.ec2.tags import to_tag_list
from wainwright.errors import AwsError

ID_CHARACTERS: Final = string.ascii_uppercase + string.digits


class IamRole(msgspec.Struct, kw_only=True):
    name: str
    path: str
    id: str
    created: float
    policy: str
    """The trust policy: JSON text."""
    description: str = ""
    tags: dict[str, str] = {}
    service: str | None = None
    """The owning service of a service-linked role, which only that service may change."""


class InstanceProfile(msgspec.Struct, kw_only=True):
    """An instance profile, which gives an instance its role."""

    name: str
    path: str
    id: str
    created: float
    role: str | None = None
    """At most one, by quota."""
    tags: dict[str, str] = {}


class IamState(msgspec.Struct, kw_only=True):
    roles: dict[str, IamRole] = {}
    profiles: dict[str, InstanceProfile] = {}


def new_iam_id(context: AccountContext, prefix: str) -> str:
    return prefix + "".join(context.random.choices(ID_CHARACTERS, k=17))


def role_arn(context: AccountContext, role: IamRole) -> str:
    return make_arn(
        "iam", context.region, context.account, f"role{role.path}{role.name}", global_service=True
    )


def profile_arn(context: AccountContext, profile: InstanceProfile) -> str:
    resource = f"instance-profile{profile.path}{profile.name}"
    return make_arn("iam", context.region, context.account, resource, global_service=True)


def role_view(context: AccountContext, role: IamRole) -> dict[str, Any]:
    """The policy is percent-encoded, as on the wire; boto3 decodes it for its callers."""
    view: dict[str, Any] = {
        "Path": role.path,
        "RoleName": role.name,
        "RoleId": role.id,
        "Arn": role_arn(context, role),
        "CreateDate": to_datetime(role.created),
        "AssumeRolePolicyDocument": quote(role.policy, safe=""),
        "MaxSessionDuration": 3600,
    }
    if role.description:
        view["Description"] = role.description
    if role.tags:
        view["Tags"] = to_tag_list(role.tags)
    return view


def profile_view(
    context: AccountContext, state: IamState, profile: InstanceProfile
) -> dict[str, Any]:
    role = state.roles.get(profile.role) if profile.role is not None else None
    view: dict[str, Any] = {
        "Path": profile.path,
        "InstanceProfileName": profile.name,
        "InstanceProfileId": profile.id,
        "Arn": profile_arn(context, profile),
        "CreateDate": to_datetime(profile.created),
        "Roles": [] if role is None else [role_view(context, role)],
    }
    if profile.tags:
        view["Tags"] = to_tag_list(profile.tags)
    return view


VALIDATION_ERROR: Final = "ValidationError"
IAM_NAME: Final = re.compile(r"[\w+=,.@-]+", re.ASCII)
IAM_PATH: Final = re.compile(r"/|/[!-~]+/")
MAX_IAM_TAGS: Final = 50


def no_such_entity(what: str, name: str) -> AwsError:
    """Clients tell a missing role from a missing profile by the beginning of the message."""
    return AwsError("NoSuchEntity", f"{what} {name} cannot be found.", 404)


def no_such_role(name: str) -> AwsError:
    return no_such_entity("The role with name", name)


def no_such_profile(name: str) -> AwsError:
    return no_such_entity("Instance Profile", name)


def entity_already_exists(what: str, name: str) -> AwsError:
    return AwsError("EntityAlreadyExists", f"{what} {name} already exists.", 409)


def parse_name(params: Mapping[str, Any], field: str, longest: int) -> str:
    name = require_text(params, field, error_code=VALIDATION_ERROR)
    if len(name) > longest or not IAM_NAME.fullmatch(name):
        raise AwsError(
            VALIDATION_ERROR,
            f"1 validation error detected: Value '{name}' at '{field}' failed to satisfy "
            f"constraint: up to {longest} letters, digits and _+=,.@-",
        )
    return name


def parse_role_name(params: Mapping[str, Any]) -> str:
    return parse_name(params, "RoleName", 64)


def parse_profile_name(params: Mapping[str, Any]) -> str:
    return parse_name(params, "InstanceProfileName", 128)


def parse_path(params: Mapping[str, Any]) -> str:
    path = params.get("Path") or "/"
    if len(path) > 512 or not IAM_PATH.fullmatch(path):
        raise AwsError(
            VALIDATION_ERROR,
            f"The specified value for path is invalid: '{path}'. It must begin and end with /.",
        )
    return str(path)


def merge_tags(pairs: Any, existing: Mapping[str, str]) -> dict[str, str]:
    """Existing tags with those of the request over them."""
    merged = dict(existing)
    for pair in pairs or ():
        key = require_text(pair, "Key", error_code=VALIDATION_ERROR)
        if len(key) > 128 or len(pair.get("Value") or "") > 256 or key.lower().startswith("aws:"):
            raise AwsError("InvalidInput", f"The tag {key!r} is too long or of a reserved kind.")
        merged[key] = pair.get("Value") or ""
    if len(merged) > MAX_IAM_TAGS:
        raise AwsError(
            "LimitExceeded",
            f"The number of tags has reached the maximum limit: {MAX_IAM_TAGS}.",
            409,
        )
    return merged


ProfilePredicate: TypeAlias = Callable[[InstanceProfile], bool]

PROFILE_PAGINATION: Final = ServicePagination(
    size_param="MaxItems",
    token_param="Marker",
    max_size=1000,
    default_size=100,
    invalid_size_code=VALIDATION_ERROR,
    invalid_token_code=VALIDATION_ERROR,
)


class RoleStore(Protocol):
    """What instance profiles use of the service: its state and its roles."""

    state: IamState

    def role(self, params: Params) -> IamRole: ...


class InstanceProfiles:
    def __init__(self, context: AccountContext, iam: RoleStore) -> None:
        self._context = context
        self._iam = iam

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateInstanceProfile": self.create,
            "GetInstanceProfile": self.get,
            "ListInstanceProfiles": self.list_profiles,
            "ListInstanceProfilesForRole": self.list_profiles_for_role,
            "TagInstanceProfile": self.tag,
            "UntagInstanceProfile": self.untag,
            "ListInstanceProfileTags": self.list_tags,
            "AddRoleToInstanceProfile": self.add_role,
            "RemoveRoleFromInstanceProfile": self.remove_role,
            "DeleteInstanceProfile": self.delete,
        }

    def create(self, params: Params) -> Response:
        name = parse_profile_name(params)
        if name in self._iam.state.profiles:
            raise entity_already_exists("Instance Profile", name)
        profile = InstanceProfile(
            name=name,
            path=parse_path(params),
            id=new_iam_id(self._context, "AIPA"),
            created=self._context.now(),
            tags=merge_tags(params.get("Tags"), {}),
        )
        self._iam.state.profiles[name] = profile
        return {"InstanceProfile": self._view(profile)}

    def get(self, params: Params) -> Response:
        return {"InstanceProfile": self._view(self._get_profile(params))}

    def list_profiles(self, params: Params) -> Response:
        prefix = params.get("PathPrefix") or "/"
        if not prefix.startswith("/"):
            raise AwsError(
                VALIDATION_ERROR,
                f"The specified value for pathPrefix is invalid: '{prefix}'. It must begin with /.",
            )
        return self._page(params, lambda profile: profile.path.startswith(prefix))

    def list_profiles_for_role(self, params: Params) -> Response:
        role = self._iam.role(params)
        return self._page(params, lambda profile: profile.role == role.name)

    def _page(self, params: Params, predicate: ProfilePredicate) -> Response:
        profiles = self._iam.state.profiles
        matching = [profiles[name] for name in sorted(profiles) if predicate(profiles[name])]
        rows, token = PROFILE_PAGINATION.paginate(matching, params)
        response: Response = {
            "InstanceProfiles": [self._view(profile) for profile in rows],
            "IsTruncated": token is not None,
        }
        return response if token is None else response | {"Marker": token}

    def tag(self, params: Params) -> Response:
        profile = self._get_profile(params)
        profile.tags = merge_tags(params.get("Tags"), profile.tags)
        return {}

    def untag(self, params: Params) -> Response:
        profile = self._get_profile(params)
        removed_keys = set(params.get("TagKeys") or ())
        profile.tags = {
            key: value for key, value in profile.tags.items() if key not in removed_keys
        }
        return {}

    def list_tags(self, params: Params) -> Response:
        """Always complete: a profile never has more tags than a page holds."""
        return {"Tags": to_tag_list(self._get_profile(params).tags), "IsTruncated": False}

    def add_role(self, params: Params) -> Response:
        profile, role = self._get_profile(params), self._iam.role(params)
        if profile.role is not None:
            raise AwsError(
                "LimitExceeded",
                "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1",
                409,
            )
        profile.role = role.name
        return {}

    def remove_role(self, params: Params) -> Response:
        profile, name = self._get_profile(params), parse_role_name(params)
        if profile.role != name:
            raise no_such_role(name)
        profile.role = None
        return {}

    def delete(self, params: Params) -> Response:
        profile = self._get_profile(params)
        if profile.role is not None:
            raise AwsError(
                "DeleteConflict",
                "Cannot delete entity, must remove roles from instance profile first.",
                409,
            )
        del self._iam.state.profiles[profile.name]
        return {}

    def _get_profile(self, params: Params) -> InstanceProfile:
        name = parse_profile_name(params)
        profile = self._iam.state.profiles.get(name)
        if profile is None:
            raise no_such_profile(name)
        return profile

    def _view(self, profile: InstanceProfile) -> Response:
        return profile_view(self._context, self._iam.state, profile)


SPOT_SERVICE: Final = "spot.amazonaws.com"
SERVICE_LINKED_ROLES: Final = {
    SPOT_SERVICE: "AWSServiceRoleForEC2Spot",
    "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet",
    "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
    "eks.amazonaws.com": "AWSServiceRoleForAmazonEKS",
    "spotfleet.amazonaws.com": "AWSServiceRoleForEC2SpotFleet",
}
"""Names of service-linked roles by service."""


class Iam:
    name = "iam"

    def __init__(self, context: AccountContext) -> None:
        self.state = IamState()
        self._context = context
        self._profiles = InstanceProfiles(context, self)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateRole": self.create_role,
            "GetRole": self.get_role,
            "DeleteRole": self.delete_role,
            "CreateServiceLinkedRole": self.create_service_linked_role,
            "DeleteServiceLinkedRole": self.delete_service_linked_role,
            **self._profiles.operations(),
        }

    def seed(self, role: str) -> None:
        """Creates the role of the nodes and the one that spot launches need."""
        self.create_node_role(role)
        self.create_service_linked_role({"AWSServiceName": SPOT_SERVICE})

    def create_node_role(self, name: str) -> None:
        """A role that instances can have."""
        policy = json.dumps(trust_policy("ec2.amazonaws.com"))
        self.create_role({"RoleName": name, "AssumeRolePolicyDocument": policy})

    def create_node_profile(self, name: str) -> None:
        """An instance profile with a role of the same name."""
        if name not in self.state.roles:
            self.create_node_role(name)
        self._profiles.create({"InstanceProfileName": name})
        self._profiles.add_role({"InstanceProfileName": name, "RoleName": name})

    def has_spot_role(self) -> bool:
        """Without it EC2 rejects spot launches of callers who may not create it."""
        return SERVICE_LINKED_ROLES[SPOT_SERVICE] in self.state.roles

    def find_profile(self, name_or_arn: str) -> InstanceProfile | None:
        """The instance profile that a launch names, by name or by ARN."""
        profile = self.state.profiles.get(name_or_arn.rpartition("/")[2])
        if profile is None or name_or_arn in (profile.name, profile_arn(self._context, profile)):
            return profile
        return None

    def create_role(self, params: Params) -> Response:
        name = parse_role_name(params)
        policy = require_text(params, "AssumeRolePolicyDocument", error_code=VALIDATION_ERROR)
        if not _is_json_object(policy):
            raise AwsError("MalformedPolicyDocument", "This policy contains invalid Json")
        return self._add(
            IamRole(
                name=name,
                path=parse_path(params),
                id=new_iam_id(self._context, "AROA"),
                created=self._context.now(),
                policy=policy,
                description=params.get("Description") or "",
                tags=merge_tags(params.get("Tags"), {}),
            )
        )

    def _add(self, role: IamRole) -> Response:
        if role.name in self.state.roles:
            raise entity_already_exists("Role with name", role.name)
        self.state.roles[role.name] = role
        return {"Role": role_view(self._context, role)}

    def get_role(self, params: Params) -> Response:
        return {"Role": role_view(self._context, self.role(params))}

    def role(self, params: Params) -> IamRole:
        name = parse_role_name(params)
        existing = self.state.roles.get(name)
        if existing is None:
            raise no_such_role(name)
        return existing

    def delete_role(self, params: Params) -> Response:
        role = self.role(params)
        if role.service is not None:
            raise AwsError(
                "UnmodifiableEntity",
                f"Cannot perform the operation on the protected role '{role.name}' - this role is "
                "only modifiable by AWS",
            )
        if any(profile.role == role.name for profile in self.state.profiles.values()):
            raise AwsError(
                "DeleteConflict",
                "Cannot delete entity, must remove roles from instance profile first.",
                409,
            )
        del self.state.roles[role.name]
        return {}

    def create_service_linked_role(self, params: Params) -> Response:
        service = require_text(params, "AWSServiceName", error_code=VALIDATION_ERROR)
        name = SERVICE_LINKED_ROLES.get(service)
        if name is None:
            raise AwsError("InvalidInput", f"Service role not found for {service}.")
        if name in self.state.roles:
            raise AwsError(
                "InvalidInput",
                f"Service role name {name} has been taken in this account, please try a different "
                "suffix.",
            )
        return self._add(
            IamRole(
                name=name,
                path=f"/aws-service-role/{service}/",
                id=new_iam_id(self._context, "AROA"),
                created=self._context.now(),
                policy=json.dumps(trust_policy(service)),
                description=params.get("Description") or "",
                service=service,
            )
        )

    def delete_service_linked_role(self, params: Params) -> Response:
        """Finished at once; AWS does it asynchronously and reports on the task."""
        role = self.role(params)
        if role.service is None:
            raise AwsError("InvalidInput", f"{role.name} is not a service-linked role.")
        del self.state.roles[role.name]
        return {"DeletionTaskId": f"task{role.path}{role.name}/{role.id}"}


def trust_policy(service: str) -> dict[str, Any]:
    """The policy that allows a service to assume a role."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _is_json_object(document: str) -> bool:
    try:
        return isinstance(json.loads(document), dict)
    except ValueError:
        return False
