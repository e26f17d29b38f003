"""The formats of user data: YAML, TOML and MIME, read alike for launch templates and for simulated
boots.

Whoever may write an EC2NodeClass writes user data, and controllers read it on their event loop.
Whatever it is, reading it is quick and ends in a value or in UnreadableUserData. The parsers alone
do not do that: nested text raises RecursionError, a number of 5,000 digits ValueError, and a class
whose reconciliation raises such an error has no condition that says why nothing is launched.
"""

import re
import tomllib
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from typing import Any, Final

import yaml

from wainwright.manifests.yaml_reader import (
    MAX_DEPTH,
    ParserLimitExceeded,
    UnreadableDocument,
    parse_yaml,
)
from wainwright.manifests.yaml_writer import needs_quotes

MAX_ALIASED_VALUES: Final = 1_000
"""Fewer than in manifests: a value may be a text of 16 KiB, and messages have what was found."""
MAX_MESSAGE: Final = 200
TOML_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*"""
DEEP_TOML_KEY: Final = re.compile(
    rf"(?:^[ \t]*\[*|[{{,])[ \t]*(?:{TOML_KEY}\.[ \t]*){{{MAX_DEPTH}}}", re.MULTILINE
)
TOO_DEEP: Final = f"more than {MAX_DEPTH} levels of nesting"
INT64_LIMIT: Final = 2**63


class UnreadableUserData(Exception):
    """The text is not of the format."""

    def __init__(self, message: str, *, exceeds_limit: bool = False) -> None:
        super().__init__(message[:MAX_MESSAGE])
        self.exceeds_limit = exceeds_limit
        """Whether it is too deep or too large, so that nobody looked whether it is of the format.
        """


def parse_yaml_documents(text: str) -> Iterator[Any]:
    """The documents in order, as Kubernetes would read them; empty ones are skipped."""
    try:
        for document, _ in parse_yaml(text, max_expansion=MAX_ALIASED_VALUES):
            yield document.value
    except UnreadableDocument as error:
        raise UnreadableUserData(
            f"line {error.line}: {error.message}",
            exceeds_limit=isinstance(error, ParserLimitExceeded),
        ) from error
    except UnicodeEncodeError as error:
        raise UnreadableUserData("half of a surrogate pair, which is no text") from error


class _NodeConfigDumper(yaml.SafeDumper):
    """Texts are quoted where they would be read as something else: `y` as true, `1e3` as 1000."""


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "'" if needs_quotes(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_NodeConfigDumper.add_representer(str, _represent_text)


def dump_yaml_document(value: Any) -> str:
    """Block style on long lines; equal values give equal text, whatever the order of their keys."""
    text: str = yaml.dump(value, Dumper=_NodeConfigDumper, width=10_000)
    return text


def parse_toml(text: str) -> dict[str, Any]:
    if DEEP_TOML_KEY.search(text):  # takes tomllib seconds and gigabytes
        raise UnreadableUserData(TOO_DEEP, exceeds_limit=True)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableUserData(str(error)) from error
    except RecursionError as error:
        raise UnreadableUserData(TOO_DEEP, exceeds_limit=True) from error
    except ValueError as error:
        raise UnreadableUserData("an integer of thousands of digits") from error
    _check_toml_values(table)
    return table


def _check_toml_values(table: dict[str, Any]) -> None:
    """What could be read, but neither be written again nor be a setting."""
    waiting: list[tuple[Any, int]] = [(table, 1)]
    while waiting:
        container, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise UnreadableUserData(TOO_DEEP, exceeds_limit=True)
        for value in container.values() if isinstance(container, dict) else container:
            if isinstance(value, dict | list):
                waiting.append((value, depth + 1))
            elif isinstance(value, int) and not -INT64_LIMIT <= value < INT64_LIMIT:
                raise UnreadableUserData("an integer of more than 64 bits")


def parse_mime(text: str) -> list[Message]:
    """The message and all that it is made of, in order."""
    try:
        return list(_nested_messages(message_from_string(text.lstrip())))
    except RecursionError as error:
        raise UnreadableUserData(TOO_DEEP, exceeds_limit=True) from error
    except ValueError as error:  # parameters are numbered, with as many digits as one likes
        raise UnreadableUserData("the headers of a part cannot be read") from error


def _nested_messages(message: Message) -> Iterator[Message]:
    """`Message.walk` with a limit that does not depend on who calls."""
    waiting = [(message, 1)]
    while waiting:
        found, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise UnreadableUserData(TOO_DEEP, exceeds_limit=True)
        yield found
        if found.is_multipart():
            inner: list[Message] = found.get_payload()  # type: ignore[assignment]
            waiting.extend((each, depth + 1) for each in reversed(inner))
