"""How long to wait after failures in a row."""

from random import Random
from typing import Final

FIRST_BACKOFF: Final = 0.5  # seconds
MAX_BACKOFF: Final = 300.0
BACKOFF_JITTER: Final = 0.2  # share by which a wait is shorter at most, so that failures spread


class Backoff:
    """How long to wait after failures in a row, twice as long each time; jitter by the seed."""

    def __init__(
        self, seed: int | str = 0, *, first: float = FIRST_BACKOFF, most: float = MAX_BACKOFF
    ) -> None:
        self._random = Random(seed)
        self._first, self._most = first, most
        self._failures: dict[str, int] = {}

    def failed(self, key: str) -> float:
        """Seconds until the next attempt."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        # The exponent is bounded: after days of failures the power would be no float any more.
        seconds = min(self._most, self._first * 2.0 ** min(count - 1, 32))
        return seconds * (1 - BACKOFF_JITTER * self._random.random())

    def succeeded(self, key: str) -> None:
        self._failures.pop(key, None)
