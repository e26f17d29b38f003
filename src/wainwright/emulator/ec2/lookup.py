"""Things by id, for calls that name some: those that are meant, or that one is missing."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from wainwright.errors import AwsError

Row = TypeVar("Row")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What EC2 calls a kind of thing, and how it says that there is none of that id."""

    prefix: str
    resource: str
    """In tag specifications and DescribeTags."""
    words: str
    """In messages."""
    missing: str
    """The code."""

    def lost(self, ids: Iterable[str]) -> AwsError:
        found = list(ids)
        if len(found) == 1:
            return AwsError(self.missing, f"The {self.words} ID '{found[0]}' does not exist")
        return AwsError(self.missing, f"The {self.words} IDs '{', '.join(found)}' do not exist")

    def arn(self, region: str, account: str, identity: str) -> str:
        return f"arn:aws:ec2:{region}:{account}:{self.resource}/{identity}"


VPC: Final = Kind(prefix="vpc", resource="vpc", words="vpc", missing="InvalidVpcID.NotFound")
SUBNET: Final = Kind(
    prefix="subnet", resource="subnet", words="subnet", missing="InvalidSubnetID.NotFound"
)
GROUP: Final = Kind(
    prefix="sg", resource="security-group", words="security group", missing="InvalidGroup.NotFound"
)
RULE: Final = Kind(
    prefix="sgr",
    resource="security-group-rule",
    words="security group rule",
    missing="InvalidSecurityGroupRuleId.NotFound",
)
IMAGE: Final = Kind(prefix="ami", resource="image", words="image", missing="InvalidAMIID.NotFound")
TEMPLATE: Final = Kind(
    prefix="lt",
    resource="launch-template",
    words="launch template",
    missing="InvalidLaunchTemplateId.NotFound",
)
PLACEMENT: Final = Kind(
    prefix="pg",
    resource="placement-group",
    words="placement group",
    missing="InvalidPlacementGroupId.NotFound",
)
INSTANCE: Final = Kind(
    prefix="i", resource="instance", words="instance", missing="InvalidInstanceID.NotFound"
)
FLEET: Final = Kind(
    prefix="fleet", resource="fleet", words="fleet", missing="InvalidFleetId.NotFound"
)
SPOT_REQUEST: Final = Kind(
    prefix="sir",
    resource="spot-instances-request",
    words="spot instance request",
    missing="InvalidSpotInstanceRequestID.NotFound",
)
RESERVATION: Final = Kind(
    prefix="cr",
    resource="capacity-reservation",
    words="capacity reservation",
    missing="InvalidCapacityReservationId.NotFound",
)


def named(rows: Mapping[str, Row], ids: Iterable[str] | None, kind: Kind) -> list[Row]:
    """The rows with these ids, each once, in the order in which they were made; all without ids."""
    if not ids:
        return list(rows.values())
    wanted = dict.fromkeys(ids)
    lost = [each for each in wanted if each not in rows]
    if lost:
        raise kind.lost(lost)
    return [row for identity, row in rows.items() if identity in wanted]


def only(rows: Mapping[str, Row], identity: str | None, kind: Kind) -> Row:
    """The row of that id."""
    if not identity:
        raise AwsError("MissingParameter", f"The request must contain a {kind.words} id")
    found = rows.get(identity)
    if found is None:
        raise kind.lost([identity])
    return found
