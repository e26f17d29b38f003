"""Values of a patch or of a file of faults as structs. An error names the field, and the value or
field that was probably meant.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from wainwright.api.field_error import did_you_mean
from wainwright.errors import InvalidInputError

Value = TypeVar("Value")

UNKNOWN_VALUE: Final = re.compile(r"Invalid enum value '(.*)'")
UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*)`")
PATH_STEP: Final = re.compile(r"\[[^]]*\]|\.(\w+)")


def convert_field(value: Any, kind: type[Value], name: str) -> Value:
    """The value as this type; InvalidInputError says where it is none."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _explain(str(error), kind, name) from None


def _explain(error: str, kind: type, name: str) -> InvalidInputError:
    """`Invalid enum value 'sopt' - at `$[0].kind`` with the field and the values that there are."""
    message, _, path = error.partition(" - at `$")
    path = path.removesuffix("`")
    known = sorted(_known_words(_types_at(inspect.type_info(kind), path)))
    if found := UNKNOWN_VALUE.fullmatch(message):
        message = f'found "{found[1]}", expected one of {", ".join(known)}'
    elif found := UNKNOWN_FIELD.fullmatch(message):
        message = f"unknown field {found[1]}, expected one of {', '.join(known)}"
    return InvalidInputError(
        f"{name}{path}: {message}", did_you_mean(found[1], known) if found else ""
    )


def _types_at(root: inspect.Type, path: str) -> list[inspect.Type]:
    """The types that a value at this path may have."""
    types = list(_alternatives(root))
    for step in PATH_STEP.finditer(path):
        members = [member for each in types for member in _members(each, step[1])]
        types = [each for member in members for each in _alternatives(member)]
    return types


def _alternatives(kind: inspect.Type) -> Iterator[inspect.Type]:
    match kind:
        case inspect.UnionType(types=types):
            yield from types
        case inspect.Metadata(type=inner):
            yield from _alternatives(inner)
        case _:
            yield kind


def _members(kind: inspect.Type, field: str | None) -> Iterator[inspect.Type]:
    match kind:
        case inspect.ListType(item_type=member) | inspect.DictType(value_type=member):
            yield member
        case inspect.StructType(fields=fields):
            yield from (each.type for each in fields if each.encode_name == field)
        case _:
            return


def _known_words(types: list[inspect.Type]) -> Iterator[str]:
    for each in types:
        match each:
            case inspect.EnumType(cls=values):
                yield from (str(value.value) for value in values)
            case inspect.StructType(fields=fields):
                yield from (field.encode_name for field in fields)
            case _:
                continue
