"""The table of fields, the scalars that the API server decodes, and structs that agree with it."""

import msgspec
import pytest
from msgspec import inspect

from wainwright.api.kubernetes.field_types import (
    SCALAR_TYPES,
    FieldType,
    ListFieldType,
    MapFieldType,
    ObjectFieldType,
    ScalarFieldType,
    correction_hint,
    kind_type,
)
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS
from wainwright.api.wire import WireStruct

QUANTITY = SCALAR_TYPES["quantity"]
SPELT: dict[type, tuple[str, ...]] = {
    inspect.StrType: ("string", "time"),
    inspect.IntType: ("int32", "int64"),
    inspect.BoolType: ("boolean",),
}


@pytest.mark.parametrize("key", KUBERNETES_KINDS)
def test_every_field_of_a_struct_is_a_field_of_the_kind_and_of_its_type(
    key: tuple[str, str],
) -> None:
    assert disagreements(inspect.type_info(KUBERNETES_KINDS[key]), kind_type(*key), key[1]) == []


def disagreements(info: inspect.Type, shape: FieldType | None, path: str) -> list[str]:
    match info, shape:
        case inspect.UnionType(), _ if amounts(info):
            return [] if shape is not None and scalar(shape) in amounts(info) else [path]
        case inspect.UnionType(), _:
            (inner,) = (t for t in info.types if not isinstance(t, inspect.NoneType))
            return disagreements(inner, shape, path)
        case inspect.StructType(), ObjectFieldType():
            return [
                wrong
                for field in info.fields
                for wrong in disagreements(
                    field.type,
                    shape.fields.get(field.encode_name),
                    f"{path}.{field.encode_name}",
                )
            ]
        case inspect.ListType(), ListFieldType():
            return disagreements(info.item_type, shape.item, f"{path}[]")
        case inspect.DictType(), MapFieldType():
            return disagreements(info.value_type, shape.item, f"{path}{{}}")
        case inspect.Metadata(), _:
            return disagreements(info.type, shape, path)
        case _:
            fits = shape is not None and scalar(shape) in SPELT.get(type(info), ())
            return [] if fits else [path]


def amounts(info: inspect.UnionType) -> tuple[str, ...]:
    """What a union of numbers and text stands for; nothing where a type is merely optional."""
    kinds = {type(one) for one in info.types} - {inspect.NoneType}
    if kinds == {inspect.IntType, inspect.StrType}:
        return ("intOrString",)
    both = {inspect.IntType, inspect.FloatType, inspect.StrType}
    return ("quantity",) if kinds == both else ()


def scalar(shape: FieldType) -> str:
    if not isinstance(shape, ScalarFieldType):
        return ""
    return next(name for name, one in SCALAR_TYPES.items() if one is shape.scalar)


def test_structs_of_core_kinds_are_left_alone_by_the_collector() -> None:
    for kind in KUBERNETES_KINDS.values():
        assert not kind.__struct_config__.gc


@pytest.mark.parametrize("kind", KUBERNETES_KINDS.values())
def test_every_field_can_be_left_out(kind: type[WireStruct]) -> None:
    assert msgspec.convert({}, kind) == kind()


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:00:00.123456789012Z",
        "2026-01-31T5:04:05Z",
        "2026-01-31T12:00:00,5-07:00",
        "2026-01-31T12:00:00+24:60",
        "0000-02-29T00:00:00Z",
    ],
)
def test_a_time_that_go_parses_is_a_time(text: str) -> None:
    assert SCALAR_TYPES["time"].fits(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-1-31T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-01-31 12:00:00Z",
        "2026-01-31t12:00:00z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:60Z",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00+25:00",
        "2026-01-31T12:00:00+01:61",
        "2026-01-31T12:00:00Z ",
        "٢٠٢٦-01-31T12:00:00Z",
        5,
        None,
    ],
)
def test_anything_else_is_no_time(text: object) -> None:
    assert not SCALAR_TYPES["time"].fits(text)


@pytest.mark.parametrize("value", [1, 0.5, 1e22, -1, "1", " 1Gi ", "1e3", "Gi", ".", "+.5k", "1n"])
def test_what_the_api_server_reads_as_a_quantity_is_one(value: object) -> None:
    assert QUANTITY.fits(value)


@pytest.mark.parametrize(
    "value", ["", " ", "1 Gi", "1K", "0x10", "1e", "nan", True, None, [], {}, float("nan")]
)
def test_anything_else_is_no_quantity(value: object) -> None:
    assert not QUANTITY.fits(value)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("512MB", "did you mean 512M or 512Mi?"),
        ("1K", "did you mean 1k or 1Ki?"),
        ("2gib", "did you mean 2Gi?"),
        ("4 Gi", "did you mean 4Gi?"),
        ("100 b", "did you mean 100?"),
        ("1.2.3G", ""),
        ("a lot", ""),
    ],
)
def test_a_misspelt_quantity_brings_a_suggestion(text: str, advice: str) -> None:
    assert correction_hint(QUANTITY, text) == advice


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("int32", 2**31 - 1, True),
        ("int32", 2**31, False),
        ("int32", -(2**31), True),
        ("int32", 3.0, True),
        ("int32", 3.5, False),
        ("int32", True, False),
        ("int64", 2**63 - 1, True),
        ("int64", 2**63, False),
        ("int64", 1e300, False),
        ("int64", "1", False),
        ("intOrString", "any", True),
        ("intOrString", 2**31, False),
        ("boolean", 1, False),
        ("string", 1, False),
        ("any", object(), True),
    ],
)
def test_scalars_are_taken_as_the_api_server_decodes_them(
    name: str, value: object, fits: bool
) -> None:
    assert SCALAR_TYPES[name].fits(value) is fits
