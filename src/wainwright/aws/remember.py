"""Remember: what AWS said, for a while; those who ask at the same time wait for one answer."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from wainwright.clock import Clock

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """Values by key, each until its time is over. Failures are not remembered.

    `seconds` says for how long; it may depend on the value, as what is missing today may be there
    in a minute.
    """

    def __init__(self, clock: Clock, seconds: float | Callable[[Value], float]) -> None:
        self._clock = clock
        self._seconds = seconds if callable(seconds) else lambda _: seconds
        self._values: dict[Hashable, tuple[float, Value]] = {}
        self._asked: dict[Hashable, asyncio.Task[Value]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[Value]]) -> Value:
        """What is remembered, else the answer, which is then remembered."""
        known = self._values.get(key)
        if known is not None and known[0] > self._clock.now():
            return known[1]
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = asyncio.ensure_future(self._ask(key, ask))
            asked.add_done_callback(_seen)
        # Whoever goes away while waiting must not take the answer from the others.
        return await asyncio.shield(asked)

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await ask()
        finally:
            del self._asked[key]
        self._keep(key, value)
        return value

    def _keep(self, key: Hashable, value: Value) -> None:
        now = self._clock.now()
        for old in [each for each, (until, _) in self._values.items() if until <= now]:
            del self._values[old]
        self._values[key] = (now + self._seconds(value), value)

    def forget(self, key: Hashable) -> None:
        self._values.pop(key, None)

    def clear(self) -> None:
        self._values.clear()

    def known(self, key: Hashable) -> Value | None:
        """Without asking."""
        found = self._values.get(key)
        return found[1] if found is not None and found[0] > self._clock.now() else None


def _seen(asked: "asyncio.Task[Value]") -> None:
    """Where everybody has gone meanwhile, asyncio would complain of an error that nobody saw."""
    if not asked.cancelled():
        asked.exception()
