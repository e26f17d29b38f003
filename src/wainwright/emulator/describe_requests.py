"""Filters and pages of Describe and List requests.

Filter names are joined by AND, values by OR, with wildcards and tags. An unknown filter name is an
error and never ignored: a client that filters would otherwise act on every resource. A page token
is valid only for the request that returned it.
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
    # One filter is the usual case: it saves a generator per row of large listings.
    if len(tests) == 1:
        only = tests[0]
        return [row for row in rows if only(row)]
    return [row for row in rows if all(test(row) for test in tests)]


def bool_value(flag: bool) -> tuple[str]:
    """A boolean as filters spell it."""
    return ("true",) if flag else ("false",)


def optional_value(value: str | None) -> tuple[str, ...]:
    """A value that may be absent, for `fields`."""
    return () if value is None else (value,)


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether the text matches a pattern of `*` and `?`, either of which a backslash escapes."""
    return _compile_pattern(pattern).fullmatch(text) is not None


def _row_predicate(
    requested_filter: Mapping[str, Any], fields: FilterFields[Row], tags: TagsGetter[Row] | None
) -> RowPredicate[Row]:
    name = requested_filter.get("Name")
    accepts = _values_predicate(requested_filter.get("Values"))
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
        value = tags(row).get(key)
        return value is not None and accepts((value,))

    return test


def _values_predicate(values: Any) -> ValuesPredicate:
    """Whether a row has one of the filter's values.

    Values without wildcards are one set lookup; only patterns are tried one by one.
    """
    accepted = _filter_values(values)
    plain = frozenset(each for each in accepted if not _has_wildcard(each))
    patterns = [_compile_pattern(each) for each in accepted if _has_wildcard(each)]
    if not patterns:
        return lambda row_values: not plain.isdisjoint(row_values)
    return lambda row_values: any(
        each in plain or any(pattern.fullmatch(each) for pattern in patterns) for each in row_values
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
    """Cached, as clients repeat the same filters at every poll."""
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
    """Where the next page begins, and of which request."""

    request_hash: int
    offset: int
    after: str | None


def paginate(
    rows: Sequence[Row],
    params: Mapping[str, Any],
    *,
    maximum: int,
    minimum: int = 5,
    all_by_default: bool = True,
    key: Callable[[Row], str] | None = None,
) -> tuple[list[Row], dict[str, str]]:
    """The requested page, and `NextToken` where more rows follow.

    Without MaxResults the page has all rows where `all_by_default`, else `maximum` rows. With `key`
    the rows are in its order, and rows that appear or vanish between two pages move no other row
    from one page to the next.
    """
    size = _page_size(params.get("MaxResults"), minimum, maximum)
    if size is None:
        size = max(len(rows), 1) if all_by_default else maximum
    request_hash = _request_hash(params)
    start = _page_start(params.get("NextToken"), request_hash, rows, key)
    end = start + size
    page = list(rows[start:end])
    if end >= len(rows):
        return page, {}
    after = key(page[-1]) if key is not None else None
    return page, {"NextToken": _encode_page_token(PageToken(request_hash, end, after))}


def _page_size(requested: Any, minimum: int, maximum: int) -> int | None:
    if requested is None:
        return None
    if requested < minimum:
        raise _page_size_out_of_range(requested, f"greater than or equal to {minimum}")
    if requested > maximum:
        raise _page_size_out_of_range(requested, f"less than or equal to {maximum}")
    return int(requested)


def _page_size_out_of_range(requested: int, expected: str) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"Value ( {requested} ) for parameter maxResults is invalid. Expecting a value {expected}.",
    )


def _request_hash(params: Mapping[str, Any]) -> int:
    """A page token is valid only for the request with this hash."""
    relevant = {name: params[name] for name in params if name not in ("NextToken", "MaxResults")}
    return zlib.crc32(msgspec.json.encode(relevant, order="deterministic"))


def _page_start(
    token: Any, request_hash: int, rows: Sequence[Row], key: Callable[[Row], str] | None
) -> int:
    if not token:
        return 0
    page_token = _decode_page_token(token)
    if page_token is None or page_token.request_hash != request_hash or page_token.offset < 1:
        raise AwsError("InvalidNextToken", f"The token '{token}' is invalid")
    if key is not None and page_token.after is not None:
        return bisect_right(rows, page_token.after, key=key)
    return page_token.offset


def _encode_page_token(page_token: PageToken) -> str:
    return urlsafe_b64encode(msgspec.json.encode(page_token)).decode()


def _decode_page_token(token: Any) -> PageToken | None:
    try:
        return msgspec.json.decode(urlsafe_b64decode(str(token).encode()), type=PageToken)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError):
        return None


class ServicePagination(msgspec.Struct, frozen=True, kw_only=True):
    """Parameter names, limits and error codes of one service's pagination."""

    size_param: str
    """The parameter with the page size."""
    token_param: str
    """The parameter with the page token, and the response field that returns it."""
    max_size: int
    default_size: int
    """The page size where the request has none."""
    invalid_size_code: str
    invalid_token_code: str
    """Error codes."""

    def paginate(
        self, rows: Sequence[Row], params: Mapping[str, Any]
    ) -> tuple[list[Row], str | None]:
        """The rows of the requested page, and the token of the next page if there is one."""
        size = parse_int(
            params, self.size_param, default=self.default_size, error_code=self.invalid_size_code
        )
        if not 1 <= size <= self.max_size:
            raise AwsError(
                self.invalid_size_code, f"{self.size_param} must be between 1 and {self.max_size}."
            )
        start = self._start(params.get(self.token_param))
        end = start + size
        return list(rows[start:end]), _encode_offset(end) if end < len(rows) else None

    def _start(self, token: Any) -> int:
        start = _decode_offset(token) if token else 0
        if start is None:
            raise AwsError(
                self.invalid_token_code,
                f"{self.token_param} {token!r} is not one that was given out.",
            )
        return start


def _encode_offset(offset: int) -> str:
    return urlsafe_b64encode(f"from {offset}".encode()).decode()


def _decode_offset(token: Any) -> int | None:
    try:
        word, _, number = urlsafe_b64decode(str(token).encode()).decode().partition(" ")
    except (binascii.Error, UnicodeError):
        return None
    is_offset = word == "from" and number.isdecimal() and len(number) <= 18
    return int(number) if is_offset else None
