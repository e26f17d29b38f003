"""TOML, written: what `tomllib` reads comes out as the same values, tables in order of keys."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def toml(table: Mapping[str, Any]) -> str:
    """The document; equal tables give equal text, whatever the order of their keys."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Values first: after the heading of a table within, they would belong to that table."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (plain or not tables):
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in sorted(plain.items()):
        yield f"{_key(key)} = {_value(value)}"
    for key, within in sorted(tables.items()):
        yield from _lines(within, (*path, key))


def _key(text: str) -> str:
    return text if BARE.fullmatch(text) else _string(text)


def _string(text: str) -> str:
    """JSON's escapes are TOML's as well; only DEL, which JSON lets stand, is not."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        inside = (f"{_key(key)} = {_value(each)}" for key, each in sorted(value.items()))
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return repr(value)
