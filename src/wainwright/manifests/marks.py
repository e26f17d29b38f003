"""Where in a file a value stands: a tree of line numbers beside the tree of values."""

from collections.abc import Sequence

import msgspec

Step = str | int
Path = tuple[Step, ...]


class Marks(msgspec.Struct):
    """The line of a value and, where it has parts, of each part and of its key."""

    line: int
    parts: "dict[Step, Marks]" = msgspec.field(default_factory=dict)
    key_line: int | None = None
    """Where a mapping entry's key stands; the value may begin lines below it."""


def line_of(marks: Marks, path: Sequence[Step]) -> int:
    """The line of the value at the path, or of the nearest thing around it that exists."""
    for step in path:
        inner = marks.parts.get(step)
        if inner is None:
            break
        marks = inner
    return marks.line if marks.key_line is None else marks.key_line
