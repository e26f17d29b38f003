"""The protocols of AWS (query, JSON, REST-JSON): which operation an HTTP request means, its
parameters, the response, and errors in the shape of each protocol. No error is ever a page for
people.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec

from wainwright.emulator.context import Params, Response
from wainwright.emulator.http.json_codec import JsonConverter, JsonDecoder, JsonEncoder
from wainwright.emulator.http.query_codec import (
    XML_DECLARATION,
    FormDecoder,
    XmlEncoder,
    XmlWriter,
    escape_xml,
    parse_form_tree,
    xml_element,
)
from wainwright.emulator.http.wire_scalars import (
    PARAMETER_ERRORS,
    SCALAR_PARSERS,
    ParameterError,
    ParameterErrorKind,
    scalar_formatter,
)
from wainwright.emulator.services.sqs import JSON_ERROR_NAMES
from wainwright.errors import AwsError


class HttpRequest:
    """A request. Paths and query strings are as they were sent: percent-encoded."""

    def __init__(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body

    @cached_property
    def arguments(self) -> list[tuple[str, str]]:
        """Of the query string, in order."""
        return _parse_pairs(self.query)

    @cached_property
    def form(self) -> dict[str, str]:
        """Of the query string and, where it is a form, of the body."""
        pairs = list(self.arguments)
        if "json" not in self.headers.get("Content-Type", ""):
            pairs += _parse_pairs(self.body)
        return dict(pairs)


class HttpResponse(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str]


def _parse_pairs(text: str | bytes) -> list[tuple[str, str]]:
    try:
        plain = text.decode() if isinstance(text, bytes) else text
        return parse_qsl(plain, keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise AwsError("MalformedQueryString", "The request is no form in UTF-8.") from None


REQUEST_ID_HEADER = "x-amzn-RequestId"
ERROR_TYPE_HEADER = "x-amzn-ErrorType"
QUERY_ERROR_HEADER = "x-amzn-query-error"
XML_CONTENT_TYPE = "text/xml;charset=UTF-8"


def ec2_error(error: AwsError, request_id: str) -> HttpResponse:
    said = xml_element("Code", escape_xml(error.code)) + xml_element(
        "Message", escape_xml(error.text)
    )
    inner = xml_element("Errors", xml_element("Error", said)) + xml_element("RequestID", request_id)
    return xml_response(error.status, xml_element("Response", inner), request_id)


def query_error(error: AwsError, request_id: str, namespace: str = "") -> HttpResponse:
    said = (
        xml_element("Type", _error_party(error))
        + xml_element("Code", escape_xml(error.code))
        + xml_element("Message", escape_xml(error.text))
    )
    inner = xml_element("Error", said) + xml_element("RequestId", request_id)
    opening = f'<ErrorResponse xmlns="{namespace}">' if namespace else "<ErrorResponse>"
    return xml_response(error.status, f"{opening}{inner}</ErrorResponse>", request_id)


def json_error(
    error: AwsError, request_id: str, version: str, *, compatible: bool = False
) -> HttpResponse:
    """`compatible`: of a service that used to speak the query protocol, and still has its codes."""
    name = JSON_ERROR_NAMES.get(error.code, error.code) if compatible else error.code
    headers = {"Content-Type": f"application/x-amz-json-{version}", REQUEST_ID_HEADER: request_id}
    headers[ERROR_TYPE_HEADER] = name
    if compatible:
        headers[QUERY_ERROR_HEADER] = f"{error.code};{_error_party(error)}"
    return HttpResponse(error.status, _error_body(error, {"__type": name}), headers)


def rest_json_error(error: AwsError, request_id: str) -> HttpResponse:
    headers = {
        "Content-Type": "application/json",
        REQUEST_ID_HEADER: request_id,
        ERROR_TYPE_HEADER: error.code,
    }
    return HttpResponse(error.status, _error_body(error, {}), headers)


def xml_response(status: int, text: str, request_id: str) -> HttpResponse:
    headers = {"Content-Type": XML_CONTENT_TYPE, REQUEST_ID_HEADER: request_id}
    return HttpResponse(status, (XML_DECLARATION + text).encode(), headers)


def _error_body(error: AwsError, more: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({**more, "message": error.text})


def _error_party(error: AwsError) -> str:
    return "Sender" if error.status < 500 else "Receiver"


REQUEST_FIELDS = ("Action", "Version")
SIGNATURE_PREFIX = "X-Amz-"


class ServiceProtocol(Protocol):
    """How one service is spoken to."""

    def operation(self, request: HttpRequest) -> str:
        """The name of the API; AwsError where there is none of that name."""
        ...

    def params(self, operation: str, request: HttpRequest) -> Params:
        """As boto3 takes them; AwsError where they cannot be read."""
        ...

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse: ...

    def refusal(self, error: AwsError, request_id: str) -> HttpResponse: ...


def invalid_action(operation: str) -> AwsError:
    message = f"The action {operation} is not valid for this web service."
    return AwsError("InvalidAction", message)


class QueryProtocol:
    """The query protocols, EC2's and the other: a form in, XML out."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._ec2 = model.metadata["protocol"] == "ec2"
        self._namespace = model.metadata.get("xmlNamespace", "")
        self._names = frozenset(model.operation_names)
        self._forms = FormDecoder(ec2=self._ec2)
        self._xml = XmlEncoder(ec2=self._ec2)
        self._writers: dict[str, XmlWriter | None] = {}

    def operation(self, request: HttpRequest) -> str:
        name = request.form.get("Action")
        if name is None:
            raise AwsError("MissingAction", "The request must contain the parameter Action.")
        if name not in self._names:
            raise invalid_action(name)
        return name

    def params(self, operation: str, request: HttpRequest) -> Params:
        shape = self._model.operation_model(operation).input_shape
        if shape is None:
            return {}
        pairs = (
            pair
            for pair in request.form.items()
            if pair[0] not in REQUEST_FIELDS and not pair[0].startswith(SIGNATURE_PREFIX)
        )
        try:
            found: Params = self._forms.reader(shape)(parse_form_tree(pairs))
        except ParameterError as misfit:
            raise PARAMETER_ERRORS["ec2" if self._ec2 else "query"](misfit) from None
        return found

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse:
        writer = self._writer(operation)
        inner = "" if writer is None else writer(answer)
        if self._ec2:
            done = "<return>true</return>" if writer is None else inner
            text = f"<requestId>{request_id}</requestId>{done}"
        else:
            result = f"<{operation}Result>{inner}</{operation}Result>" if writer else ""
            text = (
                f"{result}<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
            )
        root = f"{operation}Response"
        return xml_response(200, f'<{root} xmlns="{self._namespace}">{text}</{root}>', request_id)

    def _writer(self, operation: str) -> XmlWriter | None:
        if operation not in self._writers:
            shape = self._model.operation_model(operation).output_shape
            self._writers[operation] = None if shape is None else self._xml.inside(shape)
        return self._writers[operation]

    def refusal(self, error: AwsError, request_id: str) -> HttpResponse:
        if self._ec2:
            return ec2_error(error, request_id)
        return query_error(error, request_id, self._namespace)


class JsonProtocol:
    """JSON 1.0 and 1.1: the operation in a header, an object in, an object out."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._version = model.metadata["jsonVersion"]
        self._compatible = "awsQueryCompatible" in model.metadata
        self._targets: dict[str, str] = {
            f"{model.metadata['targetPrefix']}.{name}": name for name in model.operation_names
        }
        self._reading = JsonDecoder()
        self._writing = JsonEncoder()
        self._writers: dict[str, JsonConverter | None] = {}

    def operation(self, request: HttpRequest) -> str:
        target = request.headers.get("X-Amz-Target", "")
        if target not in self._targets:
            raise invalid_action(target)
        return self._targets[target]

    def params(self, operation: str, request: HttpRequest) -> Params:
        shape = self._model.operation_model(operation).input_shape
        if shape is None:
            return {}
        try:
            found: Params = self._reading.reader(shape)(parse_json_body(request.body))
        except ParameterError as misfit:
            raise PARAMETER_ERRORS["json"](misfit) from None
        return found

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse:
        if operation not in self._writers:
            shape = self._model.operation_model(operation).output_shape
            self._writers[operation] = None if shape is None else self._writing.writer(shape)
        writer = self._writers[operation]
        body = b"" if writer is None else msgspec.json.encode(writer(answer))
        headers = {
            "Content-Type": f"application/x-amz-json-{self._version}",
            REQUEST_ID_HEADER: request_id,
        }
        return HttpResponse(200, body, headers)

    def refusal(self, error: AwsError, request_id: str) -> HttpResponse:
        return json_error(error, request_id, self._version, compatible=self._compatible)


def parse_json_body(body: bytes) -> Mapping[str, Any]:
    """The object in a body; an empty body is an empty object."""
    try:
        found = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ParameterError(ParameterErrorKind.VALUE, "something else", "JSON").under(
            "request"
        ) from None
    if not isinstance(found, dict):
        raise ParameterError(ParameterErrorKind.VALUE, type(found).__name__, "an object").under(
            "request"
        )
    return found


PATH_LABEL: Final = re.compile(r"\{([^}+]+)(\+?)\}")


class RestRoute(msgspec.Struct, frozen=True, kw_only=True):
    operation: str
    method: str
    pattern: re.Pattern[str]
    labels: int


def parse_route(name: str, http: Mapping[str, Any]) -> RestRoute:
    """Each `{label}` of the path stands for one step of it, `{label+}` for several."""
    path = str(http["requestUri"]).partition("?")[0]
    parts = PATH_LABEL.split(path)
    text = re.escape(parts[0])
    for label, greedy, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        text += f"(?P<{label}>{'.+' if greedy else '[^/]+'}){re.escape(rest)}"
    return RestRoute(
        operation=name,
        method=str(http["method"]),
        pattern=re.compile(f"{text}/?"),
        labels=len(parts) // 3,
    )


class RestJsonProtocol:
    """REST-JSON."""

    def __init__(self, model: Any) -> None:
        self._model = model
        routes = (
            parse_route(name, model.operation_model(name).http) for name in model.operation_names
        )
        self._routes = sorted(routes, key=lambda each: (each.labels, each.operation))
        self._reading = JsonDecoder()
        self._writing = JsonEncoder()

    def operation(self, request: HttpRequest) -> str:
        found = self._found(request)
        if found is None:
            raise invalid_action(f"{request.method} {request.path}")
        return found[0].operation

    def _found(self, request: HttpRequest) -> tuple[RestRoute, Mapping[str, str]] | None:
        """The route with the fewest labels, and what they stand for."""
        for each in self._routes:
            if each.method == request.method:
                match = each.pattern.fullmatch(request.path)
                if match is not None:
                    return each, match.groupdict()
        return None

    def params(self, operation: str, request: HttpRequest) -> Params:
        shape = self._model.operation_model(operation).input_shape
        if shape is None:
            return {}
        try:
            return self._read(shape, request)
        except ParameterError as misfit:
            raise PARAMETER_ERRORS["rest-json"](misfit) from None

    def _read(self, shape: Any, request: HttpRequest) -> Params:
        found = self._from_body(shape, request.body)
        route = self._found(request)
        labels = {} if route is None else route[1]
        for name, member in shape.members.items():
            written = member.serialization
            located = written.get("name", name)
            match written.get("location"):
                case "uri" if located in labels:
                    found[name] = _parse_scalar(member, unquote(labels[located]))
                case "querystring":
                    _set_if_present(found, name, _query_argument(member, located, request))
                case "header" if located in request.headers:
                    found[name] = _parse_scalar(member, request.headers[located])
        return found

    def _from_body(self, shape: Any, body: bytes) -> dict[str, Any]:
        payload = shape.serialization.get("payload")
        if payload is None:
            elsewhere = {
                name for name, each in shape.members.items() if "location" in each.serialization
            }
            found = self._reading.reader(shape)(parse_json_body(body))
            return {name: value for name, value in found.items() if name not in elsewhere}
        inner = shape.members[payload]
        if inner.type_name == "blob":
            return {payload: body}
        return {payload: self._reading.reader(inner)(parse_json_body(body))} if body else {}

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse:
        shape = self._model.operation_model(operation).output_shape
        headers = {"Content-Type": "application/json", REQUEST_ID_HEADER: request_id}
        status = int(self._model.operation_model(operation).http.get("responseCode", 200))
        if shape is None:
            return HttpResponse(status, b"{}", headers)
        inner: dict[str, Any] = {}
        for name, value in answer.items():
            written = shape.members[name].serialization
            if written.get("location") == "header":
                headers[written.get("name", name)] = _format_scalar(shape.members[name], value)
            else:
                inner[name] = value
        payload = shape.serialization.get("payload")
        if payload is None:
            return HttpResponse(
                status, msgspec.json.encode(self._writing.writer(shape)(inner)), headers
            )
        made = self._writing.writer(shape.members[payload])(inner.get(payload, {}))
        return HttpResponse(status, msgspec.json.encode(made), headers)

    def refusal(self, error: AwsError, request_id: str) -> HttpResponse:
        return rest_json_error(error, request_id)


def _parse_scalar(shape: Any, text: str) -> Any:
    convert = SCALAR_PARSERS.get(shape.type_name)
    return text if convert is None else convert(text)


def _format_scalar(shape: Any, value: Any) -> str:
    form = shape.serialization.get("timestampFormat")
    return scalar_formatter(shape.type_name, form, "rfc822")(value)


def _query_argument(shape: Any, name: str, request: HttpRequest) -> Any:
    """A list is named as often as it has members; a map takes every name that is not another's."""
    if shape.type_name == "map":
        return dict(request.arguments) or None
    values = [value for key, value in request.arguments if key == name]
    if not values:
        return None
    if shape.type_name == "list":
        return [_parse_scalar(shape.member, value) for value in values]
    return _parse_scalar(shape, values[-1])


def _set_if_present(found: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        found[name] = value
