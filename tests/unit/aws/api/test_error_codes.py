"""Error codes of AWS: one CloudProviderError for every code."""

import pytest

from wainwright.aws.api.error_codes import (
    CAPACITY_ERRORS,
    ERROR_MEANINGS,
    fleet_shortfall_error,
    to_cloud_error,
)
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

MEANINGS = [
    ("InsufficientInstanceCapacity", 500, InsufficientCapacityError),
    ("MaxSpotInstanceCountExceeded", 400, InsufficientCapacityError),
    ("VcpuLimitExceeded", 400, InsufficientCapacityError),
    ("UnfulfillableCapacity", 400, InsufficientCapacityError),
    ("Unsupported", 400, InsufficientCapacityError),
    ("InsufficientFreeAddressesInSubnet", 400, InsufficientCapacityError),
    ("MaxFleetCountExceeded", 400, InsufficientCapacityError),
    ("ReservationCapacityExceeded", 400, InsufficientCapacityError),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403, InsufficientCapacityError),
    ("UnauthorizedOperation", 403, RequestRejectedError),
    ("AccessDeniedException", 400, RequestRejectedError),
    ("SomethingForbidden", 403, RequestRejectedError),
    ("InvalidParameterValue", 400, RequestRejectedError),
    ("InvalidUserData.Malformed", 400, RequestRejectedError),
    ("NobodyHasHeardOfThis", 400, RequestRejectedError),
    ("RequestLimitExceeded", 503, TemporarilyUnavailableError),
    ("InternalError", 500, TemporarilyUnavailableError),
    ("ConnectionFailed", 0, TemporarilyUnavailableError),
    ("NoCredentials", 401, TemporarilyUnavailableError),
    ("InvalidLaunchTemplateName.NotFoundException", 400, TemporarilyUnavailableError),
    ("InvalidSubnetID.NotFound", 400, NodeClassNotReadyError),
    ("InvalidAMIID.NotFound", 400, NodeClassNotReadyError),
    ("InvalidInstanceID.NotFound", 400, InstanceNotFoundError),
]


@pytest.mark.parametrize(("code", "status", "kind"), MEANINGS)
def test_every_code_has_one_meaning(code: str, status: int, kind: type[CloudProviderError]) -> None:
    found = to_cloud_error(AwsError(code, "so it is", status), "launching web-1")
    assert type(found) is kind
    assert found.reason == code
    assert found.message == f"launching web-1: {code}: so it is"
    assert found.consequence


def test_errors_that_need_action_have_a_remedy() -> None:
    silent = {
        code
        for code, found in ERROR_MEANINGS.items()
        if not found.remedy and found.error is RequestRejectedError
    }
    assert not silent
    assert all(
        found.error is InsufficientCapacityError and found.remedy
        for found in CAPACITY_ERRORS.values()
    )


def test_a_propagating_instance_profile_is_a_temporary_error() -> None:
    error = AwsError("InvalidParameterValue", "Invalid IAM Instance Profile name")
    assert type(to_cloud_error(error, "launching web-1")) is TemporarilyUnavailableError


def test_invalid_input_is_rejected_with_its_hint() -> None:
    found = to_cloud_error(
        InvalidInputError("userData is too large", "shorten it"), "launching web-1"
    )
    assert (type(found), found.hint) == (RequestRejectedError, "shorten it")


def errors(*codes: str) -> list[AwsError]:
    return [AwsError(code, f"about {code}") for code in codes]


SHORT = "InsufficientInstanceCapacity"
SHORTAGES = [
    ((SHORT, SHORT), InsufficientCapacityError),
    ((SHORT, "ReservationCapacityExceeded"), InsufficientCapacityError),
    ((SHORT, "InvalidParameterValue"), TemporarilyUnavailableError),
    (("InvalidParameterValue", "InvalidParameterValue"), RequestRejectedError),
    (("InvalidParameterValue", "UnauthorizedOperation"), TemporarilyUnavailableError),
    (("RequestLimitExceeded",), TemporarilyUnavailableError),
    ((), TemporarilyUnavailableError),
]


@pytest.mark.parametrize(("codes", "kind"), SHORTAGES)
def test_insufficient_capacity_only_if_every_offering_ran_out(
    codes: tuple[str, ...], kind: type[CloudProviderError]
) -> None:
    assert type(fleet_shortfall_error(errors(*codes), "launching web-1")) is kind


def test_each_error_code_is_summarized_once() -> None:
    found = fleet_shortfall_error(errors(SHORT, SHORT, SHORT, "Unsupported"), "launching web-1")
    assert found.message == (
        f"launching web-1: {SHORT}: about {SHORT} (and 2 more); Unsupported: about Unsupported"
    )
