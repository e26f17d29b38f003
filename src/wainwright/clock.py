"""Time as a value: the system's, or a virtual one that jumps from one appointment to the next."""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar

Result = TypeVar("Result")

EPOCH: Final = 1_767_225_600.0  # 2026-01-01: where virtual time begins unless somebody says so


class Clock(Protocol):
    """What anything that waits may know of time."""

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that passes only when everybody waits; `run` is the only way to make it pass.

    All of asyncio runs on it, timeouts included: an hour of sleeping takes no time at all, and the
    same program gives the same moments every time.
    """

    def __init__(self, start: float = EPOCH) -> None:
        self._loop = _VirtualLoop(start)

    def now(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Lets time pass for what looks at the clock without waiting on it."""
        self._loop.advance(seconds)

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Runs the coroutine to its end, in virtual time."""
        return self._loop.run_until_complete(main)

    def close(self) -> None:
        self._loop.close()


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, start: float) -> None:
        self._now = start
        super().__init__(_VirtualSelector(self))
        # What is due counts as due from a microsecond before, as sums of floats fall short.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class _VirtualSelector(selectors.DefaultSelector):
    """Looks for real input, and where there is none moves the clock instead of waiting."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found: list[tuple[selectors.SelectorKey, int]] = super().select(
            timeout if timeout is None else 0
        )
        if not found and timeout:
            self._loop.advance(timeout)
        return found
