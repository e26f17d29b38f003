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
    """Reads by the shapes of one service. What a shape does not know is passed over, as AWS does.

    Each shape is looked at once, when it is first met.
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
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, tuple[str, JsonConverter]] = {}

        def read(value: Any) -> dict[str, Any]:
            found = {}
            for step, inner in _expect_type(value, dict, "an object").items():
                if inner is not None and step in members:
                    name, convert = members[step]
                    found[name] = _convert_at(step, inner, convert)
            return found

        self._structures[shape.name] = read
        for name, member in shape.members.items():
            members[_wire_name(member, name)] = name, self.reader(member)
        return read


class JsonEncoder:
    """Turns answers into what JSON can say, by the shapes of one service."""

    def __init__(self) -> None:
        self._structures: dict[str, JsonConverter] = {}

    def writer(self, shape: Any) -> JsonConverter:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                one = self.writer(shape.member)
                return lambda value: [one(each) for each in value]
            case "map":
                one = self.writer(shape.value)
                return lambda value: {key: one(each) for key, each in value.items()}
            case "timestamp":
                return _timestamp_writer(shape.serialization.get("timestampFormat"))
            case "blob":
                return SCALAR_FORMATTERS["blob"]
            case _:
                return _identity

    def _structure(self, shape: Any) -> JsonConverter:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, tuple[str, JsonConverter]] = {}

        def write(value: Mapping[str, Any]) -> dict[str, Any]:
            made = {}
            for name, inner in value.items():
                if inner is not None:
                    step, convert = members[name]
                    made[step] = convert(inner)
            return made

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
    except ParameterError as misfit:
        raise misfit.under(step) from None


def _list_reader(one: JsonConverter) -> JsonConverter:
    def read(value: Any) -> list[Any]:
        found = _expect_type(value, list, "a list")
        return [_convert_at(str(number), each, one) for number, each in enumerate(found)]

    return read


def _map_reader(one: JsonConverter) -> JsonConverter:
    def read(value: Any) -> dict[str, Any]:
        found = _expect_type(value, dict, "an object")
        return {key: _convert_at(key, each, one) for key, each in found.items()}

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
