"""Everything this package raises on purpose.

WainError
├── BadInput           something the user wrote must change; never retried
│   └── Usage          the command line itself is wrong
└── Stale              a generated file is not what the code makes today

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
