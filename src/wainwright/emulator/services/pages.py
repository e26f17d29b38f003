"""Pages of the services beside EC2, which all count alike and all name it differently."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from wainwright.emulator.services.requests import whole
from wainwright.errors import AwsError

Row = TypeVar("Row")


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """How one service speaks of pages."""

    size: str
    """The parameter that says how many rows."""
    token: str
    """The parameter that says from where, and the field of the answer that says it."""
    most: int
    otherwise: int
    """Rows of a page when nobody says how many."""
    bad_size: str
    bad_token: str
    """Codes of refusal."""

    def cut(self, rows: Sequence[Row], params: Mapping[str, Any]) -> tuple[list[Row], str | None]:
        """The rows of the page that is asked for, and the token of the next if there is one."""
        size = whole(params, self.size, otherwise=self.otherwise, refused=self.bad_size)
        if not 1 <= size <= self.most:
            raise AwsError(self.bad_size, f"{self.size} must be between 1 and {self.most}.")
        start = self._start(params.get(self.token))
        end = start + size
        return list(rows[start:end]), _token(end) if end < len(rows) else None

    def _start(self, token: Any) -> int:
        start = _place(token) if token else 0
        if start is None:
            raise AwsError(self.bad_token, f"{self.token} {token!r} is not one that was given out.")
        return start


def _token(place: int) -> str:
    return urlsafe_b64encode(f"from {place}".encode()).decode()


def _place(token: Any) -> int | None:
    try:
        word, _, number = urlsafe_b64decode(str(token).encode()).decode().partition(" ")
    except (binascii.Error, UnicodeError):
        return None
    return int(number) if word == "from" and number.isdecimal() else None
