"""The protocols of AWS: which operation a request means, its parameters, and the way back."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from wainwright.emulator.http import refusals
from wainwright.emulator.http.forms import Forms, tree
from wainwright.emulator.http.misfit import WORDS, Fault, Misfit
from wainwright.emulator.http.objects import Convert, Reading, Writing
from wainwright.emulator.http.wire import Incoming, Reply
from wainwright.emulator.http.xml import Writer, Xml
from wainwright.emulator.world import Answer, Params
from wainwright.errors import AwsError

OF_THE_REQUEST = ("Action", "Version")
OF_THE_SIGNATURE = "X-Amz-"


class Speech(Protocol):
    """How one service is spoken to."""

    def operation(self, incoming: Incoming) -> str:
        """The name of the API; AwsError where there is none of that name."""
        ...

    def params(self, operation: str, incoming: Incoming) -> Params:
        """As boto3 takes them; AwsError where they cannot be read."""
        ...

    def answer(self, operation: str, answer: Answer, request_id: str) -> Reply: ...

    def refusal(self, error: AwsError, request_id: str) -> Reply: ...


def no_such_action(operation: str) -> AwsError:
    message = f"The action {operation} is not valid for this web service."
    return AwsError("InvalidAction", message)


class Query:
    """The query protocols, EC2's and the other: a form in, XML out."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._ec2 = model.metadata["protocol"] == "ec2"
        self._namespace = model.metadata.get("xmlNamespace", "")
        self._names = frozenset(model.operation_names)
        self._forms = Forms(ec2=self._ec2)
        self._xml = Xml(ec2=self._ec2)
        self._writers: dict[str, Writer | None] = {}

    def operation(self, incoming: Incoming) -> str:
        name = incoming.form.get("Action")
        if name is None:
            raise AwsError("MissingAction", "The request must contain the parameter Action.")
        if name not in self._names:
            raise no_such_action(name)
        return name

    def params(self, operation: str, incoming: Incoming) -> Params:
        shape = self._model.operation_model(operation).input_shape
        if shape is None:
            return {}
        pairs = (
            pair
            for pair in incoming.form.items()
            if pair[0] not in OF_THE_REQUEST and not pair[0].startswith(OF_THE_SIGNATURE)
        )
        try:
            found: Params = self._forms.reader(shape)(tree(pairs))
        except Misfit as misfit:
            raise WORDS["ec2" if self._ec2 else "query"](misfit) from None
        return found

    def answer(self, operation: str, answer: Answer, request_id: str) -> Reply:
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
        return refusals.xml(200, f'<{root} xmlns="{self._namespace}">{text}</{root}>', request_id)

    def _writer(self, operation: str) -> Writer | None:
        if operation not in self._writers:
            shape = self._model.operation_model(operation).output_shape
            self._writers[operation] = None if shape is None else self._xml.inside(shape)
        return self._writers[operation]

    def refusal(self, error: AwsError, request_id: str) -> Reply:
        if self._ec2:
            return refusals.ec2(error, request_id)
        return refusals.query(error, request_id, self._namespace)


class Json:
    """JSON 1.0 and 1.1: the operation in a header, an object in, an object out."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._version = model.metadata["jsonVersion"]
        self._compatible = "awsQueryCompatible" in model.metadata
        self._targets: dict[str, str] = {
            f"{model.metadata['targetPrefix']}.{name}": name for name in model.operation_names
        }
        self._reading = Reading()
        self._writing = Writing()
        self._writers: dict[str, Convert | None] = {}

    def operation(self, incoming: Incoming) -> str:
        target = incoming.headers.get("X-Amz-Target", "")
        if target not in self._targets:
            raise no_such_action(target)
        return self._targets[target]

    def params(self, operation: str, incoming: Incoming) -> Params:
        shape = self._model.operation_model(operation).input_shape
        if shape is None:
            return {}
        try:
            found: Params = self._reading.reader(shape)(json_of(incoming.body))
        except Misfit as misfit:
            raise WORDS["json"](misfit) from None
        return found

    def answer(self, operation: str, answer: Answer, request_id: str) -> Reply:
        if operation not in self._writers:
            shape = self._model.operation_model(operation).output_shape
            self._writers[operation] = None if shape is None else self._writing.writer(shape)
        writer = self._writers[operation]
        body = b"" if writer is None else msgspec.json.encode(writer(answer))
        headers = {
            "Content-Type": f"application/x-amz-json-{self._version}",
            refusals.REQUEST_ID: request_id,
        }
        return Reply(200, body, headers)

    def refusal(self, error: AwsError, request_id: str) -> Reply:
        return refusals.json(error, request_id, self._version, compatible=self._compatible)


def json_of(body: bytes) -> Mapping[str, Any]:
    """The object in a body; an empty body is an empty object."""
    try:
        found = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Misfit(Fault.VALUE, "something else", "JSON").under("request") from None
    if not isinstance(found, dict):
        raise Misfit(Fault.VALUE, type(found).__name__, "an object").under("request")
    return found
