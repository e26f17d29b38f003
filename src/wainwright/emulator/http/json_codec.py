"""JSON objects as the parameters of an operation, and responses as JSON objects."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from wainwright.emulator.http.wire_scalars import (
    SCALAR_FORMATTERS,
    ParameterError,
    ParameterErrorKind,
    parse_blob,
    parse_wire_time,
    scalar_formatter,
)

JsonConverter: TypeAlias = Callable[[Any], Any]


def _wire_name(shape: Any, name: str) -> str:
    return str(shape.serialization.get("name", name))


class JsonDecoder:
    """Decodes by the shapes of one service. Unknown members are ignored, as in AWS.

    The reader of each shape is built once, at its first use: walking the model for every request
    would dominate decoding. It is stored before its members are built, as shapes may be recursive.
    """

    def __init__(self) -> None:
        self._structures: dict[str, JsonConverter] = {}

    def reader(self, shape: Any) -> JsonConverter:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                return _list_reader(self.reader(shape.member))
            case "map":
                return _map_reader(self.reader(shape.value))
            case kind:
                return SCALAR_READERS.get(kind, _read_text)

    def _structure(self, shape: Any) -> JsonConverter:
        cached = self._structures.get(shape.name)
        if cached is not None:
            return cached
        members: dict[str, tuple[str, JsonConverter]] = {}

        def read(value: Any) -> dict[str, Any]:
            params = {}
            for step, inner in _expect_type(value, dict, "an object").items():
                if inner is not None and step in members:
                    name, convert = members[step]
                    params[name] = _convert_at(step, inner, convert)
            return params

        self._structures[shape.name] = read
        for name, member in shape.members.items():
            members[_wire_name(member, name)] = name, self.reader(member)
        return read


class JsonEncoder:
    """Encodes responses as JSON values, by the shapes of one service; writers are built once."""

    def __init__(self) -> None:
        self._structures: dict[str, JsonConverter] = {}

    def writer(self, shape: Any) -> JsonConverter:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                convert_member = self.writer(shape.member)
                return lambda value: [convert_member(each) for each in value]
            case "map":
                convert_member = self.writer(shape.value)
                return lambda value: {key: convert_member(each) for key, each in value.items()}
            case "timestamp":
                return _timestamp_writer(shape.serialization.get("timestampFormat"))
            case "blob":
                return SCALAR_FORMATTERS["blob"]
            case _:
                return _identity

    def _structure(self, shape: Any) -> JsonConverter:
        cached = self._structures.get(shape.name)
        if cached is not None:
            return cached
        members: dict[str, tuple[str, JsonConverter]] = {}

        def write(value: Mapping[str, Any]) -> dict[str, Any]:
            encoded = {}
            for name, inner in value.items():
                if inner is not None:
                    step, convert = members[name]
                    encoded[step] = convert(inner)
            return encoded

        self._structures[shape.name] = write
        for name, member in shape.members.items():
            members[name] = _wire_name(member, name), self.writer(member)
        return write


def _timestamp_writer(form: str | None) -> JsonConverter:
    if form in (None, "unixTimestamp"):
        return datetime.timestamp
    return scalar_formatter("timestamp", form, "iso8601")


def _identity(value: Any) -> Any:
    return value


def _expect_type(value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise ParameterError(ParameterErrorKind.VALUE, type(value).__name__, expected)
    return value


def _convert_at(step: str, value: Any, convert: JsonConverter) -> Any:
    try:
        return convert(value)
    except ParameterError as error:
        raise error.nested_in(step) from None


def _list_reader(convert_member: JsonConverter) -> JsonConverter:
    def read(value: Any) -> list[Any]:
        members = _expect_type(value, list, "a list")
        return [
            _convert_at(str(number), each, convert_member) for number, each in enumerate(members)
        ]

    return read


def _map_reader(convert_member: JsonConverter) -> JsonConverter:
    def read(value: Any) -> dict[str, Any]:
        members = _expect_type(value, dict, "an object")
        return {key: _convert_at(key, each, convert_member) for key, each in members.items()}

    return read


def _read_text(value: Any) -> str:
    return str(_expect_type(value, str, "a text"))


def _read_boolean(value: Any) -> bool:
    return bool(_expect_type(value, bool, "true or false"))


def _read_integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ParameterError(ParameterErrorKind.VALUE, repr(value), "a whole number")
    return int(value)


def _read_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParameterError(ParameterErrorKind.VALUE, repr(value), "a number")
    return float(value)


def _read_timestamp(value: Any) -> datetime:
    if isinstance(value, str):
        return parse_wire_time(value)
    try:
        return datetime.fromtimestamp(_read_number(value), UTC)
    except (ValueError, OverflowError, OSError):
        raise ParameterError(ParameterErrorKind.VALUE, repr(value), "a time") from None


def _read_blob(value: Any) -> bytes:
    return parse_blob(_read_text(value))


SCALAR_READERS: Final[Mapping[str, JsonConverter]] = {
    "boolean": _read_boolean,
    "integer": _read_integer,
    "long": _read_integer,
    "float": _read_number,
    "double": _read_number,
    "timestamp": _read_timestamp,
    "blob": _read_blob,
}
