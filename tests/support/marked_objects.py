"""Objects with a marker in every text that their type has, and where it is found again."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import inspect

from wainwright.model.requirements import Requirement

MARKER: Final = "acme-payments"
HEAD: Final = ("apiVersion", "kind")
"""Says of what kind an object is."""
SCALARS: Final[dict[type[inspect.Type], Any]] = {
    inspect.StrType: MARKER,
    inspect.AnyType: MARKER,
    inspect.BoolType: True,
    inspect.IntType: 1,
    inspect.FloatType: 1,
}


def marked(kind: Any, annotations: Sequence[str] = ()) -> dict[str, Any]:
    """A value of the type as JSON has it: each field is set, each list and map has one entry. Maps
    have the marker as key, but `annotations` has these.
    """
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    head = {each.name: each.default for each in info.fields if each.name in HEAD}
    return {**_marked("", info, annotations), **head}


def _marked(key: str, info: inspect.Type, annotations: Sequence[str]) -> Any:
    value: Any
    match info:
        case inspect.StructType():
            value = _struct(info, annotations)
        case inspect.ListType() | inspect.VarTupleType() | inspect.FrozenSetType():
            value = [_marked(key, info.item_type, annotations)]
        case inspect.TupleType():
            value = [_marked(key, each, annotations) for each in info.item_types]
        case inspect.DictType():
            keys = annotations if key == "annotations" else (MARKER,)
            value = {each: _marked("", info.value_type, annotations) for each in keys}
        case inspect.CustomType():  # requirements, as the model encodes them
            value = [_marked("", inspect.type_info(Requirement), annotations)]
        case inspect.UnionType():
            value = _marked(key, _widest(info), annotations)
        case inspect.Metadata():
            value = _marked(key, info.type, annotations)
        case _:
            value = _scalar(info)
    return value


def _struct(info: inspect.StructType, annotations: Sequence[str]) -> dict[str, Any]:
    tag = {} if info.tag_field is None else {info.tag_field: info.tag}
    fields = {
        each.encode_name: _marked(each.encode_name, each.type, annotations) for each in info.fields
    }
    return {**tag, **fields}


def _scalar(info: inspect.Type) -> Any:
    if isinstance(info, inspect.EnumType):
        return next(iter(info.cls)).value
    if isinstance(info, inspect.LiteralType):
        return info.values[0]
    return SCALARS[type(info)]


def _widest(info: inspect.UnionType) -> inspect.Type:
    """Text where it may be text, else whatever is not null."""
    kinds = [each for each in info.types if not isinstance(each, inspect.NoneType)]
    return next((each for each in kinds if isinstance(each, inspect.StrType)), kinds[0])


def marked_places(value: Any, place: str = "") -> Iterator[str]:
    """Where the marker is, as `parent.field`; a key of a map as `field{}`."""
    if isinstance(value, dict):
        for key, item in value.items():
            is_marked = MARKER in key
            if is_marked:
                yield f"{place}{{}}"
            yield from marked_places(item, f"{place}{{}}=" if is_marked else f"{place}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from marked_places(each, place)
    elif isinstance(value, str) and MARKER in value:
        yield place
