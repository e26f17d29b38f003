"""Who asks: a token, a token file that is replaced, a client certificate, or a program that prints
one of these and is run again when they end or are refused.
"""

import asyncio
import base64
import os
import sys
from datetime import datetime
from typing import Any, Final

import msgspec

from wainwright.clock import Clock
from wainwright.errors import CredentialsError
from wainwright.kube.api_server_access import ApiServerAddress, ExecPlugin
from wainwright.kube.kubeconfig_text import read_bounded

REREAD_SECONDS: Final = 60.0
"""Files are read again after this long: a server may accept an old token for an hour after it was
replaced, so that waiting for a refusal would be too late for whoever looks at audit logs."""
EXPIRY_MARGIN: Final = 10.0
PLUGIN_SECONDS: Final = 60.0
"""For a plugin that cannot ask anybody; one that can may wait for a login."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What one request is made with."""

    authorization: str = ""
    """The value of the header."""
    certificate: bytes = b""
    key: bytes = b""


class _ExecStatus(msgspec.Struct, frozen=True, kw_only=True):
    token: str = ""
    certificate: str = msgspec.field(name="clientCertificateData", default="")
    key: str = msgspec.field(name="clientKeyData", default="")
    expires: str = msgspec.field(name="expirationTimestamp", default="")


class _ExecAnswer(msgspec.Struct, frozen=True, kw_only=True):
    apiVersion: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class CredentialSource:
    """The credentials of one address, kept until they have to be read or made again."""

    def __init__(self, address: ApiServerAddress, clock: Clock) -> None:
        self._address, self._clock = address, clock
        self._loading: asyncio.Task[None] | None = None
        self._current: Credential | None = None
        self._valid_until = 0.0

    async def current(self) -> Credential:
        if self._current is None or self._clock.now() >= self._valid_until:
            await self._load()
        assert self._current is not None
        return self._current

    async def renew(self, refused: Credential) -> bool:
        """Whether there are others than those that the server has just refused."""
        if self._current == refused:
            await self._load()
        return self._current != refused

    async def close(self) -> None:
        """Ends a plugin that nobody waits for any more."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)

    async def _load(self) -> None:
        """Once for all who wait, and to the end where they give up: a lease is asked for anew after
        three seconds, and a plugin that is slower than that would be begun again each time.
        """
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._replace(), name="credentials")
        await asyncio.shield(self._loading)

    async def _replace(self) -> None:
        plugin = self._address.exec_plugin
        if plugin is None:
            self._current = self._read()
            self._valid_until = self._clock.now() + REREAD_SECONDS
            return
        status = await _run_plugin(plugin, self._address)
        self._current = Credential(
            authorization=f"Bearer {status.token.strip()}" if status.token else "",
            certificate=status.certificate.encode(),
            key=status.key.encode(),
        )
        self._valid_until = _expiry(plugin, status) - EXPIRY_MARGIN

    def _read(self) -> Credential:
        try:
            return Credential(
                authorization=self._authorization(),
                certificate=self._address.client_certificate.read(),
                key=self._address.client_key.read(),
            )
        except OSError as error:
            if self._current is not None:
                return self._current  # while it is being replaced
            raise CredentialsError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def _authorization(self) -> str:
        """A file goes before a token, as it does for kubectl: the token may be that of the file."""
        if self._address.token_file:
            return f"Bearer {_read_token(self._address.token_file)}"
        if self._address.token:
            return f"Bearer {self._address.token.strip()}"
        if self._address.username:
            pair = f"{self._address.username}:{self._address.password}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return ""


def _read_token(file: str) -> str:
    content = read_bounded(file)
    try:
        token = content.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{file}: not UTF-8 text, expected a token on one line") from error
    if any(sign < " " or sign == "\x7f" for sign in token):
        raise CredentialsError(f"{file}: a control character, expected a token on one line")
    return token


def _expiry(plugin: ExecPlugin, status: _ExecStatus) -> float:
    """Without one the credential is good until it is refused."""
    if not status.expires:
        return float("inf")
    try:
        return datetime.fromisoformat(status.expires).timestamp()
    except ValueError as error:
        raise CredentialsError(
            f"the exec plugin {plugin.command!r} printed expirationTimestamp {status.expires!r}, "
            "expected a time such as 2026-01-31T08:00:00Z"
        ) from error


async def _run_plugin(plugin: ExecPlugin, address: ApiServerAddress) -> _ExecStatus:
    is_interactive = _is_interactive(plugin)
    info = msgspec.json.encode(_exec_info(plugin, address, is_interactive)).decode()
    variables = {each.name: each.value for each in plugin.env}
    streams: dict[str, Any] = {"stdin": asyncio.subprocess.DEVNULL}
    if is_interactive:
        streams = {"stdin": None}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": info},
            stdout=asyncio.subprocess.PIPE,
            # Whoever can be asked has to see the question.
            stderr=None if is_interactive else asyncio.subprocess.PIPE,
            **streams,
        )
    except OSError as error:
        message = f"the exec plugin {plugin.command!r} cannot be run: {error.strerror}"
        raise CredentialsError(message, plugin.install_hint) from error
    output = await _output_of(process, plugin, None if is_interactive else PLUGIN_SECONDS)
    return _read_answer(plugin, output)


def _is_interactive(plugin: ExecPlugin) -> bool:
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not has_terminal:
        raise CredentialsError(
            f"the exec plugin {plugin.command!r} wants to ask (interactiveMode: Always), and "
            "standard input is not a terminal",
            "log in with it first, or use credentials that need nobody",
        )
    return has_terminal and plugin.interactive_mode != "Never"


def _exec_info(plugin: ExecPlugin, address: ApiServerAddress, interactive: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = address.cluster_info | _authority(address)
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}


def _authority(address: ApiServerAddress) -> dict[str, str]:
    """As data, as kubectl does it: a plugin gets no names of files."""
    try:
        authority = address.authority.read()
    except OSError as error:
        raise CredentialsError(
            f"certificate-authority: {error.filename}: {error.strerror}"
        ) from error
    return {"certificate-authority-data": base64.b64encode(authority).decode()} if authority else {}


async def _output_of(
    process: asyncio.subprocess.Process, plugin: ExecPlugin, seconds: float | None
) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise CredentialsError(
            f"the exec plugin {plugin.command!r} has not ended within {seconds:.0f} s"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = (errors or b"").decode(errors="replace").strip()[-500:]
        message = f"the exec plugin {plugin.command!r} ended with {process.returncode}"
        raise CredentialsError(f"{message}: {said}" if said else message, plugin.install_hint)
    return output


def _read_answer(plugin: ExecPlugin, output: bytes) -> _ExecStatus:
    name = f"the exec plugin {plugin.command!r}"
    try:
        answer = msgspec.json.decode(output, type=_ExecAnswer)
    except msgspec.DecodeError as error:
        raise CredentialsError(f"{name} printed no ExecCredential: {error}") from error
    if answer.apiVersion != plugin.api_version:
        raise CredentialsError(
            f"{name} printed {answer.apiVersion!r}, the kubeconfig states {plugin.api_version!r}",
            "write the kubeconfig again with the version of the plugin that is installed",
        )
    status = answer.status
    if status is None or not (status.token or (status.certificate and status.key)):
        raise CredentialsError(f"{name} printed neither a token nor a certificate with its key")
    return status
