"""Parts: user data of several parts, each for another reader."""

from email import errors, message_from_string
from email.message import Message
from typing import Final

import msgspec

from wainwright.emulator.boot.reasons import Reason, Unbootable

NODE_CONFIG: Final = "application/node.eks.aws"
SHELL: Final = "text/x-shellscript"
FATAL: Final = (
    errors.CloseBoundaryNotFoundDefect,
    errors.MultipartInvariantViolationDefect,
    errors.NoBoundaryInMultipartDefect,
    errors.StartBoundaryNotFoundDefect,
)
"""What the readers on real machines stumble over."""


class Part(msgspec.Struct, frozen=True):
    type: str
    text: str


def is_mime(text: str) -> bool:
    return text.lstrip().partition(":")[0].lower() in ("mime-version", "content-type")


def parts(text: str) -> list[Part]:
    """Those of a MIME document, nested ones in order; any other text is one part by itself."""
    if not is_mime(text):
        return [Part(_guess(text), text)]
    found: list[Part] = []
    for message in message_from_string(text.lstrip()).walk():
        broken = [each for each in message.defects if isinstance(each, FATAL)]
        if broken:
            raise Unbootable(
                Reason.UNREADABLE, f"the user data is broken MIME: {type(broken[0]).__name__}"
            )
        if not message.is_multipart():
            found.append(Part(message.get_content_type(), _body(message)))
    return found


def _guess(text: str) -> str:
    if text.lstrip().startswith("#!"):
        return SHELL
    return NODE_CONFIG if "node.eks.aws/" in text else "text/plain"


def _body(message: Message) -> str:
    content = message.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    try:
        return content.decode()
    except UnicodeError as error:
        raise Unbootable(
            Reason.UNREADABLE, f"a part of the user data is not text: {error}"
        ) from error
