"""Cases: small stories that are told to every door and must end in the same way."""

from collections.abc import Callable
from itertools import count
from typing import TypeAlias

import msgspec
from tests.contract.doors import Door

Story: TypeAlias = Callable[[Door], None]

CASES: dict[str, "Case"] = {}
_numbers = count(1)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    story: Story
    moto_wrong: str = ""
    """Why moto ends it in another way; empty where it agrees. Checked: it must not end well."""


def case(moto_wrong: str = "") -> Callable[[Story], Story]:
    """Adds a story; its name is the function's."""

    def add(story: Story) -> Story:
        subject = story.__module__.rpartition(".")[2]
        name = f"{subject}: {story.__name__.replace('_', ' ')}"
        assert name not in CASES, name
        CASES[name] = Case(story=story, moto_wrong=moto_wrong)
        return story

    return add


def fresh_name(prefix: str) -> str:
    """A name that no other story has: they all live in one account."""
    return f"{prefix}-{next(_numbers)}"
