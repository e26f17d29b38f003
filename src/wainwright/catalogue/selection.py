"""What all classes of an input select together: the reservations in use, and those passed over."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from wainwright.catalogue.built import Built
from wainwright.catalogue.reservations import Selected, Standing, timing

MOST: Final = 5  # names in one note
TOLD_BY_EACH_CLASS: Final = (Standing.NO_SUCH_ZONE, Standing.NO_SUCH_TYPE)
"""Of those that name what does not exist the catalogue of each class speaks."""


def offered(built: Iterable[Built]) -> list[Selected]:
    """The reservations that some class selects and can use, each once, in the order of ids."""
    found: dict[str, Selected] = {}
    for one in built:
        for selected in one.reservations:
            if selected.is_offered:
                found.setdefault(selected.reservation.id, selected)
    return [found[name] for name in sorted(found)]


def passed_over(built: Iterable[Built]) -> list[Selected]:
    """Those that classes select and that none of them can use."""
    several = tuple(built)
    used = {each.reservation.id for each in offered(several)}
    found: dict[str, Selected] = {}
    for one in several:
        for selected in one.reservations:
            if selected.reservation.id not in used:
                found.setdefault(selected.reservation.id, selected)
    return [found[name] for name in sorted(found)]


def still_runs(selected: Selected, now: datetime) -> bool:
    """Whether it is there, and so paid for, whoever may use it."""
    return timing(selected.reservation, now) in (Standing.OFFERED, Standing.ENDING)


def said_of(unused: Sequence[Selected]) -> Iterator[str]:
    """A sentence for each reason; nobody sees by himself that a reservation is left aside."""
    for standing in Standing:
        ids = [each.reservation.id for each in unused if each.standing is standing]
        if ids and standing not in TOLD_BY_EACH_CLASS:
            yield _sentence(ids, standing.value)


def _sentence(ids: Sequence[str], why: str) -> str:
    if len(ids) == 1:
        return f"capacity reservation {ids[0]} is selected but cannot be used: it {why}"
    more = f" and {len(ids) - MOST:,} more" if len(ids) > MOST else ""
    named = f"{', '.join(ids[:MOST])}{more}"
    return f"capacity reservations {named} are selected but cannot be used: each {why}"
