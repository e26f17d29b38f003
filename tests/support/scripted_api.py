"""An API server that answers what a test scripts: what a real one does rarely, or never twice."""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(handler: Handler, trust: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that has this handler for every request."""
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust).start()
    scheme = "http" if trust is None else "https"
    try:
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def status(code: int, message: str = "refused", **fields: Any) -> web.Response:
    body = {"kind": "Status", "message": message, "code": code, **fields}
    return web.json_response(body, status=code)


def answering(response: Callable[[], web.Response]) -> Handler:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return response()

    return handle


async def stream(request: web.BaseRequest, *chunks: bytes) -> web.StreamResponse:
    """An open watch that has sent these chunks."""
    response = web.StreamResponse()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    return response


def streaming(*chunks: bytes, reset: bool = False) -> Handler:
    """A watch that sends these chunks and then ends, or breaks off."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = await stream(request, *chunks)
        if reset and request.transport is not None:
            request.transport.abort()
        return response

    return handle


def pod(name: str, version: int, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), **metadata}}


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}, ensure_ascii=False).encode() + b"\n"


def page(version: int, *items: dict[str, Any]) -> web.Response:
    """A whole list."""
    return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": items})
