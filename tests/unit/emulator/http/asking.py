"""Asking an account through its door, without a server."""

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

from tests.contract.wire import FORM, signed
from tests.support.emulated import HandClock

from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.door import Door
from wainwright.emulator.http.journal import Journal
from wainwright.emulator.http.own import Own
from wainwright.emulator.http.wire import Incoming, Reply

ENDPOINT = "http://127.0.0.1:4580"


class Asking:
    def __init__(self, cloud: EmulatedCloud | None = None) -> None:
        self.cloud = cloud or EmulatedCloud(clock=HandClock())
        self.journal = Journal()
        self.door = Door(self.cloud, self.journal)
        self.changes = 0
        self._own = Own(self.cloud, self.journal, ENDPOINT, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def ec2(self, action: str, **fields: str) -> Reply | None:
        body = urlencode({"Action": action, **fields}).encode()
        headers = {"Authorization": signed("ec2"), "Content-Type": FORM}
        return self.send(Incoming("POST", "/", "", headers, body))

    def send(self, incoming: Incoming) -> Reply | None:
        return asyncio.run(self.door.answer(incoming))

    def own(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        name, _, query = path.partition("?")
        reply = self._own.answer(Incoming(method, f"/_wain/{name}", query, headers, sent))
        return reply.status, json.loads(reply.body)
