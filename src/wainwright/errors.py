"""Everything this package raises on purpose.

WainError
├── BadInput           something the user wrote must change; never retried
│   └── Usage          the command line itself is wrong
├── Stale              a generated file is not what the code makes today
└── AwsError           what AWS answered instead of what was asked for

A pod that fits nowhere is not an error: it is a reason in the plan.
"""


class WainError(Exception):
    """What the command line prints without a traceback; `hint` says what to do."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(WainError):
    """The input cannot be used as it stands."""


class Usage(BadInput):
    """The arguments contradict each other or name nothing."""


class Stale(WainError):
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
