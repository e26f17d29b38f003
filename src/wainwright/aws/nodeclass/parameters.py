"""Parameters: what SSM holds, remembered for a day, and sooner doubted where it looks outdated."""

from collections.abc import Iterable
from typing import Final

from wainwright.aws.beside import Ssm
from wainwright.aws.nodeclass.paths import Published
from wainwright.aws.remember import Remembered
from wainwright.clock import Clock

KEPT: Final = 24 * 3600.0  # seconds
DOUBTED_AFTER: Final = 1800.0


class Parameters:
    """Values that were found; what is missing is asked for again each time."""

    def __init__(self, ssm: Ssm, clock: Clock) -> None:
        self._ssm = ssm
        self._clock = clock
        self._known: Remembered[str | None] = Remembered(
            clock, lambda found: 0.0 if found is None else KEPT
        )
        self._asked: dict[str, float] = {}
        self._named: dict[str, set[str]] = {}

    async def get(self, name: str) -> str | None:
        return await self._known.get(name, lambda: self._ask(name))

    async def _ask(self, name: str) -> str | None:
        self._asked[name] = self._clock.now()
        return await self._ssm.parameter(name)

    def names(self, image: str, published: Published) -> None:
        """Says which parameter led to an image, where it may lead elsewhere one day."""
        if published.mutable:
            self._named.setdefault(image, set()).add(published.parameter)

    def doubt(self, images: Iterable[str]) -> None:
        """Forgets what led to these images, unless it was asked for not long ago."""
        now = self._clock.now()
        for image in images:
            for name in self._named.get(image, ()):
                if now - self._asked.get(name, now) >= DOUBTED_AFTER:
                    self._known.forget(name)
