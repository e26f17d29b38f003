"""Operations: what a call may be asked twice, and which errors pass by themselves.

Two questions decide about a second try. Was the first one surely not carried out? Then anything may
be repeated. Is it unknown, because no answer came or the server broke down over it? Then only what
does no more the second time than the first.
"""

from enum import Enum
from typing import Final

from wainwright.aws.seam import Params
from wainwright.errors import AwsError

NO_ANSWER: Final = 0

THROTTLED: Final = frozenset(
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
BROKEN: Final = frozenset(
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
DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "NotAuthorized",
        "OptInRequired",
        "UnauthorizedAccess",
        "UnauthorizedOperation",
    }
)
BROKEN_STATUSES: Final = frozenset({NO_ANSWER, 500, 502, 503, 504})
READING: Final = ("Describe", "Get", "List", "Receive")
UNDOING: Final = ("Delete", "Terminate", "Untag")
# A second time these answer that nothing is left to do, which callers take for done.
SETTING: Final = frozenset({"CreateTags", "TagInstanceProfile"})


class Failure(Enum):
    """What an error says about the call that met it."""

    FINAL = "final"
    """An answer; asking again gives the same."""
    REFUSED = "refused"
    """Not carried out, for now: too many calls."""
    UNKNOWN = "unknown"
    """Perhaps carried out."""


def failure(error: AwsError) -> Failure:
    """Codes go before statuses: EC2 says with status 500 that it has no such machine left."""
    if error.code in THROTTLED or error.status == 429:
        return Failure.REFUSED
    if error.code in BROKEN or error.status == NO_ANSWER:
        return Failure.UNKNOWN
    if error.code.startswith(("Insufficient", "Reservation")):
        return Failure.FINAL
    return Failure.UNKNOWN if error.status in BROKEN_STATUSES else Failure.FINAL


def passing(error: AwsError) -> bool:
    """Whether the error says nothing about what was asked, so that what was known still holds."""
    return failure(error) is not Failure.FINAL


def denied(error: AwsError) -> bool:
    """Whether somebody has to be given a permission first."""
    return error.code in DENIED


def repeatable(operation: str, params: Params) -> bool:
    """Whether the second call does no more than the first: it reads, undoes or carries a token."""
    if params.get("DryRun") or params.get("ClientToken"):
        return True
    return operation in SETTING or operation.startswith(READING + UNDOING)


def worth_repeating(error: AwsError, operation: str, params: Params) -> bool:
    kind = failure(error)
    return kind is Failure.REFUSED or (kind is Failure.UNKNOWN and repeatable(operation, params))
