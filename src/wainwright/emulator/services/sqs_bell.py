"""The bell by which those who wait for messages are called."""

import asyncio

from wainwright.clock import Clock

LEAST: float = 0.001  # so that nobody waits for a moment that rounding puts a hair ahead


class Bell:
    """Who waits for which queue, and until when. All of it happens on one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Event, tuple[str, float]] = {}

    async def wait(self, queue: str, seconds: float, clock: Clock) -> None:
        """Until the bell rings for the queue, or the time is over."""
        seconds = max(seconds, LEAST)
        rung = asyncio.Event()
        self._waiting[rung] = queue, clock.now() + seconds
        tasks = [asyncio.ensure_future(rung.wait()), asyncio.ensure_future(clock.sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[rung]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def ring(self, queue: str) -> None:
        for rung, (name, _) in self._waiting.items():
            if name == queue:
                rung.set()

    def stir(self, due: float | None) -> None:
        """Wakes those who would sleep past the moment, for they do not know of it yet."""
        if due is None:
            return
        for rung, (_, until) in self._waiting.items():
            if until > due:
                rung.set()
