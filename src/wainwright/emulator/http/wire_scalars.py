"""Numbers, times and bytes as text on the wire, and back; and the errors of each protocol for
parameters that cannot be parsed.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import format_datetime, parsedate_to_datetime
from enum import Enum, auto
from math import isfinite
from typing import Any, Final

from wainwright.errors import AwsError


class ParameterErrorKind(Enum):
    UNKNOWN = auto()
    MISSING = auto()
    VALUE = auto()


class ParameterError(Exception):
    """An invalid parameter; each enclosing reader adds its step to the path."""

    def __init__(self, kind: ParameterErrorKind, found: str = "", expected: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.found = found
        self.expected = expected
        self._steps: list[str] = []

    def nested_in(self, step: str) -> "ParameterError":
        self._steps.append(step)
        return self

    @property
    def path(self) -> str:
        return ".".join(reversed(self._steps))


def _ec2_parameter_error(error: ParameterError) -> AwsError:
    match error.kind:
        case ParameterErrorKind.UNKNOWN:
            message = f"The parameter {error.path} is not recognized"
            return AwsError("UnknownParameter", message)
        case ParameterErrorKind.MISSING:
            message = f"The request must contain the parameter {error.path}"
            return AwsError("MissingParameter", message)
        case ParameterErrorKind.VALUE:
            message = (
                f"Value ({error.found}) for parameter {error.path} is invalid. "
                f"Expecting {error.expected}."
            )
            return AwsError("InvalidParameterValue", message)


def _query_parameter_error(error: ParameterError) -> AwsError:
    return AwsError("MalformedInput", f"{error.path}: {_describe_mismatch(error)}")


def _json_parameter_error(error: ParameterError) -> AwsError:
    return AwsError("SerializationException", f"{error.path}: {_describe_mismatch(error)}")


def _describe_mismatch(error: ParameterError) -> str:
    return f"found {error.found}, expected {error.expected}"


PARAMETER_ERRORS: Final = {
    "ec2": _ec2_parameter_error,
    "query": _query_parameter_error,
    "json": _json_parameter_error,
    "rest-json": _json_parameter_error,
}
"""By protocol, the AwsError for an invalid parameter."""


INTEGER_PATTERN: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
NUMBER_PATTERN: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
BOOLEANS: Final = {"true": True, "false": False}


def parse_integer(text: str) -> int:
    if not INTEGER_PATTERN.fullmatch(text):
        raise ParameterError(ParameterErrorKind.VALUE, text, "a whole number")
    return int(text)


def parse_number(text: str) -> float:
    number = float(text) if NUMBER_PATTERN.fullmatch(text) else float("nan")
    if not isfinite(number):
        raise ParameterError(ParameterErrorKind.VALUE, text, "a number")
    return number


def parse_boolean(text: str) -> bool:
    value = BOOLEANS.get(text.lower())
    if value is None:
        raise ParameterError(ParameterErrorKind.VALUE, text, "true or false")
    return value


def parse_blob(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ParameterError(ParameterErrorKind.VALUE, text, "base64") from None


def parse_wire_time(text: str) -> datetime:
    """A time in any of the three formats of AWS."""
    for parse in (_parse_iso, _parse_epoch, parsedate_to_datetime):
        try:
            moment = parse(text)
        except (ValueError, OverflowError, OSError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise ParameterError(ParameterErrorKind.VALUE, text, "a time such as 2026-01-31T08:00:00Z")


def _parse_iso(text: str) -> datetime:
    if text.isdigit():  # else a number of eight digits would be parsed as a date
        raise ValueError
    return datetime.fromisoformat(text)


def _parse_epoch(text: str) -> datetime:
    return datetime.fromtimestamp(float(text), UTC)


def format_decimal(value: float) -> str:
    """Without an exponent, which not every client can parse."""
    text = repr(value)
    return format(Decimal(text), "f") if "e" in text else text


def format_iso8601(value: datetime) -> str:
    """To the millisecond, as in AWS; microseconds only where they are not zero."""
    precision = "microseconds" if value.microsecond % 1000 else "milliseconds"
    text = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision)
    return f"{text}Z"


def format_rfc822(value: datetime) -> str:
    return format_datetime(value.astimezone(UTC), usegmt=True)


def format_epoch(value: datetime) -> str:
    return format_decimal(value.timestamp())


TIMESTAMP_FORMATS: Final[Mapping[str, Callable[[datetime], str]]] = {
    "iso8601": format_iso8601,
    "rfc822": format_rfc822,
    "unixTimestamp": format_epoch,
}
SCALAR_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "integer": parse_integer,
    "long": parse_integer,
    "float": parse_number,
    "double": parse_number,
    "boolean": parse_boolean,
    "blob": parse_blob,
    "timestamp": parse_wire_time,
}
"""By shape type; all other types are strings."""


def scalar_formatter(kind: str, form: str | None, default_form: str) -> Callable[[Any], str]:
    """The formatter of a shape type; `form` is the timestamp format of the model, if any."""
    if kind == "timestamp":
        return TIMESTAMP_FORMATS[form or default_form]
    return SCALAR_FORMATTERS.get(kind, str)


def _format_boolean(value: bool) -> str:
    return "true" if value else "false"


def _format_blob(value: bytes | str) -> str:
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


SCALAR_FORMATTERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "boolean": _format_boolean,
    "blob": _format_blob,
    "float": format_decimal,
    "double": format_decimal,
}
