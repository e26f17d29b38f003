"""Where the seconds of a command went."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

PARTS: Final = ("read", "compile", "plan", "explain")


class Timings:
    """Seconds by part, and in all since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._parts = dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def spent(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._parts[part] += time.perf_counter() - start

    def line(self) -> str:
        total = time.perf_counter() - self._start
        rounded = {part: round(seconds, 6) for part, seconds in self._parts.items()}
        return msgspec.json.encode({**rounded, "total": round(total, 6)}).decode()
