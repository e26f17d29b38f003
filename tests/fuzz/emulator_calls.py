"""Random well-typed calls to an emulated account, and random requests to its HTTP border.

A call ends in a response of its shape or in an AwsError below 500; a request always in a response
of its protocol, whatever its path, headers and body are.
"""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

from tests.fuzz.inputs import HOSTILE_NUMBERS, HOSTILE_TEXTS, HOSTILE_VALUES
from tests.support.emulator_accounts import ManualClock, service_model, shape_mismatches

from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.admin_api import AdminApi, RequestLog
from wainwright.emulator.http.protocols import HttpRequest, HttpResponse
from wainwright.emulator.http.server import RequestRouter
from wainwright.errors import AwsError

CALLS: Final = 60
"""Calls to one account, so that what earlier ones made is there for later ones."""
DEEPEST: Final = 5
SERVICES: Final = ("ec2", "iam", "eks", "ssm", "pricing", "sqs", "resource-groups", "sts", "none")
SCALARS: Final = (
    *("m5.large", "c5.xlarge", "p5.48xlarge", "us-west-2a", "us-east-1a", "us-east-1b", "spot"),
    *("on-demand", "targeted", "open", "instance", "$Latest", "$Default", "1", "10.0.0.0/16"),
    *("10.0.1.0/24", "0.0.0.0/0", "tag:a", "instance-state-name", "running", "true", "*"),
)


NUMBERS: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("integer", "long"), (0, 1, 1, 2, 3, 5, 1000, -1, 2**31 - 1)),
    **dict.fromkeys(("float", "double"), (0.0, 0.01, 1.0, -1.0, 1e300)),
    "boolean": (False, True),
    "timestamp": tuple(datetime.fromtimestamp(at, UTC) for at in (0, 1.7e9, 1.8e9, 4e9)),
    "blob": (b"", b"x"),
}


class FuzzedAccount:
    """An account, the texts that its responses have had, and requests to it."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self.account = EmulatedAwsAccount(clock=ManualClock(), seed=self.random.randrange(100))
        self.texts: list[str] = [*SCALARS]
        self._remember(msgspec_fields(self.account))
        log = RequestLog()
        self.router = RequestRouter(self.account, log)
        self.admin = AdminApi(self.account, log, "http://127.0.0.1:4580", lambda: None)
        self.operations = _operations(self.account)

    def run(self) -> str | None:
        """What went wrong, if anything did."""
        for _ in range(CALLS):
            step = self.random.choice((self._call, self._call, self._call, self._send, self._patch))
            problem = step()
            if problem is not None:
                return problem
        return None

    # Calls in process

    def _call(self) -> str | None:
        service, operation = self.random.choice(self.operations)
        model = service_model(service).operation_model(operation)
        params = {} if model.input_shape is None else self.value(model.input_shape)
        params.pop("DryRun", None)
        called = f"{service} {operation} {params!r}"[:1000]
        try:
            response = self.account.answer(service, operation, params)
        except AwsError as error:
            return None if error.status < 500 else f"{called}: {error}"
        wrong = (
            []
            if model.output_shape is None
            else list(shape_mismatches(response, model.output_shape))
        )
        self._remember(response)
        return f"{called}: {wrong}" if wrong else None

    def _remember(self, value: Any) -> None:
        """Names and ids, which make later calls mean something."""
        if isinstance(value, dict):
            for inner in value.values():
                self._remember(inner)
        elif isinstance(value, list):
            for inner in value[:5]:
                self._remember(inner)
        elif isinstance(value, str) and 0 < len(value) < 200 and len(self.texts) < 2000:
            self.texts.append(value)

    def value(self, shape: Any, depth: int = 0) -> Any:
        """A value of the shape, as boto3 would accept it."""
        random = self.random
        match shape.type_name:
            case "structure":
                return self._structure(shape, depth)
            case "list":
                number = random.choice((1, 1, 2, 3)) if depth < DEEPEST else 0
                return [self.value(shape.member, depth + 1) for _ in range(number)]
            case "map":
                return {self.text(): self.value(shape.value, depth + 1)}
            case "string":
                return random.choice(shape.enum) if shape.enum else self.text()
            case kind:
                return random.choice(NUMBERS[kind])

    def _structure(self, shape: Any, depth: int) -> dict[str, Any]:
        chosen = set(shape.required_members)
        others = [name for name in shape.members if name not in chosen]
        if depth < DEEPEST and others:
            chosen |= set(
                self.random.sample(others, min(len(others), self.random.choice((0, 1, 2, 4))))
            )
        return {name: self.value(shape.members[name], depth + 1) for name in sorted(chosen)}

    def text(self) -> str:
        if self.random.random() < 0.15:
            return self.random.choice(HOSTILE_TEXTS)
        return self.random.choice(self.texts)

    # Requests over HTTP, as far as they are ours

    def _send(self) -> str | None:
        request = self._request()
        shown = (
            f"{request.method} {request.path}?{request.query} {request.headers} {request.body!r}"
        )
        response = asyncio.run(self.router.handle(request))
        return _judge_response(response, shown[:1000])

    def _request(self) -> HttpRequest:
        random = self.random
        service = random.choice(SERVICES)
        names = [name for part, name in self.operations if part == service] or ["Nothing"]
        operation = random.choice(names)
        headers = {
            "Authorization": f"AWS4-HMAC-SHA256 Credential=a/20260101/r/{service}/aws4_request",
            "Content-Type": random.choice(
                ("application/x-www-form-urlencoded", "application/x-amz-json-1.1", "text/html", "")
            ),
            "X-Amz-Target": f"{random.choice(TARGET_PREFIXES)}.{operation}",
        }
        if random.random() < 0.2:
            headers.pop(random.choice(list(headers)))
        path = random.choice(("/", "/", "/", "/clusters/wain", f"/{quote(self.text())}", "/a//b"))
        query = random.choice(
            ("", "", urlencode({"Action": operation}), "a=%ff", "%", "X-Amz-Credential=a")
        )
        method = random.choice(("POST", "POST", "GET", "DELETE", "PUT"))
        return HttpRequest(method, path, query, headers, self._body(operation))

    def _body(self, operation: str) -> bytes:
        random = self.random
        match random.randrange(5):
            case 0:
                return random.randbytes(random.choice((0, 1, 50)))
            case 1:
                return json.dumps(self._json(0)).encode()
            case 2:
                return b"[" * random.choice((1, 2000, 100_000))
            case _:
                fields = {self._form_name(): self.text() for _ in range(random.randrange(6))}
                return urlencode({"Action": operation, **fields}).encode()

    def _form_name(self) -> str:
        name = self.random.choice(FORM_NAMES)
        index = self.random.choice(("1", "2", "0", "-1", "99999999999999", "x", ""))
        return name.replace("N", index)

    def _json(self, depth: int) -> Any:
        random = self.random
        if depth > 3 or random.random() < 0.4:
            return random.choice((*HOSTILE_VALUES, self.text()))
        keys = (*JSON_NAMES, self.text())
        return {random.choice(keys): self._json(depth + 1) for _ in range(random.randrange(4))}

    def _patch(self) -> str | None:
        """A change of the running account, well-formed or not."""
        random = self.random
        patch = odd_patch(random, self.texts)
        path = random.choice(("change", "change", "change", "state", "log", "account", "nothing"))
        method = "POST" if path == "change" else random.choice(("GET", "PUT"))
        query = random.choice(
            ("", "", "count=1", "count=-1", "count=x", "count=²", "count=" + "9" * 5000)
        )
        shown = f"{method} {path}?{query[:20]} {patch!r}"[:1000]
        body = json.dumps(patch).encode()
        request = HttpRequest(method, f"/_wain/{path}", query, {}, body)
        response = self.admin.handle(request)
        if response.status >= 500:
            return f"{shown}: {response.body!r}"
        json.loads(response.body)
        return None


def odd_patch(random: Random, texts: Sequence[str]) -> dict[str, Any]:
    """A change of a running account, well-formed or not."""
    number = random.choice((1, 1, 2))
    return {random.choice(PATCH_FIELDS): _patch_value(random, texts, 0) for _ in range(number)}


def _patch_value(random: Random, texts: Sequence[str], depth: int) -> Any:
    if depth > 2 or random.random() < 0.2:
        return random.choice(
            (*HOSTILE_NUMBERS, *HOSTILE_VALUES[:20], random.choice((*texts, *HOSTILE_TEXTS)))
        )
    if random.random() < 0.5:
        return [_patch_value(random, texts, depth + 1)]
    return {name: _patch_value(random, texts, 3) for name in random.sample(PATCH_KEYS, 3)}


def msgspec_fields(account: EmulatedAwsAccount) -> dict[str, Any]:
    resources = account.account
    return {name: getattr(resources, name) for name in resources.__struct_fields__}


def _operations(account: EmulatedAwsAccount) -> list[tuple[str, str]]:
    parts = account.services.all()
    return sorted({(part.name, name) for part in parts for name in part.operations()})


def _judge_response(response: HttpResponse | None, shown: str) -> str | None:
    if response is None:
        return None  # a fault that loses the response
    if response.status >= 500:
        return f"{shown}: {response.status} {response.body!r}"
    if response.status >= 400 and not response.body:
        return f"{shown}: {response.status} without a body"
    return None


TARGET_PREFIXES: Final = ("AmazonSSM", "AWSPriceListService", "AmazonSQS", "None")
FORM_NAMES: Final = (
    *("InstanceId.N", "Filter.N.Name", "Filter.N.Value.N", "MaxResults", "NextToken", "DryRun"),
    *(
        "TagSpecification.N.Tag.N.Key",
        "InstanceType",
        "ImageId",
        "MinCount",
        "MaxCount",
        "UserData",
    ),
    *("LaunchTemplateConfigs.N.Overrides.N.InstanceType", "SubnetId", "", "N", "..", "a.b.c.d.e"),
)
JSON_NAMES: Final = (
    "QueueUrl",
    "QueueName",
    "MessageBody",
    "MaxNumberOfMessages",
    "Name",
    "Filters",
)
PATCH_FIELDS: Final = (
    *("prices", "unavailable", "capacityReservations", "stock", "faults", "interruptions", "quota"),
    *("throttling", "pace", "region", "nothing", "messages"),
)
PATCH_KEYS: Final = (
    *("operation", "code", "status", "times", "probability", "seconds", "start", "end", "when"),
    *("instanceType", "zone", "capacityType", "price", "free", "id", "availabilityZone", "total"),
    *("available", "instance", "kind", "tags", "latency", "rate", "burst", "boot", "service"),
)


def fuzz_emulator(seed: str) -> str | None:
    """The finding of this seed, if there is one."""
    return FuzzedAccount(seed).run()
