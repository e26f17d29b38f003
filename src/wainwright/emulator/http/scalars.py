"""Numbers, times and bytes as texts on the wire, and back."""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import format_datetime, parsedate_to_datetime
from math import isfinite
from typing import Any, Final

from wainwright.emulator.http.misfit import Fault, Misfit

WHOLE: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
TRUTHS: Final = {"true": True, "false": False}


def whole(text: str) -> int:
    if not WHOLE.fullmatch(text):
        raise Misfit(Fault.VALUE, text, "a whole number")
    return int(text)


def number(text: str) -> float:
    found = float(text) if NUMBER.fullmatch(text) else float("nan")
    if not isfinite(found):
        raise Misfit(Fault.VALUE, text, "a number")
    return found


def truth(text: str) -> bool:
    found = TRUTHS.get(text.lower())
    if found is None:
        raise Misfit(Fault.VALUE, text, "true or false")
    return found


def blob(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit(Fault.VALUE, text, "base64") from None


def time(text: str) -> datetime:
    """In any of the three ways in which AWS writes times."""
    for attempt in (_iso, _epoch, parsedate_to_datetime):
        try:
            found = attempt(text)
        except (ValueError, OverflowError, OSError):
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    raise Misfit(Fault.VALUE, text, "a time such as 2026-01-31T08:00:00Z")


def _iso(text: str) -> datetime:
    if text.isdigit():  # else a number of eight digits would be taken for a date
        raise ValueError
    return datetime.fromisoformat(text)


def _epoch(text: str) -> datetime:
    return datetime.fromtimestamp(float(text), UTC)


def decimal(value: float) -> str:
    """Without an exponent, which not every client can read."""
    text = repr(value)
    return format(Decimal(text), "f") if "e" in text else text


def iso(value: datetime) -> str:
    """To the millisecond, as AWS writes it; more only where more is there."""
    precision = "microseconds" if value.microsecond % 1000 else "milliseconds"
    text = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision)
    return f"{text}Z"


def rfc(value: datetime) -> str:
    return format_datetime(value.astimezone(UTC), usegmt=True)


def epoch(value: datetime) -> str:
    return decimal(value.timestamp())


TIMES: Final[Mapping[str, Callable[[datetime], str]]] = {
    "iso8601": iso,
    "rfc822": rfc,
    "unixTimestamp": epoch,
}
READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "integer": whole,
    "long": whole,
    "float": number,
    "double": number,
    "boolean": truth,
    "blob": blob,
    "timestamp": time,
}
"""By the type of a shape; the others are texts."""


def text_of(kind: str, form: str | None, otherwise: str) -> Callable[[Any], str]:
    """How a value of that type is written; `form` is that of a time, where the model names one."""
    if kind == "timestamp":
        return TIMES[form or otherwise]
    return WRITE.get(kind, str)


def _truth_text(value: bool) -> str:
    return "true" if value else "false"


def _blob_text(value: bytes | str) -> str:
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


WRITE: Final[Mapping[str, Callable[[Any], str]]] = {
    "boolean": _truth_text,
    "blob": _blob_text,
    "float": decimal,
    "double": decimal,
}
