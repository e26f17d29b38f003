"""Credentials that are replaced, TLS, proxies and the limit of requests."""

import asyncio
import base64
import json
import os
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.certificates import Authority
from tests.support.connect_proxy import ConnectProxy, serve_connect_proxy
from tests.support.scripted_api import Handler, page, pod, serve, status

from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import SystemClock, VirtualClock
from wainwright.errors import (
    CredentialsError,
    InvalidInputError,
    NotLeaderError,
    RequestForbiddenError,
    ServerUnavailableError,
)
from wainwright.kube.api_server_access import (
    ApiServerAddress,
    ExecEnv,
    ExecPlugin,
    FileOrData,
    Impersonation,
)
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import Connections, RequestLimit, RequestLimiter
from wainwright.kube.credentials import CredentialSource

V1, V1BETA1 = (f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))

Address = Callable[[str], ApiServerAddress]


def request_twice(handler: Handler, address: Address, trust: ssl.SSLContext | None = None) -> None:
    """Two requests of one client."""

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            serve(handler, trust) as url,
            KubeClient.connect(address(url)) as client,
        ):
            for _ in range(2):
                await client.get(Pod, "a", "default")

    asyncio.run(main())


def recording(seen: list[str], accepted: str = "") -> Handler:
    """Keeps the Authorization of each request; all but the accepted one are answered with 401."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        is_refused = accepted and seen[-1] != accepted
        return status(401, "Unauthorized") if is_refused else web.json_response(pod("a", 1))

    return handle


def plugin(folder: Path, *answers: Any, version: str = V1, **fields: Any) -> ExecPlugin:
    """A program that prints one answer after the other, the last one for ever."""
    for number, answer in enumerate(answers):
        text = answer if isinstance(answer, str) else json.dumps(answer)
        (folder / f"answer-{number}").write_text(text)
    program = f"""
import os, pathlib, sys
folder = pathlib.Path({str(folder)!r})
calls = folder / "calls"
number = len(calls.read_text().splitlines()) if calls.exists() else 0
with calls.open("a") as file:
    print(os.environ["KUBERNETES_EXEC_INFO"], os.environ.get("PROFILE"), file=file)
print((folder / f"answer-{{min(number, {len(answers) - 1})}}").read_text())
"""
    return ExecPlugin(
        command=sys.executable,
        args=["-S", "-c", program],
        api_version=version,
        interactive_mode="Never",
        env=[ExecEnv("PROFILE", "work")],
        **fields,
    )


def credential(version: str = V1, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "ExecCredential", "status": fields}


# Credentials


def test_a_token_and_a_password_are_sent() -> None:
    seen: list[str] = []
    request_twice(recording(seen), lambda url: ApiServerAddress(url=url, token="secret"))
    request_twice(
        recording(seen), lambda url: ApiServerAddress(url=url, username="a", password="b")
    )
    assert seen[::2] == ["Bearer secret", f"Basic {base64.b64encode(b'a:b').decode()}"]


def test_who_is_acted_as_is_sent_with_every_request() -> None:
    seen: list[list[tuple[str, str]]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        names = [name for name in request.headers if name.startswith("Impersonate-")]
        found = {(name, value) for name in names for value in request.headers.getall(name)}
        seen.append(sorted(found))
        assert request.headers["Authorization"] == "Bearer secret"
        return web.json_response(pod("a", 1))

    viewer = Impersonation(
        user="jane@example.com",
        uid="123",
        groups=("viewers", "all users"),
        extra={"example.com/50%": ("read", "list"), "Größe": ("1",)},
    )
    request_twice(
        handle, lambda url: ApiServerAddress(url=url, token="secret", impersonation=viewer)
    )
    sent = [
        ("Impersonate-Extra-Gr%C3%B6%C3%9Fe", "1"),
        ("Impersonate-Extra-example.com%2F50%25", "list"),
        ("Impersonate-Extra-example.com%2F50%25", "read"),
        ("Impersonate-Group", "all users"),
        ("Impersonate-Group", "viewers"),
        ("Impersonate-Uid", "123"),
        ("Impersonate-User", "jane@example.com"),
    ]
    assert seen == [sent] * 2


def test_refused_for_good_is_forbidden_after_one_request() -> None:
    seen: list[str] = []
    with pytest.raises(RequestForbiddenError) as caught:
        request_twice(
            recording(seen, "Bearer other"), lambda url: ApiServerAddress(url=url, token="old")
        )
    assert (caught.value.status, len(seen)) == (401, 1)


def test_a_token_file_is_read_again_when_it_is_refused(tmp_path: Path) -> None:
    seen: list[str] = []
    file = tmp_path / "token"
    file.write_text("old\n")

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        if len(seen) == 2:
            file.write_text("new\n")
            return status(401)
        return web.json_response(pod("a", 1))

    request_twice(handle, lambda url: ApiServerAddress(url=url, token_file=str(file)))
    assert seen == ["Bearer old", "Bearer old", "Bearer new"]


def test_a_token_file_is_read_again_each_minute(tmp_path: Path) -> None:
    """A server may accept the old token for long after it was replaced."""
    file, clock = tmp_path / "token", VirtualClock()
    address = ApiServerAddress(url="http://a", token_file=str(file))

    async def main() -> list[str]:
        source, found = CredentialSource(address, clock), []
        for text, seconds in (("one", 0), ("two", 30), ("three", 40), (None, 70)):
            await clock.sleep(seconds)
            file.unlink(missing_ok=True)
            if text is not None:
                file.write_text(text)
            found.append((await source.current()).authorization)
        return found

    found = clock.run(main())
    clock.close()
    assert found == ["Bearer one", "Bearer one", "Bearer three", "Bearer three"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "it is larger than 16 MiB; name an ordinary file"),
        (b"\0" * 100, "a control character, expected a token on one line"),
        (b"one\ntwo\n", "a control character, expected a token on one line"),
        (b"\xff", "not UTF-8 text, expected a token on one line"),
    ],
)
def test_a_token_file_without_a_token_is_named(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    file = tmp_path / "token" if content is not None else Path("/dev/zero")
    if content is not None:
        file.write_bytes(content)
    address = ApiServerAddress(url="http://a", token_file=str(file))
    with pytest.raises(CredentialsError) as caught:
        asyncio.run(CredentialSource(address, SystemClock()).current())
    assert caught.value.message.startswith(f"{file}: ")
    assert caught.value.message.endswith(expected)


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_plugin_is_run_once_and_knows_the_cluster(tmp_path: Path, version: str) -> None:
    seen: list[str] = []
    program = plugin(
        tmp_path, credential(version, token="made"), version=version, provide_cluster_info=True
    )
    info = {"server": "https://one"}
    request_twice(
        recording(seen),
        lambda url: ApiServerAddress(url=url, exec_plugin=program, cluster_info=info),
    )
    assert seen == ["Bearer made"] * 2
    [call] = (tmp_path / "calls").read_text().splitlines()
    asked, _, profile = call.rpartition(" ")
    assert profile == "work"
    assert json.loads(asked) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": info},
    }


def test_a_plugin_gets_the_content_of_a_certificate_authority_file(tmp_path: Path) -> None:
    """It has no other way to the server; a file that was replaced counts as it is now."""
    program = plugin(
        tmp_path, credential(token="one"), credential(token="two"), provide_cluster_info=True
    )
    file = tmp_path / "ca.crt"
    address = ApiServerAddress(
        url="", ca_file=str(file), exec_plugin=program, cluster_info={"server": "https://one"}
    )

    async def main() -> None:
        source = CredentialSource(address, SystemClock())
        with pytest.raises(CredentialsError, match=r"certificate-authority: .*ca\.crt: No such"):
            await source.current()
        file.write_bytes(b"old")
        old = await source.current()
        file.write_bytes(b"new")
        await source.renew(old)

    asyncio.run(main())
    calls = [call.rpartition(" ")[0] for call in (tmp_path / "calls").read_text().splitlines()]
    clusters = [json.loads(asked)["spec"]["cluster"] for asked in calls]
    assert clusters == [
        {"server": "https://one", "certificate-authority-data": base64.b64encode(text).decode()}
        for text in (b"old", b"new")
    ]


def test_a_plugin_goes_on_where_the_request_that_it_was_run_for_is_given_up(tmp_path: Path) -> None:
    """A lease is asked for anew after three seconds: a slower plugin would never get to its end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = ExecPlugin(
        command=sys.executable,
        args=["-S", "-c", f"print(open({str(pipe)!r}).read())"],
        api_version=V1,
        interactive_mode="Never",
    )

    async def main() -> str:
        source = CredentialSource(ApiServerAddress(url="", exec_plugin=program), SystemClock())
        given_up = asyncio.create_task(source.current())
        # Opened when the plugin has been started, which then waits for the text.
        file = await asyncio.to_thread(pipe.open, "w")
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        waiting = asyncio.create_task(source.current())
        await asyncio.sleep(0)
        with suppress(BrokenPipeError), file:
            file.write(json.dumps(credential(token="made")))
        async with asyncio.timeout(5):
            return (await waiting).authorization

    assert asyncio.run(main()) == "Bearer made"


def test_a_plugin_is_run_again_when_its_token_is_refused(tmp_path: Path) -> None:
    seen: list[str] = []
    program = plugin(tmp_path, credential(token="old"), credential(token="new"))
    address = lambda url: ApiServerAddress(url=url, exec_plugin=program)  # noqa: E731
    request_twice(recording(seen, "Bearer new"), address)
    assert seen == ["Bearer old", "Bearer new", "Bearer new"]


def test_a_plugin_is_run_again_before_its_token_ends(tmp_path: Path) -> None:
    program = plugin(
        tmp_path,
        credential(token="one", expirationTimestamp="2026-01-01T00:10:00Z"),
        credential(token="two"),
    )
    clock = VirtualClock()

    async def main() -> list[str]:
        source, found = CredentialSource(ApiServerAddress(url="", exec_plugin=program), clock), []
        for seconds in (0, 300, 295, 100_000):
            clock.advance(seconds)
            found.append((await source.current()).authorization)
        return found

    assert asyncio.run(main()) == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]
    clock.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("no JSON", "printed no ExecCredential"),
        (credential(V1BETA1, token="a"), f"printed '{V1BETA1}', the kubeconfig states '{V1}'"),
        (credential(), "neither a token nor a certificate"),
        (credential(token="a", expirationTimestamp="soon"), "expirationTimestamp 'soon'"),
    ],
)
def test_a_plugin_that_answers_badly_is_named(tmp_path: Path, answer: Any, expected: str) -> None:
    program = plugin(tmp_path, answer)
    with pytest.raises(CredentialsError, match=expected):
        request_twice(recording([]), lambda url: ApiServerAddress(url=url, exec_plugin=program))


def test_a_plugin_that_fails_or_is_missing_is_named_with_its_hint() -> None:
    failing = ExecPlugin(
        command=sys.executable,
        args=["-S", "-c", "import sys; sys.exit('no session')"],
        api_version=V1,
        install_hint="log in",
    )
    with pytest.raises(CredentialsError, match="ended with 1: no session") as caught:
        request_twice(recording([]), lambda url: ApiServerAddress(url=url, exec_plugin=failing))
    assert caught.value.hint == "log in"
    missing = ExecPlugin(command="no-such-program", api_version=V1, install_hint="install it")
    with pytest.raises(CredentialsError, match="'no-such-program' cannot be run") as caught:
        request_twice(recording([]), lambda url: ApiServerAddress(url=url, exec_plugin=missing))
    assert caught.value.hint == "install it"


def test_a_plugin_that_prompts_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    asking = ExecPlugin(command="a", api_version=V1, interactive_mode="Always")
    with pytest.raises(CredentialsError, match="not a terminal"):
        request_twice(recording([]), lambda url: ApiServerAddress(url=url, exec_plugin=asking))


# TLS


def test_the_server_must_have_a_certificate_of_the_authority(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    request_twice(
        recording([]),
        lambda url: ApiServerAddress(url=url, ca_data=ours.pem),
        ours.server_context(),
    )
    for authority in (other.pem, b""):
        with pytest.raises(ServerUnavailableError, match="certificate verify failed"):
            request_twice(
                recording([]),
                lambda url, pem=authority: ApiServerAddress(url=url, ca_data=pem),  # type: ignore[misc]
                ours.server_context(),
            )


def test_the_name_of_the_server_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    trust = authority.server_context("api.example.com")
    with pytest.raises(ServerUnavailableError, match="not valid for"):
        request_twice(
            recording([]), lambda url: ApiServerAddress(url=url, ca_data=authority.pem), trust
        )
    named = lambda url: ApiServerAddress(  # noqa: E731
        url=url, ca_data=authority.pem, tls_server_name="api.example.com"
    )
    request_twice(recording([]), named, trust)


def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    names: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        names.append(subject[0][0][1])
        return web.json_response(pod("a", 1))

    certificate, key = authority.issue("somebody")
    trust = authority.server_context(wants_client=True)
    stated = lambda url: ApiServerAddress(  # noqa: E731
        url=url,
        ca_data=authority.pem,
        client_certificate=FileOrData(data=certificate),
        client_key=FileOrData(data=key),
    )
    request_twice(handle, stated, trust)
    made = credential(clientCertificateData=certificate.decode(), clientKeyData=key.decode())
    program = plugin(tmp_path, made)
    request_twice(
        handle,
        lambda url: ApiServerAddress(url=url, ca_data=authority.pem, exec_plugin=program),
        trust,
    )
    assert names == ["somebody"] * 4


def test_an_authority_that_was_replaced_is_trusted_within_a_minute(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    file, clock = tmp_path / "ca.crt", VirtualClock()
    file.write_bytes(old.pem)

    async def main() -> None:
        async with serve(recording([]), new.server_context()) as url:
            connections = Connections(ApiServerAddress(url=url, ca_file=str(file)), clock)
            client = KubeClient(connections, url)
            with pytest.raises(ServerUnavailableError):
                await client.get(Pod, "a", "default")
            file.write_bytes(new.pem)
            clock.advance(61)
            await client.get(Pod, "a", "default")
            await connections.close()

    asyncio.run(main())
    clock.close()


def test_a_certificate_that_cannot_be_used_is_named() -> None:
    with pytest.raises(CredentialsError, match="cannot be used"):
        request_twice(recording([]), lambda _: ApiServerAddress(url="https://a", ca_data=b"no PEM"))
    with pytest.raises(CredentialsError, match=r"ca\.crt: No such file"):
        request_twice(
            recording([]), lambda _: ApiServerAddress(url="https://a", ca_file="/missing/ca.crt")
        )


# Proxies


def test_a_proxy_is_used_unless_the_environment_excepts_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.raw_path if "://" in request.raw_path else "direct")
        return web.json_response(pod("a", 1))

    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    target = "http://10.1.2.3:8080"
    request_twice(handle, lambda url: ApiServerAddress(url=target, proxy=url))

    def by_environment(url: str) -> ApiServerAddress:
        monkeypatch.setenv("http_proxy", url)
        return ApiServerAddress(url=target)

    request_twice(handle, by_environment)
    assert set(seen) == {f"{target}/api/v1/namespaces/default/pods/a"}
    monkeypatch.setenv("no_proxy", "example.com,127.0.0.0/8")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    seen.clear()
    request_twice(handle, lambda url: ApiServerAddress(url=url))
    assert set(seen) == {"direct"}


def request_through_proxy(address: Address, trust: ssl.SSLContext) -> tuple[ConnectProxy, str]:
    """The proxy, and the address of the server behind it that it was asked for."""

    async def main() -> tuple[ConnectProxy, str]:
        async with (
            asyncio.timeout(20),
            serve(recording([], "Bearer secret"), trust) as url,
            serve_connect_proxy() as (proxy, proxy_url),
        ):
            stated = msgspec.structs.replace(address(url), token="secret", proxy=proxy_url)
            async with KubeClient.connect(stated) as client:
                await client.get(Pod, "a", "default")
            return proxy, url.removeprefix("https://")

    return asyncio.run(main())


def test_tls_goes_through_a_proxy_to_the_server_itself(tmp_path: Path) -> None:
    """The proxy learns where to, and nothing else: neither the token nor what is asked for."""
    authority = Authority(tmp_path)
    proxy, server = request_through_proxy(
        lambda url: ApiServerAddress(url=url, ca_data=authority.pem), authority.server_context()
    )
    assert proxy.asked == [server]
    assert proxy.passed_on.startswith(b"\x16\x03"), "which is how TLS begins"
    for read in (*proxy.headers, bytes(proxy.passed_on)):
        assert b"secret" not in read
        assert b"pods" not in read


def test_the_server_behind_a_proxy_must_have_a_certificate_of_the_authority(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    for authority in (other.pem, b""):
        with pytest.raises(ServerUnavailableError, match="certificate verify failed"):
            request_through_proxy(
                lambda url, pem=authority: ApiServerAddress(url=url, ca_data=pem),  # type: ignore[misc]
                ours.server_context(),
            )


def test_the_name_of_the_server_behind_a_proxy_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    trust = authority.server_context("api.example.com")

    def named(name: str) -> Address:
        return lambda url: ApiServerAddress(url=url, ca_data=authority.pem, tls_server_name=name)

    for name in ("", "other.example.com"):
        with pytest.raises(ServerUnavailableError, match="not valid for"):
            request_through_proxy(named(name), trust)
    proxy, server = request_through_proxy(named("api.example.com"), trust)
    assert proxy.asked == [server], "the name is that of the certificate, not where to connect"
    assert b"api.example.com" in proxy.passed_on, "and it is asked for"


def test_other_proxies_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="only HTTP proxies"):
        request_twice(recording([]), lambda url: ApiServerAddress(url=url, proxy="socks5://a:1"))


# The limit of requests


def requests_until(limit: RequestLimit, seconds: float) -> int:
    clock, done = VirtualClock(), 0

    async def many() -> None:
        nonlocal done
        limiter = RequestLimiter(limit)
        while True:
            await limiter.wait()
            await asyncio.sleep(0)
            done += 1

    async def main() -> None:
        task = asyncio.create_task(many())
        await clock.sleep(seconds)
        task.cancel()

    clock.run(main())
    clock.close()
    return done


def test_a_burst_goes_at_once_and_the_rest_at_its_pace() -> None:
    assert requests_until(RequestLimit(qps=20, burst=30), 0.01) == 30
    assert requests_until(RequestLimit(qps=20, burst=30), 10.01) == 230


def test_a_request_that_is_given_up_while_it_waits_holds_nobody_back() -> None:
    clock = VirtualClock()

    async def main() -> float:
        limiter = RequestLimiter(RequestLimit(qps=2, burst=1))
        await limiter.wait()
        given_up = [asyncio.create_task(limiter.wait()) for _ in range(100)]
        await asyncio.sleep(0.1)
        for each in given_up:
            each.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        began = clock.now()
        await limiter.wait()
        return clock.now() - began

    waited = clock.run(main())
    clock.close()
    assert waited == pytest.approx(0.4)


def test_a_client_without_limit_does_not_wait_behind_others() -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(20),
            serve(recording([])) as url,
            KubeClient.connect(
                ApiServerAddress(url=url), limit=RequestLimit(qps=0.001, burst=1)
            ) as client,
        ):
            waiting = [asyncio.create_task(client.get(Pod, "a", "default")) for _ in range(300)]
            await asyncio.sleep(0)
            for _ in range(3):
                await client.without_limit().get(Pod, "a", "default")
            assert sum(each.done() for each in waiting) <= 1
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


def test_requests_that_wait_together_keep_the_pace() -> None:
    clock = VirtualClock()
    times: list[float] = []

    async def main() -> None:
        limiter, start = RequestLimiter(RequestLimit(qps=2, burst=1)), clock.now()

        async def one() -> None:
            await limiter.wait()
            times.append(clock.now() - start)

        await asyncio.gather(*(one() for _ in range(4)))

    clock.run(main())
    clock.close()
    assert times == pytest.approx([0, 0.5, 1, 1.5])


# Writes of who no longer leads when they are about to be sent


PATCH: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}}
WRITES: dict[str, Callable[[KubeClient], Awaitable[object]]] = {
    "create": lambda client: client.create(Pod(metadata=ObjectMeta(name="a"))),
    "patch": lambda client: client.patch(Pod, "a", PATCH, "default"),
    "patch_status": lambda client: client.patch_status(Pod, "a", PATCH, "default"),
    "delete": lambda client: client.delete(Pod, "a", "default"),
    "evict": lambda client: client.evict("a", "default"),
    "bind": lambda client: client.bind("a", "default", "node"),
}


@pytest.mark.parametrize("write", WRITES)
def test_no_write_is_sent_by_who_does_not_lead(write: str) -> None:
    seen: list[str] = []

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            serve(recording(seen)) as url,
            KubeClient.connect(ApiServerAddress(url=url)) as client,
        ):
            with pytest.raises(NotLeaderError):
                await WRITES[write](client.for_leader(lambda: False))
            assert seen == []
            await WRITES[write](client.for_leader(lambda: True))
            await WRITES[write](client)
            assert len(seen) == 2

    asyncio.run(main())


def test_who_does_not_lead_reads() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(pod("a", 1)) if request.path.endswith("/a") else page(1)

    async def main() -> None:
        async with serve(handle) as url, KubeClient.connect(ApiServerAddress(url=url)) as client:
            other = client.for_leader(lambda: False)
            assert (await other.get(Pod, "a", "default")).metadata.name == "a"
            assert (await other.list(Pod)).items == []

    asyncio.run(main())


def test_the_client_of_a_leader_has_the_limit_of_the_first() -> None:
    clock = VirtualClock()

    async def main() -> float:
        async with (
            serve(recording([])) as url,
            KubeClient.connect(
                ApiServerAddress(url=url), limit=RequestLimit(qps=0.1, burst=1)
            ) as client,
        ):
            began = clock.now()
            await client.get(Pod, "a", "default")
            await client.for_leader(lambda: True).get(Pod, "a", "default")
            return clock.now() - began

    waited = clock.run(main())
    clock.close()
    assert waited == pytest.approx(10, abs=0.1)


def test_a_write_for_which_a_plugin_has_to_run_is_not_sent_where_that_takes_too_long(
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    async def main() -> None:
        async with asyncio.timeout(20), serve(recording(seen)) as url:
            slow = plugin(tmp_path, credential(token="t"))
            address = ApiServerAddress(url=url, exec_plugin=slow)
            async with KubeClient.connect(address) as client:
                leader = client.for_leader(lambda: not (tmp_path / "calls").exists())
                with pytest.raises(NotLeaderError):
                    await WRITES["patch"](leader)

    asyncio.run(main())
    assert (tmp_path / "calls").exists(), "it led until the plugin was run"
    assert seen == []


def test_a_write_that_was_refused_with_401_is_not_sent_again_by_who_no_longer_leads(
    tmp_path: Path,
) -> None:
    seen, file = list[str](), tmp_path / "token"
    file.write_text("old")

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        file.write_text("new")
        return status(401)

    async def main() -> None:
        async with asyncio.timeout(20), serve(handle) as url:
            address = ApiServerAddress(url=url, token_file=str(file))
            async with KubeClient.connect(address) as client:
                with pytest.raises(NotLeaderError):
                    await WRITES["patch"](client.for_leader(lambda: not seen))

    asyncio.run(main())
    assert seen == ["Bearer old"]


def test_a_write_that_waits_for_a_connection_is_not_sent_where_that_takes_too_long(
    tmp_path: Path,
) -> None:
    seen, authority = list[str](), Authority(tmp_path)

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            serve(recording(seen), authority.server_context()) as url,
            serve_connect_proxy() as (proxy, proxy_url),
        ):
            address = ApiServerAddress(url=url, ca_data=authority.pem, proxy=proxy_url)
            async with KubeClient.connect(address) as client:
                with pytest.raises(NotLeaderError):
                    await WRITES["patch"](client.for_leader(lambda: not proxy.asked))
            assert proxy.asked, "it led until the connection was begun"

    asyncio.run(main())
    assert seen == []


def test_a_deletion_whose_connection_breaks_is_not_repeated_by_who_no_longer_leads() -> None:
    """aiohttp does that by itself, on a new connection."""
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.method)
        if request.method == "DELETE" and request.transport is not None:
            request.transport.abort()
        return web.json_response(pod("a", 1))

    async def main() -> None:
        async with (
            asyncio.timeout(20),
            serve(handle) as url,
            KubeClient.connect(ApiServerAddress(url=url)) as client,
        ):
            with pytest.raises(NotLeaderError):
                await WRITES["delete"](client.for_leader(lambda: "DELETE" not in seen))

    asyncio.run(main())
    assert seen == ["DELETE"]
