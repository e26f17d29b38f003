"""JSON objects as the parameters of an operation, and answers as JSON objects."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from wainwright.emulator.http.misfit import Fault, Misfit
from wainwright.emulator.http.scalars import WRITE, blob, text_of, time

Convert: TypeAlias = Callable[[Any], Any]


def _wired(shape: Any, name: str) -> str:
    return str(shape.serialization.get("name", name))


class Reading:
    """Reads by the shapes of one service. What a shape does not know is passed over, as AWS does.

    Each shape is looked at once, when it is first met.
    """

    def __init__(self) -> None:
        self._structures: dict[str, Convert] = {}

    def reader(self, shape: Any) -> Convert:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                return _listed(self.reader(shape.member))
            case "map":
                return _mapped(self.reader(shape.value))
            case kind:
                return SCALARS.get(kind, _text)

    def _structure(self, shape: Any) -> Convert:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, tuple[str, Convert]] = {}

        def read(value: Any) -> dict[str, Any]:
            found = {}
            for step, inner in _kind(value, dict, "an object").items():
                if inner is not None and step in members:
                    name, convert = members[step]
                    found[name] = _at(step, inner, convert)
            return found

        self._structures[shape.name] = read
        for name, member in shape.members.items():
            members[_wired(member, name)] = name, self.reader(member)
        return read


class Writing:
    """Turns answers into what JSON can say, by the shapes of one service."""

    def __init__(self) -> None:
        self._structures: dict[str, Convert] = {}

    def writer(self, shape: Any) -> Convert:
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
                return _time_writer(shape.serialization.get("timestampFormat"))
            case "blob":
                return WRITE["blob"]
            case _:
                return _as_it_is

    def _structure(self, shape: Any) -> Convert:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, tuple[str, Convert]] = {}

        def write(value: Mapping[str, Any]) -> dict[str, Any]:
            made = {}
            for name, inner in value.items():
                if inner is not None:
                    step, convert = members[name]
                    made[step] = convert(inner)
            return made

        self._structures[shape.name] = write
        for name, member in shape.members.items():
            members[name] = _wired(member, name), self.writer(member)
        return write


def _time_writer(form: str | None) -> Convert:
    if form in (None, "unixTimestamp"):
        return datetime.timestamp
    return text_of("timestamp", form, "iso8601")


def _as_it_is(value: Any) -> Any:
    return value


def _kind(value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise Misfit(Fault.VALUE, type(value).__name__, expected)
    return value


def _at(step: str, value: Any, convert: Convert) -> Any:
    try:
        return convert(value)
    except Misfit as misfit:
        raise misfit.under(step) from None


def _listed(one: Convert) -> Convert:
    def read(value: Any) -> list[Any]:
        found = _kind(value, list, "a list")
        return [_at(str(number), each, one) for number, each in enumerate(found)]

    return read


def _mapped(one: Convert) -> Convert:
    def read(value: Any) -> dict[str, Any]:
        found = _kind(value, dict, "an object")
        return {key: _at(key, each, one) for key, each in found.items()}

    return read


def _text(value: Any) -> str:
    return str(_kind(value, str, "a text"))


def _truth(value: Any) -> bool:
    return bool(_kind(value, bool, "true or false"))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise Misfit(Fault.VALUE, repr(value), "a whole number")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misfit(Fault.VALUE, repr(value), "a number")
    return float(value)


def _time(value: Any) -> datetime:
    if isinstance(value, str):
        return time(value)
    try:
        return datetime.fromtimestamp(_number(value), UTC)
    except (ValueError, OverflowError, OSError):
        raise Misfit(Fault.VALUE, repr(value), "a time") from None


def _blob(value: Any) -> bytes:
    return blob(_text(value))


SCALARS: Final[Mapping[str, Convert]] = {
    "boolean": _truth,
    "integer": _whole,
    "long": _whole,
    "float": _number,
    "double": _number,
    "timestamp": _time,
    "blob": _blob,
}
