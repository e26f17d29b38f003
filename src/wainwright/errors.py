"""Every error that this package raises on purpose.

WainError
├── InvalidInputError                the user's input must change; never retried
│   └── UsageError                   the command line itself is wrong
├── StaleFileError                   a generated file differs from what the code generates now
├── AwsError                         an error response of AWS, or no response
├── CloudProviderError               a failed operation of a cloud; each subclass has a consequence
│   ├── InsufficientCapacityError    no capacity now: the claim is deleted, its pods planned again
│   ├── RequestRejectedError         rejected every time: the claim waits until the cause is fixed
│   ├── TemporarilyUnavailableError  failed for now, or outcome unknown: the same is retried later
│   ├── NodeClassNotReadyError       class cannot be launched from: claim deleted, its pods wait
│   └── InstanceNotFoundError        the instance is gone: operations on it count as done
└── KubernetesError                  an API server's refusal, or no response
    ├── ObjectNotFoundError          404: the object, or its namespace, does not exist
    ├── AlreadyExistsError           409: an object of that name exists
    ├── ConflictError                409: the object has changed, or is another one by now
    ├── ResourceVersionGoneError     410: too old to watch from; list again
    ├── InvalidObjectError           422: fields that the API server does not accept
    ├── RequestForbiddenError        400, 401, 403: refused whatever the object's state
    ├── CredentialsError             no request was made: there is nothing to make it with
    ├── NotLeaderError               no request was made: this process does not lead
    ├── TooManyRequestsError         429: later
    │   └── EvictionBlockedError     a PodDisruptionBudget does not allow the eviction now
    └── ServerUnavailableError       5xx, or no response: the outcome may be unknown
        └── WatchSilentError         a watch without a sign of life: list again

A pod that fits nowhere is not an error: it is a reason in the plan.
"""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple


class WainError(Exception):
    """Printed by the command line without a traceback; `hint` says what to do."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInputError(WainError):
    """The input cannot be used as it stands. The text includes the hint, for use in notebooks."""

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(InvalidInputError):
    """The arguments contradict each other or name nothing."""


class StaleFileError(WainError):
    """A committed file differs from what would be generated now."""


class AwsError(WainError):
    """An error of an AWS call: its code, its message, its HTTP status.

    Status 0 means that no response came: the request may or may not have been carried out.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.text = message
        self.status = status


class CloudProviderError(WainError):
    """A failed operation of a cloud. `reason` is one word for conditions and metrics."""

    consequence: ClassVar[str]
    """What a controller that catches it does, as the rest of a sentence."""

    def __init__(self, message: str, hint: str = "", *, reason: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason or type(self).__name__.removesuffix("Error")
        self.has_own_reason = bool(reason)


class InsufficientCapacityError(CloudProviderError):
    """No offering that the claim allows has capacity now."""

    consequence = "the NodeClaim is deleted, and its pods are scheduled again without this offering"


class RequestRejectedError(CloudProviderError):
    """The cloud rejects the request, however often it is retried."""

    consequence = "the NodeClaim says why, and is tried again only after a long while"


class TemporarilyUnavailableError(CloudProviderError):
    """The request failed for now, or its outcome is not known yet.

    `retry_after` is how many seconds to wait before retrying; 0 leaves it to the caller.
    """

    consequence = "the same is tried again later"

    def __init__(
        self, message: str, hint: str = "", *, reason: str = "", retry_after: float = 0.0
    ) -> None:
        super().__init__(message, hint, reason=reason)
        self.retry_after = retry_after


class NodeClassNotReadyError(CloudProviderError):
    """The node class cannot be launched from in its current state."""

    consequence = "the NodeClaim is deleted, and its pods wait until the EC2NodeClass is ready"


class InstanceNotFoundError(CloudProviderError):
    """The instance does not exist, or no longer exists."""

    consequence = "whatever was to be done to it counts as done"


class KubernetesError(WainError):
    """An API server's refusal. `status` is its HTTP status; 0 if no response came."""

    status: int = 0


class ObjectNotFoundError(KubernetesError):
    """The object, or the namespace that it would be in, does not exist."""

    status = 404


class AlreadyExistsError(KubernetesError):
    """An object of that name exists; it may be one that is being deleted."""

    status = 409


class ConflictError(KubernetesError):
    """A precondition failed: the object has another resourceVersion or uid by now."""

    status = 409


class ResourceVersionGoneError(KubernetesError):
    """The changes since that resourceVersion are no longer known: list, then watch from there."""

    status = 410


class InvalidField(NamedTuple):
    """One field of an object that was refused."""

    field: str
    """Its path, such as spec.template.spec.requirements[0].key."""
    reason: str
    """One of the API server's words, such as FieldValueInvalid; empty where it is not known."""
    message: str


class InvalidObjectError(KubernetesError):
    """Fields have values that the API server does not accept; nothing was changed."""

    status = 422

    def __init__(self, message: str, fields: Iterable[InvalidField] = ()) -> None:
        super().__init__(message)
        self.fields = tuple(fields)


class RequestForbiddenError(KubernetesError):
    """Refused by authentication, authorization or admission, or not a sensible request."""

    def __init__(self, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.status = status


class CredentialsError(KubernetesError):
    """There is nothing to ask an API server with: a file, a certificate or a plugin fails."""

    status = 401


class NotLeaderError(KubernetesError):
    """A write of a process that does not lead, or no longer does; it was not sent."""

    def __init__(self) -> None:
        super().__init__("another process leads, or may do so by now")


class TooManyRequestsError(KubernetesError):
    """`retry_after` is how many seconds to wait; 0 leaves it to the caller."""

    status = 429

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EvictionBlockedError(TooManyRequestsError):
    """A PodDisruptionBudget does not allow the eviction now, or the pod has more than one."""


class ServerUnavailableError(KubernetesError):
    """The API server failed or did not answer: a write may or may not have been carried out."""

    def __init__(self, message: str, status: int = 0, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class WatchSilentError(ServerUnavailableError):
    """Nothing has come by a watch for longer than bookmarks take: nobody is there, or the server
    does not know the version yet that the watch began from. List again.
    """
