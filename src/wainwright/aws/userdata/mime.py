"""MIME: user data in several parts, of which each machine reads those it understands."""

from collections.abc import Iterable, Iterator
from email import message_from_string
from email.message import Message
from typing import Final

import msgspec

from wainwright.errors import BadInput

NODE_CONFIG: Final = "application/node.eks.aws"
SHELL: Final = "text/x-shellscript"
BY_FIRST_LINE: Final = {
    "#cloud-config": "text/cloud-config",
    "#cloud-boothook": "text/cloud-boothook",
}
"""Texts that cloud-init knows by how they begin."""


class Part(msgspec.Struct, frozen=True):
    """Headers and body, both as they are written: nothing is decoded on the way through."""

    headers: tuple[tuple[str, str], ...]
    body: str


def part(content_type: str, body: str) -> Part:
    charset = "us-ascii" if body.isascii() else "utf-8"
    kind = f'{content_type}; charset="{charset}"' if content_type.startswith("text/") else ""
    return Part((("Content-Type", kind or content_type),), body)


def script(body: str) -> Part:
    """A part for cloud-init by how it begins; a text without a first line of its own is bash."""
    body = body.lstrip("\r\n")
    first = body.partition("\n")[0].strip()
    if first in BY_FIRST_LINE:
        return part(BY_FIRST_LINE[first], body)
    return part(SHELL, body if first.startswith("#!") else f"#!/bin/bash\n{body}")


def is_mime(text: str) -> bool:
    first = text.lstrip().partition(":")[0].lower()
    return first in ("mime-version", "content-type")


def parts(text: str) -> tuple[Part, ...]:
    """The parts of a document that a user has written, nested ones one after the other."""
    message = message_from_string(text.lstrip())
    if message.get_content_maintype() == "multipart" and not message.is_multipart():
        raise BadInput(
            "the user data says that it is MIME in several parts, but has none",
            "check that its boundary is the one that its parts are divided by",
        )
    return tuple(_part(each) for each in message.walk() if not each.is_multipart())


def _part(message: Message) -> Part:
    headers = tuple(
        (name, value) for name, value in message.items() if name.lower() != "mime-version"
    )
    return Part(headers or (("Content-Type", "text/plain"),), str(message.get_payload()))


def document(written: Iterable[Part]) -> str:
    """All parts in one document; the boundary is one that no body can be mistaken for."""
    every = tuple(written)
    boundary = _boundary(every)
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for each in every:
        headers = [f"{name}: {value}" for name, value in each.headers]
        lines += [f"--{boundary}", *headers, "", each.body]
    return "\n".join([*lines, f"--{boundary}--", ""])


def _boundary(every: tuple[Part, ...]) -> str:
    lines = [line for each in every for line in each.body.splitlines()]
    return next(
        name for name in _names() if not any(line.startswith(f"--{name}") for line in lines)
    )


def _names() -> Iterator[str]:
    yield "//"
    number = 1
    while True:
        yield f"={number}="
        number += 1
