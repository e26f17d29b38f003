"""The server of the page: who is answered, how changes are told, and what cannot be done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse, ClientSession
from tests.support.manifest_tables import TESTS

from wainwright.clock import SystemClock, VirtualClock
from wainwright.emulator.http.server import endpoint_url, listen
from wainwright.errors import ServerUnavailableError
from wainwright.live_page.cluster_watch import ClusterWatch
from wainwright.live_page.page_server import (
    LiveStory,
    PageServer,
    RequestGuard,
    is_beyond_loopback,
)
from wainwright.live_page.scenario_player import ScenarioPlayer
from wainwright.model.cluster_history import ClusterHistory, NodeRecord
from wainwright.report.visual.story import MomentUnit, Story, StoryKind
from wainwright.sim.scenario_reader import read_scenario

CONTROLS = ("/play", "/pause", "/step", "/inject")
LOCAL = RequestGuard(host="127.0.0.1")


class FileCluster:
    """A cluster at the border: what is read of it is what the test says."""

    def __init__(self) -> None:
        self.nodes = 1
        self.problem: ServerUnavailableError | None = None

    def load(self) -> Story:
        if self.problem is not None:
            raise self.problem
        nodes = [NodeRecord(id=f"i-{each}", pool="default") for each in range(self.nodes)]
        return Story(
            kind=StoryKind.CLUSTER,
            name="cluster",
            answer=f"{self.nodes} nodes",
            unit=MomentUnit.STEPS,
            end=0.0,
            history=ClusterHistory(nodes=nodes),
        )


def watched(cluster: FileCluster) -> ClusterWatch:
    return ClusterWatch(cluster.load, SystemClock(), interval=3600.0)


@asynccontextmanager
async def served(
    story: LiveStory, guard: RequestGuard = LOCAL
) -> AsyncIterator[tuple[ClientSession, str]]:
    sock = listen(0)
    try:
        async with (
            PageServer(story, sock, guard).running(),
            ClientSession() as session,
        ):
            yield session, endpoint_url(sock)
    finally:
        sock.close()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await main()

    asyncio.run(bounded())


async def next_event(answer: ClientResponse) -> dict[str, str]:
    """The fields of the next event of a stream."""
    while True:
        found = {}
        while line := (await answer.content.readline()).decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            found[name] = value
        if "event" in found:
            return found


# Who is answered


@pytest.mark.parametrize("path", ["/", "/report.json", "/stream"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
    ids=lambda each: " ".join(each.values()),
)
def test_other_names_and_other_pages_are_refused(path: str, headers: dict[str, str]) -> None:
    async def main() -> None:
        async with (
            served(watched(FileCluster())) as (session, url),
            session.get(f"{url}{path}", headers=headers) as answer,
        ):
            assert answer.status == 403
            assert "error" in await answer.json()

    run(main)


def test_the_page_itself_and_links_to_it_are_answered() -> None:
    async def main() -> None:
        async with served(watched(FileCluster())) as (session, url):
            own = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
            link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
            for headers in (own, {**link, "Sec-Fetch-Dest": "document"}, {}):
                async with session.get(f"{url}/", headers=headers) as answer:
                    assert answer.status == 200
            async with session.get(f"{url}/report.json", headers=link) as answer:
                assert answer.status == 403

    run(main)


def test_the_policy_allows_its_own_server_alone() -> None:
    async def main() -> None:
        async with (
            served(watched(FileCluster())) as (session, url),
            session.get(f"{url}/") as answer,
        ):
            policy = answer.headers["Content-Security-Policy"]
            text = await answer.text()
            assert policy.startswith("default-src 'none'; connect-src 'self'; script-src 'sha256-")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            in_page = policy.removesuffix("; frame-ancestors 'none'")
            assert f'content="{in_page}"' in text
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["Cache-Control"] == "no-store"

    run(main)


GUARD = RequestGuard(host="0.0.0.0", token="s3cret")


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({}, "/", 403),
        ({}, "/?token=wrong", 403),
        ({}, "/?token=", 403),
        ({"Authorization": "Bearer wrong"}, "/report.json", 403),
        ({"Cookie": "wain-token=é"}, "/report.json", 403),
        ({}, "/report.json?token=s3cret", 403),
        ({"Authorization": "Bearer s3cret"}, "/report.json", 200),
        ({"Cookie": "wain-token=s3cret"}, "/", 200),
        ({"Cookie": "wain-token=s3cret", "Host": "10.0.0.9:8642"}, "/", 200),
        ({"Cookie": "wain-token=s3cret", "Host": "[fe80::1]:8642"}, "/", 200),
        ({"Cookie": "wain-token=s3cret", "Host": "evil.example"}, "/", 403),
        ({}, "/?token=s3cret", 303),
    ],
)
def test_beyond_the_loopback_interface_a_token_is_asked_for(
    headers: dict[str, str], path: str, status: int
) -> None:
    async def main() -> None:
        async with (
            served(watched(FileCluster()), GUARD) as (session, url),
            session.get(f"{url}{path}", headers=headers, allow_redirects=False) as answer,
        ):
            assert answer.status == status
            if status == 303:
                cookie = answer.headers["Set-Cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
                assert answer.headers["Location"] == "/"

    run(main)


@pytest.mark.parametrize(
    ("host", "is_beyond"),
    [
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("10.0.0.1", True),
        ("node.example", True),
    ],
)
def test_what_others_can_reach(host: str, is_beyond: bool) -> None:
    assert is_beyond_loopback(host) is is_beyond


# A cluster


def test_a_cluster_has_no_address_that_changes_anything() -> None:
    async def main() -> None:
        async with served(watched(FileCluster())) as (session, url):
            for path in (*CONTROLS, "/", "/report.json", "/stream"):
                for method in ("POST", "PUT", "PATCH", "DELETE"):
                    async with session.request(method, f"{url}{path}", json={}) as answer:
                        assert answer.status in (404, 405), (method, path)

    run(main)


def test_a_cluster_is_looked_at_again_and_sent_where_it_changed() -> None:
    cluster = FileCluster()

    async def main() -> None:
        watch = watched(cluster)
        async with served(watch) as (session, url):
            async with session.get(f"{url}/report.json") as answer:
                live = (await answer.json())["live"]
            assert live == {"mode": "cluster", "frame": watch.stream.last_id}
            async with session.get(f"{url}/stream?after={live['frame']}") as stream:
                await watch.look()
                assert watch.stream.last_id == live["frame"], "nothing is new"
                cluster.nodes = 2
                await watch.look()
                event = await next_event(stream)
                assert event["event"] == "story"
                assert msgspec.json.decode(event["data"])["stories"][0]["answer"] == "2 nodes"
                cluster.problem = ServerUnavailableError("the API server is gone")
                await watch.look()
                data = msgspec.json.decode((await next_event(stream))["data"])
                assert data["live"]["problem"] == "not refreshed: the API server is gone"
                assert len(data["stories"][0]["history"]["nodes"]) == 2
                cluster.problem = None
                await watch.look()
                data = msgspec.json.decode((await next_event(stream))["data"])
                assert "problem" not in data["live"]

    run(main)


def test_a_cluster_is_looked_at_in_intervals() -> None:
    cluster, clock = FileCluster(), VirtualClock()

    async def main() -> None:
        watch = ClusterWatch(cluster.load, clock, interval=10.0)
        await watch.begin()
        work = asyncio.ensure_future(watch.run())
        cluster.nodes = 3
        await clock.sleep(9.0)
        assert b"3 nodes" not in await watch.report()
        await clock.sleep(2.0)
        assert b"3 nodes" in await watch.report()
        work.cancel()
        await watch.end()

    try:
        clock.run(main())
    finally:
        clock.close()


# A scenario


@pytest.fixture(scope="module")
def scenario_file() -> Path:
    return TESTS / "scenarios" / "live" / "shop.yaml"


def test_a_connection_that_was_lost_goes_on_where_it_ended(
    scenario_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        player = ScenarioPlayer(read_scenario(str(scenario_file)), SystemClock())
        async with served(player) as (session, url):
            seen = [await first_frame(session, url)]
            await post(session, f"{url}/step", {"seconds": 60})
            async with session.get(f"{url}/stream?after={seen[0]}") as stream:
                seen.append((await next_event(stream))["id"])
            for _ in range(3):
                await post(session, f"{url}/step", {"seconds": 60})
            resumed = {"Last-Event-ID": seen[-1]}
            async with session.get(f"{url}/stream?after={seen[0]}", headers=resumed) as stream:
                seen += [(await next_event(stream))["id"] for _ in range(3)]
            assert [int(each.rpartition("-")[2]) for each in seen] == [0, 1, 2, 3, 4]
            unknown = {"Last-Event-ID": "another-7"}
            async with session.get(f"{url}/stream", headers=unknown) as stream:
                event = await next_event(stream)
            assert (event["event"], event["id"]) == ("story", seen[-1])
            assert msgspec.json.decode(event["data"])["stories"][0]["end"] == 240.0
            await refuse_bad_requests(session, url)

    run(main)
    assert not [each for each in caplog.records if each.exc_info], "a bad request is no bug"


async def first_frame(session: ClientSession, url: str) -> str:
    async with session.get(f"{url}/report.json") as answer:
        frame: str = (await answer.json())["live"]["frame"]
        return frame


async def post(session: ClientSession, url: str, body: Any, status: int = 200) -> dict[str, Any]:
    async with session.post(url, json=body) as answer:
        assert answer.status == status, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def refuse_bad_requests(session: ClientSession, url: str) -> None:
    refused = await post(session, f"{url}/inject", {"event": "outage: {zone: us-west-2x}"})
    assert refused["error"].startswith("outage.zone: no zone of us-west-2 is called us-west-2x")
    for path, body in (
        ("/step", {"seconds": 0}),
        ("/step", {"seconds": 1e9}),
        ("/step", {"seconds": "a"}),
        ("/step", {}),
        ("/play", {"speed": -1}),
        ("/play", {"speed": 1, "more": 2}),
        ("/inject", {}),
    ):
        assert (await post(session, f"{url}{path}", body, 400))["error"]
    async with session.post(f"{url}/step", data="seconds=60") as answer:
        assert answer.status == 415, "a form of another page cannot send JSON"
    async with session.post(f"{url}/inject", json={"event": "x" * 100_000}) as answer:
        assert answer.status == 413
    foreign = {"Origin": "https://evil.example"}
    async with session.post(f"{url}/step", json={"seconds": 60}, headers=foreign) as answer:
        assert answer.status == 403
    async with session.get(f"{url}/step") as answer:
        assert answer.status == 405
    await refuse_unreadable_bodies(session, url)
    assert (await first_frame(session, url)).endswith("-4"), "none of these did anything"


async def refuse_unreadable_bodies(session: ClientSession, url: str) -> None:
    for path in ("/play", "/step", "/inject"):
        for body, encoding in (
            (b'{"a\\n":1}', ""),
            (b'{"event":"\xff"}', ""),
            (b"\xff", ""),
            (b"no gzip", "gzip"),
            (b"\x1f\x8b\x08", "gzip"),
        ):
            headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
            async with session.post(f"{url}{path}", data=body, headers=headers) as answer:
                assert answer.status == 400
                assert (await answer.json())["error"]


def test_more_pages_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wainwright.live_page.page_server.MAX_STREAMS", 2)

    async def main() -> None:
        async with (
            served(watched(FileCluster())) as (session, url),
            session.get(f"{url}/stream"),
            session.get(f"{url}/stream"),
            session.get(f"{url}/stream") as third,
        ):
            assert third.status == 503
            assert "close one" in (await third.json())["error"]

    run(main)


def test_the_end_of_the_server_ends_open_streams() -> None:
    async def main() -> None:
        async with ClientSession() as session:
            sock = listen(0)
            async with PageServer(watched(FileCluster()), sock, LOCAL).running():
                answer = await session.get(f"{endpoint_url(sock)}/stream")
                await next_event(answer)
            assert await answer.content.read() == b""
            sock.close()

    run(main)
