"""Codes: what AWS says and what it means: one error of ours for every code, and what to do.

Codes that are not in the table go by their kind: a permission that is missing, a call that was not
carried out or not answered, anything else that AWS will say again however often it is asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from wainwright.aws.nodeclass.rehearsal import propagating
from wainwright.aws.operations import denied, passing
from wainwright.errors import (
    AwsError,
    BadInput,
    ClassNotReady,
    CloudError,
    NoCapacity,
    NotFound,
    Refused,
    Unavailable,
)


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    error: type[CloudError]
    remedy: str = ""


def _all(error: type[CloudError], remedy: str, *codes: str) -> dict[str, Meaning]:
    return dict.fromkeys(codes, Meaning(error=error, remedy=remedy))


SPOT_ROLE: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
NO_ADDRESSES: Final = "InsufficientFreeAddressesInSubnet"
RESERVATION_FULL: Final = "ReservationCapacityExceeded"

CAPACITY: Final[Mapping[str, Meaning]] = {
    **_all(
        NoCapacity,
        "allow more instance types and zones in the NodePool",
        "InsufficientCapacity",
        "InsufficientInstanceCapacity",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
    ),
    **_all(
        NoCapacity,
        "ask AWS for a higher quota, or allow other instance families",
        "InstanceLimitExceeded",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
    ),
    NO_ADDRESSES: Meaning(
        error=NoCapacity, remedy="add subnets with free addresses to subnetSelectorTerms"
    ),
    RESERVATION_FULL: Meaning(
        error=NoCapacity, remedy="the reservation is used by others; enlarge it, or select more"
    ),
    SPOT_ROLE: Meaning(
        error=NoCapacity,
        remedy="create the service-linked role spot.amazonaws.com once, or allow on-demand",
    ),
}
"""Codes that a pool of machines can end with: the next one may still have some."""

OTHERS: Final[Mapping[str, Meaning]] = {
    **_all(
        NotFound,
        "",
        "InvalidInstanceID.Malformed",
        "InvalidInstanceID.NotFound",
    ),
    **_all(
        ClassNotReady,
        "what the class names is gone; it is looked up again within minutes",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Unavailable",
        "InvalidCapacityReservationId.NotFound",
        "InvalidGroup.NotFound",
        "InvalidSecurityGroupID.NotFound",
        "InvalidSubnetID.NotFound",
        "InvalidPlacementGroup.Unknown",
    ),
    **_all(
        Unavailable,
        "",
        "IdempotentParameterMismatch",
        "IncorrectInstanceState",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
        "InvalidLaunchTemplateName.NotFoundException",
    ),
    **_all(
        Unavailable,
        "look at the credentials of the controller",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "NoCredentials",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ),
    **_all(
        Refused,
        "AWS support has to look at the account",
        "Blocked",
        "OptInRequired",
        "PendingVerification",
    ),
    **_all(
        Refused,
        "delete launch templates that nobody uses, or ask AWS for a higher quota",
        "VersionLimitExceeded",
        "InvalidLaunchTemplateLimit.Exceeded",
        "LaunchTemplateLimitExceeded",
    ),
    **_all(
        Refused,
        "shorten userData in the EC2NodeClass",
        "InvalidUserData.Malformed",
    ),
}
TABLE: Final[Mapping[str, Meaning]] = {**CAPACITY, **OTHERS}

PERMISSION: Final = Meaning(
    error=Refused, remedy="give the controller's role the permission for this call"
)
PASSING: Final = Meaning(error=Unavailable)
FINAL: Final = Meaning(error=Refused, remedy="what AWS says against it must be mended first")
PROPAGATING: Final = Meaning(
    error=Unavailable, remedy="EC2 takes a minute to hear of a new instance profile"
)


def meaning(error: AwsError) -> Meaning:
    """The table's, else by kind."""
    if propagating(error):
        return PROPAGATING
    found = TABLE.get(error.code)
    if found is not None:
        return found
    if denied(error) or error.status in (401, 403):
        return PERMISSION
    return PASSING if passing(error) else FINAL


def typed(error: AwsError | BadInput, doing: str) -> CloudError:
    """The error of ours, to be raised from this one; `doing` as in «launching web-1»."""
    if isinstance(error, BadInput):
        return Refused(f"{doing}: {error.message}", error.hint, reason="BadInput")
    found = meaning(error)
    return found.error(f"{doing}: {error.code}: {error.text}", found.remedy, reason=error.code)


def shortage(errors: Sequence[AwsError], doing: str) -> CloudError:
    """What a fleet that came out too small means for a claim that got nothing.

    Only where every pool has run out is there no capacity. Where errors are mixed nobody can tell
    what another try would give; where there are none at all, neither.
    """
    if not errors:
        return Unavailable(f"{doing}: EC2 launched nothing and does not say why", reason="Unknown")
    others = [error for error in errors if error.code not in CAPACITY]
    if not others:
        first = CAPACITY[errors[0].code]
        return NoCapacity(f"{doing}: {told(errors)}", first.remedy, reason=errors[0].code)
    if len(others) == len(errors) and len({error.code for error in others}) == 1:
        return typed(others[0], doing)
    return Unavailable(f"{doing}: {told(errors)}", reason=others[0].code)


def told(errors: Iterable[AwsError]) -> str:
    """Each code once, with the first message that came with it, and how often."""
    by_code: dict[str, list[str]] = {}
    for error in errors:
        by_code.setdefault(error.code, []).append(error.text)
    return "; ".join(
        f"{code}: {texts[0]}" + (f" (and {len(texts) - 1} more)" if texts[1:] else "")
        for code, texts in by_code.items()
    )
