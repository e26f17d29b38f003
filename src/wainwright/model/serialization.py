"""Snapshots, catalogues and plans as JSON, and back: equal values give equal bytes.

Everything in the model is a struct that msgspec encodes by itself, but for `Requirements`, which
are a mapping with an algebra: they are written as the list of their requirements. Sets are written
in order, so that the bytes do not depend on the hash seed.
"""

from typing import Any, TypeVar, get_origin

import msgspec

from wainwright.model.requirements import Requirement, Requirements

Value = TypeVar("Value")


def encode_model(value: Any) -> bytes:
    """One line of JSON."""
    return _ENCODER.encode(value)


def decode_model(data: bytes | msgspec.Raw, expected: type[Value]) -> Value:
    """The value that was encoded; raises msgspec.ValidationError where it is something else."""
    return msgspec.json.decode(data, type=expected, dec_hook=_decode_requirements)


def to_plain(value: Any) -> Any:
    """The same as dicts, lists and numbers, to be put into a larger document."""
    return msgspec.to_builtins(value, enc_hook=_encode_requirements, order="deterministic")


def from_plain(value: Any, expected: type[Value]) -> Value:
    return msgspec.convert(value, type=expected, dec_hook=_decode_requirements)


def _encode_requirements(value: Any) -> Any:
    if isinstance(value, Requirements):
        return [value[key] for key in value]
    raise NotImplementedError(f"{type(value).__name__} is not a part of the model")


def _decode_requirements(expected: type, value: Any) -> Any:
    if (get_origin(expected) or expected) is Requirements:
        return Requirements(msgspec.convert(each, type=Requirement) for each in value)
    raise NotImplementedError(f"{expected.__name__} is not a part of the model")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_requirements, order="deterministic")
