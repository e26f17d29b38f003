"""How an object of a core kind is taken apart: its parts, with the struct and check of each."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from wainwright.api.builtin import rules
from wainwright.api.builtin.fields import Fields, Shape, root
from wainwright.api.builtin.registry import KINDS
from wainwright.api.wire import Wire


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of an object; without a struct, nothing in it matters and only its shape is held."""

    name: str
    shape: Shape
    struct: Any
    check: rules.PartCheck | None


@dataclass(frozen=True, slots=True)
class Layout:
    kind: str
    struct: type[Wire]
    fields: Fields
    metadata: Shape
    slots: tuple[Slot, ...]
    """Empty where a kind has its fields at the top instead of in a spec."""


@cache
def layout(api_version: str, kind: str) -> Layout:
    struct, fields = KINDS[api_version, kind], root(api_version, kind)
    types = {field.name: field.type for field in msgspec.structs.fields(struct)}
    names = ("spec", "status") if "spec" in fields.fields else ()
    slots = tuple(
        Slot(name, fields.fields[name], types.get(name), rules.PARTS.get((kind, name)))
        for name in names
        if name in fields.fields
    )
    return Layout(kind, struct, fields, fields.fields["metadata"], slots)
