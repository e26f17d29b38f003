"""The little HTTP that tests speak to an API server, with no library to set up or to trust."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit

NO_QUERY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """What the API server says in a Status, or the bare text where it sent something else."""
        try:
            return str(self.json()["message"])
        except (ValueError, KeyError, TypeError):
            return self.body.decode(errors="replace")


class Client:
    """One kept-alive connection, opened anew when the server has dropped it. For one thread."""

    def __init__(self, url: str, *, ca_file: Path, token: str = "") -> None:
        parts = urlsplit(url)
        trust = ssl.create_default_context(cafile=ca_file)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=trust, timeout=30
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] = NO_QUERY,
    ) -> Response:
        target = f"{path}?{urlencode(query)}" if query else path
        headers = self._headers | ({} if body is None else {"Content-Type": content_type})
        reused = self._connection.sock is not None
        try:
            return self._exchange(method, target, body, headers)
        except (ConnectionError, ssl.SSLError):
            # A server may close an idle connection at any time. On a fresh one the same error
            # means something else, and the request may have been carried out.
            if not reused:
                raise
            return self._exchange(method, target, body, headers)

    def close(self) -> None:
        self._connection.close()

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Response:
        try:
            self._connection.request(method, target, body=body, headers=dict(headers))
            reply = self._connection.getresponse()
            return Response(reply.status, reply.read())
        except BaseException:
            self._connection.close()  # half an exchange would be taken for the next one's answer
            raise
