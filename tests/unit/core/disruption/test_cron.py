"""Cron schedules, against a version that looks at every minute."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.core.disruption.cron import InvalidScheduleError, parse_schedule


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def following(schedule: str, after: str) -> str | None:
    found = parse_schedule(schedule).next_after(moment(after))
    return None if found is None else f"{datetime.fromtimestamp(found, UTC):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 9 * * mon-fri", "2026-11-13 10:00", "2026-11-16 09:00"),
        ("@daily", "2026-11-17 00:00", "2026-11-18 00:00"),
        ("@hourly", "2026-11-17 00:00:30", "2026-11-17 01:00"),
        ("@weekly", "2026-11-17", "2026-11-22 00:00"),
        ("@monthly", "2026-12-01 00:01", "2027-01-01 00:00"),
        ("@yearly", "2026-01-01", "2027-01-01 00:00"),
        ("*/20 * * * *", "2026-11-17 10:25", "2026-11-17 10:40"),
        ("5/10 3 * * *", "2026-11-17 03:05", "2026-11-17 03:15"),
        ("0 0 29 2 *", "2026-03-01", "2028-02-29 00:00"),
        ("0 0 13 * fri", "2026-11-14", "2026-11-20 00:00"),
        ("0 0 */2 * fri", "2026-11-14", "2026-11-15 00:00"),
        ("0 0 ? * FRI", "2026-11-14", "2026-11-20 00:00"),
        ("0 0 1 jan,jul *", "2026-03-01", "2026-07-01 00:00"),
        ("0 0 30 2 *", "2026-03-01", None),
    ],
)
def test_when_it_is_due_next(schedule: str, after: str, expected: str | None) -> None:
    assert following(schedule, after) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 7",
        "5-1 * * * *",
        "*/0 * * * *",
        "a * * * *",
        "1, * * * *",
        "@never",
        "1/x * * * *",
        f"{'9' * 5000} * * * *",
        f"*/{'9' * 5000} * * * *",
    ],
)
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(InvalidScheduleError):
        parse_schedule(text)


START = datetime(2026, 1, 1, tzinfo=UTC)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(2, 20).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), number.map(str), span, step)


def due(text: str, at: datetime) -> bool:
    """By the plain reading of the five fields."""
    values = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7)
    lows, parts = (0, 0, 1, 1, 0), text.split()
    minute, hour, day, month, weekday = (
        admits(part, value, low)
        for part, value, low in zip(text.split(), values, lows, strict=True)
    )
    parts = text.split()
    either = day or weekday if "*" not in (parts[2], parts[4]) else day and weekday
    return minute and hour and month and either


def admits(part: str, value: int, low: int) -> bool:
    if part.startswith("*/"):
        return (value - low) % int(part[2:]) == 0
    if "-" in part:
        first, last = part.split("-")
        return int(first) <= value <= int(last)
    return part == "*" or value == int(part)


@given(
    st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)).map(" ".join),
    st.integers(0, 730 * 24 * 3600).map(lambda second: START + timedelta(seconds=second)),
)
def test_it_is_due_at_the_next_minute_that_all_fields_admit(text: str, after: datetime) -> None:
    start = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    found = parse_schedule(text).next_after(after.timestamp())
    for number in range(3 * 24 * 60):
        at = start + timedelta(minutes=number)
        if due(text, at):
            assert found == at.timestamp()
            return
    assert found is None or found >= (start + timedelta(days=3)).timestamp()
