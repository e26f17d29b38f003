"""The changes of a story as server-sent events: numbered, so that a page which lost its connection
gets what it has missed, and bounded, so that nobody's absence costs memory.
"""

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.whole_numbers import parse_whole_number

MAX_FRAMES: Final = 2_000
MAX_BYTES: Final = 16 * 2**20


class FrameKind(StrEnum):
    STORY = "story"
    """All of it: a Report."""
    CHANGES = "changes"


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: FrameKind
    data: bytes
    """JSON, without line breaks."""

    def encode(self) -> bytes:
        """As text/event-stream has it."""
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (
            self.id.encode(),
            self.kind.encode(),
            self.data,
        )


class EventStream:
    """Frames in order. Whoever asks for those after one that is forgotten must begin anew.

    Frames are added by the thread that makes them; waiting is for tasks of the event loop.
    """

    def __init__(self, *, max_frames: int = MAX_FRAMES, max_bytes: int = MAX_BYTES) -> None:
        self._run = secrets.token_hex(4)
        self._max_frames, self._max_bytes = max_frames, max_bytes
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._number = 0
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def last_id(self) -> str:
        """Of another process it means nothing here."""
        return f"{self._run}-{self._number}"

    @property
    def next_id(self) -> str:
        """What the next frame is called."""
        return f"{self._run}-{self._number + 1}"

    def add(self, kind: FrameKind, data: bytes) -> None:
        with self._lock:
            self._number += 1
            self._frames.append(Frame(id=self.last_id, kind=kind, data=data))
            self._bytes += len(data)
            while len(self._frames) > 1 and self._is_too_long:
                self._bytes -= len(self._frames.popleft().data)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    @property
    def _is_too_long(self) -> bool:
        return len(self._frames) > self._max_frames or self._bytes > self._max_bytes

    def since(self, last_id: str) -> Sequence[Frame] | None:
        """Those after it; None where they are not known any more, or never were."""
        with self._lock:
            run, _, text = last_id.rpartition("-")
            number = parse_whole_number(text)
            if run != self._run or number is None:
                return None
            missing = self._number - number
            if not 0 <= missing <= len(self._frames):
                return None
            return list(self._frames)[len(self._frames) - missing :]

    async def wait(self, last_id: str) -> None:
        """Until there is a frame after it."""
        self._loop = asyncio.get_running_loop()
        waiting = self._loop.create_future()
        self._waiting.add(waiting)
        try:
            if self.last_id == last_id:
                await waiting
        finally:
            self._waiting.discard(waiting)

    def _wake(self) -> None:
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
