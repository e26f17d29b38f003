"""The HTTP endpoints of `wain run`: metrics for Prometheus, health for the kubelet, and verdicts on
nodes for people.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import msgspec
from aiohttp import web

from wainwright.errors import InvalidInputError
from wainwright.http_connections import CONNECTION_LOG, close_after_bad_body
from wainwright.metrics import MetricsRegistry
from wainwright.operator.shared_answers import AnswerSender, Parts, SharedAnswer

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
VERDICTS_TYPE: Final = "application/json; charset=utf-8"
LOOPBACK: Final = "127.0.0.1"
EVERYWHERE: Final = "::"
"""Of IPv6 and IPv4: in a cluster of IPv6, kubelets know no other address of a pod."""
NO_VERDICTS: Final = (
    "this process has not looked at the nodes: another one holds the lease, the cluster has not "
    "been read yet, or it is a dry run\n"
)

SHUTDOWN_SECONDS: Final = 0.5
"""For requests in progress: whoever reads slowly must not keep a process that is to stop."""

NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EndpointOptions(msgspec.Struct, frozen=True, kw_only=True):
    metrics_port: int
    health_port: int
    """0: any free port."""
    host: str = LOOPBACK


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Where the endpoints are."""

    metrics: int
    health: int


@asynccontextmanager
async def serve_endpoints(
    options: EndpointOptions,
    metrics: MetricsRegistry,
    is_ready: Callable[[], bool],
    verdicts: Callable[[], Awaitable[bytes | None]],
) -> AsyncIterator[Ports]:
    """Serves them until the block ends; InvalidInputError if a port is taken."""

    async def show_health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def show_readiness(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok\n")
        return web.Response(text="the cluster has not been read yet\n", status=503)

    health = {"/healthz": show_health, "/readyz": show_readiness}
    async with (
        _shown(metrics, verdicts) as shown,
        _serving("METRICS_PORT", options.host, options.metrics_port, shown) as metrics_port,
        _serving("HEALTH_PROBE_PORT", options.host, options.health_port, health) as health_port,
    ):
        yield Ports(metrics=metrics_port, health=health_port)


@asynccontextmanager
async def _shown(
    metrics: MetricsRegistry, verdicts: Callable[[], Awaitable[bytes | None]]
) -> AsyncIterator[Mapping[str, Handler]]:
    """The handlers of the metrics port, which may have many readers."""

    async def verdict_parts() -> Parts:
        text = await verdicts()
        return () if text is None else (text,)

    sender = AnswerSender()
    shared_metrics = SharedAnswer(lambda: _metric_parts(metrics))
    shared_verdicts = SharedAnswer(verdict_parts)

    async def show_metrics(request: web.Request) -> web.StreamResponse:
        async with shared_metrics.parts() as parts:
            return await sender.send(request, parts, METRICS_TYPE)

    async def show_verdicts(request: web.Request) -> web.StreamResponse:
        async with shared_verdicts.parts() as parts:
            if not parts:
                return web.Response(text=NO_VERDICTS, status=503)
            return await sender.send(request, parts, VERDICTS_TYPE)

    try:
        yield {"/metrics": show_metrics, "/verdicts": show_verdicts}
    finally:
        await shared_metrics.close()
        await shared_verdicts.close()


async def _metric_parts(metrics: MetricsRegistry) -> Parts:
    parts = []
    for part in metrics.exposition_parts():
        parts.append(part.encode())
        await asyncio.sleep(0)  # leases and watches wait for no scrape of a large cluster
    return parts


@asynccontextmanager
async def _serving(
    setting: str, host: str, port: int, handlers: Mapping[str, Handler]
) -> AsyncIterator[int]:
    application = web.Application(middlewares=[_checking_bodies])
    for path, handler in handlers.items():
        application.router.add_get(path, handler)
    runner = web.AppRunner(
        application, access_log=None, logger=CONNECTION_LOG, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        await web.SockSite(runner, _listen(host, port)).start()
    except OSError as error:
        await runner.cleanup()
        message = f"{setting}: port {port} cannot be used: {error.strerror}"
        raise InvalidInputError(message) from error
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@web.middleware
async def _checking_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except web.HTTPException as error:  # no such path
        close_after_bad_body(request, error)
        raise
    close_after_bad_body(request, response)
    return response


def _listen(host: str, port: int) -> socket.socket:
    if host != EVERYWHERE:
        return socket.create_server((host, port))
    try:
        return _listen_on_both(port)
    except OSError as error:
        if error.errno not in NO_IPV6:
            raise
        return socket.create_server(("", port))


def _listen_on_both(port: int) -> socket.socket:
    if not socket.has_dualstack_ipv6():
        raise OSError(errno.EAFNOSUPPORT, "the machine has no IPv6")
    return socket.create_server((EVERYWHERE, port), family=socket.AF_INET6, dualstack_ipv6=True)
