"""Filters of the describe calls: names joined by AND, values by OR, wildcards, tags.

A name that a call does not know is an error, never ignored: a client that asked for less would
otherwise act on everything.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

from wainwright.errors import AwsError

Row = TypeVar("Row")
Fields: TypeAlias = Mapping[str, Callable[[Row], Iterable[str]]]
Tags: TypeAlias = Callable[[Row], Mapping[str, str]]
Test: TypeAlias = Callable[[Row], bool]
Accepts: TypeAlias = Callable[[Iterable[str]], bool]

MOST_VALUES: Final = 200
TAG: Final = "tag:"
TOKEN: Final = re.compile(r"\\.|\*|\?|[^\\*?]+|\\", re.DOTALL)


def matching(
    rows: Iterable[Row],
    filters: Sequence[Mapping[str, Any]] | None,
    fields: Fields[Row],
    tags: Tags[Row] | None = None,
) -> list[Row]:
    """The rows that pass every filter, in their order; `fields` gives the values of a row by name.

    With `tags` the names `tag:KEY` and `tag-key` are known as well.
    """
    if not filters:
        return list(rows)
    tests = [_test(each, fields, tags) for each in filters]
    if len(tests) == 1:
        only = tests[0]
        return [row for row in rows if only(row)]
    return [row for row in rows if all(test(row) for test in tests)]


def yes(flag: bool) -> tuple[str]:
    """A flag as filters spell it."""
    return ("true",) if flag else ("false",)


def one(value: str | None) -> tuple[str, ...]:
    """A value that may be absent, for `fields`."""
    return () if value is None else (value,)


def like(pattern: str, text: str) -> bool:
    """Whether the text is meant by a pattern of `*`, `?` and backslashes before either."""
    return _compiled(pattern).fullmatch(text) is not None


def _test(asked: Mapping[str, Any], fields: Fields[Row], tags: Tags[Row] | None) -> Test[Row]:
    name = asked.get("Name")
    accepts = _accepts(asked.get("Values"))
    if isinstance(name, str):
        if name in fields:
            return _by_field(fields[name], accepts)
        if tags is not None and name.startswith(TAG):
            return _by_tag(tags, name.removeprefix(TAG), accepts)
        if tags is not None and name == "tag-key":
            return _by_field(tags, accepts)
    raise AwsError("InvalidParameterValue", f"The filter '{name or 'null'}' is invalid")


def _by_field(values: Callable[[Row], Iterable[str]], accepts: Accepts) -> Test[Row]:
    return lambda row: accepts(values(row))


def _by_tag(tags: Tags[Row], key: str, accepts: Accepts) -> Test[Row]:
    def test(row: Row) -> bool:
        found = tags(row).get(key)
        return found is not None and accepts((found,))

    return test


def _accepts(values: Any) -> Accepts:
    """Whether one of the given texts is one of the wanted: most are plain and looked up."""
    wanted = _values(values)
    plain = frozenset(each for each in wanted if not _wild(each))
    patterns = [_compiled(each) for each in wanted if _wild(each)]
    if not patterns:
        return lambda found: not plain.isdisjoint(found)
    return lambda found: any(
        each in plain or any(pattern.fullmatch(each) for pattern in patterns) for each in found
    )


def _values(values: Any) -> Sequence[str]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise AwsError("InvalidParameterValue", "The filter value cannot be empty")
    if len(values) > MOST_VALUES:
        raise AwsError(
            "FilterLimitExceeded",
            f"The maximum number of filter values specified on a single call is {MOST_VALUES}",
        )
    return [str(each) for each in values]


def _wild(value: str) -> bool:
    return any(sign in value for sign in "*?\\")


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_piece(each) for each in TOKEN.findall(pattern)), re.DOTALL)


def _piece(token: str) -> str:
    if token == "*":
        return ".*"
    if token == "?":
        return "."
    return re.escape(token[1:] if len(token) == 2 and token[0] == "\\" else token)
