"""Lines: what a demanding client asks of EC2, call by call, and reads from the answers.

A line is named by its section: what is sent at start-up and in daily work ("calls"), the two big
requests ("big"), how often ("counts"), the errors of a fleet ("errors"), and what an emulator must
do for it ("needs").
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from tests.contract.doors import OverHttp

Told: TypeAlias = Callable[[OverHttp], None]
LINES: dict[str, "Line"] = {}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    told: Told
    names: tuple[str, ...]
    alone: bool
    """Whether it needs an account of its own."""


def line(*names: str, alone: bool = False) -> Callable[[Told], Told]:
    """Adds a story that tells these lines."""

    def add(told: Told) -> Told:
        key = f"{', '.join(names)}: {told.__name__.replace('_', ' ')}"
        assert key not in LINES, key
        LINES[key] = Line(told=told, names=names, alone=alone)
        return told

    return add
