"""JSON as every command prints it, so that what is written to a file has the same bytes."""

from typing import Any

import msgspec

from wainwright.manifests.yaml_writer import UNPRINTABLE, escape_surrogates


def dump_json(value: Any) -> str:
    """Indented JSON with fields in insertion order, without a line break at the end.

    The order is documented (the steps of a funnel come in order), so keys are not sorted. Documents
    contain no sets, whose order would vary. Characters that would steer a terminal are escaped.
    """
    return escape_json(msgspec.json.format(_encode(value)).decode())


def escape_json(text: str) -> str:
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character, as file names that are not UTF-8 have
        return msgspec.json.encode(escape_surrogates(msgspec.to_builtins(value)))
