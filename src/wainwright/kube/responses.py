"""What an API server answers when it refuses, as the errors of the port."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from wainwright.errors import (
    AlreadyExistsError,
    ConflictError,
    EvictionBlockedError,
    InvalidField,
    InvalidObjectError,
    KubernetesError,
    ObjectNotFoundError,
    RequestForbiddenError,
    ResourceVersionGoneError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.whole_numbers import parse_whole_number

NO_FIELD: Final = "<nil>"
"""The field of a cause that only says that validation stopped early."""
SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
"""Part of the message, with status 500, for a pod that several budgets cover."""


class StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True):
    causes: list[StatusCause] | None = None
    retryAfterSeconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True):
    """metav1.Status: the body of every refusal, and the object of an ERROR event."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None

    @property
    def causes(self) -> list[StatusCause]:
        return (self.details.causes if self.details else None) or []


def read_status(http_status: int, body: bytes) -> ApiStatus:
    """The Status in the body, or one made of the bare text where something else was sent."""
    try:
        status = msgspec.json.decode(body, type=ApiStatus)
    except msgspec.DecodeError:
        return ApiStatus(message=body.decode(errors="replace")[:500], code=http_status)
    return msgspec.structs.replace(status, code=http_status)


def error_from_status(status: ApiStatus, headers: Mapping[str, str]) -> KubernetesError:
    """The error to raise for a response with this status."""
    if status.code == HTTPStatus.NOT_FOUND:
        return ObjectNotFoundError(status.message)
    if status.code == HTTPStatus.CONFLICT:
        exists = status.reason == "AlreadyExists"
        return (AlreadyExistsError if exists else ConflictError)(status.message)
    if status.code == HTTPStatus.GONE:
        return ResourceVersionGoneError(status.message)
    if status.code == HTTPStatus.UNPROCESSABLE_ENTITY:
        return InvalidObjectError(status.message, _invalid_fields(status))
    if status.code == HTTPStatus.TOO_MANY_REQUESTS:
        return _too_many_requests(status, headers)
    if SEVERAL_BUDGETS in status.message:
        return EvictionBlockedError(status.message)
    if status.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        after = _retry_after(status, headers)
        return ServerUnavailableError(status.message, status.code, retry_after=after)
    return RequestForbiddenError(status.message, status.code)


def _invalid_fields(status: ApiStatus) -> list[InvalidField]:
    """Each field once: the API server repeats some causes."""
    fields = [InvalidField(c.field, c.reason, c.message) for c in status.causes]
    return [field for field in dict.fromkeys(fields) if field.field != NO_FIELD]


def _too_many_requests(status: ApiStatus, headers: Mapping[str, str]) -> TooManyRequestsError:
    after = _retry_after(status, headers)
    budgets = [c.message for c in status.causes if c.reason == "DisruptionBudget"]
    if budgets:
        return EvictionBlockedError(" ".join((status.message, *budgets)), retry_after=after)
    return TooManyRequestsError(status.message, retry_after=after)


def _retry_after(status: ApiStatus, headers: Mapping[str, str]) -> float:
    stated = parse_whole_number(headers.get("Retry-After", ""))
    if stated is not None:
        return float(stated)
    return float(status.details.retryAfterSeconds) if status.details else 0.0
