"""What AWS says and what it means: one error of ours for every code."""

import pytest

from wainwright.aws.codes import CAPACITY, TABLE, shortage, typed
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

MEANINGS = [
    ("InsufficientInstanceCapacity", 500, NoCapacity),
    ("MaxSpotInstanceCountExceeded", 400, NoCapacity),
    ("VcpuLimitExceeded", 400, NoCapacity),
    ("UnfulfillableCapacity", 400, NoCapacity),
    ("Unsupported", 400, NoCapacity),
    ("InsufficientFreeAddressesInSubnet", 400, NoCapacity),
    ("MaxFleetCountExceeded", 400, NoCapacity),
    ("ReservationCapacityExceeded", 400, NoCapacity),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403, NoCapacity),
    ("UnauthorizedOperation", 403, Refused),
    ("AccessDeniedException", 400, Refused),
    ("SomethingForbidden", 403, Refused),
    ("InvalidParameterValue", 400, Refused),
    ("InvalidUserData.Malformed", 400, Refused),
    ("NobodyHasHeardOfThis", 400, Refused),
    ("RequestLimitExceeded", 503, Unavailable),
    ("InternalError", 500, Unavailable),
    ("ConnectionFailed", 0, Unavailable),
    ("NoCredentials", 401, Unavailable),
    ("InvalidLaunchTemplateName.NotFoundException", 400, Unavailable),
    ("InvalidSubnetID.NotFound", 400, ClassNotReady),
    ("InvalidAMIID.NotFound", 400, ClassNotReady),
    ("InvalidInstanceID.NotFound", 400, NotFound),
]


@pytest.mark.parametrize(("code", "status", "kind"), MEANINGS)
def test_every_code_has_one_meaning(code: str, status: int, kind: type[CloudError]) -> None:
    found = typed(AwsError(code, "so it is", status), "launching web-1")
    assert type(found) is kind
    assert found.reason == code
    assert found.message == f"launching web-1: {code}: so it is"
    assert found.what_next


def test_who_must_do_something_is_told_what() -> None:
    silent = {code for code, found in TABLE.items() if not found.remedy and found.error is Refused}
    assert not silent
    assert all(found.error is NoCapacity and found.remedy for found in CAPACITY.values())


def test_a_profile_that_ec2_has_not_heard_of_is_no_refusal() -> None:
    error = AwsError("InvalidParameterValue", "Invalid IAM Instance Profile name")
    assert type(typed(error, "launching web-1")) is Unavailable


def test_what_users_wrote_is_refused_with_their_hint() -> None:
    found = typed(BadInput("userData is too large", "shorten it"), "launching web-1")
    assert (type(found), found.hint) == (Refused, "shorten it")


def errors(*codes: str) -> list[AwsError]:
    return [AwsError(code, f"about {code}") for code in codes]


SHORT = "InsufficientInstanceCapacity"
SHORTAGES = [
    ((SHORT, SHORT), NoCapacity),
    ((SHORT, "ReservationCapacityExceeded"), NoCapacity),
    ((SHORT, "InvalidParameterValue"), Unavailable),
    (("InvalidParameterValue", "InvalidParameterValue"), Refused),
    (("InvalidParameterValue", "UnauthorizedOperation"), Unavailable),
    (("RequestLimitExceeded",), Unavailable),
    ((), Unavailable),
]


@pytest.mark.parametrize(("codes", "kind"), SHORTAGES)
def test_there_is_no_capacity_only_where_every_pool_ran_out(
    codes: tuple[str, ...], kind: type[CloudError]
) -> None:
    assert type(shortage(errors(*codes), "launching web-1")) is kind


def test_errors_are_told_once_each() -> None:
    found = shortage(errors(SHORT, SHORT, SHORT, "Unsupported"), "launching web-1")
    assert found.message == (
        f"launching web-1: {SHORT}: about {SHORT} (and 2 more); Unsupported: about Unsupported"
    )
