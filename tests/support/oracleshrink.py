"""A smaller world that is still wrong: things are left out one by one while they do not matter."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace
from tests.support.oracleworlds import World

from wainwright.model.labels import CAPACITY_TYPE, ZONE

Wrong = Callable[[World], bool]

KEPT: Final = frozenset(
    "apiVersion kind metadata name namespace uid creationTimestamp ownerReferences spec template"
    " containers cpu memory pods nodeClassRef requirements matchExpressions matchLabelExpressions"
    " labelSelector key operator values volumeBindingMode offerings labels price available"
    f" reservationID capacity overhead {ZONE} {CAPACITY_TYPE}".split()
)
"""Without these a document is not a smaller one but a wrong one."""
NEVER_EMPTY: Final = frozenset(
    {"matchExpressions", "matchLabelExpressions", "nodeSelectorTerms", "values"}
)
"""To ask for none of something is another thing than to ask for nothing."""


def shrunk(world: World, wrong: Wrong) -> World:
    """The smallest world that this finds in which the wrong is still to be seen."""
    before = None
    while before != world:
        before = world
        for part in ("objects", "types"):
            world = _fewer(world, part, wrong)
        for part in ("objects", "types"):
            world = _simpler(world, part, wrong)
    return world


def _fewer(world: World, part: str, wrong: Wrong) -> World:
    """Leaves out many at a time first, then ever fewer."""
    size = len(getattr(world, part)) // 2
    while size:
        start = 0
        while start < len(getattr(world, part)):
            items = getattr(world, part)
            tried = replace(world, **{part: items[:start] + items[start + size :]})
            if wrong(tried):
                world = tried
            else:
                start += size
        size //= 2
    return world


def _simpler(world: World, part: str, wrong: Wrong) -> World:
    """Leaves out parts of single documents."""
    for number in range(len(getattr(world, part))):
        progress = True
        while progress:
            progress = False
            items = getattr(world, part)
            for smaller in _without_one(items[number]):
                tried = replace(world, **{part: (*items[:number], smaller, *items[number + 1 :])})
                if wrong(tried):
                    world, progress = tried, True
                    break
    return world


def _without_one(value: Any) -> Iterator[Any]:
    """The value with one thing in it left out, larger things first."""
    if isinstance(value, dict):
        yield from (
            {k: each for k, each in value.items() if k != key} for key in value if key not in KEPT
        )
        for key, each in value.items():
            filled = (
                _without_one(each) if key not in NEVER_EMPTY else filter(None, _without_one(each))
            )
            yield from ({**value, key: smaller} for smaller in filled)
    elif isinstance(value, list):
        numbers = range(len(value))
        yield from ([*value[:number], *value[number + 1 :]] for number in numbers)
        for number in numbers:
            head, tail = value[:number], value[number + 1 :]
            yield from ([*head, smaller, *tail] for smaller in _without_one(value[number]))
