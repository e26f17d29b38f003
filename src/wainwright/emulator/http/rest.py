"""REST-JSON: the operation by method and path, parameters in the path, the query and the body."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from wainwright.emulator.http import refusals
from wainwright.emulator.http.misfit import WORDS, Misfit
from wainwright.emulator.http.objects import Reading, Writing
from wainwright.emulator.http.protocols import json_of, no_such_action
from wainwright.emulator.http.scalars import READ, text_of
from wainwright.emulator.http.wire import Incoming, Reply
from wainwright.emulator.world import Answer, Params
from wainwright.errors import AwsError

LABEL: Final = re.compile(r"\{([^}+]+)(\+?)\}")


class Route(msgspec.Struct, frozen=True, kw_only=True):
    operation: str
    method: str
    pattern: re.Pattern[str]
    labels: int


def route(name: str, http: Mapping[str, Any]) -> Route:
    """Each `{label}` of the path stands for one step of it, `{label+}` for several."""
    path = str(http["requestUri"]).partition("?")[0]
    parts = LABEL.split(path)
    text = re.escape(parts[0])
    for label, greedy, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        text += f"(?P<{label}>{'.+' if greedy else '[^/]+'}){re.escape(rest)}"
    return Route(
        operation=name,
        method=str(http["method"]),
        pattern=re.compile(f"{text}/?"),
        labels=len(parts) // 3,
    )


class Rest:
    """REST-JSON."""

    def __init__(self, model: Any) -> None:
        self._model = model
        routes = (route(name, model.operation_model(name).http) for name in model.operation_names)
        self._routes = sorted(routes, key=lambda each: (each.labels, each.operation))
        self._reading = Reading()
        self._writing = Writing()

    def operation(self, incoming: Incoming) -> str:
        found = self._found(incoming)
        if found is None:
            raise no_such_action(f"{incoming.method} {incoming.path}")
        return found[0].operation

    def _found(self, incoming: Incoming) -> tuple[Route, Mapping[str, str]] | None:
        """The route with the fewest labels, and what they stand for."""
        for each in self._routes:
            if each.method == incoming.method:
                match = each.pattern.fullmatch(incoming.path)
                if match is not None:
                    return each, match.groupdict()
        return None

    def params(self, operation: str, incoming: Incoming) -> Params:
        shape = self._model.operation_model(operation).input_shape
        if shape is None:
            return {}
        try:
            return self._read(shape, incoming)
        except Misfit as misfit:
            raise WORDS["rest-json"](misfit) from None

    def _read(self, shape: Any, incoming: Incoming) -> Params:
        found = self._from_body(shape, incoming.body)
        route = self._found(incoming)
        labels = {} if route is None else route[1]
        for name, member in shape.members.items():
            written = member.serialization
            located = written.get("name", name)
            match written.get("location"):
                case "uri" if located in labels:
                    found[name] = _scalar(member, unquote(labels[located]))
                case "querystring":
                    _take(found, name, _from_query(member, located, incoming))
                case "header" if located in incoming.headers:
                    found[name] = _scalar(member, incoming.headers[located])
        return found

    def _from_body(self, shape: Any, body: bytes) -> dict[str, Any]:
        payload = shape.serialization.get("payload")
        if payload is None:
            elsewhere = {
                name for name, each in shape.members.items() if "location" in each.serialization
            }
            found = self._reading.reader(shape)(json_of(body))
            return {name: value for name, value in found.items() if name not in elsewhere}
        inner = shape.members[payload]
        if inner.type_name == "blob":
            return {payload: body}
        return {payload: self._reading.reader(inner)(json_of(body))} if body else {}

    def answer(self, operation: str, answer: Answer, request_id: str) -> Reply:
        shape = self._model.operation_model(operation).output_shape
        headers = {"Content-Type": "application/json", refusals.REQUEST_ID: request_id}
        status = int(self._model.operation_model(operation).http.get("responseCode", 200))
        if shape is None:
            return Reply(status, b"{}", headers)
        inner: dict[str, Any] = {}
        for name, value in answer.items():
            written = shape.members[name].serialization
            if written.get("location") == "header":
                headers[written.get("name", name)] = _text(shape.members[name], value)
            else:
                inner[name] = value
        payload = shape.serialization.get("payload")
        if payload is None:
            return Reply(status, msgspec.json.encode(self._writing.writer(shape)(inner)), headers)
        made = self._writing.writer(shape.members[payload])(inner.get(payload, {}))
        return Reply(status, msgspec.json.encode(made), headers)

    def refusal(self, error: AwsError, request_id: str) -> Reply:
        return refusals.rest(error, request_id)


def _scalar(shape: Any, text: str) -> Any:
    convert = READ.get(shape.type_name)
    return text if convert is None else convert(text)


def _text(shape: Any, value: Any) -> str:
    form = shape.serialization.get("timestampFormat")
    return text_of(shape.type_name, form, "rfc822")(value)


def _from_query(shape: Any, name: str, incoming: Incoming) -> Any:
    """A list is named as often as it has members; a map takes every name that is not another's."""
    if shape.type_name == "map":
        return dict(incoming.arguments) or None
    values = [value for key, value in incoming.arguments if key == name]
    if not values:
        return None
    if shape.type_name == "list":
        return [_scalar(shape.member, value) for value in values]
    return _scalar(shape, values[-1])


def _take(found: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        found[name] = value
