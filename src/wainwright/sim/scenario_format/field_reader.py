"""Values of a Scenario, read with their paths.

What is wrong is collected, and something valid is returned in its place, so that one reading finds
all mistakes of a file. A null counts as left out, as for an API server.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    did_you_mean,
    format_value,
    invalid_value,
    missing_field,
    unknown_field,
)
from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.sim.scenario import END, DurationRange
from wainwright.translate.disruption import parse_duration
from wainwright.translate.object_metadata import parse_timestamp

T = TypeVar("T")
ReadValue = Callable[[Any, FieldPath], T]

EXPECTED_DURATION: Final = "a duration such as 30s, 15m or 1h30m"
EXPECTED_MOMENT: Final = "a time since the start such as 90s or 6h"
EXPECTED_SHARE: Final = "a share from 0 to 1"
EXPECTED_TIME: Final = "a time such as 2026-01-31T08:00:00Z"
EXPECTED_NAME: Final = "a name"
DAYS: Final = re.compile(r"([0-9]+)d")
MAX_SECONDS: Final = 100 * 365 * 24 * 3600.0
"""Further away nothing is meant: RFC 3339 ends soon after."""


class FieldReader:
    """Collects what is wrong with the values that it reads."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def add(self, error: FieldError) -> None:
        self.errors.append(error)

    # Scalars

    def text(self, value: Any, path: FieldPath, expected: str = EXPECTED_NAME) -> str:
        if isinstance(value, str) and value:
            return value
        self.add(invalid_value(path, value, expected))
        return ""

    def boolean(self, value: Any, path: FieldPath) -> bool:
        if not isinstance(value, bool):
            self.add(invalid_value(path, value, "true or false"))
        return value is True

    def choice(self, value: Any, path: FieldPath, allowed: Iterable[str]) -> str:
        names = tuple(allowed)
        expected = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
        if value not in names:
            hint = did_you_mean(value, list(names)) if isinstance(value, str) else ""
            self.add(invalid_value(path, value, expected, hint))
            return names[0]
        return str(value)

    def integer(self, value: Any, path: FieldPath, minimum: int | None = None) -> int:
        bound = "" if minimum is None else f" of {minimum} or more"
        if not isinstance(value, int) or isinstance(value, bool):
            self.add(invalid_value(path, value, f"a whole number{bound}"))
            return minimum or 0
        if minimum is not None and value < minimum:
            self.add(invalid_value(path, value, f"a whole number{bound}"))
            return minimum
        return value

    def count(self, value: Any, path: FieldPath) -> int:
        return self.integer(value, path, 0)

    def positive(self, value: Any, path: FieldPath) -> int:
        return self.integer(value, path, 1)

    def number(self, value: Any, path: FieldPath, expected: str = "a number of 0 or more") -> float:
        if is_number(value) and value >= 0:
            return float(value)
        self.add(invalid_value(path, value, expected))
        return 0.0

    def share(self, value: Any, path: FieldPath) -> float:
        if is_number(value) and 0 <= value <= 1:
            return float(value)
        self.add(invalid_value(path, value, EXPECTED_SHARE))
        return 0.0

    def quantity(self, value: Any, path: FieldPath) -> str:
        try:
            text = value if isinstance(value, str) else format_value(value)
            if not isinstance(value, bool) and parse_quantity(text).nano >= 0:
                return text
        except InvalidQuantity:
            pass
        self.add(invalid_value(path, value, "a quantity of 0 or more such as 500m or 2Gi"))
        return "0"

    def quantities(self, value: Any, path: FieldPath) -> dict[str, str]:
        entries = self.mapping(value, path, None, "quantities such as {memory: 300Mi}")
        return {name: self.quantity(each, (*path, name)) for name, each in entries.items()}

    # Time

    def duration(self, value: Any, path: FieldPath, expected: str = EXPECTED_DURATION) -> float:
        seconds = duration_seconds(value)
        if seconds is None:
            self.add(invalid_value(path, value, expected, _duration_hint(value)))
            return 0.0
        return seconds

    def moment(self, value: Any, path: FieldPath) -> float:
        return self.duration(value, path, EXPECTED_MOMENT)

    def moment_or_end(self, value: Any, path: FieldPath) -> float:
        if value == "end":
            return END
        return self.duration(value, path, f"{EXPECTED_MOMENT}, or end")

    def duration_range(self, value: Any, path: FieldPath) -> DurationRange:
        if not isinstance(value, list):
            expected = f"{EXPECTED_DURATION}, or a range such as [25s, 45s]"
            seconds = self.duration(value, path, expected)
            return DurationRange(low=seconds, high=seconds)
        low, high = self.pair(value, path, self.duration, "two durations such as [25s, 45s]")
        return DurationRange(low=low, high=high)

    def pair(
        self, value: Any, path: FieldPath, read: ReadValue[float], expected: str
    ) -> tuple[float, float]:
        """The lower and the upper end of a range."""
        if not isinstance(value, list) or len(value) != 2:
            self.add(invalid_value(path, value, expected))
            return 0.0, 0.0
        errors = len(self.errors)
        low, high = (read(each, (*path, index)) for index, each in enumerate(value))
        if low > high and len(self.errors) == errors:
            hint = f"write [{value[1]}, {value[0]}]"
            self.add(invalid_value(path, value, "the lower end first", hint))
        return low, max(low, high)

    def timestamp(self, value: Any, path: FieldPath) -> float:
        """Seconds since 1970."""
        seconds = parse_timestamp(value) if isinstance(value, str) else None
        if seconds is None:
            self.add(invalid_value(path, value, EXPECTED_TIME))
            return 0.0
        return seconds

    # Mappings and lists

    def items(self, value: Any, path: FieldPath, expected: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.add(invalid_value(path, value, expected))
            return []
        return value

    def texts(self, value: Any, path: FieldPath, expected: str) -> tuple[str, ...]:
        return tuple(
            self.text(each, (*path, index))
            for index, each in enumerate(self.items(value, path, expected))
        )

    def text_map(self, value: Any, path: FieldPath) -> dict[str, str]:
        entries = self.mapping(value, path, None, "texts by name such as {team: shop}")
        return {key: self.text(each, (*path, key), "text") for key, each in entries.items()}

    def mapping(
        self, value: Any, path: FieldPath, known: Iterable[str] | None, expected: str
    ) -> Mapping[str, Any]:
        """Its entries that are known; all of them where `known` is None."""
        if not isinstance(value, dict):
            self.add(invalid_value(path, value, expected))
            return {}
        if known is None:
            return value
        names = list(known)
        for key in value:
            if key not in names:
                hint = did_you_mean(key, names) or f"known here: {', '.join(names)}"
                self.add(unknown_field((*path, key), key, hint))
        return {key: each for key, each in value.items() if key in names}

    def fields(self, value: Any, path: FieldPath, known: Iterable[str]) -> "Fields":
        names = list(known)
        errors = len(self.errors)
        entries = self.mapping(value, path, names, f"a mapping with {', '.join(names)}")
        is_known = len(self.errors) == errors
        return Fields(self, entries, path, is_mapping=isinstance(value, dict), is_known=is_known)


class Fields:
    """The fields of one mapping."""

    def __init__(
        self,
        reader: FieldReader,
        entries: Mapping[str, Any],
        path: FieldPath,
        *,
        is_mapping: bool,
        is_known: bool,
    ) -> None:
        self.reader = reader
        self.path = path
        self._entries = {key: each for key, each in entries.items() if each is not None}
        self._is_mapping = is_mapping
        self._is_known = is_known
        """Whether everything written is known: if not, what is missing may be misspelt."""

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def get(self, name: str, read: ReadValue[T], default: T) -> T:
        if name not in self._entries:
            return default
        return read(self._entries[name], (*self.path, name))

    def optional(self, name: str, read: ReadValue[T]) -> T | None:
        return self.get(name, read, None)

    def required(self, name: str, read: ReadValue[T], default: T, expected: str) -> T:
        if name not in self._entries and self._is_mapping:
            message = f"required field is missing, expected {expected}"
            self.reader.add(missing_field((*self.path, name), expected, message))
        return self.get(name, read, default)

    def exactly_one(self, names: Iterable[str]) -> str | None:
        """The one of these fields that is there; None, with an error, where it is not one."""
        choices = list(names)
        found = [name for name in choices if name in self._entries]
        if len(found) == 1 or (not found and not self._is_known):
            return found[0] if found else None
        expected = f"exactly one of {', '.join(choices)}"
        if found:
            message = f"{' and '.join(found)} exclude each other"
            error = broken_rule((*self.path, found[1]), found[1], message, expected)
            self.reader.add(msgspec.structs.replace(error, hint="keep one of them"))
        else:
            self.reader.add(missing_field(self.path, expected, f"expected {expected}"))
        return None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def duration_seconds(value: Any) -> float | None:
    """Seconds of a duration as it is written; None for what is none."""
    if is_number(value):
        return 0.0 if value == 0 else None
    seconds = parse_duration(value) if isinstance(value, str) else None
    return seconds if seconds is not None and seconds <= MAX_SECONDS else None


def _duration_hint(value: Any) -> str:
    if is_number(value) and value > 0:
        return f"write {value}s if these are seconds"
    if isinstance(value, str) and value.startswith("-"):
        return "time goes forward only"
    days = DAYS.fullmatch(value) if isinstance(value, str) else None
    return f"write {int(days[1]) * 24}h" if days else ""
