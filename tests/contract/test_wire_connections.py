"""Connections: keep-alive, long polls, lost responses, internal errors."""

import socket
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from urllib.parse import quote, urlencode, urlsplit

import pytest
from tests.contract.client_checks.setup import unique_name
from tests.contract.raw_http import FORM, RawConnection, authorization_header
from tests.contract.servers import EmulatorServer, serve_emulator

from wainwright.emulator.context import Params, Response
from wainwright.emulator.emulated_account import EmulatedAwsAccount


def test_connections_are_kept_alive_and_responses_are_one_packet(served: EmulatorServer) -> None:
    where = urlsplit(served.endpoint)
    body = b"Action=DescribeAvailabilityZones&Version=2016-11-15"
    head = (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization_header('ec2')}\r\n"
        f"Content-Type: {FORM}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((where.hostname or "", where.port or 0)) as connection:
        connection.settimeout(30)
        for _ in range(3):
            connection.sendall(head.encode() + body)
            response = connection.recv(2**16)
            assert response.startswith(b"HTTP/1.1 200 OK\r\n")
            assert response.endswith(b"</DescribeAvailabilityZonesResponse>")


def test_calls_are_handled_during_long_polls(served: EmulatorServer) -> None:
    lines = [RawConnection(served.endpoint) for _ in range(12)]
    names = [unique_name("held") for _ in range(2)]
    for name in names:
        lines[0].target("sqs", "AmazonSQS.CreateQueue", "1.0", {"QueueName": name})

    def poll(wire: RawConnection, name: str) -> bytes:
        body = {"QueueUrl": f"http://x/111122223333/{name}", "WaitTimeSeconds": 20}
        return wire.target("sqs", "AmazonSQS.ReceiveMessage", "1.0", body).body

    begin = monotonic()
    with ThreadPoolExecutor(12) as threads:
        held = [threads.submit(poll, *pair) for pair in zip(lines[:2], names, strict=True)]
        others = [
            threads.submit(wire.form, "ec2", "DescribeSubnets") for wire in lines[2:] for _ in "x"
        ]
        assert {each.result().status for each in others} == {200}
        assert not any(each.done() for each in held)
        for name in names:
            sent = {"QueueUrl": f"http://x/111122223333/{name}", "MessageBody": "done"}
            lines[2].target("sqs", "AmazonSQS.SendMessage", "1.0", sent)
        assert all(b"done" in each.result() for each in held)
    assert monotonic() - begin < 15
    for wire in lines:
        wire.close()


def test_a_long_poll_of_a_disconnected_client_receives_no_message(
    served: EmulatorServer, wire: RawConnection
) -> None:
    name = unique_name("gone")
    wire.target("sqs", "AmazonSQS.CreateQueue", "1.0", {"QueueName": name})
    where = {"QueueUrl": f"http://x/111122223333/{name}"}
    other = RawConnection(served.endpoint)
    headers = {
        "Authorization": authorization_header("sqs"),
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.ReceiveMessage",
    }
    body = f'{{"QueueUrl": "{where["QueueUrl"]}", "WaitTimeSeconds": 20}}'
    other.connection.request("POST", "/", body, headers)
    wire.form("ec2", "DescribeSubnets")  # the long poll has begun by now
    other.close()
    wire.form("ec2", "DescribeSubnets")  # the disconnect has been noticed by now
    wire.target("sqs", "AmazonSQS.SendMessage", "1.0", {**where, "MessageBody": "kept"})
    got = wire.target("sqs", "AmazonSQS.ReceiveMessage", "1.0", where)
    assert got.json["Messages"][0]["Body"] == "kept"


def test_the_largest_client_requests_are_accepted(wire: RawConnection) -> None:
    """A filter of two hundred values, and a URL of thirty thousand characters."""
    values = {f"Filter.1.Value.{number}": "x" * 150 for number in range(1, 201)}
    fields = {"Action": "DescribeInstances", "Filter.1.Name": "tag:x", **values}
    headers = {"Authorization": authorization_header("ec2")}
    reply = wire.send("GET", f"/?{urlencode(fields, quote_via=quote)}", None, headers)
    assert reply.xml.tag == "DescribeInstancesResponse", reply.body


def test_a_body_that_is_too_large_has_an_aws_error(wire: RawConnection) -> None:
    headers = {"Authorization": authorization_header("ec2"), "Content-Type": FORM}
    reply = wire.send("POST", "/", b"Action=X&Y=" + b"y" * (17 * 2**20), headers)
    assert reply.status == 413
    assert reply.text("Error/Code") == "RequestEntityTooLarge"


class Broken(EmulatedAwsAccount):
    """An account with a bug."""

    async def call(self, service: str, operation: str, params: Params) -> Response:
        raise ZeroDivisionError(f"{service} {operation} {len(params)}")


@pytest.mark.parametrize("service", ["ec2", "iam", "ssm", "sqs", "eks"])
def test_an_internal_error_has_an_aws_response(
    service: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_emulator(account_class=Broken) as running:
        wire = RawConnection(running.endpoint)
        try:
            if service in ("ec2", "iam"):
                action = "DescribeInstances" if service == "ec2" else "ListInstanceProfiles"
                reply = wire.form(service, action)
                path = "Errors/Error/Code" if service == "ec2" else "Error/Code"
                assert reply.text(path) == "InternalError"
            elif service == "eks":
                reply = wire.send(
                    "GET", "/clusters", None, {"Authorization": authorization_header("eks")}
                )
                assert reply.headers["x-amzn-errortype"] == "InternalError"
            else:
                target = "AmazonSSM.GetParameter" if service == "ssm" else "AmazonSQS.ListQueues"
                reply = wire.target(service, target, "1.1", {})
                assert reply.json["__type"] == "InternalError"
            assert reply.status == 500
            assert b"<html" not in reply.body
        finally:
            wire.close()
    assert "ZeroDivisionError" in caplog.text


def test_a_lost_response_closes_the_connection() -> None:
    with serve_emulator() as running:
        wire = RawConnection(running.endpoint)
        rule = '{"faults": [{"operation": "CreateVpc", "when": "after", "times": 1}]}'
        wire.send("POST", "/_wain/change", rule, {"Content-Type": "application/json"})
        before = len(wire.form("ec2", "DescribeVpcs").xml.findall("vpcSet/item"))
        with pytest.raises(ConnectionError):
            wire.form("ec2", "CreateVpc", CidrBlock="10.9.0.0/16")
        after = len(wire.form("ec2", "DescribeVpcs").xml.findall("vpcSet/item"))
        assert after == before + 1
        wire.close()


def test_a_long_poll_does_not_delay_shutdown() -> None:
    with ThreadPoolExecutor(1) as threads:
        with serve_emulator() as running:
            wire = RawConnection(running.endpoint)
            body = {"QueueUrl": "http://x/111122223333/wain", "WaitTimeSeconds": 20}
            held = threads.submit(wire.target, "sqs", "AmazonSQS.ReceiveMessage", "1.0", body)
            other = RawConnection(running.endpoint)
            other.form("ec2", "DescribeSubnets")
            other.close()
            begin = monotonic()
        assert monotonic() - begin < 10
        try:
            with pytest.raises((ConnectionError, TimeoutError)):  # closed or refused
                held.result()
        finally:
            wire.close()


def test_throttling_is_503_in_ec2_and_400_elsewhere() -> None:
    with serve_emulator() as running:
        wire = RawConnection(running.endpoint)
        limits = (
            '{"throttling": [{"operation": "*", "rate": 0.001, "burst": 1},'
            ' {"service": "ssm", "rate": 0.001, "burst": 1}]}'
        )
        wire.send("POST", "/_wain/change", limits, {"Content-Type": "application/json"})
        assert wire.form("ec2", "DescribeVpcs").status == 200
        reply = wire.form("ec2", "DescribeVpcs")
        assert (reply.status, reply.text("Errors/Error/Code")) == (503, "RequestLimitExceeded")
        for _ in range(2):
            reply = wire.target("ssm", "AmazonSSM.GetParameter", "1.1", {"Name": "/none"})
        assert (reply.status, reply.json["__type"]) == (400, "ThrottlingException")
        wire.close()


FOREIGN_HEADERS = {
    "a page by its origin": {"Origin": "http://example.com"},
    "a page without a name": {"Origin": "null"},
    "a picture in a page": {"Sec-Fetch-Site": "cross-site"},
    "a name that DNS points here": {"Host": "attacker.example"},
    "such a name with a port": {"Host": "attacker.example:4580"},
}


@pytest.mark.parametrize("path", ["/", "/clusters/wain", "/_wain/state", "/_wain/change"])
@pytest.mark.parametrize("name", FOREIGN_HEADERS)
def test_web_pages_are_answered_at_no_door(served: EmulatorServer, name: str, path: str) -> None:
    wire = RawConnection(served.endpoint)
    headers = {"Authorization": authorization_header("ec2"), "Content-Type": FORM}
    body = b"Action=DescribeSubnets&Version=2016-11-15"
    reply = wire.send("POST", path, body, {**headers, **FOREIGN_HEADERS[name]})
    assert reply.status == 403
    assert b"subnet" not in reply.body
    wire.close()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:4580"])
def test_local_names_are_answered(served: EmulatorServer, host: str) -> None:
    wire = RawConnection(served.endpoint)
    assert wire.send("GET", "/_wain/account", None, {"Host": host}).status == 200
    wire.close()


MALFORMED = {
    "no HTTP": b"\x16\x03\x01 hello\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "a length that is no number": b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    "compressed data that is none": (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 5\r\n\r\nabcde"
    ),
    "a chunk that is none": (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    ),
    "a line that never ends": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_gets_an_error_in_the_shape_of_aws(
    served: EmulatorServer, name: str
) -> None:
    where = urlsplit(served.endpoint)
    with socket.create_connection((where.hostname or "", where.port or 0)) as connection:
        connection.settimeout(30)
        connection.sendall(MALFORMED[name])
        reply = connection.recv(2**16)
    status = reply.split(b" ", 2)[1]
    assert 400 <= int(status) < 500, reply
    assert b"<Code>MalformedHttpRequest</Code>" in reply
