"""Bugs that can be planted: each replaces one function of the controllers by a wrong one.

`make chaos-proof` plants them one by one, and each must be found.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec


class PlantedBug(msgspec.Struct, frozen=True, kw_only=True):
    owner: Any
    """The class or module."""
    function: str
    replacement: Callable[..., Any]
    says: str
    """What is wrong then."""


BUGS: Final[dict[str, PlantedBug]] = {}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Meanwhile the bug is in force."""
    bug = BUGS[name]
    original = bug.owner.__dict__[bug.function]
    setattr(bug.owner, bug.function, bug.replacement)
    try:
        yield
    finally:
        setattr(bug.owner, bug.function, original)
