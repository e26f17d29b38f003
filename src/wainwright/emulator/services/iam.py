"""IAM: roles and instance profiles, as far as launching machines needs them.

`seed` gives the account the role of its nodes and the role that spot launches need. The EC2 side
asks `has_spot_role` and `find_profile`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from wainwright.emulator.services import iam_checks as checks
from wainwright.emulator.services.iam_profiles import Profiles
from wainwright.emulator.services.iam_state import (
    IamState,
    Profile,
    Role,
    new_id,
    profile_arn,
    role_view,
)
from wainwright.emulator.services.requests import text
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

SPOT: Final = "spot.amazonaws.com"
LINKED: Final = {
    SPOT: "AWSServiceRoleForEC2Spot",
    "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet",
    "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
    "eks.amazonaws.com": "AWSServiceRoleForAmazonEKS",
    "spotfleet.amazonaws.com": "AWSServiceRoleForEC2SpotFleet",
}
"""The services that own a role here, and what the role is called."""


class Iam:
    name = "iam"

    def __init__(self, world: World) -> None:
        self.state = IamState()
        self._world = world
        self._profiles = Profiles(world, self)

    def operations(self) -> Mapping[str, Handler]:
        return {
            "CreateRole": self.create_role,
            "GetRole": self.get_role,
            "DeleteRole": self.delete_role,
            "CreateServiceLinkedRole": self.create_service_linked_role,
            "DeleteServiceLinkedRole": self.delete_service_linked_role,
            **self._profiles.operations(),
        }

    def seed(self, role: str) -> None:
        """The role of the account's nodes, and the one that spot launches need."""
        policy = json.dumps(trust("ec2.amazonaws.com"))
        self.create_role({"RoleName": role, "AssumeRolePolicyDocument": policy})
        self.create_service_linked_role({"AWSServiceName": SPOT})

    def has_spot_role(self) -> bool:
        """Without it EC2 refuses to launch spot instances for callers who may not create it."""
        return LINKED[SPOT] in self.state.roles

    def find_profile(self, name_or_arn: str) -> Profile | None:
        """The instance profile that a launch names, by name or by ARN."""
        known = self.state.profiles.get(name_or_arn.rpartition("/")[2])
        if known is None or name_or_arn in (known.name, profile_arn(self._world, known)):
            return known
        return None

    def profile_arn(self, profile: Profile) -> str:
        return profile_arn(self._world, profile)

    def create_role(self, params: Params) -> Answer:
        name = checks.role_name(params)
        policy = text(params, "AssumeRolePolicyDocument", refused=checks.INVALID)
        if not _is_object(policy):
            raise AwsError("MalformedPolicyDocument", "This policy contains invalid Json")
        return self._add(
            Role(
                name=name,
                path=checks.path(params),
                id=new_id(self._world, "AROA"),
                created=self._world.now(),
                policy=policy,
                description=params.get("Description") or "",
                tags=checks.tags(params.get("Tags"), {}),
            )
        )

    def _add(self, role: Role) -> Answer:
        if role.name in self.state.roles:
            raise checks.exists("Role with name", role.name)
        self.state.roles[role.name] = role
        return {"Role": role_view(self._world, role)}

    def get_role(self, params: Params) -> Answer:
        return {"Role": role_view(self._world, self.role(params))}

    def role(self, params: Params) -> Role:
        name = checks.role_name(params)
        known = self.state.roles.get(name)
        if known is None:
            raise checks.no_such_role(name)
        return known

    def delete_role(self, params: Params) -> Answer:
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

    def create_service_linked_role(self, params: Params) -> Answer:
        service = text(params, "AWSServiceName", refused=checks.INVALID)
        name = LINKED.get(service)
        if name is None:
            raise AwsError("InvalidInput", f"Service role not found for {service}.")
        if name in self.state.roles:
            raise AwsError(
                "InvalidInput",
                f"Service role name {name} has been taken in this account, please try a different "
                "suffix.",
            )
        return self._add(
            Role(
                name=name,
                path=f"/aws-service-role/{service}/",
                id=new_id(self._world, "AROA"),
                created=self._world.now(),
                policy=json.dumps(trust(service)),
                description=params.get("Description") or "",
                service=service,
            )
        )

    def delete_service_linked_role(self, params: Params) -> Answer:
        """Done at once; AWS takes a while and reports on the task."""
        role = self.role(params)
        if role.service is None:
            raise AwsError("InvalidInput", f"{role.name} is not a service-linked role.")
        del self.state.roles[role.name]
        return {"DeletionTaskId": f"task{role.path}{role.name}/{role.id}"}


def trust(service: str) -> dict[str, Any]:
    """The policy by which a service may take on a role."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _is_object(document: str) -> bool:
    try:
        return isinstance(json.loads(document), dict)
    except ValueError:
        return False
