"""Error codes of AWS: which may be retried, and the CloudProviderError that each becomes.

Two questions decide about a retry. Was the call certainly not carried out? Then any call may be
repeated. Is that unknown, because no response came or the server failed? Then only idempotent
calls are repeated.

Codes that are not in the table are classified: a missing permission, a call that was throttled or
not answered, or a permanent error that AWS would return again on every attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from wainwright.aws.api.services import Params
from wainwright.errors import (
    AwsError,
    CloudProviderError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    InvalidInputError,
    NodeClassNotReadyError,
    RequestRejectedError,
    TemporarilyUnavailableError,
)

NO_RESPONSE: Final = 0

THROTTLING_CODES: Final = frozenset(
    {
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottledException",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
SERVER_ERROR_CODES: Final = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServerInternal",
        "ServiceUnavailable",
        "Unavailable",
    }
)
ACCESS_DENIED_CODES: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ForbiddenException",
        "NotAuthorized",
        "OptInRequired",
        "UnauthorizedAccess",
        "UnauthorizedException",
        "UnauthorizedOperation",
    }
)
SERVER_ERROR_STATUSES: Final = frozenset({NO_RESPONSE, 500, 502, 503, 504})
READ_PREFIXES: Final = ("Describe", "Get", "List", "Receive")
DELETE_PREFIXES: Final = ("Delete", "Terminate", "Untag")
# Repeated, these report that the resource is gone already, which callers treat as success.
TAGGING_OPERATIONS: Final = frozenset({"CreateTags", "TagInstanceProfile"})


class FailureKind(Enum):
    """What an error says about the call that failed."""

    FINAL = "final"
    """A definite response; a retry gives the same."""
    REFUSED = "refused"
    """Throttled: certainly not carried out, and may be retried."""
    UNKNOWN = "unknown"
    """Perhaps carried out."""


def classify_failure(error: AwsError) -> FailureKind:
    """Codes take precedence over statuses: EC2 reports insufficient capacity with status 500."""
    if error.code in THROTTLING_CODES or error.status == 429:
        return FailureKind.REFUSED
    if error.code in SERVER_ERROR_CODES or error.status == NO_RESPONSE:
        return FailureKind.UNKNOWN
    if error.code.startswith(("Insufficient", "Reservation")):
        return FailureKind.FINAL
    return FailureKind.UNKNOWN if error.status in SERVER_ERROR_STATUSES else FailureKind.FINAL


def is_transient(error: AwsError) -> bool:
    """Whether the error says nothing about the request itself, so that known state still holds."""
    return classify_failure(error) is not FailureKind.FINAL


def is_access_denied(error: AwsError) -> bool:
    """Whether a permission is missing."""
    return error.code in ACCESS_DENIED_CODES


def is_idempotent(operation: str, params: Params) -> bool:
    """Whether a repeated call has no further effect: it reads, deletes or carries a token."""
    if params.get("DryRun") or params.get("ClientToken"):
        return True
    return operation in TAGGING_OPERATIONS or operation.startswith(READ_PREFIXES + DELETE_PREFIXES)


def is_retryable(error: AwsError, operation: str, params: Params) -> bool:
    kind = classify_failure(error)
    return kind is FailureKind.REFUSED or (
        kind is FailureKind.UNKNOWN and is_idempotent(operation, params)
    )


def is_profile_propagating(error: AwsError) -> bool:
    """Whether an instance profile that IAM has just created is not visible to EC2 yet."""
    return error.code == "InvalidParameterValue" and "IAM Instance Profile" in error.text


class ErrorMeaning(msgspec.Struct, frozen=True, kw_only=True):
    error: type[CloudProviderError]
    remedy: str = ""


def _meanings(error: type[CloudProviderError], remedy: str, *codes: str) -> dict[str, ErrorMeaning]:
    return dict.fromkeys(codes, ErrorMeaning(error=error, remedy=remedy))


SPOT_ROLE_MISSING: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
INSUFFICIENT_ADDRESSES: Final = "InsufficientFreeAddressesInSubnet"
RESERVATION_CAPACITY_EXCEEDED: Final = "ReservationCapacityExceeded"

CAPACITY_ERRORS: Final[Mapping[str, ErrorMeaning]] = {
    **_meanings(
        InsufficientCapacityError,
        "allow more instance types and zones in the NodePool",
        "InsufficientCapacity",
        "InsufficientInstanceCapacity",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
    ),
    **_meanings(
        InsufficientCapacityError,
        "ask AWS for a higher quota, or allow other instance families",
        "InstanceLimitExceeded",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
    ),
    INSUFFICIENT_ADDRESSES: ErrorMeaning(
        error=InsufficientCapacityError,
        remedy="add subnets with free addresses to subnetSelectorTerms",
    ),
    RESERVATION_CAPACITY_EXCEEDED: ErrorMeaning(
        error=InsufficientCapacityError,
        remedy="the reservation is used by others; enlarge it, or select more",
    ),
    SPOT_ROLE_MISSING: ErrorMeaning(
        error=InsufficientCapacityError,
        remedy="create the service-linked role spot.amazonaws.com once, or allow on-demand",
    ),
}
"""Codes that mean that an offering has no capacity: other offerings may still have some."""

OTHER_ERRORS: Final[Mapping[str, ErrorMeaning]] = {
    **_meanings(
        InstanceNotFoundError,
        "",
        "InvalidInstanceID.Malformed",
        "InvalidInstanceID.NotFound",
    ),
    **_meanings(
        NodeClassNotReadyError,
        "what the class names is gone; it is looked up again within minutes",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Unavailable",
        "InvalidCapacityReservationId.NotFound",
        "InvalidGroup.NotFound",
        "InvalidSecurityGroupID.NotFound",
        "InvalidSubnetID.NotFound",
        "InvalidPlacementGroup.Unknown",
    ),
    **_meanings(
        TemporarilyUnavailableError,
        "",
        "IdempotentParameterMismatch",
        "IncorrectInstanceState",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
        "InvalidLaunchTemplateName.NotFoundException",
    ),
    **_meanings(
        TemporarilyUnavailableError,
        "look at the credentials of the controller",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "NoCredentials",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ),
    **_meanings(
        RequestRejectedError,
        "AWS support has to look at the account",
        "Blocked",
        "OptInRequired",
        "PendingVerification",
    ),
    **_meanings(
        RequestRejectedError,
        "delete launch templates that nobody uses, or ask AWS for a higher quota",
        "VersionLimitExceeded",
        "InvalidLaunchTemplateLimit.Exceeded",
        "LaunchTemplateLimitExceeded",
    ),
    **_meanings(
        RequestRejectedError,
        "shorten userData in the EC2NodeClass",
        "InvalidUserData.Malformed",
    ),
}
ERROR_MEANINGS: Final[Mapping[str, ErrorMeaning]] = {**CAPACITY_ERRORS, **OTHER_ERRORS}

PERMISSION_DENIED: Final = ErrorMeaning(
    error=RequestRejectedError, remedy="give the controller's role the permission for this call"
)
TRANSIENT: Final = ErrorMeaning(error=TemporarilyUnavailableError)
PERMANENT: Final = ErrorMeaning(error=RequestRejectedError, remedy="correct what AWS rejects first")
PROFILE_PROPAGATING: Final = ErrorMeaning(
    error=TemporarilyUnavailableError, remedy="EC2 takes a minute to hear of a new instance profile"
)


def error_meaning(error: AwsError) -> ErrorMeaning:
    """The table's entry, else by classification."""
    if is_profile_propagating(error):
        return PROFILE_PROPAGATING
    meaning = ERROR_MEANINGS.get(error.code)
    if meaning is not None:
        return meaning
    if is_access_denied(error) or error.status in (401, 403):
        return PERMISSION_DENIED
    return TRANSIENT if is_transient(error) else PERMANENT


def to_cloud_error(error: AwsError | InvalidInputError, doing: str) -> CloudProviderError:
    """The CloudProviderError to raise from this one; `doing` as in «launching web-1»."""
    if isinstance(error, InvalidInputError):
        return RequestRejectedError(f"{doing}: {error.message}", error.hint, reason="BadInput")
    meaning = error_meaning(error)
    return meaning.error(f"{doing}: {error.code}: {error.text}", meaning.remedy, reason=error.code)


def fleet_shortfall_error(errors: Sequence[AwsError], doing: str) -> CloudProviderError:
    """The error for a claim that got no instance from a fleet that was only partly fulfilled.

    It is insufficient capacity only if every error says so. If errors are mixed, or there are
    none, the outcome of another attempt is unknown, so the launch is retried.
    """
    if not errors:
        return TemporarilyUnavailableError(
            f"{doing}: EC2 launched nothing and does not say why", reason="Unknown"
        )
    others = [error for error in errors if error.code not in CAPACITY_ERRORS]
    if not others:
        first = CAPACITY_ERRORS[errors[0].code]
        return InsufficientCapacityError(
            f"{doing}: {summarize_errors(errors)}", first.remedy, reason=errors[0].code
        )
    if len(others) == len(errors) and len({error.code for error in others}) == 1:
        return to_cloud_error(others[0], doing)
    return TemporarilyUnavailableError(
        f"{doing}: {summarize_errors(errors)}", reason=others[0].code
    )


def summarize_errors(errors: Iterable[AwsError]) -> str:
    """Each code once, with its first message and how many more there were."""
    by_code: dict[str, list[str]] = {}
    for error in errors:
        by_code.setdefault(error.code, []).append(error.text)
    return "; ".join(
        f"{code}: {texts[0]}" + (f" (and {len(texts) - 1} more)" if texts[1:] else "")
        for code, texts in by_code.items()
    )
