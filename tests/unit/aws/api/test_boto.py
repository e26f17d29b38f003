"""boto3 behind the seam, against a small server that responds as AWS does, or not at all."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread, Timer
from typing import Any, ClassVar

import pytest

from wainwright.aws.api.boto import BotoSeam
from wainwright.aws.api.error_codes import FailureKind, classify_failure
from wainwright.errors import AwsError

ZONES = (
    '<DescribeAvailabilityZonesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
    "<requestId>1</requestId><availabilityZoneInfo><item><zoneName>us-east-1a</zoneName></item>"
    "</availabilityZoneInfo></DescribeAvailabilityZonesResponse>"
)
THROTTLED = (
    "<Response><Errors><Error><Code>RequestLimitExceeded</Code>"
    "<Message>Request limit exceeded.</Message></Error></Errors><RequestID>1</RequestID></Response>"
)
HTML = "<html><body>Bad gateway<br></body>"


class Handler(BaseHTTPRequestHandler):
    status: ClassVar[int] = 200
    body: ClassVar[str] = ""
    hangs_up: ClassVar[bool] = False
    received: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        type(self).received.append(self.rfile.read(length).decode())
        if self.hangs_up:
            self.close_connection = True
            return
        body = self.body.encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quietly."""


class Aws:
    def __init__(self, boto: BotoSeam, handler: type[Handler]) -> None:
        self.boto = boto
        self.handler = handler

    def says(self, status: int, body: str) -> None:
        self.handler.status, self.handler.body = status, body

    def call_api(
        self, operation: str = "DescribeAvailabilityZones", **params: Any
    ) -> dict[str, Any]:
        return asyncio.run(self.boto.call("ec2", operation, params))

    def refusal(self) -> tuple[str, int]:
        with pytest.raises(AwsError) as raised:
            self.call_api()
        return raised.value.code, raised.value.status


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    handler = type("Once", (Handler,), {})
    with _serving(handler) as endpoint:
        boto = BotoSeam("us-east-1", endpoint, workers=2)
        yield Aws(boto, handler)
        boto.close()


@pytest.fixture
def aws(server: Aws) -> Aws:
    """One server and client for all tests: boto takes long to load the service model of EC2."""
    server.handler.received = []
    server.handler.hangs_up = False
    server.says(200, ZONES)
    return server


def test_a_response_is_returned_without_its_metadata(aws: Aws) -> None:
    aws.says(200, ZONES)
    answer = aws.call_api(ZoneNames=["us-east-1a"])
    assert answer == {"AvailabilityZones": [{"ZoneName": "us-east-1a"}]}
    assert "Action=DescribeAvailabilityZones" in aws.handler.received[0]
    assert "ZoneName.1=us-east-1a" in aws.handler.received[0]


def test_an_error_has_its_code_and_status_and_is_not_retried(aws: Aws) -> None:
    aws.says(503, THROTTLED)
    assert aws.refusal() == ("RequestLimitExceeded", 503)
    assert len(aws.handler.received) == 1


@pytest.mark.parametrize(
    ("status", "expected"), [(200, ("ConnectionFailed", 0)), (500, ("500", 500))]
)
def test_an_unparsable_response_counts_as_no_response(
    aws: Aws, status: int, expected: tuple[str, int]
) -> None:
    aws.says(status, HTML)
    assert aws.refusal() == expected
    assert classify_failure(AwsError(expected[0], "", expected[1])) is FailureKind.UNKNOWN


def test_a_broken_connection_is_no_response(aws: Aws) -> None:
    aws.handler.hangs_up = True
    assert aws.refusal() == ("ConnectionFailed", 0)
    assert len(aws.handler.received) == 1


def test_a_refused_connection_is_no_response() -> None:
    boto = BotoSeam("us-east-1", "http://127.0.0.1:1")
    with pytest.raises(AwsError) as raised:
        asyncio.run(boto.call("sqs", "ListQueues", {}))
    boto.close()
    assert (raised.value.code, raised.value.status) == ("ConnectionFailed", 0)


def test_missing_credentials_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    boto = BotoSeam("us-east-1", "http://127.0.0.1:1")
    with pytest.raises(AwsError) as raised:
        asyncio.run(boto.call("sqs", "ListQueues", {}))
    boto.close()
    assert (raised.value.code, raised.value.status) == ("NoCredentials", 401)


def test_calls_run_concurrently(aws: Aws) -> None:
    aws.says(200, ZONES)

    async def both() -> list[dict[str, Any]]:
        calls = [aws.boto.call("ec2", "DescribeAvailabilityZones", {}) for _ in range(6)]
        return await asyncio.gather(*calls)

    assert len(asyncio.run(both())) == 6


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("us-west-2", "us-east-1"),
        ("eu-west-1", "eu-central-1"),
        ("ap-southeast-2", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("sa-east-1", "us-east-1"),
    ],
)
def test_the_price_list_is_called_in_a_region_that_serves_it(region: str, expected: str) -> None:
    boto = BotoSeam(region)
    assert boto.region_of("pricing") == expected
    assert boto.region_of("ec2") == region
    boto.close()


def test_closing_waits_for_the_calls_in_progress() -> None:
    order: list[str] = []
    arrived, released = Event(), Event()

    class Slow(Handler):
        body = ZONES

        def do_POST(self) -> None:
            arrived.set()
            released.wait(10)
            order.append("answered")
            super().do_POST()

    with _serving(Slow) as endpoint:
        boto = BotoSeam("us-east-1", endpoint)
        caller = Thread(
            target=lambda: asyncio.run(boto.call("ec2", "DescribeAvailabilityZones", {}))
        )
        caller.start()
        assert arrived.wait(10)
        Timer(0.2, released.set).start()
        boto.close()
        order.append("closed")
        caller.join()
    assert order == ["answered", "closed"]


@contextmanager
def _serving(handler: type[Handler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
