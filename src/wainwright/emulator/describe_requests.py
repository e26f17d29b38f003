"""Filters and pages of Describe and List requests.

Filter names are joined by AND, values by OR, with wildcards and tags. A name that an operation does
not know is an error, never ignored: a client that asked for less would otherwise act on everything.
A page token is good for the request that it was given for only.
"""

import binascii
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from wainwright.emulator.api_conventions import parse_int
from wainwright.errors import AwsError

Row = TypeVar("Row")
FilterFields: TypeAlias = Mapping[str, Callable[[Row], Iterable[str]]]
TagsGetter: TypeAlias = Callable[[Row], Mapping[str, str]]
RowPredicate: TypeAlias = Callable[[Row], bool]
ValuesPredicate: TypeAlias = Callable[[Iterable[str]], bool]

MAX_VALUES: Final = 200
TAG_PREFIX: Final = "tag:"
PATTERN_TOKEN: Final = re.compile(r"\\.|\*|\?|[^\\*?]+|\\", re.DOTALL)


def apply_filters(
    rows: Iterable[Row],
    filters: Sequence[Mapping[str, Any]] | None,
    fields: FilterFields[Row],
    tags: TagsGetter[Row] | None = None,
) -> list[Row]:
    """The rows that pass every filter, in their order; `fields` gives the values of a row by name.

    With `tags` the names `tag:KEY` and `tag-key` are known as well.
    """
    if not filters:
        return list(rows)
    tests = [_row_predicate(each, fields, tags) for each in filters]
    if len(tests) == 1:
        only = tests[0]
        return [row for row in rows if only(row)]
    return [row for row in rows if all(test(row) for test in tests)]


def bool_value(flag: bool) -> tuple[str]:
    """A flag as filters spell it."""
    return ("true",) if flag else ("false",)


def optional_value(value: str | None) -> tuple[str, ...]:
    """A value that may be absent, for `fields`."""
    return () if value is None else (value,)


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether the text is meant by a pattern of `*`, `?` and backslashes before either."""
    return _compile_pattern(pattern).fullmatch(text) is not None


def _row_predicate(
    asked: Mapping[str, Any], fields: FilterFields[Row], tags: TagsGetter[Row] | None
) -> RowPredicate[Row]:
    name = asked.get("Name")
    accepts = _values_predicate(asked.get("Values"))
    if isinstance(name, str):
        if name in fields:
            return _field_predicate(fields[name], accepts)
        if tags is not None and name.startswith(TAG_PREFIX):
            return _tag_predicate(tags, name.removeprefix(TAG_PREFIX), accepts)
        if tags is not None and name == "tag-key":
            return _field_predicate(tags, accepts)
    raise AwsError("InvalidParameterValue", f"The filter '{name or 'null'}' is invalid")


def _field_predicate(
    values: Callable[[Row], Iterable[str]], accepts: ValuesPredicate
) -> RowPredicate[Row]:
    return lambda row: accepts(values(row))


def _tag_predicate(tags: TagsGetter[Row], key: str, accepts: ValuesPredicate) -> RowPredicate[Row]:
    def test(row: Row) -> bool:
        found = tags(row).get(key)
        return found is not None and accepts((found,))

    return test


def _values_predicate(values: Any) -> ValuesPredicate:
    """Whether one of the given texts is one of the wanted: most are plain and looked up."""
    wanted = _filter_values(values)
    plain = frozenset(each for each in wanted if not _has_wildcard(each))
    patterns = [_compile_pattern(each) for each in wanted if _has_wildcard(each)]
    if not patterns:
        return lambda found: not plain.isdisjoint(found)
    return lambda found: any(
        each in plain or any(pattern.fullmatch(each) for pattern in patterns) for each in found
    )


def _filter_values(values: Any) -> Sequence[str]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise AwsError("InvalidParameterValue", "The filter value cannot be empty")
    if len(values) > MAX_VALUES:
        raise AwsError(
            "FilterLimitExceeded",
            f"The maximum number of filter values specified on a single call is {MAX_VALUES}",
        )
    return [str(each) for each in values]


def _has_wildcard(value: str) -> bool:
    return any(sign in value for sign in "*?\\")


@lru_cache(maxsize=4096)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(
        "".join(_pattern_piece(each) for each in PATTERN_TOKEN.findall(pattern)), re.DOTALL
    )


def _pattern_piece(token: str) -> str:
    if token == "*":
        return ".*"
    if token == "?":
        return "."
    return re.escape(token[1:] if len(token) == 2 and token[0] == "\\" else token)


class PageToken(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page begins, and for which question."""

    question: int
    offset: int
    after: str | None


def paginate(
    rows: Sequence[Row],
    params: Mapping[str, Any],
    *,
    maximum: int,
    minimum: int = 5,
    whole: bool = True,
    key: Callable[[Row], str] | None = None,
) -> tuple[list[Row], dict[str, str]]:
    """The rows of the page that is asked for, and `NextToken` where more follow.

    Without MaxResults everything comes at once where `whole`, else as much as the call gives at
    most. With `key` the rows are in its order, and what comes or goes between two pages moves no
    other row from one page to the next.
    """
    size = _page_size(params.get("MaxResults"), minimum, maximum)
    if size is None:
        size = max(len(rows), 1) if whole else maximum
    question = _request_hash(params)
    start = _page_start(params.get("NextToken"), question, rows, key)
    end = start + size
    found = list(rows[start:end])
    if end >= len(rows):
        return found, {}
    after = key(found[-1]) if key is not None else None
    return found, {"NextToken": _encode_page_token(PageToken(question, end, after))}


def _page_size(asked: Any, minimum: int, maximum: int) -> int | None:
    if asked is None:
        return None
    if asked < minimum:
        raise _page_size_out_of_range(asked, f"greater than or equal to {minimum}")
    if asked > maximum:
        raise _page_size_out_of_range(asked, f"less than or equal to {maximum}")
    return int(asked)


def _page_size_out_of_range(asked: int, expected: str) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"Value ( {asked} ) for parameter maxResults is invalid. Expecting a value {expected}.",
    )


def _request_hash(params: Mapping[str, Any]) -> int:
    """A token belongs to the question that it was given for."""
    asked = {name: params[name] for name in params if name not in ("NextToken", "MaxResults")}
    return zlib.crc32(msgspec.json.encode(asked, order="deterministic"))


def _page_start(
    token: Any, question: int, rows: Sequence[Row], key: Callable[[Row], str] | None
) -> int:
    if not token:
        return 0
    place = _decode_page_token(token)
    if place is None or place.question != question or place.offset < 1:
        raise AwsError("InvalidNextToken", f"The token '{token}' is invalid")
    if key is not None and place.after is not None:
        return bisect_right(rows, place.after, key=key)
    return place.offset


def _encode_page_token(place: PageToken) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _decode_page_token(token: Any) -> PageToken | None:
    try:
        return msgspec.json.decode(urlsafe_b64decode(str(token).encode()), type=PageToken)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError):
        return None


class ServicePagination(msgspec.Struct, frozen=True, kw_only=True):
    """How one service speaks of pages."""

    size: str
    """The parameter that says how many rows."""
    token: str
    """The parameter that says from where, and the field of the answer that says it."""
    maximum: int
    otherwise: int
    """Rows of a page when nobody says how many."""
    bad_size: str
    bad_token: str
    """Codes of refusal."""

    def cut(self, rows: Sequence[Row], params: Mapping[str, Any]) -> tuple[list[Row], str | None]:
        """The rows of the page that is asked for, and the token of the next if there is one."""
        size = parse_int(params, self.size, otherwise=self.otherwise, refused=self.bad_size)
        if not 1 <= size <= self.maximum:
            raise AwsError(self.bad_size, f"{self.size} must be between 1 and {self.maximum}.")
        start = self._start(params.get(self.token))
        end = start + size
        return list(rows[start:end]), _encode_offset(end) if end < len(rows) else None

    def _start(self, token: Any) -> int:
        start = _decode_offset(token) if token else 0
        if start is None:
            raise AwsError(self.bad_token, f"{self.token} {token!r} is not one that was given out.")
        return start


def _encode_offset(place: int) -> str:
    return urlsafe_b64encode(f"from {place}".encode()).decode()


def _decode_offset(token: Any) -> int | None:
    try:
        word, _, number = urlsafe_b64decode(str(token).encode()).decode().partition(" ")
    except (binascii.Error, UnicodeError):
        return None
    return int(number) if word == "from" and number.isdecimal() else None
