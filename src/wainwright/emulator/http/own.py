"""A path of our own beside those of AWS: what the account is, what it was asked, what to change.

GET  /_wain/account   names and ids, and how to point a client at it
GET  /_wain/state     what runs, what is reserved, what stands in the way
GET  /_wain/log       the latest requests; ?count=N for fewer
POST /_wain/change    a patch, in the fields of the Cloud kind and a few more (see `changes`)
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.announcement import announcement
from wainwright.emulator.http.journal import Journal
from wainwright.emulator.http.summary import summary
from wainwright.emulator.http.wire import Incoming, Reply
from wainwright.errors import AwsError, WainError

PREFIX: Final = "/_wain/"
JSON: Final = "application/json"


class Own:
    """Answers under our own path. Web pages are kept out: any page could send requests here."""

    def __init__(
        self,
        cloud: EmulatedCloud,
        journal: Journal,
        endpoint: str,
        changed: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._journal = journal
        self._endpoint = endpoint
        self._changed = changed
        self._paths: dict[tuple[str, str], Callable[[Incoming], Any]] = {
            ("GET", "account"): self._account,
            ("GET", "state"): self._state,
            ("GET", "log"): self._log,
            ("POST", "change"): self._change,
        }

    def answer(self, incoming: Incoming) -> Reply:
        name = incoming.path.removeprefix(PREFIX).rstrip("/")
        method = self._paths.get((incoming.method, name))
        if "Origin" in incoming.headers:
            return _refused(403, "web pages may not ask here")
        if method is None:
            paths = ", ".join(f"{verb} {PREFIX}{path}" for verb, path in self._paths)
            return _refused(404, f"there is no {incoming.method} {incoming.path}", paths)
        try:
            return Reply(200, msgspec.json.encode(method(incoming)), {"Content-Type": JSON})
        except WainError as error:
            return _refused(400, error.message, error.hint)

    def _account(self, _: Incoming) -> Any:
        return announcement(self._cloud, self._endpoint)

    def _state(self, _: Incoming) -> Any:
        return summary(self._cloud)

    def _log(self, incoming: Incoming) -> Any:
        wanted = dict(incoming.arguments).get("count")
        if wanted is not None and not wanted.isdigit():
            raise WainError(f"count: {wanted!r} is no number")
        return list(self._journal.latest(None if wanted is None else int(wanted)))

    def _change(self, incoming: Incoming) -> Any:
        try:
            patch = msgspec.json.decode(incoming.body)
        except msgspec.DecodeError as error:
            raise WainError(f"the change is no JSON: {error}") from None
        if not isinstance(patch, dict):
            raise WainError(f"the change is no object, but {type(patch).__name__}")
        try:
            self._cloud.change(patch)
        except AwsError as error:
            raise WainError(error.message) from error
        self._changed()
        return summary(self._cloud)


def _refused(status: int, message: str, hint: str = "") -> Reply:
    body = msgspec.json.encode({"error": message, "hint": hint})
    return Reply(status, body, {"Content-Type": JSON})
