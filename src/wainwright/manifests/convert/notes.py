"""What the author of an old document must know of its conversion, with the place it is about."""

from typing import Literal

import msgspec

from wainwright.api.fault import Path

Effect = Literal["assumed", "changed", "lost", "missing"]
"""assumed: it was not written and has been chosen. changed: it now means or is called something
else. lost: it could not be carried over. missing: a placeholder stands where something must be
filled in."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to know."""

    document: int
    """Which document of the input, counted from 0."""
    path: Path
    effect: Effect
    message: str
