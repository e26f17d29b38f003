"""Raw HTTP requests, without an SDK."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as Tree

FORM = "application/x-www-form-urlencoded; charset=utf-8"


def authorization_header(service: str, region: str = "us-east-1") -> str:
    """The credential scope selects the service; the signature is not verified."""
    scope = f"AKID/20260131/{region}/{service}/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature=00ff"


class RawReply:
    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def xml(self) -> Tree.Element:
        """Without its namespace."""
        root = Tree.fromstring(self.body)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root

    def text(self, path: str) -> str | None:
        found = self.xml.find(path)
        return None if found is None else found.text or ""


class RawConnection:
    """One connection, kept alive."""

    def __init__(self, endpoint: str) -> None:
        where = urlsplit(endpoint)
        self.connection = HTTPConnection(where.hostname or "", where.port, timeout=30)

    def send(
        self, method: str, path: str, body: str | bytes | None, headers: Mapping[str, str]
    ) -> RawReply:
        self.connection.request(method, path, body, dict(headers))
        response = self.connection.getresponse()
        return RawReply(response.status, dict(response.getheaders()), response.read())

    def form(self, service: str, action: str, region: str = "us-east-1", **fields: Any) -> RawReply:
        """Dots in names are written as `__`."""
        named = {name.replace("__", "."): value for name, value in fields.items()}
        body = urlencode({"Action": action, "Version": "2016-11-15", **named})
        headers = {"Authorization": authorization_header(service, region), "Content-Type": FORM}
        return self.send("POST", "/", body, headers)

    def target(self, service: str, target: str, version: str, body: Any, **more: str) -> RawReply:
        headers = {
            "Authorization": authorization_header(service),
            "Content-Type": f"application/x-amz-json-{version}",
            "X-Amz-Target": target,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        return self.send("POST", "/", json.dumps(body), headers)

    def close(self) -> None:
        self.connection.close()
