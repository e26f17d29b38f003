"""Where metrics and health of `wain run` are served."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from http import HTTPStatus

import aiohttp
import pytest

from wainwright.errors import InvalidInputError
from wainwright.metrics import PART_SIZE, STATE_NODES, MetricsRegistry, Sample
from wainwright.operator.endpoints import (
    EVERYWHERE,
    LOOPBACK,
    NO_VERDICTS,
    EndpointOptions,
    Ports,
    serve_endpoints,
)


def _has_address(family: socket.AddressFamily, host: str) -> bool:
    try:
        with socket.create_server((host, 0), family=family):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(
    not _has_address(socket.AF_INET6, "::1"), reason="the machine has no IPv6"
)


def serving(host: str, check: Callable[[Ports], Awaitable[None]], metrics: int = 0) -> None:
    async def no_verdicts() -> bytes | None:
        return None

    async def main() -> None:
        options = EndpointOptions(metrics_port=metrics, health_port=0, host=host)
        async with serve_endpoints(options, MetricsRegistry(), lambda: True, no_verdicts) as ports:
            await check(ports)

    asyncio.run(main())


async def health(host: str, port: int) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{host}:{port}/healthz") as answer,
    ):
        return answer.status


@pytest.mark.parametrize("host", [LOOPBACK, pytest.param("[::1]", marks=needs_ipv6)])
def test_a_pod_is_probed_by_either_family(host: str) -> None:
    async def check(ports: Ports) -> None:
        assert await health(host, ports.health) == HTTPStatus.OK

    serving(EVERYWHERE, check)


@needs_ipv6
def test_outside_a_pod_nothing_but_the_loopback_interface_is_served() -> None:
    async def check(ports: Ports) -> None:
        assert await health(LOOPBACK, ports.health) == HTTPStatus.OK
        with pytest.raises(aiohttp.ClientConnectionError):
            await health("[::1]", ports.health)

    serving(LOOPBACK, check)


@pytest.mark.parametrize("refused_at", ["socket", "bind"])
def test_without_ipv6_endpoints_are_served_on_ipv4(
    refused_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if refused_at == "socket":
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    else:
        monkeypatch.setattr(socket, "create_server", _without_ipv6(socket.create_server))

    async def check(ports: Ports) -> None:
        assert await health(LOOPBACK, ports.health) == HTTPStatus.OK

    serving(EVERYWHERE, check)


def _without_ipv6(real: Callable[..., socket.socket]) -> Callable[..., socket.socket]:
    def create(address: tuple[str, int], **more: object) -> socket.socket:
        if more.get("family") == socket.AF_INET6:
            raise OSError(99, "Cannot assign requested address")
        return real(address, **more)

    return create


MANY = 50
"""Fewer than wait to be accepted at most: the others would ask a second later."""


class Readers:
    """Many who ask for the same at the same time."""

    def __init__(self, path: str) -> None:
        self._path, self.asked, self.all_asked = path, 0, asyncio.Event()
        self._trace = aiohttp.TraceConfig()
        self._trace.on_request_headers_sent.append(self._count)

    async def _count(self, *_: object) -> None:
        self.asked += 1
        if self.asked == MANY:
            self.all_asked.set()

    async def read(self, port: int, number: int) -> list[tuple[int, bytes]]:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), trace_configs=[self._trace]
        ) as session:
            url = f"http://{LOOPBACK}:{port}{self._path}"
            return await asyncio.gather(*(self._answer(session, url) for _ in range(number)))

    async def _answer(self, session: aiohttp.ClientSession, url: str) -> tuple[int, bytes]:
        async with session.get(url) as answer:
            return answer.status, await answer.read()


def test_many_scrapes_at_the_same_time_share_one_rendering() -> None:
    registry, readers, renderings = MetricsRegistry(), Readers("/metrics"), 0

    def collect() -> Iterator[Sample]:
        """Goes on until all have asked, and a hundred turns of the event loop longer."""
        nonlocal renderings
        renderings += 1
        sample = STATE_NODES, (), float(renderings)
        while not readers.all_asked.is_set():
            yield sample
        for _ in range(100 * PART_SIZE):
            yield sample

    async def no_verdicts() -> bytes | None:
        return None

    async def main() -> None:
        registry.add_collector(collect)
        options = EndpointOptions(metrics_port=0, health_port=0)
        async with serve_endpoints(options, registry, lambda: True, no_verdicts) as ports:
            found = await readers.read(ports.metrics, MANY)
            assert renderings == 1
            assert {status for status, _ in found} == {HTTPStatus.OK}
            assert {body for _, body in found} == {registry_text(1)}
            assert await readers.read(ports.metrics, 1) == [(HTTPStatus.OK, registry_text(2))]

    asyncio.run(main())


def registry_text(nodes: int) -> bytes:
    expected = MetricsRegistry()
    expected.set(STATE_NODES, nodes)
    return expected.exposition().encode()


@pytest.mark.parametrize("text", [b'{"kind": "Verdicts"}', None])
def test_many_requests_for_verdicts_at_the_same_time_share_one_answer(text: bytes | None) -> None:
    readers, made = Readers("/verdicts"), 0

    async def verdicts() -> bytes | None:
        nonlocal made
        made += 1
        await readers.all_asked.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        return text

    async def main() -> None:
        options = EndpointOptions(metrics_port=0, health_port=0)
        async with serve_endpoints(options, MetricsRegistry(), lambda: True, verdicts) as ports:
            found = await readers.read(ports.metrics, MANY)
        expected = (503, NO_VERDICTS.encode()) if text is None else (200, text)
        assert (made, {*found}) == (1, {expected})

    asyncio.run(main())


def test_a_reader_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    text = b"x" * 16_000_000

    async def verdicts() -> bytes | None:
        return text

    async def main() -> None:
        options = EndpointOptions(metrics_port=0, health_port=0)
        async with serve_endpoints(options, MetricsRegistry(), lambda: True, verdicts) as ports:
            reader, writer = await asyncio.open_connection(LOOPBACK, ports.metrics, limit=1024)
            writer.write(b"GET /verdicts HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readexactly(100_000)
            writer.transport.abort()
            assert await Readers("/verdicts").read(ports.metrics, 1) == [(HTTPStatus.OK, text)]

    asyncio.run(main())
    assert not caplog.records


def test_a_process_ends_while_an_answer_is_being_made() -> None:
    asked = asyncio.Event()

    async def verdicts() -> bytes | None:
        asked.set()
        await asyncio.Event().wait()
        return None

    async def main() -> None:
        options = EndpointOptions(metrics_port=0, health_port=0)
        async with serve_endpoints(options, MetricsRegistry(), lambda: True, verdicts) as ports:
            reading = asyncio.create_task(Readers("/verdicts").read(ports.metrics, 1))
            await asked.wait()
        assert not [each for each in asyncio.all_tasks() if each.get_name() == "answer"]
        with pytest.raises(aiohttp.ClientError):
            await reading

    asyncio.run(main())


NOT_HTTP = (
    b"\x16\x03\x01\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
)


async def connection_ends(port: int, request: bytes) -> bytes:
    """What is answered until the server closes the connection."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(request)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


def test_bytes_that_are_no_request_end_the_connection_and_are_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def check(ports: Ports) -> None:
        for port in (ports.metrics, ports.health):
            for request in NOT_HTTP:
                answer = await connection_ends(port, request)
                assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 200", b"HTTP/1.1 404"))
                assert answer[5:8] == b"1.0" or b"connection: close" in answer.lower()

    serving(LOOPBACK, check)
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize("host", [LOOPBACK, EVERYWHERE])
def test_a_port_that_is_taken_is_named_with_its_setting(host: str) -> None:
    async def check(_: Ports) -> None:
        raise AssertionError("it is served")

    with closing(socket.create_server((LOOPBACK, 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInputError, match=f"METRICS_PORT: port {port} cannot be used"):
            serving(host, check, metrics=port)
