"""User data as launch templates carry it: base64, and perhaps compressed."""

import binascii
import gzip
import zlib
from base64 import b64decode
from typing import Final

from wainwright.emulator.boot.reasons import Reason, Unbootable

GZIP: Final = b"\x1f\x8b"


def decoded(encoded: str | None) -> str:
    """The text that a machine sees; Unbootable where it sees none."""
    if not encoded:
        return ""
    try:
        content = b64decode(encoded, validate=True)
        if content.startswith(GZIP):
            content = gzip.decompress(content)
        return content.decode()
    except (binascii.Error, OSError, EOFError, zlib.error, UnicodeError) as error:
        raise Unbootable(Reason.UNREADABLE, f"the user data cannot be decoded: {error}") from error
