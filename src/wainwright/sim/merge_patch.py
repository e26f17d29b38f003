"""Merge patches on wire structs: only the parts that a patch names are made anew.

All others are shared with the object before, so that who has translated them once can tell by
identity that they have not changed.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from wainwright.api.wire import WireStruct
from wainwright.cluster import MergePatch


class StructPart(NamedTuple):
    """A top-level field of a kind."""

    type: Any
    make_default: Callable[[], Any]


@cache
def parts_of(kind: type[WireStruct]) -> dict[str, StructPart]:
    """All top-level fields but apiVersion and kind."""
    return {
        field.name: StructPart(field.type, _default_maker(field))
        for field in msgspec.structs.fields(kind)
        if field.name not in ("apiVersion", "kind")
    }


def _default_maker(field: msgspec.structs.FieldInfo) -> Callable[[], Any]:
    if field.default_factory is not msgspec.NODEFAULT:
        factory: Callable[[], Any] = field.default_factory
        return factory
    default = None if field.default is msgspec.NODEFAULT else field.default
    return lambda: default


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def merged_parts(obj: WireStruct, patch: MergePatch, names: Collection[str]) -> dict[str, Any]:
    """The named parts that the patch has, merged, as plain JSON values."""
    return {
        name: merged(msgspec.to_builtins(getattr(obj, name)), patch[name])
        for name in parts_of(type(obj))
        if name in patch and name in names
    }


def converted_parts(kind: type[WireStruct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Each part as its struct; fields that it does not have are dropped.

    Raises msgspec.ValidationError where a value has the wrong type.
    """
    parts = parts_of(kind)
    return {
        name: parts[name].make_default()
        if value is None
        else msgspec.convert(value, parts[name].type)
        for name, value in values.items()
    }
