"""Serves the page of a story that goes on: the page, its data, a stream of changes and, for a
scenario, the controls.

Every request is checked: whom it names in Host, which page sent it, and, beyond the loopback
interface, whether it has the token. A cluster that is watched has no address that takes a request
to change anything.
"""

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol

import msgspec
from aiohttp import ClientError, web

from wainwright.emulator.http.server import LOCAL_HOSTS, SAME_SITE, host_name
from wainwright.errors import InvalidInputError
from wainwright.http_connections import CONNECTION_LOG, close_after_bad_body
from wainwright.live_page.event_stream import EventStream, Frame, FrameKind
from wainwright.live_page.scenario_player import MAX_SPEED, MAX_STEP, ScenarioPlayer
from wainwright.manifests.problems import InvalidInput, Problem
from wainwright.report.visual.html_page import live_policy, render_live_page

MAX_BODY_BYTES: Final = 64 * 2**10
MAX_STREAMS: Final = 32
HEARTBEAT_SECONDS: Final = 15.0
RETRY_MILLISECONDS: Final = 1_000
SHUTDOWN_SECONDS: Final = 0.5
COOKIE: Final = "wain-token"
JSON_TYPE: Final = "application/json"
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LiveStory(Protocol):
    """What is shown."""

    stream: EventStream

    async def begin(self) -> None: ...

    async def run(self) -> None: ...

    async def end(self) -> None: ...

    async def report(self) -> bytes: ...


# Who may ask


class RequestGuard(msgspec.Struct, frozen=True, kw_only=True):
    """Decides by the headers of a request whether it is answered."""

    host: str
    """What the server listens on."""
    token: str = ""
    """Empty: none is asked for, which is for the loopback interface alone."""

    def refusal(self, request: web.Request) -> str:
        """Why the request is not answered; empty where it is."""
        headers = request.headers
        if not self._is_our_name(host_name(headers)):
            return "the Host of the request is not this server"
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{headers.get('Host', '')}":
            return "the request comes from another page"
        if headers.get("Sec-Fetch-Site", "") not in (*SAME_SITE, "same-origin"):
            # A link on another page may lead here: what it opens cannot be read from there.
            is_link = headers.get("Sec-Fetch-Mode") == "navigate" and request.path == "/"
            if not is_link or headers.get("Sec-Fetch-Dest") != "document":
                return "the request comes from another page"
        return "" if self.has_token(request) else "the token is missing or wrong"

    def has_token(self, request: web.Request) -> bool:
        if not self.token:
            return True
        given = (
            request.cookies.get(COOKIE, ""),
            request.headers.get("Authorization", "").removeprefix("Bearer "),
            request.query.get("token", "") if request.path == "/" else "",
        )
        wanted = self.token.encode()
        return any(hmac.compare_digest(each.encode(errors="replace"), wanted) for each in given)

    def _is_our_name(self, name: str) -> bool:
        """A name that somebody's DNS points here is not ours; an address is nobody's name."""
        if name in LOCAL_HOSTS or name == self.host.lower():
            return True
        return is_beyond_loopback(self.host) and (
            _is_address(name) or name == socket.gethostname().lower()
        )


def is_beyond_loopback(host: str) -> bool:
    """Whether others than this computer can reach a server that listens there."""
    if host == "localhost":
        return False
    return not (_is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


# What is answered


class PlayRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    speed: float | None = None


class StepRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seconds: float


class InjectRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    event: str
    """As a Scenario has it, without `at`."""


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Serves one story on a listening socket."""

    def __init__(self, story: LiveStory, sock: socket.socket, guard: RequestGuard) -> None:
        self._story = story
        self._sock = sock
        self._guard = guard
        self._streams = 0
        self._is_stopping = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Serves until the block ends; the task is what goes on meanwhile."""
        await self._story.begin()
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            logger=CONNECTION_LOG,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        await web.SockSite(runner, self._sock).start()
        work = asyncio.create_task(self._story.run(), name="live story")
        try:
            yield work
        finally:
            self._is_stopping.set()
            work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await work
            await runner.cleanup()
            await self._story.end()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._checked], client_max_size=MAX_BODY_BYTES)
        router = application.router
        router.add_get("/", self._page, allow_head=False)
        router.add_get("/report.json", self._report, allow_head=False)
        router.add_get("/stream", self._stream, allow_head=False)
        if isinstance(self._story, ScenarioPlayer):
            for path, handler in PlayerControls(self._story).handlers().items():
                router.add_post(path, handler)
        return application

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._guard.refusal(request)
        if refusal:
            return _problem(403, refusal)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = _problem(error.status, error.reason)
        except _UnreadableBody as error:
            response = _problem(400, str(error))
        if not response.prepared:
            close_after_bad_body(request, response)
            response.headers.update(HEADERS)
        return response

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if "token" in request.query:
            # Out of the address, where others may see it, and into the browser.
            found = web.Response(status=303, headers={"Location": "/"})
            found.set_cookie(COOKIE, self._guard.token, httponly=True, samesite="Strict")
            return found
        page = render_live_page(await self._story.report())
        policy = {"Content-Security-Policy": f"{live_policy()}; frame-ancestors 'none'"}
        return web.Response(text=page, content_type="text/html", headers=policy)

    async def _report(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=await self._story.report(), content_type=JSON_TYPE)

    # The stream

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= MAX_STREAMS:
            return _problem(503, f"there are {MAX_STREAMS} open pages: close one of them")
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            await response.prepare(request)
            await response.write(f"retry: {RETRY_MILLISECONDS}\n\n".encode())
            last = request.headers.get("Last-Event-ID") or request.query.get("after", "")
            await self._send_changes(response, last)
        except ConnectionError:
            pass  # the page is closed
        finally:
            self._streams -= 1
        return response

    async def _send_changes(self, response: web.StreamResponse, last: str) -> None:
        """One after the other, as fast as they are taken: nothing is kept for a slow page."""
        stream = self._story.stream
        while not self._is_stopping.is_set():
            frames = stream.since(last)
            for frame in [await self._whole_story()] if frames is None else frames:
                await response.write(frame.encode())
                last = frame.id
            if frames == []:
                await self._wait(response, last)

    async def _whole_story(self) -> Frame:
        data = await self._story.report()
        identity = msgspec.json.decode(data, type=_ReportFrame).live.frame
        return Frame(id=identity, kind=FrameKind.STORY, data=data)

    async def _wait(self, response: web.StreamResponse, last: str) -> None:
        """For a change, or the end of the server; now and then a line tells that it is alive."""
        waiting = [
            asyncio.ensure_future(self._story.stream.wait(last)),
            asyncio.ensure_future(self._is_stopping.wait()),
        ]
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waiting:
                each.cancel()
        if not done:
            await response.write(b": alive\n\n")


class _LiveFrame(msgspec.Struct):
    frame: str


class _ReportFrame(msgspec.Struct):
    live: _LiveFrame


class PlayerControls:
    """What a page may do to a scenario."""

    def __init__(self, player: ScenarioPlayer) -> None:
        self._player = player

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "/play": self._play,
            "/pause": self._pause,
            "/step": self._step,
            "/inject": self._inject,
        }

    async def _play(self, request: web.Request) -> web.StreamResponse:
        speed = (await _body(request, PlayRequest)).speed
        if speed is not None and not 0 < speed <= MAX_SPEED:
            return _problem(400, f"speed: a number above 0, at most {MAX_SPEED:,.0f}")
        await self._player.play(speed)
        return _done()

    async def _pause(self, _: web.Request) -> web.StreamResponse:
        await self._player.pause()
        return _done()

    async def _step(self, request: web.Request) -> web.StreamResponse:
        seconds = (await _body(request, StepRequest)).seconds
        if not 0 < seconds <= MAX_STEP:
            return _problem(400, f"seconds: a number above 0, at most {MAX_STEP:,.0f}")
        await self._player.step(seconds)
        return _done()

    async def _inject(self, request: web.Request) -> web.StreamResponse:
        """An event that cannot be is no bad request: the answer says what is wrong with it."""
        text = (await _body(request, InjectRequest)).event
        try:
            return web.json_response({"note": await self._player.inject(text)})
        except InvalidInput as error:
            problem = "; ".join(map(_in_one_line, error.report.errors))
        except InvalidInputError as error:
            problem = error.message
        return web.json_response({"error": problem})


def _in_one_line(problem: Problem) -> str:
    """Field, what is wrong with it, and what to do; there is only one line to look at."""
    where = f"{problem.path}: " if problem.path else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{where}{problem.sentence}{hint}"


class _UnreadableBody(Exception):
    """Why; the reason of an HTTPException must be one line, and this may quote the request."""


async def _body(request: web.Request, kind: type[Any]) -> Any:
    """Only JSON: a form of another page can send anything else."""
    if request.content_type != JSON_TYPE:
        raise web.HTTPUnsupportedMediaType(reason=f"expected {JSON_TYPE}")
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _UnreadableBody(str(error)) from error
    except (ClientError, web.RequestPayloadError) as error:
        raise _UnreadableBody("the body is not encoded as the header says") from error


def _done() -> web.Response:
    return web.json_response({})


def _problem(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status, headers=HEADERS)
