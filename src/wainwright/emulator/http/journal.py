"""The journal: what was asked lately, and how it ended."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

MOST_BYTES: Final = 8 * 2**20
READS: Final = ("Describe", "Get", "List")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Status 0: no answer was given."""

    at: float
    seconds: float
    service: str
    operation: str
    status: int
    code: str | None
    params: Any

    @property
    def changes(self) -> bool:
        """Whether anything may be different after it."""
        return bool(self.operation) and not self.operation.startswith(READS)


class Journal:
    """Keeps the latest requests, as many as fit; tells whoever wants to know of each."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Entry], None]] = []
        self._kept: deque[bytes] = deque()
        self._size = 0

    def note(self, entry: Entry) -> None:
        written = msgspec.json.encode(entry)
        self._kept.append(written)
        self._size += len(written)
        while self._size > MOST_BYTES:
            self._size -= len(self._kept.popleft())
        for listener in self.listeners:
            listener(entry)

    def latest(self, count: int | None = None) -> Iterator[msgspec.Raw]:
        """The latest, oldest first, each as JSON."""
        skipped = 0 if count is None else max(len(self._kept) - count, 0)
        for number, written in enumerate(self._kept):
            if number >= skipped:
                yield msgspec.Raw(written)
