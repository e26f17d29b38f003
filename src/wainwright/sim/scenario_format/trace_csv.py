"""Traces: pods that are created and deleted at the times of a CSV file.

    name,cpu,memory,gpu,created,deleted,namespace,labels,nodeSelector
    train-0,4,16Gi,1,60,3600,ml,team=ml;tier=batch,

Columns of the published cluster traces (cpu_milli, memory_mib, num_gpu, creation_time,
deletion_time) are read as well, and the rest of theirs is ignored.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from wainwright import file_names
from wainwright.api.field_error import did_you_mean, format_value
from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.api.wire import DNS_NAME_PATTERN
from wainwright.manifests.problems import Problem
from wainwright.sim.scenario import TracePod
from wainwright.translate.disruption import format_duration, parse_duration
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.whole_numbers import parse_whole_number

COLUMNS: Final = (
    *("name", "cpu", "memory", "gpu", "created", "deleted"),
    *("namespace", "labels", "nodeSelector"),
)
PUBLISHED_COLUMNS: Final = {
    "cpu_milli": ("cpu", "m"),
    "memory_mib": ("memory", "Mi"),
    "num_gpu": ("gpu", ""),
    "creation_time": ("created", ""),
    "deletion_time": ("deleted", ""),
}
"""Columns of published traces: ours, and the unit to add."""
IGNORED_COLUMNS: Final = ("gpu_milli", "gpu_spec", "qos", "pod_phase", "scheduled_time")
REQUIRED_COLUMNS: Final = ("name", "created")
GPU: Final = "nvidia.com/gpu"
MAX_REPORTED_ROWS: Final = 10
DNS_NAME: Final = re.compile(DNS_NAME_PATTERN)
EXPECTED_MOMENT: Final = "seconds since the start, or a time such as 2026-01-31T08:00:00Z"


class InvalidRow(Exception):
    """What is wrong with a row: the column, what was found, what was expected."""

    def __init__(self, column: str, found: str, expected: str) -> None:
        super().__init__(f"expected {expected}")
        self.column = column
        self.found = found
        self.expected = expected


class TraceReader:
    """Reads one file; times are divided by the speed."""

    def __init__(self, file: str, *, start: float, speed: float, end: float) -> None:
        """`end`: seconds after which nothing happens any more."""
        self.file = file
        self.end = end
        self.start = start
        self.speed = speed
        self.problems: list[Problem] = []
        self._names: dict[tuple[str, str], int] = {}

    def read(self) -> list[TracePod]:
        """The pods in the order of their creation; what is wrong is in `problems`."""
        if file_names.is_device(self.file):
            self._add(1, "", "cannot be read: a device, not a file")
            return []
        try:
            with Path(self.file).open(encoding="utf-8-sig", newline="") as opened:
                return sorted(self._read_rows(opened), key=lambda pod: pod.created)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            self._add(1, "", f"cannot be read: {error}")
            return []

    def _read_rows(self, lines: Iterator[str]) -> Iterator[TracePod]:
        rows = csv.reader(lines)
        header = [name.strip() for name in next(rows, [])]
        if not self._check_header(header):
            return
        for row in rows:
            if not any(row):
                continue
            try:
                if len(row) != len(header):
                    found = f"{len(row)} values"
                    raise InvalidRow("", found, f"{len(header)} values, as the first line has")
                yield self._read_row(_own_columns(header, row), rows.line_num)
            except InvalidRow as error:
                self._add_row(error, rows.line_num)
            if len(self.problems) >= MAX_REPORTED_ROWS:
                self._add(rows.line_num, "", "the rest of the file was not read")
                return

    def _check_header(self, header: list[str]) -> bool:
        known = (*COLUMNS, *PUBLISHED_COLUMNS, *IGNORED_COLUMNS)
        for name in header:
            if name not in known:
                hint = did_you_mean(name, list(COLUMNS)) or f"one of {', '.join(COLUMNS)}"
                self._add(1, name, "unknown column", found=name, hint=hint)
        own = {PUBLISHED_COLUMNS[name][0] if name in PUBLISHED_COLUMNS else name for name in header}
        for name in REQUIRED_COLUMNS:
            if name not in own:
                self._add(1, name, "required column is missing", hint="the first line names them")
        if len(own) < len(header):
            self._add(1, "", "a column is there twice")
        return not self.problems

    def _read_row(self, row: Mapping[str, str], line: int) -> TracePod:
        namespace = _dns_name("namespace", row.get("namespace") or "default")
        name = _dns_name("name", row["name"])
        earlier = self._names.setdefault((namespace, name), line)
        if earlier != line:
            raise InvalidRow("name", name, f"a name that is not in line {earlier} already")
        created = self._moment("created", row["created"])
        if created > self.end:
            end = format_duration(self.end)
            expected = f"a time before the end of the simulation, which is at {end}"
            raise InvalidRow("created", row["created"], expected)
        deleted = self._moment("deleted", row["deleted"]) if row.get("deleted") else None
        if deleted is not None and deleted < created:
            raise InvalidRow("deleted", row["deleted"], "a time that is not before created")
        return TracePod(
            name=name,
            namespace=namespace,
            requests=_requests(row),
            labels=_pairs("labels", row),
            node_selector=_pairs("nodeSelector", row),
            created=created,
            deleted=deleted,
        )

    def _moment(self, column: str, text: str) -> float:
        seconds = _number(text)
        if seconds is None:
            seconds = parse_duration(text)
        if seconds is None:
            moment = parse_timestamp(text)
            seconds = None if moment is None else moment - self.start
        if seconds is None or seconds < 0:
            raise InvalidRow(column, text, f"{EXPECTED_MOMENT}, not before it")
        return seconds / self.speed

    def _add_row(self, error: InvalidRow, line: int) -> None:
        self._add(line, error.column, str(error), found=error.found, expected=error.expected)

    def _add(
        self,
        line: int,
        path: str,
        message: str,
        *,
        found: str = "",
        expected: str = "",
        hint: str = "",
    ) -> None:
        self.problems.append(
            Problem(
                file=self.file,
                line=line,
                path=path,
                found=format_value(found) if found else "nothing",
                expected=expected,
                message=message,
                hint=hint,
            )
        )


def _own_columns(header: list[str], row: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, text in zip(header, row, strict=True):
        own, unit = PUBLISHED_COLUMNS.get(name, (name, ""))
        stripped = text.strip()
        values[own] = f"{stripped}{unit}" if stripped else ""
    return values


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _dns_name(column: str, text: str) -> str:
    if len(text) > 253 or not DNS_NAME.fullmatch(text):
        raise InvalidRow(column, text, "a name of lower case letters, digits, '-' and '.'")
    return text


def _requests(row: Mapping[str, str]) -> dict[str, str]:
    checks: tuple[tuple[str, str, Callable[[str, str], str]], ...] = (
        ("cpu", "cpu", _quantity),
        ("memory", "memory", _quantity),
        ("gpu", GPU, _whole_number),
    )
    amounts = {
        name: check(column, row[column]) for column, name, check in checks if row.get(column)
    }
    return {name: amount for name, amount in amounts.items() if amount != "0"}


def _quantity(column: str, text: str) -> str:
    try:
        if parse_quantity(text).nano >= 0:
            return text
    except InvalidQuantity:
        pass
    raise InvalidRow(column, text, "a quantity of 0 or more such as 500m or 2Gi")


def _whole_number(column: str, text: str) -> str:
    number = parse_whole_number(text)
    if number is None:
        raise InvalidRow(column, text, "a whole number of 0 or more")
    return str(number)


def _pairs(column: str, row: Mapping[str, str]) -> dict[str, str]:
    """team=ml;tier=batch"""
    pairs: dict[str, str] = {}
    for part in filter(None, (row.get(column) or "").split(";")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise InvalidRow(column, part, "labels such as team=ml;tier=batch")
        pairs[key.strip()] = value.strip()
    return pairs
