"""Requests to an account without a server, and random values of the shapes of an API."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from hypothesis import strategies as st
from tests.contract.raw_http import FORM, authorization_header
from tests.support.emulator_accounts import ManualClock

from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.admin_api import AdminApi, RequestLog
from wainwright.emulator.http.protocols import HttpRequest, HttpResponse
from wainwright.emulator.http.server import RequestRouter

ENDPOINT = "http://127.0.0.1:4580"


class RequestSender:
    def __init__(self, cloud: EmulatedAwsAccount | None = None) -> None:
        self.cloud = cloud or EmulatedAwsAccount(clock=ManualClock())
        self.request_log = RequestLog()
        self.router = RequestRouter(self.cloud, self.request_log)
        self.changes = 0
        self._admin_api = AdminApi(self.cloud, self.request_log, ENDPOINT, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def ec2(self, action: str, **fields: str) -> HttpResponse | None:
        body = urlencode({"Action": action, **fields}).encode()
        headers = {"Authorization": authorization_header("ec2"), "Content-Type": FORM}
        return self.send(HttpRequest("POST", "/", "", headers, body))

    def send(self, incoming: HttpRequest) -> HttpResponse | None:
        return asyncio.run(self.router.handle(incoming))

    def admin(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        name, _, query = path.partition("?")
        reply = self._admin_api.handle(HttpRequest(method, f"/_wain/{name}", query, headers, sent))
        return reply.status, json.loads(reply.body)


TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cn"), include_characters="\n\t\r"), max_size=8
)
"""Text that XML can represent, which must round-trip."""
KEYS = st.text(st.sampled_from('abc-:/.%&<>" é'), min_size=1, max_size=6)
TIMES = st.integers(0, 4_000_000_000_000).map(
    lambda millis: datetime.fromtimestamp(millis // 1000, UTC).replace(
        microsecond=millis % 1000 * 1000
    )
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)
DEEPEST = 5


def values(shape: Any, *, non_empty: bool = False, depth: int = 0) -> st.SearchStrategy[Any]:
    """`non_empty`: strings and lists are never empty, as not every protocol can express that."""
    match shape.type_name:
        case "structure":
            return structures(shape, non_empty=non_empty, depth=depth)
        case "list":
            first = values(shape.member, non_empty=non_empty, depth=depth + 1)
            return st.lists(first, min_size=int(non_empty), max_size=2)
        case "map":
            first = values(shape.value, non_empty=non_empty, depth=depth + 1)
            keys = st.sampled_from(shape.key.enum) if shape.key.enum else KEYS
            return st.dictionaries(keys, first, min_size=int(non_empty), max_size=2)
        case "string" if shape.serialization.get("location") == "uri":
            return TEXT.filter(bool)  # a path has no empty segments
        case kind:
            return SCALARS[kind]


def structures(shape: Any, *, non_empty: bool, depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """All required and some optional members; nesting is limited."""
    members = {
        name: values(member, non_empty=non_empty, depth=depth + 1)
        for name, member in shape.members.items()
        if depth < DEEPEST
        or name in shape.required_members
        or member.type_name not in ("structure", "list", "map")
    }
    required = {name: each for name, each in members.items() if name in shape.required_members}
    others = sorted(members.keys() - required.keys())

    @st.composite
    def some(draw: st.DrawFn) -> dict[str, Any]:
        chosen = draw(st.lists(st.sampled_from(others), max_size=3, unique=True)) if others else []
        found = {name: draw(each) for name, each in required.items()}
        found |= {name: draw(members[name]) for name in chosen}
        if non_empty and not found and others:
            found[others[0]] = draw(members[others[0]])
        return found

    return some()


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "character": TEXT,
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": NUMBERS,
    "double": NUMBERS,
    "boolean": st.booleans(),
    "timestamp": TIMES,
    "blob": st.binary(max_size=8),
}
