"""Requests as they come in and replies as they go out, whatever carries them."""

from collections.abc import Mapping
from functools import cached_property
from urllib.parse import parse_qsl

import msgspec

from wainwright.errors import AwsError


class Incoming:
    """A request. Paths and query strings are as they were sent: percent-encoded."""

    def __init__(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body

    @cached_property
    def arguments(self) -> list[tuple[str, str]]:
        """Of the query string, in order."""
        return _pairs(self.query)

    @cached_property
    def form(self) -> dict[str, str]:
        """Of the query string and, where it is a form, of the body."""
        pairs = list(self.arguments)
        if "json" not in self.headers.get("Content-Type", ""):
            pairs += _pairs(self.body)
        return dict(pairs)


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str]


def _pairs(text: str | bytes) -> list[tuple[str, str]]:
    try:
        plain = text.decode() if isinstance(text, bytes) else text
        return parse_qsl(plain, keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise AwsError("MalformedQueryString", "The request is no form in UTF-8.") from None
