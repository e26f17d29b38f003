"""The protocols of AWS (query, JSON, REST-JSON): which operation an HTTP request means, its
parameters, the response, and errors in the shape of each protocol. No error is ever an
HTML page.
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
    """A request. Path and query string are percent-encoded, as sent."""

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
        """The arguments of the query string, in order."""
        return _parse_pairs(self.query)

    @cached_property
    def form(self) -> dict[str, str]:
        """The arguments of the query string and, where it is a form, of the body."""
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
        raise AwsError("MalformedQueryString", "The request is not a form in UTF-8.") from None


REQUEST_ID_HEADER = "x-amzn-RequestId"
ERROR_TYPE_HEADER = "x-amzn-ErrorType"
QUERY_ERROR_HEADER = "x-amzn-query-error"
XML_CONTENT_TYPE = "text/xml;charset=UTF-8"


def ec2_error(error: AwsError, request_id: str) -> HttpResponse:
    details = xml_element("Code", escape_xml(error.code)) + xml_element(
        "Message", escape_xml(error.text)
    )
    inner = xml_element("Errors", xml_element("Error", details)) + xml_element(
        "RequestID", request_id
    )
    return xml_response(error.status, xml_element("Response", inner), request_id)


def query_error(error: AwsError, request_id: str, namespace: str = "") -> HttpResponse:
    details = (
        xml_element("Type", _error_party(error))
        + xml_element("Code", escape_xml(error.code))
        + xml_element("Message", escape_xml(error.text))
    )
    inner = xml_element("Error", details) + xml_element("RequestId", request_id)
    start_tag = f'<ErrorResponse xmlns="{namespace}">' if namespace else "<ErrorResponse>"
    return xml_response(error.status, f"{start_tag}{inner}</ErrorResponse>", request_id)


def json_error(
    error: AwsError, request_id: str, version: str, *, compatible: bool = False
) -> HttpResponse:
    """`compatible`: of a service that moved from the query protocol and still returns its codes."""
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


def _error_body(error: AwsError, extra_fields: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({**extra_fields, "message": error.text})


def _error_party(error: AwsError) -> str:
    return "Sender" if error.status < 500 else "Receiver"


REQUEST_FIELDS = ("Action", "Version")
SIGNATURE_PREFIX = "X-Amz-"


class ServiceProtocol(Protocol):
    """Decodes requests and encodes responses of one service."""

    def operation(self, request: HttpRequest) -> str:
        """The operation name; AwsError where the service has no such operation."""
        ...

    def params(self, operation: str, request: HttpRequest) -> Params:
        """Parameters as in boto3; AwsError where they cannot be parsed."""
        ...

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse: ...

    def error_response(self, error: AwsError, request_id: str) -> HttpResponse: ...


def invalid_action(operation: str) -> AwsError:
    message = f"The action {operation} is not valid for this web service."
    return AwsError("InvalidAction", message)


class QueryProtocol:
    """The query protocols, `ec2` and `query`: a form in, XML out."""

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
            decoded: Params = self._forms.reader(shape)(parse_form_tree(pairs))
        except ParameterError as error:
            raise PARAMETER_ERRORS["ec2" if self._ec2 else "query"](error) from None
        return decoded

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
            self._writers[operation] = None if shape is None else self._xml.content_writer(shape)
        return self._writers[operation]

    def error_response(self, error: AwsError, request_id: str) -> HttpResponse:
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
        self._decoder = JsonDecoder()
        self._encoder = JsonEncoder()
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
            decoded: Params = self._decoder.reader(shape)(parse_json_body(request.body))
        except ParameterError as error:
            raise PARAMETER_ERRORS["json"](error) from None
        return decoded

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse:
        if operation not in self._writers:
            shape = self._model.operation_model(operation).output_shape
            self._writers[operation] = None if shape is None else self._encoder.writer(shape)
        writer = self._writers[operation]
        body = b"" if writer is None else msgspec.json.encode(writer(answer))
        headers = {
            "Content-Type": f"application/x-amz-json-{self._version}",
            REQUEST_ID_HEADER: request_id,
        }
        return HttpResponse(200, body, headers)

    def error_response(self, error: AwsError, request_id: str) -> HttpResponse:
        return json_error(error, request_id, self._version, compatible=self._compatible)


def parse_json_body(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body; an empty body is an empty object."""
    try:
        document = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ParameterError(ParameterErrorKind.VALUE, "something else", "JSON").nested_in(
            "request"
        ) from None
    if not isinstance(document, dict):
        raise ParameterError(
            ParameterErrorKind.VALUE, type(document).__name__, "an object"
        ).nested_in("request")
    return document


PATH_LABEL: Final = re.compile(r"\{([^}+]+)(\+?)\}")


class RestRoute(msgspec.Struct, frozen=True, kw_only=True):
    operation: str
    method: str
    pattern: re.Pattern[str]
    labels: int


def parse_route(name: str, http: Mapping[str, Any]) -> RestRoute:
    """Each `{label}` of the path matches one segment, `{label+}` several."""
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
        self._decoder = JsonDecoder()
        self._encoder = JsonEncoder()

    def operation(self, request: HttpRequest) -> str:
        match = self._match_route(request)
        if match is None:
            raise invalid_action(f"{request.method} {request.path}")
        return match[0].operation

    def _match_route(self, request: HttpRequest) -> tuple[RestRoute, Mapping[str, str]] | None:
        """The matching route with the fewest labels, and their values."""
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
        except ParameterError as error:
            raise PARAMETER_ERRORS["rest-json"](error) from None

    def _read(self, shape: Any, request: HttpRequest) -> Params:
        params = self._from_body(shape, request.body)
        route = self._match_route(request)
        labels = {} if route is None else route[1]
        for name, member in shape.members.items():
            serialization = member.serialization
            wire_name = serialization.get("name", name)
            match serialization.get("location"):
                case "uri" if wire_name in labels:
                    params[name] = _parse_scalar(member, unquote(labels[wire_name]))
                case "querystring":
                    _set_if_present(params, name, _query_argument(member, wire_name, request))
                case "header" if wire_name in request.headers:
                    params[name] = _parse_scalar(member, request.headers[wire_name])
        return params

    def _from_body(self, shape: Any, body: bytes) -> dict[str, Any]:
        payload = shape.serialization.get("payload")
        if payload is None:
            outside_body = {
                name for name, each in shape.members.items() if "location" in each.serialization
            }
            params = self._decoder.reader(shape)(parse_json_body(body))
            return {name: value for name, value in params.items() if name not in outside_body}
        inner = shape.members[payload]
        if inner.type_name == "blob":
            return {payload: body}
        return {payload: self._decoder.reader(inner)(parse_json_body(body))} if body else {}

    def answer(self, operation: str, answer: Response, request_id: str) -> HttpResponse:
        shape = self._model.operation_model(operation).output_shape
        headers = {"Content-Type": "application/json", REQUEST_ID_HEADER: request_id}
        status = int(self._model.operation_model(operation).http.get("responseCode", 200))
        if shape is None:
            return HttpResponse(status, b"{}", headers)
        inner: dict[str, Any] = {}
        for name, value in answer.items():
            serialization = shape.members[name].serialization
            if serialization.get("location") == "header":
                headers[serialization.get("name", name)] = _format_scalar(
                    shape.members[name], value
                )
            else:
                inner[name] = value
        payload = shape.serialization.get("payload")
        if payload is None:
            return HttpResponse(
                status, msgspec.json.encode(self._encoder.writer(shape)(inner)), headers
            )
        content = self._encoder.writer(shape.members[payload])(inner.get(payload, {}))
        return HttpResponse(status, msgspec.json.encode(content), headers)

    def error_response(self, error: AwsError, request_id: str) -> HttpResponse:
        return rest_json_error(error, request_id)


def _parse_scalar(shape: Any, text: str) -> Any:
    convert = SCALAR_PARSERS.get(shape.type_name)
    return text if convert is None else convert(text)


def _format_scalar(shape: Any, value: Any) -> str:
    form = shape.serialization.get("timestampFormat")
    return scalar_formatter(shape.type_name, form, "rfc822")(value)


def _query_argument(shape: Any, name: str, request: HttpRequest) -> Any:
    """A list repeats its name for each member; a map takes all arguments."""
    if shape.type_name == "map":
        return dict(request.arguments) or None
    values = [value for key, value in request.arguments if key == name]
    if not values:
        return None
    if shape.type_name == "list":
        return [_parse_scalar(shape.member, value) for value in values]
    return _parse_scalar(shape, values[-1])


def _set_if_present(params: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        params[name] = value
