"""Everything this package raises on purpose.

WainError
├── InvalidInputError                something the user wrote must change; never retried
│   └── UsageError                   the command line itself is wrong
├── StaleFileError                   a generated file is not what the code makes today
├── AwsError                         what AWS answered instead of what was asked for
└── CloudProviderError               what a cloud could not do; each kind has its own consequence
    ├── InsufficientCapacityError    not to be had now: the claim goes, its pods are planned anew
    ├── RequestRejectedError         will be rejected every time: the claim waits for a mended cause
    ├── TemporarilyUnavailableError  not just now, or not clear yet: the same is asked again later
    ├── NodeClassNotReadyError       cannot be launched from: the claim goes, its pods wait for it
    └── InstanceNotFoundError        no such instance any more: what was to be done to it is done

A pod that fits nowhere is not an error: it is a reason in the plan.
"""

from typing import ClassVar


class WainError(Exception):
    """What the command line prints without a traceback; `hint` says what to do."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInputError(WainError):
    """The input cannot be used as it stands. In a notebook, too, the reader sees what to do."""

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(InvalidInputError):
    """The arguments contradict each other or name nothing."""


class StaleFileError(WainError):
    """A committed file differs from what would be generated now."""


class AwsError(WainError):
    """An answer of AWS that is none: its code, its message, its HTTP status.

    Status 0 means that no answer came: whatever was asked may or may not have happened.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.text = message
        self.status = status


class CloudProviderError(WainError):
    """What a cloud could not do. `reason` is one word for conditions and metrics."""

    what_next: ClassVar[str]
    """What whoever catches it does, as the rest of a sentence."""

    def __init__(self, message: str, hint: str = "", *, reason: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason or type(self).__name__.removesuffix("Error")


class InsufficientCapacityError(CloudProviderError):
    """Nothing of what the claim may buy can be had now."""

    what_next = "the claim is deleted, and its pods are planned anew with what is left"


class RequestRejectedError(CloudProviderError):
    """The cloud will not do it, however often it is asked."""

    what_next = "the claim says why, and is tried again only after a long while"


class TemporarilyUnavailableError(CloudProviderError):
    """The cloud cannot do it now, or has not said yet whether it did.

    `after` is how many seconds to wait before asking again; 0 leaves it to the caller.
    """

    what_next = "the same is tried again later"

    def __init__(
        self, message: str, hint: str = "", *, reason: str = "", after: float = 0.0
    ) -> None:
        super().__init__(message, hint, reason=reason)
        self.after = after


class NodeClassNotReadyError(CloudProviderError):
    """The node class cannot be launched from, at least not as it stands."""

    what_next = "the claim is deleted, and its pods wait until the class is ready"


class InstanceNotFoundError(CloudProviderError):
    """There is no such instance, or there is none any more."""

    what_next = "whatever was to be done to it counts as done"
