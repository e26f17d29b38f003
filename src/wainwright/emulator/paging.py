"""Pages of long answers: a size that the caller may choose, and a token for the rest."""

import binascii
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from wainwright.errors import AwsError

Row = TypeVar("Row")


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page begins, and for which question."""

    question: int
    offset: int
    after: str | None


def page(
    rows: Sequence[Row],
    params: Mapping[str, Any],
    *,
    most: int,
    least: int = 5,
    whole: bool = True,
    key: Callable[[Row], str] | None = None,
) -> tuple[list[Row], dict[str, str]]:
    """The rows of the page that is asked for, and `NextToken` where more follow.

    Without MaxResults everything comes at once where `whole`, else as much as the call gives at
    most. With `key` the rows are in its order, and what comes or goes between two pages moves no
    other row from one page to the next.
    """
    size = _size(params.get("MaxResults"), least, most)
    if size is None:
        size = max(len(rows), 1) if whole else most
    question = _question(params)
    start = _start(params.get("NextToken"), question, rows, key)
    end = start + size
    found = list(rows[start:end])
    if end >= len(rows):
        return found, {}
    after = key(found[-1]) if key is not None else None
    return found, {"NextToken": _token(Place(question, end, after))}


def _size(asked: Any, least: int, most: int) -> int | None:
    if asked is None:
        return None
    if asked < least:
        raise _out_of_range(asked, f"greater than or equal to {least}")
    if asked > most:
        raise _out_of_range(asked, f"less than or equal to {most}")
    return int(asked)


def _out_of_range(asked: int, expected: str) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"Value ( {asked} ) for parameter maxResults is invalid. Expecting a value {expected}.",
    )


def _question(params: Mapping[str, Any]) -> int:
    """A token belongs to the question that it was given for."""
    asked = {name: params[name] for name in params if name not in ("NextToken", "MaxResults")}
    return zlib.crc32(msgspec.json.encode(asked, order="deterministic"))


def _start(token: Any, question: int, rows: Sequence[Row], key: Callable[[Row], str] | None) -> int:
    if not token:
        return 0
    place = _place(token)
    if place is None or place.question != question or place.offset < 1:
        raise AwsError("InvalidNextToken", f"The token '{token}' is invalid")
    if key is not None and place.after is not None:
        return bisect_right(rows, place.after, key=key)
    return place.offset


def _token(place: Place) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _place(token: Any) -> Place | None:
    try:
        return msgspec.json.decode(urlsafe_b64decode(str(token).encode()), type=Place)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError):
        return None
