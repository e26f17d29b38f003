"""Cron schedules of disruption budgets, in UTC: five fields, or @daily and the like.

The dialect is that of Go's robfig/cron, which Karpenter uses: names of months and weekdays, ranges,
steps, `?` for `*`. If both day fields are restricted, a day that matches either of them matches.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

from wainwright.whole_numbers import parse_whole_number

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS: Final = dict(
    zip(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
        range(1, 13),
        strict=True,
    )
)
WEEKDAYS: Final = dict(
    zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True)
)
BOUNDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, MONTHS),
    (0, 6, WEEKDAYS),
)
EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC).timestamp()
"""A budget that lasts a million years would ask for times before any calendar."""
YEARS_SEARCHED: Final = 5
"""A schedule such as 30 February never comes; one on 29 February comes within five years."""


class InvalidScheduleError(ValueError):
    """The text is no cron schedule; the message says which part."""


class CronSchedule(msgspec.Struct, frozen=True, kw_only=True):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    any_day: bool
    any_weekday: bool

    def next_after(self, moment: float) -> float | None:
        """The first time after the moment at which it is due; None if it never is."""
        start = datetime.fromtimestamp(max(moment, EARLIEST), UTC).replace(second=0, microsecond=0)
        at = start + timedelta(minutes=1)
        limit = at.replace(year=at.year + YEARS_SEARCHED, day=1)
        while at < limit:
            if at.month not in self.months:
                at = _next_month(at)
            elif not self._is_day(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        return None

    def _is_day(self, at: datetime) -> bool:
        by_day, by_weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday


def _next_month(at: datetime) -> datetime:
    first = at.replace(day=1, hour=0, minute=0)
    return (first + timedelta(days=32)).replace(day=1)


@lru_cache(maxsize=256)
def parse_schedule(text: str) -> CronSchedule:
    """Raises InvalidScheduleError."""
    fields = MACROS.get(text, text).split()
    if len(fields) != len(BOUNDS):
        raise InvalidScheduleError(f"{text!r} has {len(fields)} fields, not five")
    minutes, hours, days, months, weekdays = (
        frozenset(_values(field, *bounds)) for field, bounds in zip(fields, BOUNDS, strict=True)
    )
    return CronSchedule(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=_is_open(fields[2]),
        any_weekday=_is_open(fields[4]),
    )


def _is_open(field: str) -> bool:
    """Whether the field admits everything; with a step it is a restriction."""
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _values(field: str, low: int, high: int, names: dict[str, int]) -> Iterator[int]:
    for part in field.split(","):
        span, slash, step = part.partition("/")
        first, last = _span(span, low, high, names)
        if slash and "-" not in span and span not in ("*", "?"):
            last = high  # 5/10 means from 5 on
        width = parse_whole_number(step) if slash else 1
        if not width:
            raise InvalidScheduleError(f"{step!r} is not a step of {field!r}")
        yield from range(first, last + 1, width)


def _span(span: str, low: int, high: int, names: dict[str, int]) -> tuple[int, int]:
    if span in ("*", "?"):
        return low, high
    start, dash, end = span.partition("-")
    first = _number(start, names)
    last = _number(end, names) if dash else first
    if not low <= first <= last <= high:
        raise InvalidScheduleError(f"{span!r} is not between {low} and {high}")
    return first, last


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    number = parse_whole_number(text)
    if number is None:
        raise InvalidScheduleError(f"{text!r} is not a number")
    return number
