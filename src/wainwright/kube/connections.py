"""The HTTP sessions of a client: TLS whose certificates may be replaced, proxies, and how many
requests a second it makes.
"""

import asyncio
import ipaddress
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp
import msgspec
from multidict import CIMultiDict

from wainwright.clock import Clock, SystemClock
from wainwright.errors import CredentialsError, InvalidInputError, NotLeaderError
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.credentials import REREAD_SECONDS, Credential, CredentialSource

USER_AGENT: Final = "wainwright"

MayWrite: TypeAlias = Callable[[], bool]
"""Whether this process leads, as it is at this moment."""


class RequestLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests a client makes on average and at once (KUBE_CLIENT_QPS and _BURST)."""

    qps: float = 200.0
    """0 means as many as wanted."""
    burst: int = 300


DEFAULT_LIMIT: Final = RequestLimit()
NO_LIMIT: Final = RequestLimit(qps=0.0)


class RequestLimiter:
    """Holds requests back, in their order; time is the event loop's."""

    def __init__(self, limit: RequestLimit) -> None:
        self._limit = limit
        self._available, self._since = float(limit.burst), 0.0

    async def wait(self) -> None:
        if self._limit.qps <= 0:
            return
        now = asyncio.get_running_loop().time()
        gained = (now - self._since) * self._limit.qps
        self._available = min(float(self._limit.burst), self._available + gained) - 1
        self._since = now
        if self._available >= 0:
            return
        try:
            await asyncio.sleep(-self._available / self._limit.qps)
        except asyncio.CancelledError:
            self._available += 1  # a request that is not made holds nobody back
            raise


class Prepared(NamedTuple):
    """What a request is made with."""

    session: aiohttp.ClientSession
    credential: Credential
    options: dict[str, Any]
    """Keyword arguments of the request."""


class Connections:
    """Sessions to one API server. A new one takes over when certificates have been replaced."""

    def __init__(self, address: ApiServerAddress, clock: Clock | None = None) -> None:
        self._address, self._clock = address, clock or SystemClock()
        self._credentials = CredentialSource(address, self._clock)
        self._proxy = address.proxy or _proxy_of_environment(address.url)
        if self._proxy and not self._proxy.startswith(("http://", "https://")):
            raise InvalidInputError(
                f"proxy {self._proxy!r}: only HTTP proxies are supported", "write http://host:port"
            )
        self._sessions: list[aiohttp.ClientSession] = []
        self._certificates: tuple[bytes, Credential] | None = None
        self._check_at = 0.0

    async def prepare(self) -> Prepared:
        credential = await self._credentials.current()
        session = await self._session_for(credential)
        headers = CIMultiDict({"User-Agent": USER_AGENT})
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        if self._address.impersonation is not None:
            headers.extend(self._address.impersonation.headers())
        options: dict[str, Any] = {"headers": headers}
        if self._proxy:
            options["proxy"] = self._proxy
        if self._address.tls_server_name:
            options["server_hostname"] = self._address.tls_server_name
        return Prepared(session, credential, options)

    async def renew(self, refused: Credential) -> bool:
        """After a 401: whether asking again, with other credentials, makes sense."""
        return await self._credentials.renew(refused)

    async def close(self) -> None:
        await self._credentials.close()
        for session in self._sessions:
            await session.close()
        for _ in range(3):
            # Sockets are closed by callbacks, which a loop that ends now would not run.
            await asyncio.sleep(0)

    async def _session_for(self, credential: Credential) -> aiohttp.ClientSession:
        known = self._certificates
        of_client = Credential(certificate=credential.certificate, key=credential.key)
        if known is not None and known[1] == of_client and self._clock.now() < self._check_at:
            return self._sessions[-1]
        found = (self._authority(known), of_client)
        self._check_at = self._clock.now() + REREAD_SECONDS
        if found != known:
            await self._replace_session(found)
        return self._sessions[-1]

    async def _replace_session(self, certificates: tuple[bytes, Credential]) -> None:
        """The last session ends with the watches that use it; one before has none left."""
        for session in self._sessions[:-1]:
            await session.close()
        trust = make_ssl_context(self._address.url, *certificates)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            trace_configs=[_last_check()],
        )
        self._sessions = [*self._sessions[-1:], session]
        self._certificates = certificates

    def _authority(self, known: tuple[bytes, Credential] | None) -> bytes:
        try:
            return self._address.authority.read()
        except OSError as error:
            if known is not None:
                return known[0]  # while it is being replaced
            raise CredentialsError(
                f"certificate-authority: {error.filename}: {error.strerror}"
            ) from error


def _last_check() -> aiohttp.TraceConfig:
    """Asks the MayWrite that a request has as its `trace_request_ctx`. aiohttp calls this with a
    connection in its hands, before it writes a byte: also where the request has waited for that
    connection, and before it sends a DELETE again whose connection has broken.
    """
    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(_refuse_unless_leader)
    return config


async def _refuse_unless_leader(
    _: aiohttp.ClientSession, request: SimpleNamespace, __: aiohttp.TraceRequestHeadersSentParams
) -> None:
    may_write: MayWrite | None = request.trace_request_ctx
    if may_write is not None and not may_write():
        raise NotLeaderError


def make_ssl_context(url: str, authority: bytes, client: Credential) -> ssl.SSLContext | bool:
    """Always verifies; True is what aiohttp takes for no TLS at all."""
    if not url.startswith("https:"):
        return True
    try:
        context = ssl.create_default_context(cadata=authority.decode() or None)
        # Python 3.13 refuses authorities without a key identifier, which clusters have for years.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if client.certificate:
            _load_certificate(context, client)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise CredentialsError(f"a certificate or key cannot be used: {error}") from error
    return context


def _load_certificate(context: ssl.SSLContext, client: Credential) -> None:
    """By files that nobody else may read, which is the only way that Python has."""
    with tempfile.TemporaryDirectory(prefix="wain-") as folder:
        certificate, key = Path(folder, "client.crt"), Path(folder, "client.key")
        certificate.write_bytes(client.certificate)
        key.write_bytes(client.key or client.certificate)
        context.load_cert_chain(certificate, key, password=_no_password)


def _no_password() -> str:
    raise ValueError("the client key has a password")


def _proxy_of_environment(url: str) -> str:
    parts = urlsplit(url)
    proxies = getproxies_environment()
    host = parts.hostname or ""
    proxy = proxies.get(parts.scheme, "")
    if not proxy or proxy_bypass(host) or _is_in_network(host, proxies.get("no", "")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_in_network(host: str, exceptions: str) -> bool:
    """NO_PROXY of clusters has networks (10.0.0.0/8), which Python does not know."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    networks = [each.strip() for each in exceptions.split(",") if "/" in each]
    return any(address in network for network in map(_network, networks) if network is not None)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
